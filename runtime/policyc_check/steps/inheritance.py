"""What every step inherits from the steps before it, and from those after: numbers of the plan, held by inequalities.

A plan carries for every step t a number b[t] and a lag k. Nobody asks where they come from. What step t inherits is at
most b[t] for all t when

    b[t] >= (budgets of the k - 1 steps before t) + L(budget[t - k] + b[t - k])

where L is the loss function of the law k steps away: by induction over t, since releases of the k - 1 steps cost at
most their budgets, and everything up to t - k passes through the state at t - k. Lag 0 says that nothing was released
before. Around a pattern that repeats for ever the same inequalities hold by the same induction, begun anywhere: a
stream that begins later has leaked less. From after it is the same with time reversed.

Where an endless stream does not start in a stationary law, numbers are given for its first rounds too, the last one for
all later ones. They are shown from step 0 on, as of a stream that ends, until laws, budgets and numbers of all that a
step looks at are those one period earlier: every later inequality is one that was shown.

Of a stream whose budgets and numbers repeat, steps are left out: those that are looked at show every inequality and
every window of all (`policyc_check.runs.enough`).

Sums are rounded up, what is left of b[t] down, and L(a) <= b is decided by `loss_bound`, without search.

Source: CAO17 for k = 1 (the recursion, as an equality). Larger lags, and the inequalities, are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.claims import Inheritance, InheritedRun
from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.plan import Plan
from policyc_check.records import LONGEST_STREAM
from policyc_check.rounding import Floats
from policyc_check.runs import Runs, Whole, enough
from policyc_check.steps.budgets import LONGEST_PERIOD, all_up, repeating_budgets, total_budgets, window_sums
from policyc_check.steps.chains import Side
from policyc_check.steps.loss_bound import audited_loss_bound
from policyc_check.steps.pairs import inherited_by_pairs

_UNSTATED = "what steps inherit is not stated for every step"


@dataclass(frozen=True)
class GroupLeakage:
    """What all releases together tell about the users of one chain; of an endless stream, of one period."""

    budgets: Floats  # nats, rounded up, (T,)
    before: Floats  # what each step inherits at most from the steps before it, nats, (T,)
    after: Floats  # what it inherits from those after it
    endless: bool  # whether the budgets repeat for ever
    steps: Whole | None = None  # which these are, where not all are there
    both: Floats | None = None  # what it inherits from both sides, where that is known to be less than their sum

    def largest(self, width: int = 1) -> tuple[float, int]:
        """The largest leakage about `width` steps in a row, nats, rounded up, and the first of these steps."""
        leakage = self.windows(width)
        first = int(leakage.argmax())
        return float(leakage[first]), first if self.steps is None else int(self.steps[first])

    def windows(self, width: int) -> Floats:
        """The leakage about every `width` steps in a row, nats, rounded up, (max(1, T - width + 1),); endless: (T,).

        It is what the first inherits from before, the budgets of all, and what the last inherits from after: given the
        states of the window, both sides are independent. A window longer than the stream is the whole. CAO17, Theorem 2
        """
        if width == 1 and self.both is not None:
            return all_up(self.both, self.budgets)
        length = len(self.budgets) + (width - 1 if self.endless else 0)
        within = window_sums(np.resize(self.budgets, length), width)
        if not self.endless and width >= length:
            return within
        return all_up(all_up(self.before[: len(within)], within), np.resize(self.after, length)[width - 1 :])


def leakage_of_group(plan: Plan, record: ChainRecord, width: int = 1) -> GroupLeakage:
    """What a plan states about one chain, every inequality shown; of a long stream, all that `width` steps can show.

    PlanRejectedError E0801 where one is not, or nothing is stated; InvalidMatrixError E0805 where the chain is none.
    """
    stated = [entry for entry in plan.claims.inherited if entry.group == record.group]
    if len(stated) != 1:
        raise PlanRejectedError("E0801", _UNSTATED, where="claims.inherited", help="compile the policy again")
    horizon, chain = plan.stream.horizon, record.chain()
    sides = chain.backward_side(), chain.forward_side()
    if horizon is not None:
        stated_runs = () if stated[0].pairs else (stated[0].before, stated[0].after)
        rows = (
            [Runs([(1, horizon)])] + [release.schedule.runs for release in plan.scheduled] + [*map(_runs, stated_runs)]
        )
        rows += [Runs([(horizon, 1)])] * any(side.until for side in stated[0].pairs or ())  # no step is like another
        lag = max((lag for runs in stated_runs for run in runs for lag in run.lags), default=1)
        kept = enough(rows, max(width, lag + 1), sides[0].settled + lag)
        return audited_leakage(stated[0], total_budgets(plan, kept), *sides, endless=False, steps=kept, horizon=horizon)
    budgets = repeating_budgets(plan)
    if budgets is None:
        detail = f"an endless plan must repeat one pattern of at most {LONGEST_PERIOD} budgets"
        raise PlanRejectedError("E0801", detail, where="releases")
    return audited_leakage(stated[0], budgets, *sides, endless=True)


def audited_leakage(
    stated: Inheritance, budgets: Floats, *sides: Side, endless: bool, steps: Whole | None = None, horizon: int = 0
) -> GroupLeakage:
    """What follows from the numbers that a plan states, once every inequality between them is shown.

    `budgets` are those of all steps, or of one period of an `endless` stream, nats, rounded up, (T,); where not all
    steps are there, those numbered `steps` of a `horizon`. `sides` have the chain's laws of earlier states, and of
    later ones. PlanRejectedError E0801 names a number whose inequality is not shown.
    """
    if not (np.isfinite(budgets) & (budgets >= 0)).all():
        raise PlanRejectedError("E0801", "a budget is not a finite number of at least 0", where="releases")
    if stated.pairs is not None:
        earlier = math.inf if endless else (horizon or len(budgets)) - 1
        past = inherited_by_pairs(stated.pairs[0], budgets, sides[0], "before", earlier)
        future = inherited_by_pairs(stated.pairs[1], budgets[::-1], sides[1], "after", earlier)
        count = np.arange(len(budgets)) if steps is None else steps  # of earlier steps
        p = np.searchsorted(stated.pairs[0].until, count)  # which matrix is that of a step; 0 where there is one
        f = np.searchsorted(stated.pairs[1].until, earlier - count)
        before, after = past.max(axis=(1, 2))[p], future.max(axis=(1, 2))[f]
        before[0], after[-1] = before[0] * endless, after[-1] * endless  # before the first, after the last: nothing
        ways, which = np.unique(p * len(future) + f, return_inverse=True)
        most = [all_up(past[way // len(future)], future[way % len(future)]).max() for way in ways.tolist()]
        both = np.minimum(np.array(most)[which], all_up(before, after))
        return GroupLeakage(budgets, before, after, endless, steps, both)
    length = int(_runs(stated.before).ends[-1])
    steps = np.arange(length) if steps is None else steps
    rounds, rest = divmod(len(steps), len(budgets))
    if _runs(stated.after).ends[-1] != length or rest or (rounds > 1 and not endless):
        raise PlanRejectedError("E0801", _UNSTATED, where="claims.inherited")
    (before, lags), (after, later) = _at(stated.before, steps), _at(stated.after, steps)
    whole = np.resize(budgets, len(steps))
    require_shown(before, lags, budgets if sides[0].settled else whole, sides[0], "before", endless=endless)
    require_shown(after[::-1], later[::-1], whole[::-1], sides[1], "after", endless=endless)
    return GroupLeakage(whole, before, after, endless, steps)


def require_shown(nats: Floats, lags: Whole, budgets: Floats, side: Side, where: str, *, endless: bool) -> None:
    """Nothing when every step's inequality is shown, in the order of the recursion; else PlanRejectedError.

    Of an endless stream `budgets` are one period, and `nats` end with that period; see the module.
    """
    given, period = 0, len(budgets)
    if endless and side.settled == math.inf:
        raise PlanRejectedError("E0801", "the law of an endless stream is not seen to settle", where="correlation")
    if endless:
        again = 1 + -(-int(side.settled + 2 * lags.max()) // period)
        nats, lags = (np.concatenate([row, np.tile(row[-period:], again)]) for row in (nats, lags))
        given, budgets = 0 if side.settled else again * period, np.resize(budgets, len(nats))
    steps, released = np.arange(len(budgets)), np.flatnonzero(budgets > 0)
    first = released[0] if released.size else len(budgets)  # up to it nothing is inherited
    shown = (steps < given) | ((lags == 0) & (nats >= 0) & (steps <= first))
    for lag in np.unique(lags[lags > 0]).tolist():
        here = steps[(lags == lag) & (steps >= max(lag, given))]
        if here.size:
            shown[here] = _shown(nats, budgets, here, lag, side)
    if not shown.all():
        first = int(np.argmin(shown))
        at = f"claims.inherited, {where}: {float(nats[first])!r} nats by lag {lags[first]}"
        said = "leakage passed on between steps is larger than the plan says"
        remedy = "compile the policy again; if it persists, report the chain"
        raise PlanRejectedError("E0801", said, where=at, help=remedy)


def _shown(nats: Floats, budgets: Floats, steps: Whole, lag: int, side: Side) -> NDArray[np.bool_]:
    """Whether the inequality of this lag is shown at each of some steps, none of which is before step `lag`."""
    origin = steps - lag
    leaked, left = all_up(budgets[origin], nats[origin]), nats[steps]
    if budgets.min() < 0 or np.diff(np.searchsorted(np.flatnonzero(budgets), [origin + 1, steps]), axis=0).any():
        left = -all_up(-left, window_sums(budgets, lag - 1)[origin + 1])  # rounded down; entry s: from step s on
    found = np.zeros(len(steps), dtype=np.bool_)
    own = np.clip(steps, lag, side.settled + lag)  # between them each step has a law of its own
    for step in np.unique(own).tolist():
        law, rows = side.law(int(step), lag), own == step
        found[rows] = audited_loss_bound(law.matrix, leaked[rows], left[rows], law.relative_error)
    return found


def _runs(runs: tuple[InheritedRun, ...]) -> Runs:
    """How what is stated follows each other."""
    total = sum(run.repeats * len(run.nats) for run in runs)
    if not 0 < total <= LONGEST_STREAM or any(len(run.lags) != len(run.nats) for run in runs):
        raise PlanRejectedError("E0801", _UNSTATED, where="claims.inherited")
    return Runs((len(run.nats), run.repeats) for run in runs)


def _at(runs: tuple[InheritedRun, ...], steps: Whole) -> tuple[Floats, Whole]:
    """The number and the lag that are stated of these steps."""
    places = _runs(runs).places(steps)
    return np.array([n for r in runs for n in r.nats])[places], np.array([n for r in runs for n in r.lags])[places]
