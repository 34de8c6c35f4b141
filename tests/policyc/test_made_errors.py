"""Errors that are stated of what is made of released values, against those of runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit.blocks.made_errors import made_error
from policyc.pipeline import declared_signal
from policyc_runtime.estimates import estimate_release
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.laboratory.streams import noisy_streams
from policyc_runtime.made_values import made_values
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness

STREAM = """
policy visits "visitors"
stream seen {{
  user person
  time at
  {cell}
  step 1h
  horizon {horizon} steps
  population {population}
  start "2026-01-01"
}}
"""
USER_LEVEL = """
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = replace)
participation at_most(6 steps, assumed = "a card is valid for six hours")
"""
CHAIN = """
target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.9, 0.1], [0.2, 0.8]], initial = stationary, evidence = "a survey")
"""
SIGNAL = 'signal ar1(mean = 900, sd = 120, autocorrelation = 0.8, evidence = "last year")\n'
HOURLY = "release hourly = count(seen)\nrelease daily = total(hourly, 12 steps)\n"

Make = Callable[..., Plan]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def plan_of(
        more: str = "", releases: str = HOURLY, target: str = USER_LEVEL, horizon: int = 96, population: int = 100_000
    ) -> Plan:
        cell = 'cell shop in {"north"} otherwise "away"' if " by shop" in releases else ""
        path = tmp_path / "visits.policy"
        text = STREAM.format(horizon=horizon, cell=cell, population=population)
        path.write_text(text + releases + target + more)
        plan: Plan = compile_policy(path).plan
        return plan

    return plan_of


def noise_errors(plan: Plan, raw: dict[str, Any], runs: int) -> dict[str, tuple[float, float]]:
    """Mean squared and absolute error of everything that is made, over runs of the plan's own noise and estimators."""
    found: dict[str, list[np.ndarray]] = {made.name: [] for made in plan.made}
    exact = made_values(plan, {name: values.astype(np.float64) for name, values in raw.items()})
    for seed in range(runs):
        noisy = noisy_streams(plan, raw, SimulationRandomness(seed))
        published = {
            part.name: estimate_release(plan, part, noisy[part.name], np.empty((0, len(part.cells))))
            for part in plan.releases
        }
        for name, values in made_values(plan, published).items():
            found[name].append(np.ma.filled(values - exact[name], np.nan).ravel())
    together = {name: np.concatenate(rows) for name, rows in found.items()}
    return {name: (float(np.nanmean(away**2)), float(np.nanmean(np.abs(away)))) for name, away in together.items()}


NOISES = {
    "gaussian": ("mechanism gaussian()\nestimate none()", "expected"),
    "laplace": ("mechanism laplace()\nestimate none()", "expected"),
    "common noise": ("mechanism common_noise(weight = 0.3)\nestimate none()", "expected"),
    "common noise of days": ("mechanism common_noise()\nestimate none()", "expected"),
    "tree": ("mechanism binary_tree()\nestimate none()", "simulated"),
    "toeplitz": ("mechanism toeplitz()\nestimate none()", "simulated"),
    "frequencies": ("mechanism dft()\nestimate none()", "at_least"),
    "gaussian, absolute": ("mechanism gaussian()\nestimate none()\nobjective mean_absolute_error", "simulated"),
    "laplace, absolute": ("mechanism laplace()\nestimate none()\nobjective mean_absolute_error", "simulated"),
}


@pytest.mark.sampled(0, laws=4)
@pytest.mark.parametrize("noise", NOISES)
def test_noise_of_a_total_is_that_of_runs(make: Make, noise: str) -> None:
    """Independent noise adds up by variances, a common draw by its deviation, and noises that depend are simulated."""
    more, kind = NOISES[noise]
    common = noise.startswith("common noise")  # one draw a run: many runs; and for users who are in most steps
    dense = USER_LEVEL.replace("6 steps", "80 steps").replace("= replace", "= add_remove")
    if "days" in noise:  # of 20 hours, which totals of 12 straddle
        dense = dense.replace("80 steps", "18 steps, per = 20h").replace("add_remove", "add_remove, per = 20h")
    plan = make(more, target=dense if common else USER_LEVEL)
    predicted = plan.made[0].predicted
    assert predicted is not None
    assert predicted.kind == kind
    squared, absolute = noise_errors(plan, {"hourly": np.full((96, 1), 5000)}, 2000 if common else 200)["daily"]
    found = absolute if plan.objective == "mean_absolute_error" else squared
    assert predicted.published == pytest.approx(found, rel=0.1 if common else 0.05)
    if noise in ("gaussian", "laplace"):
        assert predicted.published == pytest.approx(12 * plan.releases[0].predicted.published)


@pytest.mark.sampled(0, laws=3)
@pytest.mark.parametrize("estimate", ["filter()", "smoother()", pytest.param("auto", marks=pytest.mark.law)])
@pytest.mark.parametrize(
    "objective", ["mean_squared_error", pytest.param("mean_absolute_error", marks=pytest.mark.law)]
)
def test_a_total_of_estimates_errs_as_simulated_values_do(
    make: Make, tmp_path: Path, estimate: str, objective: str
) -> None:
    """Errors of estimates depend on each other from hour to hour: a day's is neither a multiple nor a root of them."""
    more = "deliver realtime\n" if estimate == "filter()" else ""
    plan = make(more + SIGNAL + f"mechanism gaussian()\nestimate {estimate}\nobjective {objective}")
    predicted = plan.made[0].predicted
    assert predicted is not None
    assert predicted.kind == "simulated"
    signal = declared_signal(tmp_path / "visits.policy", plan)
    result = simulate(plan, 5, 120, (), signal=signal)
    found = next(error for error in result.errors if error.release == "daily")
    squared = objective == "mean_squared_error"
    mean = found.mean_squared_error if squared else found.mean_absolute_error
    stderr = found.mean_squared_error_stderr if squared else found.mean_absolute_error_stderr
    assert abs(predicted.published - mean) < 0.05 * mean + 2 * math.hypot(stderr, predicted.stderr or 0.0)
    assert result.predicted["daily"] == predicted.published
    assert any("daily: the plan predicts" in line for line in result.table_lines())


@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
def test_without_a_signal_only_the_noise_of_a_total_is_stated(make: Make, objective: str) -> None:
    """What a smoother gains is not known, so the number is called that of the noise."""
    plan = make(f"mechanism gaussian()\nestimate smoother()\nobjective {objective}")
    predicted = plan.made[0].predicted
    assert predicted is not None
    assert predicted.kind == "noise"
    own = plan.releases[0].predicted.published
    factor = 12 if objective == "mean_squared_error" else math.sqrt(12)
    assert predicted.published == pytest.approx(factor * own, rel=0.05)
    assert "By its noise" in str(made_error(plan, plan.made[0])["sentence"])


OF_SHOPS = """
release hourly = count(seen) by shop
release daily = total(hourly, 12 steps)
release change = change(hourly, baseline = median(every = 3 steps, steps = 0 .. 14))
release share = ratio(hourly, population, times = 100)
"""


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize(
    "more",
    [
        "estimate none()",
        "estimate filter()\npostprocess hourly { sum(hourly) == population }",
        "estimate smoother()\npostprocess hourly { sum(hourly) == population, hourly >= 0, integer(hourly) }",
    ],
)
def test_under_a_declared_chain_errors_are_those_of_its_users(make: Make, more: str) -> None:
    """Users who move as declared, and the plan's own noise: totals, changes and shares err as stated."""
    plan = make(more, OF_SHOPS, CHAIN, population=900)
    result = simulate(plan, 5, 80, ())
    for made in plan.made:
        assert made.predicted is not None
        found = next(error for error in result.errors if error.release == made.name)
        mean, room = found.mean_squared_error, math.hypot(found.mean_squared_error_stderr, made.predicted.stderr or 0.0)
        assert abs(made.predicted.published - mean) < 0.05 * mean + 2 * room
    share = {made.name: made.predicted for made in plan.made}["share"]
    assert share is not None
    assert share.published == pytest.approx(plan.releases[0].predicted.published / 9**2)


def test_the_formula_of_a_ratio_has_the_errors_of_runs(make: Make) -> None:
    """At denominators far above their noise, `sqrt(a^2 + r^2 b^2) / B` is the standard error."""
    releases = HOURLY + "release bought = count(seen)\nrelease share = ratio(hourly, bought, times = 100)\n"
    plan = make("mechanism gaussian()\nestimate none()", releases)
    made = plan.made[-1]
    assert made.predicted is None
    told: dict[str, Any] = made_error(plan, made)  # type: ignore[assignment]
    a, b = (math.sqrt(part.predicted.published) for part in plan.releases)
    for value, over in ((0, 4000), (3000, 4000), (9000, 3000)):
        raw = {"hourly": np.full((96, 1), value), "bought": np.full((96, 1), over)}
        found = math.sqrt(noise_errors(plan, raw, 150)["share"][0])
        assert found == pytest.approx(100 / over * math.hypot(a, value / over * b), rel=0.05)
    for row in told["stated"]:
        denominator = float(row["denominator"].replace(",", ""))
        for ratio in (0, 1):
            expected = 100 / denominator * math.hypot(a, ratio * b)
            assert float(row[f"error_at_ratio_{ratio}"].replace(",", "")) == pytest.approx(expected, rel=0.01)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mechanism", "last"), [("laplace", 34), ("gaussian", 34), ("gaussian", 27)])
def test_the_formula_of_a_change_has_the_errors_of_runs(make: Make, mechanism: str, last: int) -> None:
    """The noise of a median of five Laplace draws of scale b has variance 0.3512 b^2, and so on."""
    baseline = f"median(every = 7 steps, steps = 0 .. {last})"
    releases = f"release hourly = count(seen)\nrelease change = change(hourly, baseline = {baseline})\n"
    plan = make(f"mechanism {mechanism}()\nestimate none()", releases)
    told = str(made_error(plan, plan.made[0])["sentence"])
    a = math.sqrt(plan.releases[0].predicted.published)
    m = float(told.split("m = ")[1].split(",")[0])
    if mechanism == "laplace":
        assert m == pytest.approx(math.sqrt(0.3512 / 2) * a, rel=0.005)
    for q in (0.0, 1.0, 2.5):
        raw = {"hourly": np.where(np.arange(96) <= last, 4000, round(4000 * q))[:, None]}
        found = math.sqrt(noise_errors(plan, raw, 200)["change"][0])
        assert found == pytest.approx(100 / 4000 * math.hypot(a, q * m), rel=0.05)


@pytest.mark.law
def test_a_change_of_a_signal_that_is_placed_is_simulated(make: Make, tmp_path: Path) -> None:
    """Where the policy says how large values are, the error of a change is a number."""
    releases = "release hourly = count(seen)\nrelease change = change(hourly, baseline = median(steps = 0 .. 23))\n"
    plan = make(SIGNAL + "mechanism gaussian()", releases)
    predicted = plan.made[0].predicted
    assert predicted is not None
    result = simulate(plan, 5, 80, (), signal=declared_signal(tmp_path / "visits.policy", plan))
    found = next(error for error in result.errors if error.release == "change")
    room = math.hypot(found.mean_squared_error_stderr, predicted.stderr or 0.0)
    assert abs(predicted.published - found.mean_squared_error) < 0.05 * found.mean_squared_error + 2 * room


def test_errors_of_parts_that_depend_on_each_other_have_no_formula(make: Make) -> None:
    """A ratio of two releases that are made of the same values is said to be unknown."""
    releases = HOURLY + "release week = window(hourly, 7 steps)\nrelease share = ratio(hourly, week)\n"
    plan = make("mechanism gaussian()\nestimate none()", releases)
    assert plan.made[-1].predicted is None
    assert "depend on each other" in str(made_error(plan, plan.made[-1])["sentence"])


@pytest.mark.parametrize("target", [USER_LEVEL.replace("= replace", "= add_remove"), CHAIN])
def test_a_block_longer_than_what_stands_for_an_endless_stream_has_no_stated_error(tmp_path: Path, target: str) -> None:
    """Errors of endless streams are means over 1,000 steps: of a year of hours nothing is stated."""
    releases = "release hourly = count(seen) by shop\nrelease year = total(hourly, 8_760 steps)\n"
    otherwise = 'otherwise "away"' if target == CHAIN else ""
    text = STREAM.format(horizon=0, cell=f'cell shop in {{"north"}} {otherwise}', population=900)
    path = tmp_path / "endless.policy"
    path.write_text(text.replace("horizon 0 steps", "horizon unbounded") + releases + target + "deliver realtime\n")
    plan = compile_policy(path).plan
    assert plan.made[0].predicted is None
    assert "not computed" in str(made_error(plan, plan.made[0])["sentence"])
