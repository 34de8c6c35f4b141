"""Laplace noise that adds up to zero over the cells of a histogram whose total is public."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest
from numpy.typing import NDArray
from plans import make_plan
from scipy.stats import beta, chi2

from policyc_check.errors import PlanRejectedError
from policyc_runtime.estimation.laplace_channel import wide_precision
from policyc_runtime.mechanisms.laplace import Laplace
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.refusal import verify

MANY = 100_000


def balanced(cells: int) -> Laplace:
    return Laplace(l1_sensitivity=Decimal(2), balanced_cells=cells)


def draw(cells: int, scale: str, seed: int = 1, count: int = MANY) -> NDArray[np.int64]:
    raw = np.zeros((count, cells), dtype=np.int64)
    return balanced(cells).add_noise(raw, [Decimal(scale)] * count, SimulationRandomness(seed))


def law(cells: int, scale: float, reach: int) -> dict[tuple[int, ...], float]:
    """The probability of every row with entries up to `reach` that adds up to zero."""
    rows = [
        (*free, -sum(free))
        for free in itertools.product(range(-reach, reach + 1), repeat=cells - 1)
        if abs(sum(free)) <= reach
    ]
    weights = np.array([np.exp(-sum(map(abs, row)) / scale) for row in rows])
    return dict(zip(rows, weights / weights.sum(), strict=True))


def fit(noise: NDArray[np.int64], scale: float) -> float:
    """The p-value of the first cell's noise under the exact law of a scale."""
    reach = int(30 * scale)
    x = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(x) / scale)
    others = one / one.sum()
    for _ in range(noise.shape[1] - 2):
        others = np.convolve(others, one / one.sum(), "same")
    weights = one * others
    shares = weights / weights.sum()
    edges = np.unique(np.rint(scale * np.array([-2, -1.2, -0.8, -0.5, -0.25, 0.0, 0.25, 0.5, 0.8, 1.2, 2])))
    expected = np.add.reduceat(shares, [0, *(np.searchsorted(x, edges))]) * len(noise)
    seen = np.histogram(noise[:, 0], [-np.inf, *edges, np.inf])[0]
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(expected) - 1))


@pytest.mark.parametrize("cells", [2, 3, 5])
@pytest.mark.parametrize("scale", ["4", "20.000000000000004"])
def test_distribution_is_the_claimed_one_and_no_other(cells: int, scale: str) -> None:
    """100,000 draws fit the claimed scale, and neither 5 % less nor 5 % more; every row adds up to zero."""
    noise = draw(cells, scale)
    assert (noise.sum(axis=1) == 0).all()
    assert fit(noise, float(scale)) > 1e-3
    assert fit(noise, 0.95 * float(scale)) < 1e-4
    assert fit(noise, 1.05 * float(scale)) < 1e-4


def test_all_cells_have_the_joint_law() -> None:
    """Whole rows of three cells come as often as the law says, not only each cell by itself."""
    noise = draw(3, "1")
    found = law(3, 1.0, 30)
    likely = [row for row, share in found.items() if share > 1e-3]
    seen = np.array([(noise == row).all(axis=1).sum() for row in likely])
    expected = MANY * np.array([found[row] for row in likely])
    assert chi2.sf(((seen - expected) ** 2 / expected).sum(), len(likely)) > 1e-3


@pytest.mark.parametrize("cells", [2, 3, 4])
def test_no_output_is_more_than_exp_epsilon_likelier_for_a_neighbor(cells: int) -> None:
    """Moving one user from any cell to any other: every output's probability ratio is at most exp(2 / scale)."""
    scale, reach = 1.7, 14
    found = law(cells, scale, reach)
    worst = 0.0
    for row, share in found.items():
        for i, j in itertools.permutations(range(cells), 2):
            moved = list(row)
            moved[i] += 1
            moved[j] -= 1
            other = found.get(tuple(moved))
            if other is not None:
                worst = max(worst, np.log(share / other))
    assert worst == pytest.approx(2 / scale, rel=1e-9)
    assert worst <= float(balanced(cells).privacy_loss(Decimal("1.7"))) * (1 + 1e-12)


def lower_bound(scale: Decimal) -> float:
    """What two neighboring histograms prove about the loss, with 99.9 % confidence on each side."""
    hits = []
    for seed, counts in ((1, (5, 3, 1)), (2, (4, 4, 1))):
        raw = np.tile(np.array(counts, dtype=np.int64), (MANY, 1))
        noisy = balanced(3).add_noise(raw, [scale] * MANY, SimulationRandomness(seed))
        hits.append(int(((noisy[:, 0] >= 5) & (noisy[:, 1] <= 3)).sum()))
    low, high = beta.ppf(0.001, hits[0], MANY - hits[0] + 1), beta.ppf(0.999, hits[1] + 1, MANY - hits[1])
    return float(np.log(low / high))


def test_noise_pays_for_its_budget() -> None:
    """An attacker's best event between neighbors stays within epsilon, and halving the scale is noticed."""
    scale = balanced(3).calibrate(Decimal(1))
    assert 0.9 < lower_bound(scale) <= 1
    assert lower_bound(scale / 2) > 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("cells", [2, 3, 7, 40])
@pytest.mark.parametrize("scale", ["0.5", "3.3", "150"])
def test_variance_is_that_of_the_noise(cells: int, scale: str) -> None:
    """The stated variance is within four standard errors of the sample's, and below that of independent noise."""
    noise = draw(cells, scale, count=20_000)[:, 0].astype(float)
    stated = balanced(cells).variance(Decimal(scale))
    assert abs(np.mean(noise**2) - stated) < 4 * np.std(noise**2) / np.sqrt(len(noise))
    assert stated < Laplace(l1_sensitivity=Decimal(2)).variance(Decimal(scale))


@pytest.mark.parametrize("cells", [2, 3, 10])
def test_precision_at_no_other_knowledge_is_that_of_the_variance(cells: int) -> None:
    """The closed form agrees with the variance: on the plane of zero sums, noise is (m - 1) / m of a full variance."""
    variance = balanced(cells).variance(Decimal(10_000)) / 1e8
    assert wide_precision(cells) == pytest.approx((cells - 1) / cells / variance, rel=1e-3)


def test_balanced_noise_needs_a_public_total() -> None:
    """Without a population, or over fewer cells than the stream's, the plan is refused."""
    plan = make_plan(population=20)
    part = plan.releases[0]
    good = part.model_copy(update={"mechanism": balanced(len(part.cells))})
    verify(plan.model_copy(update={"releases": (good,)}).sealed())
    hidden = plan.model_copy(
        update={"releases": (good,), "stream": plan.stream.model_copy(update={"population": None})}
    )
    fewer = plan.model_copy(update={"releases": (part.model_copy(update={"mechanism": balanced(2)}),)})
    for altered in (hidden, fewer):
        with pytest.raises(PlanRejectedError) as refused:
            verify(altered.sealed())
        assert refused.value.where == "releases.0.mechanism"
