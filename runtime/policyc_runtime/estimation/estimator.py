"""What every estimator must be able to do."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Annotated, get_args

from pydantic import BeforeValidator, SerializeAsAny

from policyc_runtime.kinds import find_kinds, load_kind
from policyc_runtime.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from policyc_runtime.estimation.constraints import ConstraintSet
    from policyc_runtime.privacy import Chain


class Estimator(Record):
    """A rule from noisy values to published values; its fields are what the plan says of it."""

    name: str

    def described(self) -> str:
        """The estimator as a policy would write it: `mle()`, `map(prior = uniform)`."""
        settings = self.model_dump(exclude={"name"})
        return f"{self.name}({', '.join(f'{key} = {value}' for key, value in settings.items())})"

    def reason_against(self, chains: int, constraints: ConstraintSet) -> str | None:  # noqa: ARG002
        """Why this estimator does not apply with so many chains and these constraints, or None when it does."""
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


@cache
def estimator_kinds() -> dict[str, type[Estimator]]:
    """All estimators by name."""
    return find_kinds("policyc_runtime.estimation", Estimator)  # type: ignore[type-abstract]


def every_estimator() -> list[Estimator]:
    """Every estimator there is, with every value of a choice it offers."""
    found: list[Estimator] = []
    for kind in estimator_kinds().values():
        choices = {name: get_args(field.annotation) for name, field in kind.model_fields.items() if name != "name"}
        for values in product(*choices.values()):
            found.append(kind.model_validate(dict(zip(choices, values, strict=True))))
    return found


AnyEstimator = SerializeAsAny[Annotated[Estimator, BeforeValidator(load_kind(estimator_kinds))]]
