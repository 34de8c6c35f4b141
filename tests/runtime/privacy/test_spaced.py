"""Releases that are equally far apart: the largest leakage about a step is that about one of them, and is the same."""

from __future__ import annotations

import numpy as np
import pytest

from policyc.planning import schedules
from policyc.planning.leakage import settled_runs
from policyc.planning.leakage.losses import losses_of
from policyc.planning.leakage.recursion import both_sides, largest_of
from policyc.planning.leakage.settled_runs import largest_leakage
from policyc.planning.leakage.spaced import less_between, releases_of, spaced
from policyc.planning.promise import Promise
from policyc.planning.schedules import Group, Run, expand, spare
from policyc_check.steps.chains import Chain


def mixing(states: int, stay: float, seed: int) -> Chain:
    """Users who stay with about so much probability."""
    moves = np.random.default_rng(seed).dirichlet(np.ones(states), size=states)
    return Chain(forward=stay * np.eye(states) + (1 - stay) * moves)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("every", [2, 3, 7, 24, 97])
@pytest.mark.parametrize("stay", [0.2, 0.9, 0.99])
def test_releases_alone_leak_as_much_as_all_steps(
    seed: int, every: int, stay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With heads and tails, several lags, a first release later: to the bit what all steps one by one say."""
    rng = np.random.default_rng(seed)
    chain = mixing(int(rng.integers(2, 6)), stay, seed)
    lags = (1, every, 3 * every) if seed % 2 else (1, every)
    head = [Run(float(e), every, every) for e in rng.uniform(0.1, 0.4, 4)]
    runs = [Run(0.0, every // 2), *head, Run(0.2, 60 * every, every), Run(0.3, every, every), Run(0.35, 5, 5)]
    runs = runs[seed % 2 :]
    group, promise = Group(None, chain, lags), Promise(((1.0, 1),))
    budgets, sides = expand(runs), losses_of(chain)
    before, after = both_sides(budgets, *sides, lags, 1)
    whole = largest_of(budgets, (before, after), 1)
    proposed = schedules._leakage(runs, [group], 1, 9.0, audit=False)
    asked = []
    monkeypatch.setattr(schedules, "less_between", lambda *args: asked.append(less_between(*args)) or asked[-1])
    assert spare(runs, promise, [group]) == 1.0 - whole
    assert asked == [bool(budgets[(before + budgets + after).argmax()])]  # between two a little more may leak
    assert schedules._leakage(runs, [group], 1, 9.0, audit=False) == proposed
    monkeypatch.setattr(schedules, "releases_of", lambda _: None)
    each = schedules._leakage(runs, [group], 1, 9.0, audit=False)  # whose limit is told a hair above it
    assert proposed == pytest.approx(each, rel=1e-11)
    assert schedules._leakage(runs, [group], 1, 9.0, audit=True) == each
    monkeypatch.setattr(settled_runs, "KEPT", 10)
    assert largest_leakage(budgets, *sides, 1, lags) == whole


def test_between_releases_less_leaks_of_chains_that_forget_slowly() -> None:
    """Near the next release the law over the whole gap is looked at: else a step before it seemed to leak more."""
    every, chain = 512, mixing(4, 0.999, 3)
    losses = losses_of(chain)
    budgets = np.zeros(40 * every)
    budgets[::every] = 0.2
    before, after = both_sides(budgets, *losses, (1, every), 1)
    leaked = before + budgets + after
    assert leaked.argmax() % every == 0
    near = leaked.reshape(-1, every)[:, 1:].max(axis=1)
    assert (near[:-1] < np.maximum(leaked[::every][:-1], leaked[::every][1:])).all()


def test_all_steps_are_looked_at_where_more_leaks_between() -> None:
    """Also of a single gap, and where only the bound is too coarse to tell."""
    every, chain = 9, mixing(3, 0.9, 4)
    losses = losses_of(chain)
    between = spaced(losses, (1, every), every)
    assert between is not None
    budgets = np.full(20, 0.3)
    sides = both_sides(budgets, *between[0], between[1], 1)
    assert less_between(budgets, sides, losses, every)
    before, after = np.zeros(20), np.zeros(20)
    before[10] = after[11] = 5.0  # of which a step between these inherits, and neither of the two from the other
    assert not less_between(np.full(20, 1e-9), (before, after), losses, every)


def test_what_is_not_equally_far_apart_is_told() -> None:
    """Other gaps, releases inside a period, lags that end between releases, and laws that move."""
    a, b = (0.3, 0.0, 0.0), (0.2, 0.0)
    assert releases_of([((0.0,), 5), (a, 4), (a, 2), ((0.1, 0.0, 0.0, 0.0), 1)]) == (
        [((0.3,), 4), ((0.3,), 2), ((0.1,), 1)],
        3,
    )
    assert releases_of([(a, 4), (b, 2)]) is None
    assert releases_of([(a, 4), (b, 1), (a, 1)]) is None
    assert releases_of([((0.1, 0.1), 4)]) is None
    assert releases_of([(a, 4), ((0.0,), 3), (a, 4)]) is None
    assert releases_of([((0.0,), 3)]) is None
    losses = losses_of(mixing(3, 0.9, 4))
    assert spaced(losses, (1, 4), 3) is None
    assert spaced(losses, (1, 3, 4), 3) is None
    assert spaced(losses, (1, 2, 3, 6), 3) is not None
    assert spaced(losses, (1,), 1) is None
    moving = Chain(forward=[[0.9, 0.1], [0.2, 0.8]], initial=np.array([0.5, 0.5]))
    assert spaced(losses_of(moving), (1, 3), 3) is None
