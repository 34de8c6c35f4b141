"""Means and variances of the counts given noisy values: expectation propagation whose precisions need no data.

Every noisy value stands for a normal observation (a site). Its precision is the one that the Laplace value is worth on
average under the belief about its cell (state evolution), so all covariances, and with them the expected errors, are
known before any data; only the sites' places follow the values, in a few sweeps. With later steps left out, a sweep
changes a step by earlier and own values alone: what the filter says of a step never depends on what follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.gains import Backward, Forward, Interned, combined
from policyc_runtime.estimation.laplace_channel import laplace_width, score, site_precision, wide_precision
from policyc_runtime.estimation.recursions import apply_each, recur, recur_back

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.estimation.count_process import CountProcess

    Array = NDArray[np.float64]
    Index = NDArray[np.intp]

SWEEPS = 4  # the first one brings nearly all; more than four change nothing that can be measured
FEW_SWEEPS = 2
MANY_VALUES = 2e6  # where two sweeps are enough
PRECISION_SWEEPS = 6
SETTLED = 1e-3  # relative change of precisions that ends their sweeps


class Posterior:
    """The counts of one process given values noised at given scales.

    Args:
        process: the users.
        scales: (T,) of discrete Laplace noise; 0 where a step has no values.
        delay: how many later steps count: 0 those of a filter, d of a fixed-lag smoother, None all.
        balanced: the noise of a step's cells adds up to zero.
    """

    def __init__(self, process: CountProcess, scales: Array, delay: int | None, *, balanced: bool = False) -> None:
        self._process = process
        self._delay = delay
        self._rounds: list[Index] = []
        kinds, labels = np.unique(scales, return_inverse=True)
        widths = laplace_width(kinds)
        self._width = widths[labels][:, None]
        by_label = np.repeat(widths[:, None], process.cells, axis=1)
        self._wide = wide_precision(process.cells if balanced else None)
        self._forward = Forward(process, labels, by_label, wide=self._wide)
        if delay is None:
            self._smooth(labels, by_label)
        elif delay > 0:
            self._look_ahead(delay)
        else:
            self._pair, self._mix = self._forward.index, [np.eye(process.cells) for _ in self._forward.after]
            self._covariance = self._forward.after

    def _smooth(self, labels: Index, widths: Array) -> None:
        """Precisions that agree with the covariances of both directions."""
        site_labels, precisions = self._forward.index, self._forward.precision
        for turn in range(PRECISION_SWEEPS + 1):
            if turn:
                self._forward = Forward(self._process, site_labels, precisions)
            self._backward = Backward(self._process, site_labels, precisions)
            self._later, self._back = self._backward.whole()
            self._join(self._later)
            if turn == PRECISION_SWEEPS:
                return
            kinds, fresh_labels = _pairs(self._pair, labels, site_labels)
            interned, change, names = Interned(), 0.0, []
            for pair, label, site in kinds:
                old = precisions[site]
                variance = np.diag(self._covariance[pair])
                belief = variance / np.maximum(1.0 - variance * old, 1e-12)
                fresh = site_precision(belief, widths[label], self._wide)
                change = max(change, float(np.abs(fresh - old).max() / max(fresh.max(), 1e-300)))
                names.append(interned.number(fresh))
            if change < SETTLED:
                return
            site_labels, precisions = np.array(names)[fresh_labels], interned.arrays

    def _join(self, later: Index) -> None:
        """Covariances given both directions, one for every pair of states that occurs."""
        kinds, self._pair = _pairs(self._forward.index, later)
        self._mix, self._covariance = [], []
        for state, number in kinds:
            after = self._forward.after[state]
            self._mix.append(combined(after, self._backward.information.arrays[number]))
            self._covariance.append(self._mix[-1] @ after)

    def _look_ahead(self, delay: int) -> None:
        """What the next steps say, one more of them a round."""
        self._backward = Backward(self._process, self._forward.index, self._forward.precision)
        steps = len(self._forward.index)
        later = np.full(steps, self._backward.nothing)
        for _ in range(min(delay, steps - 1)):
            found = [self._backward.before(number, t) for t, number in enumerate(later[1:].tolist(), start=1)]
            matrix = np.array([0, *(matrix for _, matrix in found)])
            self._rounds.append(matrix)
            later = np.array([*(number for number, _ in found), self._backward.nothing])
        self._join(later)

    def variances(self) -> Array:
        """(T, cells) expected squared errors, before any data."""
        return np.array([np.diag(covariance) for covariance in self._covariance])[self._pair]

    def means(self, noisy: Array) -> Array:
        """(T, cells) expected counts given the noisy values (T, cells); rows without values are not read."""
        expected = self._process.expected(len(noisy))
        forward = self._forward
        precision = np.array(forward.precision)[forward.index]
        away = np.where(precision > 0, noisy - expected, 0.0)
        causal = self._delay is not None
        covariance = forward.after if causal else self._covariance
        variance = np.array([np.diag(c) for c in covariance])[forward.index if causal else self._pair]
        left = np.maximum(1.0 - variance * precision, 1e-12)
        belief_variance = variance / left
        sites = precision * away
        for _ in range(SWEEPS if noisy.size <= MANY_VALUES else FEW_SWEEPS):
            now = self._filtered(sites, precision)
            if not causal:
                now = self._with_later(now, self._told_by_later(sites))
            belief = (now - variance * sites) / left
            pull = score(away - belief, belief_variance, self._width)
            sites = precision * belief + (1.0 + belief_variance * precision) * pull
        now = self._filtered(sites, precision)
        if self._delay != 0:
            now = self._with_later(now, self._told_by_later(sites))
        return np.asarray(expected + now)

    def _filtered(self, sites: Array, precision: Array) -> Array:
        """Means given own and earlier sites, away from expectation."""
        forward = self._forward
        predicted = recur(forward.index, forward.step, apply_each(forward.index, forward.gain, sites))
        return predicted + apply_each(forward.index, forward.after, sites - precision * predicted)

    def _told_by_later(self, sites: Array) -> Array:
        """Information vectors of later steps."""
        steps = self._backward.step
        if len(sites) > 1 and self._delay is None:
            return recur_back(self._back, steps, apply_each(self._back, steps, sites))
        told = np.zeros_like(sites)
        for matrix in self._rounds:
            told[:-1] = apply_each(matrix[1:], steps, (told + sites)[1:])
            told[-1] = 0.0
        return told

    def _with_later(self, filtered: Array, told: Array) -> Array:
        """Means given both directions."""
        return apply_each(self._pair, self._mix, filtered + apply_each(self._forward.index, self._forward.after, told))


def _pairs(*columns: Index) -> tuple[list[tuple[int, ...]], Index]:
    """The combinations that occur, and which one a step has."""
    kinds: dict[tuple[int, ...], int] = {}
    index = np.array([kinds.setdefault(key, len(kinds)) for key in zip(*(c.tolist() for c in columns), strict=True)])
    return list(kinds), index
