"""Several groups of users of known sizes: what is seen are sums over groups, and all moments are those of groups."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from policyc_check.steps.chains import Chain
from policyc_runtime.estimation.count_process import CountProcess, Mixture
from policyc_runtime.estimation.gains import Forward
from policyc_runtime.estimation.kalman import Filter, Smoother
from policyc_runtime.estimation.map import Map
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.groups import group_sizes
from policyc_runtime.laboratory.simulation import simulate_counts

STAY = Chain([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.1, 0.1, 0.8]], initial=[0.8, 0.1, 0.1])
MIX = Chain([[0.4, 0.3, 0.3], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]])
SHARES = (0.3, 0.7)
USERS, STEPS = 400, 8
SCALES = np.array([6.0, 0.0, 6.0, 3.0, 6.0, 6.0, 0.0, 6.0])


def dense(process: CountProcess, steps: int) -> np.ndarray:
    """The covariance of the counts of all groups at all steps, (steps states, steps states), block by block."""
    n = process.states
    whole, now = np.zeros((steps * n, steps * n)), process.start()
    for t in range(steps):
        here = slice(t * n, (t + 1) * n)
        whole[here, here] = now
        onward = now
        for later in range(t + 1, steps):
            onward = onward @ process.move
            there = slice(later * n, (later + 1) * n)
            whole[here, there], whole[there, here] = onward, onward.T
        now = process.move.T @ now @ process.move + process.spread(t)
    return whole


def conditioned(process: CountProcess, precisions: np.ndarray, step: int, last: int) -> np.ndarray:
    """Variances of the sums at a step given values of the sums at the steps up to `last`, by one large inverse."""
    steps, n, m = len(precisions), process.states, process.cells
    sums = np.zeros((steps * m, steps * n))
    for t in range(steps):
        for own in process.blocks:
            sums[t * m : (t + 1) * m, t * n + own.start : t * n + own.stop] = np.eye(m)
    C = sums @ dense(process, steps) @ sums.T
    weight = np.where(np.arange(steps)[:, None] <= last, precisions, 0.0).ravel()
    root = np.sqrt(weight)
    after = C - C * root @ np.linalg.solve(np.eye(len(C)) + root[:, None] * C * root, root[:, None] * C)
    return np.diag(after)[step * m : (step + 1) * m]


def test_moments_are_those_of_simulated_groups() -> None:
    """Means and covariances of the sums, at step 0, later, and between steps."""
    process = CountProcess.of(USERS, Mixture([STAY, MIX], SHARES))
    generator = np.random.default_rng(1)
    drawn = np.array([simulate_counts([STAY, MIX], [120, 280], 4, generator) for _ in range(20_000)])
    assert drawn.mean(axis=0) == pytest.approx(process.seen(process.expected(4)), abs=0.4)
    whole = dense(process, 4).reshape(4, process.states, 4, process.states)
    for t, later in ((0, 0), (3, 3), (0, 2)):
        sums = process.seen(process.seen(whole[t, :, later]).T).T
        away = [drawn[:, step] - drawn[:, step].mean(axis=0) for step in (t, later)]
        assert away[0].T @ away[1] / len(drawn) == pytest.approx(sums, abs=2.5)


def test_covariances_are_those_of_one_large_inverse() -> None:
    """Filter, fixed lag and smoother: what the recursions over stacked counts give, all steps conditioned at once."""
    process = CountProcess.of(USERS, Mixture([STAY, MIX], SHARES))
    precisions = np.where(SCALES > 0, 1.0 / np.where(SCALES > 0, 2 * SCALES**2, 1.0), 0.0)[:, None] * np.ones(3)
    forward = Forward(process, np.arange(STEPS), precisions)
    for t in range(STEPS):
        found = np.diag(process.seen(process.seen(forward.after[forward.index[t]]).T))
        assert found == pytest.approx(conditioned(process, precisions, t, t), rel=1e-8)
    for delay in (None, 2):
        posterior = Posterior(process, SCALES, delay)
        used = np.array(posterior._forward.precision)[posterior._forward.index]
        for t in range(STEPS):
            last = STEPS if delay is None else t + delay
            assert posterior.variances()[t] == pytest.approx(conditioned(process, used, t, last), rel=1e-6)


def test_alike_groups_are_one() -> None:
    """Two groups on one chain have the moments, and the estimates, of all users on it, but for who begins where."""
    one, two = CountProcess.of(USERS, MIX), CountProcess.of(USERS, Mixture([MIX, MIX], (0.5, 0.5)))
    noisy = simulate_counts([MIX], [USERS], 30, np.random.default_rng(2)) + np.zeros((30, 3))
    noisy += np.rint(np.random.default_rng(3).laplace(0.0, 6.0, noisy.shape))
    scales = np.full(30, 6.0)
    for delay in (0, 2, None):
        found = [Posterior(process, scales, delay) for process in (one, two)]
        assert found[1].variances() == pytest.approx(found[0].variances(), rel=1e-6)
        assert found[1].means(noisy) == pytest.approx(found[0].means(noisy), abs=1e-4)


@pytest.mark.parametrize(("estimator", "delay"), [(Filter(), 0), (Filter(), 2), (Smoother(), None)])
def test_errors_are_as_predicted(estimator: Filter | Smoother, delay: int | None) -> None:
    """Of simulated groups, 300 streams: within 5 % and four standard errors."""
    mixed = Mixture([STAY, MIX], SHARES)
    scales = np.resize(SCALES, 24)
    predicted = estimator.predicted_errors(mixed, USERS, scales, delay, "mean_squared_error", integer=False)
    assert predicted is not None
    generator = np.random.default_rng(4)
    process, away = CountProcess.of(USERS, mixed), []
    posterior = Posterior(process, scales, delay)
    for _ in range(300):
        true = simulate_counts([STAY, MIX], group_sizes(USERS, [Fraction(3, 10), Fraction(7, 10)]), 24, generator)
        stop = np.where(scales > 0, -np.expm1(-1 / np.where(scales > 0, scales, 1.0)), 1.0)[:, None]
        noisy = true + generator.geometric(stop, true.shape) - generator.geometric(stop, true.shape)
        away.append(float(((posterior.means(noisy.astype(np.float64)) - true) ** 2).mean()))
    assert np.mean(away) == pytest.approx(
        float(predicted.mean()), abs=0.05 * float(predicted.mean()) + 4 * np.std(away) / np.sqrt(300)
    )


def test_the_law_of_a_step_is_the_mixture_of_the_groups() -> None:
    """The prior of `map`, from every start: each group moves on by its own chain, and shares stay."""
    mixed = Mixture([STAY, MIX], SHARES)
    seen = np.array([200.0, 150.0, 50.0])
    for prior, starts in (
        ("initial", [STAY.marginal(0), MIX.marginal(0)]),
        ("uniform", [np.full(3, 1 / 3)] * 2),
        ("frequency", [seen / seen.sum()] * 2),
    ):
        laws = Map(prior=prior).law(mixed, range(5), 3, seen)
        for step in range(5):
            each = [
                start @ np.linalg.matrix_power(c.forward, step) for start, c in zip(starts, (STAY, MIX), strict=True)
            ]
            assert laws[step] == pytest.approx(0.3 * each[0] + 0.7 * each[1], rel=1e-12)


@pytest.mark.parametrize("delay", [0, None])
@pytest.mark.parametrize("stay", [0.9, 0.9999, 0.999999])
@pytest.mark.parametrize("users", [10**6, 10**8, 10**10])
def test_hardly_any_noise_beside_many_users(users: int, stay: float, delay: int | None) -> None:
    """Sums are taken about as they are, of however many users; groups that they do not tell apart have to make them."""
    scales, seen = np.array([0.02, 0.0, 0.02, 0.02, 0.0, 0.02] * 3), [0, 2, 3, 5]
    chains = [Chain(rows * np.ones((4, 4)) / 4 + (1 - rows) * np.eye(4)) for rows in (1 - stay, (1 - stay) / 3)]
    for seed in range(3):
        for mixture in (Mixture(chains, SHARES), Mixture(chains[:1], [1.0], of=[0, 0, 1, 1])):
            process = CountProcess.of(users, mixture)
            true = process.drawn(18, 1, np.random.default_rng(seed))[:, 0].astype(np.float64)
            assert np.abs(Posterior(process, scales, delay).means(true) - true)[seen].max() < 0.5
