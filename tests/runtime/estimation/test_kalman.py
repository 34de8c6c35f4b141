"""Filter and smoother against joint conditioning, exact enumeration and simulation; the check of the chain."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from demands import at_least_zero, demands, total
from numpy.typing import NDArray
from plans import make_plan

from policyc_check.steps.chains import Chain
from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimates import estimate_release
from policyc_runtime.estimation import ConstraintSet, estimator_kinds
from policyc_runtime.estimation.count_process import MANY, CountProcess, marginals
from policyc_runtime.estimation.kalman import Filter, Smoother
from policyc_runtime.estimation.laplace_channel import laplace_width, score
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.estimation.projection import nearest_values
from policyc_runtime.estimation.safeguard import candidates, innovation_log_likelihood, likeliest
from policyc_runtime.laboratory.simulation import simulate_counts

Array = NDArray[np.float64]
BASE = np.array([[0.33, 0.33, 0.34], [0.8, 0.1, 0.1], [0.05, 0.9, 0.05]])
START = np.array([1.0, 0.0, 0.0])


def lazy(stay: float, cells: int = 3) -> Array:
    return np.eye(cells) * stay + (1 - np.eye(cells)) * (1 - stay) / (cells - 1)


def constraints_for(population: int, cells: int = 3) -> ConstraintSet:
    return demands(total(cells, population), *at_least_zero(cells), cells=cells)


def noise(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    stop = -np.expm1(-1 / scale)
    return (rng.geometric(stop, shape) - rng.geometric(stop, shape)).astype(np.float64)


def joint_moments(process: CountProcess, steps: int) -> tuple[Array, Array]:
    """Mean (T m,) and covariance (T m, T m) of all counts together, by Cov(n_t, n_s) = (P^T)^(t - s) Cov(n_s)."""
    m, means = process.cells, process.expected(steps)
    joint = np.zeros((steps * m, steps * m))
    for s in range(steps):
        law = means[s] / process.population
        block = process.population * (np.diag(law) - np.outer(law, law))
        for t in range(s, steps):
            joint[t * m : t * m + m, s * m : s * m + m] = block
            joint[s * m : s * m + m, t * m : t * m + m] = block.T
            block = process.move.T @ block
    return means.ravel(), joint


@pytest.mark.parametrize("initial", [None, START])
@pytest.mark.parametrize("delay", [0, 2, None])
def test_recursions_are_joint_conditioning(initial: Array | None, delay: int | None) -> None:
    """Variances are those of all counts conditioned at once on normal values, a step without a release included."""
    process = CountProcess(50.0, 3, Chain(forward=BASE, initial=initial))
    posterior = Posterior(process, np.array([3.0, 5.0, 0.0, 2.0, 3.0, 3.0]), delay)
    precision = np.array(posterior._forward.precision)[posterior._forward.index]
    assert (precision[2] == 0).all()
    _, joint = joint_moments(process, 6)
    for t in range(6):
        known = precision.copy()
        if delay is not None:
            known[t + delay + 1 :] = 0.0
        inner = np.eye(18) + np.sqrt(known.ravel())[:, None] * joint * np.sqrt(known.ravel())
        gained = joint * np.sqrt(known.ravel())
        after = joint - gained @ np.linalg.solve(inner, gained.T)
        assert posterior.variances()[t] == pytest.approx(np.diag(after)[3 * t : 3 * t + 3], abs=1e-6)


def test_sweeps_reach_the_fixed_point() -> None:
    """The smoother's means are what expectation propagation on the joint law of all steps settles at."""
    rng = np.random.default_rng(2)
    process = CountProcess(50.0, 3, Chain(forward=BASE))
    scales = np.array([3.0, 5.0, 0.0, 2.0, 3.0, 3.0])
    posterior = Posterior(process, scales, None)
    precision = np.array(posterior._forward.precision)[posterior._forward.index].ravel()
    mean, joint = joint_moments(process, 6)
    noisy = mean.reshape(6, 3) + noise(4.0, (6, 3), rng)
    gained = joint * np.sqrt(precision)
    inner = np.eye(18) + np.sqrt(precision)[:, None] * gained
    after = joint - gained @ np.linalg.solve(inner, gained.T)
    left = 1 - np.diag(after) * precision
    belief, away, width = np.diag(after) / left, noisy.ravel() - mean, np.repeat(laplace_width(scales), 3)
    sites = precision * away
    for _ in range(100):
        center = (after @ sites - np.diag(after) * sites) / left
        fresh = precision * center + (1 + belief * precision) * score(away - center, belief, width)
        sites = 0.5 * sites + 0.5 * np.where(precision > 0, fresh, 0.0)
    assert posterior.means(noisy).ravel() == pytest.approx(mean + after @ sites, abs=0.1)


@pytest.mark.parametrize("delay", [0, 2, None])
@pytest.mark.parametrize("stay", [0.9, 0.9999, 0.999999, 0.99999999])
@pytest.mark.parametrize("population", [1e2, 1e6, 1e7, 1e9, 1e12])
def test_hardly_any_noise_beside_many_users(population: float, stay: float, delay: int | None) -> None:
    """Values of steps that have some are taken about as they are, of however many users; others lie between."""
    scales, seen, between = np.array([0.02, 0.0, 0.02, 0.02, 0.0, 0.02] * 3), [0, 2, 3, 5], [1, 4]
    drift = population * (1 - stay)
    anywhere = np.random.default_rng(1).random((5, 5))
    uneven = stay * np.eye(5) + (1 - stay) * anywhere / anywhere.sum(axis=1, keepdims=True)
    for seed, rows in product((2, 4), (lazy(stay), lazy(stay, 2), uneven)):
        process = CountProcess(population, len(rows), Chain(forward=rows))
        true = process.drawn(18, 1, np.random.default_rng(seed))[:, 0].astype(np.float64)
        posterior = Posterior(process, scales, delay)
        found, variances = posterior.means(true), posterior.variances()
        assert np.abs(found[seen] - true[seen]).max() < 0.5
        assert found.sum(axis=1) == pytest.approx(population, rel=1e-12)
        assert (variances[seen] >= 0).all()
        assert (variances[seen] < 0.1 + 2e-11 * population).all()
        assert (np.abs(found - true)[between] < 6 * np.sqrt(variances[between]) + 0.5 + 1e-8 * population).all()
        assert (variances[between] > 0.05 * min(drift, 0.01)).all()
        assert np.isfinite(innovation_log_likelihood(process, true, scales)).all()


@pytest.mark.parametrize("delay", [0, 1, None])
@pytest.mark.parametrize("population", [1e6, 1e9])
def test_errors_are_those_of_runs_beside_hardly_any_noise(population: float, delay: int | None) -> None:
    """Of steps between values that are known nearly exactly; at 1e9 users runs had 22 times what was predicted once."""
    process = CountProcess(population, 3, Chain(lazy(0.999999)))
    scales = np.where(np.arange(30) % 3 == 1, 1 / 70, 0.0)
    posterior, later = Posterior(process, scales, delay), slice(1, None)
    true = process.drawn(30, 200, np.random.default_rng(3)).astype(np.float64)
    errors = [((posterior.means(run) - run) ** 2)[later].mean() for run in true.swapaxes(0, 1)]
    assert np.mean(errors) == pytest.approx(posterior.variances()[later].mean(), rel=0.1, abs=0.01)


@pytest.mark.parametrize("delay", [0, 2, None])
@pytest.mark.parametrize("population", [1e5, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("small", [1e-3, 1e-6, 1e-10])
def test_hardly_any_noise_beside_cells_of_any_size(small: float, population: float, delay: int | None) -> None:
    """A cell that hardly anybody enters has its own noise: what rounding leaves of others is more than that."""
    three, seven = [0.5, 0.5, small], [0.4, 0.1, small, 2.5e-3, small / 10, 0.05, 0.4]
    for shares, stay in product((three, seven), (0.0, 0.9, 0.9999)):
        law = np.array(shares) / sum(shares)
        process = CountProcess(
            population, len(law), Chain(stay * np.eye(len(law)) + (1 - stay) * law * np.ones((len(law), 1)))
        )
        true = process.drawn(6, 1, np.random.default_rng(1))[:, 0].astype(np.float64)
        posterior = Posterior(process, np.full(6, 0.02), delay)
        assert np.abs(posterior.means(true) - true).max() < 0.5
        assert (posterior.variances() >= -1e-12).all()


@pytest.mark.parametrize("delay", [0, None])
@pytest.mark.parametrize("population", [1e7, 1e9])
def test_users_of_many_cells_who_all_move_on_are_told_beside_hardly_any_noise(
    population: float, delay: int | None
) -> None:
    """What is told of a total by rounding alone leaves no covariance positive."""
    chain = np.roll(np.eye(MANY), 1, axis=1) * (1 - 1e-8) + 1e-8 / MANY
    start = np.random.default_rng(0).dirichlet(np.ones(MANY))
    process = CountProcess(population, MANY, Chain(chain / chain.sum(axis=1, keepdims=True), initial=start))
    posterior = Posterior(process, np.full(5, 0.02), delay)
    true = process.drawn(5, 1, np.random.default_rng(1))[:, 0].astype(np.float64)
    assert np.isfinite(posterior.variances()).all()
    assert np.abs(posterior.means(true) - true).max() < 0.5
    assert np.isfinite(innovation_log_likelihood(process, true, np.full(5, 0.02))).all()


@pytest.mark.parametrize("delay", [2, None])
@pytest.mark.parametrize("stay", [0.99, 0.9999])
def test_little_is_left_of_what_slow_users_may_be(stay: float, delay: int | None) -> None:
    """Between releases of little noise variances are those of conditioning at once: nothing of them cancels."""
    process = CountProcess(1e6, 3, Chain(forward=lazy(stay)))
    scales = np.where(np.arange(24) % 6 == 0, 1.0, 0.0)
    posterior = Posterior(process, scales, delay)
    precision = np.array(posterior._forward.precision)[posterior._forward.index]
    _, joint = joint_moments(process, 24)
    for t in range(0, 24, 5):
        known = precision.copy()
        if delay is not None:
            known[t + delay + 1 :] = 0.0
        values = known.ravel() > 0
        law = joint[np.ix_(values, values)] + np.diag(1 / known.ravel()[values])
        rows = joint[3 * t : 3 * t + 3][:, values]
        after = joint[3 * t : 3 * t + 3, 3 * t : 3 * t + 3] - rows @ np.linalg.solve(law, rows.T)
        assert posterior.variances()[t] == pytest.approx(np.diag(after), rel=1e-4)


@pytest.mark.parametrize("delay", [0, 2, None])
def test_no_step_with_values(delay: int | None) -> None:
    """What is declared is all that is known."""
    process = CountProcess(100.0, 3, Chain(forward=BASE))
    posterior = Posterior(process, np.zeros(4), delay)
    assert posterior.means(np.full((4, 3), np.nan)) == pytest.approx(process.expected(4))
    assert posterior.variances()[3] == pytest.approx(np.diag(process.start()))


def test_more_cells_than_a_thousand() -> None:
    """Precisions of all of them are one array, and no covariance."""
    cells = 1025
    walk = 0.8 * np.eye(cells) + 0.1 * np.roll(np.eye(cells), 1, axis=1) + 0.1 * np.roll(np.eye(cells), -1, axis=1)
    process = CountProcess(1e5, cells, Chain(forward=walk))
    found = Posterior(process, np.array([2.0, 2.0]), None).means(np.full((2, cells), 97.0))
    assert found == pytest.approx(np.full((2, cells), 1e5 / cells), rel=1e-6)


def exact_mean(noisy: Array, scale: float, users: int, move: Array, start: Array) -> Array:
    """E[n_t | all noisy values], by summing over every path of the count of the first of two cells."""

    def binomial(n: int, p: float) -> Array:
        return np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])

    moves = np.array([np.convolve(binomial(k, move[0, 0]), binomial(users - k, move[1, 0])) for k in range(users + 1)])
    counts = np.stack([np.arange(users + 1.0), users - np.arange(users + 1.0)], axis=1)
    likelihood = np.exp(-np.abs(noisy[:, None, :] - counts).sum(axis=2) / scale)
    forward, backward = [binomial(users, start[0]) * likelihood[0]], [np.ones(users + 1)]
    for t in range(1, len(noisy)):
        forward.append((forward[-1] @ moves) * likelihood[t])
        backward.insert(0, moves @ (backward[0] * likelihood[len(noisy) - t]))
    weights = np.array(forward) * np.array(backward)
    return np.asarray((weights / weights.sum(axis=1, keepdims=True)) @ counts)


def test_close_to_the_exact_posterior_mean() -> None:
    """With few users the smoother is near the exact mean, and nearer than the linear smoother."""
    rng = np.random.default_rng(7)
    move, users, scale = np.array([[0.9, 0.1], [0.2, 0.8]]), 6, 2.0
    chain = Chain(forward=move)
    process = CountProcess(float(users), 2, chain)
    posterior = Posterior(process, np.full(4, scale), None)
    mean, joint = joint_moments(process, 4)
    linear = joint @ np.linalg.inv(joint + 2 * laplace_width(np.array([scale]))[0] ** 2 * np.eye(8))
    ours, theirs = [], []
    for _ in range(300):
        noisy = simulate_counts([chain], [users], 4, rng) + noise(scale, (4, 2), rng)
        exact = exact_mean(noisy, scale, users, move, chain.marginal(0))
        ours.append(np.mean((posterior.means(noisy) - exact) ** 2))
        theirs.append(np.mean((mean + linear @ (noisy.ravel() - mean) - exact.ravel()) ** 2))
    assert np.mean(ours) < 0.5 * np.mean(theirs)
    assert np.mean(ours) < 0.05


@pytest.mark.sampled(4)
@pytest.mark.parametrize("delay", [0, 3, None])
@pytest.mark.parametrize(
    ("move", "population", "every"),
    [(BASE, 200, 1), (lazy(0.9), 10_000, 1), (lazy(0.99), 200, 1), (lazy(0.99), 200, 4)],
)
def test_predicted_errors_are_measured(delay: int | None, move: Array, population: int, every: int) -> None:
    """The error said before any data is within 10 % of the error of simulated users, standard error allowed for."""
    rng = np.random.default_rng(11)
    chain, constraints = Chain(forward=move), constraints_for(population)
    scales = np.where(np.arange(200) % every == 0, 8.0, 0.0)
    estimator = Smoother() if delay is None else Filter()
    predicted = estimator.predicted_errors(chain, population, scales, delay, "mean_squared_error", integer=True)
    assert predicted is not None
    errors = []
    for _ in range(8):
        true = simulate_counts([chain], [population], 200, rng)
        noisy = np.where(scales[:, None] > 0, true + noise(8.0, true.shape, rng), np.nan)
        published = estimator.estimate_series(noisy, scales, 0, chain, constraints, None, delay)
        assert constraints.violation(published, None) == 0
        errors.append(np.mean((published - true) ** 2))
    stderr = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - predicted.mean()) < 0.1 * predicted.mean() + 2 * stderr


@pytest.mark.parametrize("delivery", ["realtime", "offline"])
def test_published_rows_never_change(delivery: str) -> None:
    """New steps add rows; under realtime they are the rows of one run over everything."""
    rng = np.random.default_rng(3)
    name = "filter" if delivery == "realtime" else "smoother"
    rows = (total(3, 200), *at_least_zero(3))
    plan = make_plan(
        population=200,
        otherwise=None,
        chains=(BASE.tolist(),),
        estimator={"name": name},
        constraints=rows,
        delivery=delivery,
        horizon=50,
    )
    noisy = rng.multinomial(200, [0.4, 0.35, 0.25], 12) + noise(20.0, (12, 3), rng)
    whole = estimate_release(plan, plan.releases[0], noisy, np.empty((0, 3)))
    stream = np.empty((0, 3))
    for step in range(12):
        fresh = estimate_release(plan, plan.releases[0], noisy[: step + 1], stream)
        assert fresh.shape == (1, 3)
        stream = np.vstack([stream, fresh])
    assert (stream == whole).all() == (delivery == "realtime")
    assert (whole.sum(axis=1) == 200).all()


@pytest.mark.parametrize("scale", [2.0, 10.0])
@pytest.mark.parametrize("estimator", [Filter(), Smoother()])
def test_a_wrong_chain_does_little_harm(estimator: Filter | Smoother, scale: float) -> None:
    """Users who move at random, declared to stay: at most 1.1 times the error without any chain."""
    rng = np.random.default_rng(5)
    declared, true = Chain(forward=(np.eye(3) + 0.01) / 1.03), Chain(forward=(np.eye(3) + 1) / 4)
    constraints, scales = constraints_for(200), np.full(300, scale)
    counts = simulate_counts([true], [200], 300, rng)
    noisy = counts + noise(scale, counts.shape, rng)
    delay = 0 if estimator.name == "filter" else None
    published = estimator.estimate_series(noisy, scales, 0, declared, constraints, None, delay)
    nearest = nearest_values(noisy, constraints, None)
    assert np.mean((published - counts) ** 2) <= 1.1 * np.mean((nearest - counts) ** 2)


@pytest.mark.parametrize(("stay", "scale", "steps"), [(0.33, 5.0, 200), (0.97, 5.0, 300), (0.97, 150.0, 40)])
def test_the_right_chain_is_kept(stay: float, scale: float, steps: int) -> None:
    """Of thirty series of users who move as declared, no step of more than one speaks for anything else."""
    rng = np.random.default_rng(6)
    chain = Chain(forward=lazy(stay))
    left = 0
    for _ in range(30):
        noisy = simulate_counts([chain], [200], steps, rng) + noise(scale, (steps, 3), rng)
        left += likeliest(candidates(CountProcess(200.0, 3, chain)), noisy, np.full(steps, scale)).any()
    assert left <= 1


def test_little_is_not_made_of_much_noise() -> None:
    """Where noise drowns a short series, the smoother is about as good as the prior, which it knows."""
    rng = np.random.default_rng(7)
    chain, constraints, scales = (
        Chain(forward=(np.roll(np.eye(3), 1, axis=1) + 0.01) / 1.03),
        constraints_for(200),
        np.full(40, 150.0),
    )
    smoother, prior = [], []
    for _ in range(15):
        counts = simulate_counts([chain], [200], 40, rng)
        noisy = counts + noise(150.0, counts.shape, rng)
        smoother.append(
            np.mean((Smoother().estimate_series(noisy, scales, 0, chain, constraints, None, None) - counts) ** 2)
        )
        prior.append(np.mean((200.0 * marginals(chain, 40) - counts) ** 2))
    assert np.mean(smoother) <= 1.02 * np.mean(prior)


def test_the_likelihood_is_that_of_all_values_together() -> None:
    """Log densities of innovations add up to the log density of the joint normal law; missing steps add nothing."""
    rng = np.random.default_rng(8)
    process, scales = CountProcess(40.0, 3, Chain(forward=BASE, initial=START)), np.array([2.0, 0.0, 3.0, 2.0])
    mean, joint = joint_moments(process, 4)
    noisy = mean.reshape(4, 3) + noise(3.0, (4, 3), rng)
    seen = np.repeat(scales > 0, 3)
    law = joint[np.ix_(seen, seen)] + np.diag(np.repeat(2 * laplace_width(scales) ** 2, 3)[seen])
    away = (noisy.ravel() - mean)[seen]
    expected = -0.5 * (away @ np.linalg.solve(law, away) + np.linalg.slogdet(law)[1])
    noisy[1] = np.nan
    assert innovation_log_likelihood(process, noisy, scales).sum() == pytest.approx(expected, abs=1e-9)


def test_series_estimators_say_why_they_do_not_apply() -> None:
    """They need one chain, cells and a known total; the smoother needs values that may wait."""
    known = constraints_for(20)
    for estimator in (Filter(), Smoother()):
        assert estimator.reason_against(1, known) is None
        assert "chain" in str(estimator.reason_against(0, known))
        assert "add up to" in str(estimator.reason_against(1, demands(*at_least_zero(3), cells=3)))
        assert "cells" in str(estimator.reason_against(1, demands(total(1, 20), cells=1)))
        assert estimator.fills
        with pytest.raises(ReleaseError):
            estimator.estimate_series(np.ones((1, 3)), np.ones(1), 0, None, known, None, 0)
    assert Filter().reason_against_delay(0) is None
    assert Smoother().reason_against_delay(None) is None
    assert "wait" in str(Smoother().reason_against_delay(2))


def test_single_steps_cannot_be_filled() -> None:
    """An estimator that looks at one step refuses steps without a release."""
    mle = estimator_kinds()["mle"].model_validate({"name": "mle"})
    with pytest.raises(ReleaseError) as refused:
        mle.estimate_series(np.ones((2, 3)), np.array([1.0, 0.0]), 0, None, constraints_for(3), None, None)
    assert refused.value.code == "E0829"


@pytest.mark.parametrize(("estimator", "delay"), [(Filter(), 0), (Filter(), 3), (Smoother(), None)])
def test_a_stream_has_the_same_values_whatever_came_before(estimator: Filter | Smoother, delay: int | None) -> None:
    """What is kept of one stream changes no bit of the next one with the same noise, nor of one with other noise."""
    generator = np.random.default_rng(5)
    scales = np.where(np.arange(30) % 3 == 1, 0.0, 4.0)

    def values(chain: Chain, series: Array, widths: Array) -> Array:
        return estimator.estimate_series(series, widths, 0, chain, constraints_for(12), None, delay)

    streams = [
        simulate_counts([Chain(forward=BASE)], [12], 30, generator) + noise(4.0, (30, 3), generator) for _ in "ab"
    ]
    alone = [values(Chain(forward=BASE), stream, scales) for stream in streams]
    chain = Chain(forward=BASE)
    values(chain, streams[1], np.full(30, 2.0))
    for stream, wanted in zip(streams, alone, strict=True):
        np.testing.assert_array_equal(values(chain, stream, scales), wanted)
