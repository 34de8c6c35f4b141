"""What pages say of errors is true of streams near zero too, where constraints take error away."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit.certificate import render_markdown
from policyc.emit.context import certificate_content
from policyc_runtime.estimation.signal import SeriesProcess
from policyc_runtime.estimation.whittle import learned_process
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan

POLICY = """
policy cars "cars on a road"
stream passages {{
  user plate
  time at
  step 1h
  horizon 24 steps
  start "2026-01-01"
}}
release there = count(passages)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(12 steps, assumed = "passes")
{signal}
mechanism {mechanism}
deliver {deliver}
estimate {estimate}
objective {objective}
postprocess there {{ {demands} }}
"""
EVENTS = """
policy rooms "people in rooms"
stream stays {{
  user person
  time at
  cell room in {{"A", "B"}}
  step 1h
  horizon 24 steps
  population 500
  start "2026-01-01"
}}
release there = count(stays) by room
target w_event(epsilon = 1.0, window = 6 steps)
correlation none(evidence = "independent visits")
mechanism {mechanism}
deliver realtime
estimate {estimate}
postprocess there {{ {demands} }}
"""
WAYS = {
    "plain": ("", "gaussian()", "realtime", "none()"),
    "nearest": ("", "laplace()", "offline", "mle()"),
    "learned": ("", "gaussian()", "realtime", "auto"),
    "lmmse": ("", "lmmse(weight = 0.5)", "realtime", "auto"),
    "fast": ("", "fast(samples = 6)", "realtime", "auto"),
    "dft": ("", "dft(coefficients = 6)", "offline", "auto"),
    "subsample": ("", "subsample(rate = 0.3)", "offline", "auto"),
    "filter_subsample": ("", "filter_subsample(rate = 0.3)", "offline", "auto"),
    "no mean": ("signal ar1(sd = 20, autocorrelation = 0.9)", "gaussian()", "realtime", "auto"),
    "small spread": ("signal ar1(mean = 20, sd = 3, autocorrelation = 0.7)", "toeplitz()", "realtime", "mle()"),
    "small mean": ("signal ar1(mean = 0, sd = 20, autocorrelation = 0.9)", "gaussian()", "realtime", "auto"),
}
DEMANDS = ["there >= 0", "there >= 0, there <= 25, integer(there)", "there - previous(there) <= 5, there >= 0"]
SAID = [
    (r"A published value is expected to be off by about ([\d,.]+)", "published", "is"),
    (r"A published value is expected to be off by at least about ([\d,.]+)", "published", "at least"),
    (r"The noisy value is expected to be off by about ([\d,.]+)", "noisy", "is"),
    (r"Before constraints, a value is expected to be off by at least about ([\d,.]+)", "unconstrained", "at least"),
]
CASES = [(way, demands) for way in WAYS for demands in DEMANDS[:2]] + [(way, DEMANDS[2]) for way in ("plain", "lmmse")]
RUNS = 24


def page_and_plan(folder: Path, text: str) -> tuple[str, Plan]:
    (folder / "cars.policy").write_text(text)
    plan = compile_policy(folder / "cars.policy").plan
    return render_markdown(certificate_content(plan, {})), plan


def errors(plan: Plan, what: str, stream: np.ndarray | SeriesProcess) -> tuple[float, float]:
    """What values of a stream are off by, typically, with a standard error.

    `what`: "noisy" values, "published" ones, or "unconstrained": those that the plan would publish without constraints.
    """
    power = 2.0 if plan.objective == "mean_squared_error" else 1.0
    (part,) = plan.releases
    if what == "unconstrained":
        part = part.model_copy(update={"constraints": (), "integer": False})
        plan = plan.model_copy(update={"releases": (part,)})
    rows = []
    for seed in range(RUNS):
        found = simulate(plan, seed, 1, (), signal=stream)
        series, true = found.example.series[part.name], found.truth[part.name]
        away = (series.noisy - true)[~series.skipped] if what == "noisy" else series.released - true
        rows.append(float((np.abs(away) ** power).mean()))
    mean, stderr = float(np.mean(rows)), float(np.std(rows)) / RUNS**0.5
    return mean ** (1 / power), stderr / mean * mean ** (1 / power)


def streams(plan: Plan, typical: float) -> list[np.ndarray | SeriesProcess]:
    """Streams at zero and just above it; of a declared signal its own, low where it does not say where it lies."""
    process = None if plan.signal is None else learned_process(plan.signal, np.empty(0), np.empty(0))
    if process is None:
        return [np.full(24, level * typical) for level in (0.0, 0.3, 1.0)]
    return [process if process.mean is not None else replace(process, mean=30.0)]


@pytest.mark.sampled(3, laws=4)
@pytest.mark.parametrize(("way", "demands"), CASES)
def test_a_page_is_true_of_streams_near_zero(way: str, demands: str, tmp_path: Path) -> None:
    """Streams at 0 and up to the stated error above it: noisy or published values err as the page says of them."""
    signal, mechanism, deliver, estimate = WAYS[way]
    objective = "mean_absolute_error" if "integer" in demands else "mean_squared_error"
    words = {"signal": signal, "mechanism": mechanism, "deliver": deliver, "estimate": estimate}
    page, plan = page_and_plan(tmp_path, POLICY.format(**words, demands=demands, objective=objective))
    said = [(found[1], what, how) for words, what, how in SAID if (found := re.search(words, page))]
    assert len(said) == 1
    stated, what, how = float(said[0][0].replace(",", "")), *said[0][1:]
    for stream in streams(plan, stated):
        mean, stderr = errors(plan, what, stream)
        assert mean > 0.95 * stated - 3 * stderr, (stream, said, mean, stderr)
        if how == "is":
            assert mean < 1.05 * stated + 3 * stderr, (stream, said, mean, stderr)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", ["laplace()", "budget_distribution()", "budget_absorption()"])
@pytest.mark.parametrize("demands", DEMANDS[:2])
def test_steps_without_a_declared_chain_state_no_error_that_bounds_lower(
    mechanism: str, demands: str, tmp_path: Path
) -> None:
    """Where nobody says how users move, constraints make the error one of the noise, or one before constraints."""
    page, plan = page_and_plan(tmp_path, EVENTS.format(mechanism=mechanism, demands=demands, estimate="mle()"))
    assert plan.releases[0].predicted.kind == ("noise" if mechanism == "laplace()" else "unconstrained")
    assert "A published value is expected" not in page


def test_what_a_law_that_nobody_declared_would_gain_is_left_open(tmp_path: Path) -> None:
    """An estimator that pulls towards a prior errs by more or less than the noise, as the stream lies."""
    page, plan = page_and_plan(
        tmp_path,
        EVENTS.format(mechanism="laplace()", demands="sum(there) == population", estimate="map(prior = uniform)"),
    )
    assert plan.releases[0].predicted.kind == "noise"
    assert "A published value is expected" not in page
