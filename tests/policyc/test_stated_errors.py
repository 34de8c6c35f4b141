"""What a plan states as the error of its values, and what pages make of that: never the noise in its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc import compile_policy
from policyc.emit.blocks.accuracy import typical_error
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

Array = NDArray[np.float64]
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
@pytest.mark.parametrize("events", [1, 2])
def test_values_that_are_published_again_have_lower_bounds(mechanism: str, events: int, tmp_path: Path) -> None:
    """Budget distribution and absorption state the error of counts that stand still as a bound, and no other noise."""
    bound = f'participation at_most(48 steps, per_step = {events}, assumed = "two doors")\n' if events > 1 else ""
    plan = planned(tmp_path, WINDOWS + bound, mechanism=mechanism)
    assert plan.releases[0].predicted.kind == "at_least"
    page = render_markdown(certificate_content(plan, {}))
    assert "off by at least about" in page
    assert "without post-processing" not in page
    assert "a mean over all steps" in page
    assert "expected   at least" in render_summary(plan, tmp_path)
    assert "mean_error_at_least" in step_rows(plan).columns
    assert not {"scale", "stddev"} & set(step_rows(plan).columns)
    told = page.split("## Mechanism")[1].split("## Accuracy")[0]
    assert typical_error(plan, plan.releases[0].predicted.published) not in told
    assert "as results allow" in page


AGAIN: dict[str, tuple[str, str, int, float]] = {  # releases, the promise, events of a user, what these move
    "events by cell": ("release there = count(stays) by room\n", "", 2, 4),
    "events": ("release there = count(stays)\n", "", 3, 3),
    "events, added": ("release there = count(stays)\n", ", neighbors = add_remove", 2, 2),
    "a sum": ("release there = sum(stays.h, clamp = 0 .. 5)\n", "", 2, 10),
    "a signed sum by cell": ("release there = sum(stays.h, clamp = -3 .. 2) by room\n", "", 2, 12),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
@pytest.mark.parametrize("mechanism", ["budget_distribution", "budget_absorption"])
@pytest.mark.parametrize("kind", AGAIN)
def test_what_values_that_are_published_again_err_is_what_the_papers_rule_has(
    kind: str, mechanism: str, objective: str, tmp_path: Path
) -> None:
    """The rule as the paper writes it, with what one user's events move: as much while values stand still, else more.

    A user of several events moves all of them to another room in a step, or away from it.
    """
    releases, promise, events, moved = AGAIN[kind]
    text = WINDOWS.replace("release there = count(stays) by room\n", releases).replace(
        "6 steps)", "6 steps" + promise + ")"
    )
    text += f'participation at_most(48 steps, per_step = {events}, assumed = "doors")\nobjective {objective}\n'
    plan = planned(tmp_path, text, mechanism=f"{mechanism}()")
    cells, stated = len(plan.releases[0].cells), plan.releases[0].predicted.published
    still, moving = (papers_rule(mechanism, 6, moved, cells, 48, step) for step in (0.0, 40 * moved))
    error = np.square if objective == "mean_squared_error" else np.abs
    means = error(still).mean(axis=(1, 2))
    assert abs(means.mean() - stated) < 0.02 * stated + 4 * means.std() / len(means) ** 0.5
    assert error(moving).mean() > 1.2 * stated


@pytest.mark.sampled(1)
@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
@pytest.mark.parametrize("mechanism", ["budget_distribution", "budget_absorption"])
def test_what_totals_of_them_err_adds_up(mechanism: str, objective: str, tmp_path: Path) -> None:
    """What such values are off by stays: four steps, or all so far, are off by more than four new noises."""
    text = WINDOWS.replace("count(stays) by room\n", "count(stays)\nrelease four = total(there, 4 steps)\n")
    text = text.replace("target", "release so_far = prefix(there)\nrelease last = window(there, 3 steps)\ntarget", 1)
    text += f'participation at_most(48 steps, per_step = 2, assumed = "doors")\nobjective {objective}\n'
    plan = planned(tmp_path, text, mechanism=f"{mechanism}()")
    away = papers_rule(mechanism, 6, 2, 1, 48, 0.0)
    so_far = away.cumsum(axis=1)
    last = so_far - np.pad(so_far, ((0, 0), (3, 0), (0, 0)))[:, :48]
    stated = {one.name: one.predicted for one in (*plan.releases, *plan.made)}
    totals = {"so_far": so_far, "last": last, "four": away.reshape(-1, 12, 4).sum(axis=2)}
    for name, found in totals.items():
        predicted = stated[name]
        assert predicted is not None
        assert predicted.kind == "at_least"
        means = (found**2 if objective == "mean_squared_error" else np.abs(found)).reshape(len(found), -1).mean(axis=1)
        chance = np.hypot(means.std() / len(means) ** 0.5, predicted.stderr or 0.0)
        assert abs(means.mean() - predicted.published) < 4 * chance, name
        assert chance < 0.06 * predicted.published


def papers_rule(name: str, window: int, moved: float, cells: int, steps: int, step: float) -> Array:
    """How far off values of KPXP14 are, (runs, steps, cells), at epsilon 1; they are far from 0, and grow by `step`."""
    generator, runs = np.random.default_rng(5), 4000
    spent, last, away = np.zeros((runs, steps)), np.zeros((runs, cells)), np.empty((runs, steps, cells))
    skipped, since = np.zeros(runs), np.ones(runs)  # steps that are still given up, and those whose share is at hand
    for t in range(steps):
        true = 1e7 * moved + step * t
        distance = np.abs(true - last).sum(axis=1) + generator.laplace(scale=2 * window * moved, size=runs)
        if name == "budget_distribution":
            budget = (0.5 - spent[:, max(0, t - window + 1) : t].sum(axis=1)) / 2
        else:
            budget = np.where(skipped > 0, 0, np.minimum(since, window)) / (2 * window)
        with np.errstate(divide="ignore"):
            scale = moved / budget
        publish = (distance > scale * cells) & (budget > 1e-9)
        noise = generator.laplace(size=(runs, cells)) * np.where(publish, scale, 0)[:, None]
        last = np.where(publish[:, None], true + noise, last)
        spent[:, t] = np.where(publish, budget, 0)
        idle = skipped > 0
        skipped = np.where(publish, np.minimum(since, window) - 1, np.maximum(skipped - 1, 0))
        since = np.where(publish | idle, 1, since + 1)
        away[:, t] = last - true
    return away


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
