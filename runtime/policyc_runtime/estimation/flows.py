"""The most probable flows of independent users over a chain, given noisy counts: a convex problem, solved by its dual.

Flows F_t(i, j) say how many users go from cell i at step t to cell j at step t + 1, and x_t their counts. The cost is
the relative entropy of the flows to what the chain expects of the same counts (Stirling's form of the log number of
ways to move, jointly convex), plus |x_t(i) - noisy_t(i)| / scale_t. Its dual has one variable u_t(i) in
[-1/scale_t, 1/scale_t] a noisy value: maximise -n log Z(u) - <u, noisy>, where Z(u) is the mass of all paths of one
user when every visit to a cell costs u. For any u the forward-backward recursion gives Z, the tilted law of a path
and so flows that are feasible; what they cost beyond the dual value is known exactly, and ends the search.

The dual's curvature is the covariance of the indicators of a tilted path, a linear recursion in time: an interior-point
step costs one pass of a Kalman filter, whatever the number of steps.

Source: SKD13, MEH92
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

GAP = 1e-8  # how far the cost may lie above the dual value, relative to 1 + |cost|
ROUNDS = 300  # of interior-point steps; about fifteen are usual
TO_THE_WALL = 0.99  # of the way to a bound that a step may go
TOUCHING = 1e-13  # of a bound: no price counts as nearer to it
NO_PUSH = 1e-100
HALVINGS = 40
ENOUGH = 1e-4  # of the descent that a step promises
LEAST_SHARE = 0.1  # the cube of which is the least that pushes are aimed to shrink to in a round
DAMPING = 1e-9  # of the population: no direction counts as flatter, since the sum of a step's counts is quite flat


class Paths(NamedTuple):
    """The law of one user's path when visits cost something, for each of R series.

    Attributes:
        log_mass: (R,) log Z.
        laws: (T, R, m) where the user is.
        moves: (T - 1, R, m, m) how the user moves; rows sum to 1.
    """

    log_mass: Array
    laws: Array
    moves: Array


def tilted_paths(start: Array, forward: Array, prices: Array) -> Paths:
    """The law of a path whose probability under the chain is multiplied by exp(-price) at every visit.

    Args:
        start: (m,) law of step 0.
        forward: (m, m) moves; rows sum to 1.
        prices: (T, R, m).
    """
    steps, series, cells = prices.shape
    with np.errstate(divide="ignore"):
        log_start, log_forward = np.log(start), np.log(forward)
    moves = np.empty((steps - 1, series, cells, cells))
    ahead = -prices[-1]
    for t in range(steps - 2, -1, -1):  # in logarithms, since what cannot mix may have any ratio
        ways = log_forward + ahead[:, None, :]
        top = np.maximum.reduce(ways, axis=2, keepdims=True)
        weights = np.exp(ways - top)
        mass = np.add.reduce(weights, axis=2, keepdims=True)
        np.divide(weights, mass, out=moves[t])
        ahead = (top + np.log(mass))[:, :, 0] - prices[t]
    ahead = log_start + ahead
    top = ahead.max(axis=1, keepdims=True)
    weights = np.exp(ahead - top)
    mass = weights.sum(axis=1, keepdims=True)
    laws = np.empty((steps, series, 1, cells))
    laws[0, :, 0] = weights / mass
    for t in range(steps - 1):
        np.matmul(laws[t], moves[t], out=laws[t + 1])
    return Paths((top + np.log(mass))[:, 0], laws[:, :, 0], moves)


class Newton:
    """Solves (H + diag(1 / weight)) x = r, with H the covariance of all counts of `population` users on such paths."""

    def __init__(self, population: float, paths: Paths, weight: Array) -> None:
        laws, moves = paths.laws, paths.moves
        spread = laws[..., None] * np.eye(laws.shape[2])
        spread[0] -= laws[0, :, :, None] * laws[0, :, None, :]
        spread[1:] -= np.swapaxes(moves, 2, 3) @ (laws[:-1, :, :, None] * moves)
        spread *= population
        root = np.sqrt(weight)
        pair = root[..., :, None] * root[..., None, :]
        eye = np.eye(laws.shape[2])
        self._inverse = np.empty_like(spread)
        gain = np.empty_like(spread)
        before = spread[0]
        for t in range(len(laws)):
            np.multiply(pair[t], np.linalg.inv(eye + pair[t] * before), out=self._inverse[t])
            np.matmul(before, self._inverse[t], out=gain[t])
            if t < len(moves):
                after = before - gain[t] @ before
                before = np.swapaxes(moves[t], 1, 2) @ after @ moves[t] + spread[t + 1]
        back = np.swapaxes(moves, 2, 3)
        self._enter = back @ gain[:-1]
        self._stay = back - self._enter

    def solve(self, right: Array) -> Array:
        """(T, R, m); rows of zero weight give 0."""
        right = right[..., None]
        entering = self._enter @ right[:-1]
        told = np.zeros_like(right)
        for t in range(len(entering)):
            np.add(self._stay[t] @ told[t], entering[t], out=told[t + 1])
        own = self._inverse @ (right - told)
        pull = own.copy()
        stay_back = np.swapaxes(self._stay, 2, 3)
        for t in range(len(entering) - 1, -1, -1):
            pull[t] += stay_back[t] @ pull[t + 1]
        own[:-1] -= np.swapaxes(self._enter, 2, 3) @ pull[1:]
        return np.asarray(own[..., 0])


class Optimum(NamedTuple):
    """Flows of R series, and how good they are.

    Attributes:
        prices: (T, R, m) the dual variables.
        paths: one user's path at these prices.
        counts: (T, R, m) users in each cell, `population` times the path's laws.
        cost: (R,) of the flows.
        gap: (R,) by how much, at most, a cost is above the least.
    """

    prices: Array
    paths: Paths
    counts: Array
    cost: Array
    gap: Array

    @property
    def flows(self) -> Array:
        """(T - 1, R, m, m) users who go from a cell to a cell."""
        return np.asarray(self.counts[:-1, :, :, None] * self.paths.moves)

    @property
    def reached(self) -> NDArray[np.bool_]:
        """(R,) whether the gap is small enough."""
        return self.gap <= GAP * (1.0 + np.abs(self.cost))


def most_probable_flows(start: Array, forward: Array, population: float, noisy: Array, scales: Array) -> Optimum:
    """The flows of least cost, by a primal-dual interior-point method on the prices.

    Args:
        start: (m,) law of step 0.
        forward: (m, m) moves; rows sum to 1. Where 0, nobody goes.
        population: users, > 0.
        noisy: (T, R, m) of R independent series; rows of steps without a release are not read.
        scales: (T,) of Laplace noise, 0 where a step has no values.

    Returns:
        Flows whose gap is at most 1e-8 of the cost; after 300 rounds, which only noise far below one user has needed,
        feasible flows with the gap they have.
    """
    seen = np.broadcast_to((scales > 0)[:, None, None], noisy.shape)
    values = np.where(seen, noisy, 0.0)
    bound = np.broadcast_to(1.0 / np.where(scales > 0, scales, 1.0)[:, None, None], noisy.shape)

    def at(prices: Array) -> Optimum:
        paths = tilted_paths(start, forward, prices)
        counts = population * paths.laws
        away = np.where(seen, counts - values, 0.0)
        gap = (np.abs(away) * bound - away * prices).sum(axis=(0, 2))
        dual = -population * paths.log_mass - (prices * values).sum(axis=(0, 2))
        return Optimum(prices, paths, counts, dual + gap, gap)

    now = at(np.zeros(noisy.shape))
    walls = _Walls(np.where(seen, now.counts - values, 0.0), bound, seen)
    for _ in range(ROUNDS):
        if now.reached.all():
            return now
        weight = np.where(seen, 1.0 / (walls.stiffness() + DAMPING * population), 0.0)
        away = np.where(seen, now.counts - values, 0.0)
        now = walls.advance(now, away, Newton(population, now.paths, weight), at)
    return now


class _Walls:
    """The bounds of the prices: how near each is, and how hard it pushes back (the interior-point multipliers).

    Args:
        away: (T, R, m) how far counts are above the noisy values where all prices are 0.
        bound: (T, R, m) of the size of prices, > 0.
        seen: where there are prices.
    """

    def __init__(self, away: Array, bound: Array, seen: NDArray[np.bool_]) -> None:
        self._seen = seen
        self._size = np.maximum(seen.sum(axis=(0, 2)), 1)
        self._above, self._below, self._least = bound, bound, TOUCHING * bound
        center = (self._mean(np.abs(away) * bound) + 1e-3)[:, None] / bound
        self._low, self._high = np.maximum(-away, 0.0) + center, np.maximum(away, 0.0) + center

    def stiffness(self) -> Array:
        """What the pushes of both walls add to the curvature."""
        return self._low / self._above + self._high / self._below

    def advance(self, now: Optimum, away: Array, newton: Newton, at: Callable[[Array], Optimum]) -> Optimum:
        """One round; series that are done stay where they are.

        A first step towards no pushes at all shows how far the pushes can shrink (Mehrotra's choice of the target).
        """
        above, below = self._above, self._below
        mean = self._mean(self._low * above + self._high * below)
        step, low, high = self._towards(np.zeros_like(mean), away, newton)
        reach = self._reach((above, step), (below, -step), (self._low, low), (self._high, high))
        left = (self._low + reach * low) * (above + reach * step) + (self._high + reach * high) * (below - reach * step)
        target = np.clip(self._mean(left) / mean, LEAST_SHARE, 1.0) ** 3 * mean
        step, low, high = self._towards(target, away, newton)
        going = TO_THE_WALL * ~now.reached[:, None]
        length = going * self._reach((above, step), (below, -step))
        slope = self._sum(target[:, None] * (1.0 / below - 1.0 / above) * step - away * step)
        for _ in range(HALVINGS):
            found = at(now.prices + length * step)
            barrier = self._sum(np.log1p(length * step / above) + np.log1p(-length * step / below))
            rise = (now.cost - now.gap) - (found.cost - found.gap) - target * barrier
            short = rise <= ENOUGH * length[:, 0] * slope + 1e-2 * GAP * (1.0 + np.abs(now.cost))
            if short.all():
                break
            length = np.where(short[:, None], length, 0.5 * length)
        self._above = np.maximum(above + length * step, self._least)
        self._below = np.maximum(below - length * step, self._least)
        follow = going * self._reach((self._low, low), (self._high, high))
        self._low = np.maximum(self._low + follow * low, NO_PUSH)
        self._high = np.maximum(self._high + follow * high, NO_PUSH)
        return found

    def _towards(self, target: Array, away: Array, newton: Newton) -> tuple[Array, Array, Array]:
        """Steps of prices and pushes that lead, if all were linear, to push times distance = target (R,)."""
        aim = target[:, None]
        step = newton.solve(away + aim / self._above - aim / self._below)
        low = aim / self._above - self._low * (1.0 + step / self._above)
        return step, low, aim / self._below - self._high * (1.0 - step / self._below)

    def _reach(self, *sizes: tuple[Array, Array]) -> Array:
        """(R, 1) how much of its steps a series can go until something positive is 0, at most 1."""
        shares = [np.where(self._seen, size / np.maximum(-step, size), 1.0) for size, step in sizes]
        return np.asarray(np.min(shares, axis=(0, 1, 3)))[:, None]

    def _mean(self, products: Array) -> Array:
        """(R,) over the prices there are, of both walls together."""
        return np.asarray(self._sum(products) / (2 * self._size))

    def _sum(self, terms: Array) -> Array:
        """(R,) over the prices there are."""
        return np.asarray(np.where(self._seen, terms, 0.0).sum(axis=(0, 2)))
