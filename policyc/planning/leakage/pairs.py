"""What constant budgets leak through a chain, for every ordered pair of states: no more than outputs can tell.

Let x and y be how likely outputs are, given states i and j one step later, as rows over the states of the first of
these outputs. Outputs of a step multiply columns by 1 or by e^epsilon. All being fixed but one step's, likelihoods of
what lies beyond it are never below 0, so that x - r y is largest where those columns grow in which it is above 0:
whatever lies beyond. So the most that x can be of y is found by Dinkelbach's method: for a ratio r the best outputs,
one step after the other, and of these a larger ratio, until there is none. That is all there is to tell, and a plan
says it; the check carries the same inequality through the chain, with every rounding against it.

Where rows are known only within total variation rho, at every step anew, M v changes by at most rho times the range of
v, which is at most R v for rows R = r_j M_j. Of that range: v_k is at most M_j v over the sum of M_jm e^(-a_km), v_l at
least M_j v over the sum of M_jm e^(a_ml), and v_l at least e^(-a_kl) v_k, where v_k <= e^(a_kl) v_l. Of these rows the
least is taken off x - r y at every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from policyc.planning.largest import largest
from policyc.planning.leakage.best_outputs import PATIENCE, Rough, told
from policyc.planning.leakage.loss import LossFunction
from policyc_check.plan.claims import PairBounds
from policyc_check.steps.chains import Chain

Floats = NDArray[np.float64]

MOST_STATES = 20
_ROUNDS = 100  # of Dinkelbach's method
_AHEAD = 4.0  # of what the last one gained, by which the next ratio may lie ahead of what is reached
_NEAR = 1e-13  # relative change of a ratio at which it is found, and what a step gains or loses when none is followed
_LARGEST = 50.0  # nats: leakage beyond it is taken for none
_ROOM = 1e-10  # by which what a plan states is raised, of the largest
_GUESSES = 50  # of bounds where rows are known roughly
_CLOSE = 1e-8  # of the largest, by which these may be too large
_ROUGHLY = 1e-2  # of what a guess lacks, to which the next one is followed
_FOUND = 1e-9  # relative change at which a budget is found


@dataclass(frozen=True)
class Settled:
    """Constant budgets, nats, and what a step inherits from before and after, for every pair, (n, n)."""

    epsilon: float
    before: Floats
    after: Floats
    laws: tuple[Floats, Floats]
    steps: int | None  # before or after another one; None for any number
    near: tuple[bytes, bytes]  # where it was looked for

    @property
    def stated(self) -> tuple[PairBounds, PairBounds]:
        """As a plan says it."""
        return PairBounds(nats=tuple(self.before.ravel().tolist())), PairBounds(nats=tuple(self.after.ravel().tolist()))

    def largest(self, epsilon: float, first: float, last: float) -> float:
        """The largest total leakage of a stream of at most these budgets, and those at its ends, nats."""
        inside = epsilon + float((self.before + self.after).max())
        return max(inside, first + float(self.after.max()), last + float(self.before.max()))

    def free_ends(self, epsilon: float, alpha: float) -> tuple[float, float]:
        """The largest budgets of a first and a last step that leave all bounds as they are, and leak at most alpha."""
        first = _free_end(self.laws[0], self.before, epsilon, self.steps)
        last = _free_end(self.laws[1], self.after, epsilon, self.steps)
        return min(first, alpha - float(self.after.max())), min(last, alpha - float(self.before.max()))


def settled(
    chain: Chain,
    epsilon: float,
    ends: tuple[float, float] = (0.0, 0.0),
    steps: int | None = None,
    rho: float = 0.0,
    near: tuple[bytes, bytes] = (b"", b""),
) -> Settled | None:
    """What a constant budget leaks; None for no bound that is found.

    Args:
        chain: one whose laws do not change from step to step.
        epsilon: the budget, nats.
        ends: budgets of a first and a last step, nats, where they are larger.
        steps: that a step has before it or after it, at most; None for any number.
        rho: total variation within which rows of both laws are known, at every step anew.
        near: about what is inherited from before and after, (n, n) each, where that is known.
    """
    if chain.states > MOST_STATES or chain.backward_side().settled or chain.forward_side().settled:
        return None
    sides = []
    for law, end, about in zip((chain.backward, chain.forward), ends, near, strict=True):
        found = _side(law.tobytes(), epsilon, max(end, epsilon), _followed(steps), rho, about)
        if not np.isfinite(found).all():
            return None
        sides.append(np.where(np.eye(len(law)), 0.0, found + _ROOM * found.max() + _NEAR))
    return Settled(epsilon, sides[0], sides[1], (chain.backward, chain.forward), steps, near)


def _followed(steps: int | None) -> int | None:
    """So many steps as there are, or None: outputs that are not forgotten by then are not followed to the end."""
    return None if steps is None or steps > PATIENCE else steps


@lru_cache(maxsize=64)
def _side(law: bytes, epsilon: float, first: float, steps: int | None, rho: float, near: bytes) -> Floats:
    """What is inherited from one side; kept, as a plan is drafted with budgets that were tried."""
    matrix = _matrix(law)
    if rho:
        return _roughly(matrix, epsilon, first, steps, rho)
    if first > epsilon:  # after what all others tell, which is often known
        return inherited(matrix, epsilon, first, steps, _side(law, epsilon, epsilon, steps, rho, near))
    return inherited(matrix, epsilon, first, steps, _matrix(near) if near else None)


def _matrix(law: bytes) -> Floats:
    return np.frombuffer(law).reshape(math.isqrt(len(law) // 8), -1)


def largest_budget(chain: Chain, alpha: float, steps: int | None = None) -> Settled | None:
    """The largest constant budget that leaks at most about alpha nats; None for none found. Arguments as above."""
    if chain.states > MOST_STATES or chain.backward_side().settled or chain.forward_side().settled:
        return None
    epsilon, near = _largest(chain.backward.tobytes(), chain.forward.tobytes(), alpha, _followed(steps))
    return settled(chain, epsilon, steps=steps, near=near) if epsilon else None


@lru_cache(maxsize=64)
def _largest(backward: bytes, forward: bytes, alpha: float, steps: int | None) -> tuple[float, tuple[bytes, bytes]]:
    """Of a plan, whose schedules ask for the same, and about what is inherited from both sides; 0 for none."""
    laws = [_matrix(side) for side in (backward, forward)]
    known: list[tuple[float, Floats]] = []  # by logarithms of budgets what both sides tell, (2, n, n)

    def told_of(epsilon: float, near: Floats | None, precision: float) -> Floats:
        about = (None, None) if near is None else near
        return np.array(
            [
                inherited(law, epsilon, 0.0, steps, start, 4 * alpha, precision=precision)
                for law, start in zip(laws, about, strict=True)
            ]
        )

    @cache  # ends of an interval are asked for again, and what is near then is another
    def left(epsilon: float) -> float:
        log_budget, near, precision = math.log(epsilon), None, _ROUGHLY**2
        if known:
            (earlier, less), (latest, more) = (known * 2)[-2:]
            slope = (more - less) / (latest - earlier) if latest != earlier else more
            near = np.maximum(more + slope * (log_budget - latest), 0.0)
            precision = min(precision, _ROUGHLY**2 * abs(log_budget - latest))
        found, precision = told_of(epsilon, near, max(precision, _FOUND)), max(precision, _FOUND)
        while math.isfinite(total := epsilon + float(found.sum(axis=0).max())):
            if precision == _FOUND or abs(alpha - total) > precision / _ROUGHLY * alpha:
                known.append((log_budget, found))
                break
            precision = max(_FOUND, precision * _ROUGHLY)  # so roughly nobody knows on which side of the root it is
            found = told_of(epsilon, found, precision)
        return alpha - total

    low = _kept_by_recursion(laws, alpha) or alpha / 1e6
    if left(low) < 0:  # outputs are not forgotten soon enough, and of larger budgets less so
        return 0.0, (b"", b"")
    ahead = min(alpha, low * alpha / (alpha - left(low)))  # where it would be if leakage grew as budgets do
    low, high = (low, ahead) if left(ahead) < 0 else (ahead, alpha)
    epsilon = largest(left, low, high, alpha, unspent=_FOUND) * (1 - 2 * _FOUND)
    return epsilon, (known[-1][1][0].tobytes(), known[-1][1][1].tobytes())


def _kept_by_recursion(laws: Sequence[Floats], alpha: float) -> float:
    """A constant budget, nats, that leaks at most alpha for ever by one bound for all pairs; 0 for none."""
    losses = [LossFunction(law) for law in laws]

    def left(epsilon: float) -> float:
        return alpha - sum(loss.supremum(epsilon, alpha) for loss in losses) + epsilon

    return largest(left, 0.0, alpha, alpha, unspent=_ROUGHLY)


def inherited(
    law: Floats,
    epsilon: float,
    first: float = 0.0,
    steps: int | None = None,
    near: Floats | None = None,
    largest: float = _LARGEST,
    rough: Rough | None = None,
    precision: float = _NEAR,
) -> Floats:
    """The most that outputs before a step tell of every pair of its states, nats, (n, n); inf beyond `largest`.

    Args:
        law: of the state before, (n, n), rows sum to 1.
        epsilon: what each step's outputs tell at most, nats.
        first: what the first one's do, where that is more.
        steps: before this one, at most; None for any number.
        near: about what is found.
        largest: beyond which nobody asks.
        rough: of rows that are known roughly.
        precision: relative, of what is told.
    """
    off = ~np.eye(len(law), dtype=np.bool_)
    i, j = np.nonzero(off)
    tried, open_ = np.ones(len(i)) if near is None else np.exp(near[off]), np.arange(len(i))
    ratio, below, lacked = (np.full(len(i), value) for value in (1.0, np.nan, np.nan))
    count, quick = math.inf if steps is None else steps, rough is None
    for _ in range(_ROUNDS if count else 0):
        at = tried[open_]
        pairs, budgets = (i[open_], j[open_], at), (epsilon if quick else max(first, epsilon), epsilon)
        found = told(law, pairs, budgets, count, math.exp(largest), rough, precision, quick)
        ratio[open_] = found if rough else np.maximum(ratio[open_], found)
        if not (found <= math.exp(largest)).all():
            return np.where(off, np.inf, 0.0)
        lacks = found - at  # above 0 as long as there is more to tell
        with np.errstate(divide="ignore", invalid="ignore"):  # by the last two ratios below, where lacks would be 0
            ahead = at + lacks * (at - below[open_]) / (lacked[open_] - lacks)
        under = (lacks > 0) & (rough is None)  # of rough rows what is lacked may rise, and ratios fall
        tried[open_] = np.where(under & (ahead > found) & (ahead < found + _AHEAD * lacks), ahead, ratio[open_])
        below[open_[under]], lacked[open_[under]] = at[under], lacks[under]
        open_ = open_[np.abs(ratio[open_] - at) > precision * found]
        if not len(open_) and quick and first > epsilon:  # now of fewer steps outputs may tell more
            open_, quick = np.arange(len(i)), False
            below[:] = lacked[:] = np.nan
        if not len(open_):
            break
    nats = np.zeros_like(law)
    nats[off] = np.log(ratio) if count else 0.0
    return nats


def _roughly(law: Floats, epsilon: float, first: float, steps: int | None, rho: float) -> Floats:
    """The same where rows are known within rho: bounds that reproduce themselves; inf for none."""

    def passed(bounds: Floats, precision: float) -> Floats:
        apart = closed(np.maximum(bounds + epsilon, first))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            most = 1 / (law @ np.exp(-apart).T)  # of v_k / M_j v, at j, k
            least = 1 / (law @ np.exp(apart))  # of v_l / M_j v, at j, l
            ranges = np.minimum(most[:, :, None] - least[:, None, :], most[:, :, None] * -np.expm1(-apart))
        rough = Rough(rho * (1 + 1e-12) + 1e-15, ranges.max(axis=(1, 2))[:, None] * law, float(apart.max()))
        return inherited(law, epsilon, first, steps, bounds, rough=rough, precision=precision)

    precision = _ROUGHLY
    bounds, onward, missed, slope = inherited(law, epsilon, first, steps), np.zeros_like(law), np.zeros_like(law), 0.0
    for _ in range(_GUESSES):
        after = passed(bounds, precision) if np.isfinite(bounds).all() else bounds
        if not np.isfinite(after).all():
            break
        missing = after - bounds
        if missing.max() <= 0 and missing.min() >= -_CLOSE * after.max():
            if precision == _NEAR:
                return bounds
            precision = _NEAR
            continue
        precision = max(_NEAR, _ROUGHLY * min(1.0, float(np.abs(missing).max() / after.max())))
        if (most := onward.flat[np.abs(onward).argmax()]) != 0:
            slope = 1 - float((missed - missing).flat[np.abs(onward).argmax()] / most)
            slope = min(max(slope, 0.0), 0.99)
        raised = np.maximum(bounds + missing / (1 - slope), 0.0) + 0.1 * _CLOSE * after.max()
        np.fill_diagonal(raised, 0.0)
        bounds, onward, missed = raised, raised - bounds, missing
    return np.full_like(law, np.inf)


def closed(bounds: Floats) -> Floats:
    """Bounds for pairs by the shortest way from state to state."""
    found = bounds.copy()
    np.fill_diagonal(found, 0.0)
    for middle in range(len(found)):
        np.minimum(found, found[:, middle, None] + found[None, middle, :], out=found)
    return found


def _free_end(law: Floats, nats: Floats, epsilon: float, steps: int | None) -> float:
    """The largest budget of the first step that tells no more than `nats` of any pair, nats."""
    least = math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        apart, grown = np.exp([float(nats.max()) + epsilon, epsilon])
        left = (np.exp(nats)[:, :, None] * law - law[:, None])[~np.eye(len(law), dtype=np.bool_)]
        for _ in range(PATIENCE if steps is None else min(steps, PATIENCE)):
            has, owed = np.maximum(left, 0.0).sum(axis=1), np.maximum(-left, 0.0).sum(axis=1)
            more = has < owed * apart
            if not more.any():
                break
            least, left = min(least, float((has[more] / owed[more]).min())), left[more]
            left = np.where(left < 0, left * grown, left) @ law
            left /= np.abs(left).max(axis=1, keepdims=True)  # ratios alone matter, and else it overflows
    return math.log(max(least, 1.0)) * (1 - 1e-12)


def most_spent(budgets: Floats, *, endless: bool) -> tuple[float, tuple[float, float]]:
    """The largest budget between the ends of a stream, and those at its ends, which count apart; nats."""
    if endless:
        return float(budgets.max()), (0.0, 0.0)
    return float(budgets[1:-1].max(initial=0.0)), (float(budgets[0]), float(budgets[-1]))
