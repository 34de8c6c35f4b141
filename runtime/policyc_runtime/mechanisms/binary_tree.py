"""A binary tree of sums over 1, 2, 4, ... steps: a running total needs only as many of them as its length has bits."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from policyc_check.mechanisms import binary_tree as checked
from policyc_check.mechanisms.binary_tree import nodes
from policyc_runtime.mechanisms.linear import GridMechanism
from policyc_runtime.mechanisms.mechanism import Left, StepRecord

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting

Array = NDArray[np.float64]
Series = NDArray[np.int64]


class BinaryTree(checked.BinaryTree, GridMechanism):
    """`BinaryTree` of the check, drawn.

    Each node's sum is then estimated from its own measurement and those below it, by their variances (Honaker);
    offline, steps and running totals use those above and beside it as well.

    What differs from Chan, Shi, Song: Gaussian noise, for all of a user's events, and estimates from all nodes.

    Source: CSS11, HON15, BW18, CKS20
    """

    independent: ClassVar[bool] = False

    def variances(self, setting: Setting, steps: int) -> Array:
        """The variance of the noise of every step, (steps,)."""
        below = [share * float(self.stddev) ** 2 for share in _shares_below(steps)]
        if setting.wait is None and setting.workload != "window":
            return _variances_of_all(below, steps, totals=setting.workload == "prefix")
        estimates = [np.full((steps >> level, 1), variance) for level, variance in enumerate(below)]
        return _over_intervals(estimates, *_intervals(setting, steps))[:, 0]

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> Array:
        """Totals over the steps of each value, of as few estimated nodes as possible."""
        if setting.wait is None and setting.workload != "window":
            estimates = self._estimated(setting, 0, (), records)
            _use_what_is_above(estimates)
            return np.cumsum(estimates[0], axis=0) if setting.workload == "prefix" else estimates[0]
        return self.values_after(setting, 0, (), records)[0]

    @property
    def goes_on(self) -> bool:
        """Nodes that end later are made of new steps, and of the few nodes before them that are not yet in a larger."""
        return True

    def looks_back(self, setting: Setting, first: int, steps: int) -> int:  # noqa: ARG002
        """To where the largest node begins that ends there: of a step in two none, as half of all nodes are steps."""
        ends, levels = nodes(first, steps)
        return int(np.min(ends - (1 << levels), initial=first))

    def values_after(
        self, setting: Setting, first: int, left: Left, records: Sequence[StepRecord]
    ) -> tuple[Array, Left]:
        """Values of as few nodes as possible; left are estimates, by level, of nodes that later values may need."""
        steps = first + len(records)
        estimates = self._estimated(setting, first, left, records)
        kept = [_first_left(setting, first, level) for level in range(len(estimates))]
        begins, ends = _intervals(setting, steps)
        values = _over_intervals(estimates, begins[first:], ends[first:], kept)
        return values, [
            nodes[_first_left(setting, steps, level) - kept[level] :] for level, nodes in enumerate(estimates)
        ]

    def _estimated(self, setting: Setting, first: int, left: Left, records: Sequence[StepRecord]) -> list[Array]:
        """By level, nodes that were left and those that end since, (nodes, cells), each estimated from those below."""
        ends, levels = nodes(first, first + len(records))
        measured = np.array([number for record in records for number in record], dtype=np.float64) / self.grid
        if measured.size != ends.size * setting.cells:
            raise ValueError("these are no records of a binary tree")
        measured = measured.reshape(ends.size, setting.cells)
        shares = _shares_below(first + len(records))
        estimates: list[Array] = []
        for level, share in enumerate(shares):
            new = measured[levels == level]
            if level:
                begin = 2 * (first >> level) - _first_left(setting, first, level - 1)
                below = _pairs(estimates[level - 1][begin:]).sum(axis=1)
                new = below + share * (new - below)
            kept = left[level] if level < len(left) else new[:0]
            estimates.append(np.concatenate([np.reshape(kept, (-1, setting.cells)), new]))
        return estimates


def _pairs(nodes: Array) -> Array:
    """Nodes of one level, (nodes, cells), as children of the next, (nodes // 2, 2, cells)."""
    return nodes[: len(nodes) // 2 * 2].reshape(len(nodes) // 2, 2, nodes.shape[1])


def _shares_below(steps: int) -> list[float]:
    """For every level, the variance of its estimate from below, relative to a measurement; also the latter's weight."""
    shares = [1.0]
    for _ in range(1, steps.bit_length()):
        shares.append(2 * shares[-1] / (1 + 2 * shares[-1]))
    return shares


def _intervals(setting: Setting, steps: int) -> tuple[Series, Series]:
    """First step, and step after the last, of what each value adds up."""
    after = np.arange(1, steps + 1)
    if setting.workload == "prefix":
        return np.zeros(steps, dtype=np.int64), after
    return np.maximum(after - (setting.window or 1), 0), after


def _first_left(setting: Setting, steps: int, level: int) -> int:
    """Of the nodes of a level that end within so many steps, the first one that values of later steps may need.

    In a running total that is at most the last one, where it is a left child: others are in a larger one by then.
    """
    last = 2 * (steps >> (level + 1))
    if setting.workload == "prefix":
        return last
    return min(last, -(-max(steps + 1 - (setting.window or 1), 0) >> level))


def _over_intervals(nodes: Sequence[Array], first: Series, after: Series, kept: Sequence[int] | None = None) -> Array:
    """Sums, (intervals, cells), of the fewest nodes that make up each interval; by level, from node `kept` on."""
    result = np.zeros((first.size, nodes[0].shape[1] if nodes else 1))
    for level, begin in zip(nodes, kept or [0] * len(nodes), strict=True):
        for odd, place in (
            ((first & 1 == 1) & (first < after), first),
            ((after & 1 == 1) & (first < after), after - 1),
        ):
            result[odd] += level[place[odd] - begin]
        first, after = (first + 1) >> 1, after >> 1
    return result


def _use_what_is_above(estimates: list[Array]) -> None:
    """Estimates from below become those from all measurements: what a node knows better, its children share evenly."""
    for level in range(len(estimates) - 1, 0, -1):
        pairs = _pairs(estimates[level - 1])
        short = (estimates[level] - pairs.sum(axis=1)) / 2
        estimates[level - 1][: 2 * len(short)] += np.repeat(short, 2, axis=0)


def _variances_of_all(below: Sequence[float], steps: int, *, totals: bool) -> Array:
    """Variances of estimates from all measurements: of running totals, or of the steps themselves.

    From the step up to the largest node over it, with the variance of the node's sum, of the part of it that is asked
    for, and their covariance, given what is measured below.
    """
    node, both, part = below[0], np.full(1, below[0]), np.full(1, below[0])
    trees = [part]  # of 1, 2, 4, ... steps: those below one node are alike for every node of its level
    for level in range(1, len(below)):
        left = below[level - 1] if totals else 0.0
        node, both, part = node + below[level - 1], np.append(both, both + left), np.append(part, part + left)
        gain = 1 / (node + below[0])
        part = part - gain * both**2
        both, node = both * (1 - gain * node), node * (1 - gain * node)
        trees.append(part)
    variances, before = [np.zeros(0)], list[float]()
    for level in range(len(below) - 1, -1, -1):
        if steps >> level & 1:
            variances.append(functools.reduce(operator.add, before, trees[level]))
            before += [below[level]] if totals else []
    return np.concatenate(variances)
