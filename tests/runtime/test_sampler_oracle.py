"""Our samplers and OpenDP's draw from the same laws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import chi2_contingency

from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.samplers import discrete_gaussian, discrete_laplace

DRAWS = 40_000


def theirs(law: str, scale: float) -> np.ndarray:
    """Draws of OpenDP's noise around 0, on whole numbers."""
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if law == "gaussian":
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    else:
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)
    return np.array(measurement([0] * DRAWS))


def same(first: np.ndarray, second: np.ndarray) -> float:
    """The p-value of two samples having one law, on up to 16 bins that hold equally many of both."""
    edges = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, 17)[1:-1]))
    table = [np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1) for values in (first, second)]
    return float(chi2_contingency(np.array(table)[:, np.sum(table, axis=0) > 0]).pvalue)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(  # in this order, so that a sample has both laws
    ("law", "scale"), [("gaussian", 1.5), ("laplace", 1.5), ("laplace", 30.0), ("gaussian", 30.0)]
)
def test_draws_are_those_of_opendp_and_of_no_other_scale(law: str, scale: float) -> None:
    """40,000 draws of each have one law; a scale 10 % larger is told apart."""
    exact, randomness, reference = Fraction(scale), SimulationRandomness(3), theirs(law, scale)

    def ours(size: Fraction) -> np.ndarray:
        if law == "gaussian":
            return discrete_gaussian(size**2, DRAWS, randomness)
        return discrete_laplace(size, DRAWS, randomness)

    assert same(ours(exact), reference) > 1e-6
    assert same(ours(exact * Fraction(11, 10)), reference) < 1e-4
