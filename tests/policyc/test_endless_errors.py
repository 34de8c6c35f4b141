"""What is said of the errors of an endless stream is so over the steps that it is said of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit.certificate import render_markdown
from policyc.emit.context import certificate_content
from policyc.emit.summary import render_summary
from policyc.pipeline import declared_signal
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan

POLICY = """
policy gates "people at a gate"
stream passages {{
  user ticket
  time at
  step 1h
  horizon unbounded
  start "2026-01-01"
}}
release base = count(passages)
release so_far = prefix(base)
release lately = window(base, 4 steps)
target user_level(epsilon = 2.0, delta = 1e-4, neighbors = replace)
participation at_most(4 steps, assumed = "tickets")
signal ar1(mean = 200, sd = 10, autocorrelation = 0.7, evidence = "last year")
mechanism {mechanism}
deliver within(3 steps)
objective {objective}
"""
RUNS = 24


def planned(folder: Path, mechanism: str, objective: str) -> tuple[Plan, Path]:
    path = folder / "gates.policy"
    path.write_text(POLICY.format(mechanism=mechanism, objective=objective))
    return compile_policy(path).plan, path


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize(
    ("mechanism", "objective"),
    [
        ("auto", "mean_absolute_error"),
        ("dft(coefficients = 2)", "mean_squared_error"),
        ("laplace()", "mean_squared_error"),
    ],
)
def test_errors_are_those_of_the_first_thousand_steps(mechanism: str, objective: str, tmp_path: Path) -> None:
    """Totals of all steps so far err more and more: published and noisy values are held against runs of 1,000 steps."""
    plan, path = planned(tmp_path, mechanism, objective)
    found = simulate(plan, 7, RUNS, (), steps=1000, signal=declared_signal(path, plan))
    for error in (error for error in found.errors if error.chosen):
        predicted = plan.release_named(error.release).predicted
        mean, stderr = error.mean_squared_error, error.mean_squared_error_stderr
        if objective == "mean_absolute_error":
            mean, stderr = error.mean_absolute_error, error.mean_absolute_error_stderr
        assert predicted.kind in ("expected", "simulated")
        assert mean == pytest.approx(predicted.published, rel=0.05, abs=4 * np.hypot(stderr, predicted.stderr or 0.0))
    total = plan.release_named("so_far")
    errors = total.errors(1000)
    assert errors[-1] > errors[0] or total.predicted.kind == "simulated"
    assert total.errors(1500)[-1] == errors[-1]


def test_the_noise_of_a_running_total_is_that_of_many_steps(tmp_path: Path) -> None:
    """Noise of variance v at every step makes one of t v at step t, (t + 1) / 2 v on average."""
    plan, _ = planned(tmp_path, "gaussian()", "mean_squared_error")
    base, total = plan.release_named("base").predicted, plan.release_named("so_far").predicted
    assert total.without_postprocessing == pytest.approx(base.without_postprocessing * 1001 / 2, rel=1e-9)


def test_pages_say_of_which_steps_errors_are(tmp_path: Path) -> None:
    """The certificate and the summary: the first 1,000 steps, and that those of a running total grow."""
    plan, path = planned(tmp_path, "gaussian()", "mean_absolute_error")
    page = re.sub(r"\s+", " ", render_markdown(certificate_content(plan, {})))
    words = "Errors are means over the first 1,000 steps of the endless stream"
    assert page.count(f"{words}.") == 2
    assert page.count(f"{words}; those of a running total grow with the number of steps.") == 1
    low, high = re.findall(r"([\d.,]+) to ([\d.,]+) over the first 1,000 steps", page)[0]
    assert float(high.replace(",", "")) == pytest.approx(1000**0.5 * float(low), rel=0.01)
    assert "over the first 1,000 steps)" in render_summary(plan, path.parent)
