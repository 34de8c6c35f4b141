"""The noise of the plain stream mechanisms has exactly the law that is claimed."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import chi2
from stream_settings import one_setting, run, simulated

from policyc.offers import calibrate
from policyc_runtime.mechanisms import StreamMechanism, stream_mechanism_kinds
from policyc_runtime.mechanisms.gaussian import Gaussian
from policyc_runtime.mechanisms.stream_laplace import StreamLaplace

MANY = 100_000


def shares(name: str, size: float, edges: np.ndarray) -> np.ndarray:
    """Probabilities of the bins between edges, summed from the law itself."""
    reach = int(40 * size) + 2
    points = np.arange(-reach, reach + 1)
    weights = np.exp(-(points**2) / (2 * size**2)) if name == "gaussian" else np.exp(-np.abs(points) / size)
    return np.histogram(points, [-np.inf, *edges, np.inf], weights=weights / weights.sum())[0]


def fit(name: str, noise: np.ndarray, size: float, claimed: float) -> float:
    """The p-value of noise under the law of the claimed size, on bins made from the true one."""
    edges = np.unique(
        np.rint(size * np.array([-2.5, -1.8, -1.3, -0.9, -0.5, -0.2, 0.2, 0.5, 0.9, 1.3, 1.8, 2.5])) + 0.5
    )
    expected = shares(name, claimed, edges) * noise.size
    seen = np.histogram(noise, [-np.inf, *edges, np.inf])[0]
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), expected.size - 1))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", ["4", "21.5", "160.25"])
def test_noise_follows_its_law_and_no_other(name: str, size: str) -> None:
    """100,000 draws fit the claimed size, and neither 5 % less nor 5 % more."""
    number = float(size)
    mechanism: StreamMechanism = (
        Gaussian(stddev=Decimal(size)) if name == "gaussian" else StreamLaplace(scale=Decimal(size))
    )
    setting = one_setting(stream_mechanism_kinds()[name], steps=MANY)
    records = run(mechanism, setting, np.full((MANY, 1), 7, dtype=np.int64), simulated(8))
    noise = np.array(records)[:, 0] - 7
    assert fit(name, noise, number, number) > 1e-3
    assert fit(name, noise, number, 0.95 * number) < 1e-4
    assert fit(name, noise, number, 1.05 * number) < 1e-4


def test_gaussian_noise_is_that_of_the_exact_curve() -> None:
    """365 participations at (1, 1e-7): the mean absolute error is the 71 of the equal-privacy table."""
    setting = one_setting(Gaussian, steps=365, bound=365)
    stddev = float(calibrate(Gaussian, setting, Decimal(1), Decimal("1e-7"), {}).stddev)
    assert stddev * np.sqrt(2 / np.pi) == pytest.approx(71, rel=0.02)


def test_laplace_noise_of_few_participations_is_pure() -> None:
    """At tiny delta the scale is k times that of one step."""
    setting = one_setting(StreamLaplace, bound=3)
    scale = float(calibrate(StreamLaplace, setting, Decimal(1), Decimal("1e-12"), {}).scale)
    assert 2.9 < scale <= 3.0000001
