"""The budgets of least noise power under a promise: minimise sum w_t / e_t^2 with total leakage at most alpha.

Unknown are the budgets alone; leakage follows from them by the recursion, on smooth tables of the loss functions. A
primal-dual interior method takes Newton steps: leakage is linearised with its curvature where that is positive, and the
system, ordered by step, is banded. Nothing found here is a promise: the caller scales the result by the kernel's own
recursion and has it audited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from policyc.planning.smooth import Direction, Floats, Past, Whole

GAP = 1e-5  # the relative distance to the optimum at which the search ends
MOST_STEPS = 150  # Newton steps
COOLING = 0.15  # how far the barrier falls at a time
DEAREST = 0.995  # of the way to the nearest bound that one step may go

Put = Callable[[Whole, Whole, Floats], None]


def least_noise(pasts: Sequence[tuple[Past, Past]], promise: float, weights: Floats) -> Floats:
    """Budgets that (locally) minimise sum w / e^2 while every group's total leakage stays within the promise.

    Args:
        pasts: (backward, forward) of every group, forward in the order of its own recursion.
        promise: nats.
        weights: (releases,), > 0.

    Returns:
        (releases,) budgets in nats; they keep the promise up to the tables' error.
    """
    problem = _Problem(pasts, promise, weights)
    budgets, slack = problem.start()
    # in units of the start's noise, so that one tolerance fits all promises
    problem.weights = weights / problem.noise(budgets)
    barrier = 1.0 / slack.size
    price = barrier / slack
    for _ in range(MOST_STEPS):
        change, used, gradient = problem.step(budgets, slack, price, barrier)
        slope = float(gradient @ change)
        found = problem.searched(budgets, slack, change, used, slope, barrier)
        if found is not None:
            dual = barrier / slack - price - price / slack * used
            falling = dual < 0
            most = min(1.0, DEAREST * float(np.min(price[falling] / -dual[falling], initial=np.inf)))
            price = price + most * dual
            budgets, slack = found
            price = np.clip(price, 1e-2 * barrier / slack, 1e2 * barrier / slack)
        if found is None or -slope < 0.1 * barrier * slack.size:
            if barrier * slack.size < GAP * problem.noise(budgets):
                break
            barrier *= COOLING
    return budgets


class _Problem:
    """Budgets of releases under one promise, all groups; leakages are in units of the promise's own scale, nats."""

    def __init__(self, pasts: Sequence[tuple[Past, Past]], promise: float, weights: Floats) -> None:
        count = len(weights)
        ahead = np.arange(count)
        self.weights, self.promise = weights, promise
        self.groups = [
            (Direction(before, promise, ahead), Direction(after, promise, ahead[::-1])) for before, after in pasts
        ]

    def start(self) -> tuple[Floats, Floats]:
        """Equal budgets that keep the promise with something to spare, and their slack."""
        level = 0.5 * self.promise
        while True:
            budgets = np.full(len(self.weights), level)
            slack = self.slack(budgets)
            if slack is not None and slack.min() > 0.05 * self.promise:
                return budgets, slack
            level *= 0.7

    def slack(self, budgets: Floats) -> Floats | None:
        """What the promise leaves at each release, (groups, releases); None where it is broken."""
        rows = []
        for before, after in self.groups:
            if not (before.run(budgets) and after.run(budgets)):
                return None
            left = self.promise - (before.leaked + after.leaked[::-1] - budgets)
            if not left.min() > 0:
                return None
            rows.append(left)
        return np.array(rows)

    def noise(self, budgets: Floats) -> float:
        """The objective: sum of w / e^2."""
        return float(np.sum(self.weights / budgets**2))

    def step(self, budgets: Floats, slack: Floats, price: Floats, barrier: float) -> tuple[Floats, Floats, Floats]:
        """The Newton step of budgets, what it changes in slack, and the gradient of the barrier function."""
        for before, after in self.groups:
            before.linearise()
            after.linearise()
        stiff = price / slack
        pull = barrier / slack
        gradient = -2 * self.weights / budgets**3 - pull.sum(axis=0)
        for g, pair in enumerate(self.groups):
            for direction in pair:
                passed = direction.prices(pull[g])
                gradient[direction.at] += passed
                for i in np.flatnonzero(direction.lag > 1):  # the budgets that a longer lag counts in full
                    for back in range(1, direction.lag[i]):
                        gradient[direction.at[i - back]] += passed[i]
        return (*self._solved(budgets, stiff, price, gradient), gradient)

    def _solved(self, budgets: Floats, stiff: Floats, price: Floats, gradient: Floats) -> tuple[Floats, Floats]:
        from scipy.linalg import solve_banded

        count, groups = len(budgets), len(self.groups)
        width = 1 + 4 * groups
        place = np.arange(count) * width
        rows: list[Whole] = []
        columns: list[Whole] = []
        values: list[Floats] = []

        def put(row: Whole, column: Whole, value: Floats) -> None:
            rows.append(row)
            columns.append(column)
            values.append(value)

        put(place, place, 6 * self.weights / budgets**4 + stiff.sum(axis=0))
        for g, pair in enumerate(self.groups):
            own = [place + 1 + 4 * g, place + 2 + 4 * g]
            put(own[0], own[1], stiff[g])
            put(own[1], own[0], stiff[g])
            for k, direction in enumerate(pair):
                put(place, own[k], -stiff[g])
                put(own[k], place, -stiff[g])
                bend = np.zeros(count)
                passed = direction.prices(price[g])
                linked = np.flatnonzero(direction.lag)
                np.add.at(bend, direction.at[linked - direction.lag[linked]], (passed * direction.bend)[linked])
                put(own[k], own[k], stiff[g] + np.maximum(bend, 0.0))
                _link(direction, place, own[k], own[k] + 2, put)
        size = count * width
        i, j, v = np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
        band = int(np.abs(i - j).max())
        dense = np.bincount((band + i - j) * size + j, weights=v, minlength=(2 * band + 1) * size)
        right = np.zeros(size)
        right[place] = -gradient
        found = solve_banded((band, band), dense.reshape(2 * band + 1, size), right, check_finite=False)
        change = found[place]
        used = [found[place + 1 + 4 * g] + found[place + 2 + 4 * g] - change for g in range(groups)]
        return change, -np.array(used)

    def searched(
        self, budgets: Floats, slack: Floats, change: Floats, used: Floats, slope: float, barrier: float
    ) -> tuple[Floats, Floats] | None:
        """Budgets and slack some way along a step, where the barrier function has fallen; None where it does not."""

        def height(at: Floats, left: Floats) -> float:
            return self.noise(at) - barrier * float(np.log(left).sum())

        now = height(budgets, slack)
        nearest = max(float(np.max(-change / budgets)), float(np.max(-used / slack)), 1e-300)
        length = min(1.0, DEAREST / nearest)
        while length > 1e-8:
            there = budgets + length * change
            left = self.slack(there)
            if left is not None and height(there, left) <= now + 1e-4 * length * slope:
                return there, left
            length *= 0.5
        return None


def _link(direction: Direction, budget: Whole, leaked: Whole, multiplier: Whole, put: Put) -> None:
    """The linear recursion of one direction: leaked_i = budgets that lag i counts + slope leaked_(i - lag)."""
    at, lag = direction.at, direction.lag

    def both(row: Whole, column: Whole, value: Floats) -> None:
        put(row, column, value)
        put(column, row, value)

    both(multiplier, leaked, np.ones(len(at)))
    linked = np.flatnonzero(lag)
    both(multiplier[at[linked]], leaked[at[linked - lag[linked]]], -direction.slope[linked])
    for back in range(max(1, int(lag.max()))):
        counted = np.flatnonzero(lag > back) if back else np.arange(len(at))
        both(multiplier[at[counted]], budget[at[counted - back]], -np.ones(len(counted)))
