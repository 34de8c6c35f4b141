"""The counts of independent users given noisy values of many steps: earlier ones for `filter`, all for `smoother`."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from policyc_runtime.estimation.cell_by_cell import variances_by_cell
from policyc_runtime.estimation.count_process import CountProcess, Mixture
from policyc_runtime.estimation.gaps import powers
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.estimation.safeguard import (
    candidate_names,
    candidates,
    likeliest,
    looked_at,
    within_rounding_of_likeliest,
)
from policyc_runtime.estimation.series import SMOOTHER_WAITS, CountsEstimator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain
    from policyc_runtime.estimation.constraints import ConstraintSet

    Array = NDArray[np.float64]


MOST_TOGETHER = 100  # states whose errors are predicted together: 400 that stay for long took 16 s a schedule, and 7 GB


BY_CELL = "; each of so many cells by itself: for 36 and 64 cells that gave squared errors from 4 % below to 20 % above"


def by_cell(chain: Chain) -> bool:
    """Whether errors are predicted for each cell by itself."""
    return chain.states > MOST_TOGETHER and not isinstance(chain, Mixture)


class PosteriorMean(CountsEstimator):
    """Posterior means over the count process.

    The chain is checked against the noisy values on the way: a smoothed chain, or none, is used where these speak for
    it. This sees released values only and costs no privacy.
    """

    @property
    def asks_noisy_values(self) -> bool:
        """It does."""
        return True

    def processes(
        self,
        noisy: Array,
        scales: Array,
        first: int,
        chain: Chain | None,
        constraints: ConstraintSet,
        delay: int | None,
        *,
        balanced: bool,
    ) -> list[str] | None:
        """What users are taken to move like at the steps from `first` on, as `Estimator.processes` says."""
        if chain is None or constraints.total is None:
            return None
        process = CountProcess.of(constraints.total, chain)
        chosen = likeliest(candidates(process), noisy, scales, balanced=balanced)
        if delay is None:
            chosen[:] = chosen[-1]
        elif delay:
            chosen = np.concatenate([chosen[delay:], np.full(min(delay, len(chosen)), chosen[-1])])
        names = candidate_names()
        return [names[number] for number in chosen[first:].tolist()]

    def goes_on(self, chain: Chain | None, constraints: ConstraintSet) -> bool:
        """It does, where there are users whose counts it knows."""
        return chain is not None and constraints.total is not None

    def decided(self, cells: int) -> int:
        """The step from which on users are taken to move as at the one before."""
        return looked_at(cells)

    def needed(
        self,
        scales: Array,
        first: int,
        chain: Chain | None,
        constraints: ConstraintSet,
        process: str,
        *,
        balanced: bool,
    ) -> int:
        """The first step whose noisy values are read for a filter's steps from `first` on, as `Estimator` says."""
        if chain is None or constraints.total is None or not process or first < self.decided(constraints.cells):
            return 0
        users = candidates(CountProcess.of(constraints.total, chain))[candidate_names().index(process)]
        return _filter(users, scales.astype(np.float64), balanced).needed(first)

    def unexplained_step(
        self,
        noisy: Array,
        scales: Array,
        used: Sequence[str],
        chain: Chain | None,
        constraints: ConstraintSet,
        delay: int | None,
        *,
        balanced: bool,
    ) -> int | None:
        """The first step that was not computed from what its noisy values speak for, as `Estimator` says.

        Where values wait for all others, all steps of a run have what the run's last one speaks for: the last step of
        a stretch with one name is the last of a run.
        """
        if chain is None or constraints.total is None:
            return super().unexplained_step(noisy, scales, used, chain, constraints, delay, balanced=balanced)
        process = CountProcess.of(constraints.total, chain)
        likely = within_rounding_of_likeliest(candidates(process), noisy, scales, balanced=balanced)
        numbers = {name: number for number, name in enumerate(candidate_names())}
        last = len(used) - 1
        for step, name in enumerate(used):
            if name == "" or (delay is None and step < last and used[step + 1] == name):
                continue
            ahead = range(step, min(step + (delay or 0), last) + 1)
            if name not in numbers or not likely[numbers[name], ahead].any():
                return step
        return None

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
        """(T - first, cells) expected counts, as `CountsEstimator.counts` says."""
        assert processes is not None, "these are known where the process is"
        known = dict(zip(candidate_names(), candidates(process), strict=True))
        names, labels = np.unique(np.array(processes), return_inverse=True)
        means: Array | None = None
        for number, name in enumerate(names.tolist()):
            wanted = np.concatenate([np.zeros(first, dtype=np.bool_), labels == number])
            users, steps = known[name], scales.astype(np.float64)
            posterior = _posterior(users, steps, delay, balanced) if delay != 0 else _filter(users, steps, balanced)
            found = posterior.means(noisy, wanted)[first:]
            means = found if means is None else np.where((labels == number)[:, None], found, means)
        assert means is not None, "there are steps"
        return means

    @property
    def prediction_method(self) -> str:
        """How `predicted_errors` knows."""
        return (
            "covariance of the counts given the noisy values, which the declared chain and the noise determine; where "
            "counts are so small that they meet a bound, errors are smaller"
        )

    def predicted_errors(
        self,
        chain: Chain | None,
        population: int,
        scales: Array,
        delay: int | None,
        objective: Literal["mean_squared_error", "mean_absolute_error"],
        *,
        integer: bool,
        balanced: bool = False,
    ) -> Array | None:
        """Expected error of every step, mean over cells, as `Estimator.predicted_errors` says."""
        if chain is None:
            return None
        process = CountProcess.of(float(population), chain)
        if by_cell(chain):
            variances = variances_by_cell(process, scales, delay, balanced=balanced)
        elif delay is None and _mostly_gaps(process, scales):
            variances = Posterior(process, scales, None, balanced=balanced, gaps_at_once=True).variances()
        else:
            variances = _posterior(process, scales, delay, balanced).variances()
        return np.asarray(_expected_error(np.maximum(variances, 0.0), objective, integer=integer).mean(axis=1))


class Filter(PosteriorMean):
    """Posterior mean of the counts given the noisy values so far; under `within(d)` given those of d more steps.

    The linear recursion is Kalman's over the exact first two moments of the counts of independent users; every noisy
    value enters with what Laplace noise lets one learn from it, by expectation propagation, not as a normal one.

    Source: KAL60
    """

    name: Literal["filter"] = "filter"


class Smoother(PosteriorMean):
    """Posterior mean of the counts given all noisy values, earlier and later, by expectation propagation.

    Source: MIN01
    """

    offline: ClassVar[str | None] = SMOOTHER_WAITS
    name: Literal["smoother"] = "smoother"


def _mostly_gaps(process: CountProcess, scales: Array) -> bool:
    """Whether most steps have no values, and those in a row need not be followed."""
    seen = np.flatnonzero(scales)
    longest = np.diff(np.concatenate([[-1], seen, [len(scales)]])).max()
    return len(seen) > 0 and 2 * len(seen) <= len(scales) and powers(process, int(longest)) is not None


FEW_KEPT, MOST_KEPT, NUMBERS_KEPT = 2, 16, 2e7  # filters, and of more than few of them numbers in their matrices

_growing: deque[tuple[CountProcess, bool, Posterior]] = deque(maxlen=MOST_KEPT)
"""Filters of streams that go on, the latest last: of a long one what every step needs is not found anew at each."""
_alone = Lock()


def _posterior(process: CountProcess, scales: Array, delay: int | None, balanced: bool) -> Posterior:
    return _remembered(process, scales.astype(np.float64).tobytes(), delay, balanced)


def _filter(process: CountProcess, scales: Array, balanced: bool) -> Posterior:
    """The filter of these steps, which may know of later ones too."""
    with _alone:
        for place, (users, balance, known) in enumerate(_growing):
            if users == process and balance == balanced and known.begins(scales):
                del _growing[place]  # one that an interruption leaves half way is not kept
                known.go_on(scales)
                _growing.append((users, balance, known))
                return known
        found = Posterior(process, scales, 0, balanced=balanced)
        _growing.append((process, balanced, found))
        while len(_growing) > FEW_KEPT and sum(known.numbers for *_, known in _growing) > NUMBERS_KEPT:
            _growing.popleft()
        return found


@lru_cache(maxsize=2)
def _remembered(process: CountProcess, scales: bytes, delay: int | None, balanced: bool) -> Posterior:
    """Its covariances depend on no values: they are kept for the next stream with the same noise."""
    return Posterior(process, np.frombuffer(scales), delay, balanced=balanced)


def _expected_error(variances: Array, objective: str, *, integer: bool) -> Array:
    """Of a normal error with these variances, rounded to whole numbers or not."""
    from scipy.special import ndtr

    squared = objective == "mean_squared_error"
    if not integer:
        return variances if squared else np.sqrt(variances * (2.0 / np.pi))
    wide = variances + 1.0 / 12.0
    error = wide if squared else np.sqrt(wide * (2.0 / np.pi))
    narrow = variances < 1.0
    if narrow.any():
        root = np.sqrt(np.maximum(variances[narrow], 1e-12))
        tails = [2.0 * ndtr(-(k - 0.5) / root) for k in range(1, 8)]
        error = error.copy()
        error[narrow] = sum((2 * k - 1 if squared else 1) * tail for k, tail in enumerate(tails, start=1))
    return error
