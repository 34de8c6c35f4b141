"""A binary tree of sums over 1, 2, 4, ... steps: a running total needs only as many of them as its length has bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from policyc_check.mechanisms import binary_tree as checked
from policyc_check.mechanisms.binary_tree import nodes
from policyc_runtime.mechanisms.linear import GridMechanism
from policyc_runtime.mechanisms.mechanism import StepRecord

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
        ends, levels = nodes(0, len(records))
        measured = np.array([number for record in records for number in record], dtype=np.float64) / self.grid
        if measured.size != ends.size * setting.cells:
            raise ValueError("these are no records of a binary tree")
        measured = measured.reshape(ends.size, setting.cells)
        estimates = [measured[levels == level] for level in range(len(records).bit_length())]
        shares = _shares_below(len(records))
        for level in range(1, len(estimates)):
            below = _pairs(estimates[level - 1]).sum(axis=1)
            estimates[level] = below + shares[level] * (estimates[level] - below)
        if setting.wait is None and setting.workload != "window":
            _use_what_is_above(estimates)
            return np.cumsum(estimates[0], axis=0) if setting.workload == "prefix" else estimates[0]
        return _over_intervals(estimates, *_intervals(setting, len(records)))


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


def _over_intervals(nodes: Sequence[Array], first: Series, after: Series) -> Array:
    """Sums, (intervals, cells), of the fewest nodes that make up each interval."""
    result = np.zeros((first.size, nodes[0].shape[1] if nodes else 1))
    for level in nodes:
        for odd, place in (
            ((first & 1 == 1) & (first < after), first),
            ((after & 1 == 1) & (first < after), after - 1),
        ):
            result[odd] += level[place[odd]]
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
    place, noise = np.arange(steps), below[0] if below else 0.0
    node, both, part = (np.full(steps, noise) for _ in range(3))
    for level in range(1, len(below)):
        inside = place >> level < steps >> level
        left = below[level - 1] * (inside & totals & (place >> (level - 1) & 1 == 1))
        node, both, part = node + below[level - 1] * inside, both + left, part + left
        gain = inside / (node + noise)
        part = part - gain * both**2
        both, node = both * (1 - gain * node), node * (1 - gain * node)
    if totals:
        start = 0
        for level in range(len(below) - 1, -1, -1):
            if steps >> level & 1:
                start += 1 << level
                part[start:] += below[level]
    return part
