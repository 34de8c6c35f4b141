"""Covariances of the counts given noisy values, forward and backward, each computed once however often it comes back.

Covariances do not depend on values: with constant or repeating noise they soon repeat, and steps share them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.covariance import (
    inverted,
    own_precisions,
    sharpest,
    symmetric,
    updated,
    weighed,
)
from policyc_runtime.estimation.gaps import powers
from policyc_runtime.estimation.interned import SAME, Interned
from policyc_runtime.estimation.recursions import piece_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policyc_runtime.estimation.count_process import CountProcess

    Array = NDArray[np.float64]
    Index = NDArray[np.intp]

SAME_INFORMATION = 1e-13  # the same of information, beside which little is left of a covariance
FORGOTTEN = 1e-20  # an influence below this changes no double
TOGETHER = 1024  # steps that are looked for among those that came before


class Forward:
    """Gains of the filter: of every step its predicted covariance, its precisions, and its covariance afterwards.

    `index` (T,) says which of the lists' entries is a step's.
    """

    def __init__(
        self,
        process: CountProcess,
        labels: Index,
        precisions: Sequence[Array] | Array,
        *,
        wide: float | None = None,
        gaps_at_once: bool = False,
    ):
        """What is known of every step.

        Args:
            process: of the counts.
            labels: (T,) of what is known of a step's noise.
            precisions: by label; or widths when `wide` is given.
            wide: what a value tells where nothing else is known, as `site_precision` says.
            gaps_at_once: whether steps without values in a row have one entry, with the covariances of the first.
        """
        self.before: list[Array] = []
        self.precision: list[Array] = []
        self.after: list[Array] = []
        self.pull: list[Array] = []  # site to mean, (states, cells)
        self.step: list[Array] = []  # predicted mean to next predicted mean
        self.gain: list[Array] = []  # site to next predicted mean, (states, cells)
        self.index: Index = np.zeros(0, dtype=np.intp)
        self._process = process
        self._wide = wide
        self._gaps_at_once = gaps_at_once
        self._predicted = Interned()
        self._known: dict[tuple[int, int], int] = {}
        self._gaps: dict[tuple[int, int], int] = {}  # by what is predicted before, and of how many steps
        self._moves: list[int] = []
        self._needed: dict[int, int] = {}
        self._now = self._predicted.number(process.start())
        self._idle: tuple[Array, Array] | None = None  # step and gain of a step without values
        self.go_on(labels, precisions)

    def go_on(self, labels: Index, precisions: Sequence[Array] | Array) -> None:
        """Further steps, after those that are there; arguments as above, and precisions of earlier labels too."""
        first, index = len(self.index), np.empty(len(labels), dtype=np.intp)
        seen: dict[tuple[int, bytes], tuple[int, int]] = {}  # schedules repeat: where the same steps began alike
        for begin in range(0, len(labels), TOGETHER):
            piece = slice(begin, begin + TOGETHER)
            alike = self._now, labels[piece].tobytes()
            if alike in seen:
                earlier, self._now = seen[alike]
                index[piece] = index[earlier : earlier + len(index[piece])]
                continue
            self._follow(labels[piece], precisions, first + begin, index[piece])
            if first + begin >= self._process.settled:
                seen[alike] = begin, self._now
        self.index = np.concatenate([self.index, index])

    def _follow(self, labels: Index, precisions: Sequence[Array] | Array, first: int, index: Index) -> None:
        """Fill in the `index` of steps from `first` on, one after the other."""
        settled, now = self._process.settled, self._now
        stretches = np.flatnonzero(np.diff(labels, prepend=-1)).tolist()
        for begin, end in pairwise([*stretches, len(labels)]):
            label = int(labels[begin])
            for t in range(begin, end):
                state = self._known.get((now, label)) if first + t >= settled else None
                if state is None:
                    state = self._computed(now, label, np.asarray(precisions[label]), first + t)
                index[t] = state
                if self._moves[state] == now and first + t >= settled:  # and so it goes on as long as the noise
                    index[t:end] = state
                    break
                now = self._moves[state]
                if self._gaps_at_once and not self.precision[state].any():
                    index[t:end] = state
                    now = self._after_gap(now, range(first + t + 1, first + end))
                    break
        self._now = now

    def _after_gap(self, now: int, steps: range) -> int:
        """The number of what is predicted after some steps without values, which are not kept."""
        key = now, len(steps)
        if steps.start >= self._process.settled and key in self._gaps:
            return self._gaps[key]
        covariance, gaps = self._predicted.arrays[now], powers(self._process, len(steps))
        if gaps:
            covariance = gaps.covariance(covariance, len(steps))
        for t in steps if not gaps else ():
            earlier, covariance = covariance.diagonal(), self._moved_on(self._process.moved(covariance), t)
            variances = covariance.diagonal()
            if t >= self._process.settled and np.abs(variances - earlier).max() <= SAME * variances.max():
                break  # as it is, it stays
        found = self._predicted.number(covariance) if steps else now
        if steps.start >= self._process.settled:
            self._gaps[key] = found
        return found

    def _moved_on(self, moved: Array, t: int) -> Array:
        """The covariance that is predicted after step `t`, from what is moved on from one side."""
        return symmetric(self._process.moved(moved.T) + self._process.spread(t))

    def _computed(self, now: int, label: int, given: Array, t: int) -> int:
        """The number of a new entry of the lists, for a step before which this is predicted."""
        process, covariance, state = self._process, self._predicted.arrays[now], len(self.after)
        if self._wide is None:
            precision = np.minimum(given, sharpest(process, covariance))
            after = updated(process, covariance, precision)
        else:
            precision, after = own_precisions(process, covariance, given, self._wide)
        self.before.append(covariance)
        self.precision.append(precision)
        self.after.append(after)
        moved = process.moved(after)
        step, gain = self._led_on(process.seen(moved), precision)
        self.pull.append(process.seen(after))
        self.step.append(step)
        self.gain.append(gain)
        self._moves.append(self._predicted.number(self._moved_on(moved, t)))
        if t >= process.settled:
            self._known[now, label] = state
        return state

    def _led_on(self, gain: Array, precision: Array) -> tuple[Array, Array]:
        """From a predicted mean to the next one, where states add up to 0 and all of it fades; and the site's gain.

        All steps without values have the same: of hundreds of states a matrix takes a megabyte.
        """
        if precision.any():
            return _less_means(self._process, self._process.move.T - self._process.unseen(gain * precision)), gain
        if self._idle is None:
            self._idle = _less_means(self._process, self._process.move.T), np.zeros_like(gain)
        return self._idle

    def needed(self, step: int) -> int:
        """The step from which on values matter for what is predicted at a piece's first `step`, and at later ones.

        What is forgotten at one piece is at later ones: it never falls, even where less is forgotten for a while.
        """
        if step not in self._needed:
            found, earlier = self._forgotten(step), piece_at(step - 1)
            while earlier > found:
                if earlier in self._needed:
                    found = max(found, self._needed[earlier])
                    break
                found, earlier = max(found, self._forgotten(earlier)), piece_at(earlier - 1)
            self._needed[step] = found
        return self._needed[step]

    def _forgotten(self, step: int) -> int:
        """The step from which on the values before `step` matter for what is predicted there; most often far from 0."""
        start = step
        influence = np.eye(len(self.after[0])) if self.after else np.zeros((0, 0))
        while start > 0 and np.abs(influence).max(initial=0.0) > FORGOTTEN:
            start -= 1
            influence = influence @ self.step[self.index[start]]
        return max(0, 2 * start - step)  # twice as far, for the sweeps that build on each other


class Backward:
    """What later steps say of a step: information matrices, and how their vectors go one step back.

    The information is that of what is left of the filter's covariance C: given later steps too it is C - C information
    C. Steps without values need no inverse and no product of full matrices. The total is known: what is said of it
    would pile up without end, and is left out.

    Source: DJ89
    """

    def __init__(self, process: CountProcess, forward: Forward) -> None:
        self.step: dict[int, Array] = {}  # by state of the filter, what later steps say to what these and the step say
        self.gain: dict[int, Array] = {}  # surprise of a site to that
        self._process = process
        self._forward = forward
        self._known: dict[tuple[int, int], int] = {}
        self._seen: dict[int, tuple[Array, Array]] = {}  # of states with values
        self._idle = _back(process, np.eye(process.states)), np.zeros((process.states, process.cells))
        self.information = Interned(SAME_INFORMATION)
        self.nothing = self.information.number(np.zeros_like(process.move))

    def learn(self, states: Index) -> Index:
        """These states, of which `step` and `gain` are known from now on."""
        for state in np.unique(states).tolist():
            if state not in self.step:
                precision = self._forward.precision[state]
                values = precision.any()
                self.step[state], self.gain[state] = self._of_values(state, precision) if values else self._idle
        return states

    def _of_values(self, state: int, precision: Array) -> tuple[Array, Array]:
        process, before = self._process, self._forward.before[state]
        root = np.sqrt(precision)
        known = np.where(root > 0, root, 1.0)
        foretold = process.seen(process.seen(before).T)
        inverse, _ = inverted(np.eye(process.cells) + weighed(foretold, root))
        worth = root[:, None] * inverse * root  # inverse covariance of what values are away from what was foretold
        left = np.eye(process.states) - process.unseen((worth @ process.seen(before).T).T).T
        self._seen[state] = process.unseen(process.unseen(worth).T), left
        gain = process.unseen((root[:, None] * inverse / known).T).T
        return _back(process, left), _back(process, gain)

    def before(self, number: int, state: int) -> int:
        """From the information of later steps at a step with this state of the filter to the one at the step before."""
        found = self._known.get((number, state))
        if found is None:
            told = self.information.arrays[number]
            if state in self._seen:
                own, left = self._seen[state]
                told = own + left @ told @ left.T
            found = self.information.number(self._told_back(told))
            self._known[number, state] = found
        return found

    def whole(self, steps: Index) -> Index:
        """For some steps, rising, all with values among them, the number of the information of all later ones."""
        states = self.learn(self._forward.index)
        found, number, end = np.empty(len(steps), dtype=np.intp), self.nothing, len(states)
        for place in range(len(steps) - 1, -1, -1):
            step = int(steps[place])
            if end < len(states):
                number = self.before(number, int(states[end]))
                number = self._before_gap(number, end - step - 1)
            found[place], end = number, step
        return found

    def _before_gap(self, number: int, steps: int) -> int:
        """From the information of later steps to that so many steps without values earlier; between it is not kept."""
        key = number, -steps
        if steps and key not in self._known:
            told, gaps = self.information.arrays[number], powers(self._process, steps)
            if gaps:
                told = gaps.told_back(told, steps)
            for _ in range(steps if not gaps else 0):
                told = self._told_back(told)
            self._known[key] = self.information.number(told)
        return self._known[key] if steps else number

    def _told_back(self, told: Array) -> Array:
        """Information of later steps as what it is of the states of the step before."""
        return symmetric(_back(self._process, _back(self._process, told).T))


def _back(process: CountProcess, rows: Array) -> Array:
    """What is said of the states of a step, (states, k), said of those of the step before, less what fades."""
    found = process.moved_back(rows)
    for own in process.blocks:
        found[own] -= found[own].mean(axis=0)
    return found


def _less_means(process: CountProcess, matrix: Array) -> Array:
    """A matrix that is applied to states which add up to 0 in each group: the same there, less what fades."""
    found = np.array(matrix)  # in the same order of memory
    for own in process.blocks:
        found[:, own] -= matrix[:, own].mean(axis=1, keepdims=True)
    return found
