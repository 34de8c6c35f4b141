"""Predicted errors are those of the declared model."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from policyc import compile_policy
from policyc.planning.comparison import more_error
from policyc.planning.prediction import (
    POINTS,
    StepModel,
    laplace_quantile,
    multinomial_quantile,
    spread_points,
)
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimation.constraints import ConstraintSet
from policyc_runtime.estimation.projection import Mle
from policyc_runtime.mechanisms.laplace import Laplace
from policyc_runtime.randomness import SimulationRandomness


def test_spread_points_fill_every_dimension_evenly():
    """Each coordinate has mean 1/2 and variance 1/12, and no two coordinates are correlated."""
    points = spread_points(4096, 7)
    assert points.mean(axis=0) == pytest.approx(np.full(7, 0.5), abs=2e-3)
    assert points.var(axis=0) == pytest.approx(np.full(7, 1 / 12), abs=2e-3)
    assert np.abs(np.corrcoef(points.T) - np.eye(7)).max() < 0.05


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 40.0])
def test_laplace_quantile_has_the_law_of_the_noise(scale):
    """Read off a fine grid, the probability of every value is that of the discrete Laplace law."""
    points = (np.arange(400_000) + 0.5) / 400_000
    values = laplace_quantile(points, scale)
    ratio = np.exp(-1 / scale)
    for value in range(-3, 4):
        expected = (1 - ratio) / (1 + ratio) * ratio ** abs(value)
        assert np.mean(values == value) == pytest.approx(expected, abs=1e-5)


def test_multinomial_quantile_adds_up_and_has_the_right_moments():
    """Counts sum to the population; mean n p and variance n p (1 - p) in every cell, also where p is 0 or tiny."""
    law = np.array([0.5, 0.0, 0.3, 0.199, 0.001])
    counts = multinomial_quantile(spread_points(20_000, 4), 200, law)
    assert (counts.sum(axis=1) == 200).all()
    assert (counts >= 0).all()
    assert counts.mean(axis=0) == pytest.approx(200 * law, abs=0.02)
    assert counts.var(axis=0) == pytest.approx(200 * law * (1 - law), rel=0.02, abs=1e-3)


def test_noise_adds_its_variance():
    """Noisy minus true counts have the variance of the discrete Laplace law."""
    model = StepModel(np.array([[0.2, 0.3, 0.5]]), (100,), spread_points(50_000, 5))
    ratio = np.exp(-1 / 3.0)
    assert (model.noisy(3.0) - model.true).var() == pytest.approx(2 * ratio / (1 - ratio) ** 2, rel=0.02)


def test_prior_alone_is_the_multinomial_variance():
    """Publishing the prior alone costs n p (1 - p) per cell."""
    model = StepModel(np.array([[0.2, 0.8]]), (100,), spread_points(8, 3))
    assert model.prior_error("mean_squared_error") == pytest.approx(16.0)


@pytest.mark.parametrize(
    ("ratio", "times"), [(2.284, "2.28"), (999.4, "999"), (999.6, "1,000"), (2284.0, "2,280"), (1.5e6, "1,500,000")]
)
def test_many_times_the_error_is_a_number_that_people_read(ratio, times):
    """Three digits, and no exponent."""
    assert more_error(ratio) == f"{times} times the error of the one chosen"


@pytest.mark.parametrize("scale", [0.8, 2.5, 90.0])
@pytest.mark.parametrize("cells", [None, 2, 4])
def test_noise_has_the_mean_error_that_is_said(scale, cells):
    """Of balanced noise the mean absolute value is its own, 2 % above that of Laplace noise of the same variance."""
    mechanism = Laplace(l1_sensitivity=Decimal(2), balanced_cells=cells)
    steps = 200_000
    zeros = np.zeros((steps, cells or 2), dtype=np.int64)
    noise = mechanism.add_noise(zeros, [Decimal(str(scale))] * steps, SimulationRandomness(4))
    assert mechanism.absolute_error(Decimal(str(scale))) == pytest.approx(np.abs(noise).mean(), rel=0.01)
    assert mechanism.variance(Decimal(str(scale))) == pytest.approx((noise**2).mean(), rel=0.02)


def test_values_that_are_their_noise_err_as_much_as_it(tmp_path):
    """Balanced noise keeps the population by itself: what `mle` publishes of it and the noise have one error."""
    text = """policy p "one line"
stream v { user a time b cell room in {"a", "b", "c"} otherwise "out" step 1h horizon 50 steps population 300 }
release r = count(v) by room
target alpha_dpt(alpha = 2.0)
correlation markov(
  forward = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]],
  initial = stationary, evidence = "y")
deliver offline
objective mean_absolute_error
estimate mle()
budget bounded()
postprocess r { sum(r) == population }
"""
    (tmp_path / "p.policy").write_text(text)
    part = compile_policy(tmp_path / "p.policy").plan.scheduled[0]
    zeros = np.zeros((100_000, 4), dtype=np.int64)
    noise = part.mechanism.add_noise(zeros, [part.schedule.scales(50)[25]] * len(zeros), SimulationRandomness(5))
    assert part.predicted.without_postprocessing == pytest.approx(np.abs(noise).mean(), rel=0.01)
    assert part.predicted.published == pytest.approx(part.predicted.without_postprocessing, rel=1e-6)


@pytest.mark.parametrize("scale", [0.8, 2.5, 20.0])
@pytest.mark.parametrize("balanced", [False, True])
def test_few_points_foretell_a_step(scale, balanced):
    """The points of a plan foretell within 3 % what a hundred thousand steps drawn at random cost."""
    law, users = np.array([0.29, 0.34, 0.37]), 200
    mechanism = Laplace(l1_sensitivity=Decimal(2), balanced_cells=3 if balanced else None)
    noise = mechanism.absolute_error(Decimal(scale)), mechanism.variance(Decimal(scale))
    everyone = ConstraintRow(
        text="sum",
        line=1,
        current=tuple((cell, Decimal(1)) for cell in range(3)),
        previous=(),
        relation="==",
        bound=users,
    )
    constraints = ConstraintSet((everyone,), 3, integer=True)
    plan = StepModel(law[None], (users,), spread_points(POINTS, 5), balanced)
    told = plan.estimation_error(Mle(), None, scale, noise, constraints, "mean_squared_error")
    generator = np.random.default_rng(3)
    true = generator.multinomial(users, law, size=100_000)
    noisy = mechanism.add_noise(true, [Decimal(scale)] * len(true), SimulationRandomness(3)).astype(np.float64)
    published = Mle().estimate(noisy, np.full(len(true), scale), None, constraints, None)
    assert told == pytest.approx(np.mean((published - true) ** 2), rel=0.03)
