"""Binomial noise is thrown coin by coin."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import binom, chisquare
from stream_settings import one_setting, simulated

from policyc.offers import calibrate
from policyc_check.errors import KernelError
from policyc_runtime.mechanisms.binomial import Binomial
from policyc_runtime.samplers import symmetric_binomial


@pytest.mark.parametrize("half", [1, 7, 32, 100])
def test_noise_has_the_binomial_law_and_no_other(half: int) -> None:
    """50,000 draws fit 2m coins, whether or not they fill whole words, and not 10 % fewer or more."""
    drawn = symmetric_binomial(half, 50_000, simulated(5))
    seen = np.bincount(drawn + half, minlength=2 * half + 1)

    def fit(coins: int) -> float:
        expected = binom.pmf(np.arange(2 * half + 1) + coins // 2 - half, coins, 0.5)
        usual = expected * 50_000 > 5
        both = [np.append(part[usual], part[~usual].sum()) for part in (seen, expected * 50_000)]
        kept = both[1] > 0
        return float(chisquare(both[0][kept], both[1][kept] * both[0][kept].sum() / both[1][kept].sum()).pvalue)

    assert fit(2 * half) > 1e-3
    assert half < 30 or max(fit(round(0.9 * half) * 2), fit(round(1.1 * half) * 2)) < 1e-4


def test_too_many_coins_are_refused() -> None:
    """Noise that would need more coins than are thrown is refused, with what to write instead."""
    setting = one_setting(Binomial, steps=365, bound=365)
    with pytest.raises(KernelError, match="out of range") as refusal:
        calibrate(Binomial, setting, Decimal("0.001"), Decimal("1e-7"), {})
    assert "gaussian" in (refusal.value.help or "")
