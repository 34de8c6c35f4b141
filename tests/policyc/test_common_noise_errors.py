"""What a page says of values with noise in common: what simulated streams have, and what a run has in pieces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from prompt import policyc
from scipy.fft import dct

from policyc import compile_policy
from policyc_runtime.estimation import series_filter
from policyc_runtime.estimation.series_filter import fixed_lag_means, fixed_lag_variances, smoothed_means
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel
from policyc_runtime.estimation.spectrum import _of_coefficients, posterior_means, smoothed
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.noisy_values import common_stddevs, noise_stddevs, own_stddevs
from policyc_runtime.offset import NO_OFFSET, Offset
from policyc_runtime.refusal import verify


def causal_means(model, values, *others):
    """Of one series."""
    return series_filter.causal_means(model, values[:, None], *others)[:, 0]


POLICY = """policy rides "rides"
stream trips {{ user rider  time started  step 1d  horizon {steps} steps  start "2026-01-05" }}
release rides = count(trips)
{more}
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most({bound} steps, assumed = "once a day")
{signal}
deliver {deliver}
objective {objective}
mechanism common_noise({weight})
estimate {estimate}
"""
AR1 = 'signal ar1(mean = 900, sd = 40, autocorrelation = 0.4, evidence = "e")'
NO_MEAN = 'signal ar1(sd = 40, autocorrelation = 0.7, evidence = "e")'
SLOW = 'signal ar1(mean = 900, sd = 40, autocorrelation = 0.98, evidence = "e")'
SEASON = (
    "signal seasonal_ar1(period = 7 steps, mean = 900, seasonal_sd = 60, residual_sd = 30, autocorrelation = 0.5, "
    'evidence = "e")'
)


DAILY = POLICY.replace("step 1d  horizon {steps} steps", "step 3h  horizon {steps}").replace("1e-6,", "1e-6, per = 1d,")
DAILY = DAILY.replace("at_most({bound} steps", "at_most({bound} steps, per = 1d")


def planned(folder: Path, text: str = POLICY, **words: object):
    given = {
        "steps": 120,
        "bound": 120,
        "signal": AR1,
        "deliver": "realtime",
        "objective": "mean_squared_error",
        "weight": "",
        "estimate": "auto",
        "more": "",
    } | words
    path = folder / "rides.policy"
    path.write_text(text.format(**given), encoding="utf-8")
    return compile_policy(path).plan


@pytest.mark.sampled(1, laws=4)
@pytest.mark.parametrize("signal", [AR1, SLOW, SEASON], ids=["ar1", "slow", "season"])
@pytest.mark.parametrize(
    ("deliver", "estimate"),
    [("realtime", "mle()"), ("realtime", "filter()"), ("within(4 steps)", "filter()"), ("offline", "smoother()")],
)
@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
def test_stated_errors_are_those_of_simulated_streams(
    tmp_path: Path, signal: str, deliver: str, estimate: str, objective: str
) -> None:
    """Within four standard errors of 100 streams; each has one common draw, so that fewer tell little."""
    plan = planned(tmp_path, signal=signal, deliver=deliver, estimate=estimate, objective=objective)
    verify(plan)
    (release,) = plan.releases
    assert release.mechanism.name == "common_noise"
    process = {
        AR1: SeriesProcess(40, 0.4, mean=900),
        SLOW: SeriesProcess(40, 0.98, mean=900),
        SEASON: SeriesProcess(30, 0.5, seasonal_stddev=60, period=7, mean=900),
    }[signal]
    found = next(one for one in simulate(plan, 100, 100, (), signal=process).errors if one.chosen)
    squared = objective == "mean_squared_error"
    mean = found.mean_squared_error if squared else found.mean_absolute_error
    stderr = found.mean_squared_error_stderr if squared else found.mean_absolute_error_stderr
    assert abs(mean - release.predicted.published) <= 4 * np.hypot(stderr, release.predicted.stderr or 0) + 0.005 * mean


@pytest.mark.sampled(2, laws=4)
@pytest.mark.parametrize("signal", [AR1, SLOW, SEASON, NO_MEAN], ids=["ar1", "slow", "season", "no mean"])
@pytest.mark.parametrize(
    ("deliver", "estimate", "steps"),
    [
        ("realtime", "mle()", "120 steps"),
        ("realtime", "filter()", "120 steps"),
        ("realtime", "filter()", "unbounded"),
        ("within(3 steps)", "filter()", "unbounded"),
        ("within(4 steps)", "filter()", "123 steps"),
        ("offline", "smoother()", "120 steps"),
        ("offline", "smoother()", "61 steps"),
    ],
)
def test_stated_errors_of_days_are_those_of_simulated_streams(
    tmp_path: Path, signal: str, deliver: str, estimate: str, steps: str
) -> None:
    """Of eight steps a day, with a draw for each day: within 2 %, and within four standard errors of many streams."""
    plan = planned(tmp_path, DAILY, signal=signal, deliver=deliver, estimate=estimate, steps=steps, bound=8)
    verify(plan)
    (release,) = plan.releases
    assert release.mechanism.common_steps == 8
    assert release.predicted.kind == "expected"
    process = {
        AR1: SeriesProcess(40, 0.4, mean=900),
        SLOW: SeriesProcess(40, 0.98, mean=900),
        SEASON: SeriesProcess(30, 0.5, seasonal_stddev=60, period=7, mean=900),
        NO_MEAN: SeriesProcess(40, 0.7, mean=900),
    }[signal]
    runs, length = (20, 400) if steps == "unbounded" else (80, int(steps.split()[0]))
    found = next(one for one in simulate(plan, 100, runs, (), steps=length, signal=process).errors if one.chosen)
    mean, stderr = found.mean_squared_error, found.mean_squared_error_stderr
    assert abs(mean - release.predicted.published) <= 4 * stderr + 0.005 * mean
    assert abs(mean - release.predicted.published) <= 2.5 * stderr + 0.02 * mean


@pytest.mark.parametrize("delay", [0, 3, None])
@pytest.mark.parametrize("period", [0, 5])
@pytest.mark.parametrize(("shared", "mean"), [(None, 300), (4, 300), (7, 300), (6, None), (1, 300)])
def test_filters_know_the_common_part(delay: int | None, period: int, shared: int | None, mean: int | None) -> None:
    """Means and variances are those of the joint normal law, with the offset of all or of a period hidden; by matrices.

    A mean of which nothing is known is one of a standard deviation that is large beside all else.
    """
    process = SeriesProcess(20, 0.8, seasonal_stddev=15 if period else 0, period=period, mean=mean)
    steps, own, offset = 30, 50.0, Offset(12.0, shared)
    K = process.covariances(steps)[np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))]
    K = K + (0.0 if mean is not None else 1e6)
    blocks = np.arange(steps) // (shared or steps)
    S = K + own * np.eye(steps) + 12.0**2 * np.equal.outer(blocks, blocks)
    y = 300 + np.linalg.cholesky(S) @ np.random.default_rng(4).standard_normal(steps)
    variances, means, left = np.full(steps, own), np.empty(steps), np.empty(steps)
    for t in range(steps):
        seen = steps if delay is None else min(steps, t + delay + 1)
        gain = np.linalg.solve(S[:seen, :seen], K[:seen, t])
        means[t], left[t] = 300 + gain @ (y[:seen] - 300), K[t, t] - gain @ K[:seen, t]
    if delay is None:
        found = smoothed_means(process, y, variances, offset)
    else:
        found = fixed_lag_means(process, y, variances, delay, offset)
    near = 1e-8 if mean is not None else 3e-3
    assert found == pytest.approx(means, rel=near)
    assert fixed_lag_variances(process, variances, delay, offset) == pytest.approx(left, rel=10 * near)


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("steps", [48, 50])
def test_a_smoother_that_learns_knows_what_periods_have_in_common(steps: int, gap: bool) -> None:
    """Given the spectrum, its means are those of the joint normal law, by matrices; and so are the cosine variances."""
    offset, spectrum = Offset(9.0, 6), 4000.0 / np.arange(1, steps) ** 2
    cosines = dct(np.eye(steps), axis=0, norm="ortho")
    blocks = np.arange(steps) // 6
    shared = 81.0 * np.equal.outer(blocks, blocks)
    assert _of_coefficients(offset, steps) == pytest.approx(np.diag(cosines @ shared @ cosines.T)[1:], abs=1e-9)
    variances = np.linspace(20, 30, steps)
    drawn = cosines.T @ np.diag(np.append(0.0, spectrum)) @ cosines + shared + np.diag(variances)
    y = 50 + np.linalg.cholesky(drawn) @ np.random.default_rng(3).standard_normal(steps)
    y[7 : 7 + 5 * gap] = np.nan
    given = np.isfinite(y)
    unknown = 1e6 * (np.var(y[given]) + variances[given].mean())
    K = cosines.T @ np.diag(np.append(unknown, spectrum)) @ cosines
    S = (K + shared + np.diag(variances))[np.ix_(given, given)]
    centre = y[given].mean()
    expected = centre + K[:, given] @ np.linalg.solve(S, y[given] - centre)
    assert posterior_means(y, variances, spectrum, offset) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("delay", [0, 4])
def test_a_filter_that_learns_takes_what_a_day_has_in_common_for_noise(delay: int) -> None:
    """Of a slow series that it knows nothing of, it errs as with as much noise of each value's own; less than noise."""
    generator = np.random.default_rng(2)
    true = 900 + np.cumsum(generator.normal(0, 1.5, 480))
    noisy = true + np.repeat(generator.normal(0, 5, 20), 24) + generator.normal(0, 11, 480)
    model, own = SignalModel(), np.full(480, 121.0)
    found = causal_means(model, noisy, own, 0, delay, Offset(5.0, 24))
    assert found.tolist() == causal_means(model, noisy, own + 25.0, 0, delay).tolist()
    assert ((found - true) ** 2)[48:].mean() < 0.5 * 146


def test_a_smoother_lets_days_differ_that_do() -> None:
    """Where days differ by far more than their draws can, no part of it is taken for noise; else it is."""
    generator = np.random.default_rng(3)
    true = 900 + np.repeat(generator.normal(0, 200, 20), 24)
    noisy = true + np.repeat(generator.normal(0, 5, 20), 24) + generator.normal(0, 11, 480)
    known, not_known = (smoothed(noisy, np.full(480, 121.0), offset) for offset in (Offset(5.0, 24), NO_OFFSET))
    slow = 900 + np.cumsum(generator.normal(0, 1.5, 480)) + noisy - true
    assert ((known - true) ** 2).mean() < 1.2 * ((not_known - true) ** 2).mean()
    true = slow - (noisy - true)
    known, not_known = (smoothed(slow, np.full(480, 121.0), offset) for offset in (Offset(5.0, 24), NO_OFFSET))
    assert ((known - true) ** 2).mean() < 0.9 * ((not_known - true) ** 2).mean()


def test_an_unknown_mean_takes_the_offset_with_it() -> None:
    """Nobody can tell them apart: the offset's variance is on top of what is missed without one."""
    process = SeriesProcess(20, 0.8)
    alone = fixed_lag_variances(process, np.full(40, 9.0), 2)
    assert fixed_lag_variances(process, np.full(40, 9.0), 2, Offset(5.0)) == pytest.approx(alone + 25.0)


@pytest.mark.law
def test_totals_keep_what_is_common(tmp_path: Path) -> None:
    """A total of w steps is off by w times the common draw, a running total by t times; own noise adds up as roots."""
    more = "release week = window(rides, 7 steps)\nrelease so_far = prefix(rides)"
    plan = planned(tmp_path, more=more, signal="", estimate="mle()")
    by_name = {release.name: release for release in plan.releases}
    own, common = own_stddevs(plan, by_name["rides"], 30)[0], common_stddevs(plan, by_name["rides"], 30)[0]
    assert common > 0
    if by_name["week"].mechanism.name == "derived":
        assert common_stddevs(plan, by_name["week"], 30)[6:] == pytest.approx(7 * common)
        assert noise_stddevs(plan, by_name["week"], 30)[29] == pytest.approx(np.hypot(7 * common, np.sqrt(7) * own))
    if by_name["so_far"].mechanism.name == "derived":
        assert noise_stddevs(plan, by_name["so_far"], 30)[29] == pytest.approx(np.hypot(30 * common, np.sqrt(30) * own))
    found = {one.release: one for one in simulate(plan, 100, 100, (), steps=120).errors if one.chosen}
    for name, release in by_name.items():
        error = found[name]
        assert abs(error.mean_squared_error - release.predicted.published) <= (
            4 * error.mean_squared_error_stderr + 0.03 * release.predicted.published
        )


@pytest.mark.law
def test_totals_have_the_draws_of_their_days(tmp_path: Path) -> None:
    """A total over days is off by each day's draw as often as it has steps of it; by the variance of simulated ones."""
    more = "release lately = window(rides, 12 steps)\nrelease so_far = prefix(rides)"
    plan = planned(tmp_path, DAILY, more=more, signal="", estimate="mle()", steps="44 steps", bound=8)
    by_name = {release.name: release for release in plan.releases}
    own, common = own_stddevs(plan, by_name["rides"], 30)[0], common_stddevs(plan, by_name["rides"], 30)[0]
    assert by_name["rides"].mechanism.name == "common_noise"
    made = [name for name in ("lately", "so_far") if by_name[name].mechanism.name == "derived"]
    assert made
    if "lately" in made:
        assert common_stddevs(plan, by_name["lately"], 30)[[15, 17, 20]] == pytest.approx(
            common * np.sqrt([8**2 + 4**2, 2**2 + 8**2 + 2**2, 7**2 + 5**2])
        )
    if "so_far" in made:
        assert noise_stddevs(plan, by_name["so_far"], 30)[19] == pytest.approx(
            np.hypot(np.sqrt(8**2 + 8**2 + 4**2) * common, np.sqrt(20) * own)
        )
    found = {one.release: one for one in simulate(plan, 100, 200, (), steps=44).errors if one.chosen}
    for name, release in by_name.items():
        error = found[name]
        assert abs(error.mean_squared_error - release.predicted.published) <= (
            4 * error.mean_squared_error_stderr + 0.03 * release.predicted.published
        )


def test_users_who_are_replaced_or_signs_are_refused_with_what_to_write(tmp_path: Path) -> None:
    """The policy names it where it gains nothing: one message says so."""
    path = tmp_path / "rides.policy"
    text = POLICY.format(
        steps=20, bound=20, signal="", deliver="realtime", objective="mean_squared_error", weight="", estimate="auto",
        more="",
    )  # fmt: skip
    path.write_text(text.replace("add_remove", "replace"))
    done = policyc("compile", path, cwd=tmp_path)
    assert done.returncode == 1
    assert "error[E0755]" in done.stderr
    assert "add_remove" in done.stderr


@pytest.mark.law
def test_a_stream_that_goes_on_needs_nothing_but_its_ledger(tmp_path: Path) -> None:
    """Ten runs of one step each publish what one would, keep what was released, and verify: nothing else is stored."""
    path, data = tmp_path / "rides.policy", tmp_path / "data.csv"
    text = POLICY.format(
        steps=10, bound=10, signal="", deliver="realtime", objective="mean_squared_error", weight="weight = 0.3",
        estimate="mle()", more="",
    )  # fmt: skip
    path.write_text(text)
    rows = [f"u{user},2026-01-{5 + day:02d}T08:00:00Z" for day in range(10) for user in range(20)]
    data.write_text("rider,started\n" + "\n".join(rows) + "\n")
    assert policyc("compile", path, cwd=tmp_path).returncode == 0
    before: list[str] = []
    for steps in range(1, 11):
        done = policyc("run", "rides.plan", "--input", data, "--output", "o.csv", "--steps", steps, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        now = (tmp_path / "o.csv").read_text().splitlines()
        assert now[: len(before)] == before
        before = now
    assert len(before) == 11
    assert policyc("verify", "rides.plan", cwd=tmp_path).returncode == 0
    plan = json.loads((tmp_path / "rides.plan" / "plan.json").read_text())
    assert plan["releases"][0]["mechanism"]["name"] == "common_noise"
