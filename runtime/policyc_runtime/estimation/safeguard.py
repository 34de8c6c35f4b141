"""Which process the noisy values speak for: the declared chain, a smoothed or more dispersed one, or none.

A wrong chain does more harm than none. How well each candidate foretells every noisy value from the ones before (the
likelihood of its innovations) shows it. Only noisy values and public constants are looked at: this is post-processing,
and costs no privacy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policyc_runtime.estimation.count_process import MANY
from policyc_runtime.estimation.covariance import inverted, weighed
from policyc_runtime.estimation.gains import Forward
from policyc_runtime.estimation.laplace_channel import laplace_width, wide_precision
from policyc_runtime.estimation.recursions import apply_each, recur

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.estimation.count_process import CountProcess

    Array = NDArray[np.float64]

SMOOTHINGS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, math.inf)
DECLARED = "declared chain"
DISPERSIONS = (4.0, 16.0, 64.0)
LOOKED_AT = 2e7  # steps times squared cells: beyond, the choice stays what it was
STEPS_LOOKED_AT = 8192  # the same in steps: by then candidates that differ are told apart
REMEMBERED = 24  # processes whose covariances are kept: those of two streams that are tried again and again
WITHIN_ROUNDING = 1e-6  # of log likelihoods, relative: other machines round sums of products in another order
WRONGLY_LEFT = 0.01  # how often, at most, values of users who move as declared may speak for another candidate


@lru_cache(maxsize=8)
def candidates(process: CountProcess) -> list[CountProcess]:
    """The declared process first."""
    smoothed = [process.smoothed(amount) for amount in SMOOTHINGS]
    return smoothed if process.chain is None else [*smoothed, *(process.dispersed(factor) for factor in DISPERSIONS)]


def candidate_names() -> list[str]:
    """What the record of a run calls the candidates for a declared chain, in the order of `candidates`."""
    smoothed = [f"chain smoothed by {amount:g}" for amount in SMOOTHINGS[1:-1]]
    dispersed = [f"{DECLARED}, counts {factor:g} times as dispersed" for factor in DISPERSIONS]
    return [DECLARED, *smoothed, "no chain", *dispersed]


def times_likelier(count: int) -> float:
    """How many times likelier than the declared process another of `count` candidates must be to be used instead."""
    return max(1, count - 1) / WRONGLY_LEFT


def likeliest(
    processes: list[CountProcess], noisy: Array, scales: Array, *, balanced: bool = False
) -> NDArray[np.intp]:
    """For every step the candidate that the noisy values up to it speak for, (T,); arguments as for `evidence`."""
    chosen = np.argmax(evidence(processes, noisy, scales, balanced=balanced), axis=0)
    return np.concatenate([chosen, np.full(len(noisy) - len(chosen), chosen[-1])])


def within_rounding_of_likeliest(
    processes: list[CountProcess], noisy: Array, scales: Array, *, balanced: bool = False
) -> NDArray[np.bool_]:
    """Which candidates may be the likeliest at a step as far as floating-point sums can tell, (candidates, T)."""
    logs = evidence(processes, noisy, scales, balanced=balanced)
    best = logs.max(axis=0)
    likely = logs >= best - WITHIN_ROUNDING * (1.0 + np.abs(best))
    later = np.repeat(likely[:, -1:], len(noisy) - likely.shape[1], axis=1)
    return np.concatenate([likely, later], axis=1)


def looked_at(cells: int) -> int:
    """The first so many steps are looked at, of releases of so many cells."""
    return max(1, min(STEPS_LOOKED_AT, int(LOOKED_AT / cells**2)))


def evidence(processes: list[CountProcess], noisy: Array, scales: Array, *, balanced: bool = False) -> Array:
    """Log likelihoods of the candidates by the values up to every step that is looked at, (candidates, steps).

    The first, declared one is given the benefit of doubt: another one becomes likelier by a factor of k, at any step
    whatever, with probability at most 1 / k (Ville's inequality), and any of them with at most their number of that.
    The last column stands for all later steps.

    Args:
        processes: the candidates, the declared one first.
        noisy: (T, cells); rows with scale 0 are not read.
        scales: (T,) of the noise, 0 where nothing was released.
        balanced: the noise of a step's cells adds up to zero.

    Source: VIL39
    """
    wide = wide_precision(noisy.shape[1] if balanced else None)
    seen = slice(0, looked_at(noisy.shape[1]))

    def log_likelihoods(process: CountProcess) -> Array:
        return np.cumsum(innovation_log_likelihood(process, noisy[seen], scales[seen], wide))

    if processes[0].states < MANY:
        logs = np.array([log_likelihoods(process) for process in processes])
    else:  # products of large matrices let go of the interpreter's lock
        from concurrent.futures import ThreadPoolExecutor  # start-up: few releases have so many values

        with ThreadPoolExecutor(2) as pool:
            logs = np.array(list(pool.map(log_likelihoods, processes)))
    logs[0] += math.log(times_likelier(len(processes)))
    return logs


def innovation_log_likelihood(process: CountProcess, noisy: Array, scales: Array, wide: float = 0.5) -> Array:
    """Log density of every step's values given the ones before, as if noise were normal, (T,); 0 without values.

    `wide` is the `wide_precision` of the noise.
    """
    known = _innovations(process, scales.astype(np.float64).tobytes(), wide)
    seen = scales > 0
    away = np.where(seen[:, None], noisy - process.seen(process.expected(len(noisy))), 0.0)
    precision = np.array(known.precision)[known.which]
    inputs = apply_each(known.which, known.gain, precision * away)
    predicted, _ = recur(known.which, known.step, inputs, np.zeros(process.states))
    surprise = np.where(seen[:, None], away - process.seen(predicted), 0.0)
    squares = (surprise * apply_each(known.which, known.inverses, surprise)).sum(axis=1)
    return np.asarray(np.where(seen, -0.5 * (squares + np.array(known.sizes)[known.which]), 0.0))


class _Innovations(NamedTuple):
    """What does not depend on values: gains as `Forward` has them, and the inverse covariance and size of innovations.

    No covariance is kept: of hundreds of states each takes a megabyte, and every candidate has one a step.
    """

    which: NDArray[np.intp]
    precision: list[Array]
    gain: list[Array]
    step: list[Array]
    inverses: list[Array]
    sizes: list[float]


@lru_cache(maxsize=REMEMBERED)
def _innovations(process: CountProcess, scales: bytes, wide: float) -> _Innovations:
    """Of a process and the noise of its values."""
    kinds, labels = np.unique(np.frombuffer(scales), return_inverse=True)
    variances = laplace_width(kinds) ** 2 / wide
    precisions = np.repeat(1.0 / variances[:, None], process.cells, axis=1)
    forward = Forward(process, labels, precisions, gaps_at_once=process.states >= MANY)
    inverses, sizes, nothing = [], [], np.zeros((process.cells, process.cells))
    for before, after_precision in zip(forward.before, forward.precision, strict=True):
        if not after_precision.any():
            inverses.append(nothing)
            sizes.append(0.0)
            continue
        foretold = process.seen(process.seen(before).T)
        root = np.sqrt(after_precision)
        inverse, size = inverted(np.eye(process.cells) + weighed(foretold, root))
        inverses.append(root[:, None] * inverse * root)
        sizes.append(size - np.log(np.where(root > 0, root, 1.0)).sum() * 2.0)
    return _Innovations(forward.index, forward.precision, forward.gain, forward.step, inverses, sizes)
