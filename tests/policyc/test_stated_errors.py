"""What a plan states as the error of its values, and what pages make of that: never the noise in its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit.certificate import render_markdown
from policyc.emit.context import certificate_content
from policyc.emit.numbers import sentence_case
from policyc.emit.steps import step_rows
from policyc.emit.summary import render_summary
from policyc.pipeline import declared_signal
from policyc_check.errors import PlanFormatError
from policyc_check.users.claims import promised_user_level, setting_of
from policyc_runtime.estimation.signal import drawn_series
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.mechanisms import StreamMechanism
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.randomness import SimulationRandomness

POLICY = """
policy cars "cars on a road"
stream passages {{
  user plate
  time at
  step 1h
  horizon 48 steps
  start "2026-01-01"
}}
release there = count(passages)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(24 steps, assumed = "passes")
{signal}
mechanism {mechanism}
deliver {deliver}
estimate {estimate}
"""
WINDOWS = """
policy rooms "people in rooms"
stream stays {{
  user person
  time at
  cell room in {{"A", "B"}}
  step 1h
  horizon 48 steps
  population 500
  start "2026-01-01"
}}
release there = count(stays) by room
target w_event(epsilon = 1.0, window = 6 steps)
correlation none(evidence = "independent visits")
mechanism {mechanism}
deliver realtime
"""
MOVING = [
    ("lmmse(weight = 0.5)", "realtime"),
    ("lmmse(weight = 0.5, noise = binomial)", "within(3 steps)"),
    ("fast(samples = 12)", "realtime"),
    ("fast()", "within(3 steps)"),
    ("dft(coefficients = 6)", "offline"),
    ("dft(choose = true)", "within(11 steps)"),
    ("subsample(rate = 0.3)", "offline"),
    ("filter_subsample(rate = 0.3)", "offline"),
]
PLAIN = [("gaussian()", "realtime"), ("laplace()", "offline"), ("binomial()", "within(3 steps)")]


def planned(folder: Path, text: str = POLICY, **words: str) -> Plan:
    given = {"signal": "", "mechanism": "auto", "deliver": "realtime", "estimate": "auto"} | words
    (folder / "cars.policy").write_text(text.format(**given))
    return compile_policy(folder / "cars.policy").plan


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("mechanism", "deliver"), MOVING)
@pytest.mark.parametrize("signal", ["", "signal ar1(learned = true)"])
def test_errors_that_depend_on_the_stream_are_stated_as_lower_bounds(
    mechanism: str, deliver: str, signal: str, tmp_path: Path
) -> None:
    """Page, summary, table of steps and simulation say "at least" and why; a stream that stands still has that error.

    A stream that moves has more. Nothing calls the number an expected error.
    """
    plan = planned(tmp_path, mechanism=mechanism, deliver=deliver, signal=signal)
    part = plan.releases[0]
    assert part.predicted.kind == "at_least"
    page = render_markdown(certificate_content(plan, {}))
    assert "off by at least about" in page
    assert sentence_case(part.predicted.because) in page
    summary = render_summary(plan, tmp_path)
    assert "expected   at least" in summary
    assert part.predicted.because in summary
    assert "error_at_least" in step_rows(plan).columns
    assert "expected_error" not in step_rows(plan).columns
    still = simulate(plan, 1, 12, signal=1000.0 + 0 * _zigzag())
    moved = simulate(plan, 1, 12, signal=1000.0 + _zigzag())
    assert f"of at least {part.predicted.published:.4g}" in "\n".join(still.table_lines())
    assert _own(still) >= 0.8 * part.predicted.published
    assert _own(moved) > 1.2 * part.predicted.published


@pytest.mark.parametrize("mechanism", ["budget_distribution()", "budget_absorption()"])
def test_values_that_are_published_again_have_lower_bounds(mechanism: str, tmp_path: Path) -> None:
    """Budget distribution and absorption state the error of counts that stand still as a bound."""
    plan = planned(tmp_path, WINDOWS, mechanism=mechanism)
    assert plan.releases[0].predicted.kind == "at_least"
    page = render_markdown(certificate_content(plan, {}))
    assert "off by at least about" in page
    assert "without post-processing" not in page
    assert "a mean over all steps" in page
    assert "expected   at least" in render_summary(plan, tmp_path)
    assert "mean_error_at_least" in step_rows(plan).columns


SIGNAL = (
    "signal seasonal_ar1(period = 12 steps, mean = 400, seasonal_sd = 60, residual_sd = 40, autocorrelation = 0.6, "
    'evidence = "pilot")'
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mechanism", "deliver"), [*PLAIN, *MOVING, ("toeplitz()", "realtime")])
def test_what_noisy_values_alone_err_is_what_runs_have_without_post_processing(
    mechanism: str, deliver: str, tmp_path: Path
) -> None:
    """Of what a mechanism makes of a moving stream that is more than its noise: pages stated that, 80 times less."""
    plan = planned(tmp_path, mechanism=mechanism, deliver=deliver, signal=SIGNAL)
    part, process = plan.releases[0], declared_signal(tmp_path / "cars.policy", plan)
    alone = part.predicted.without_postprocessing
    assert alone is not None
    own = part.mechanism
    assert isinstance(own, StreamMechanism)
    setting = setting_of(plan, part, promised_user_level(plan)[0])
    found = []
    for seed in range(200):
        true = np.rint(drawn_series(process, 48, np.random.default_rng(seed), 0.0)).astype(np.int64)[:, None]
        values = own.values(setting, own.measure(setting, true, (), SimulationRandomness(seed + 10**6)))
        found.append(np.nanmean((values - true) ** 2))
    mean, stderr = np.mean(found), np.std(found) / len(found) ** 0.5
    assert abs(alone - mean) < 0.05 * mean + 4 * stderr
    words = "the noise alone" if own.errs_by_variances else "the noisy values alone"
    assert words in render_summary(plan, tmp_path)


def test_without_a_signal_nobody_says_what_moving_values_err_alone(tmp_path: Path) -> None:
    """The row is left out: the noise would be less than runs have."""
    plan = planned(tmp_path, mechanism="dft(coefficients = 6)", deliver="offline")
    assert plan.releases[0].predicted.without_postprocessing is None
    assert "without post-processing" not in render_markdown(certificate_content(plan, {}))


@pytest.mark.law
@pytest.mark.parametrize(("mechanism", "deliver"), PLAIN)
@pytest.mark.parametrize("estimate", ["none()", "auto"])
def test_plain_noise_is_expected_and_what_filters_gain_is_left_open(
    mechanism: str, deliver: str, estimate: str, tmp_path: Path
) -> None:
    """Without an estimator runs have the stated error, whatever the stream; with one that learns it is the noise's."""
    plan = planned(tmp_path, mechanism=mechanism, deliver=deliver, estimate=estimate)
    part = plan.releases[0]
    assert part.predicted.kind == ("expected" if estimate == "none()" else "noise")
    if estimate == "none()":
        found = simulate(plan, 1, 60, signal=1000.0 + _zigzag())
        assert _own(found) == pytest.approx(part.predicted.published, rel=0.1)
    else:
        assert "noise_error" in step_rows(plan).columns


@pytest.mark.sampled(1)
@pytest.mark.parametrize("estimate", ["none()", "auto"])
def test_the_page_says_which_signal_errors_are_for_and_who_says_so(estimate: str, tmp_path: Path) -> None:
    """A declared signal beside its evidence, where the error is one of it; without a signal nothing of the kind."""
    plan = planned(tmp_path, mechanism="dft(coefficients = 6)", deliver="offline", signal=SIGNAL, estimate=estimate)
    page = render_markdown(certificate_content(plan, {}))
    assert "for values that move as `seasonal_ar1(period = 12, mean = 400" in page
    assert "the policy's evidence: “pilot”" in page
    bare = planned(tmp_path, mechanism="dft(coefficients = 6)", deliver="offline", estimate=estimate)
    assert "That is for values that move" not in render_markdown(certificate_content(bare, {}))


@pytest.mark.parametrize(
    ("signal", "said", "unsaid"),
    [
        (SIGNAL, "the numbers that the policy declares", "Until eight values"),
        ("signal seasonal_ar1(period = 12 steps, learned = true)", "Until eight values", "that the policy declares:"),
    ],
)
def test_what_a_filter_learns_is_what_the_policy_leaves_open(
    signal: str, said: str, unsaid: str, tmp_path: Path
) -> None:
    """Of a declared process the page does not say that its numbers are learned, or that first values are left alone."""
    plan = planned(tmp_path, mechanism="gaussian()", signal=signal, estimate="filter()")
    page = render_markdown(certificate_content(plan, {}))
    assert said in page
    assert unsaid not in page
    assert ("of the mean nothing is assumed" in page) == (signal != SIGNAL)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("mechanism", "signal", "said"),
    [
        ("gaussian()", "", "Noise is added to every value first"),
        ("subsample(rate = 0.3)", SIGNAL, "Only some steps are measured"),
        ("dft(coefficients = 6)", SIGNAL, "Noise is added first to all that is measured"),
    ],
)
def test_the_first_page_says_what_noise_is_added_to(mechanism: str, signal: str, said: str, tmp_path: Path) -> None:
    """To every value, to those of the measured steps alone, or to what a mechanism measures in place of values."""
    page = render_markdown(
        certificate_content(planned(tmp_path, mechanism=mechanism, signal=signal, deliver="offline"), {})
    )
    assert said in page
    assert (said == "Noise is added to every value first") == ("Noise is added to every value first" in page)


def test_a_plan_made_before_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """A plan that does not say what kind of number its error is, is not read as one that does."""
    text = planned(tmp_path).to_json()
    old = text.replace('"kind": "noise",\n', "")
    assert old != text
    (tmp_path / "plan.json").write_text(old)
    with pytest.raises(PlanFormatError) as refused:
        load_plan(tmp_path)
    assert refused.value.code == "E0802"
    assert "compile the policy again" in (refused.value.help or "")


def _zigzag():
    return np.resize([0.0, 400.0, 100.0, 300.0, -300.0, 50.0], 48)


def _own(result) -> float:
    return next(error.mean_squared_error for error in result.errors if error.chosen)
