"""What constant budgets leak through a chain, accounted for every ordered pair of states, not by one number for all.

Let v be the likelihood of all outputs up to a step, given its state, with v_k <= e^(a_kl) v_l for all k and l. Given
the state one step later it is M v, and the largest log ratio of entries i and j is a linear program for each pair. Its
dual is what the plan carries: e^b M_j - M_i as a sum of (e^(a_kl) e_l - e_k) with weights of at least 0, and of what is
not negative. Any such weights bound b, whoever found them: `certified` reads the bound off. Budgets that stay the same
have one matrix B that reproduces itself, found by Newton's method: the weights are also the derivatives of B.

Where rows are known only within total variation rho, M_i v changes by at most rho times the range of v, which is at
most r_j M_j v. Then e^b becomes (e^b + rho r_j) / (1 - rho r_j), whatever the rows are, at every step anew. Of that
range: v_k is at most M_j v over the sum of M_jm e^(-a_km), v_l at least M_j v over the sum of M_jm e^(a_ml), and v_l
at least e^(-a_kl) v_k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.claims import PairBounds
from policyc_check.steps.chains import Chain

Floats = NDArray[np.float64]
Pairs = NDArray[np.bool_]

MOST_STATES = 20
_SWEEPS = 40
_SMALLEST_PART = 0.1  # of Newton's step; after it, what was found is taken
_MARGIN = 2e-14  # more than all roundings of the check
_TOGETHER = 30  # pairs of one linear program
_NEAR = 1e-8  # relative change at which a fixed point is found
_LARGEST = 50.0  # nats: leakage beyond it is taken for none
_ROOM = 1e-10  # nats by which what a plan states is raised, and four times as many until it reproduces itself
_RAISES = 12
_MOST_KEPT = 16
_KEPT: dict[tuple[bytes, bytes, float, float, bool], Settled] = {}  # of a plan, whose schedules ask for the same


@dataclass(frozen=True)
class Passed:
    """What passes through a law of n states from a bound for every pair."""

    nats: Floats  # (n, n): a bound on the log ratio of the likelihoods of states i and j
    weights: Floats  # (n, n, n, n), at i, j, k, l: the dual solution that shows it
    likelihoods: Floats  # (n, n, n), at i, j: where it is reached
    exact: Floats  # `nats`, if the law is known exactly

    def slopes(self) -> Floats:
        """How each pair's bound changes with those that it comes from, (n n, n n)."""
        size = self.nats.size
        return (self.weights * self.likelihoods[..., None] / np.exp(self.nats)[..., None, None]).reshape(size, size)


@dataclass(frozen=True)
class Settled:
    """Constant budgets, and what a step inherits from before and after, for every pair."""

    epsilon: float
    before: Passed
    after: Passed

    @property
    def stated(self) -> tuple[PairBounds, PairBounds]:
        """As a plan says it."""
        past, future = (
            PairBounds(
                nats=tuple(side.nats.ravel().tolist()),
                places=tuple(np.flatnonzero(side.weights).tolist()),
                weights=tuple(side.weights[side.weights > 0].tolist()),
            )
            for side in (self.before, self.after)
        )
        return past, future

    def largest(self, epsilon: float, first: float, last: float) -> float:
        """The largest total leakage of a stream of at most these budgets, and those at its ends, nats."""
        before, after = self.before.nats, self.after.nats
        inside = epsilon + float((before + after).max())
        return max(inside, first + float(after.max()), last + float(before.max()))

    def free_ends(self, epsilon: float, alpha: float) -> tuple[float, float]:
        """The largest budgets of a first and a last step that leave all bounds as they are, and leak at most alpha."""
        before, after = self.before.nats, self.after.nats
        off = ~np.eye(len(before), dtype=np.bool_)
        first = min(float(before[off].min()) + epsilon, alpha - float(after.max()))
        return first, min(float(after[off].min()) + epsilon, alpha - float(before.max()))

    def covers(self, epsilon: float, ends: tuple[float, float]) -> bool:
        """Whether all bounds hold for these budgets too."""
        return epsilon == self.epsilon and all(
            end <= most for end, most in zip(ends, self.free_ends(epsilon, math.inf), strict=True)
        )


def passed(law: Floats, bounds: Floats, near: Floats | None = None, rho: float = 0.0) -> Passed:
    """What passes from `bounds` (n, n) through a law of the state one step away.

    Args:
        law: (n, n), rows sum to 1.
        bounds: of the step that it leads from, nats.
        near: about what passes where the law is exact.
        rho: total variation within which its rows are known.
    """
    n = len(law)
    likelihoods, weights = np.ones((n, n, n)), np.zeros((n, n, n, n))
    pairs = [(i, j) for i in range(n) for j in range(n) if (law[i] != law[j]).any()]
    for some in (pairs[at : at + _TOGETHER] for at in range(0, len(pairs), _TOGETHER)):
        _solve(law, bounds, some, near, likelihoods, weights)
    exact = certified(law, bounds, weights)
    return Passed(with_tolerance(law, bounds, exact, rho), weights, likelihoods, exact)


def with_tolerance(law: Floats, bounds: Floats, nats: Floats, rho: float) -> Floats:
    """What passes at most where rows are known within rho, (n, n), if `nats` do through the law itself."""
    if not rho:
        return nats
    bounds = closed(bounds)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        most = 1 / (law @ np.exp(-bounds).T)  # of v_k / M_j v, at j, k
        least = 1 / (law @ np.exp(bounds))  # of v_l / M_j v, at j, l
        ranges = np.minimum(most[:, :, None] - least[:, None, :], most[:, :, None] * -np.expm1(-bounds))
        moved = rho * ranges.max(axis=(1, 2)) * (1 + 1e-12) + 1e-15
        found = np.log((np.exp(nats) + moved) / (1 - moved)) + 1e-14
    found[:, ~(moved < 1)] = np.inf
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def certified(law: Floats, bounds: Floats, weights: Floats) -> Floats:
    """The least bounds that weights show, (n, n), a hair raised; inf where they show none."""
    out, back = weights.sum(axis=3), np.einsum("ijkl,kl->ijl", weights, np.exp(bounds))
    needed = (law[:, None, :] + back) * (1 + _MARGIN) - out * (1 - _MARGIN)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(law[None] > 0, needed / law[None], np.where(needed > 0, np.inf, 0.0)).max(axis=2)
    found = np.log(np.maximum(ratio, 1.0)) * (1 + 1e-13) + 1e-14
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def _solve(
    law: Floats, bounds: Floats, pairs: list[tuple[int, int]], near: Floats | None, likelihoods: Floats, weights: Floats
) -> None:
    """Fills in the likelihoods at which ratios of some pairs are largest, and the weights that show it.

    Only columns that gain are paid for, by columns that lose: with triangles closed, no way round is shorter. All
    pairs are one linear program, which falls into as many parts.
    """
    from scipy.optimize import linprog  # start-up: most plans need none
    from scipy.sparse import coo_array

    n = len(law)
    places = []  # part, k, l
    for part, (i, j) in enumerate(pairs):
        least, most = (0.0, np.inf) if near is None else (0.9 * near[i, j], 1.1 * near[i, j] + 1e-6)
        gains = law[i] > np.exp(least) * law[j]
        loses = law[j] > 0 if near is None else law[i] < np.exp(most) * law[j]
        k, m = np.nonzero(gains[:, None] & loses[None, :] & ~np.eye(n, dtype=np.bool_))
        places.append(np.column_stack([np.full(len(k), part), k, m]))
    part, k, m = np.concatenate(places).T
    rows, i, j = np.arange(len(part)), *np.array(pairs).T
    entries = np.concatenate([np.ones(len(part)), -np.exp(bounds[k, m])])
    at = np.concatenate([rows, rows]), np.concatenate([part * n + k, part * n + m])
    pays = coo_array((entries, at), shape=(len(part), n * len(pairs))).tocsr()
    parts = np.repeat(np.arange(len(pairs)), n), np.arange(n * len(pairs))
    sums = coo_array((law[j].ravel(), parts), shape=(len(pairs), n * len(pairs))).tocsr()
    found = linprog(
        -law[i].ravel(), A_ub=pays, b_ub=np.zeros(len(part)), A_eq=sums, b_eq=np.ones(len(pairs)), method="highs-ds"
    )
    if found.x is None:
        return
    likelihoods[i, j] = found.x.reshape(-1, n)
    weights[i[part], j[part], k, m] = np.maximum(-found.ineqlin.marginals, 0.0)
    out = weights[i, j].sum(axis=2)
    short = (law[j] == 0) & (out > 0)  # nothing else pays for these columns: to the last bit
    weights[i, j] *= np.where(short, law[i] / np.where(short, out, 1.0) * (1 + 1e-13), 1.0)[:, :, None]


def closed(bounds: Floats) -> Floats:
    """Bounds for pairs by the shortest way from state to state."""
    found = bounds.copy()
    np.fill_diagonal(found, 0.0)
    for middle in range(len(found)):
        np.minimum(found, found[:, middle, None] + found[None, middle, :], out=found)
    return found


def settled(
    chain: Chain,
    alpha: float,
    epsilon: float,
    ends: tuple[float, float] = (0.0, 0.0),
    *,
    fixed: bool = False,
    rho: float = 0.0,
) -> Settled | None:
    """The largest constant budget that leaks at most alpha for ever, or what a given one leaks; None for none found.

    Args:
        chain: one whose laws do not change from step to step.
        alpha: nats.
        epsilon: the budget, nats, or one to begin with.
        ends: budgets of a first and a last step, nats.
        fixed: whether `epsilon` is the budget.
        rho: total variation within which rows of both laws are known, at every step anew; of given budgets.
    """
    if chain.states > MOST_STATES or chain.backward_side().settled or chain.forward_side().settled:
        return None
    matrices = chain.backward.tobytes(), chain.forward.tobytes()
    key = (*matrices, alpha, epsilon, fixed)
    known = [side for (*of, _, _, _), side in _KEPT.items() if tuple(of) == matrices and side.covers(epsilon, ends)]
    if fixed and known and not rho:
        return known[0]
    if fixed or key not in _KEPT:
        found = _given(chain, alpha, epsilon, ends, rho) if fixed else _largest_budget(chain, alpha, epsilon)
        if found is None or rho:
            return found
        _KEPT[key] = found
        if len(_KEPT) > _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
    return _KEPT[key]


def _given(chain: Chain, alpha: float, epsilon: float, ends: tuple[float, float], rho: float) -> Settled | None:
    start, sides = max(alpha - epsilon, 0.0) / 2, []
    for law, end in zip((chain.backward, chain.forward), ends, strict=True):
        side = _reproduced(law, start, epsilon, end, rho)
        if side is None:
            return None
        sides.append(side)
    return Settled(epsilon, sides[0], sides[1])


def most_spent(budgets: Floats, *, endless: bool) -> tuple[float, tuple[float, float]]:
    """The largest budget between the ends of a stream, and those at its ends, which count apart; nats."""
    if endless:
        return float(budgets.max()), (0.0, 0.0)
    return float(budgets[1:-1].max(initial=0.0)), (float(budgets[0]), float(budgets[-1]))


def _largest_budget(chain: Chain, alpha: float, epsilon: float) -> Settled | None:
    n, laws = chain.states, [chain.backward, chain.forward]
    off = ~np.eye(n, dtype=np.bool_)
    e, held = epsilon, [np.where(off, max(alpha - epsilon, 0.0) / 2, 0.0) for _ in laws]
    near: list[Floats | None] = [None, None]
    for _ in range(_SWEEPS):
        found = [passed(law, closed(x + e), about) for law, x, about in zip(laws, held, near, strict=True)]
        if not all(np.isfinite(p.nats).all() for p in found):
            return None
        near = [p.nats for p in found]
        change = max(float(np.abs(p.nats - x).max()) for p, x in zip(found, held, strict=True))
        steps = [_newton(p, x, off) for p, x in zip(found, held, strict=True)]
        slope = (steps[0].rise + steps[1].rise + 1)[off]
        step = float(((alpha - (steps[0].nats + steps[1].nats + e)[off]) / slope).min())
        step = min(max(step, -0.7 * e), e)
        held = [np.where(off, np.maximum(x.nats + x.rise * step, 0.0), 0.0) for x in steps]
        e += step
        if max(x.max() for x in held) > _LARGEST:
            return None
        if change <= _NEAR * alpha and abs(step) <= _NEAR * e:
            sides = [
                _with_room(law, x, of.room, about, e) for law, x, of, about in zip(laws, held, steps, near, strict=True)
            ]
            return None if sides[0] is None or sides[1] is None else Settled(e, sides[0], sides[1])
    return None


def _reproduced(law: Floats, start: float, epsilon: float, end: float, rho: float) -> Passed | None:
    """Bounds that a budget, and one at the end, reproduce: Newton's steps, halved until they bring these nearer."""
    off = ~np.eye(len(law), dtype=np.bool_)
    base = plain = held = np.where(off, start, 0.0)
    least, near, part = math.inf, None, 1.0
    for _ in range(_SWEEPS):
        found = passed(law, closed(np.maximum(held + epsilon, end)), near, rho)
        change = float(np.abs(found.nats - held).max())
        if change < least or held is plain:
            base, plain, least, near, part = held, found.nats, change, found.exact, 1.0
            step = _newton(found, held, off, held + epsilon > end)
            if change <= _NEAR * max(epsilon, float(held.max())):
                return _with_room(law, step.nats, step.room, near, epsilon, end, rho)
        else:
            near, part = None, part / 2
        held = base + part * (step.nats - base) if part > _SMALLEST_PART else plain
        if not held.max() <= _LARGEST:
            return None
    return None


@dataclass(frozen=True)
class _Step:
    """The fixed point as the derivatives foretell it, how it changes with the budget, and what all grows by alike."""

    nats: Floats
    rise: Floats
    room: Floats


def _newton(found: Passed, held: Floats, off: Pairs, free: Pairs | None = None) -> _Step:
    """Or plainly what was found, where the derivatives foretell nothing."""
    inside = off.ravel()
    slopes = found.slopes()[np.ix_(inside, inside)] * (1.0 if free is None else free.ravel()[inside])
    wanted = np.column_stack([(found.nats - held)[off], slopes.sum(axis=1), np.ones(len(slopes))])
    try:
        solved = np.linalg.solve(np.eye(len(slopes)) - slopes, wanted)
    except np.linalg.LinAlgError:
        solved = wanted
    if not (np.isfinite(solved).all() and (solved[:, 1:] >= -1e-9).all()):
        solved = wanted
    step, rise, room = (np.zeros_like(held) for _ in range(3))
    step[off], rise[off], room[off] = solved.T
    return _Step(np.maximum(held + step, 0.0), rise, room)


def _with_room(
    law: Floats,
    held: Floats,
    room: Floats,
    near: Floats | None,
    epsilon: float,
    end: float = 0.0,
    rho: float = 0.0,
) -> Passed | None:
    """Bounds a little larger, which reproduce themselves whatever was rounded."""
    for raises in range(_RAISES):
        raised = held + _ROOM * 4.0**raises * room
        found = passed(law, np.maximum(raised + epsilon, end), near, rho)
        if (found.nats <= raised).all():
            return replace(found, nats=raised)
    return None
