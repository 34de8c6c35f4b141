"""An attack that shows how near a bound on leakage is: a pair of values, a step, and outputs around it.

Laplace noise of a step can show every set of cells, but none and all, e^epsilon times likelier than the other cells.
Outputs before and after a step are told apart by the laws of the chain, each side by itself, and what is found for a
pair is the most that so many steps can tell of it (Dinkelbach's method, as in `pairs`).
What is found is only a proposal: `policyc_runtime.witness` follows the same outputs once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.plan import Stated
from policyc_check.steps.chains import Chain
from policyc_check.steps.inheritance import GroupLeakage
from policyc_runtime.witness import OutputRun, Witness, losses_of_outputs, told_by_witness

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]
Whole = NDArray[np.intp]

LONGEST = 4096  # steps before and after the one that is asked about
_SHORT, _LONG = 4, 16  # releases with which all pairs are tried, and with which the best begin
_KEPT = 12  # pairs at least; half of them at every length, as many as have so many cells in their laws
_TRIED = 200_000  # cells of pairs that are tried; of more, the pairs whose ways part most
_ENOUGH = 1e-10  # of all that is told: what twice as many releases must add, and what may be left out
_ROUNDS = 100  # of Dinkelbach's method
_NEAR = 1e-13  # nats by which another round has to tell more


@dataclass(frozen=True)
class Attack:
    """Outputs of steps in a row that tell state `states[0]` at `step` from `states[1]`: about so many nats."""

    nats: float
    step: int
    states: tuple[int, int]
    first: int  # the first step of the outputs
    outputs: Sets  # (steps, n): the likelier cells of each step

    @property
    def runs(self) -> tuple[OutputRun, ...]:
        """The outputs as a plan says them."""
        rows = [tuple(np.flatnonzero(row).tolist()) for row in self.outputs]
        return tuple(OutputRun(cells=cells, steps=len(list(same))) for cells, same in groupby(rows))


class _Side:
    """What lies on one side of a step, nearest first: releases, and the laws of the states between them.

    Args:
        law: of the state so many steps beyond, given the state at a distance, (distance, steps) -> (n, n).
        losses: what each step tells at most, nats; 0 for no release.
        states: n.
    """

    def __init__(self, law: Callable[[int, int], Floats], losses: Floats, states: int) -> None:
        ends = [0, *(np.flatnonzero(losses > 0) + 1).tolist()]
        self.gaps = np.diff(ends)  # steps from each release to the next
        self._law, self._ends, self._losses, self._states = law, ends, losses[self.gaps.cumsum() - 1], states

    def laws(self, releases: int) -> list[Floats]:
        """From one release to the next."""
        return [self._law(self._ends[k], int(self.gaps[k])) for k in range(releases)]

    def best(self, pairs: Whole, releases: int, told: Floats) -> tuple[Floats, Sets]:
        """How much outputs of so many releases tell about each pair, nats, (m,), and these outputs, (releases, m, n).

        `told` is what fewer of them tell, nats, (m,).
        """
        if not releases:
            return told, np.zeros((0, len(pairs), self._states), dtype=np.bool_)
        return _best_outputs(self.laws(releases), self._losses[:releases], pairs, told)

    def needed(self, pair: tuple[int, int], sets: Sets, spare: float) -> Sets:
        """The nearest of these outputs, of every step, that tell about a pair all but `spare` nats of what all do."""
        seen, told = np.eye(self._states)[list(pair)], [0.0]
        for law, loss, likelier in zip(self.laws(len(sets)), self._losses.tolist(), sets, strict=False):
            seen = (seen @ law) * (1 + math.expm1(loss) * likelier)
            seen /= seen.max()
            told.append(float(np.log(seen[0].sum() / seen[1].sum())))
        kept = int(np.argmax(np.array(told) >= told[-1] - spare))
        none = ~sets[:kept].any(axis=1)  # far out rounding may leave no cell that is likelier
        kept = int(none.argmax()) if none.any() else kept
        return np.repeat(sets[:kept], self.gaps[:kept], axis=0)


def found_attack(
    chain: Chain, losses: Sequence[float] | Floats, steps: Sequence[int], bounds: Sequence[float] | None = None
) -> Attack | None:
    """The most telling attack that is found about any of these steps; None where no two states can be told apart.

    Args:
        chain: how a user moves.
        losses: what the outputs of each step tell, nats, (T,); 0 for no release.
        steps: 0-based, those that are tried.
        bounds: what no attack on each of them tells more than, nats; none is looked for where another one tells more.
    """
    factors, most = np.asarray(losses, dtype=np.float64), bounds or [math.inf] * len(steps)
    attacks: dict[int, Attack] = {}
    for bound, step in sorted(zip(most, steps, strict=True), key=lambda pair: -pair[0]):
        found = None if any(attack.nats > bound for attack in attacks.values()) else _attack_on(chain, factors, step)
        if found is not None:
            attacks[step] = found
    return max((attacks[step] for step in steps if step in attacks), key=lambda attack: attack.nats, default=None)


def stated_witness(stated: Stated, record: ChainRecord, group: GroupLeakage) -> Witness | None:
    """The attack on users of a chain that a plan names: about the first or last step, the middle, or the largest bound.

    Args:
        stated: the plan, before its claims.
        record: the chain.
        group: what is shown of it.
    """
    steps, (_, peak) = stated.stream.horizon or len(group.budgets), group.largest()
    tried = {0, peak, steps // 2, steps - 1}
    if group.endless:  # far enough from the start, at the same step of its period
        tried = {peak + -(-LONGEST // steps) * steps}
        steps = max(tried) + LONGEST + 1
    asked = tuple(sorted(tried))
    bounds = tuple(math.inf if group.endless else _bound(group, step) for step in asked)
    attack = _attack_known(record, losses_of_outputs(stated, steps).tobytes(), asked, bounds)
    if attack is None:
        return None
    found = Witness(
        group=record.group,
        nats=Decimal(1),
        step=attack.step,
        states=attack.states,
        first=attack.first,
        outputs=attack.runs,
    )
    told = Fraction(told_by_witness(stated, record, found)) * (1 - Fraction(1, 10**12))  # on every machine
    nats = Context(prec=10, rounding=ROUND_FLOOR).divide(Decimal(told.numerator), Decimal(told.denominator))
    return found.model_copy(update={"nats": nats}) if nats > 0 else None


def _bound(group: GroupLeakage, step: int) -> float:
    """What is known to be the most that all releases tell about a step, nats; inf where that is not known."""
    place = step if group.steps is None else int(np.searchsorted(group.steps, step))
    known = place < len(group.budgets) and (group.steps is None or group.steps[place] == step)
    return float(group.windows(1)[place]) if known else math.inf


@lru_cache(maxsize=4)
def _attack_known(
    record: ChainRecord, losses: bytes, steps: tuple[int, ...], bounds: tuple[float, ...]
) -> Attack | None:
    """`found_attack`, kept: a plan is put together again with its warnings, of the same chains and budgets."""
    return found_attack(record.chain(), np.frombuffer(losses), steps, bounds)


def _attack_on(chain: Chain, losses: Floats, step: int) -> Attack | None:
    backward, forward = chain.backward_side(), chain.forward_side()
    before = _Side(lambda k, gap: backward.law(step - k, gap).matrix, losses[:step][::-1][:LONGEST], chain.states)
    after = _Side(lambda _, gap: forward.law(gap, gap).matrix, losses[step + 1 :][:LONGEST], chain.states)
    states = np.flatnonzero(chain.marginal(step) > 0)
    if len(states) < 2:
        return None
    pairs = _apart(backward.law(step, 1).matrix if step else None, chain.forward, states)
    length, known = _SHORT, -np.inf
    earlier, later = np.zeros(len(pairs)), np.zeros(len(pairs))
    while True:
        earlier, past = before.best(pairs, min(length, len(before.gaps)), earlier)
        later, future = after.best(pairs, min(length, len(after.gaps)), later)
        total = earlier + later + losses[step]
        best = int(total.argmax())
        if total[best] <= known + _ENOUGH * total[best] or length >= max(len(before.gaps), len(after.gaps)):
            break
        known = float(total[best])
        most = max(_KEPT, min(len(pairs) // 2, _TRIED // chain.states**2))
        kept = np.argsort(-total, kind="stable")[:most]
        pairs, earlier, later = pairs[kept], earlier[kept], later[kept]
        length = max(_LONG, 2 * length)
    pair = int(pairs[best, 0]), int(pairs[best, 1])
    own = np.zeros((1, chain.states), dtype=np.bool_)
    own[0, pair[0]] = True
    spare = _ENOUGH * float(total[best])
    far, near = before.needed(pair, past[:, best], spare), after.needed(pair, future[:, best], spare)
    return Attack(float(total[best]), step, pair, step - len(far), np.concatenate([far[::-1], own, near]))


def _apart(before: Floats | None, after: Floats, states: Whole) -> Whole:
    """Ordered pairs of states, (m, 2): all, or those whose rows are the farthest from each other, on both sides."""
    n = len(states)
    first, second = np.nonzero(~np.eye(n, dtype=np.bool_))
    most = max(_KEPT, _TRIED // len(after))
    if len(first) > most:
        apart = np.zeros((n, n))
        for rows in (after[states], *(() if before is None else (before[states],))):
            apart += np.array([np.abs(rows - row).sum(axis=1) for row in rows])
        kept = np.sort(np.argsort(-apart[first, second], kind="stable")[:most])
        first, second = first[kept], second[kept]
    return np.stack([states[first], states[second]], axis=1)


def _best_outputs(laws: Sequence[Floats], losses: Floats, pairs: Whole, told: Floats) -> tuple[Floats, Sets]:
    """For a ratio of likelihoods the outputs that are best, outward step by step; of these a larger one, until none is.

    Outputs of a step grow likelihoods x and y of the pair where x - ratio y is above 0, whatever lies beyond. The first
    ratio is that of `told`, which some of the outputs reach.
    """
    factors, ratio, told = np.exp(losses), np.exp(told), np.full(len(pairs), -np.inf)
    chosen = np.zeros((len(laws), len(pairs), len(laws[0])), dtype=np.bool_)
    open_ = np.arange(len(pairs))
    for _ in range(_ROUNDS):
        y = laws[0][pairs[open_, 1]]
        both = np.stack([y, laws[0][pairs[open_, 0]] - ratio[:, None] * y])  # y, and x - ratio y
        sets = np.empty((len(laws), len(open_), len(laws[0])), dtype=np.bool_)
        for k, factor in enumerate(factors):
            sets[k] = both[1] > 0
            both *= np.where(sets[k], factor, 1.0) / both[0].sum(axis=1)[:, None]
            if k + 1 < len(laws):
                both = both @ laws[k + 1]
        y, left = both.sum(axis=2)
        now = np.log(ratio + left / y)
        better = now > told[open_] + _NEAR
        if not better.any():
            break
        open_ = open_[better]
        told[open_], chosen[:, open_], ratio = now[better], sets[:, better], np.exp(now[better])
    return told, chosen
