"""Steps without values in a row are passed over at once: what is expected of them is what following each gives."""

from __future__ import annotations

import numpy as np
import pytest

from policyc_check.steps.chains import Chain
from policyc_runtime.estimation import gaps, kalman
from policyc_runtime.estimation.count_process import CountProcess, Mixture
from policyc_runtime.estimation.gains import Backward, Forward
from policyc_runtime.estimation.kalman import Smoother
from policyc_runtime.estimation.posterior import Posterior


def walkers(kind: str, seed: int = 1) -> CountProcess:
    """Users of one chain, of groups on one each, or counted in larger values than they move between."""
    rng = np.random.default_rng(seed)
    chains = [Chain(forward=0.9 * np.eye(4) + 0.1 * rng.dirichlet(np.ones(4), size=4)) for _ in range(2)]
    if kind == "groups":
        return CountProcess.of(900.0, Mixture(chains, [0.3, 0.7]))
    if kind == "levels":
        return CountProcess.of(900.0, Mixture(chains[:1], [1.0], of=[0, 0, 1, 1]))
    return CountProcess.of(900.0, chains[0])


@pytest.mark.parametrize("kind", ["one chain", "groups", "levels"])
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("at", [(0, 40, 80, 120), (5, 6, 30), (199,), (3, 100, 197, 198)])
def test_variances_are_those_of_every_step(kind: str, balanced: bool, at: tuple[int, ...]) -> None:
    """With gaps of all lengths, before the first release and after the last, and noise that differs."""
    scales = np.zeros(200)
    scales[list(at)] = np.random.default_rng(2).uniform(3.0, 30.0, len(at))
    process = walkers(kind)
    each = Posterior(process, scales, None, balanced=balanced).variances()
    once = Posterior(process, scales, None, balanced=balanced, gaps_at_once=True).variances()
    assert once == pytest.approx(each, rel=1e-8)


@pytest.mark.parametrize("kind", ["one chain", "groups", "levels"])
def test_powers_are_the_same_whatever_was_asked_for_before(kind: str) -> None:
    """To the last bit: one process may have looked at other gaps first than another one."""
    process, once, often = walkers(kind), gaps.Gaps(walkers(kind)), gaps.Gaps(walkers(kind))
    covariance = process.start() * 0.7
    for steps in (1, 2, 3, 5, 6, 9, 17, 100, 101, 333):
        often.covariance(covariance, steps)
    for steps in (333, 100, 64, 5):
        assert np.array_equal(once.covariance(covariance, steps), often.covariance(covariance, steps))
        assert np.array_equal(once.told_back(covariance, steps), often.told_back(covariance, steps))


@pytest.mark.parametrize("kind", ["one chain", "groups", "levels"])
@pytest.mark.parametrize("steps", [1, 2, 3, 17, 64, 300])
def test_powers_are_what_every_step_makes(kind: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of covariances moved on, and of what later steps say moved back, one step after the other."""
    process, rng = walkers(kind), np.random.default_rng(steps)
    known = gaps.Gaps(process)
    covariance = process.start() * rng.uniform(0.2, 1.0)
    told = rng.normal(size=covariance.shape)
    told = told @ told.T
    forward = Forward(process, np.zeros(1, dtype=np.intp), [np.full(process.cells, 0.1)])
    backward = Backward(process, forward)
    one, other = covariance, told
    for _ in range(steps):
        one, other = forward._moved_on(process.moved(one), 0), backward._told_back(other)
    assert known.covariance(covariance, steps) == pytest.approx(one, rel=1e-11, abs=1e-11 * one.max())
    assert known.told_back(told, steps) == pytest.approx(other, rel=1e-11, abs=1e-13 * told.max())
    whole = known.variances(np.array([covariance, one]), np.array([told, other]) * 1e-6, steps)
    monkeypatch.setattr(gaps, "NUMBERS", 1)
    assert (known.variances(np.array([covariance, one]), np.array([told, other]) * 1e-6, steps) == whole).all()


def test_expected_errors_are_the_same_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps are passed over where most steps have no values and the law does not move, and nowhere else."""
    process, scales = walkers("one chain"), np.zeros(90)
    scales[4::10] = 12.0
    moving = Chain(forward=process.move, initial=np.array([0.7, 0.1, 0.1, 0.1]))
    smoother, asked = Smoother(), []

    def errors(chain: Chain, noise: np.ndarray) -> np.ndarray:
        found = smoother.predicted_errors(chain, 900, noise, None, "mean_squared_error", integer=False)
        assert found is not None
        return found

    made = kalman.Posterior
    monkeypatch.setattr(
        kalman, "Posterior", lambda *args, **kw: asked.append(kw.get("gaps_at_once")) or made(*args, **kw)
    )
    once = errors(process.chain, scales)
    assert asked == [True]
    monkeypatch.setattr(kalman, "_mostly_gaps", lambda *_: False)
    assert once == pytest.approx(errors(process.chain, scales), rel=1e-8)
    assert asked == [True, None]
    monkeypatch.undo()
    assert not kalman._mostly_gaps(CountProcess.of(900.0, moving), scales)
    assert not kalman._mostly_gaps(process, np.full(90, 12.0))
    assert not kalman._mostly_gaps(process, np.zeros(90))
    monkeypatch.setattr(gaps, "NUMBERS", 9 * 16 - 1)
    assert not kalman._mostly_gaps(process, scales)
