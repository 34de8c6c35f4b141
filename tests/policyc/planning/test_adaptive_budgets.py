"""Mechanisms whose budgets follow earlier results, from the policy to the released values."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from policyc import PolicyError, compile_policy
from policyc.emit.context import certificate_content
from policyc_check.errors import PlanRejectedError
from policyc_check.steps.budgets import total_budgets, window_budget
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, MeasuredRelease
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.refusal import verify
from policyc_runtime.release import release

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
{more}
deliver realtime
objective mean_squared_error
mechanism {mechanism}
postprocess occupancy {{ sum(occupancy) == population, occupancy >= 0, integer(occupancy) }}
"""
NONE = 'correlation none(evidence = "badges are drawn anew each step")\n'
MARKOV = """correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]],
  initial = stationary, evidence = "counts of last year")
"""
W_EVENT = "target w_event(epsilon = 1.0, window = 12 steps)\n"
KINDS = ["budget_absorption", "budget_distribution"]


def planned(tmp_path, mechanism, more=W_EVENT + NONE, horizon="60 steps") -> Plan:
    mechanism = mechanism if "(" in mechanism else f"{mechanism}()"
    text = POLICY.format(mechanism=mechanism, more=more, horizon=horizon)
    (tmp_path / "rooms.policy").write_text(text)
    return compile_policy(tmp_path / "rooms.policy").plan


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", KINDS)
@pytest.mark.parametrize("horizon", ["60 steps", "unbounded", "5 steps"])
def test_the_promise_is_the_mechanisms_epsilon(tmp_path, mechanism, horizon):
    """With w-event alone the mechanism gets all of epsilon, and no window spends more."""
    plan = planned(tmp_path, mechanism, horizon=horizon)
    verify(plan)
    rule = plan.releases[0].mechanism
    assert rule is not None
    assert window_budget(plan, 12) <= 1
    if horizon != "5 steps":
        assert rule.epsilon == 1


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("mechanism", KINDS)
@pytest.mark.parametrize("horizon", ["60 steps", "unbounded"])
def test_through_a_chain_every_step_counts_as_its_worst(tmp_path, mechanism, horizon):
    """Beside alpha-DP_T, leakage is audited as if every step spent the most that it may."""
    plan = planned(tmp_path, mechanism, W_EVENT + "target alpha_dpt(alpha = 1.0)\n" + MARKOV, horizon)
    verify(plan)
    rule = plan.releases[0].mechanism
    assert rule is not None
    assert len(set(total_budgets(plan, 20).tolist())) == 1
    assert rule.spent(1) <= Fraction(plan.releases[0].schedule.epsilons(1)[0]) <= Fraction(total_budgets(plan, 1)[0])
    assert plan.claims.total_leakage is not None
    assert plan.claims.total_leakage <= 1
    assert rule.epsilon < 1


@pytest.mark.parametrize("mechanism", KINDS)
def test_more_epsilon_or_a_shorter_window_is_refused(tmp_path, mechanism):
    """A mechanism that could spend one part in a billion more than is promised is refused, whatever else is raised."""
    plan = planned(tmp_path, mechanism)
    part = plan.releases[0]
    rule, segment = part.mechanism, part.schedule.segments[0]
    assert rule is not None
    for update in (
        {"epsilon": rule.epsilon * Decimal("1.000000001")},
        {"window": rule.window - 1},
        {"l1_sensitivity": Decimal(1)},
    ):
        raised = segment.model_copy(update={"epsilons": tuple(e * 2 for e in segment.epsilons)})
        for schedule in (part.schedule, part.schedule.model_copy(update={"segments": (raised,)})):
            changed = part.model_copy(update={"mechanism": rule.model_copy(update=update), "schedule": schedule})
            with pytest.raises(PlanRejectedError):
                verify(plan.model_copy(update={"releases": (changed,)}).sealed())


@pytest.mark.parametrize("mechanism", KINDS)
def test_a_run_in_two_pieces(tmp_path, mechanism):
    """Runs go on from the ledger, published values satisfy the constraints, and steps that wait repeat the last."""
    plan = planned(tmp_path, mechanism)
    rng = np.random.default_rng(2)
    laws = [[0.3, 0.3, 0.4]] * 30 + [[0.6, 0.1, 0.3]] * 30
    counts = {"occupancy": np.array([rng.multinomial(2000, law) for law in laws])}
    first = release(plan, counts, tmp_path / "ledger", steps=20, randomness=SimulationRandomness(1), pin=None)
    whole = release(
        plan, counts, tmp_path / "ledger", randomness=SimulationRandomness(2), steps_a_transaction=7, pin=None
    )
    claims = [claim for claim in ledger_claims(plan, tmp_path / "ledger") if "record" in claim.name]
    assert [claim.holds for claim in claims] == [True]
    series = whole.series["occupancy"]
    assert (series.noisy[:20] == first.series["occupancy"].noisy).all()
    assert (series.released.sum(axis=1) == 2000).all()
    assert not series.skipped.any()
    repeated = (np.diff(series.noisy, axis=0) == 0).all(axis=1)
    assert 5 < repeated.sum() < 59
    assert np.abs(series.released[-1] - counts["occupancy"][-1]).max() < 250


def test_several_releases_share_it(tmp_path):
    """Each release decides for itself, with its part of epsilon."""
    plan = planned(tmp_path, "budget_absorption", "release present = count(seen)\n" + W_EVENT + NONE)
    verify(plan)
    epsilons = [part.mechanism.epsilon for part in plan.releases if isinstance(part, AdaptiveRelease)]
    assert len(epsilons) == 2
    assert Fraction(1) - Fraction(1, 10**9) < sum(map(Fraction, epsilons)) <= 1


def test_the_certificate_says_where_budgets_come_from(tmp_path):
    """It says that budgets follow earlier results, what a step may spend at most, and what is not predicted."""
    content = certificate_content(planned(tmp_path, "budget_distribution"), {})
    assert "whatever the data" in content["promises"][0]["derivation"]
    assert content["mechanisms"][0]["schedule"] == "at most, as results allow"
    assert "KELLARIS14" in content["sources"]
    assert "not known before the data" in content["accuracy"][0]["method"]


@pytest.mark.law
def test_it_can_be_simulated(tmp_path):
    """A simulation runs the rule itself."""
    plan = planned(tmp_path, "budget_absorption", W_EVENT + "target alpha_dpt(alpha = 3.0)\n" + MARKOV)
    result = simulate(plan, 1, 2, steps=30)
    assert any(error.chosen for error in result.errors)


@pytest.mark.parametrize("mechanism", KINDS)
def test_without_windows_there_is_nothing_to_divide(tmp_path, mechanism):
    """The mechanism without a w-event target stops with one finding that says what to add."""
    with pytest.raises(PolicyError) as stopped:
        planned(tmp_path, mechanism, "target event_level(epsilon = 1.0)\n" + NONE)
    (finding,) = [d for d in stopped.value.diagnostics if d.code.startswith("E")]
    assert finding.help is not None
    assert "w_event" in finding.help
    assert f"{mechanism}(window" in finding.help


@pytest.mark.parametrize("measured", [False, True])
def test_a_window_of_one_step_is_divided(tmp_path, measured):
    """With budgets and with the noise of the whole stream, where one step is promised as a single event is."""
    several = 'participation at_most(1 step, per_step = 2, assumed = "two doors")\n' if measured else ""
    target = "target w_event(epsilon = 1.0, window = 1 step)\n"
    text = POLICY.replace(' otherwise "away"', "").replace("postprocess", "# ") if measured else POLICY
    text = text.format(mechanism="budget_absorption()", more=target + several + NONE, horizon="60 steps")
    (tmp_path / "rooms.policy").write_text(text)
    (part,) = compile_policy(tmp_path / "rooms.policy").plan.releases
    assert isinstance(part, MeasuredRelease if measured else AdaptiveRelease)
    assert (part.mechanism.window, part.mechanism.epsilon) == (1, 1)


@pytest.mark.sampled(1, laws=1)
@pytest.mark.parametrize("mechanism", KINDS)
@pytest.mark.parametrize("promise", ["event_level(epsilon = 1.0)", "alpha_dpt(alpha = 1.0)"])
def test_a_window_of_its_own_is_divided(tmp_path, mechanism, promise):
    """Whatever is promised of steps is kept by the most that one may spend; more of it is refused."""
    chain = MARKOV if "alpha" in promise else NONE
    plan = planned(tmp_path, f"{mechanism}(window = 5 steps)", f"target {promise}\n{chain}")
    verify(plan)
    (part,) = plan.releases
    assert isinstance(part, AdaptiveRelease)
    assert part.mechanism.window == 5
    most = max(part.schedule.epsilons(5))
    assert part.mechanism.spent(1) <= most <= 1
    assert ("event" in promise) == (most == 1)
    more = part.mechanism.model_copy(update={"epsilon": part.mechanism.epsilon * Decimal("1.001")})
    weak = plan.model_copy(update={"releases": (part.model_copy(update={"mechanism": more}),)}).sealed()
    with pytest.raises(PlanRejectedError):
        verify(weak)
