"""What every estimator must be able to do."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, SerializeAsAny

from policyc_check.kinds import find_kinds, load_kind
from policyc_check.records import Record
from policyc_runtime.errors import ReleaseError
from policyc_runtime.offset import NO_OFFSET, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain
    from policyc_runtime.estimation.constraints import ConstraintSet


class Estimator(Record):
    """A rule from noisy values to published values; its fields are what the plan says of it."""

    name: str
    plain: ClassVar[bool] = False
    """Whether it is for plain series of values, not for counts of users who move between cells."""

    def described(self) -> str:
        """The estimator as a policy would write it: `mle()`, `map(prior = uniform)`."""
        settings = self.model_dump(exclude={"name"})
        return f"{self.name}({', '.join(f'{key} = {value}' for key, value in settings.items())})"

    def reason_against(self, laws: int, constraints: ConstraintSet) -> str | None:  # noqa: ARG002
        """Why this estimator does not apply where so many laws say where users are, or None when it does.

        Of several nobody knows how many users move by which; groups whose sizes are known have one law together.
        """
        return None

    def reason_against_delay(self, delay: int | None) -> str | None:  # noqa: ARG002
        """Why it does not apply where a value waits for so many later steps (None: for all), or None when it does."""
        return None

    def looks_ahead(self, delay: int | None) -> bool:  # noqa: ARG002
        """Whether a value depends on the values of later steps where it may wait for them."""
        return False

    @property
    def of_one_step(self) -> bool:
        """Whether values follow from the noisy ones of their own step, and from what the step before published."""
        return False

    @property
    def fills(self) -> bool:
        """Whether it has values for steps without a release."""
        return False

    @property
    def prediction_method(self) -> str | None:
        """How `predicted_errors` knows, as a phrase; None where it does not."""
        return None

    @abstractmethod
    def law(
        self, chain: Chain | None, steps: range, cells: int, first_noisy: NDArray[np.float64] | None
    ) -> NDArray[np.float64] | None:
        """The prior probabilities of the cells at the given 0-based steps, (len(steps), cells); None when it uses none.

        `first_noisy` are the noisy values of step 0, for priors made from them.
        """

    @abstractmethod
    def estimate(
        self,
        noisy: NDArray[np.float64],
        scales: NDArray[np.float64],
        law: NDArray[np.float64] | None,
        constraints: ConstraintSet,
        previous: NDArray[np.float64] | None,
    ) -> NDArray[np.float64]:
        """Published values (rows, cells) from noisy ones.

        Args:
            noisy: (rows, cells); rows are consecutive steps, or independent ones where constraints do not couple steps.
            scales: (rows,) Laplace scales, > 0.
            law: (rows, cells) as `law` gave it, or None.
            constraints: what the published values must satisfy.
            previous: (cells,) values published for the step before the first row, or None at step 0.

        Raises:
            ReleaseError: no values satisfy the constraints; names the row.
        """

    def estimate_series(
        self,
        noisy: NDArray[np.float64],
        scales: NDArray[np.float64],
        first: int,
        chain: Chain | None,
        constraints: ConstraintSet,
        previous: NDArray[np.float64] | None,
        delay: int | None,
        *,
        balanced: bool = False,  # noqa: ARG002
        processes: Sequence[str] | None = None,  # noqa: ARG002
        offset: Offset = NO_OFFSET,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Published values (T - first, cells) of the steps from `first` on; earlier ones are published already.

        Args:
            noisy: (T, cells) values of all steps so far; rows of steps without a release are not read.
            scales: (T,) Laplace scales, 0 where nothing was released.
            first: 0-based step of the first row to publish.
            chain: how users move, where there is one law for all.
            constraints: what the published values must satisfy; their `first_step` is `first`.
            previous: (cells,) values published for the step before `first`, or None at step 0.
            delay: how many later steps a value may wait for: 0, d, or None for all. Other than with None, values of a
                step use noisy values up to so many steps later, as far as these are there, and nothing else.
            balanced: whether the noise of a step's cells adds up to zero.
            processes: by step from `first` on, what `processes` said; None to ask it here.
            offset: what noisy values are off by together, beside that.

        Raises:
            ReleaseError: no values satisfy the constraints, or this estimator cannot fill a step without a release.
        """
        if not (scales[first:] > 0).all():
            raise ReleaseError(
                "E0829",
                f"`{self.name}` cannot fill steps without a release",
                because="it looks at every step on its own",
                help="use `filter` or `smoother`, or a schedule that releases every step",
            )
        law = self.law(chain, range(first, len(noisy)), noisy.shape[1], noisy[0])
        if delay is None or not constraints.couples_steps:
            return self.estimate(noisy[first:], scales[first:], law, constraints, previous)

        def one(row: slice, alone: ConstraintSet, before: NDArray[np.float64] | None) -> NDArray[np.float64]:
            believed = None if law is None else law[row]
            return self.estimate(noisy[first:][row], scales[first:][row], believed, alone, before)

        return step_by_step(one, len(noisy) - first, constraints, previous)

    @property
    def asks_noisy_values(self) -> bool:
        """Whether it asks the noisy values what users move like: whether `processes` has an answer."""
        return False

    def processes(
        self,
        noisy: NDArray[np.float64],  # noqa: ARG002
        scales: NDArray[np.float64],  # noqa: ARG002
        first: int,  # noqa: ARG002
        chain: Chain | None,  # noqa: ARG002
        constraints: ConstraintSet,  # noqa: ARG002
        delay: int | None,  # noqa: ARG002
        *,
        balanced: bool,  # noqa: ARG002
    ) -> list[str] | None:
        """By step from `first` on, what users are taken to move like; None where the noisy values are not asked.

        Arguments as for `estimate_series`. A function of noisy values and public constants alone.
        """
        return None

    def goes_on(self, chain: Chain | None, constraints: ConstraintSet) -> bool:  # noqa: ARG002
        """Whether values of a step that wait for none are made of noisy ones of few steps before it: see `needed`."""
        return self.of_one_step

    def decided(self, cells: int) -> int:  # noqa: ARG002
        """The step from which on `processes` says of every step what it says of the one before."""
        return 0

    def needed(
        self,
        scales: NDArray[np.float64],  # noqa: ARG002
        first: int,
        chain: Chain | None,  # noqa: ARG002
        constraints: ConstraintSet,  # noqa: ARG002
        process: str,  # noqa: ARG002
        *,
        balanced: bool,  # noqa: ARG002
    ) -> int:
        """The first step whose noisy values are read for values of steps from `first` on, of one that `goes_on`.

        It never falls as `first` grows.

        Args:
            scales: (first,) of the steps before.
            first: as for `estimate_series`.
            chain: likewise.
            constraints: likewise.
            process: what `processes` said of the last step before; empty for nothing.
            balanced: as for `estimate_series`.
        """
        return first

    def unexplained_step(
        self,
        noisy: NDArray[np.float64],  # noqa: ARG002
        scales: NDArray[np.float64],  # noqa: ARG002
        used: Sequence[str],
        chain: Chain | None,  # noqa: ARG002
        constraints: ConstraintSet,  # noqa: ARG002
        delay: int | None,  # noqa: ARG002
        *,
        balanced: bool,  # noqa: ARG002
    ) -> int | None:
        """The first step whose process, of those a ledger says were used, cannot be what `processes` said, or None.

        The other arguments as for `processes`. Empty texts say nothing.
        """
        return next((step for step, name in enumerate(used) if name), None)

    def predicted_errors(
        self,
        chain: Chain | None,  # noqa: ARG002
        population: int,  # noqa: ARG002
        scales: NDArray[np.float64],  # noqa: ARG002
        delay: int | None,  # noqa: ARG002
        objective: Literal["mean_squared_error", "mean_absolute_error"],  # noqa: ARG002
        *,
        integer: bool,  # noqa: ARG002
        balanced: bool = False,  # noqa: ARG002
    ) -> NDArray[np.float64] | None:
        """The expected error of every step, (T,), mean over cells, before any data; None where it is not known so.

        Args:
            chain: how users move.
            population: how many there are.
            scales: (T,) Laplace scales, 0 where nothing is released.
            delay: as for `estimate_series`.
            objective: the unit of the answer.
            integer: whether values are whole numbers.
            balanced: whether the noise of a step's cells adds up to zero.
        """
        return None


def step_by_step(
    one: Callable[[slice, ConstraintSet, NDArray[np.float64] | None], NDArray[np.float64]],
    rows: int,
    constraints: ConstraintSet,
    previous: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Rows that constraints couple, each given the one before: what a step publishes may not wait for the next."""
    values = np.empty((rows, constraints.cells))
    for row in range(rows):
        alone = replace(constraints, first_step=constraints.first_step + row)
        values[row : row + 1] = one(slice(row, row + 1), alone, previous)
        alone.check(values[row : row + 1], previous)
        previous = values[row]
    return values


@cache
def estimator_kinds() -> dict[str, type[Estimator]]:
    """All estimators by name."""
    return find_kinds("policyc_runtime.estimation", Estimator)  # type: ignore[type-abstract]


def every_estimator() -> list[Estimator]:
    """Every estimator there is for counts of users by cell, with every value of a choice it offers."""
    found: list[Estimator] = []
    for kind in estimator_kinds().values():
        if kind.plain:
            continue
        choices = {name: get_args(field.annotation) for name, field in kind.model_fields.items() if name != "name"}
        for values in product(*choices.values()):
            found.append(kind.model_validate(dict(zip(choices, values, strict=True))))
    return found


def twins(constraints: ConstraintSet, delay: int | None) -> set[str]:
    """Names of estimators that are the same as another here, so that comparing both says nothing.

    Under constraints `none` is `mle`, without them `mle` is `none`; where values wait for all, `filter` is `smoother`.
    """
    return {"mle" if constraints.demands_nothing else "none"} | ({"filter"} if delay is None else set())


AnyEstimator = SerializeAsAny[Annotated[Estimator, BeforeValidator(load_kind(estimator_kinds))]]
