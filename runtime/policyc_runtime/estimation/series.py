"""What estimators share that look at many steps at once: what is expected first, then the nearest values allowed."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation.count_process import CountProcess
from policyc_runtime.estimation.estimator import Estimator, step_by_step
from policyc_runtime.estimation.projection import nearest_values
from policyc_runtime.offset import NO_OFFSET, Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain
    from policyc_runtime.estimation.constraints import ConstraintSet

    Array = NDArray[np.float64]


SMOOTHER_WAITS = "values may not wait for all later steps; `filter` uses those there are"


class SeriesEstimator(Estimator):
    """What the noisy values of many steps say of each, then the nearest values that are allowed.

    `offline`: why values must be able to wait for all later steps; None where they need not.
    """

    offline: ClassVar[str | None] = None

    @property
    def fills(self) -> bool:
        """It has: what the values of other steps say."""
        return True

    def reason_against_delay(self, delay: int | None) -> str | None:
        """Why values cannot be made while they may wait for `delay` later steps only."""
        return None if delay is None else self.offline

    def looks_ahead(self, delay: int | None) -> bool:
        """Whether a value depends on later steps."""
        return self.offline is not None or delay != 0

    def law(self, chain: Chain | None, steps: range, cells: int, first_noisy: Array | None) -> Array | None:  # noqa: ARG002
        """No prior of a single step."""
        return None

    def estimate(
        self,
        noisy: Array,
        scales: Array,  # noqa: ARG002
        law: Array | None,  # noqa: ARG002
        constraints: ConstraintSet,
        previous: Array | None,
    ) -> Array:
        """The values nearest to expected ones given in place of the noisy ones."""
        return nearest_values(noisy, constraints, previous)

    @staticmethod
    def allowed(expected: Array, constraints: ConstraintSet, previous: Array | None, delay: int | None) -> Array:
        """The nearest values that keep the constraints, (steps, cells): of all steps together where all may wait."""
        if delay is None or not constraints.couples_steps:
            return nearest_values(expected, constraints, previous)
        return step_by_step(
            lambda row, alone, before: nearest_values(expected[row], alone, before),
            len(expected),
            constraints,
            previous,
        )


class CountsEstimator(SeriesEstimator):
    """Counts of the declared users given the noisy values of many steps, then the nearest values that are allowed."""

    @abstractmethod
    def counts(
        self,
        process: CountProcess,
        noisy: Array,
        scales: Array,
        first: int,
        delay: int | None,
        *,
        balanced: bool,
        processes: Sequence[str] | None,
    ) -> Array:
        """(T - first, cells) what the noisy values say of the counts, whatever the constraints.

        Args:
            process: the declared users.
            noisy: (T, cells); rows with scale 0 are not read.
            scales: (T,) of the noise, 0 where nothing was released.
            first: 0-based step of the first row of the answer.
            delay: how many later steps a step may use; None for all.
            balanced: whether the noise of a step's cells adds up to zero.
            processes: by step of the answer, as `Estimator.processes` has them.
        """

    def reason_against(self, laws: int, constraints: ConstraintSet) -> str | None:
        """Why this estimator does not apply, or None when it does."""
        if laws != 1:
            return "it needs one chain that says how users move, or groups with a `share` each"
        if constraints.cells == 1:
            return "one number a step is not a law over cells"
        if constraints.total is None:
            return "no constraint says what the cells add up to"
        return None

    def estimate_series(
        self,
        noisy: Array,
        scales: Array,
        first: int,
        chain: Chain | None,
        constraints: ConstraintSet,
        previous: Array | None,
        delay: int | None,
        *,
        balanced: bool = False,
        processes: Sequence[str] | None = None,
        offset: Offset = NO_OFFSET,  # noqa: ARG002
    ) -> Array:
        """Values of the steps from `first` on, as `Estimator.estimate_series` says."""
        process = None if chain is None or constraints.total is None else CountProcess.of(constraints.total, chain)
        if process is None or process.cells != noisy.shape[1]:
            raise ReleaseError(
                "E0833",
                f"there is nothing to make the model of `{self.name}` from",
                because="it needs one chain over the cells of the release, and what these add up to",
                help="choose another estimator in the policy and compile again",
            )
        if processes is None:
            processes = self.processes(noisy, scales, first, chain, constraints, delay, balanced=balanced)
        counts = self.counts(process, noisy, scales, first, delay, balanced=balanced, processes=processes)
        return self.allowed(counts, constraints, previous, delay)
