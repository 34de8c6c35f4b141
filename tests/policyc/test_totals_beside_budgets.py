"""Running totals and windows where steps have budgets: made of what is published, at no cost, with known errors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.diagnostics import PolicyError
from policyc.emit.blocks.made_errors import made_error
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.refusal import verify

STREAM = """
policy visits "visitors"
stream seen {{
  user person
  time at
  cell shop in {{"north"}} otherwise "away"
  step 1h
  horizon {horizon}
  population 400
  start "2026-01-01"
}}
release hourly = count(seen) by shop
"""
ALPHA = "target alpha_dpt(alpha = 1.0)\n"
CHAIN = """
correlation markov(forward = [[0.9, 0.1], [0.2, 0.8]], initial = stationary, evidence = "a survey")
"""
TOTALS = "release so_far = prefix(hourly)\nrelease of_late = window(hourly, 6 steps)\n"
SUM = "postprocess hourly { sum(hourly) == population }\n"
BESIDE = """
target event_level(epsilon = 0.5)
target user_level(epsilon = 9.0, delta = 1e-6, neighbors = replace)
participation at_most(8 steps, assumed = "a ticket")
"""

DRAWN = 3000  # streams of noise
PLAIN = "budget uniform()\nestimate none()\n"

Make = Callable[..., Plan]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def plan_of(more: str = "", target: str = ALPHA + CHAIN, horizon: str = "40 steps") -> Plan:
        path = tmp_path / "visits.policy"
        path.write_text(STREAM.format(horizon=horizon) + target + more)
        return compile_policy(path).plan

    return plan_of


@pytest.mark.parametrize("target", [ALPHA + CHAIN, ALPHA + CHAIN + BESIDE, BESIDE])
def test_totals_take_nothing_of_what_is_promised(make: Make, target: str) -> None:
    """What is measured, and with which noise, is as without them."""
    alone, beside = make(PLAIN, target=target), make(TOTALS + PLAIN, target=target)
    assert beside.releases == alone.releases
    assert beside.claims == alone.claims
    assert [made.query.kind for made in beside.made] == ["prefix", "window"]
    verify(beside)


@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
@pytest.mark.parametrize("budget", ["uniform()", pytest.param("quantified()", marks=pytest.mark.law)])
def test_the_error_of_totals_is_that_of_the_noise_that_they_add_up(make: Make, objective: str, budget: str) -> None:
    """Drawn by the plan's own mechanism, many times."""
    plan = make(TOTALS + f"objective {objective}\nbudget {budget}\nestimate none()\n")
    (release,) = plan.releases
    scales = release.schedule.scales(40) * DRAWN
    noise = release.mechanism.add_noise(np.zeros((40 * DRAWN, 2), np.int64), scales, SimulationRandomness(1))
    draws = noise.reshape(DRAWN, 40, 2)
    sums = np.array(list(accumulate(draws.transpose(1, 0, 2))))
    late = np.array([draws[:, max(0, step - 5) : step + 1].sum(axis=1) for step in range(40)])
    for made, noise in zip(plan.made, (sums, late), strict=True):
        found = (noise**2).mean() if objective == "mean_squared_error" else np.abs(noise).mean()
        assert made.predicted is not None
        assert made.predicted.published == pytest.approx(found, rel=0.04)


@pytest.mark.law
@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
def test_the_error_of_totals_of_estimates_is_that_of_whole_simulated_streams(make: Make, objective: str) -> None:
    """What a smoother moves at one step it moves at others: errors hang together."""
    plan = make(TOTALS + SUM + f"objective {objective}\nestimate smoother()\ndeliver offline\n", horizon="150 steps")
    found = {error.release: error for error in simulate(plan, 7_000, 60, (), steps=150).errors if error.chosen}
    for made in plan.made:
        error = found[made.name]
        squared = objective == "mean_squared_error"
        mean = error.mean_squared_error if squared else error.mean_absolute_error
        stderr = error.mean_squared_error_stderr if squared else error.mean_absolute_error_stderr
        assert made.predicted is not None
        assert made.predicted.kind == "simulated"
        assert abs(made.predicted.published - mean) < 4 * np.hypot(stderr, made.predicted.stderr or 0.0)


def test_what_is_not_known_of_the_error_of_totals_is_not_said(make: Make) -> None:
    """Without end a running total errs without end."""
    plan = make(TOTALS + "deliver realtime\nestimate none()\n", horizon="unbounded")
    so_far, of_late = plan.made
    assert so_far.predicted is None
    assert "the stream has no end" in str(made_error(plan, so_far)["sentence"])
    assert of_late.predicted is not None


@pytest.mark.law
def test_of_streams_that_are_too_long_to_simulate_no_error_is_said(make: Make) -> None:
    """Totals over less of the stream err less."""
    plan = make(TOTALS + SUM + "estimate smoother()\nbudget uniform()\ndeliver offline\n", horizon="1001 steps")
    assert [made.predicted for made in plan.made] == [None, None]


def test_more_is_made_of_totals(make: Make) -> None:
    """Ratios and changes of them, and totals of totals, come after them."""
    more = """
release latest = window(everything, 3 steps)
release everything = prefix(hourly)
release share = ratio(everything, population)
release change = change(latest, baseline = median(every = 2 steps, steps = 3 .. 8))
"""
    plan = make(more + PLAIN)
    assert [made.name for made in plan.made] == ["everything", "latest", "share", "change"]
    verify(plan)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("postprocess so_far { so_far >= 0 }\n", "E0236"),
        ("postprocess of_late { integer(of_late) }\n", "E0236"),
        (
            SUM + "postprocess of_late { suppress(of_late, error_above = 9, chance = 0.1) }\n"
            "budget uniform()\nestimate mle()\n",
            "E0752",
        ),
        ("release long = window(hourly, 41 steps)\n", "E0221"),
        ("objective mean_squared_error(so_far = 2)\n", "E0204"),
    ],
)
def test_totals_have_no_demands_and_no_noise_of_their_own(make: Make, more: str, code: str) -> None:
    """They agree with what they are made of."""
    with pytest.raises(PolicyError) as refused:
        make(TOTALS + more + "deliver offline\n")
    assert code in {finding.code for finding in refused.value.diagnostics}


def test_a_total_is_left_out_where_its_error_is_too_large(make: Make) -> None:
    """Of plain noise the error of a total follows from the scales that it adds up."""
    rule = "postprocess so_far { suppress(so_far, error_above = 90, chance = 0.1) }\n"
    plan = make(TOTALS + rule + "mechanism laplace()\nestimate none()\n")
    verify(plan)
    assert plan.made[0].suppressions
