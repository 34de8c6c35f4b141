"""Budgets and leakage of a plan's steps, computed once through the kernel and shared by tables, blocks and pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.inheritance import accepted_inheritance
from policyc.planning.leakage.losses import Losses, losses_of
from policyc.planning.leakage.pairs import most_spent, settled
from policyc.planning.leakage.recursion import backward_leakage, both_sides, supremum
from policyc.planning.leakage.settled_runs import largest_leakage
from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.targets import AlphaDPT
from policyc_check.steps.budgets import repeating_budgets, total_budgets, window_sums
from policyc_check.steps.inheritance import GroupLeakage, audited_leakage
from policyc_runtime.plan import Plan

Array = NDArray[np.float64]
ENDLESS_STRETCH = 100


@dataclass(frozen=True)
class Leakage:
    """Backward, forward and total leakage in nats, (steps,) each."""

    backward: Array
    forward: Array
    total: Array


@dataclass(frozen=True)
class Accounting:
    """What every step of a plan spends and leaks; of an endless stream, a stretch from its start."""

    plan: Plan

    @cached_property
    def steps(self) -> int:
        """How many steps are shown: the horizon, or a stretch from the start of an endless stream."""
        if self.plan.stream.horizon is not None:
            return self.plan.stream.horizon
        lengths = (sum(len(s.epsilons) for s in release.schedule.segments) for release in self.plan.scheduled)
        longest = max(lengths, default=1)
        return max(ENDLESS_STRETCH, 2 * longest)

    @cached_property
    def budgets(self) -> Array:
        """Budget of each step in nats, all releases together, rounded up, (steps,)."""
        return total_budgets(self.plan, self.steps)

    @cached_property
    def leakage(self) -> Leakage:
        """Leakage at every step, the largest over all groups; without chains every step leaks its own budget."""
        groups = [self._of_group(record) for record in self.plan.correlation.chains]
        if not groups:
            return Leakage(self.budgets, self.budgets, self.budgets)
        return Leakage(
            np.maximum.reduce([group.backward for group in groups]),
            np.maximum.reduce([group.forward for group in groups]),
            np.maximum.reduce([group.total for group in groups]),
        )

    @cached_property
    def _sides(self) -> dict[tuple[int, float], tuple[Losses, Losses]]:
        return {}

    def sides(self, record: ChainRecord, row_tolerance: float = 0.0) -> tuple[Losses, Losses]:
        """The laws backward and forward of one group's chain; kept, for their loss functions are costly to build."""
        key = (self.plan.correlation.chains.index(record), row_tolerance)
        if key not in self._sides:
            self._sides[key] = losses_of(record.chain(), row_tolerance)
        return self._sides[key]

    def by_pairs(self, record: ChainRecord) -> GroupLeakage | None:
        """What a plan shows for every pair of states of one chain; None where it accounts by the recursion."""
        stated = [entry for entry in self.plan.claims.inherited if entry.pairs and entry.group == record.group]
        endless = self.plan.stream.horizon is None
        budgets = repeating_budgets(self.plan) if endless else self.budgets
        if not stated or budgets is None:
            return None
        chain = record.chain()
        return audited_leakage(stated[0], budgets, chain.backward_side(), chain.forward_side(), endless=endless)

    def _of_group(self, record: ChainRecord) -> Leakage:
        if (pairs := self.by_pairs(record)) is not None:
            before, after = (self.budgets + np.resize(side, self.steps) for side in (pairs.before, pairs.after))
            return Leakage(before, after, np.resize(pairs.windows(1), self.steps))
        past, future = self.sides(record)
        if self.plan.stream.horizon is not None:
            before, after = both_sides(self.budgets, past, future, record.lags, self.width)
            return Leakage(before + self.budgets, self.budgets + after, before + self.budgets + after)
        backward = backward_leakage(self.budgets, past, lags=record.lags)
        if self.repeats:
            after = np.resize(self.inherited(record)[1], self.steps)
            return Leakage(backward, self.budgets + after, backward + after)
        # later releases go on for ever: forward leakage is at its supremum
        forward = np.full(self.steps, supremum(float(self.budgets[0]), future, record.lags))
        return Leakage(backward, forward, backward + (forward - self.budgets))

    @cached_property
    def repeats(self) -> tuple[float, ...]:
        """The budgets that an endless stream repeats, nats, where they are not all one; else nothing."""
        found = repeating_budgets(self.plan) if self.plan.stream.horizon is None else None
        return () if found is None or len(found) == 1 else tuple(found.tolist())

    def inherited(self, record: ChainRecord, row_tolerance: float = 0.0) -> tuple[Array, Array]:
        """What each step of `repeats` inherits at most from before and from after, nats; inf for no bound."""
        sides = self.sides(record, row_tolerance)
        (before, _), (after, _) = accepted_inheritance(self.repeats, sides, record.lags, endless=True)
        return before, after

    @property
    def width(self) -> int:
        """The steps in a row that leakage is promised about: of several such promises, the shortest."""
        return min((target.window for target in self.plan.targets if isinstance(target, AlphaDPT)), default=1)

    def largest_leakage(self, steps: int, row_tolerance: float = 0.0, most: float = math.inf) -> float:
        """The largest leakage about `width` steps in nats, over all groups, if the stream ended after `steps` steps.

        Args:
            steps: of a stream with a horizon; ignored for an endless one.
            row_tolerance: total variation within which the rows of every chain are known.
            most: nats; of what is more something that is more.
        """
        return max(self._largest(record, steps, row_tolerance, most) for record in self.plan.correlation.chains)

    def _largest(self, record: ChainRecord, steps: int, row_tolerance: float, most: float) -> float:
        known = self._by_recursion(record, steps, row_tolerance, most)
        if row_tolerance:
            return min(known, self._by_pairs_within(record, row_tolerance))
        pairs = self.by_pairs(record)
        return known if pairs is None else min(known, pairs.largest(self.width)[0])  # no more than of the whole stream

    def _by_pairs_within(self, record: ChainRecord, row_tolerance: float) -> float:
        """By pairs of states, of plans that need them, of the whole stream; inf for no bound."""
        if self.width > 1 or not any(entry.pairs for entry in self.plan.claims.inherited):
            return math.inf
        inside, ends = most_spent(self.budgets, endless=self.plan.stream.horizon is None)
        steps = None if self.plan.stream.horizon is None else self.plan.stream.horizon - 1
        pairs = settled(record.chain(), inside, ends, steps, row_tolerance)
        return math.inf if pairs is None else pairs.largest(inside, *ends)

    def _by_recursion(self, record: ChainRecord, steps: int, row_tolerance: float, most: float) -> float:
        past, future = self.sides(record, row_tolerance)
        if self.plan.stream.horizon is not None:
            width = min(self.width, steps)
            return largest_leakage(self.budgets[:steps], past, future, width, record.lags, most)
        if self.repeats:
            before, after = self.inherited(record, row_tolerance)
            within = window_sums(np.resize(self.repeats, len(before) + self.width - 1), self.width)
            return float(np.max(before + within + np.roll(after, 1 - self.width)))
        epsilon = float(self.budgets[0])
        ends = supremum(epsilon, past, record.lags) + supremum(epsilon, future, record.lags)
        return ends + (self.width - 2) * epsilon
