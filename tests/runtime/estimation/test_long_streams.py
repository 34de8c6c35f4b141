"""Streams of many steps: pieces of time that are worked on together show in no value."""

from __future__ import annotations

import numpy as np
import pytest
from demands import at_least_zero, demands, total
from numpy.typing import NDArray

from policyc_check.steps.chains import Chain
from policyc_runtime.estimation import gains, kalman, posterior, recursions
from policyc_runtime.estimation.count_process import CountProcess
from policyc_runtime.estimation.kalman import Filter
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.laboratory.simulation import simulate_counts

Array = NDArray[np.float64]
MOVE = np.array([[0.9, 0.06, 0.04], [0.1, 0.85, 0.05], [0.02, 0.08, 0.9]])
CHAIN = Chain(forward=MOVE, initial=np.array([1.0, 0.0, 0.0]))
STEPS, USERS = 300, 500


@pytest.fixture
def noisy() -> Array:
    rng = np.random.default_rng(4)
    return simulate_counts([CHAIN], [USERS], STEPS, rng) + np.rint(rng.laplace(0.0, 6.0, (STEPS, 3)))


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursions, "PIECE", 16)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("delay", [0, 2, None])
def test_pieces_change_nothing_but_rounding(
    noisy: Array, delay: int | None, every: int, request: pytest.FixtureRequest
) -> None:
    """Means computed in short pieces, from values not forgotten by then, are those computed all at once."""
    scales = np.where(np.arange(STEPS) % every == 0, 6.0, 0.0)
    process = CountProcess(float(USERS), 3, CHAIN)
    whole = Posterior(process, scales, delay).means(noisy)
    request.getfixturevalue("short_pieces")
    assert np.abs(Posterior(process, scales, delay).means(noisy) - whole).max() < 1e-9


@pytest.mark.parametrize("begun", [0, 7])
def test_steps_that_came_before_are_found_again(begun: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains of schedules that repeat, looked for in pieces, are those of steps that are followed one by one."""
    settled, scales = CountProcess(float(USERS), 3, Chain(MOVE)), np.zeros(STEPS)
    scales[2::5], scales[150:200:2], scales[0] = 6.0, 9.0, 11.0
    one_by_one = Posterior(settled, scales[:begun], 0)
    for step in range(begun, STEPS):
        one_by_one.go_on(scales[: step + 1])
    monkeypatch.setattr(gains, "TOGETHER", 8)
    followed, follow = [], gains.Forward._follow

    def noted(self: gains.Forward, labels: NDArray[np.intp], *given: object) -> None:
        followed.append(len(labels))
        follow(self, labels, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(gains.Forward, "_follow", noted)
    found = Posterior(settled, scales[:begun], 0)
    found.go_on(scales)
    assert np.array_equal(found._forward.index, one_by_one._forward.index)
    assert sum(followed) < STEPS, "pieces that came before are not followed"


@pytest.mark.law
@pytest.mark.usefixtures("short_pieces")
@pytest.mark.parametrize("every", [1, 3])
def test_one_more_step_has_the_same_bits(noisy: Array, every: int) -> None:
    """A filter that is asked after every step gives, to the last bit, the real numbers that it gives at once."""
    scales = np.where(np.arange(STEPS) % every == 0, 6.0, 0.0)
    constraints = demands(total(3, USERS), *at_least_zero(3), cells=3, integer=False)
    wrong = Chain(forward=np.eye(3) * 0.97 + 0.01)
    for chain in (CHAIN, wrong):
        whole = Filter().estimate_series(noisy, scales, 0, chain, constraints, None, 0)
        for step in (0, 1, 2, 15, 16, 17, 40, 63, 64, 65, 127, 128, 200, 299):
            seen = slice(0, step + 1)
            (alone,) = Filter().estimate_series(noisy[seen], scales[seen], step, chain, constraints, None, 0)
            assert (alone == whole[step]).all()


@pytest.mark.usefixtures("short_pieces")
def test_one_more_step_looks_at_few(noisy: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was forgotten is not computed again: the last step's filter begins shortly before its piece."""
    looked_at: list[int] = []

    def counted(*arguments: Array) -> Array:
        looked_at.append(len(arguments[0]))
        return score(*arguments)

    score = posterior.score
    monkeypatch.setattr(posterior, "score", counted)
    wanted = np.arange(STEPS) == STEPS - 1
    Posterior(CountProcess(float(USERS), 3, CHAIN), np.full(STEPS, 6.0), 0).means(noisy, wanted)
    assert max(looked_at) < STEPS / 2


@pytest.mark.usefixtures("short_pieces")
def test_a_filter_that_was_interrupted_is_not_gone_on_with(noisy: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the midst of what is kept for later steps: these have the values that they have undisturbed."""
    scales = np.where(np.arange(STEPS) % 3 == 0, 6.0, 5.0)
    constraints = demands(total(3, USERS), *at_least_zero(3), cells=3, integer=False)
    whole = Filter().estimate_series(noisy, scales, 0, CHAIN, constraints, None, 0)
    moved = CountProcess.moved
    for interrupted in range(1, 12):
        kalman._growing.clear()
        Filter().estimate_series(noisy[:1], scales[:1], 0, CHAIN, constraints, None, 0)
        left = [interrupted]

        def once(process: CountProcess, rows: Array, left: list[int] = left) -> Array:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            return moved(process, rows)

        with monkeypatch.context() as patched:
            patched.setattr(CountProcess, "moved", once)
            with pytest.raises(KeyboardInterrupt):
                Filter().estimate_series(noisy, scales, 1, CHAIN, constraints, None, 0)
        again = Filter().estimate_series(noisy, scales, 1, CHAIN, constraints, None, 0)
        assert (again == whole[1:]).all()
