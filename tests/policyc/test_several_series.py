"""Several releases: errors are those of shares of the promise, and one signal is not believed of several series."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.cli import app
from policyc.cli.exit import guarded
from policyc.pipeline import declared_signal
from policyc_runtime.estimation.plain_series import SeriesFilter, SeriesSmoother
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan

POLICY = """
policy gates "people at a gate"
stream passages {{
  user ticket
  time at
  step 1h
  horizon 24 steps
  population 4000
  start "2026-01-01"
}}
release there = count(passages)
release {other}
target user_level(epsilon = 2.0, delta = 1e-4, neighbors = add_remove)
participation at_most(4 steps, assumed = "tickets")
signal {signal}
{rest}
"""
AR1 = 'ar1(mean = 200, sd = 20, autocorrelation = 0.7, evidence = "last year")'


def planned(folder: Path, other: str, signal: str, rest: str) -> tuple[Plan, Path]:
    path = folder / "gates.policy"
    path.write_text(POLICY.format(other=other, signal=signal, rest=rest))
    return compile_policy(path).plan, path


@pytest.mark.law
@pytest.mark.parametrize(
    ("mechanism", "estimate"),
    [("toeplitz()", "filter()"), ("toeplitz()", "mle()"), ("binary_tree()", "smoother()"), ("binary_tree()", "mle()")],
)
def test_a_series_beside_its_measured_total_errs_as_stated(mechanism: str, estimate: str, tmp_path: Path) -> None:
    """Both are measured and share the promise: each has more noise than alone, and its stated error is that."""
    deliver = "deliver offline" if mechanism == "binary_tree()" else "deliver realtime"
    rest = f"mechanism {mechanism}\nestimate {estimate}\n{deliver}"
    plan, path = planned(tmp_path, "so_far = prefix(there)", AR1, rest)
    assert [release.mechanism.name for release in plan.releases].count("derived") == 0
    found = simulate(plan, 3, 40, (), signal=declared_signal(path, plan))
    for error in (error for error in found.errors if error.chosen):
        predicted = plan.release_named(error.release).predicted
        allowed = 4 * np.hypot(error.mean_squared_error_stderr, predicted.stderr or 0.0)
        assert predicted.kind in ("expected", "simulated")
        assert error.mean_squared_error == pytest.approx(predicted.published, rel=0.05, abs=allowed)


@pytest.mark.parametrize("mechanism", ["auto", "lmmse()"])
def test_a_signal_is_not_believed_of_several_series(mechanism: str, tmp_path: Path) -> None:
    """Of a count and a sum neither is pulled to the declared mean: how they move is learned, but for the period."""
    signal = AR1.replace("ar1(", "seasonal_ar1(period = 6 steps, seasonal_sd = 9, ").replace(" sd =", " residual_sd =")
    plan, _ = planned(
        tmp_path, "spent = sum(passages.euros, clamp = 0 .. 50)", signal, f"mechanism {mechanism}\ndeliver realtime"
    )
    assert any(notice.code == "W0703" for notice in plan.notices)
    assert plan.signal is not None
    assert (plan.signal.period, plan.signal.mean, plan.signal.autocorrelation) == (6, None, None)
    for release in plan.releases:
        assert getattr(release.mechanism, "signal", None) is None
        if isinstance(release.estimator, SeriesFilter | SeriesSmoother) and release.estimator.signal is not None:
            assert release.estimator.signal.mean is None


@pytest.mark.law
def test_such_a_plan_is_that_of_its_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is taken of the signal is what the stored policy says when it is resolved again: it runs and verifies."""
    _, path = planned(tmp_path, "spent = sum(passages.euros, clamp = 0 .. 50)", AR1, "deliver realtime")
    rows = [f"t{n},2026-01-01T{n % 24:02d}:00:00,7" for n in range(480)]
    (tmp_path / "in.csv").write_text("\n".join(["ticket,at,euros", *rows]) + "\n")
    plan, out = tmp_path / "plan", tmp_path / "out.csv"
    commands = [
        ("compile", path, "-o", plan),
        ("run", plan, "--input", tmp_path / "in.csv", "--output", out),
        ("verify", plan, "--release", out),
    ]
    for command in commands:
        code = guarded(lambda words=command: app([str(word) for word in words], standalone_mode=True))
        assert code == 0, capsys.readouterr()


@pytest.mark.law
@pytest.mark.parametrize("objective", ["mean_absolute_error", "mean_squared_error"])
def test_mechanisms_are_chosen_beside_each_other(objective, tmp_path):
    """Alone a clamped sum takes Laplace noise; sixteen, whose losses add up, err less with Gaussian noise."""

    def planned(count: int, mechanism: str = ""):
        sums = "\n".join(f"release r{n} = sum(seen.v{n}, clamp = 0 .. 1)" for n in range(count))
        (tmp_path / "sums.policy").write_text(
            f"""policy sums "Several sums"
stream seen {{
  user person
  time at
  step 1d
  horizon 5 steps
  start "2026-01-01"
}}
{sums}
target user_level(epsilon = 2.19, delta = 1e-5, neighbors = add_remove, per = 1d)
participation at_most(1 steps, per = 1d, enforced = keep_first)
{mechanism}
estimate none()
deliver realtime
objective {objective}
"""
        )
        return compile_policy(tmp_path / "sums.policy").plan

    assert planned(1).releases[0].mechanism.name == "laplace"
    several, laplace = planned(16), planned(16, "mechanism laplace()")
    assert {part.mechanism.name for part in several.releases} == {"gaussian"}
    errors = [sum(part.predicted.published for part in plan.releases) for plan in (several, laplace)]
    assert errors[0] < errors[1]
    told = [candidate.reason for candidate in several.releases[0].candidates if candidate.mechanism == "laplace"]
    assert told == [f"all releases together would have {errors[1] / errors[0]:.3g} times the error, in units of a user"]
