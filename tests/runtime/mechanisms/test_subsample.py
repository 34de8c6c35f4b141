"""Subsampling in time: the reference stddevs, every way to choose steps, and composition with other releases."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import chi2
from stream_settings import run, simulated

from policyc.offers import calibrate
from policyc_check.errors import KernelError
from policyc_check.users.noise import DiscreteGaussian
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms.subsample import Subsample
from policyc_runtime.randomness import uniform_integers

WAYS = ["poisson", "fixed_size", "stratified"]


def setting(steps: int, bound: int, **more: object) -> Setting:
    return Setting(Participation(bound, steps), wait=None, **more)  # type: ignore[arg-type]


def sub(sampling: str, rate: str = "0.25", stddev: str = "5") -> Subsample:
    return Subsample(rate=Decimal(rate), sampling=sampling, stddev=Decimal(stddev))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "delta", "bound", "stddev"),
    [("0.5", "1e-4", 50, 14.87), ("0.5", "1e-5", 200, 33.19), ("1", "1e-5", 200, 17.71)],
)
def test_noise_is_that_of_the_exact_mixture(epsilon, delta, bound, stddev):
    """At rate 0.1, within a per mille of the 40-digit reference, discrete noise included."""
    made = calibrate(Subsample, setting(4000, bound), Decimal(epsilon), Decimal(delta), {"rate": Decimal("0.1")})
    assert float(made.stddev) == pytest.approx(stddev, rel=2e-3)


def test_delta_is_the_mean_over_public_choices():
    """The mixture equals the sum over how many of a user's steps are chosen, case by case."""
    found = sub("poisson").profile(setting(40, 6)).delta(0.7)
    cases = [
        comb(6, m) * 0.25**m * 0.75 ** (6 - m) * DiscreteGaussian(Fraction(25)).alike(m).delta(0.7) for m in range(1, 7)
    ]
    assert found == pytest.approx(sum(cases), rel=1e-8)


@pytest.mark.parametrize("sampling", WAYS)
def test_each_way_chooses_as_it_says(sampling):
    """Poisson: binomial numbers; fixed size: always as many; stratified: one of every block; every step as often."""
    mechanism, where = sub(sampling), setting(22, 3)
    raw = np.full((22, 1), 9, dtype=np.int64)
    shown = np.array([[bool(r) for r in run(mechanism, where, raw, simulated(seed))] for seed in range(800)])
    counts = shown.sum(axis=0)
    expected = np.full(22, 800 * (0.25 if sampling == "poisson" else 6 / 22))
    if sampling == "fixed_size":
        assert (shown.sum(axis=1) == 6).all()
    if sampling == "stratified":
        expected = 800 / np.repeat([4, 4, 4, 4, 4, 2], [4, 4, 4, 4, 4, 2])
        assert all((shown[:, start : start + 4].sum(axis=1) == 1).all() for start in range(0, 22, 4))
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 22) > 1e-4


@pytest.mark.parametrize("sampling", WAYS)
def test_each_way_keeps_the_promise_and_other_ways_have_about_its_noise(sampling):
    """Calibrated noise keeps delta, 1e-9 less does not; the three ways need about the same."""
    where, options = setting(200, 20), {"rate": Decimal("0.1"), "sampling": sampling}
    made = calibrate(Subsample, where, Decimal(1), Decimal("1e-5"), options)
    assert made.profile(where).delta(1.0) <= 1e-5 < made.with_noise(1 - 1e-9).profile(where).delta(1.0)
    poisson = calibrate(Subsample, where, Decimal(1), Decimal("1e-5"), {"rate": Decimal("0.1")})
    assert float(made.stddev) == pytest.approx(float(poisson.stddev), rel=0.15)


@pytest.mark.parametrize("sampling", WAYS)
def test_it_composes_with_other_releases(sampling):
    """Beside another release delta is larger than of either, and at most as if every step were shown."""
    where = setting(40, 6)
    mechanism, other = sub(sampling, stddev="12"), DiscreteGaussian(Fraction(1600)).alike(6)
    together = mechanism.profile(where).compose(other).delta(0.7)
    assert together > max(mechanism.profile(where).delta(0.7), other.delta(0.7))
    assert together <= DiscreteGaussian(Fraction(144)).alike(6).compose(other).delta(0.7) * (1 + 1e-6)


def test_mixed_laws_on_a_lattice_are_those_of_the_cases():
    """Composed with next to nothing, the mixture's own delta comes back, and never less."""
    where = setting(40, 6)
    mechanism, nothing = sub("poisson", stddev="12"), DiscreteGaussian(Fraction(10**7)).alike(1)
    alone, together = mechanism.profile(where).delta(0.3), mechanism.profile(where).compose(nothing).delta(0.3)
    assert alone * (1 - 1e-9) <= together == pytest.approx(alone, rel=1e-2)


def test_it_says_where_it_does_not_apply():
    """Not before the end, not without one, not for replaced users by cell, not for totals."""
    assert Subsample.reason_against(setting(40, 6)) is None
    assert "offline" in str(Subsample.reason_against(Setting(Participation(3, 40), wait=0)))
    assert "horizon" in str(Subsample.reason_against(Setting(Participation(3, None), wait=None)))
    assert "two users" in str(Subsample.reason_against(setting(40, 6, replaced=True, cells=2)))
    assert "totals" in str(Subsample.reason_against(setting(40, 6, workload="prefix")))


@pytest.mark.parametrize("bound", [1, 3, 10, 2**40 + 1])
def test_uniform_integers_are_uniform(bound):
    """Every value below the bound is as likely as any other."""
    drawn = uniform_integers(bound, 20_000, simulated(1))
    assert ((drawn >= 0) & (drawn < bound)).all()
    bins = min(bound, 10)
    counts = np.bincount((drawn.astype(object) * bins // bound).astype(int), minlength=bins)
    assert chi2.sf(((counts - 20_000 / bins) ** 2 * bins / 20_000).sum(), max(bins - 1, 1)) > 1e-4


@pytest.mark.parametrize("sampling", WAYS)
def test_a_promise_that_delta_alone_keeps_is_refused(sampling):
    """Who is shown hardly more often than delta allows to fail would be shown as is; the message has a remedy."""
    where, options = setting(200, 2), {"rate": Decimal("0.01"), "sampling": sampling}
    with pytest.raises(KernelError, match="no protection") as refused:
        calibrate(Subsample, where, Decimal(1), Decimal("0.01"), options)
    assert refused.value.code == "E0838"
    assert "`delta = 2e-04` or less" in str(refused.value.because)
    made = calibrate(Subsample, where, Decimal(1), Decimal("2e-4"), options)
    assert made.stddev > 1
    assert made.reason_against_promise(where, Decimal("0.01")) is not None
