"""Exact minimisers of a separable convex cost under bounds on cells and at most one sum over all of them.

One number decides everything: at multiplier q every cell takes all units whose marginal cost is at most q (whole
numbers), or the value where its derivative is q (real numbers). Both grow with q, so q is bracketed until the values
add up to the total. All rows are solved at once, each on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

ROUNDS = 200  # halving a bracket of doubles takes fewer
FEW_UNITS = 4  # so many are handed out one by one
EXACT = 1e-13  # relative
LARGEST_EXPONENT = 700.0  # exp of it is a double, and far above any count


class SeparableCost(Protocol):
    """A sum over cells of convex functions weight |x - noisy| + curve(x); arrays are (rows, cells)."""

    @property
    def least(self) -> float:
        """The least value of the domain."""

    @property
    def noisy(self) -> Array:
        """Where the absolute distance is measured from."""

    @property
    def weight(self) -> Array:
        """(rows, 1) weight of the absolute distance, >= 0."""

    def take(self, rows: NDArray[np.intp]) -> Self:
        """The same cost for some rows only."""

    def curve(self, values: Array) -> Array:
        """The smooth part."""

    def curve_slope(self, values: Array) -> Array:
        """The derivative of the smooth part."""

    def unit(self, values: Array) -> Array:
        """What one unit more costs than these whole values: no difference of costs, in which large counts lose it."""

    def units(self, multiplier: Array) -> Array:
        """The largest whole k such that the step from k - 1 to k costs at most the multiplier, (rows, 1)."""

    def values(self, multiplier: Array) -> tuple[Array, Array]:
        """Where the derivative passes the multiplier, and how fast that moves with it (0 at a kink)."""

    def near(self, total: float, /) -> tuple[Array, Array] | None:
        """Near which multiplier values without bounds add up to a total, and how near as a rule; (rows,) each.

        None where it is looked for by halves, from 0 on. Of units that cost the same to the last digit the way there
        takes some, and values that were published so are estimated again by `verify`.
        """


@dataclass(frozen=True)
class SquaredCost:
    """Half the squared distance to the noisy values.

    Its minimiser under bounds and a sum is an L1 minimiser too: the L1 cost of a unit is the squared one's cut to
    [-1, 1], so what is cheapest for the squares is cheapest for both.
    """

    noisy: Array
    least: ClassVar[float] = -np.inf

    @property
    def weight(self) -> Array:
        """No absolute distance."""
        return np.zeros((len(self.noisy), 1))

    def take(self, rows: NDArray[np.intp]) -> SquaredCost:
        """Some rows."""
        return SquaredCost(self.noisy[rows])

    def curve(self, values: Array) -> Array:
        """Half the square."""
        return np.asarray(0.5 * (values - self.noisy) ** 2)

    def curve_slope(self, values: Array) -> Array:
        """Its derivative."""
        return values - self.noisy

    def unit(self, values: Array) -> Array:
        """The difference of squares."""
        return values + 0.5 - self.noisy

    def units(self, multiplier: Array) -> Array:
        """The step from k - 1 to k costs k - 1/2 - noisy."""
        return np.asarray(np.floor(self.noisy + multiplier + 0.5))

    def values(self, multiplier: Array) -> tuple[Array, Array]:
        """The derivative is value - noisy."""
        return self.noisy + multiplier, np.ones_like(self.noisy)

    def near(self, _total: float, /) -> None:
        """By halves: noise adds up to little, and equal costs are common."""


@dataclass(frozen=True)
class WeighedSquares(SquaredCost):
    """Half the squared distance to the noisy values, each weighed; under constraints that are solved as a program.

    Attributes:
        weights: (cells,) > 0, the largest 1.
    """

    weights: Array

    def take(self, rows: NDArray[np.intp]) -> WeighedSquares:
        """Some rows."""
        return WeighedSquares(self.noisy[rows], self.weights)

    def curve(self, values: Array) -> Array:
        """Half the square, weighed."""
        return np.asarray(0.5 * self.weights * (values - self.noisy) ** 2)

    def curve_slope(self, values: Array) -> Array:
        """Its derivative."""
        return np.asarray(self.weights * (values - self.noisy))

    def unit(self, values: Array) -> Array:
        """The difference of squares, weighed."""
        return np.asarray(self.weights * (values + 0.5 - self.noisy))


@dataclass(frozen=True)
class MapCost:
    """|r - noisy| / scale + lnGamma(r + 1) - r ln P: minus the log posterior of counts, up to a constant; r >= 0.

    Attributes:
        noisy: (rows, cells).
        scale: (rows, 1) of the Laplace noise, > 0.
        law: (rows, cells) probabilities; 0 fixes the count at 0.

    Source: CAO23
    """

    noisy: Array
    scale: Array
    law: Array
    least: ClassVar[float] = 0.0

    @property
    def weight(self) -> Array:
        """Of the Laplace likelihood."""
        return 1.0 / self.scale

    @cached_property
    def log_law(self) -> Array:
        """Logarithm of P, -inf where P = 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.law))

    @cached_property
    def _crossing(self) -> tuple[Array, Array, Array]:
        """The whole numbers below and above noisy, and the pull from which on the step between them is worth it."""
        floor = np.floor(self.noisy)
        across = np.maximum(floor + 1.0, 1.0)
        return floor, across, np.log(across) + (2.0 * (floor - self.noisy) + 1.0) * self.weight

    def take(self, rows: NDArray[np.intp]) -> MapCost:
        """Some rows, with what is known of them."""
        some = MapCost(self.noisy[rows], self.scale[rows], self.law[rows])
        vars(some)["log_law"] = self.log_law[rows]
        if "_crossing" in vars(self):
            vars(some)["_crossing"] = tuple(column[rows] for column in self._crossing)
        return some

    def curve(self, values: Array) -> Array:
        """The multinomial part, inf where P = 0 and r > 0."""
        from scipy.special import gammaln

        with np.errstate(invalid="ignore"):
            drawn_to = np.where(values == 0, 0.0, values * self.log_law)
        return np.asarray(gammaln(values + 1.0) - drawn_to)

    def curve_slope(self, values: Array) -> Array:
        """Its derivative."""
        from scipy.special import digamma

        return np.asarray(digamma(values + 1.0) - self.log_law)

    def unit(self, values: Array) -> Array:
        """Of one user more who is there with probability P, inf where that is 0, and of the distance."""
        farther = np.clip(2.0 * (values - self.noisy) + 1.0, -1.0, 1.0)
        return np.asarray(self.weight * farther + np.log(values + 1.0) - self.log_law)

    def units(self, multiplier: Array) -> Array:
        """The step from k - 1 to k costs ln(k / P) minus, about or plus 1 / scale: below, around or above noisy."""
        pull = multiplier + self.log_law
        below = np.floor(np.exp(np.minimum(pull + self.weight, LARGEST_EXPONENT)))
        above = np.floor(np.exp(np.minimum(pull - self.weight, LARGEST_EXPONENT)))
        floor, across, worth = self._crossing
        crossed = worth <= pull
        return np.maximum(np.maximum(np.minimum(below, floor), above), np.where(crossed & (floor >= 0), across, 0.0))

    def values(self, multiplier: Array) -> tuple[Array, Array]:
        """The derivative is digamma(r + 1) - ln P -+ 1 / scale, with a jump at noisy."""
        pull = multiplier + self.log_law
        below = _inverse_digamma(pull + self.weight) - 1.0
        above = _inverse_digamma(pull - self.weight) - 1.0
        values = np.maximum(np.minimum(below, self.noisy), above)
        moving = (values > 0) & ((values == below) | (values == above))
        rate = np.where(moving, 1.0 / _trigamma(np.maximum(values, 0.0) + 1.0), 0.0)
        return values, rate

    def near(self, total: float, /) -> tuple[Array, Array]:
        """Values are P exp(q) but for the distance's weight, and for less than one each."""
        whole = self.law.sum(axis=1)
        middle = np.log1p(total) - np.log(np.where(whole > 0, whole, 1.0))
        return middle, np.minimum(self.weight[:, 0], 1.0) + np.log1p(self.law.shape[1] / (1.0 + total))


def _inverse_digamma(slope: Array) -> Array:
    """Where digamma, on [1, inf), has this value; 1 below digamma(1)."""
    from scipy.special import digamma

    slope = np.clip(slope, digamma(1.0), LARGEST_EXPONENT)
    x = np.exp(slope) + 0.5
    for _ in range(4):
        x = np.maximum(x - (digamma(x) - slope) / _trigamma(x), 1.0)
    return np.asarray(x)


def _trigamma(x: Array) -> Array:
    """The slope of digamma at x >= 1, to 1e-7: enough for a Newton step, and far faster than exactly."""
    y = x + 4.0
    tail = (1.0 + (0.5 + (1.0 / 6.0 - 1.0 / (30.0 * y * y)) / y) / y) / y
    return np.asarray(tail + x**-2 + (x + 1.0) ** -2 + (x + 2.0) ** -2 + (x + 3.0) ** -2)


def minimise_integers(cost: SeparableCost, total: float | None, lower: Array, upper: Array) -> Array:
    """Whole-numbered values of least cost, exactly.

    Args:
        cost: of (rows, cells).
        total: the whole number that every row adds up to, or None.
        lower: (cells,) whole numbers or -inf; some values between `lower` and `upper` have finite cost and the total.
        upper: (cells,) whole numbers or inf.

    Returns:
        (rows, cells); among equals, earlier cells get more.
    """
    if total is None:
        return np.clip(cost.units(np.zeros((1, 1))), lower, upper)
    near = cost.near(total)
    start = _from_zero(len(cost.noisy)) if near is None else near
    low, high, missing, beyond = _bracket(lambda q: np.clip(cost.units(q), lower, upper).sum(axis=1), total, *start)
    rows = np.flatnonzero(missing > FEW_UNITS)
    part = cost.take(rows)
    for turn in range(ROUNDS if rows.size else 0):
        share: Array | float = 0.5
        if near is not None and turn % 3 < 2:  # where few units would be missing, were the sum a line between the ends
            share = (missing[rows] - FEW_UNITS / 2) / (missing[rows] + beyond[rows])
        middle = low[rows] + share * (high[rows] - low[rows])
        left = total - np.clip(part.units(middle[:, None]), lower, upper).sum(axis=1)
        under, over = rows[left >= 0], rows[left < 0]
        low[under], missing[under] = middle[left >= 0], left[left >= 0]
        high[over], beyond[over] = middle[left < 0], -left[left < 0]
        going = (missing[rows] > FEW_UNITS) & (high[rows] - low[rows] > EXACT * (1e-3 + np.abs(middle)))
        if not going.any():
            break
        if not going.all():
            rows = rows[going]
            part = cost.take(rows)
    return _hand_out(cost, np.clip(cost.units(low[:, None]), lower, upper), total, upper)


def _hand_out(cost: SeparableCost, values: Array, total: float, upper: Array) -> Array:
    """Add the cheapest unit to every row until it has its total."""
    rows = np.flatnonzero(values.sum(axis=1) < total)
    while rows.size:
        part, held = cost.take(rows), values[rows]
        price = np.where(held < upper, part.unit(held), np.inf)
        values[rows, np.argmin(price, axis=1)] += 1.0
        rows = rows[values[rows].sum(axis=1) < total]
    return values


def minimise_reals(cost: SeparableCost, total: float | None, lower: Array, upper: Array) -> Array:
    """Real values of least cost, to rounding; arguments as for `minimise_integers`, whole or not."""
    if total is None:
        return np.clip(cost.values(np.zeros((1, 1)))[0], lower, upper)
    start = _from_zero(len(cost.noisy))
    low, high, _, _ = _bracket(lambda q: np.clip(cost.values(q)[0], lower, upper).sum(axis=1), total, *start)
    guess = 0.5 * (low + high)
    values = np.empty_like(cost.noisy)
    rows = np.arange(len(values))
    for turn in range(ROUNDS):
        part = cost.take(rows)
        free, rate = part.values(guess[rows, None])
        inside = np.clip(free, lower, upper)
        rate = np.where(free == inside, rate, 0.0)
        speed = np.maximum(rate.sum(axis=1), 1e-300)
        left = total - inside.sum(axis=1)
        values[rows] = np.clip(inside + rate * (left / speed)[:, None], lower, upper)  # the sum holds to the last bit
        now = guess[rows]
        low[rows[left >= 0]] = now[left >= 0]
        high[rows[left <= 0]] = now[left <= 0]
        newton = now + left / speed
        halved = (newton <= low[rows]) | (newton >= high[rows]) | (turn % 4 == 3)
        guess[rows] = np.where(halved, 0.5 * (low[rows] + high[rows]), newton)
        size = 1.0 + np.abs(inside).sum(axis=1)
        going = (np.abs(left) > EXACT * size) & (high[rows] > low[rows])
        if not going.any():
            break
        rows = rows[going]
    return values


def _from_zero(rows: int) -> tuple[Array, Array]:
    return np.zeros(rows), np.ones(rows)


def _bracket(
    sums: Callable[[Array], Array], total: float, middle: Array, apart: Array
) -> tuple[Array, Array, Array, Array]:
    """Multipliers whose values add up to at most, and at least, the total; what is missing there, and too much here.

    All are (rows,). They lie `apart` from a middle, or twice, four times ... as far.
    """
    low, high = middle - apart, middle + apart
    far = apart.copy()
    while (wrong := (missing := total - sums(low[:, None])) < 0).any():
        far[wrong] *= 2.0
        low = middle - far
    far = apart.copy()
    while (wrong := (beyond := sums(high[:, None]) - total) < 0).any():
        far[wrong] *= 2.0
        high = middle + far
    return low, high, missing, beyond
