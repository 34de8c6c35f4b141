"""Checked policy -> plan: finds budgets, compares candidates, and has the kernel verify the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal

from policyc.diagnostics import Diagnostic, PolicyError, Span
from policyc.planning.assemble import assemble_plan, unclaimed_plan
from policyc.planning.candidates import Predictor, Refused, adaptive, allocations, estimators
from policyc.planning.comparison import Choice, Comparison
from policyc.planning.draft import (
    chain_record,
    constraint_rows,
    counted_states,
    release_cells,
    sensitivity,
    step_mechanism,
)
from policyc.planning.made_errors import with_predictions
from policyc.planning.plausibility import broken_constraints
from policyc.planning.schedules import Allocation, Group
from policyc.planning.search import tried_sparse
from policyc.planning.series import with_one_signal
from policyc.planning.sharing import Sharing, Tried
from policyc.planning.shown import require_known_errors, shown_warnings
from policyc.planning.simulated_errors import with_simulated_errors
from policyc.planning.step_agreement import agrees, least_step_parts, level_demands, weighed
from policyc.planning.through_chains import through_chains
from policyc.planning.usefulness import utility_warnings
from policyc.planning.user_level import plan_user_level
from policyc.progress import counted
from policyc.second_process import beside
from policyc.semantics.policy import Policy, Release, Wish
from policyc.semantics.targets import WEventTarget
from policyc_check.errors import KernelError, PlanRejectedError
from policyc_check.steps.budgets import LARGEST_HORIZON
from policyc_runtime.estimation import Estimator, twins
from policyc_runtime.estimation.constraints import ConstraintSet
from policyc_runtime.estimation.projection import Mle
from policyc_runtime.groups import mixture, shares_of
from policyc_runtime.mechanisms import WindowMechanism, still_error, window_mechanism_kinds
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import verify

LATE = "predicting its error takes long beside levels that agree: name it in the policy to use it"
SUMMED = "levels that are estimated before they agree err no less, or nobody can say by how much less"
MOST_SIMULATED = 100  # states: measured, 17 s and half a GiB at 100, a sixth of the time at 50
UNSIMULATED = (
    f"predicting its error takes too long with more than {MOST_SIMULATED} states: name it in the policy to use it"
)


def make_plan(policy: Policy, notices: Sequence[Diagnostic]) -> tuple[Plan, list[Diagnostic]]:
    """Plan a checked policy; `notices` are the warnings so far, which the plan records.

    Returns:
        The verified plan, and further warnings (about utility).

    Raises:
        PolicyError: no plan keeps the promise with what the policy demands.
    """
    horizon = policy.stream.horizon
    if horizon is not None and horizon > LARGEST_HORIZON:
        raise PolicyError(policy.source, [*notices, _too_long(policy, horizon)])
    try:
        if policy.of_streams:
            policy, lags = through_chains(with_one_signal(policy), notices)
            return _verified(policy, notices, *plan_user_level(policy, notices, lags))
        try:
            return _verified(policy, notices, *_planned(policy, notices, audit=False))
        except PlanRejectedError:  # as a rule nothing of what is proposed is refused
            return _verified(policy, notices, *_planned(policy, notices, audit=True))
    except KernelError as error:
        raise PolicyError(policy.source, [*notices, _refused(policy, error)]) from error


def _verified(
    policy: Policy, notices: Sequence[Diagnostic], plan: Plan, more: list[Diagnostic]
) -> tuple[Plan, list[Diagnostic]]:
    """The plan with all that is predicted, as the check accepts it."""
    plan = plan.model_copy(update={"made": with_predictions(policy, plan)}).sealed()
    require_known_errors(policy, plan, [*notices, *more])
    verify(plan)
    return plan, more


def _planned(policy: Policy, notices: Sequence[Diagnostic], *, audit: bool) -> tuple[Plan, list[Diagnostic]]:
    """The plan, with an `audit` of every schedule that is compared and of the one chosen; without, of none yet."""
    groups = [Group(chain.group, chain_record(chain).chain()) for chain in policy.chains]
    ways = [_compared(policy, notices, groups, way, audit=audit) for way in _ways(policy)]
    choices, words = min((way for way in ways if way is not None), key=partial(_cost, policy))
    broken = broken_constraints(policy, [group.chain for group in groups] if policy.chains_of_all else [])
    more = [
        warning
        for release, choice in zip(policy.releases, choices, strict=True)
        for warning in utility_warnings(policy, release, choice.predicted, broken.get(release.name, ()))
    ]
    plan = assemble_plan(policy, choices, words, (*notices, *more), audit=audit)
    if unseen := list(shown_warnings(policy, plan, [*notices, *more])):
        more += unseen
        plan = assemble_plan(policy, choices, words, (*notices, *more), audit=audit)
    return plan, more


Way = Literal["nearest", "estimated"]
"""What is done to levels before they agree. Budgets are divided alike: nearly all is best given to the finest."""


def _ways(policy: Policy) -> list[Way]:
    """Which ways are compared: where levels agree, estimating each first costs nothing, and may gain nothing."""
    known = bool(policy.chains_of_all) and policy.stream.population is not None
    if not any(agrees(policy, release.name) for release in policy.releases):
        return ["nearest"]
    if policy.estimate.name != "auto":
        return ["nearest"] if policy.estimate.name in ("none", "mle") else ["estimated"]
    return ["nearest", "estimated"] if known and not _rule(policy, policy.releases[0]) else ["nearest"]


def _cost(policy: Policy, way: tuple[Sequence[Choice], str | None]) -> float:
    """The error of all values together that is stated; what is known of the noise alone is not better than that."""
    weights = (policy.weight_of(release.name) * len(release_cells(policy, release)) for release in policy.releases)
    return sum(weight * one.predicted.published for weight, one in zip(weights, way[0], strict=True))


def _compared(
    policy: Policy, notices: Sequence[Diagnostic], groups: Sequence[Group], way: Way, *, audit: bool
) -> tuple[list[Choice], str | None] | None:
    """What is least in one way, and how budgets were divided; None where another way is left and this does not apply.

    Raises:
        PolicyError: nothing applies, in the only way there is.
    """
    tables = [_comparison(policy, release, groups, way) for release in policy.releases]
    weights = [policy.weight_of(release.name) for release in policy.releases]
    agreeing = least_step_parts(policy, tables)
    sharing = Sharing.between(tables, weights) if agreeing is None else Sharing(tables, agreeing, weights, settled=True)
    rule = _rule(policy, policy.releases[0])

    def tried() -> list[tuple[Allocation | Refused, Tried]]:
        """The schedules that release every step, and what they err."""
        schedules = list(allocations(policy, groups, audit=audit)) if rule is None else [adaptive(policy, groups, rule)]
        return [(one, sharing.tried(one)) for one in counted("schedules compared", schedules, len(schedules))]

    filled = all(
        any(isinstance(entry, Estimator) and entry.fills for entry in (*table.estimators, *table.late))
        for table in sharing.tables
    )
    if rule is None and (policy.budget.name == "sparse" or (policy.budget.name == "auto" and filled and groups)):
        with beside(tried) as others:
            sparse = tried_sparse(policy, groups, sharing.apart(), audit=audit)
            if others.elsewhere and sparse:
                sharing.foresee(sparse)
            compared = [*others.found(), *sparse]
    else:
        compared = tried()
    for schedule, errors in compared:
        sharing.add(schedule, errors)
    sharing = sharing.refined()
    sharing.add_late()
    choices = sharing.choices()
    if choices is None and way == _ways(policy)[0]:
        raise PolicyError(policy.source, [*notices, _impossible(policy, sharing.schedules, sharing.estimators)])
    if choices is None:
        return None
    words = sharing.words([release.name for release in policy.releases])
    choices = weighed(policy, choices)
    return with_simulated_errors(policy, choices, partial(unclaimed_plan, policy, choices)), words


def _comparison(policy: Policy, release: Release, groups: Sequence[Group], way: Way) -> Comparison:
    """An empty table for one release: its mechanism, the estimators that apply, and how errors are predicted."""
    rows, integer = constraint_rows(policy, release)
    cells = release_cells(policy, release)
    constraints = ConstraintSet(rows, len(cells), integer=integer)
    alone = None if way == "nearest" else level_demands(policy, release)
    constraints = constraints if alone is None else alone  # what else is asked is kept once levels agree
    rule = _rule(policy, release)
    mechanism = step_mechanism(policy, release) if rule is None else rule
    shares, of = shares_of([chain_record(chain) for chain in policy.chains]), counted_states(policy, release)
    predictor = Predictor(
        cells=len(cells),
        population=policy.stream.population if release.by is not None else None,
        chains=[group.chain for group in groups] if policy.chains_of_all else [],
        shares=shares,
        moving=mixture([group.chain for group in groups], shares, None if of is None else of.tolist())
        if policy.one_law
        else None,
        of=of,
        constraints=constraints.within_a_step(),
        objective=policy.objective,
        mechanism=mechanism,
        delay={"realtime": 0, "within": policy.delivery.delay, "offline": None}[policy.delivery.kind],
    )
    usable = _wished(_described(policy.estimate), estimators(policy.laws, constraints, predictor.delay))
    if alone is not None:
        single: list[Estimator | Refused] = [Mle()] if len(cells) == 1 else []  # what all add up to needs no estimate
        slow = policy.estimate.name == "auto"
        usable = single or [Refused(_name(e), LATE) if slow and _name(e) == "joint_map()" else e for e in usable]
    elif agrees(policy, release.name):
        usable = [e if _name(e).split("(")[0] in ("none", "mle") else Refused(_name(e), SUMMED) for e in usable]
    elif policy.estimate.name == "auto":
        same = twins(constraints, predictor.delay)
        usable = [entry for entry in usable if _name(entry).split("(")[0] not in same]
    if rule is not None:
        again = "values are published again, so that their noise is not new at every step"
        usable = [e if e.name in ("none", "mle") else Refused(_name(e), again) for e in usable]
    # The error of `joint_map` takes simulations: under `auto` it is compared where all others are best, if at all.
    late = [entry for entry in usable if policy.estimate.name == "auto" and _name(entry) == "joint_map()"]
    if len(cells) > MOST_SIMULATED:
        usable = [Refused(_name(e), UNSIMULATED) if e in late and isinstance(e, Estimator) else e for e in usable]
        late = []
    early = [entry for entry in usable if entry not in late]
    return Comparison(early, mechanism, predictor, late, _not_compared(policy))


def _not_compared(policy: Policy) -> list[Refused]:
    """Mechanisms that would keep the promise, and whose error nobody can predict from the policy."""
    if policy.mechanism.name != "auto" or not any(isinstance(target, WEventTarget) for target in policy.targets):
        return []
    unknown = "its error depends on how far counts move between publications; name it in the policy to use it"
    return [Refused(name, unknown) for name in window_mechanism_kinds()]


def _rule(policy: Policy, release: Release) -> WindowMechanism | None:
    """The mechanism that publishes when counts have moved, where the policy names one, for an epsilon of 1."""
    kind = window_mechanism_kinds().get(policy.mechanism.name)
    if kind is None:
        return None
    given = policy.mechanism.arguments.get("window")
    targets = [target.window for target in policy.targets if isinstance(target, WEventTarget)]
    window = max(targets) if given is None else int(str(given))
    least = sensitivity(release)[0]
    name, cells = policy.mechanism.name, len(release_cells(policy, release))
    error = still_error(name, window, cells, policy.stream.horizon, policy.objective)
    fields = {"name": name, "window": window, "epsilon": 1, "l1_sensitivity": least, "still_error": error}
    return kind.model_validate(fields)


def _wished(wish: str, found: Iterable[Estimator | Refused]) -> list[Estimator | Refused]:
    """All that was found under `auto`, else what the policy names: `map` all its priors, `map(prior = uniform)` one."""
    return [entry for entry in found if wish == "auto" or _name(entry) == wish or _name(entry).split("(")[0] == wish]


def _name(entry: Estimator | Refused) -> str:
    return entry.described() if isinstance(entry, Estimator) else entry.name


def _described(wish: Wish) -> str:
    settings = ", ".join(f"{name} = {str(value).lower()}" for name, value in wish.arguments.items())
    return f"{wish.name}({settings})" if settings else wish.name


def _too_long(policy: Policy, horizon: int) -> Diagnostic:
    return Diagnostic(
        "E0753",
        f"{horizon:,} steps are more than can be planned step by step ({LARGEST_HORIZON:,})",
        policy.stream.horizon_span,
        because="every step of a plan is checked on its own",
        help="write `horizon unbounded`, or publish less often",
    )


def _refused(policy: Policy, error: KernelError) -> Diagnostic:
    return Diagnostic(
        "E0754",
        f"the kernel refuses: {error.message}",
        policy.targets[0].span,
        because=error.because or "a plan that the kernel does not accept is never written",
        help=error.help or "change what it names in the policy",
    )


def _impossible(
    policy: Policy, schedules: Sequence[Allocation | Refused], usable: Sequence[Estimator | Refused]
) -> Diagnostic:
    failed = [entry for entry in schedules if isinstance(entry, Refused)]
    if len(failed) == len(schedules):
        return _no_budget(policy, failed)
    fitting = [entry for entry in usable if isinstance(entry, Estimator)]
    if fitting:
        return _unfilled(policy, [entry.described() for entry in fitting])
    name = _described(policy.estimate)
    reasons = list(dict.fromkeys(entry.reason for entry in usable if isinstance(entry, Refused)))
    return Diagnostic(
        "E0752",
        f"the estimator `{name}` does not apply to this release",
        policy.estimate.span or Span(0, 1),
        because="; ".join(reasons) or f"`{name}` is for the plain series of a user-level promise",
        help="write `estimate auto`, or declare what it needs: a chain, counts by cell, and the constraint "
        f"`sum({policy.releases[0].name}) == population`"
        if reasons
        else "write `estimate auto`, or promise `user_level(...)` alone, under which series are plain",
    )


def _no_budget(policy: Policy, failed: Sequence[Refused]) -> Diagnostic:
    """E0751: the budget that is named does not exist here, or none does."""
    name, span = policy.budget.name, policy.budget.span
    if name == "auto" or span is None:
        message, remedy = "no budget keeps this promise with these correlations", "raise alpha, or shorten the horizon"
        because = "; ".join(f"{entry.name}: {entry.reason}" for entry in failed)
    else:
        message, remedy = f"there is no budget `{name}` for this promise", "write `budget auto`, which tries them all"
        because = "; ".join(dict.fromkeys(entry.reason for entry in failed))
    return Diagnostic("E0751", message, span or policy.targets[0].span, because=because, help=remedy)


def _unfilled(policy: Policy, fitting: Sequence[str]) -> Diagnostic:
    """E0760: every estimator that applies looks at a step alone, and the schedule leaves steps without a release."""
    budget = policy.budget
    wanted = (
        "no estimator that applies here" if policy.estimate.name == "auto" else "no estimator that the policy allows"
    )
    return Diagnostic(
        "E0760",
        f"the budget `{budget.name}` leaves steps without a release, and {wanted} fills them",
        budget.span or policy.targets[0].span,
        because=f"{_listed(fitting)} {'looks' if len(fitting) == 1 else 'look'} at every step alone",
        help="write `budget auto`; or `estimate auto` and what `filter` and `smoother` need: one chain, counts by "
        "cell, and the constraint `sum(my_release) == population`",
    )


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
