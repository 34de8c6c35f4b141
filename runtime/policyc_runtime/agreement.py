"""Levels that agree: values of a level that add up to those of the next, made so after noise by least squares.

Every value has noise of its own, of a known variance; so the nearest values that agree, distances being measured by
these variances, are those of the best linear unbiased estimate. One pass up the levels and one down finds them: on the
way up every value is averaged with the sum of what belongs to it, on the way down what is missing to a sum is spread
over its parts by their variances (HAY10, for equal variances).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.stream import CellRecord
from policyc_check.records import Count, Name, Record
from policyc_runtime.ancestors import parents
from policyc_runtime.estimation.digits import EXACT, MOST, decimals

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class Agreement(Record):
    """That for each value of `parent` those values of `child` that belong to it add up to it, in the policy's words."""

    text: str
    line: Count
    child: Name
    parent: Name


@dataclass(frozen=True)
class Tree:
    """Releases that agree, the finest first; `above[l]` has for each value of one the index of its own in the next."""

    names: tuple[str, ...]
    above: tuple[Indices, ...]

    def nearest(self, values: Sequence[Array], variances: Sequence[Array]) -> list[Array]:
        """The nearest values that agree.

        Args:
            values: of each release, (steps, cells), noisy.
            variances: of the noise of each release's values, (steps,), > 0.
        """
        best, spread = [values[0]], [np.broadcast_to(variances[0][:, None], values[0].shape)]
        sums, spreads = [], []
        for own, value, variance in zip(self.above, values[1:], variances[1:], strict=True):
            sums.append(added_up(best[-1], own))
            spreads.append(added_up(spread[-1], own))
            share = spreads[-1] / (spreads[-1] + variance[:, None])
            best.append(share * value + (1 - share) * sums[-1])
            spread.append(share * variance[:, None])
        found = [best.pop()]
        for level in reversed(range(len(self.above))):
            own = self.above[level]
            missing = (found[0] - sums[level]) / spreads[level]
            found.insert(0, best[level] + spread[level] * missing[:, own])
        return found

    def variances(self, variances: Sequence[float]) -> list[Array]:
        """The variances of what `nearest` gives, (cells,) of each release, for noise of these variances."""
        spread, spreads = [np.full(len(self.above[0]), variances[0])], []
        for own, variance in zip(self.above, variances[1:], strict=True):
            spreads.append(added_up(spread[-1][None], own)[0])
            spread.append(spreads[-1] * variance / (spreads[-1] + variance))
        found = [spread.pop()]
        for level in reversed(range(len(self.above))):
            own, whole = self.above[level], spreads[level]
            part = spread[level] / whole[own]
            found.insert(0, spread[level] - part**2 * (whole - found[0])[own])
        return found

    def rounded(self, values: Sequence[Array], digits: int) -> list[Array]:
        """Values with so many decimals that add up to the last digit; with all digits where numbers have no room."""
        scale = 10.0**digits
        whole = [np.rint(values[0] * scale)]
        for own in self.above:
            whole.append(added_up(whole[-1], own))
        room = np.max([np.abs(level).max(axis=1) for level in whole], axis=0)[:, None] < EXACT
        return [np.where(room, level / scale, value) for level, value in zip(whole, values, strict=True)]


def added_up(values: Array, own: Indices) -> Array:
    """(steps, parents) sums of (steps, cells) values over the cells that belong to each; none is without cells."""
    order = np.argsort(own, kind="stable")
    starts = np.flatnonzero(np.diff(own[order], prepend=-1))
    return np.asarray(np.add.reduceat(values[:, order], starts, axis=1))


def trees(cell: CellRecord | None, columns: Mapping[str, str | None], agreements: Sequence[Agreement]) -> list[Tree]:
    """The releases that agree with each other, from the finest on.

    Args:
        cell: of the stream.
        columns: what each release is split by.
        agreements: each release is the child of one and the parent of one at most.

    Raises:
        ValueError: values do not belong to one value of the next, or releases are not as said above.
    """
    up = {agreement.child: agreement.parent for agreement in agreements}
    if len(up) < len(agreements) or len(set(up.values())) < len(up):
        raise ValueError("a release adds up to one other, and one adds up to it")
    found = []
    for first in sorted(up.keys() - set(up.values())):
        names, above = [first], []
        while names[-1] in up:
            child, parent = columns[names[-1]], columns[up[names[-1]]]
            if cell is None or child is None or child == parent:
                raise ValueError(f"`{names[-1]}` has no values that could belong to those of another")
            if parent is None:
                own: Indices | None = np.zeros(len(cell.states_by[child]), np.int64)
            else:
                own = parents(cell, child, parent)
            if own is None:
                raise ValueError(f"values of `{names[-1]}` belong to several of `{up[names[-1]]}`")
            above.append(own)
            names.append(up[names[-1]])
        found.append(Tree(tuple(names), tuple(above)))
    if sum(len(tree.above) for tree in found) < len(agreements):
        raise ValueError("releases add up to each other in a circle")
    return found


def digits_of(tree: Tree, noise: Mapping[str, float]) -> int:
    """Decimals for values whose typical errors are these, so that rounding adds up to less than they are."""
    own = max(decimals(noise[name]) for name in tree.names)
    return min(own + math.ceil(math.log10(len(tree.above[0])) / 2), MOST)
