"""What each step of a stream with a horizon inherits, for every pair of states: less near its ends than amid it.

Bounds by pairs that hold for all steps alike are those of the last one before, and of the first one after: of a chain
that forgets over hundreds of steps no step inherits both. The outputs that are best for a ratio are the same however
many steps there are (`pairs`), so that following them once shows what is told after every number of steps, and after
one of them exactly when the ratio is what is told there. A plan says one matrix for each stretch of steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.pairs import MOST_STATES
from policyc_check.plan.claims import PairBounds
from policyc_check.steps.chains import Chain

Floats = NDArray[np.float64]

LONGEST = 2_000  # steps before or after another one
_CELLS = 8192  # of all matrices of a side
_TWO, _MORE = 1e-7, 1e-3  # relative, of two states and of more: what stretches must take away, and may leave
_TOLERANCES = (1, 2, 4, 7, 10, 15, 20, 25, 30, 40, 50)  # times as much
_ROUNDS = 40
_NEAR = 1e-11  # relative change of ratios at which they are found
_FAINT = 1e-13  # of a difference that gains or loses, beside what is told, when no more steps are followed
_BETWEEN = 8  # numbers of steps after which ratios are followed too
_ROOM = 1e-10  # by which what a plan states is raised, of the largest


@dataclass(frozen=True)
class Followed:
    """What is told of every pair by outputs of 0, 1, ... steps before another, and after it, nats, (T, n, n) each."""

    laws: tuple[Floats, Floats]
    budgets: tuple[float, float, float]  # of the first step, all between, the last one, nats
    told: tuple[Floats, Floats]

    @property
    def leakage(self) -> Floats:
        """Of each step, nats, (T,)."""
        first, inside, last = self.budgets
        both = (self.told[0] + self.told[1][::-1]).max(axis=(1, 2))
        both[1:-1] += inside
        return np.asarray(both + np.eye(len(both))[0] * first + np.eye(len(both))[-1] * last)

    def stated(self) -> tuple[PairBounds, PairBounds] | None:
        """One matrix for each stretch of steps, as few as tell hardly more; None where one for all does as well."""
        past, future = self.told
        inside, steps = self.budgets[1], len(past) - 1
        most, worth = float(self.leakage.max()), _TWO if past[0].size == 4 else _MORE
        alike = inside + float((past.max(axis=0) + future.max(axis=0)).max())  # by one matrix for all steps
        if alike <= most * (1 + worth):
            return None
        told = self._between()
        for tolerance in (factor for factor in _TOLERANCES if most * (1 + factor * worth) < alike):
            ends = list(_ends(told, inside, most * (1 + tolerance * worth), _CELLS // past[0].size))
            if ends and ends[-1] == steps:
                break
        else:
            return None
        until = {max(end, 1) for end in ends}, {steps, *(max(steps - end - 1, 1) for end in ends[:-1])}
        sides = zip(self.laws, self.budgets[::2], told, until, strict=True)
        before, after = (self._bounds(law, end, seen, sorted(own)) for law, end, seen, own in sides)
        return before, after

    def _between(self) -> tuple[Floats, Floats]:
        """The same, nearer to the truth between the numbers of steps that have been followed."""
        found = []
        for law, end, told in zip(self.laws, self.budgets[::2], self.told, strict=True):
            best = told
            for steps in np.unique(np.linspace(1, len(told) - 1, _BETWEEN + 1).astype(int)).tolist():
                best = np.maximum(best, _reached(law, np.exp(best[steps]), end, self.budgets[1], len(told) - 1))
            found.append(best)
        return found[0], found[1]

    def _bounds(self, law: Floats, end: float, told: Floats, until: list[int]) -> PairBounds:
        matrices = []
        for begin, last in zip([1, *(last + 1 for last in until)], until, strict=False):
            bound = told[begin : last + 1].max(axis=0)
            for _ in range(_ROUNDS):
                reached = _reached(law, np.exp(bound), end, self.budgets[1], last)[begin:].max(axis=0)
                if (reached <= bound * (1 + _NEAR) + _NEAR).all():
                    break
                bound = np.maximum(bound, reached)
            bound = bound + _ROOM * float(bound.max()) + 1e-13
            matrices.append(np.where(np.eye(len(law)), 0.0, bound))
        return PairBounds(nats=tuple(np.concatenate(matrices).ravel().tolist()), until=tuple(until))


def _ends(told: tuple[Floats, Floats], inside: float, most: float, count: int) -> Iterator[int]:
    """The last steps of at most `count` stretches that each leak at most so much, as long as they can be."""
    past, future = told
    steps, begin = len(past) - 1, 0
    for _ in range(count):
        before, after, end = past[begin], future[steps - begin], begin
        if inside + float((before + after).max()) > most:
            return
        while end < steps:
            longer = np.maximum(before, past[end + 1]), np.maximum(after, future[steps - end - 1])
            if inside + float((longer[0] + longer[1]).max()) > most:
                break
            before, after, end = *longer, end + 1
        yield end
        begin = end + 1
        if begin > steps:
            return


def followed(
    chain: Chain, budgets: tuple[float, float, float], earlier: int, near: Followed | None = None
) -> Followed | None:
    """What each step of a stream inherits, exact for the step about which most leaks; None where none are followed.

    Args:
        chain: one whose laws do not change from step to step.
        budgets: of the first step, the largest between, of the last one, nats; the ends count where they are larger.
        earlier: steps before the last one.
        near: of other budgets.
    """
    moving = chain.backward_side().settled or chain.forward_side().settled
    if moving or chain.states > MOST_STATES or not 2 <= earlier <= LONGEST:
        return None
    ends = max(budgets[0], budgets[1]), budgets[1], max(budgets[2], budgets[1])
    if near is None:
        return _afresh(chain.backward.tobytes(), chain.forward.tobytes(), ends, earlier)
    return _followed((chain.backward, chain.forward), ends, earlier, near)


@lru_cache(maxsize=4)
def _afresh(backward: bytes, forward: bytes, ends: tuple[float, float, float], earlier: int) -> Followed | None:
    """Of a plan, whose schedules and pages ask for the same."""
    laws = [np.frombuffer(side).reshape(math.isqrt(len(side) // 8), -1) for side in (backward, forward)]
    return _followed((laws[0], laws[1]), ends, earlier, None)


def _followed(
    laws: tuple[Floats, Floats], ends: tuple[float, float, float], earlier: int, near: Followed | None
) -> Followed | None:
    told: tuple[Floats, Floats] | None = None if near is None else near.told
    best = np.zeros((earlier + 1, *laws[0].shape)), np.zeros((earlier + 1, *laws[0].shape))
    ratios, at = [np.ones_like(law) for law in laws], earlier // 2
    if told is not None and near is not None:
        at = 1 + int(near.leakage[1:-1].argmax())
        ratios = [np.exp(told[0][at]), np.exp(told[1][earlier - at])]
    for amid in (True, False):  # at the ends budgets may be larger
        for _ in range(_ROUNDS):
            runs = [_reached(law, r, e, ends[1], earlier) for law, r, e in zip(laws, ratios, ends[::2], strict=True)]
            best = np.maximum(best[0], runs[0]), np.maximum(best[1], runs[1])
            found = Followed(laws, ends, best)
            at = 1 + int(found.leakage[1:-1].argmax()) if amid else int(found.leakage.argmax())
            new = [np.exp(best[0][at]), np.exp(best[1][earlier - at])]
            done = all((np.abs(a - b) <= _NEAR * b).all() for a, b in zip(new, ratios, strict=True))
            if done or not all(np.isfinite(ratio).all() for ratio in new):
                break
            ratios = new
        if 0 < int(found.leakage.argmax()) < earlier:
            break
    return found if np.isfinite(found.leakage).all() else None


def largest_constant(chain: Chain, alpha: float, earlier: int, epsilon: float) -> float:
    """About the largest constant budget of a stream by which no step leaks more than alpha, nats; 0 for none found.

    Args:
        chain: one whose laws do not change from step to step.
        alpha: nats.
        earlier: steps before the last one.
        epsilon: near it, nats.
    """
    known: list[tuple[float, float]] = []
    near: Followed | None = None
    for _ in range(12):
        near = followed(chain, (epsilon, epsilon, epsilon), earlier, near)
        if near is None:
            break
        known.append((np.log(epsilon), np.log(float(near.leakage.max()) / alpha)))
        if abs(known[-1][1]) < 1e-9:
            break
        slope = 1.0
        if len(known) > 1 and known[-1][0] != known[-2][0]:
            slope = (known[-1][1] - known[-2][1]) / (known[-1][0] - known[-2][0])
        epsilon = min(alpha, float(np.exp(known[-1][0] - known[-1][1] / max(slope, 0.2))))
    least = [at for at, beyond in known if beyond <= 1e-9]
    return float(np.exp(max(least))) if least else 0.0


def _reached(law: Floats, ratio: Floats, first: float, inside: float, steps: int) -> Floats:
    """What outputs that are best for a ratio of every pair tell after 0, 1, ... steps, nats, (steps + 1, n, n)."""
    n = len(law)
    x, y = np.repeat(law, n, axis=0), np.tile(law, (n, 1))
    left = x - ratio.reshape(-1, 1) * y
    told, rows = np.zeros((steps + 1, n * n)), np.arange(n * n)
    begun, grown = np.exp([first, inside])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for k in range(1, steps + 1):
            seen = np.where(left > 0, begun, 1.0)
            told[k:, rows] = np.log((x * seen).sum(axis=1) / (y * seen).sum(axis=1))
            scale, gains = y.sum(axis=1), np.maximum(left, 0.0).sum(axis=1)
            going = np.minimum(gains, gains - left.sum(axis=1)) > _FAINT * scale  # else all that is left has one sign
            if not going.any():
                break
            factors = (np.where(left > 0, grown, 1.0) / scale[:, None])[going]
            rows, (x, y, left) = rows[going], ((form[going] * factors) @ law for form in (x, y, left))
    return np.maximum(told, 0.0).reshape(-1, n, n)
