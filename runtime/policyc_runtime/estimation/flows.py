"""The most probable flows of independent users over a chain, given noisy counts: a convex problem, solved by its dual.

Flows F_t(i, j) say how many users go from cell i at step t to cell j at step t + 1, and x_t their counts. The cost is
the relative entropy of the flows to what the chain expects of the same counts (Stirling's form of the log number of
ways to move, jointly convex), plus |x_t(i) - noisy_t(i)| / scale_t. Its dual has one variable u_t(i) in
[-1/scale_t, 1/scale_t] a noisy value: maximise -n log Z(u) - <u, noisy>, where Z(u) is the mass of all paths of one
user when every visit to a cell costs u. For any u the forward-backward recursion gives Z, the tilted law of a path
and so flows that are feasible; what they cost beyond the dual value is known exactly, and ends the search.

The dual's curvature is the covariance of the indicators of a tilted path, a linear recursion in time: an interior-point
step costs one pass of a Kalman filter, whatever the number of steps.

Of several groups of users whose sizes n_g are known, the costs of their flows add up, and noisy counts are of all
groups together: a visit has one price whatever the group, the dual is -sum_g n_g log Z_g(u) - <u, noisy>, and
covariances add up. The least cost over groups' flows with given sums is how improbable these sums are in the same form
(contraction principle): so it is the same to seek the most probable flows of all groups, or the most probable sums.

Source: SKD13, MEH92
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """Solves (H + diag(1 / weight)) x = r, with H the covariance of the counts of all users on such paths.

    Args:
        sizes: users of each group.
        each: the paths of each group.
        weight: (T, R, v).
        belongs: (m, v) 1 where a cell is counted in a value; None where each has its own.
    """

    def __init__(
        self, sizes: Sequence[float], each: Sequence[Paths], weight: Array, belongs: Array | None = None
    ) -> None:
        moves = _side_by_side([paths.moves for paths in each])
        spread = _side_by_side([_spread(size, paths) for size, paths in zip(sizes, each, strict=True)])
        root = np.sqrt(weight)
        pair = root[..., :, None] * root[..., None, :]
        eye, cells = np.eye(weight.shape[2]), moves.shape[3] // len(sizes)
        self._belongs = np.tile(np.eye(cells) if belongs is None else belongs, (len(sizes), 1))
        self._alike = belongs is None and len(sizes) == 1
        self._inverse = np.empty(pair.shape)
        gain = np.empty((*spread.shape[:3], weight.shape[2]))
        before = spread[0]
        for t in range(len(weight)):
            towards = before if self._alike else before @ self._belongs  # covariances of all counts with what is seen
            damped = np.linalg.inv(eye + pair[t] * self._sums(towards))
            np.multiply(pair[t], damped, out=self._inverse[t])
            np.matmul(towards, self._inverse[t], out=gain[t])
            if t < len(moves):  # Joseph's form, a sum of squares: rounding never makes a variance negative
                seen = np.swapaxes(gain[t], 1, 2) @ moves[t]
                kept = moves[t] - (seen if self._alike else self._belongs @ seen)
                noise = np.swapaxes(towards @ (root[t][..., None] * damped), 1, 2) @ moves[t]
                before = np.swapaxes(kept, 1, 2) @ before @ kept + np.swapaxes(noise, 1, 2) @ noise + spread[t + 1]
        back = np.swapaxes(moves, 2, 3)
        self._enter = back @ gain[:-1]
        self._stay = back - (self._enter if self._alike else self._enter @ self._belongs.T)

    def _sums(self, rows: Array) -> Array:
        """Sums that are seen, (..., v, k), of the states of all groups, one group after the other, (..., G m, k)."""
        return rows if self._alike else np.asarray(self._belongs.T @ rows)

    def solve(self, right: Array) -> Array:
        """(T, R, v); rows of zero weight give 0."""
        right = right[..., None]
        entering = self._enter @ right[:-1]
        told = np.zeros((len(right), right.shape[1], len(self._belongs), 1))
        for t in range(len(entering)):
            np.add(self._stay[t] @ told[t], entering[t], out=told[t + 1])
        own = self._inverse @ (right - self._sums(told))
        pull = self._belongs @ own
        stay_back = np.swapaxes(self._stay, 2, 3)
        for t in range(len(entering) - 1, -1, -1):
            pull[t] += stay_back[t] @ pull[t + 1]
        own[:-1] -= np.swapaxes(self._enter, 2, 3) @ pull[1:]
        return np.asarray(own[..., 0])


def _spread(size: float, paths: Paths) -> Array:
    """(T, R, m, m) covariances of the counts of so many users at a step, given those of the step before."""
    laws, moves = paths.laws, paths.moves
    spread = laws[..., None] * np.eye(laws.shape[2])
    spread[0] -= laws[0, :, :, None] * laws[0, :, None, :]
    spread[1:] -= np.swapaxes(moves, 2, 3) @ (laws[:-1, :, :, None] * moves)
    spread *= size
    return spread


def _side_by_side(blocks: Sequence[Array]) -> Array:
    """(T, R, G m, G m) of G groups' (T, R, m, m): the states of each, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    cells = blocks[0].shape[-1]
    found = np.zeros((*blocks[0].shape[:2], cells * len(blocks), cells * len(blocks)))
    for group, block in enumerate(blocks):
        own = slice(group * cells, (group + 1) * cells)
        found[..., own, own] = block
    return found


class Optimum(NamedTuple):
    """Flows of R series, and how good they are.

    Attributes:
        prices: (T, R, v) the dual variables.
        sizes: users of each group.
        paths: a user's path at these prices, of each group.
        counts: (T, R, v) users in each value, of all groups together: sums of sizes times the paths' laws.
        cost: (R,) of the flows.
        gap: (R,) by how much, at most, a cost is above the least.
    """

    prices: Array
    sizes: Sequence[float]
    paths: Sequence[Paths]
    counts: Array
    cost: Array
    gap: Array

    @property
    def flows(self) -> Array:
        """(T - 1, R, m, m) users who go from a cell to a cell, of all groups together."""
        each = zip(self.sizes, self.paths, strict=True)
        return np.asarray(sum(size * paths.laws[:-1, :, :, None] * paths.moves for size, paths in each))

    @property
    def reached(self) -> NDArray[np.bool_]:
        """(R,) whether the gap is small enough."""
        return self.gap <= GAP * (1.0 + np.abs(self.cost))


class Group(NamedTuple):
    """Users who move alike.

    Attributes:
        start: (m,) law of step 0.
        forward: (m, m) moves; rows sum to 1. Where 0, nobody goes.
        size: users, > 0.
    """

    start: Array
    forward: Array
    size: float


def most_probable_flows(groups: Sequence[Group], noisy: Array, scales: Array, belongs: Array | None = None) -> Optimum:
    """The flows of least cost, by a primal-dual interior-point method on the prices.

    Args:
        groups: of users, over the same cells.
        noisy: (T, R, v) of R independent series, of all groups together; rows of steps without a release are not read.
        scales: (T,) of Laplace noise, 0 where a step has no values.
        belongs: (m, v) 1 where a cell is counted in a value; None where each has its own.

    Returns:
        Flows whose gap is at most 1e-8 of the cost; after 300 rounds, which only noise far below one user has needed,
        feasible flows with the gap they have.
    """
    seen = np.broadcast_to((scales > 0)[:, None, None], noisy.shape)
    values = np.where(seen, noisy, 0.0)
    bound = np.broadcast_to(1.0 / np.where(scales > 0, scales, 1.0)[:, None, None], noisy.shape)
    sizes = [group.size for group in groups]
    population = sum(sizes)

    def at(prices: Array) -> Optimum:
        own = prices if belongs is None else prices @ belongs.T
        paths = [tilted_paths(group.start, group.forward, own) for group in groups]
        counts = np.asarray(sum(size * path.laws for size, path in zip(sizes, paths, strict=True)))
        counts = counts if belongs is None else counts @ belongs
        away = np.where(seen, counts - values, 0.0)
        gap = (np.abs(away) * bound - away * prices).sum(axis=(0, 2))
        mass = sum(size * path.log_mass for size, path in zip(sizes, paths, strict=True))
        dual = -mass - (prices * values).sum(axis=(0, 2))
        return Optimum(prices, sizes, paths, counts, dual + gap, gap)

    now = at(np.zeros(noisy.shape))
    walls = _Walls(np.where(seen, now.counts - values, 0.0), bound, seen)
    for _ in range(ROUNDS):
        if now.reached.all():
            return now
        weight = np.where(seen, 1.0 / (walls.stiffness() + DAMPING * population), 0.0)
        away = np.where(seen, now.counts - values, 0.0)
        now = walls.advance(now, away, Newton(sizes, now.paths, weight, belongs), at)
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
