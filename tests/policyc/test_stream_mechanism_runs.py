"""Policies that name a mechanism of the sources compile, run on simulated events, and verify."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit import verify_directory
from policyc_check.errors import KernelError
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.refusal import verify
from policyc_runtime.release import release

DAYS = 365


class Repeatable(SimulationRandomness):
    """The same draws in every run of the tests, which the ledger takes for the system's."""

    is_release = True


def with_signal(gallery: Path, signal: str) -> str:
    """The gallery's policy with another signal."""
    text = (gallery / "bikeshare.policy").read_text()
    found = re.sub(r"signal ar1\(.*?\n\)", f"signal {signal}", text, flags=re.DOTALL)
    assert found != text
    return found


@pytest.fixture(scope="module")
def rides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A year of rentals, about 80 a day, more in summer: a file, and how many there are each day."""
    generator = np.random.default_rng(11)
    counts = generator.poisson(80 + 50 * np.sin(np.arange(DAYS) / DAYS * np.pi))
    lines = ["rider_id,started_at"]
    for day, count in enumerate(counts):
        moment = date(2011, 1, 1) + timedelta(days=day)
        lines += [f"r{rider},{moment}T08:15:00" for rider in generator.choice(400, count, replace=False)]
    path = tmp_path_factory.mktemp("rides") / "rides.csv.gz"
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return path, counts


@pytest.mark.law
def test_bikeshare_runs_on_simulated_rentals(gallery, compiled_gallery, rides, tmp_path):
    """The gallery's policy has the weight that suits its signal, publishes a year, and ledger and files verify."""
    path, counts = rides
    found = compiled_gallery("bikeshare")
    assert all(claim.holds for claim in verify_directory(found.save(tmp_path / "plan")))
    mechanism = found.plan.releases[0].mechanism
    assert mechanism.described() == "lmmse(weight 1)"
    done = release(found.plan, path, tmp_path / "l", output=tmp_path / "o.csv", randomness=Repeatable(1), pin=None)
    assert done.released.shape == (DAYS, 1)
    assert all(claim.holds for claim in ledger_claims(found.plan, tmp_path / "l"))
    error = float(((done.noisy[:, 0] - counts) ** 2).mean())
    assert error < 1.5 * found.plan.releases[0].predicted.published


def test_less_noise_than_the_promise_needs_is_refused(compiled_gallery):
    """A plan whose stated noise is smaller by a billionth does not verify."""
    plan = compiled_gallery("bikeshare").plan
    (part,) = plan.releases
    weaker = part.model_copy(update={"mechanism": part.mechanism.with_noise(1 - 1e-9)})
    with pytest.raises(KernelError):
        verify(plan.model_copy(update={"releases": (weaker,)}).sealed())


@pytest.mark.law
def test_a_declared_signal_reaches_the_mechanism(gallery, tmp_path):
    """With a declared AR(1) process the plan states it, and an error that is meant for it."""
    place = tmp_path / "declared.policy"
    place.write_text(with_signal(gallery, "ar1(mean = 3405, sd = 1380, autocorrelation = 0.9)"))
    plan = compile_policy(place).plan
    signal = plan.releases[0].mechanism.signal
    assert (signal.mean, signal.sd) == (3405, 1380)
    assert "the declared signal" in plan.releases[0].predicted.method


@pytest.mark.law
@pytest.mark.parametrize(
    ("mechanism", "deliver"),
    [
        ("binomial()", "realtime"),
        ("common_noise()", "realtime"),
        ("fast(samples = 40)", "realtime"),
        ("lmmse(weight = 0.5, noise = binomial)", "realtime"),
        ("dft(coefficients = 20, noise = laplace)", "offline"),
        ("dft(coefficients = 20)", "offline"),
        ("dft(choose = true)", "within(13 steps)"),
    ],
)
def test_other_mechanisms_of_the_sources_run_on_the_same_rentals(gallery, rides, tmp_path, mechanism, deliver):
    """Named in the policy they are planned, publish a year, and plan and ledger verify."""
    path, counts = rides
    text = with_signal(gallery, "ar1(learned = true)").replace("lmmse()", mechanism)
    place = tmp_path / "other.policy"
    place.write_text(text.replace("deliver   realtime", f"deliver {deliver}"))
    plan = compile_policy(place).plan
    verify(plan)
    done = release(plan, path, tmp_path / "l", output=tmp_path / "o.csv", randomness=Repeatable(2), pin=None)
    assert done.noisy.shape == (DAYS, 1)
    assert all(claim.holds for claim in ledger_claims(plan, tmp_path / "l"))
    assert float(np.abs(done.noisy[:, 0] - counts).mean()) < 300


@pytest.mark.law
def test_a_binomial_process_is_declared_by_its_users(gallery, tmp_path):
    """300 of 1,200 users on average: a variance of 300 (1 - 1/4), which the mechanism predicts by."""
    text = with_signal(gallery, "binomial_ar1(mean = 300, autocorrelation = 0.9)")
    place = tmp_path / "binomial.policy"
    place.write_text(text.replace("  horizon  365 steps", "  horizon  365 steps\n  population 1_200"))
    signal = compile_policy(place).plan.releases[0].mechanism.signal
    assert (signal.mean, signal.autocorrelation) == (300, Decimal("0.9"))
    assert signal.sd == Decimal(225).sqrt()


@pytest.mark.law
def test_speeds_run_on_passages_and_their_sums_add_up(compiled_gallery, tmp_path):
    """A clamped sum, a count and its running total of one morning: the bound is enforced, files and ledger verify."""
    generator = np.random.default_rng(4)
    lines = ["plate,seen_at,speed"]
    for minute in range(90):
        for plate in generator.choice(60, 8, replace=False):
            lines.append(f"p{plate},2026-03-02T{minute // 60:02}:{minute % 60:02}:30,{generator.normal(95, 40):.1f}")
    (tmp_path / "passages.csv").write_text("\n".join(lines) + "\n")
    found = compiled_gallery("speeds")
    assert all(claim.holds for claim in verify_directory(found.save(tmp_path / "plan")))
    done = release(found.plan, tmp_path / "passages.csv", tmp_path / "l", steps=90, output=tmp_path / "o.csv", pin=None)
    assert {name: series.released.shape for name, series in done.series.items()} == dict.fromkeys(
        ("speed", "cars", "so_far"), (90, 1)
    )
    assert (done.series["cars"].released >= 0).all()
    assert all(claim.holds for claim in ledger_claims(found.plan, tmp_path / "l"))


@pytest.mark.law
def test_checkins_are_published_once_the_week_is_over(compiled_gallery, tmp_path):
    """A tenth of the steps is measured, all have a value, and nothing is released before the last step."""
    generator = np.random.default_rng(6)
    start, lines = datetime(2026, 1, 5, tzinfo=UTC), ["visitor_id,arrived_at"]
    for visitor in range(300):
        for step in generator.choice(1800, 100, replace=False).tolist():
            lines.append(f"v{visitor},{start + timedelta(minutes=5 * step):%Y-%m-%dT%H:%M:%S}")
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    plan = compiled_gallery("checkins").plan
    with pytest.raises(KernelError, match="nothing can be released"):
        release(plan, tmp_path / "visits.csv", tmp_path / "l", steps=900, randomness=Repeatable(3), pin=None)
    done = release(plan, tmp_path / "visits.csv", tmp_path / "l", steps=1800, randomness=Repeatable(3), pin=None)
    (series,) = done.series.values()
    measured = int((~series.skipped).sum())
    assert 100 < measured < 280
    noise = float(plan.releases[0].mechanism.stddev) / measured**0.5
    assert abs(float(series.released.mean()) - 300 * 100 / 1800) < 5 * noise
    assert all(claim.holds for claim in ledger_claims(plan, tmp_path / "l"))
