"""Promises about windows of steps, with and without correlation: planned, verified, and refused where they fail."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit.context import certificate_content
from policyc.planning.caps import capped
from policyc.planning.leakage.recursion import window_leakage
from policyc.planning.patterns import allocate_optimal, allocate_sparse
from policyc.planning.promise import Promise
from policyc.planning.schedules import (
    Group,
    Run,
    allocate_bounded,
    allocate_quantified,
    allocate_uniform,
    expand,
)
from policyc_check.errors import PlanRejectedError
from policyc_check.plan.targets import AlphaDPT
from policyc_check.steps.budgets import window_budget
from policyc_check.steps.chains import Chain
from policyc_check.verify import verified_claims
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import verify

CHAIN = Chain(forward=[[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], initial="stationary")
OTHER = Chain(forward=[[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]], initial="stationary")

POLICY = """
policy rooms "people in rooms"
stream seen {{
  user person
  time at
  cell room in {{"A", "B"}} otherwise "away"
  step 5min
  horizon {horizon}
  start "2026-01-01"
  population 2_000
}}
release occupancy = count(seen) by room
{targets}
{correlation}
deliver {deliver}
objective mean_squared_error
{budget}
postprocess occupancy {{ sum(occupancy) == population, occupancy >= 0 }}
"""
MARKOV = """correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]],
  initial = stationary, evidence = "counts of last year")"""
NONE = 'correlation none(evidence = "badges are drawn anew each step")'


def planned(tmp_path, targets, *, correlation=MARKOV, horizon="40 steps", deliver="offline", budget="") -> Plan:
    text = POLICY.format(targets=targets, correlation=correlation, horizon=horizon, deliver=deliver, budget=budget)
    (tmp_path / "rooms.policy").write_text(text)
    return compile_policy(tmp_path / "rooms.policy").plan


def windows(allocation, width):
    """The largest leakage about so many steps, by the kernel's plain recursion."""
    epsilons = expand(allocation.runs)
    return max(
        window_leakage(epsilons, g.chain.backward_side(), g.chain.forward_side(), min(width, len(epsilons)), g.lags)
        .max()
        for g in allocation.groups
    )  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("width", [1, 3, 12, 100])
@pytest.mark.parametrize("allocate", [allocate_uniform, allocate_bounded, allocate_quantified, allocate_optimal])
@pytest.mark.parametrize("horizon", [1, 2, 7, 60])
def test_no_window_leaks_more_than_promised(allocate, width, horizon):
    """Each schedule keeps its promise about windows for every group; `uniform` and `optimal` use it up."""
    groups = [Group("a", CHAIN, (1, 2, 3)), Group("b", OTHER)]
    found = allocate(Promise(((1.0, width),)), horizon, groups)
    assert windows(found, width) <= 1.0
    assert found.leakage <= 1.0
    if allocate in (allocate_uniform, allocate_optimal):
        assert windows(found, width) >= 1 - 1e-5


def test_quantified_uses_every_window_up():
    """With one chain the raised ends make every window leak alpha, as they do with single steps."""
    group = Group(None, CHAIN)
    epsilons = expand(allocate_quantified(Promise(((1.0, 5),)), 40, [group]).runs)
    leaked = window_leakage(epsilons, CHAIN.backward_side(), CHAIN.forward_side(), 5)
    assert leaked == pytest.approx(np.ones(36), rel=1e-10)


def test_several_windows_hold_together():
    """Two promises about windows of different length are both kept, and one of them is used up."""
    promise = Promise(((0.8, 1), (1.2, 10)))
    for allocate in (allocate_uniform, allocate_quantified, allocate_optimal):
        found = allocate(promise, 50, [Group(None, CHAIN)])
        used = windows(found, 1) / 0.8, windows(found, 10) / 1.2
        assert max(used) <= 1
        assert max(used) >= 1 - 1e-5


@pytest.mark.parametrize("every", [2, 5])
@pytest.mark.parametrize("horizon", [31, None])
def test_sparse_windows(every, horizon):
    """A release every so many steps keeps a window's promise, over an end and for ever."""
    groups = [Group(None, CHAIN, (1, every, 2 * every))]
    found = allocate_sparse(Promise(((1.0, 7),)), horizon, groups, every)
    runs = found.runs if horizon else [Run(found.runs[0].epsilon, 40 * every, every)]
    leaked = window_leakage(expand(runs), CHAIN.backward_side(), CHAIN.forward_side(), 7, groups[0].lags)
    assert 1 - 1e-4 <= leaked.max() <= 1.0


@pytest.mark.parametrize(
    ("runs", "caps", "level"),
    [
        ([Run(3.0, None)], [(Decimal(1), 10)], 0.1),
        ([Run(3.0, None)], [(Decimal(2), 24)], 2 / 24),
        ([Run(5.0, 40, 4)], [(Decimal(1), 12)], 1 / 3),
        ([Run(1.0, 1), Run(0.1, 8), Run(1.0, 1)], [(Decimal(1), 4)], 0.7),
        ([Run(0.1, 8)], [(Decimal(1), 4), (Decimal("0.05"), 1)], 0.05),
        ([Run(0.1, 8)], [(Decimal(1), 100)], 0.1),
    ],
)
def test_budgets_are_cut_at_the_level_that_fills_the_fullest_window(runs, caps, level):
    """Only what is above the level is cut, and no window spends more, in exact fractions."""
    found = capped(runs, caps)
    assert max(run.epsilon for run in found) == pytest.approx(level, rel=1e-14)
    assert min(run.epsilon for run in found) == pytest.approx(min(level, min(r.epsilon for r in runs)), rel=1e-14)


def test_w_event_alone_gives_each_step_its_part(tmp_path):
    """Where steps are independent every step of the window gets epsilon / w, exactly."""
    plan = planned(tmp_path, "target w_event(epsilon = 1.0, window = 10 steps)", correlation=NONE)
    assert plan.releases[0].schedule.epsilons(40) == [Decimal("0.1")] * 40
    assert window_budget(plan, 10) == 1
    assert [str(claim.nats) for claim in plan.claims.windows] == ["1.0"]


def test_alpha_over_windows_without_correlation_is_the_same(tmp_path):
    """What leaks about a window is what it spends."""
    targets = "target alpha_dpt(alpha = 1.0, window = 10 steps)"
    plan = planned(tmp_path, targets, correlation=NONE, horizon="unbounded", deliver="realtime")
    assert plan.releases[0].schedule.epsilons(3) == [Decimal("0.1")] * 3
    assert {claim.kind for claim in plan.claims.windows} == {"leakage"}


@pytest.mark.law
@pytest.mark.parametrize("horizon", ["40 steps", "unbounded"])
@pytest.mark.parametrize("budget", ["", "budget bounded()", "budget sparse(every = 4 steps)"])
def test_both_promises_hold(tmp_path, horizon, budget):
    """alpha-DP_T, its windows and w-event in one policy: all are verified, whatever the schedule."""
    targets = "target alpha_dpt(alpha = 1.0)\ntarget alpha_dpt(alpha = 2.0, window = 6 steps)\n"
    targets += "target w_event(epsilon = 0.5, window = 12 steps)"
    plan = planned(tmp_path, targets, horizon=horizon, deliver="realtime", budget=budget)
    verify(plan)
    assert window_budget(plan, 12) <= Fraction(1, 2)
    names = [claim.name for claim in verified_claims(plan)]
    assert sum("6 steps in a row never exceeds" in name for name in names) == 1
    assert sum("any 12 steps in a row spend at most" in name for name in names) == 1


@pytest.fixture
def both(tmp_path) -> Plan:
    targets = "target alpha_dpt(alpha = 1.0, window = 6 steps)\ntarget w_event(epsilon = 0.9, window = 12 steps)"
    return planned(tmp_path, targets)


@pytest.mark.law
def test_a_smaller_scale_and_a_larger_budget_are_refused(both):
    """Noise for one part in a billion less than the window needs is refused, and so is a budget that overspends it."""
    release = both.releases[0]
    segment = release.schedule.segments[0]
    more = Decimal("1.000000001")
    smaller = segment.model_copy(update={"scales": tuple(scale / more for scale in segment.scales)})
    larger = smaller.model_copy(update={"epsilons": tuple(epsilon * more for epsilon in segment.epsilons)})
    for changed, words in ((smaller, "too small for a budget"), (larger, "leakage")):
        schedule = release.schedule.model_copy(update={"segments": (changed, *release.schedule.segments[1:])})
        plan = both.model_copy(update={"releases": (release.model_copy(update={"schedule": schedule}),)})
        with pytest.raises(PlanRejectedError) as refused:
            verify(plan.sealed())
        assert words in f"{refused.value.message} {refused.value.because}"


@pytest.mark.law
def test_claims_about_windows_cannot_be_bettered_or_dropped(both):
    """A claim below what is recomputed, above what is promised, or none at all, is refused."""
    for index, claim in enumerate(both.claims.windows):
        for factor in ("0.999999999", "5"):
            changed = list(both.claims.windows)
            changed[index] = claim.model_copy(update={"nats": claim.nats * Decimal(factor)})
            claims = both.claims.model_copy(update={"windows": tuple(changed)})
            with pytest.raises(PlanRejectedError):
                verify(both.model_copy(update={"claims": claims}).sealed())
    claims = both.claims.model_copy(update={"windows": both.claims.windows[:1]})
    with pytest.raises(PlanRejectedError, match="claims and targets differ"):
        verify(both.model_copy(update={"claims": claims}).sealed())


@pytest.mark.law
def test_a_longer_window_needs_another_plan(both):
    """A plan is refused for a window that its budgets were not made for."""
    targets = tuple(
        target.model_copy(update={"window": 12}) if isinstance(target, AlphaDPT) else target for target in both.targets
    )
    claims = both.claims.model_copy(
        update={"windows": tuple(claim.model_copy(update={"window": 12}) for claim in both.claims.windows)}
    )
    with pytest.raises(PlanRejectedError):
        verify(both.model_copy(update={"targets": targets, "claims": claims}).sealed())


@pytest.mark.law
def test_the_certificate_says_each_window(both):
    """Each promise says its window in the sentence that has its number, and neighbors differ in the window's values."""
    first, second = certificate_content(both, {})["promises"]
    for promise, words in ((first, "6 steps in a row (30 minutes)"), (second, "12 steps in a row (1 hour)")):
        sentence = promise["sentence"].split(". ")[0]
        assert f"tells at most {promise['value']} nats about" in sentence
        assert sentence.endswith(f"throughout any {words}")
    assert "values of one user at 12 steps in a row" in second["neighbors"]
    assert "The chain" in first["conditional_on"]
    assert certificate_content(both, {})["correlation"]["about"] == "any 6 steps in a row"
    assert "The chain" not in second["conditional_on"]


def test_a_constraint_that_the_chain_breaks_is_named(tmp_path):
    """When a bound is far below what the declared chain expects, the warning names it, not alpha."""
    text = POLICY.format(
        targets="target alpha_dpt(alpha = 1.0)",
        correlation=MARKOV,
        horizon="40 steps",
        deliver="offline",
        budget="estimate mle()",
    )
    (tmp_path / "rooms.policy").write_text(text.replace("occupancy >= 0", 'occupancy >= 0, occupancy["A"] <= 40'))
    (warning,) = [d for d in compile_policy(tmp_path / "rooms.policy").diagnostics if d.code == "W0702"]
    assert warning.help is not None
    assert warning.help.startswith('drop or widen the constraint `occupancy["A"] <= 40`: users who move as declared')
    assert "alpha" not in warning.help


@pytest.mark.sampled(2)
@pytest.mark.parametrize("horizon", ["40 steps", "unbounded"])
@pytest.mark.parametrize("budget", ["", "mechanism budget_distribution()", "mechanism budget_absorption()"])
def test_a_window_of_one_step_is_a_promise_about_every_step(horizon, budget, tmp_path):
    """It is claimed, recomputed and told as such; one step more spent than claimed is refused."""
    target = "target w_event(epsilon = 1.0, window = 1 step)"
    plan = planned(tmp_path, target, correlation=NONE, horizon=horizon, deliver="realtime", budget=budget)
    (claim,) = plan.claims.windows
    assert (claim.kind, claim.window, claim.nats) == ("budget", 1, plan.claims.largest_budget)
    assert Decimal("0.999") < claim.nats <= 1
    assert [found.holds for found in verified_claims(plan) if "any one step spend" in found.name] == [True]
    (promise,) = certificate_content(plan, {})["promises"]
    told = " ".join(
        str(promise[name]) for name in ("sentence", "in_odds", "adversary", "holds", "recomputed", "theorem")
    )
    assert "largest budget of one step" in told
    assert "window" not in told
    less = plan.model_copy(
        update={
            "claims": plan.claims.model_copy(update={"windows": (claim.model_copy(update={"nats": Decimal("0.5")}),)})
        }
    )
    with pytest.raises(PlanRejectedError):
        verify(less)
    with pytest.raises(PlanRejectedError):
        verify(plan.model_copy(update={"claims": plan.claims.model_copy(update={"windows": ()})}))


def test_a_window_longer_than_one_step_of_a_stream_is_that_step(tmp_path):
    """A stream of one step has windows of one step, whatever the policy writes."""
    target = "target w_event(epsilon = 1.0, window = 3 steps)"
    verify(planned(tmp_path, target, correlation=NONE, horizon="1 step"))
