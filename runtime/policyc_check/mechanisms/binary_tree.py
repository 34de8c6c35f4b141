"""A binary tree of sums over 1, 2, 4, ... steps: a running total needs only as many of them as its length has bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from policyc_check.mechanisms.linear import GridMechanism, NonNegative, Numbers
from policyc_check.runs import Whole
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting


@dataclass(frozen=True)
class Tree(NonNegative):
    """The sum of every node of 1, 2, 4, ... steps that ends within the horizon, at the step that ends it."""

    horizon: int
    grid: int

    def measured(self, raw: Whole, first: int) -> Numbers:
        """The nodes that end at the steps, the smallest first."""
        sums = np.vstack([np.zeros((1, raw.shape[1]), dtype=np.int64), np.cumsum(raw, axis=0)]) * self.grid
        ends, levels = nodes(first, len(raw))
        return sums[ends] - sums[ends - (1 << levels)], np.bincount(ends - first - 1, minlength=len(raw) - first)

    def l2_square(self, participation: Participation) -> int:
        """Exact where spacing is 1.

        A node of w steps holds at most m = floor((w - 1) / spacing) + 1 participations, and squares add up to most when
        as many nodes as possible are full. Source: CSS11
        """
        square, bound = 0, participation.steps
        for level in range(self.horizon.bit_length()):
            most = min(bound, ((1 << level) - 1) // participation.spacing + 1)
            full = min(bound // most, self.horizon >> level)
            rest = bound - full * most if full < self.horizon >> level else 0
            square += full * most**2 + rest**2
        return square * self.grid**2


class BinaryTree(GridMechanism):
    """Measures the sum of every node of a binary tree over the steps, under discrete Gaussian noise.

    A node is measured at the step that ends it; the record has one number a cell and node, the smallest node first.
    """

    name: Literal["binary_tree"] = "binary_tree"
    grid: ClassVar[int] = 2**6

    def strategy(self, setting: Setting) -> Tree:
        """All nodes."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        return Tree(setting.horizon, self.grid)


def nodes(first: int, stop: int) -> Numbers:
    """Ends and levels of the nodes that end with the steps first to stop - 1, step by step, smallest first."""
    steps = np.arange(first + 1, stop + 1)
    counts = np.array([(int(step) & -int(step)).bit_length() for step in steps], dtype=np.int64)
    return np.repeat(steps, counts), np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
