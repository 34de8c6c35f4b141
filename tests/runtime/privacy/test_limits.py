"""Leakage that settles after thousands of steps is told at once: never less than it is, and hardly more in the end."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from policyc.planning.leakage import one_side
from policyc.planning.leakage.inheritance import audited_group, proposed_group
from policyc.planning.leakage.limits import NEAR, limit, periods_until
from policyc.planning.leakage.losses import Losses, losses_of
from policyc.planning.leakage.recursion import both_sides, largest_of, supremum, total_leakage
from policyc_check.steps.chains import Chain


def slow(states: int, stay: float, seed: int, initial: str = "stationary") -> Chain:
    """Users who stay where they are with at least about so much probability."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(states), size=states)
    law = "stationary" if initial == "stationary" else rng.dirichlet(np.ones(states))
    return Chain(forward=stay * np.eye(states) + (1 - stay) * moves, initial=law)


@pytest.mark.parametrize("slope", [0.5, 0.99, 0.9999])
@pytest.mark.parametrize("begun", [0.0, 3.0, 90.0])
def test_the_limit_of_a_map_is_found_from_above(slope: float, begun: float) -> None:
    """Of a map that takes the same part of a gap each time, and bends; from below, from above, and with two steps."""

    def later(leaked: np.ndarray) -> np.ndarray:
        first = 1.0 + slope * leaked[-1] - (1 - slope) * 1e-3 * min(leaked[-1], 10.0) ** 2
        return np.array([first, 0.5 + 0.9 * first])

    at = np.full(2, 50.0)
    for _ in range(200):  # Newton's method for the last step of the period
        b = 0.5 + 0.9 * (1.0 + slope * at[-1] - (1 - slope) * 1e-3 * min(at[-1], 10.0) ** 2)
        slope_here = 0.9 * (slope - (1 - slope) * 2e-3 * at[-1] * (at[-1] < 10))
        at[-1] += (b - at[-1]) / (1 - slope_here)
    found = limit(later, np.full(2, begun))
    assert found is not None
    start, part = found
    assert (later(start) < start).all()
    assert start[-1] == pytest.approx(at[-1], rel=1e-8)
    assert start[-1] >= at[-1]
    assert part == pytest.approx(0.9 * slope, abs=0.02)


def test_what_grows_without_end_has_no_limit() -> None:
    """All is passed on, and more comes each time: evenly, or ever more."""
    assert limit(lambda leaked: leaked + 0.1, np.array([1.0])) is None
    assert limit(lambda leaked: 1.01 * leaked + 0.1, np.array([1.0])) is None
    assert periods_until(np.array([1.0]), np.array([2.0]), 0.5) == pytest.approx(math.log2(0.5 / NEAR))
    assert periods_until(np.array([2.0]), np.array([2.0]), 0.5) == 0.0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stay", [0.97, 0.99])
@pytest.mark.parametrize("period", [1, 2, 7, 40])
@pytest.mark.parametrize("several", [False, True])
def test_what_is_told_at_once_is_never_less(seed: int, stay: float, period: int, several: bool) -> None:
    """Against the recursion step by step: with heads that leak more or less, moving laws, several lags, and tails."""
    rng = np.random.default_rng(seed)
    chain = slow(int(rng.integers(2, 5)), stay, seed, "stationary" if seed else "other")
    pattern = np.zeros(period)
    pattern[0] = rng.choice([0.002, 0.02, 0.2]) * min(period, 10)
    if seed == 3:
        pattern[period // 2] += 0.01
    lags = tuple(sorted({1, period, 3 * period, 5})) if several else (1, period)
    budgets = np.concatenate([rng.uniform(0, 4 * pattern[0], 3), np.tile(pattern, 8_000 // period), [0.0, 0.0, 0.1]])
    sides = losses_of(chain)
    literal, told = (both_sides(budgets, *sides, lags, ahead=ahead) for ahead in (False, True))
    for exact, found in zip(literal, told, strict=True):
        assert (found >= exact * (1 - 1e-12)).all()
        assert found.max() <= exact.max() * (1 + 10 * NEAR)
    assert (total_leakage(budgets, *sides, lags) == literal[0] + budgets + literal[1]).all()  # the paper's, as it is
    proposed = proposed_group(budgets, chain, lags, ahead=True).windows(1)
    assert (proposed >= (literal[0] + budgets + literal[1]) * (1 - 1e-12)).all()
    assert proposed.max() <= (literal[0] + budgets + literal[1]).max() * (1 + 10 * NEAR)
    if seed:  # of laws that move the check looks at every single step
        assert (audited_group(budgets, chain, lags, ahead=True).windows(1) == proposed).all()
    exact = proposed_group(budgets, chain, lags).windows(1)
    assert exact == pytest.approx(literal[0] + budgets + literal[1], rel=1e-9)  # with room for roundings


def test_the_limit_is_the_papers_closed_form() -> None:
    """Of a constant budget."""
    chain = slow(3, 0.9995, 5)
    back, ahead = losses_of(chain)
    budgets = np.full(300_000, 1e-3)
    found = both_sides(budgets, back, ahead, ahead=True)
    assert found[0][10_000] == found[0][-1]
    assert found[0][-1] + 1e-3 == pytest.approx(supremum(1e-3, back), rel=1e-8)
    assert found[1][0] + 1e-3 == pytest.approx(supremum(1e-3, ahead), rel=1e-8)
    assert found[0][-1] + 1e-3 >= supremum(1e-3, back)


@pytest.mark.parametrize("steps", [3_000, 20_000])
def test_a_stretch_that_ends_before_it_comes_near_is_followed(steps: int) -> None:
    """What it would come to later is more than what is leaked: no budget is wasted on it."""
    chain = slow(3, 0.9999, 2)
    budgets = np.full(steps, 1e-4)
    exact = both_sides(budgets, *losses_of(chain))[0]
    assert (both_sides(budgets, *losses_of(chain), ahead=True)[0] == exact).all()


def test_a_step_is_told_too_much_only_after_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thousand are followed; with more patience more are."""
    chain = slow(3, 0.999, 1)
    budgets = np.full(200_000, 1e-3)
    exact = both_sides(budgets, *losses_of(chain))[0]
    for steps in (1_024, 2_000):
        monkeypatch.setattr(one_side, "_PATIENCE", steps)
        found = both_sides(budgets, *losses_of(chain), ahead=True)[0]
        assert (found[: steps + 1] == exact[: steps + 1]).all()
        assert found[steps + 1] > exact[steps + 1]


@pytest.mark.parametrize(("mixed", "epsilon", "lost"), [(1e-5, 1e-6, 3e-3), (1e-4, 1e-6, 1e-3)])
def test_a_side_that_settles_alone_is_followed(mixed: float, epsilon: float, lost: float) -> None:
    """Where the other side still leaks more long before, a limit told early would be added to what is not there yet."""
    s = 1e-3
    moves = np.array([[1 - s, 0, s, 0], [0, 1 - s, 0, s], [0.25] * 4, [0, 0, 1, 0]])
    chain = Chain(forward=(1 - mixed) * moves + mixed / 4)
    budgets, sides = np.full(60_000, epsilon), losses_of(chain)
    literal = both_sides(budgets, *sides)
    exact, told = (largest_of(budgets, both, 1) for both in (literal, both_sides(budgets, *sides, ahead=True)))
    alone = [inherited_ahead(budgets if side is sides[0] else budgets[::-1], side) for side in sides]
    assert [any(stretch.early for stretch in told_of) for _, told_of in alone].count(True) == 1
    each = alone[0][0], alone[1][0][::-1]
    assert largest_of(budgets, each, 1) > exact * (1 + lost), "had each side been asked alone"
    assert exact <= told <= exact * (1 + 10 * NEAR)
    group = proposed_group(budgets, chain, ahead=True)
    assert group.largest()[0] <= exact * (1 + 1e-9)


def inherited_ahead(budgets: np.ndarray, side: Losses) -> tuple[np.ndarray, list[one_side.Told]]:
    """What is inherited from one side alone, and what of it is told early."""
    told: list[one_side.Told] = []
    found = one_side.inherited(budgets, side, (1,), lambda t, lag, a: side.loss(t, lag)(a), operator.add, ahead=told)
    return found[0], told
