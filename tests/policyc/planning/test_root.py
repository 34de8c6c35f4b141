"""Roots between two ends, held against those of scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from policyc.planning.root import root


@pytest.mark.parametrize("seed", range(40))
def test_root_is_that_of_scipy(seed: int) -> None:
    """Digit by digit, with as many values of the function: polynomials, steps, and what is infinite beyond a place."""
    rng = np.random.default_rng(seed)
    zero, high = rng.uniform(0.01, 3), rng.uniform(3, 10)
    kinds = (
        lambda x: (zero - x) * (1 + x**2),
        lambda x: math.exp(-x) - math.exp(-zero),
        lambda x: 1.0 if x < zero else -1.0,
        lambda x: zero - x if x < 2 * zero else -1e300,
        lambda x: (zero - x) ** 3,
    )
    for function in kinds:
        asked: list[list[float]] = [[], []]

        def counted(x: float, which: int, function=function, asked=asked) -> float:
            asked[which].append(x)
            return function(x)

        expected = brentq(lambda x: counted(x, 0), 0.0, high, xtol=1e-12 * high, rtol=1e-12, maxiter=200)
        assert root(lambda x: counted(x, 1), 0.0, high, near=1e-12 * high, relative=1e-12) == expected
        assert asked[1] == asked[0]


@pytest.mark.parametrize(
    "function", [lambda _: math.nan, lambda x: 1 + x, lambda x: 0.5 - x if x in (0, 1) else math.nan]
)
def test_no_root(function) -> None:
    """What has the same sign at both ends, or is no number somewhere, is refused."""
    with pytest.raises(ArithmeticError):
        root(function, 0.0, 1.0, near=1e-12, relative=1e-12)
