"""Leakage between releases with its derivatives: the kernel's recursion on smooth tables of the loss functions.

For searching only: nothing computed here is a promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.gaps import coarse
from policyc.planning.leakage.loss import LossFunction
from policyc.planning.leakage.losses import Losses

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

KNOTS = 2048  # of a table of a loss function
MOST_KNOTS = 1 << 14  # of all tables of one direction together


@dataclass(frozen=True)
class Past:
    """One direction of correlation between releases, in the order of its recursion.

    `choices[i]` are the bounds on what release i inherits: (how many releases back, loss function in between).
    """

    choices: tuple[tuple[tuple[int, LossFunction], ...], ...]


def past_of(side: Losses, releases: Sequence[int], lags: Sequence[int]) -> Past:
    """The bounds that the kernel's recursion uses between releases at the given steps (rising, recursion order)."""
    choices = []
    for i, step in enumerate(releases):
        found = []
        for back in range(1, min(i, max(lags)) + 1):
            gap = step - releases[i - back]
            if gap in lags:
                found.append((back, side.loss(step, gap)))
            elif back == 1:
                near = coarse(gap)
                found.append((back, side.loss(step - gap + near, near)))
            if gap >= max(lags):
                break
        choices.append(tuple(found))
    return Past(tuple(choices))


class Table:
    """A loss function on [0, most] as a cubic with continuous slope: corners are rounded by a grid width."""

    def __init__(self, loss: LossFunction, most: float, knots: int) -> None:
        self._knots, self._per = knots, knots / most
        values = loss(np.linspace(0.0, most, knots + 1))
        slopes = np.gradient(values, most / knots)
        rise = np.diff(values)
        first, last = slopes[:-1] / self._per, slopes[1:] / self._per
        self._cubic = np.array([values[:-1], first, 3 * rise - 2 * first - last, first + last - 2 * rise])
        self._rows = self._cubic.T.tolist()

    def __call__(self, leakage: float) -> float:
        """What is passed on of this leakage, nats."""
        place = leakage * self._per
        knot = min(int(place), self._knots - 1)
        x = place - knot
        a, b, c, d = self._rows[knot]
        return a + x * (b + x * (c + x * d))  # type: ignore[no-any-return]

    def derivatives(self, leakage: Floats) -> tuple[Floats, Floats]:
        """Slope and curvature."""
        place = leakage * self._per
        knot = np.minimum(place.astype(np.intp), self._knots - 1)
        x = place - knot
        _, b, c, d = self._cubic[:, knot]
        return (b + x * (2 * c + 3 * x * d)) * self._per, (2 * c + 6 * x * d) * self._per**2


NOTHING: tuple[int, Table | None] = (0, None)  # inherited by the first release


class Direction:
    """Leakage of every release through those before it in one direction, with derivatives.

    `at[i]` places release i of the recursion in the order of time.
    """

    def __init__(self, past: Past, most: float, at: Whole) -> None:
        losses = {id(loss): loss for choice in past.choices for _, loss in choice}
        knots = max(64, min(KNOTS, MOST_KNOTS // max(1, len(losses))))
        tables = {key: Table(loss, most, knots) for key, loss in losses.items()}
        self.at = at
        self.most = most
        self._choices = [[(back, tables[id(loss)]) for back, loss in choice] for choice in past.choices]

    def run(self, budgets: Floats) -> bool:
        """Follow the recursion; False where leakage exceeds the table, which no promise allows."""
        epsilons = budgets[self.at].tolist()
        leaked: list[float] = []
        used: list[tuple[int, Table | None]] = []
        for i, epsilon in enumerate(epsilons):
            value, how = 0.0, NOTHING
            spent, reached = 0.0, 1
            for place, (back, table) in enumerate(self._choices[i]):
                while reached < back:
                    spent += epsilons[i - reached]
                    reached += 1
                bound = spent + table(leaked[i - back])
                if place == 0 or bound < value:
                    value, how = bound, (back, table)
            used.append(how)
            leaked.append(epsilon + value)
            if leaked[-1] > self.most:
                return False
        self.leaked = np.array(leaked)
        self._used = used
        return True

    def linearise(self) -> None:
        """Lags, slopes and curvatures at the present budgets, in recursion order."""
        count = len(self.leaked)
        self.lag = np.array([back for back, _ in self._used], dtype=np.intp)
        self.slope, self.bend = np.zeros(count), np.zeros(count)
        groups: dict[int, tuple[Table, list[int]]] = {}
        for i, (_, table) in enumerate(self._used):
            if table is not None:
                groups.setdefault(id(table), (table, []))[1].append(i)
        for table, members in groups.values():
            rows = np.array(members, dtype=np.intp)
            self.slope[rows], self.bend[rows] = table.derivatives(self.leaked[rows - self.lag[rows]])

    def prices(self, weights: Floats) -> Floats:
        """What a nat of leakage at each release costs, counting what it passes on: (releases,), recursion order."""
        price = weights[self.at].tolist()
        slope, lag = self.slope.tolist(), self.lag.tolist()
        for i in range(len(price) - 1, 0, -1):
            if lag[i]:
                price[i - lag[i]] += slope[i] * price[i]
        return np.array(price)
