"""The other route to a schedule's leakage: the hull proposes every number, and it is decided here, without search.

L(alpha) <= bound exactly when sum_j (q_j - e^bound d_j)^+ <= (e^bound - 1) / (e^alpha - 1) for all pairs of rows.
The left side is rounded up and the right side down. Powers and reversals of a chain come with a bound on the relative
error of their entries: every q_j is taken as large as it may be, every d_j as small. So what is accepted holds for the
chain that the plan tells in decimals, to the last bit. Of numpy's exp and expm1 an error of 4 units is allowed for.

Source: CAO17 (the loss function). The audit form is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_runtime.errors import PlanRejectedError
from policyc_runtime.privacy.chains import Chain
from policyc_runtime.privacy.leakage import Lags, SideLike, as_side, inherited, lag_set
from policyc_runtime.privacy.loss import LossFunction, transition_matrix
from policyc_runtime.privacy.sides import Side
from policyc_runtime.privacy.stationary import VANISHING
from policyc_runtime.rounding import UNIT, roundings

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_CHUNK = 1 << 15  # floats of a working block
_GROUPS = 32  # of right sides that are tried by their least
_MARGIN = 1 + 2.0**-45  # more than all roundings of a line and of a sum
_SMALLEST = 1e-290
_LOST = 1e-250  # entries below it may have been raised, from nothing
_ROUNDS = 200  # around a repeating pattern
_LARGEST = 700.0  # beyond it e^x overflows; every column with d_j >= 1e-300 is then out of the sum


def audited_loss_bound(
    matrix: ArrayLike, alpha: ArrayLike, bound: ArrayLike, row_tolerance: float = 0.0, relative_error: float = 0.0
) -> NDArray[np.bool_]:
    """Whether L(alpha) <= bound, by its definition, with every rounding going against us.

    Args:
        matrix: (n, n), row-stochastic.
        alpha: shape (m,), nats, >= 0.
        bound: shape (m,), nats.
        row_tolerance: total variation within which every row is known.
        relative_error: every true entry is within a factor exp(+-relative_error) of the one given.

    Returns:
        shape (m,); False means not shown, which for a bound within a few ulps of L may happen although it holds.
    """
    P = transition_matrix(matrix)
    pairs, back = np.unique(
        np.column_stack([np.ravel(alpha), np.ravel(bound)]).astype(np.float64), axis=0, return_inverse=True
    )
    a, b = pairs.T
    shown = (b >= a) | (a == 0)
    shown &= (a >= 0) & (b >= 0)
    open_ = np.flatnonzero(~shown & (b >= 0) & np.isfinite(a))
    if len(open_):
        excess = _RoundedUp(P, relative_error)
        shown[open_] = _excess_at_most(excess, *_sides_of_inequality(a[open_], b[open_], row_tolerance))
    return np.asarray(shown[back.ravel()])


def _sides_of_inequality(a: Floats, b: Floats, row_tolerance: float) -> tuple[Floats, Floats]:
    """Rounded down: mu = e^b - 1, and (e^b - 1) / (e^a - 1) minus what uncertain rows may add."""
    mu = np.expm1(np.minimum(b, _LARGEST)) * (1 - 12 * UNIT)
    with np.errstate(invalid="ignore", divide="ignore"):
        right = np.exp(b - a) * (np.expm1(-b) / np.expm1(-a))
    right = np.where(right > _SMALLEST, right * (1 - (32 + a - b) * UNIT), 0.0)
    if row_tolerance:
        right = right - row_tolerance * (2 + np.expm1(np.minimum(b, _LARGEST))) * (1 + 24 * UNIT)
    return mu, right


def _excess_at_most(excess: _RoundedUp, mu: Floats, right: Floats) -> NDArray[np.bool_]:
    """Whether sum_j (q_j - d_j - mu d_j)^+ <= right for all ordered pairs of rows.

    The sum is convex in mu: between two mu a pair stays below the line through its two ends, and where that line is
    below every right side, the pair need not be summed. What is summed decides as if all had been.
    """
    order = np.argsort(mu)
    mu, right = mu[order], right[order]
    pairs = np.arange(excess.count)
    ends = excess(pairs, mu[[0, -1]])
    holds = np.ones(len(mu), dtype=bool)
    holds[[0, -1]] = (ends <= right[[0, -1]]).all(axis=0)
    spans = [(0, len(mu) - 1, pairs, ends[:, 0], ends[:, 1])]
    while spans:
        low, high, pairs, left, last = spans.pop()
        inner = slice(low + 1, high)
        if high - low < 2:
            continue
        keep = _may_exceed(mu[low : high + 1], right[inner], left, last)
        pairs, left, last = pairs[keep], left[keep], last[keep]
        if len(pairs) * (high - low) * excess.width <= 8 * _CHUNK:
            holds[inner] &= (excess(pairs, mu[inner]) <= right[inner]).all(axis=0)
            continue
        middle = (low + high) // 2
        here = excess(pairs, mu[middle : middle + 1])[:, 0]
        holds[middle] &= bool((here <= right[middle]).all())
        spans += [(low, middle, pairs, left, here), (middle, high, pairs, here, last)]
    result = np.empty_like(holds)
    result[order] = holds
    return result


def _may_exceed(mu: Floats, right: Floats, left: Floats, last: Floats) -> NDArray[np.bool_]:
    """Which pairs may exceed a right side at an inner mu, given their excess at the first and at the last."""
    starts = np.unique(np.linspace(0, len(right), _GROUPS, endpoint=False).astype(np.intp))
    least = np.minimum.reduceat(right, starts)  # not a number stays so, and is never held
    across = (mu[starts + 1] - mu[0]) / (mu[-1] - mu[0]) if mu[-1] > mu[0] else np.zeros(len(starts))
    line = (left * _MARGIN)[:, None] + np.minimum(last - left, 0.0)[:, None] * across
    return np.asarray(~(line <= least).all(axis=1))


class _RoundedUp:
    """The excess of ordered pairs of rows, rounded up; pair number i n + j has the rows q = i and d = j."""

    def __init__(self, P: Floats, relative_error: float) -> None:
        rows = np.unique(P, axis=0)
        self._n, self.width = rows.shape
        self.count = self._n**2
        self._lower = np.where(rows < _LOST, 0.0, rows)
        self._upper = np.where((rows > 0) & (rows < VANISHING), VANISHING, rows)
        if relative_error:
            self._lower *= math.exp(-relative_error) * (1 - 4 * UNIT)
            self._upper *= math.exp(relative_error) * (1 + 4 * UNIT)
        self._factor = 1 + (roundings(self.width) + 2) * UNIT

    def __call__(self, pairs: Indices, mu: Floats) -> Floats:
        """Shape (len(pairs), len(mu))."""
        out = np.empty((len(pairs), len(mu)))
        step = max(1, _CHUNK // (self.width * len(mu)))
        for start in range(0, len(pairs), step):
            i, j = np.divmod(pairs[start : start + step], self._n)
            d = self._lower[j]
            difference = self._upper[i] - d
            difference = np.where(difference > 0, np.nextafter(difference, np.inf), 0.0)[:, None, :]
            part = d[:, None, :] * mu[:, None]
            np.minimum(difference, part, out=part)
            np.subtract(difference, part, out=part)  # (x - y)^+ = x - min(x, y), for floats too
            np.multiply(part.sum(axis=2), self._factor, out=out[start : start + step])
        return out


def _outward(width: int) -> float:
    """The factor that lifts a proposed value just above what rounding against us takes from it in the audit."""
    return 1 + (2 * roundings(width) + 64) * UNIT


def _proposed(loss: LossFunction, leakage: float) -> float:
    """L(leakage), lifted above what roundings may hide: relative errors e in q and d change it by at most 2 e."""
    value = loss(leakage) * _outward(len(loss.matrix))
    if loss.relative_error:
        value += 2.02 * (loss.relative_error + 8 * UNIT) * -math.expm1(-leakage)
    return min(leakage, value)


def _up(a: float, b: float) -> float:
    total = a + b
    return math.nextafter(total, math.inf) if total - a != b or total - b != a else total


class _Audit:
    """One direction: proposes values raised by a few ulps, and remembers them until they are audited."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._claims: dict[int, tuple[LossFunction, list[tuple[float, float, int]]]] = {}

    def propose(self, step: int, lag: int, leakage: float) -> float:
        if leakage < _SMALLEST:
            return leakage  # L(a) <= a needs no audit, and nothing smaller can be rounded with care
        loss = self._side.loss(step, lag)
        value = _proposed(loss, leakage)
        self.claim(loss, leakage, value, step)
        return value

    def claim(self, loss: LossFunction, alpha: float, bound: float, step: int) -> None:
        if bound < alpha:
            self._claims.setdefault(id(loss), (loss, []))[1].append((alpha, bound, step))

    def check(self, where: str) -> None:
        for loss, claims in self._claims.values():
            table = np.array(claims)
            errors = loss.row_tolerance, loss.relative_error
            holds = audited_loss_bound(loss.matrix, table[:, 0], table[:, 1], *errors)
            if not holds.all():
                step = int(table[~holds, 2].min())
                raise PlanRejectedError(
                    "E0801",
                    "leakage passed on between steps is larger than computed",
                    where=f"{where}, step {step}",
                    because="the audit by the definition of the loss function does not confirm the bound",
                    help="compile the policy again; if it persists, report it with the chain",
                )


def _sides(chain: Chain | tuple[SideLike, SideLike]) -> tuple[Side, Side]:
    if isinstance(chain, Chain):
        return chain.backward_side(), chain.forward_side()
    return as_side(chain[0]), as_side(chain[1])


def audited_finite_inheritance(
    epsilons: ArrayLike, chain: Chain | tuple[SideLike, SideLike], lags: Lags = 1
) -> tuple[Floats, Floats]:
    """What each step inherits at most from all before it, and from all after it, nats, (T,) each.

    Args:
        epsilons: shape (T,), budgets, 0 for no release.
        chain: the chain, or (backward, forward) in any form that `total_leakage` takes.
        lags: as in `total_leakage`.

    Raises:
        PlanRejectedError: E0801, naming the step at which a bound is not confirmed.
    """
    array = np.asarray(epsilons, dtype=np.float64)
    if array.ndim != 1 or not (np.isfinite(array) & (array >= 0)).all():
        raise PlanRejectedError("E0801", "a budget is not a finite number of at least 0")
    backward, forward = _sides(chain)
    before = _audited_prior(array, backward, lag_set(lags), "backward leakage")
    after = _audited_prior(array[::-1], forward.reversed(), lag_set(lags), "forward leakage, from the end")[::-1]
    return before, after


def _audited_prior(budgets: Floats, side: Side, lags: tuple[int, ...], where: str) -> Floats:
    side.check_horizon(len(budgets))
    audit = _Audit(side)
    result = inherited(budgets, side, lags, audit.propose, _up)
    audit.check(where)
    return result


def audited_inheritance(
    pattern: Sequence[float], chain: Chain | tuple[SideLike, SideLike], lags: Lags = 1
) -> tuple[list[float], list[float]]:
    """What each step of an endless repeating pattern inherits at most from all before it, and from all after it, nats.

    Over k whole periods, which cost k times the pattern's sum whatever the path, a leakage B with
    k sum + L(B) <= B is never exceeded at a release: at first nothing is inherited, and every later release inherits at
    most L(B). From there each release bounds the next one through the chain over the gap, round and round, and
    whatever is reached holds too. Every L in it is audited. The stream may begin and stop anywhere: fewer releases
    leak less.

    Args:
        pattern: budgets in nats of each step of a period; 0 for no release.
        chain: as in `audited_finite_inheritance`.
        lags: as in `total_leakage`; those that are no whole periods go unused.

    Returns:
        (period,) each; inf where no bound is known.

    Raises:
        PlanRejectedError: E0801, when a bound is not confirmed.
    """
    budgets = [float(epsilon) for epsilon in pattern]
    if not all(math.isfinite(epsilon) and epsilon >= 0 for epsilon in budgets):
        raise PlanRejectedError("E0801", "a budget is not a finite number of at least 0")
    backward, forward = _sides(chain)
    if backward.settled or forward.settled:
        raise PlanRejectedError("E0801", "an endless stream needs a chain whose law does not change from step to step")
    if not any(budgets):
        return budgets, budgets
    before = _audited_cycle(budgets, backward, lag_set(lags), "backward leakage")
    after = _audited_cycle(budgets[::-1], forward, lag_set(lags), "forward leakage")[::-1]
    return before, after


def _audited_cycle(pattern: list[float], side: Side, lags: tuple[int, ...], where: str) -> list[float]:
    """Leakage that each step of a period inherits at most, however often the pattern went before."""
    period = len(pattern)
    total = 0.0
    for epsilon in pattern:
        total = _up(total, epsilon)
    periods = sorted({1, *(lag // period for lag in lags if lag % period == 0)})
    limits = {k: side.loss(0, k * period).supremum(k * total) for k in periods}
    best = min(periods, key=lambda k: limits[k])
    limit = math.inf
    if limits[best] < math.inf:
        spent = math.nextafter(best * total, math.inf) if best > 1 else total
        limit = _audited_limit(spent, best * period, limits[best], side, where)
    if limit == math.inf:
        return [math.inf] * period
    audit = _Audit(side)
    releases = [step for step in range(period) if pattern[step] > 0]
    leaked = dict.fromkeys(releases, limit)
    for _ in range(_ROUNDS if len(releases) > 1 else 0):
        falling = False
        for last, step in zip([releases[-1], *releases], releases, strict=False):
            gap = (step - last - 1) % period + 1
            value = _up(pattern[step], audit.propose(step, gap, leaked[last]))
            falling |= value < leaked[step] * (1 - 1e-13)
            leaked[step] = min(leaked[step], value)
        if not falling:
            break
    passed_on = []
    for step in range(period):
        last = max((r for r in releases if r < step), default=releases[-1])
        value = audit.propose(step, (step - last - 1) % period + 1, leaked[last])
        if pattern[step] > 0:
            value = min(value, math.nextafter(leaked[step] - pattern[step], math.inf))
        passed_on.append(value)
    audit.check(where)
    return passed_on


def _audited_limit(spent: float, lag: int, proposed: float, side: Side, where: str) -> float:
    """A fixed point spent + L(B) <= B over `lag` steps, raised until its inequality is certain."""
    loss = side.loss(lag, lag)
    limit = proposed
    for doubling in range(2, 62):
        passed_on = _proposed(loss, limit)
        need = _up(spent, passed_on)
        if need <= limit:
            audit = _Audit(side)
            audit.claim(loss, limit, passed_on, lag)
            audit.check(where)
            return limit
        limit = max(need, limit + 2.0**doubling * (need - limit))
    return math.inf
