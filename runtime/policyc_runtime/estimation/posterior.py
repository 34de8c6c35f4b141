"""Means and variances of the counts given noisy values: expectation propagation whose precisions need no data.

Every noisy value stands for a normal observation (a site). Its precision is the one that the Laplace value is worth on
average under the belief about its cell (state evolution), so all covariances, and with them the expected errors, are
known before any data; only the sites' places follow the values, in a few sweeps. With later steps left out, a sweep
changes a step by earlier and own values alone: what the filter says of a step never depends on what follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.count_process import MANY
from policyc_runtime.estimation.covariance import seen_variances
from policyc_runtime.estimation.gains import Backward, Forward
from policyc_runtime.estimation.gaps import EXACT, powers
from policyc_runtime.estimation.interned import Interned
from policyc_runtime.estimation.laplace_channel import laplace_width, score, site_precision, wide_precision
from policyc_runtime.estimation.recursions import apply_each, piece_at, pieces, recur, recur_back

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.estimation.count_process import CountProcess

    Array = NDArray[np.float64]
    Index = NDArray[np.intp]

SWEEPS = 4  # the first one brings nearly all; more than four change nothing that can be measured
FEW_SWEEPS = 2
MANY_VALUES = 2e6  # where two sweeps are enough
PRECISION_SWEEPS = 6
LEAST_LEFT = 1e-6  # of a belief's precision that is not the value's own: doubles tell no less apart
SETTLED = 1e-3  # relative change of precisions that ends their sweeps


class Posterior:
    """The counts of one process given values noised at given scales.

    Args:
        process: the users.
        scales: (T,) of discrete Laplace noise; 0 where a step has no values.
        delay: how many later steps count: 0 those of a filter, d of a fixed-lag smoother, None all.
        balanced: the noise of a step's cells adds up to zero.
        gaps_at_once: whether nothing but variances will be asked: steps without values in a row then are not followed.
    """

    def __init__(
        self,
        process: CountProcess,
        scales: Array,
        delay: int | None,
        *,
        balanced: bool = False,
        gaps_at_once: bool = False,
    ) -> None:
        self._process = process
        self._delay = delay
        self._wide = wide_precision(process.cells if balanced else None)
        self._kinds: Array = np.zeros(0)  # scales that occur, in the order in which they are first seen
        self._widths: Array = np.zeros((0, process.cells))
        self._labels = self._labelled(scales)
        self._gaps_at_once = gaps_at_once
        self._forward = Forward(process, self._labels, self._widths, wide=self._wide, gaps_at_once=gaps_at_once)
        if delay is None:
            self._smooth(self._labels, self._widths)

    def _labelled(self, scales: Array) -> Index:
        """The numbers of these scales among the kinds that are known, and of those that are new."""
        kinds, first, labels = np.unique(scales, return_index=True, return_inverse=True)
        fresh = kinds[np.argsort(first)]
        self._kinds = np.concatenate([self._kinds, fresh[~np.isin(fresh, self._kinds)]])
        self._widths = np.repeat(laplace_width(self._kinds)[:, None], self._process.cells, axis=1)
        numbers = {kind: number for number, kind in enumerate(self._kinds.tolist())}
        return np.array([numbers[kind] for kind in kinds.tolist()], dtype=np.intp)[labels]

    def begins(self, scales: Array) -> bool:
        """Whether the steps that are known are the first of these, or these the first of them."""
        known = min(len(self._labels), len(scales))
        return np.array_equal(self._kinds[self._labels[:known]], scales[:known])

    def go_on(self, scales: Array) -> None:
        """Know of all these steps, of which the known ones are the first; where no value waits for all others."""
        if len(scales) > len(self._labels):
            labels = self._labelled(scales[len(self._labels) :])
            self._forward.go_on(labels, self._widths)
            self._labels = np.concatenate([self._labels, labels])

    @property
    def numbers(self) -> int:
        """How many there are in the matrices of a filter, about."""
        return 6 * sum(matrix.size for matrix in self._forward.after)

    def needed(self, first: int) -> int:
        """The first step whose noisy values are read for means from step `first` on, of a filter."""
        return self._forward.needed(piece_at(first))

    def _smooth(self, labels: Index, widths: Array) -> None:
        """Precisions that agree with the covariances of both directions.

        Covariances are needed of steps with values alone.
        """
        seen = np.flatnonzero(np.isfinite(widths[labels, 0]))
        few = self._gaps_at_once or self._process.states >= MANY  # each may take a megabyte
        asked = seen if few else np.arange(len(labels))
        site_labels, precisions = self._forward.index, self._forward.precision
        for turn in range(PRECISION_SWEEPS + 1):
            if turn:
                self._forward = Forward(self._process, site_labels, precisions, gaps_at_once=self._gaps_at_once)
            self._backward = Backward(self._process, self._forward)
            self._later = self._backward.whole(asked)
            pair, variances = self._joined(seen, self._later if asked is seen else self._later[seen])
            kinds, fresh_labels = _pairs(pair, labels[seen], site_labels[seen])
            interned, change, names = Interned(), 0.0, []
            nothing = interned.number(np.zeros(self._process.cells))
            for number, label, site in kinds:
                old, variance = precisions[site], variances[number]
                belief = variance / np.maximum(1.0 - variance * old, 1e-12)
                fresh = site_precision(belief, widths[label], self._wide)
                change = max(change, float(np.abs(fresh - old).max() / max(fresh.max(), 1e-300)))
                names.append(interned.number(fresh))
            if change < SETTLED or turn == PRECISION_SWEEPS:
                self._seen_variances = np.zeros((len(labels), self._process.cells))
                self._seen_variances[seen] = variances[pair]
                return
            site_labels, precisions = np.full(len(labels), nothing), interned.arrays
            site_labels[seen] = np.array(names)[fresh_labels]

    def _joined(self, rows: slice | Index, later: Index) -> tuple[Index, Array]:
        """Variances given both directions, (K, cells): one row for every pair of states that occurs, and which."""
        kinds, pair = _pairs(self._forward.index[rows], later)
        information = self._backward.information.arrays
        variances = np.empty((len(kinds), self._process.cells))
        for row, (state, number) in zip(variances, kinds, strict=True):
            after = self._forward.after[state]
            told = self._process.seen(after)  # of what is seen with all states, both ways
            known = seen_variances(self._process, after)
            row[:] = np.maximum(known - ((information[number] @ told) * told).sum(axis=0), EXACT * known)
        return pair, variances

    def _ahead(self) -> Index:
        """What the next steps say of each, as many as are waited for."""
        states = self._backward.learn(self._forward.index).tolist()
        later = np.full(len(states), self._backward.nothing)
        for _ in range(min(self._delay or 0, len(states) - 1)):
            found = [self._backward.before(n, state) for n, state in zip(later[1:].tolist(), states[1:], strict=True)]
            later = np.array([*found, self._backward.nothing])
        return later

    def variances(self) -> Array:
        """(T, cells) expected squared errors, before any data."""
        if self._gaps_at_once:
            return self._with_gaps()
        if self._delay == 0:
            return self._variances(self._forward.after)[self._forward.index]
        if self._delay:
            self._backward = Backward(self._process, self._forward)
        elif len(self._later) < len(self._labels):
            self._later = self._backward.whole(np.arange(len(self._labels)))
        pair, variances = self._joined(slice(None), self._ahead() if self._delay else self._later)
        return variances[pair]

    def _with_gaps(self) -> Array:
        """The same where steps without values were not followed."""
        found, index, backward = self._seen_variances.copy(), self._forward.index, self._backward
        seen = np.flatnonzero(np.isfinite(self._widths[self._labels, 0]))
        begins, ends = np.concatenate([[0], seen + 1]), np.concatenate([seen, [len(found)]])
        later = [backward.before(number, int(index[t])) for number, t in zip(self._later.tolist(), seen, strict=True)]
        numbers = np.array([*later, backward.nothing])
        for steps in set((ends - begins).tolist()) - {0}:
            some = np.flatnonzero(ends - begins == steps)
            kinds, which = _pairs(index[begins[some]], numbers[some])
            covariances = np.array([self._forward.before[state] for state, _ in kinds])
            information = np.array([backward.information.arrays[number] for _, number in kinds])
            gaps = powers(self._process, steps)
            assert gaps is not None, "asked before"
            rows = begins[some][:, None] + np.arange(steps)
            found[rows] = gaps.variances(covariances, information, steps)[which]
        return found

    def means(self, noisy: Array, wanted: NDArray[np.bool_] | None = None) -> Array:
        """(T, cells) expected counts given the noisy values (T, cells); rows without values are not read.

        `wanted` (T,) marks the rows that are asked for; others may hold anything.
        """
        if self._delay is None:
            return self._smoothed(noisy)
        if self._delay:
            self._backward = Backward(self._process, self._forward)
        means = np.empty(noisy.shape)
        for piece in pieces(len(noisy)):
            if wanted is None or wanted[piece].any():
                means[piece] = self._filtered(noisy, piece)
        return means

    def _filtered(self, noisy: Array, piece: slice) -> Array:
        """Means of a piece of steps, from values that are not forgotten by then to those that may be waited for."""
        start = self._forward.needed(piece.start)
        rows = slice(start, min(piece.stop + (self._delay or 0), len(noisy)))
        nothing = np.zeros(self._process.states)
        variance = self._variances(self._forward.after)[self._forward.index[rows]]
        precision, away = self._seen(noisy, rows)
        sites = precision * away
        for _ in range(SWEEPS):
            now, _, _ = self._given_earlier(sites, rows, nothing)
            self._move(sites, rows, now, variance, precision, away)
        now, surprise, _ = self._given_earlier(sites, rows, nothing)
        if self._delay:
            index, told = self._backward.learn(self._forward.index[rows]), np.zeros_like(now)
            own = apply_each(index, self._backward.gain, surprise)
            for _ in range(min(self._delay, len(now) - 1)):
                told[:-1] = apply_each(index[1:], self._backward.step, told[1:]) + own[1:]
            now += apply_each(index, self._forward.after, told)
        now = self._process.seen(now + self._process.expected(len(now), start))
        return now[piece.start - start : piece.stop - start]

    def _smoothed(self, noisy: Array) -> Array:
        """Means given all values, piece by piece; only sites and means are held of all steps together."""
        sweeps = SWEEPS if noisy.size <= MANY_VALUES else FEW_SWEEPS
        steps, cuts, nothing = len(noisy), list(pieces(len(noisy))), np.zeros(self._process.states)
        sites, surprises, means = np.empty(noisy.shape), np.empty(noisy.shape), np.empty((steps, self._process.states))
        for sweep in range(sweeps + 1):
            state = later = nothing
            for rows in cuts:
                if sweep == 0:
                    sites[rows] = np.multiply(*self._seen(noisy, rows))
                means[rows], surprises[rows], state = self._given_earlier(sites[rows], rows, state)
            for rows in reversed(cuts):
                index = self._forward.index[rows]
                own = apply_each(index, self._backward.gain, surprises[rows])
                told, later = recur_back(index, self._backward.step, own, later)
                if sweep < sweeps:
                    told[self._empty(rows)] = 0.0  # of steps without values nothing is asked yet
                means[rows] += apply_each(index, self._forward.after, told)
                if sweep < sweeps:
                    self._move(sites[rows], rows, means[rows], self._seen_variances[rows], *self._seen(noisy, rows))
                else:
                    means[rows] += self._process.expected(rows.stop - rows.start, rows.start)
        return self._process.seen(means)

    def _empty(self, rows: slice) -> NDArray[np.bool_]:
        """Which of these steps have no values."""
        return np.asarray(np.isinf(self._widths[self._labels[rows], 0]))

    def _seen(self, noisy: Array, rows: slice) -> tuple[Array, Array]:
        """Precisions of the values of these rows, and how far values are from expectation; both 0 without values."""
        precision = np.array(self._forward.precision)[self._forward.index[rows]]
        expected = self._process.seen(self._process.expected(len(precision), rows.start))
        return precision, np.where(precision > 0, noisy[rows] - expected, 0.0)

    def _move(self, sites: Array, rows: slice, now: Array, variance: Array, precision: Array, away: Array) -> None:
        """Move sites to where the values put them, given what everything else says."""
        now = self._process.seen(now)
        width, seen = self._widths[self._labels[rows], :1], np.flatnonzero(~self._empty(rows))
        variance, precision = variance[seen], precision[seen]
        # where less noise is told apart than there is, values are taken to have as much as is
        width = np.maximum(width[seen], np.sqrt(self._wide / np.maximum(precision, 1e-300)))
        left = np.maximum(1.0 - variance * precision, LEAST_LEFT)
        belief, belief_variance = (now[seen] - variance * sites[seen]) / left, variance / left
        pull = score(away[seen] - belief, belief_variance, width)
        moved = precision * belief + (1.0 + belief_variance * precision) * pull
        sites[seen] = np.where(left > LEAST_LEFT, moved, precision * away[seen])  # else the value says all there is

    def _variances(self, matrices: list[Array]) -> Array:
        """(K, cells) of K covariances."""
        return np.array([seen_variances(self._process, matrix) for matrix in matrices])

    def _given_earlier(self, sites: Array, rows: slice, start: Array) -> tuple[Array, Array, Array]:
        """Means given own and earlier sites, away from expectation; each site's surprise; the prediction after all."""
        forward, index = self._forward, self._forward.index[rows]
        predicted, after = recur(index, forward.step, apply_each(index, forward.gain, sites), start)
        surprise = sites - np.array(forward.precision)[index] * self._process.seen(predicted)
        return predicted + apply_each(index, forward.pull, surprise), surprise, after


def _pairs(*columns: Index) -> tuple[list[tuple[int, ...]], Index]:
    """The combinations that occur, and which one a step has."""
    kinds: dict[tuple[int, ...], int] = {}
    keys = zip(*(column.tolist() for column in columns), strict=True)
    index = np.array([kinds.setdefault(key, len(kinds)) for key in keys], dtype=np.intp)
    return list(kinds), index
