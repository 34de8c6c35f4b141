"""What steps inherit, proposed a few roundings too large and accepted by the check: what schedules are held against.

The hull gives every number; `policyc_check.steps.inheritance` decides by inequalities between them, without search. The
numbers that were accepted go into the plan.

Source: CAO17 (Theorem 2 for windows)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc.planning.leakage.gaps import EVERY, FINE, ROUGH, enough_around, enough_digits
from policyc.planning.leakage.losses import Losses, LossesLike, as_losses, losses_of
from policyc.planning.leakage.one_side import told_together
from policyc.planning.leakage.pairs import most_spent, settled
from policyc.planning.leakage.periods import around, proposed_around, settling
from policyc.planning.leakage.proposals import Shown, recursed
from policyc.planning.leakage.recursion import Lags, lag_set
from policyc.planning.leakage.repeats import patterns
from policyc.planning.leakage.stretches import followed
from policyc_check.errors import PlanRejectedError
from policyc_check.plan.claims import Inheritance, InheritedRun
from policyc_check.runs import Runs, enough
from policyc_check.steps.budgets import window_sums
from policyc_check.steps.chains import Chain
from policyc_check.steps.inheritance import GroupLeakage, audited_leakage, require_shown

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Both = Chain | tuple[LossesLike, LossesLike]

_TOLD = 1e-10  # relative, by which what is not shown is raised: far above what it can lack


def accepted_inheritance(
    budgets: ArrayLike,
    chain: Both,
    lags: Lags = 1,
    *,
    endless: bool,
    digits: int | None = None,
    audit: bool = True,
    ahead: bool = False,
) -> tuple[Shown, Shown]:
    """What every step inherits from before and from after, in the order of time, as the check accepts it.

    Args:
        budgets: nats, (T,), 0 for no release; of an endless stream, one period.
        chain: the chain, or (backward, forward) in any form that `total_leakage` takes.
        lags: as in `total_leakage`.
        endless: whether the budgets repeat for ever.
        digits: of gaps that are kept; default all of them in an endless stream, and enough in one that ends.
        audit: whether what is proposed is shown here too, of a stream that ends; where not, the check has to be asked.
        ahead: whether steps of a stream that ends may be told what later ones inherit; see `inherited`.

    Returns:
        of every step; of an endless stream, of a period, or where its law moves at first of so many that the last one
        stands for all later ones.

    Raises:
        PlanRejectedError: E0801, none is accepted, naming the step.
    """
    array, (backward, forward) = _checked(budgets), _both(chain)
    if endless and backward.settled == math.inf:
        raise PlanRejectedError("E0801", "an endless stream needs a chain whose law is seen to settle")
    if not endless:
        return _along(array, (backward, forward), lag_set(lags), digits, audit=audit, ahead=ahead)
    find = partial(around, digits=EVERY if digits is None else digits)
    nats, by = find(array[::-1], forward.reversed(), lag_set(lags), "after")
    if not backward.settled:
        return find(array, backward, lag_set(lags), "before"), (nats[::-1], by[::-1])
    before = settling(array, backward, lag_set(lags))
    return before, (np.resize(nats[::-1], len(before[0])), np.resize(by[::-1], len(before[0])))


def _checked(budgets: ArrayLike) -> Floats:
    array = np.asarray(budgets, dtype=np.float64)
    if array.ndim != 1 or not (np.isfinite(array) & (array >= 0)).all():
        raise PlanRejectedError("E0801", "a budget is not a finite number of at least 0")
    return array


def _both(chain: Both) -> tuple[Losses, Losses]:
    return losses_of(chain) if isinstance(chain, Chain) else (as_losses(chain[0]), as_losses(chain[1]))


def audited_group(
    budgets: ArrayLike,
    chain: Both,
    lags: Lags = 1,
    *,
    endless: bool = False,
    digits: int | None = None,
    ahead: bool = False,
) -> GroupLeakage:
    """What releases of these budgets tell about the users of one chain; arguments and errors as above."""
    before, after = accepted_inheritance(budgets, chain, lags, endless=endless, digits=digits, ahead=ahead)
    return GroupLeakage(np.resize(np.asarray(budgets, dtype=np.float64), len(before[0])), before[0], after[0], endless)


def shown_by_pairs(
    chain: Chain,
    budgets: Floats,
    *,
    endless: bool,
    group: str | None = None,
    horizon: int | None = None,
    near: tuple[bytes, bytes] = (b"", b""),
) -> tuple[Inheritance, GroupLeakage] | None:
    """What pairs of states show of budgets, and how, as the check accepts it; None for nothing.

    Args:
        chain: how users move.
        budgets: of all steps, or of one period of an endless stream, nats, (T,).
        endless: whether they repeat for ever.
        group: of users.
        horizon: steps, of which these budgets stand for all; default as many as there are.
        near: about what is inherited from before and after, as in `settled`.
    """
    if chain.states == 1:  # no two values to tell apart
        return None
    inside, ends = most_spent(budgets, endless=endless)
    earlier = None if endless else (horizon or len(budgets)) - 1
    found = settled(chain, inside, ends, earlier, near=near)
    if found is None:
        return None
    along = None if earlier is None else followed(chain, (ends[0], inside, ends[1]), earlier)
    for pairs in (None if along is None else along.stated(), found.stated):
        with suppress(PlanRejectedError):
            if pairs is not None:
                entry = Inheritance(group=group, before=(), after=(), pairs=pairs)
                sides = chain.backward_side(), chain.forward_side()
                return entry, audited_leakage(entry, budgets, *sides, endless=endless, horizon=horizon or 0)
    return None


def audited_total_leakage(
    epsilons: ArrayLike, chain: Both, lags: Lags = 1, width: int = 1, most: float = math.inf
) -> Floats:
    """An upper bound of the leakage of every window of `width` steps, in nats, (max(1, T - width + 1),).

    Width 1 is the total leakage of every step; a window longer than the horizon is the sum of all budgets. Where it is
    more than `most` somewhere, nothing is shown: nobody accepts it.
    """
    if most < math.inf and (proposed := proposed_total_leakage(epsilons, chain, lags, width)).max() > most:
        return proposed
    return audited_group(epsilons, chain, lags).windows(width)


def proposed_total_leakage(epsilons: ArrayLike, chain: Both, lags: Lags = 1, width: int = 1) -> Floats:
    """The same number for number, before anything is shown of it."""
    return proposed_group(epsilons, chain, lags).windows(width)


def proposed_group(
    epsilons: ArrayLike, chain: Both, lags: Lags = 1, *, digits: int = FINE, ahead: bool = False
) -> GroupLeakage:
    """What is shown by `audited_group`, before it is."""
    budgets, (backward, forward) = _checked(epsilons), _both(chain)
    (before, _), (after, _) = _along(budgets, (backward, forward), lag_set(lags), digits, audit=False, ahead=ahead)
    return GroupLeakage(budgets, before, after, endless=False)


def digits_for(budgets: Floats, chain: Both, lags: Lags = 1, most: float = math.inf) -> int:
    """How many digits of gaps are kept where only the largest leakage about a step of a stream that ends is asked.

    `most` as in `enough_digits`.
    """

    def find(digits: int) -> tuple[Floats, Floats]:
        return (found := proposed_group(budgets, chain, lags, digits=digits, ahead=True)).before, found.after

    return enough_digits(budgets, _both(chain), lag_set(lags), find, most=most)


def audited_stationary_leakage(pattern: float | Sequence[float], chain: Both, lags: Lags = 1, width: int = 1) -> float:
    """An upper bound of the leakage of every window of an endless stream with repeating budgets; inf for none."""
    budgets = [pattern] if isinstance(pattern, int | float) else [float(epsilon) for epsilon in pattern]
    window_sums(np.array(budgets), 1)
    digits = digits_around(np.array(budgets), chain, lags) if width == 1 else EVERY
    return audited_group(budgets, chain, lags, endless=True, digits=digits).largest(width)[0]


def settled_leakage(pattern: Sequence[float], chain: Both, lags: Lags = 1, most: float = math.inf) -> float:
    """`audited_stationary_leakage` of single steps, in little more than its numbers, of a stream that is not promised.

    To show every inequality takes most of the time where there are hundreds of states. Of what is more than `most` nats
    something that is more.

    Raises:
        KernelError: the law of where users are is not seen to settle.
    """
    budgets, sides = np.array(pattern, dtype=np.float64), _both(chain)
    if any(side.settled for side in sides):
        return audited_stationary_leakage(pattern, chain, lags)
    if most < math.inf:
        before, after = _around(budgets, sides, lags, ROUGH[0], most)
        if (told := float((budgets + before + after)[budgets > 0].max(initial=0.0))) > most:
            return told
    before, after = _around(budgets, sides, lags, digits_around(budgets, chain, lags))
    return float((budgets + before + after).max()) * (1 + _TOLD)


def digits_around(budgets: Floats, chain: Both, lags: Lags = 1) -> int:
    """`digits_for` of a period that repeats for ever."""
    sides = _both(chain)
    return enough_around(budgets, sides, partial(_around, budgets, sides, lags))


def _around(
    budgets: Floats, sides: tuple[Losses, Losses], lags: Lags, digits: int, most: float = math.inf
) -> tuple[Floats, Floats]:
    """What every step of a period inherits from before and after, before it is shown."""
    (backward, forward), known = sides, lag_set(lags)
    after = proposed_around(budgets[::-1], forward.reversed(), known, digits, most)[0]
    return proposed_around(budgets, backward, known, digits, most)[0], after[::-1]


def stated_inheritance(group: str | None, before: Shown, after: Shown) -> Inheritance:
    """As the plan says it."""
    return Inheritance(group=group, before=_runs(*before), after=_runs(*after))


def _runs(nats: Floats, by: Whole) -> tuple[InheritedRun, ...]:
    """Patterns that repeat, one after the other."""
    runs, start = [], 0
    for size, repeats in patterns(nats + 1j * by):  # one number for each number and its lag
        columns = nats[start : start + size], by[start : start + size]
        runs.append(InheritedRun(nats=tuple(columns[0].tolist()), lags=tuple(columns[1].tolist()), repeats=repeats))
        start += size * repeats
    return tuple(runs)


def _along(
    budgets: Floats,
    sides: tuple[Losses, Losses],
    lags: tuple[int, ...],
    digits: int | None,
    *,
    audit: bool,
    ahead: bool,
) -> tuple[Shown, Shown]:
    """Of a stream that ends, in the order of time."""
    rows = (budgets, sides[0], "before"), (budgets[::-1], sides[1].reversed(), "after")
    kept = FINE if digits is None else digits
    for row, side, _ in rows:
        side.check_horizon(len(row))
    find = [partial(recursed, row, side, lags, kept) for row, side, _ in rows]
    found = told_together(len(budgets), find) if ahead else (find[0](), find[1]())
    for (nats, by), (row, side, where) in zip(found[::-1], rows[::-1], strict=True) if audit else ():
        lag, columns = int(by.max(initial=1)), (nats, by.astype(np.float64), row)
        steps = enough([Runs(patterns(column)) for column in columns], lag + 1, side.settled + lag)
        require_shown(nats[steps], by[steps], row[steps], side.side, where, endless=False)
    before, (nats, by) = found
    return before, (nats[::-1], by[::-1])
