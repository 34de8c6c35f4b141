"""Puts the plan together and has the kernel verify it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import numpy as np

from policyc.diagnostics import Diagnostic
from policyc.planning.comparison import Choice
from policyc.planning.leakage.inheritance import accepted_inheritance, stated_inheritance
from policyc.planning.schedules import Allocation, exact
from policyc.planning.series import modelled_signal, signal_evidence
from policyc.semantics.policy import (
    AlphaDPTTarget,
    EventLevelTarget,
    LinearConstraint,
    Made,
    MarkovCorrelation,
    Policy,
    Release,
    Suppression,
    WEventTarget,
)
from policyc.version import __version__
from policyc_check.plan.claims import Claims, Inheritance, WindowClaim
from policyc_check.plan.correlation import ChainRecord, Correlation
from policyc_check.plan.queries import CountQuery
from policyc_check.plan.schedule import BudgetSegment, Schedule
from policyc_check.plan.stream import CellRecord, Delivery, StreamRecord
from policyc_check.plan.targets import AlphaDPT, EventLevel, WEvent
from policyc_check.steps.budgets import budget_sum, repeating_budgets, total_budgets, window_budget
from policyc_check.steps.inheritance import GroupLeakage
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.mechanisms import BudgetMechanism, WindowMechanism
from policyc_runtime.mechanisms.laplace import Laplace
from policyc_runtime.plan import AdaptiveRelease, BudgetedRelease, FileRecord, Notice, Plan, PolicyRecord, Scheduled
from policyc_runtime.suppression_rule import AnySuppressionRule, Below, ErrorAbove, Where

MOST_BALANCED = 64  # cells; of more, balanced noise is hardly smaller and takes long to draw


def round_up(value: Fraction, digits: int = 15) -> Decimal:
    """A decimal at or above an exact number, with that many significant digits."""
    if value == 0:
        return Decimal(0)
    shift = digits - 1 - math.floor(math.log10(value.numerator / value.denominator))
    return Decimal(math.ceil(value * Fraction(10) ** shift)).scaleb(-shift)


def release_cells(policy: Policy, release: Release | Made) -> tuple[str, ...]:
    """The published values of a step, in order; the one name "" where a release is not by cell."""
    return policy.stream.cell.states if release.by_cell and policy.stream.cell is not None else ("",)


def sensitivity(release: Release) -> tuple[Decimal, str]:
    """How far one neighbor can move the values of a step, in L1, with the reason."""
    if release.by_cell:
        return Decimal(2), "replacing one user's cell lowers one count by one and raises another by one"
    return Decimal(1), "replacing one user's value changes the one count by at most one"


def step_mechanism(policy: Policy, release: Release) -> Laplace:
    """How the noise of a step is drawn: balanced where the cells' total is public, unless the policy says `laplace`."""
    cells = len(release_cells(policy, release))
    public_total = release.by_cell and policy.stream.population is not None
    balanced = policy.mechanism.name == "auto" and public_total and 2 <= cells <= MOST_BALANCED
    return Laplace(l1_sensitivity=sensitivity(release)[0], balanced_cells=cells if balanced else None)


def constraint_rows(policy: Policy, release: Release) -> tuple[tuple[ConstraintRow, ...], bool]:
    """The policy's demands on a release's values, and whether they must be whole numbers."""
    demanded = policy.constraints_of(release.name)
    if demanded is None:
        return (), False
    return tuple(constraint_row(constraint) for constraint in demanded.constraints), demanded.integer


def suppression_rules(policy: Policy, release: Release) -> tuple[AnySuppressionRule, ...]:
    """Which of a release's values are left out, as the plan has it."""
    demanded = policy.constraints_of(release.name)
    return () if demanded is None else tuple(map(suppression_rule, demanded.suppressions))


def suppression_rule(rule: Suppression) -> AnySuppressionRule:
    """What one `suppress` leaves out, as the plan has it."""
    if rule.where is not None:
        return Where(text=rule.text, line=rule.line, where=rule.where)
    if rule.error_above is not None and rule.chance is not None:
        error, relative = rule.error_above, rule.relative
        return ErrorAbove(text=rule.text, line=rule.line, error=error, relative=relative, chance=rule.chance)
    assert rule.below is not None, "one of the three is given"
    return Below(text=rule.text, line=rule.line, below=rule.below)


def constraint_row(constraint: LinearConstraint) -> ConstraintRow:
    """One demand on the released values, as the plan has it."""
    return ConstraintRow(
        text=constraint.text,
        line=constraint.line,
        current=tuple(sorted(constraint.current.items())),
        previous=tuple(sorted(constraint.previous.items())),
        relation=constraint.relation,
        bound=constraint.bound,
    )


def assemble_plan(
    policy: Policy, choices: Sequence[Choice], sharing: str | None, notices: tuple[Diagnostic, ...]
) -> Plan:
    """The plan of a policy for one choice a release, sealed; its claims are computed by the kernel from the plan.

    `sharing` says how the releases divide the budget; None for one.
    """
    releases = _with_shares(
        [_release(policy, release, choice) for release, choice in zip(policy.releases, choices, strict=True)]
    )
    draft = Plan(
        compiler=f"policyc {__version__}",
        policy=policy_record(policy),
        stream=stream_record(policy),
        delivery=Delivery(kind=policy.delivery.kind, delay=policy.delivery.delay),
        objective=policy.objective,
        targets=tuple(
            target_record(t) for t in policy.targets if isinstance(t, AlphaDPTTarget | EventLevelTarget | WEventTarget)
        ),
        correlation=correlation_record(policy, {group.name: group.lags for group in choices[0].allocation.groups}),
        signal=modelled_signal(policy),
        signal_evidence=signal_evidence(policy),
        releases=releases,
        sharing=sharing,
        claims=Claims(total_leakage=None, budget_sum=None, largest_budget=Decimal(1)),
        notices=tuple(Notice(code=n.code, message=n.message) for n in notices),
    )
    return draft.model_copy(update={"claims": _claims(draft)}).sealed()


def _release(policy: Policy, release: Release, choice: Choice) -> Scheduled:
    rows, integer = constraint_rows(policy, release)
    least, reason = sensitivity(release)
    mechanism: Any = _with_budget(choice)
    made = AdaptiveRelease if isinstance(mechanism, WindowMechanism) else BudgetedRelease
    return made(
        name=release.name,
        query=CountQuery(by=policy.stream.cell.column if release.by_cell and policy.stream.cell else None),
        cells=release_cells(policy, release),
        l1_sensitivity=least,
        sensitivity_reason=reason,
        mechanism=mechanism,
        schedule=_schedule(choice.allocation, choice.mechanism, choice.expected_errors),
        estimator=choice.estimator,
        constraints=rows,
        integer=integer,
        suppressions=suppression_rules(policy, release),
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


def _claims(draft: Plan) -> Claims:
    total = budget_sum(draft)
    largest = round_up(window_budget(draft, 1))
    leakage: Decimal | None = None
    alphas = [target.alpha for target in draft.targets if isinstance(target, AlphaDPT)]
    groups = [stated_leakage(draft, record) for record in draft.correlation.chains] if alphas else []
    if alphas:
        found = [_with_room(group.largest()[0]) for _, group in groups]
        leakage = min(*alphas, max(found, default=largest))
    return Claims(
        total_leakage=leakage,
        budget_sum=None if total is None else round_up(total),
        largest_budget=largest,
        windows=tuple(_windows(draft, [group for _, group in groups])),
        inherited=tuple(stated for stated, _ in groups),
    )


def stated_leakage(draft: Plan, record: ChainRecord) -> tuple[Inheritance, GroupLeakage]:
    """What the plan says of one chain's leakage between steps, and what follows from it."""
    steps = draft.stream.horizon
    found = repeating_budgets(draft) if steps is None else total_budgets(draft, steps)
    budgets = np.array([math.inf]) if found is None else found
    before, after = accepted_inheritance(budgets, record.chain(), record.lags, endless=steps is None)
    group = GroupLeakage(budgets, before[0], after[0], steps is None)
    return stated_inheritance(record.group, before, after), group


def _windows(draft: Plan, groups: Sequence[GroupLeakage]) -> Iterator[WindowClaim]:
    for target in draft.targets:
        if isinstance(target, WEvent):
            spent = round_up(window_budget(draft, target.window))
            yield WindowClaim(kind="budget", window=target.window, nats=min(target.epsilon, spent))
        elif isinstance(target, AlphaDPT) and target.window > 1:
            found = [_with_room(group.largest(target.window)[0]) for group in groups]
            leaked = max(found, default=round_up(window_budget(draft, target.window)))
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


def policy_record(policy: Policy) -> PolicyRecord:
    """Which policy a plan is made from."""
    return PolicyRecord(
        name=policy.name,
        purpose=policy.purpose,
        source=FileRecord(name=PurePath(policy.source.name).name, sha256=policy.source.sha256),
        files=tuple(FileRecord(name=file.name, sha256=file.sha256) for file in policy.files),
    )


def stream_record(policy: Policy) -> StreamRecord:
    """The stream as the plan has it."""
    stream = policy.stream
    cell = None
    if stream.cell is not None:
        cell = CellRecord(column=stream.cell.column, cells=stream.cell.cells, otherwise=stream.cell.otherwise)
    return StreamRecord(
        name=stream.name,
        user_column=stream.user,
        time_column=stream.time,
        cell=cell,
        step_milliseconds=stream.step_milliseconds,
        step_text=stream.step_text,
        horizon=stream.horizon,
        population=stream.population,
        start=stream.start,
    )


def target_record(target: AlphaDPTTarget | EventLevelTarget | WEventTarget) -> AlphaDPT | EventLevel | WEvent:
    """A promise about single steps or windows as the plan has it."""
    if isinstance(target, AlphaDPTTarget):
        return AlphaDPT(alpha=target.alpha, window=target.window)
    if isinstance(target, WEventTarget):
        return WEvent(epsilon=target.epsilon, window=target.window)
    return EventLevel(epsilon=target.epsilon)


def correlation_record(policy: Policy, lags: Mapping[str | None, tuple[int, ...]]) -> Correlation:
    """What is assumed about how users move; `lags` are those of the accounting, by group."""
    chains = tuple(chain_record(chain, lags.get(chain.group, (1,))) for chain in policy.chains)
    if chains:
        return Correlation(kind="markov", chains=chains, evidence=None)
    evidence = next((c.evidence for c in policy.correlations), None)
    return Correlation(kind="none", chains=(), evidence=evidence)


def chain_record(chain: MarkovCorrelation, lags: tuple[int, ...] = (1,)) -> ChainRecord:
    """One declared chain as a plan has it."""
    return ChainRecord(
        group=chain.group,
        forward=chain.forward,
        backward=chain.backward,
        initial=chain.initial,
        evidence=chain.evidence,
        lags=lags,
    )
