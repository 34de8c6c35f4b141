"""The choice of mechanism and estimator for a series: tried on the signal alone, and right about it."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from policyc import compile_policy
from policyc.diagnostics import PolicyError
from policyc.offers import calibrate
from policyc.planning.courses import Courses
from policyc.planning.measurements import Measurement
from policyc.planning.trials import Trial, controlled
from policyc_check.users.participation import Participation
from policyc_check.verify import verified_claims
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.plain_series import SeriesFilter
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel, drawn_series
from policyc_runtime.mechanisms import Setting
from policyc_runtime.mechanisms.gaussian import Gaussian
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release

POLICY = """
policy visits "visitors"
stream seen {{
  user person
  time at
  step 1d
  horizon {horizon} steps
  start "2026-01-01"
}}
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most({bound} steps, assumed = "tickets")
{signal}
deliver {deliver}
objective mean_absolute_error
{end}
"""
SLOW = 'signal ar1(mean = 900, sd = 100, autocorrelation = 0.99, evidence = "e")'
SEASON = (
    "signal seasonal_ar1(period = 7 steps, mean = 900, seasonal_sd = 150, residual_sd = 40, autocorrelation = 0.4, "
    'evidence = "e")'
)


@pytest.fixture
def plan_of(tmp_path):
    def make(**changes):
        words = {"horizon": 120, "bound": 60, "signal": "", "deliver": "realtime", "end": ""}
        path = tmp_path / "visits.policy"
        path.write_text(POLICY.format(**(words | changes)))
        plan = compile_policy(path).plan
        assert all(claim.holds for claim in verified_claims(plan))
        return plan

    return make


def test_without_a_signal_the_least_noise_is_filtered_and_the_plan_says_so(plan_of):
    """With the filter under realtime, the smoother offline; reasons say that nothing was tried.

    Where users may be in a fourth of all steps, that is noise with a part in common; else plain Gaussian noise.
    """
    for deliver, estimator in (("realtime", "series_filter"), ("offline", "series_smoother")):
        for bound, mechanism in ((60, "common_noise"), (25, "gaussian")):
            part = plan_of(deliver=deliver, bound=bound).releases[0]
            assert (part.mechanism.name, part.estimator.name) == (mechanism, estimator)
        assert "nothing was tried" in part.candidates[0].reason
        assert "no signal" in part.predicted.method
        assert all(row.reason for row in part.candidates)


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("signal", [SLOW, SEASON])
def test_a_declared_signal_is_tried_and_the_best_is_taken(plan_of, signal):
    """The chosen pair is within a tie of the least error, below that of the noise, and all others are listed."""
    for deliver in ("realtime", "offline"):
        part = plan_of(signal=signal, deliver=deliver).releases[0]
        errors = [row.predicted_error for row in part.candidates if row.predicted_error is not None]
        assert part.candidates[0].chosen
        assert part.predicted.published == errors[0] <= 1.03 * min(errors)
        assert part.predicted.published < part.predicted.without_postprocessing
        assert {"laplace", "gaussian"} <= {row.mechanism.split("(")[0] for row in part.candidates}


@pytest.mark.law
@pytest.mark.parametrize("mechanism", ["auto", "lmmse()"])
@pytest.mark.parametrize("signal", [SLOW, "signal ar1(mean = 900, sd = 300, autocorrelation = 0.8)"])
def test_words_about_candidates_agree_with_their_numbers(plan_of, mechanism, signal):
    """The one called lowest is, and whatever has less error than the one chosen is called a tie within 3 %."""
    part = plan_of(signal=signal, end=f"mechanism {mechanism}").releases[0]
    chosen, *others = part.candidates
    errors = [row.predicted_error for row in others if row.predicted_error is not None]
    assert chosen.predicted_error == part.predicted.published
    assert (chosen.reason == "lowest predicted error") == (min(errors) >= chosen.predicted_error / 1.0005)
    for row in others:
        if row.predicted_error is not None and row.predicted_error < chosen.predicted_error / 1.0005:
            assert row.reason.endswith("less error than the one chosen: a tie")
            assert row.predicted_error > chosen.predicted_error / 1.03


@pytest.mark.law
def test_pairs_are_told_apart_on_the_same_courses():
    """The difference of two pairs over common courses is far less left to chance than each of the two errors."""
    process = SeriesProcess(mean=900.0, residual_stddev=300.0, autocorrelation=0.8)
    setting = Setting(Participation(60, 120), replaced=False, cells=1, wait=0)
    models = [
        SignalModel(mean=Decimal(900), residual_stddev=Decimal(300), autocorrelation=Decimal(known))
        for known in ("0.8", "0.7")
    ]
    given = Courses(lambda n: drawn_series(process, 120, np.random.default_rng(n), 0.0), models[0], None, 0.0, "")
    entry = Measurement(calibrate(Gaussian, setting, Decimal(1), Decimal("1e-6"), {}), setting, Decimal(1))
    free = ConstraintSet((), 1, integer=False)
    one, other = (Trial(entry, SeriesFilter(signal=known), free, "mean_squared_error", given) for known in models)
    found = other.beyond(one, 96)
    assert found.error > 3 * found.stderr > 0
    assert found.stderr < 0.3 * math.hypot(one.run(96).stderr, other.run(96).stderr)
    many = other.beyond(one, 192)
    assert found.error == pytest.approx(many.error, abs=4 * found.stderr)


@pytest.mark.law
def test_the_predicted_error_is_that_of_a_run(plan_of, tmp_path):
    """Counts drawn from the declared signal, released: the error is about the predicted one."""
    plan = plan_of(signal=SLOW, deliver="offline", horizon=300)
    rng, errors = np.random.default_rng(1), []
    for turn in range(6):
        x = np.zeros(300)
        for t in range(300):
            x[t] = (
                100 * rng.standard_normal() if t == 0 else 0.99 * x[t - 1] + 100 * 0.0199**0.5 * rng.standard_normal()
            )
        counts = np.rint(900 + x).astype(np.int64)[:, None]
        done = release(plan, counts, tmp_path / f"l{turn}", randomness=SimulationRandomness(turn), pin=None)
        errors.append(np.abs(done.series["there"].released - counts).mean())
    assert np.mean(errors) == pytest.approx(plan.releases[0].predicted.published, rel=0.25)


def test_noise_that_was_drawn_too_large_is_no_reason_against_a_mechanism():
    """Errors that go with the noise are taken as if it had its expected size: twice as near to the true mean.

    The standard error is that of what is left: the truth is within two of them as often as it should be.
    """
    rng, plain, corrected, within = np.random.default_rng(5), [], [], []
    truth = (2 / np.pi) ** 0.5
    for _ in range(200):
        noise = rng.standard_normal((40, 25))
        plain.append(np.abs(noise).mean())
        found = controlled(np.abs(noise).mean(axis=1), (noise**2 - 1).mean(axis=1)[:, None])
        corrected.append(found.error)
        within.append(abs(found.error - truth) <= 2 * found.stderr)
    assert np.std(corrected) < 0.5 * np.std(plain)
    assert np.mean(corrected) == pytest.approx(truth, rel=0.005)
    assert 0.88 < np.mean(within) < 0.99


@pytest.mark.law
def test_planning_needs_no_protected_data_and_is_the_same_each_time(plan_of, tmp_path):
    """With nothing but the policy in its folder, plans are made, twice the same to the digit."""
    first, second = (plan_of(signal=SEASON) for _ in range(2))
    assert {path.name for path in tmp_path.iterdir()} == {"visits.policy"}
    assert first.digest == second.digest


@pytest.mark.law
def test_a_public_pilot_series_is_tried(plan_of, tmp_path):
    """A file of last year's numbers, one a line, with a line of names; what is no series is refused."""
    series = 500 + 80 * np.sin(np.arange(200) / 9)
    (tmp_path / "last.csv").write_text("day,count\n" + "\n".join(f"{d},{v:.1f}" for d, v in enumerate(series)))
    part = plan_of(signal='signal pilot(file("last.csv"), evidence = "e")', deliver="offline").releases[0]
    assert "pilot" in part.predicted.method
    assert part.predicted.published < part.predicted.without_postprocessing
    (tmp_path / "last.csv").write_text("day,count\n1,two\n")
    with pytest.raises(PolicyError) as refused:
        plan_of(signal='signal pilot(file("last.csv"), evidence = "e")')
    assert "no series of numbers" in str(refused.value) or "E0212" in [f.code for f in refused.value.findings]


def test_what_the_policy_names_is_used(plan_of):
    """Estimators and mechanisms by name; a filter where values wait for all is refused."""
    assert plan_of(end="estimate none()").releases[0].estimator.name == "none"
    assert plan_of(end="estimate filter()").releases[0].estimator.name == "series_filter"
    both = plan_of(end="mechanism subsample(rate = 0.2, sampling = stratified)\nestimate linear()", deliver="offline")
    assert (both.releases[0].mechanism.name, both.releases[0].estimator.name) == ("subsample", "linear")
    part = plan_of(end="estimate smoother(observation_noise = true)", deliver="offline").releases[0]
    assert part.estimator.observation_noise
    with pytest.raises(PolicyError):
        plan_of(end="estimate filter()", deliver="offline")


def test_the_signal_under_observation_noise_is_published_where_the_policy_says_there_is_some(plan_of):
    """`auto` then takes filter and smoother that learn it; of unknown noise nothing can be simulated."""
    for kind in ("ar1(learned = true", "seasonal_ar1(period = 7 steps, mean = 900"):
        signal = f'signal {kind}, observation_noise = true, evidence = "e")'
        part = plan_of(signal=signal).releases[0]
        assert part.estimator.signal.observation_noise
        assert "nothing was tried" in part.candidates[0].reason
        assert plan_of(signal=signal, deliver="offline").releases[0].estimator.observation_noise


def test_steps_that_were_not_measured_are_published(plan_of, tmp_path):
    """Subsampled and smoothed: every step has a value, near the truth, and a second run draws nothing."""
    for wish in ("subsample(rate = 0.2)", "filter_subsample(rate = 0.2)"):
        plan = plan_of(end=f"mechanism {wish}", deliver="offline", bound=4)
        counts = np.rint(900 + 100 * np.sin(np.arange(120) / 15)).astype(np.int64)[:, None]
        ledger = tmp_path / wish.split("(")[0]
        done = release(plan, counts, ledger, randomness=SimulationRandomness(3), pin=None)
        assert np.abs(done.series["there"].released - counts).mean() < 30
        assert 10 < done.series["there"].skipped.sum() < 115
        again = release(plan, counts, ledger, randomness=SimulationRandomness(4), pin=None)
        assert (again.series["there"].released == done.series["there"].released).all()
