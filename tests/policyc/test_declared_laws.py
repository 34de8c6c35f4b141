"""Signals of any declared law: planned, run, simulated and solved for, and refused where no series has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from policyc import compile_policy
from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import PolicyError
from policyc.emit.map_model import render_map_model
from policyc.pipeline import check_file, declared_signal
from policyc_check.verify import verified_claims
from policyc_runtime import load_plan
from policyc_runtime.laboratory.events import write_events
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.sources import read_events

STEPS = 48
POLICY = """policy cars "cars on a road"
stream passages {{
  user plate
  time at
  step 1h
  horizon {steps} steps
  start "2026-01-01"
}}
release there = {query}
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(20 steps, assumed = "passes")
signal {signal}
mechanism {mechanism}
deliver {deliver}
{end}
"""
AR = 'ar(coefficients = [1.2, -0.6], sd = 60{mean}, evidence = "e")'
LISTED = 'autocovariance(lags = [2500, 1800, 1000, 400]{mean}, evidence = "e")'
MEAN = ", mean = 900"


def written(folder: Path, signal: str, **words: object) -> Path:
    given = {"query": "count(passages)", "steps": STEPS, "mechanism": "gaussian()", "deliver": "offline", "end": ""}
    path = folder / "cars.policy"
    path.write_text(POLICY.format(signal=signal, **{**given, **words}))
    return path


def found_in(path: Path) -> Sequence[Diagnostic]:
    try:
        return check_file(path)[3]
    except PolicyError as error:
        return error.diagnostics


@pytest.mark.parametrize("mean", [MEAN, ""])
@pytest.mark.parametrize("signal", [AR, LISTED])
def test_the_most_probable_values_are_those_expected(signal: str, mean: str, tmp_path: Path) -> None:
    """Under normal noise and no constraints: the emitted model says by another route what the smoother says."""
    plan = compile_policy(written(tmp_path, signal.format(mean=mean))).plan
    module = ModuleType("map_model")
    exec(compile(render_map_model(plan), "map_model.py", "exec"), module.__dict__)
    counts = np.rint(900 + 50 * np.sin(np.arange(STEPS) / 3)).astype(np.int64)[:, None]
    run = release(plan, counts, tmp_path / "l", randomness=SimulationRandomness(1), steps=STEPS, pin=None)
    series = run.series["there"]
    values, _, _ = module.optimum({t: {"": float(row[0])} for t, row in enumerate(series.noisy)})
    assert np.abs([values[t][""] for t in range(STEPS)] - series.released[:, 0]).max() < 0.02


@pytest.mark.sampled(3, laws=4)
@pytest.mark.parametrize("mechanism", ["gaussian()", "lmmse()", "lmmse(noise = binomial)", "laplace()"])
@pytest.mark.parametrize("deliver", ["realtime", "within(4 steps)", "offline"])
@pytest.mark.parametrize("signal", [AR, LISTED])
def test_runs_err_as_predicted(signal: str, deliver: str, mechanism: str, tmp_path: Path) -> None:
    """Within 5 %, or three standard errors of what is simulated."""
    path = written(tmp_path, signal.format(mean=MEAN), mechanism=mechanism, deliver=deliver)
    plan = compile_policy(path).plan
    assert all(claim.holds for claim in verified_claims(plan))
    part = plan.releases[0]
    process = declared_signal(path, plan)
    found = next(error for error in simulate(plan, 7, 150, (), signal=process).errors if error.chosen)
    stated, stderr = part.predicted.published, found.mean_squared_error_stderr
    chance = 3 * np.hypot(stderr, part.predicted.stderr or 0)
    assert abs(found.mean_squared_error - stated) < max(0.05 * stated, chance)
    assert chance < 0.2 * stated


@pytest.mark.parametrize("signal", [AR, LISTED])
def test_weights_are_for_the_law(signal: str, tmp_path: Path) -> None:
    """Without a weight, the one with the least error of this law; what is published has the error that is stated."""
    plan = compile_policy(
        written(tmp_path, signal.format(mean=MEAN), mechanism="lmmse()", deliver="realtime", end="estimate none()")
    ).plan
    part = plan.releases[0]
    assert part.predicted.kind == "expected"
    for weight in ("0.2", "0.5", "1"):
        other = compile_policy(
            written(
                tmp_path,
                signal.format(mean=MEAN),
                mechanism=f"lmmse(weight = {weight})",
                deliver="realtime",
                end="estimate none()",
            )
        ).plan.releases[0]
        assert part.predicted.published <= other.predicted.published * (1 + 1e-9)


@pytest.mark.parametrize("query", ["count(passages)", "sum(passages.weight, clamp = 0.00 .. 4.00)"])
@pytest.mark.parametrize("signal", [AR, LISTED])
def test_events_are_drawn_from_the_law(signal: str, query: str, tmp_path: Path) -> None:
    """Nothing is dropped, and values move as declared."""
    path = written(tmp_path, signal.format(mean=MEAN), query=query, steps=600)
    plan = compile_policy(path).plan
    process = declared_signal(path, plan)
    write_events(plan, 2, tmp_path / "e.csv", signal=process)
    values = read_events(tmp_path / "e.csv", plan, steps=600).counts["there"][:, 0] * float(
        getattr(plan.releases[0].query, "grid", 1)
    )
    away = values - 900
    assert np.abs(away).mean() < 80
    found = np.array([(away[: 600 - lag] * away[lag:]).mean() for lag in range(4)])
    assert np.abs(found - process.covariances(4)).max() < 0.35 * process.covariances(1)[0]


def test_plans_are_the_same_from_lists_and_files(tmp_path: Path) -> None:
    """A file has one number a line; the plan is written and read back, and says how its signal is called."""
    (tmp_path / "lags.csv").write_text("2500\n1800\n1000\n400\n")
    plan = compile_policy(written(tmp_path, 'autocovariance(lags = file("lags.csv"), mean = 900)')).plan
    listed = compile_policy(written(tmp_path, "autocovariance(lags = [2500, 1800, 1000, 400], mean = 900)"))
    assert plan.signal == listed.plan.signal
    listed.save(tmp_path / "p.plan")
    assert load_plan(tmp_path / "p.plan") == listed.plan
    assert listed.plan.signal.described() == "autocovariance(lags = [2500, 1800, 1000, ...], mean = 900)"


REFUSED = {
    "ar(coefficients = [1], sd = 3)": "E0226",
    "ar(coefficients = [0.2, 0.2, 0.2, 0.2, 0.2, 0.2], sd = 3)": "E0226",
    "ar1(mean = 3, sd = 2, autocorrelation = 1)": "E0226",
    "ar1(mean = 3, sd = 2, autocorrelation = -1.5)": "E0226",
    "seasonal_ar1(period = 3 steps, autocorrelation = 2)": "E0226",
    "ar1(mean = 3, sd = 0, autocorrelation = 0.5)": "E0209",
    "ar(coefficients = [0.5], sd = -3)": "E0209",
    "ar(coefficients = [], sd = 3)": "E0209",
    "ar(coefficients = [0.5])": "E0206",
    "ar(coefficients = 0.5, sd = 3)": "E0208",
    'ar(coefficients = ["a"], sd = 3)': "E0208",
    "autocovariance(lags = [1, 0.6])": "E0227",
    "autocovariance(lags = [0])": "E0227",
    "autocovariance(lags = [-4, 1])": "E0227",
    "autocovariance(lags = [1, 2, 3])": "E0227",
    'autocovariance(lags = file("none.csv"))': "E0212",
    'autocovariance(lags = file("words.csv"))': "E0212",
}


@pytest.mark.parametrize("signal", REFUSED)
def test_what_no_series_does_is_refused(signal: str, tmp_path: Path) -> None:
    """One finding each, before anything is planned."""
    (tmp_path / "words.csv").write_text("lag\n1\n")
    findings = found_in(written(tmp_path, signal))
    assert [finding.code for finding in findings] == [REFUSED[signal]]
    assert findings[0].help


def test_remedies_work(tmp_path: Path) -> None:
    """What the findings propose compiles."""
    for signal in ("ar(coefficients = [0.7, 0.4], sd = 40)", "autocovariance(lags = [100, 80, 30])"):
        help_ = found_in(written(tmp_path, signal))[0].help
        if "first number" in help_:
            more = help_.split("at least ")[1].split(";")[0]
            first = f"autocovariance(lags = [{more}, 80, 30])"
            other = help_.split("`")[1]
        else:
            first = other = f"ar({help_.split('`')[1]}, sd = 40)"
        for remedy in (first, other):
            assert not found_in(written(tmp_path, remedy))
