"""Puts the plan together, once all that it says is known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from policyc.diagnostics import Diagnostic
from policyc.planning.comparison import Choice
from policyc.planning.draft import Draft, DraftRelease, draft_of
from policyc.planning.leakage.gaps import FINE
from policyc.planning.leakage.inheritance import (
    accepted_inheritance,
    digits_for,
    shown_by_pairs,
    stated_inheritance,
)
from policyc.planning.leakage.proposals import Shown
from policyc.planning.leakage.repeats import patterns
from policyc.planning.leakage.witness import stated_witness
from policyc.planning.made import made_records
from policyc.planning.schedules import Allocation, exact
from policyc.semantics.policy import Policy
from policyc_check.plan.claims import Claims, Inheritance, WindowClaim
from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.plan import Stated
from policyc_check.plan.schedule import BudgetSegment
from policyc_check.plan.targets import AlphaDPT, WEvent
from policyc_check.runs import Runs, enough
from policyc_check.steps.budgets import repeating_budgets, total_budgets, window_budget
from policyc_check.steps.chains import Chain
from policyc_check.steps.inheritance import GroupLeakage
from policyc_runtime.mechanisms import BudgetMechanism, WindowMechanism
from policyc_runtime.plan import Claims as PlanClaims
from policyc_runtime.plan import Notice, Plan
from policyc_runtime.planned_release import AdaptiveRelease, BudgetedRelease, ReleasePlan, Scheduled
from policyc_runtime.schedule import Schedule

NO_CLAIMS = Claims(total_leakage=None, budget_sum=None, largest_budget=None)


def round_up(value: Fraction, digits: int = 15) -> Decimal:
    """A decimal at or above an exact number, with that many significant digits."""
    if value == 0:
        return Decimal(0)
    shift = digits - 1 - math.floor(math.log10(value.numerator / value.denominator))
    return Decimal(math.ceil(value * Fraction(10) ** shift)).scaleb(-shift)


def assemble_plan(
    policy: Policy, choices: Sequence[Choice], sharing: str | None, notices: Sequence[Diagnostic], *, audit: bool
) -> Plan:
    """The plan of a policy for one choice a release; its claims are computed by the kernel's own sums.

    `sharing` says how the releases divide the budget; None for one. Without an `audit`, what leaks through chains is
    proposed: the check of the plan has to accept it.
    """
    draft, releases = _made(policy, choices)
    claims = step_claims(Stated(**{**dict(draft), "releases": releases}), audit=audit)
    return built_plan(policy, draft, releases, claims, notices, sharing)


def unclaimed_plan(policy: Policy, choices: Sequence[Choice]) -> Plan:
    """The same plan to simulate, before anything is said of what it leaks; it promises nothing, and nobody keeps it."""
    draft, releases = _made(policy, choices)
    return built_plan(policy, draft, releases, NO_CLAIMS, ())


def _made(policy: Policy, choices: Sequence[Choice]) -> tuple[Draft, tuple[Scheduled, ...]]:
    draft = draft_of(policy, {group.name: group.lags for group in choices[0].allocation.groups})
    return draft, _with_shares([_release(part, choice) for part, choice in zip(draft.releases, choices, strict=True)])


def built_plan(
    policy: Policy,
    draft: Draft,
    releases: Sequence[ReleasePlan],
    claims: Claims,
    notices: Sequence[Diagnostic],
    sharing: str | None = None,
) -> Plan:
    """The plan of finished releases, sealed."""
    return Plan(
        **{**dict(draft), "releases": tuple(releases)},
        sharing=sharing,
        made=made_records(policy),
        claims=PlanClaims.of(claims),
        notices=tuple(Notice(code=notice.code, message=notice.message) for notice in notices),
    ).sealed()


def _release(part: DraftRelease, choice: Choice) -> Scheduled:
    mechanism: Any = _with_budget(choice)
    made = AdaptiveRelease if isinstance(mechanism, WindowMechanism) else BudgetedRelease
    return made(
        **dict(part),
        mechanism=mechanism,
        schedule=_schedule(choice.allocation, choice.mechanism, choice.expected_errors),
        estimator=choice.estimator,
        predicted=choice.predicted,
        candidates=choice.candidates,
    )


def _with_budget(choice: Choice) -> BudgetMechanism:
    """The mechanism of a choice; one that accounts for windows gets the epsilon that its largest step allows."""
    if not isinstance(choice.mechanism, WindowMechanism):
        return choice.mechanism
    return choice.mechanism.with_step_budget(exact(max(run.epsilon for run in choice.allocation.runs)))


def _with_shares(releases: Sequence[Scheduled]) -> tuple[Scheduled, ...]:
    """Each with the largest part it takes of any step's budget, rounded up; one release has the whole and says nothing.

    All follow one schedule, so their segments have the same steps.
    """
    if len(releases) == 1:
        return tuple(releases)
    patterns = zip(*(release.schedule.segments for release in releases), strict=True)
    rows = {row for segments in patterns for row in zip(*(s.epsilons for s in segments), strict=True) if any(row)}
    largest = [
        max(Fraction(row[index]) / sum(map(Fraction, row), Fraction(0)) for row in rows)
        for index in range(len(releases))
    ]
    return tuple(
        release.model_copy(update={"share": round_up(share, 6)})
        for release, share in zip(releases, largest, strict=True)
    )


def step_claims(stated: Stated, *, audit: bool = True) -> Claims:
    """What single steps and windows spend, and what leaks through the chains where that is promised."""
    horizon = stated.stream.horizon
    total = None if horizon is None else window_budget(stated, horizon)
    largest = round_up(window_budget(stated, 1))
    leakage: Decimal | None = None
    alphas = [target.alpha for target in stated.targets if isinstance(target, AlphaDPT)]
    groups = [stated_leakage(stated, record, audit=audit) for record in stated.correlation.chains] if alphas else []
    pairs = zip(stated.correlation.chains, groups, strict=False)
    witnesses = [w for record, (_, group) in pairs if (w := stated_witness(stated, record, group)) is not None]
    if alphas:
        found = [_with_room(group.largest()[0]) for _, group in groups]
        leakage = min(*alphas, max(found, default=largest))
    return Claims(
        total_leakage=leakage,
        budget_sum=None if total is None else round_up(total),
        largest_budget=largest,
        windows=tuple(_windows(stated, [group for _, group in groups])),
        inherited=tuple(inherited for inherited, _ in groups),
        witnesses=tuple(witnesses),
    )


def stated_leakage(stated: Stated, record: ChainRecord, *, audit: bool = True) -> tuple[Inheritance, GroupLeakage]:
    """What the plan says of one chain's leakage between steps, and what follows from it.

    By pairs of states where the recursion does not show what is promised about single steps.
    """
    steps, chain = stated.stream.horizon, record.chain()
    found = repeating_budgets(stated) if steps is None else total_budgets(stated, steps)
    budgets = np.array([math.inf]) if found is None else found
    alphas = [float(t.alpha) for t in stated.targets if isinstance(t, AlphaDPT) and t.window == 1]
    windows = [t for t in stated.targets if isinstance(t, AlphaDPT) and t.window > 1]
    ways = {"endless": steps is None, "windows": bool(windows), "audit": audit}
    before, after = _accepted(budgets.tobytes(), chain, record.lags, **ways)
    columns, kept = (np.resize(budgets, len(before[0])), before[0], after[0]), None
    if steps is not None:  # long runs of steps are like few of them
        kept = enough([Runs(patterns(column)) for column in columns], max([1, *(t.window for t in windows)]))
        columns = columns[0][kept], columns[1][kept], columns[2][kept]
    group = GroupLeakage(*columns, endless=steps is None, steps=kept)
    by_pairs = None
    bounded = bool(np.isfinite(group.before).all() and np.isfinite(group.after).all())  # else nothing is left to add up
    if alphas and not (bounded and group.largest()[0] <= min(alphas)):
        by_pairs = shown_by_pairs(chain, budgets, endless=steps is None, group=record.group)
    return by_pairs or (stated_inheritance(record.group, before, after), group)


@lru_cache(maxsize=4)
def _accepted(
    budgets: bytes, chain: Chain, lags: tuple[int, ...], *, endless: bool, windows: bool, audit: bool
) -> tuple[Shown, Shown]:
    """`accepted_inheritance`, kept: a plan is put together again with its warnings, of the same chains and budgets."""
    found = np.frombuffer(budgets)
    digits = FINE if endless or windows else digits_for(found, chain, lags)
    return accepted_inheritance(found, chain, lags, endless=endless, digits=digits, audit=audit, ahead=True)


def _windows(stated: Stated, groups: Sequence[GroupLeakage]) -> Iterator[WindowClaim]:
    for target in stated.targets:
        if isinstance(target, WEvent):
            spent = round_up(window_budget(stated, target.window))
            yield WindowClaim(kind="budget", window=target.window, nats=min(target.epsilon, spent))
        elif isinstance(target, AlphaDPT) and target.window > 1:
            found = [_with_room(group.largest(target.window)[0]) for group in groups]
            leaked = max(found, default=round_up(window_budget(stated, target.window)))
            yield WindowClaim(kind="leakage", window=target.window, nats=min(target.alpha, leaked))


def _with_room(leakage: float) -> Decimal:
    """A bound to claim: another machine, whose last digits differ, has to find it kept too."""
    return round_up(Fraction(leakage) * (1 + Fraction(1, 10**13)), 13)


def _schedule(
    allocation: Allocation, mechanism: BudgetMechanism, expected_errors: tuple[tuple[float, ...], ...]
) -> Schedule:
    segments = []
    for run, expected in zip(allocation.runs, expected_errors, strict=True):
        epsilons = tuple(exact(epsilon) if epsilon > 0 else Decimal(0) for epsilon in run.pattern)
        segments.append(
            BudgetSegment(
                epsilons=epsilons,
                scales=tuple(mechanism.calibrate(epsilon) if epsilon > 0 else epsilon for epsilon in epsilons),
                expected_errors=expected,
                repeats=None if run.steps is None else run.steps // run.period,
            )
        )
    return Schedule(name=allocation.name, segments=tuple(segments))
