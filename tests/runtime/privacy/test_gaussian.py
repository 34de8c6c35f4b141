"""The Gaussian privacy curve against 60-digit arithmetic and published values."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

from policyc.offers.calibration import gaussian_epsilon, gaussian_stddev
from policyc_check.users.gaussian import gaussian_delta

REFERENCE = json.loads((Path(__file__).parent / "accounting.json").read_text())


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """The textbook formula, which needs hundreds of digits where doubles overflow."""
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        root = mpmath.sqrt(2)
        return (mpmath.erfc((e / m - m / 2) / root) - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / root)) / 2


def test_curve_errs_upward_by_less_than_four_parts_in_a_trillion() -> None:
    """From epsilon 1e-6 to 700 and delta down to 1e-300, delta is never below the true one and at most 4e-12 above."""
    rng = np.random.default_rng(5)
    seen = 0
    while seen < 400:
        epsilon = 10 ** rng.uniform(-6, math.log10(700))
        x = rng.uniform(-5, 37.3)
        mu = math.sqrt(x * x + 2 * epsilon) - x if seen % 4 else 10 ** rng.uniform(-8, 2)
        exact = exact_delta(epsilon, mu)
        if not 1e-300 < exact < 1 - 1e-11:
            seen += exact >= 1e-300
            continue
        assert 0 <= gaussian_delta(epsilon, mu) / exact - 1 < 4e-12
        seen += 1


def test_ends_of_the_curve() -> None:
    """No difference loses nothing, a difference without noise everything, and tiny deltas are never called zero."""
    assert gaussian_delta(1.0, 0.0) == 0
    assert gaussian_delta(1.0, math.inf) == 1
    assert 0 < gaussian_delta(700.0, 1e-3) < 1e-307


@pytest.mark.parametrize("row", REFERENCE["gaussian_delta"], ids=str)
def test_reference_deltas(row: dict[str, str]) -> None:
    """The values of 40-digit arithmetic come out."""
    assert gaussian_delta(float(row["epsilon"]), float(row["mu"])) == pytest.approx(float(row["delta"]), rel=1e-11)


@pytest.mark.parametrize("row", REFERENCE["gaussian_stddev"], ids=str)
def test_reference_stddevs(row: dict[str, str]) -> None:
    """The values of 40-digit arithmetic come out."""
    sensitivity = math.sqrt(float(row["l2_sensitivity"].removesuffix("^0.5")))
    stddev = gaussian_stddev(float(row["epsilon"]), float(row["delta"]), sensitivity)
    assert stddev == pytest.approx(float(row["stddev"]), rel=1e-11)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 20.0, 700.0])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12, 1e-300])
@pytest.mark.parametrize("sensitivity", [1.0, math.sqrt(365), 0.037, 1e5])
def test_calibrated_noise_is_enough_and_hardly_more(epsilon: float, delta: float, sensitivity: float) -> None:
    """The oracle finds delta kept at the stddev returned, and broken by a relative 1e-9 less of it."""
    stddev = gaussian_stddev(epsilon, delta, sensitivity)
    assert gaussian_delta(epsilon, sensitivity / stddev) <= delta
    assert exact_delta(epsilon, sensitivity / stddev) <= delta
    assert exact_delta(epsilon, sensitivity / (stddev * (1 - 1e-9))) > delta


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-300])
@pytest.mark.parametrize("mu", [1e-4, 0.5, 3.0, 30.0])
def test_epsilon_inverts_the_curve(delta: float, mu: float) -> None:
    """The epsilon returned keeps delta; a relative 1e-9 less does not, unless it is 0."""
    epsilon = gaussian_epsilon(delta, mu)
    assert exact_delta(epsilon, mu) <= delta
    assert epsilon == 0 or exact_delta(epsilon * (1 - 1e-9), mu) > delta


def test_nonsense_is_refused() -> None:
    """Negative and not-a-number arguments raise; so do deltas of 0 and 1."""
    for epsilon, mu in ((-1.0, 1.0), (1.0, -1.0), (math.nan, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError):
            gaussian_delta(epsilon, mu)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError):
            gaussian_stddev(1.0, delta, 1.0)
