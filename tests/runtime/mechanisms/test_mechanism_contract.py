"""What every mechanism must keep, whatever it is: found by being in the folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, chi2
from stream_settings import documented

from policyc_check.mechanisms import Mechanism
from policyc_runtime.mechanisms import mechanism_kinds
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.sources_cited import SOURCES

KINDS = sorted(mechanism_kinds())
EPSILONS = [Decimal(text) for text in ("1e-9", "0.001", "0.1", "0.3", "0.7", "1", "2.999999999999999999", "17", "1000")]
MANY = 100_000

Array = NDArray[np.float64]


def laplace_below(values: Array, scale: float) -> Array:
    """Pr(noise < x) of the discrete Laplace law."""
    ratio = np.exp(-1 / scale)
    size = np.abs(values)
    return np.where(values <= 0, ratio ** (1 + size) / (1 + ratio), 1 - ratio**size / (1 + ratio))


BELOW: dict[str, Callable[[Array, float], Array]] = {"laplace": laplace_below}


def make(name: str, sensitivity: str = "2") -> Mechanism:
    return mechanism_kinds()[name].model_validate({"name": name, "l1_sensitivity": sensitivity})


def draw(name: str, scale: str, count: int, seed: int = 11) -> NDArray[np.int64]:
    raw = np.zeros((count, 1), dtype=np.int64)
    return make(name).add_noise(raw, [Decimal(scale)] * count, SimulationRandomness(seed)).ravel()


def fit(name: str, noise: NDArray[np.int64], scale: float, claimed: float) -> float:
    """The p-value of the noise under the law of the claimed scale, on bins made from the true one."""
    edges = np.unique(np.rint(scale * np.array([-3, -2, -1.5, -1, -0.6, -0.3, 0.0, 0.3, 0.6, 1, 1.5, 2, 3])))
    shares = np.diff([0.0, *BELOW[name](edges, claimed), 1.0])
    seen = np.histogram(noise, [-np.inf, *edges, np.inf])[0]
    statistic = ((seen - shares * noise.size) ** 2 / (shares * noise.size)).sum()
    return float(chi2.sf(statistic, shares.size - 1))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("sensitivity", ["1", "2", "3", "0.1", "130"])
def test_calibration_never_spends_more_than_asked(name: str, sensitivity: str) -> None:
    """The loss of the calibrated scale is at most epsilon, exactly, and not wastefully below."""
    rng = np.random.default_rng(5)
    mechanism = make(name, sensitivity)
    for epsilon in [*EPSILONS, *(Decimal(repr(float(value))) for value in rng.uniform(1e-3, 5, 300))]:
        loss = mechanism.privacy_loss(mechanism.calibrate(epsilon))
        assert loss <= Fraction(epsilon)
        assert loss >= Fraction(epsilon) * (1 - Fraction(1, 10**14))


@pytest.mark.parametrize("name", KINDS)
def test_more_budget_means_less_noise(name: str) -> None:
    """Scale and variance fall with epsilon; loss falls with scale."""
    mechanism = make(name)
    scales = [mechanism.calibrate(epsilon) for epsilon in EPSILONS]
    assert scales == sorted(scales, reverse=True)
    assert len(set(scales)) == len(scales)
    variances = [mechanism.variance(scale) for scale in scales]
    assert variances == sorted(variances, reverse=True)
    losses = [mechanism.privacy_loss(scale) for scale in scales]
    assert losses == sorted(losses)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", ["0.4", "1", "6.666666666666668", "300"])
def test_variance_is_that_of_the_noise(name: str, scale: str) -> None:
    """The stated variance is within four standard errors of the sample's."""
    noise = draw(name, scale, MANY).astype(float)
    stated = make(name).variance(Decimal(scale))
    error = np.std(noise**2) / np.sqrt(MANY)
    assert abs(np.mean(noise**2) - stated) < 4 * error


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", ["1e-3", "0.01", "1", "1e6", "1e9"])
def test_variance_is_finite_at_every_scale(name: str, scale: str) -> None:
    """From tiny to huge scales the variance is a finite number, about 2 scale^2 where that is large."""
    variance = make(name).variance(Decimal(scale))
    assert 0 <= variance < np.inf
    if float(scale) > 100:
        assert variance == pytest.approx(2 * float(scale) ** 2, rel=1e-3)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", ["4", "20.000000000000004", "150"])
def test_distribution_is_the_claimed_one_and_no_other(name: str, scale: str) -> None:
    """100,000 draws fit the claimed scale, and neither 5 % less nor 5 % more."""
    noise, number = draw(name, scale, MANY), float(scale)
    assert fit(name, noise, number, number) > 1e-3
    assert fit(name, noise, number, 0.95 * number) < 1e-4
    assert fit(name, noise, number, 1.05 * number) < 1e-4


def epsilon_lower_bound(name: str, scale: str, count: int) -> float:
    """What two neighboring histograms prove about the loss, with 99.9 % confidence on each side."""
    hits = []
    for seed, counts in ((1, (5, 3)), (2, (4, 4))):  # one user moved: L1 distance 2
        raw = np.tile(np.array(counts, dtype=np.int64), (count, 1))
        noisy = make(name).add_noise(raw, [Decimal(scale)] * count, SimulationRandomness(seed))
        hits.append(int(((noisy[:, 0] >= 5) & (noisy[:, 1] <= 3)).sum()))
    low = beta.ppf(0.001, hits[0], count - hits[0] + 1)
    high = beta.ppf(0.999, hits[1] + 1, count - hits[1])
    return float(np.log(low / high))


@pytest.mark.parametrize("name", KINDS)
def test_noise_pays_for_its_budget(name: str) -> None:
    """An attacker's best event between neighbors stays within epsilon, and halving the scale is noticed."""
    epsilon = Decimal(1)
    scale = make(name).calibrate(epsilon)
    assert 0.9 < epsilon_lower_bound(name, str(scale), MANY) <= float(epsilon)
    assert epsilon_lower_bound(name, str(scale / 2), MANY) > float(epsilon)


@pytest.mark.parametrize("name", KINDS)
def test_the_same_generator_gives_the_same_noise(name: str) -> None:
    """Under a seeded generator a run replays exactly."""
    assert (draw(name, "3.3", 1000, seed=4) == draw(name, "3.3", 1000, seed=4)).all()


@pytest.mark.parametrize("name", KINDS)
def test_every_step_has_its_own_scale(name: str) -> None:
    """Noise of a step follows the scale of that step, and raw counts are left alone."""
    raw = np.full((3000, 4), 50, dtype=np.int64)
    scales = [Decimal("0.5"), Decimal(10), Decimal(1000)] * 1000
    noise = make(name).add_noise(raw, scales, SimulationRandomness(3)) - 50
    assert (raw == 50).all()
    for offset, scale in enumerate(scales[:3]):
        spread = np.mean(noise[offset::3].astype(float) ** 2) / make(name).variance(scale)
        assert 0.85 < spread < 1.15


@pytest.mark.parametrize("name", KINDS)
def test_a_source_is_cited(name: str) -> None:
    """Every mechanism says where it comes from, with a key that exists."""
    found = re.search(r"Source: (\w+)", documented(mechanism_kinds()[name]) or "")
    assert found is not None
    assert found.group(1) in SOURCES


def test_every_mechanism_has_a_reference_law() -> None:
    """A new mechanism comes with the law that its noise is tested against."""
    assert sorted(BELOW) == KINDS
