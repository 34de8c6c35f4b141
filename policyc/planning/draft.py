"""What a plan says because its policy says it: all but mechanisms, noise, estimators and predictions.

Measurements are tried on it, and errors expected; the plan is built once these are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Literal

import numpy as np

from policyc.planning.queries import RELATIONS, beside_steps, ordered_releases, participation_of, query_of
from policyc.planning.series import modelled_signal, signal_evidence, with_one_signal
from policyc.semantics.lengths import Clock
from policyc.semantics.policy import Made, MarkovCorrelation, NoCorrelation, Policy, Release
from policyc.semantics.postprocessing import LinearConstraint, Suppression
from policyc.semantics.targets import (
    AlphaDPTTarget,
    EventLevelTarget,
    Target,
    UserLevelTarget,
    UserStepsTarget,
    WEventTarget,
)
from policyc.version import __version__
from policyc_check.plan import targets as promised
from policyc_check.plan.correlation import ChainRecord, Correlation, IndependentGroup
from policyc_check.plan.plan import Stated
from policyc_check.plan.queries import CountQuery, PrefixQuery, SumQuery, WindowQuery
from policyc_check.plan.release import Asked
from policyc_check.plan.stream import (
    CellRecord,
    ClockRecord,
    Delivery,
    Length,
    LevelRecord,
    ParticipationRecord,
    StreamRecord,
)
from policyc_check.records import NOTHING
from policyc_check.users.claims import contribution_of
from policyc_runtime.agreement import Levels
from policyc_runtime.agreement_levels import Agreement, trees
from policyc_runtime.ancestors import Indices, counted_in
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.mechanisms.laplace import Laplace
from policyc_runtime.plan import STRETCH, FileRecord, PolicyRecord
from policyc_runtime.sources.calendar import SECOND, Division, step_of
from policyc_runtime.suppression_rule import AnySuppressionRule, Below, ErrorAbove, Where


class DraftRelease(Asked):
    """What a release is, what its published values must satisfy, and which are left out."""

    constraints: tuple[ConstraintRow, ...]
    integer: bool
    suppressions: tuple[AnySuppressionRule, ...] = NOTHING

    @property
    def constraint_set(self) -> ConstraintSet:
        """What its published values must satisfy, as arrays."""
        return ConstraintSet(self.constraints, len(self.cells), integer=self.integer)


class Draft(Stated):
    """What follows from the policy alone; `releases` each after the one it is made of."""

    policy: PolicyRecord
    releases: tuple[DraftRelease, ...]
    agreements: tuple[Agreement, ...] = NOTHING

    @property
    def trees(self) -> list[Levels]:
        """The releases whose published values add up to each other's."""
        return trees(self.stream.cell, self.releases, self.agreements)

    @property
    def expected_steps(self) -> int:
        """The steps that expected errors are means over."""
        return self.stream.horizon or STRETCH


Lags = Mapping[str | None, tuple[int, ...]]
"""By group of users, the lags of the accounting of its chain."""


def draft_of(policy: Policy, lags: Lags | None = None) -> Draft:
    """The draft of a policy; `lags` are those of the accounting of its chains, by group."""
    user_level = any(isinstance(target, UserLevelTarget) for target in policy.targets)
    participation = participation_of(policy) if user_level else None
    known: dict[str, DraftRelease] = {}
    for release in ordered_releases(policy):
        known[release.name] = _drafted(policy, release, participation, known)
    told = with_one_signal(policy) if user_level else policy
    return Draft(
        compiler=f"policyc {__version__}",
        policy=policy_record(policy),
        stream=stream_record(policy),
        delivery=Delivery(kind=policy.delivery.kind, delay=policy.delivery.delay),
        objective=policy.objective,
        targets=tuple(target_record(target, policy) for target in policy.targets),
        correlation=correlation_record(policy, lags or {}),
        participation=participation,
        signal=modelled_signal(told),
        signal_evidence=signal_evidence(told),
        releases=tuple(known.values()),
        agreements=tuple(
            Agreement(text=one.text, line=one.line, child=block.release, parent=one.parent)
            for block in policy.postprocess
            for one in block.agreements
        ),
    )


def _drafted(
    policy: Policy, release: Release, participation: ParticipationRecord | None, known: Mapping[str, DraftRelease]
) -> DraftRelease:
    """A release; `known` are those before it."""
    query = query_of(policy, release)
    rows, integer = constraint_rows(policy, release)
    if isinstance(query, PrefixQuery | WindowQuery):
        moved, reason = known[query.of].l1_sensitivity, known[query.of].sensitivity_reason
    elif participation is None:
        query = CountQuery(by=query.by)
        moved, reason = sensitivity(release)
    else:
        moved, reason = _moved_by_a_user(query, participation.per_step, len(release_cells(policy, release)))
    return DraftRelease(
        name=release.name,
        query=query,
        cells=release_cells(policy, release),
        l1_sensitivity=moved,
        sensitivity_reason=reason,
        constraints=rows,
        integer=integer,
        suppressions=suppression_rules(policy, release),
    )


def _moved_by_a_user(query: CountQuery | SumQuery, per_step: int, cells: int) -> tuple[Decimal, str]:
    """What one user changes in a step, with the reason."""
    spread = min((query.cells_per_step if query.by is not None else None) or 1, cells)
    moved = contribution_of(query, per_step) * spread
    if isinstance(query, CountQuery):
        times = "once" if per_step == 1 else f"{per_step:,} times"
        where = f"at most once in each of {spread:,} cells of a step" if spread > 1 else f"at most {times} in a step"
        return Decimal(moved), f"one user counts {where}"
    if spread > 1:
        reason = (
            f"one user adds at most one value between {query.low} and {query.high}, rounded to multiples of "
            f"{query.grid}, in each of {spread:,} cells of a step"
        )
    else:
        reason = (
            f"one user adds at most {per_step:,} value{'' if per_step == 1 else 's'} between {query.low} and "
            f"{query.high} in a step, rounded to multiples of {query.grid}"
        )
    return moved * query.grid, reason


def release_cells(policy: Policy, release: Release | Made) -> tuple[str, ...]:
    """The published values of a step, in order; the one name "" where a release is not by cell."""
    return policy.stream.values_by(release.by)


def sensitivity(release: Release) -> tuple[Decimal, str]:
    """How far one neighbor can move the values of a step, in L1, with the reason.

    No less where events are added or removed: the last of a step counts, so that one event less may move a user.
    """
    if release.by is not None:
        return Decimal(2), "replacing one user's cell lowers one count by one and raises another by one"
    return Decimal(1), "replacing one user's value changes the one count by at most one"


def constraint_rows(policy: Policy, release: Release) -> tuple[tuple[ConstraintRow, ...], bool]:
    """The policy's demands on a release's values, and whether they must be whole numbers."""
    demanded = policy.constraints_of(release.name)
    rows = () if demanded is None else tuple(map(constraint_row, demanded.constraints))
    return rows, _whole(policy, release.name)


def _whole(policy: Policy, name: str) -> bool:
    """Whether values are whole numbers: because that is asked of them, or of those that add up to them."""
    demanded = policy.constraints_of(name)
    parts = (block.release for block in policy.postprocess if any(one.parent == name for one in block.agreements))
    return (demanded is not None and demanded.integer) or any(_whole(policy, part) for part in parts)


def suppression_rules(policy: Policy, release: Release | Made) -> tuple[AnySuppressionRule, ...]:
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
    record = StreamRecord(
        name=stream.name,
        user_column=stream.user,
        time_column=stream.time,
        cell=cell_record(policy),
        step_milliseconds=stream.step_milliseconds,
        step_text=stream.step_text,
        horizon=stream.horizon,
        population=stream.population,
        start=stream.start,
        clock=clock_record(stream.clock),
        dataset=stream.dataset,
    )
    per = next((target.per for target in policy.targets if isinstance(target, UserLevelTarget)), None)
    if record.clock is None or per is None or stream.horizon is None:
        return record
    periods = _periods(record, record.clock, per, stream.horizon)
    return record.model_copy(update={"clock": record.clock.model_copy(update={"periods": periods})})


def cell_record(policy: Policy) -> CellRecord | None:
    """Where a user can be, as the plan has it."""
    found = policy.stream.cell
    if found is None:
        return None
    levels = tuple(LevelRecord(column=one.column, cells=one.names, of=one.of) for one in found.levels)
    return CellRecord(column=found.column, cells=found.cells, otherwise=found.otherwise, levels=levels)


def counted_states(policy: Policy, release: Release) -> Indices | None:
    """The index of the value in which who is in a state is counted, (states,); None for its own, or in one for all."""
    cell = cell_record(policy)
    return None if cell is None or release.by is None else counted_in(cell, release.by)


def clock_record(clock: Clock | None) -> ClockRecord | None:
    """The clock as the plan has it, but for periods."""
    return None if clock is None else ClockRecord(zone=clock.zone, changes=clock.changes, end=clock.end)


def _periods(stream: StreamRecord, clock: ClockRecord, per: Length, horizon: int) -> int:
    """How many periods the horizon touches."""
    start = clock.changes[0][0] * SECOND
    end = Division.into(step_of(stream), stream, start).begin(np.array([horizon]))
    return int(Division.into(per, stream, start).of(end - 1)[0]) + 1


def target_record(target: Target, policy: Policy | None = None) -> promised.Target:
    """A promise as the plan has it; of all of a user beside promises about steps with what the policy says of users."""
    if isinstance(target, UserStepsTarget):
        assert policy is not None, "of one promise alone it is none of these"
        return beside_steps(policy, target)
    if isinstance(target, AlphaDPTTarget):
        return promised.AlphaDPT(alpha=target.alpha, window=target.window)
    if isinstance(target, WEventTarget):
        return promised.WEvent(epsilon=target.epsilon, window=target.window, **_of_steps(target))
    if isinstance(target, UserLevelTarget):
        return _user_promise(target)
    return promised.EventLevel(epsilon=target.epsilon, **_of_steps(target))


def _of_steps(target: EventLevelTarget | WEventTarget) -> dict[str, Any]:
    """What is said of a promise about steps besides its nats: nothing of one that replaces, without a delta."""
    relation = None if target.neighbors == "replace" else RELATIONS[target.neighbors]
    return {"delta": target.delta or None, "relation": relation}


def _user_promise(target: UserLevelTarget) -> promised.AnyUserPromise:
    relation = RELATIONS[target.neighbors]
    if target.rho is not None:
        return promised.UserRho(rho=target.rho, relation=relation, per=target.per)
    assert target.epsilon is not None, "read with a delta"
    assert target.delta is not None, "read with an epsilon"
    return promised.UserLevel(
        epsilon=target.epsilon, delta=target.delta, relation=relation, per=target.per, window=target.window
    )


def correlation_record(policy: Policy, lags: Lags) -> Correlation:
    """What is assumed about how users move; `lags` are those of the accounting, by group."""
    chains = tuple(chain_record(chain, lags.get(chain.group, (1,))) for chain in policy.chains)
    if len(policy.correlations) > 1:
        others = [known for known in policy.correlations if isinstance(known, NoCorrelation)]
        independent = tuple(IndependentGroup(group=known.group or "", evidence=known.evidence) for known in others)
        kind: Literal["markov", "none"] = "markov" if chains else "none"
        return Correlation(kind=kind, chains=chains, evidence=None, independent=independent)
    if chains:
        return Correlation(kind="markov", chains=chains, evidence=None)
    evidence = next((c.evidence for c in policy.correlations), None)
    return Correlation(kind="none", chains=(), evidence=evidence)


@lru_cache(maxsize=4)
def chain_record(chain: MarkovCorrelation, lags: tuple[int, ...] = (1,)) -> ChainRecord:
    """One declared chain as a plan has it."""
    return ChainRecord(
        group=chain.group,
        forward=chain.forward,
        backward=chain.backward,
        initial=chain.initial,
        evidence=chain.evidence,
        lags=lags,
        share=chain.share,
        amounts=chain.amounts,
    )


def step_mechanism(policy: Policy, release: Release) -> Laplace:
    """How the noise of a step is drawn: balanced where the cells' total is public, unless the policy says `laplace`."""
    cells = len(release_cells(policy, release))
    return Laplace(l1_sensitivity=sensitivity(release)[0], balanced_cells=cells if policy.balances(release) else None)
