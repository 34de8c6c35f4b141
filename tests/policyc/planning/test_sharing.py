"""Several releases under one promise: their budgets add up to one schedule, divided by predicted error."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit.context import certificate_content
from policyc_check.errors import PlanRejectedError
from policyc_check.steps.budgets import total_budgets, window_budget
from policyc_runtime.output_place import output_paths
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.refusal import plan_claims, verify
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
release present = count(seen)
release occupancy = count(seen) by room
{promise}
deliver {deliver}
objective {objective}
{wishes}
postprocess occupancy {{ sum(occupancy) == population, occupancy >= 0, integer(occupancy) }}
"""
MARKOV = """target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]],
  initial = stationary, evidence = "counts of last year")"""
W_EVENT = """target w_event(epsilon = 1.0, window = 10 steps)
correlation none(evidence = "badges are drawn anew each step")"""


def planned(tmp_path, promise=MARKOV, *, horizon="30 steps", deliver="offline", wishes="", squared=True) -> Plan:
    objective = "mean_squared_error" if squared else "mean_absolute_error"
    text = POLICY.format(promise=promise, horizon=horizon, deliver=deliver, wishes=wishes, objective=objective)
    (tmp_path / "rooms.policy").write_text(text)
    return compile_policy(tmp_path / "rooms.policy").plan


@pytest.mark.parametrize("horizon", ["30 steps", "unbounded"])
@pytest.mark.parametrize("promise", [MARKOV, W_EVENT])
def test_budgets_add_up_to_one_schedule(tmp_path, promise, horizon):
    """What all releases spend together keeps the promise and nearly uses it up, step by step."""
    plan = planned(tmp_path, promise, horizon=horizon, deliver="realtime", wishes="estimate mle()")
    verify(plan)
    if promise == W_EVENT:
        assert Fraction(1) - Fraction(1, 10**12) <= window_budget(plan, 10) <= 1
    else:
        assert plan.claims.total_leakage is not None
        assert Decimal("0.99999") <= plan.claims.total_leakage <= 1
    columns = [part.schedule.epsilons(30) for part in plan.releases]
    ratios = {round(float(a / b), 9) for a, b in zip(*columns, strict=True)}
    assert len(ratios) == 1
    assert total_budgets(plan, 30) == pytest.approx(np.array(columns, dtype=float).sum(axis=0))


@pytest.mark.parametrize("squared", [True, False])
def test_noise_alone_divides_by_roots_of_what_it_costs(tmp_path, squared):
    """Where only noise counts the parts are cube roots of its squared error, square roots of its absolute error.

    Three cells that add up to a known number lose the mean of their noise, a third of its variance.
    """
    promise = W_EVENT.replace("epsilon = 1.0", "epsilon = 0.05")
    plan = planned(tmp_path, promise, wishes="estimate mle()\nmechanism laplace()", squared=squared)
    cost = (3 * 2**2 * 2 / 3) ** (1 / 3) if squared else (3 * 2 * math.sqrt(2 / 3)) ** 0.5
    shares = {part.name: float(part.share or 0) for part in plan.releases}
    assert shares["occupancy"] == pytest.approx(cost / (cost + 1), abs=0.005)


@pytest.mark.law
def test_parts_are_the_best_ones(tmp_path, monkeypatch):
    """No other division predicts less error for all values together, by one part in a hundred."""
    plan = planned(tmp_path, wishes="estimate auto")
    chosen = sum(len(part.cells) * part.predicted.published for part in plan.releases)
    found = float(plan.releases[0].share or 0)
    for part in (0.7 * found, 0.9 * found, 1.1 * found, 1.4 * found):
        monkeypatch.setattr("policyc.planning.sharing._best_parts", lambda *_, p=part: [p, 1 - p])
        monkeypatch.setattr("policyc.planning.sharing._least_noise_parts", lambda *_, p=part: [p, 1 - p])
        other = planned(tmp_path, wishes="estimate auto")
        assert chosen <= 1.01 * sum(len(r.cells) * r.predicted.published for r in other.releases)


@pytest.fixture
def shared(tmp_path) -> Plan:
    return planned(tmp_path, wishes="estimate mle()\nbudget quantified()")


def test_plan_certificate_and_verification_say_how(shared):
    """The plan says in words how the budget was divided; each part is a claim; the certificate's first page has it."""
    assert shared.sharing is not None
    assert sum(part.share or 0 for part in shared.releases) == pytest.approx(Decimal(1), abs=Decimal("1e-5"))
    content = certificate_content(shared, {})
    assert "to `occupancy` (3 values a step)" in content["sharing"]["sentence"]
    names = [claim.name for claim in plan_claims(shared)]
    assert sum("of every step's budget" in name for name in names) == 2


def test_a_larger_budget_of_either_release_is_refused(shared):
    """Each release alone would keep the promise; what counts is what they spend together."""
    for index in range(2):
        releases = list(shared.releases)
        segments = []
        for segment in releases[index].schedule.segments:
            epsilons = tuple(epsilon * Decimal("1.000001") for epsilon in segment.epsilons)
            scales = tuple(releases[index].mechanism.calibrate(epsilon) for epsilon in epsilons)
            segments.append(segment.model_copy(update={"epsilons": epsilons, "scales": scales}))
        schedule = releases[index].schedule.model_copy(update={"segments": tuple(segments)})
        releases[index] = releases[index].model_copy(update={"schedule": schedule})
        with pytest.raises(PlanRejectedError):
            verify(shared.model_copy(update={"releases": tuple(releases)}).sealed())


def test_a_share_that_is_too_small_or_missing_is_refused(shared):
    """A share says no less than what is taken, and every release of several has one."""
    for share in (Decimal("0.1"), None):
        releases = tuple(part.model_copy(update={"share": share}) for part in shared.releases)
        with pytest.raises(PlanRejectedError, match="share|steps, in exact"):
            verify(shared.model_copy(update={"releases": releases}).sealed())


def test_both_releases_are_published(shared, tmp_path):
    """One run draws both noises, one file each; a second run gives the same values."""
    rng = np.random.default_rng(1)
    cells = rng.multinomial(2000, [0.3, 0.3, 0.4], size=30)
    counts = {"occupancy": cells, "present": cells[:, :2].sum(axis=1, keepdims=True)}
    first = release(shared, counts, tmp_path / "ledger", randomness=SimulationRandomness(3), pin=None)
    again = release(shared, counts, tmp_path / "ledger", randomness=SimulationRandomness(4), pin=None)
    for name, values in counts.items():
        assert (first.series[name].released == again.series[name].released).all()
        assert first.series[name].noisy.shape == values.shape
    assert len({str(path) for path in output_paths(["present", "occupancy"], tmp_path / "o.csv").values()}) == 2


def test_two_outputs_of_one_value_leak_the_sum(tmp_path):
    """By brute force: over both outputs of a step, likelihoods differ by the sum of both budgets and no more."""
    plan = planned(tmp_path, W_EVENT.replace("epsilon = 1.0", "epsilon = 8.0"), wishes="estimate none()")
    scales = {part.name: float(part.schedule.scales(1)[0]) for part in plan.releases}
    spent = float(total_budgets(plan, 1)[0])

    def loss(x, y):
        """Log likelihood, but for a constant, of the outputs when the user is in state x rather than y."""
        counts = {s: ((s != 2) + 0, *(int(s == c) for c in range(3))) for s in range(3)}
        worst = 0.0
        for output in itertools.product(range(-2, 4), repeat=4):
            values = [-abs(o - c) for o, c in zip(output, counts[x], strict=True)]
            others = [-abs(o - c) for o, c in zip(output, counts[y], strict=True)]
            gaps = [(a - b) for a, b in zip(values, others, strict=True)]
            worst = max(worst, gaps[0] / scales["present"] + sum(gaps[1:]) / scales["occupancy"])
        return worst

    found = max(loss(x, y) for x, y in itertools.permutations(range(3), 2))
    assert found <= spent
    assert math.isclose(found, spent, rel_tol=1e-9)
