"""Releases that are equally far apart: the largest leakage about a step is that about one of them, and is the same."""

from __future__ import annotations

import numpy as np
import pytest

from policyc.planning import schedules
from policyc.planning.leakage import settled_runs
from policyc.planning.leakage import spaced as spaced_releases
from policyc.planning.leakage.losses import losses_of
from policyc.planning.leakage.proposals import proposed, proposed_each
from policyc.planning.leakage.recursion import both_sides, largest_of, window_leakage
from policyc.planning.leakage.settled_runs import largest_leakage
from policyc.planning.leakage.spaced import largest_between, less_between, releases_of, spaced
from policyc.planning.promise import Promise
from policyc.planning.schedules import Group, Run, expand, spare
from policyc_check.steps.chains import Chain

GAPS = pytest.mark.parametrize("every", [2, 3, 7, 24, 97])
STAYS = pytest.mark.parametrize("stay", [0.2, 0.9, 0.99])


def mixing(states: int, stay: float, seed: int) -> Chain:
    """Users who stay with about so much probability."""
    moves = np.random.default_rng(seed).dirichlet(np.ones(states), size=states)
    return Chain(forward=stay * np.eye(states) + (1 - stay) * moves)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(5))
@GAPS
@STAYS
def test_releases_alone_leak_as_much_as_all_steps(
    seed: int, every: int, stay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With heads and tails, several lags, a first release later: what all steps one by one say, to roundings.

    To the bit where a release leaks most.
    """
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
    left, at_a_release = spare(runs, promise, [group]), bool(budgets[(before + budgets + after).argmax()])
    assert len(asked) == 1
    assert at_a_release or not asked[0]  # between two a little more may leak
    assert left == 1.0 - whole if asked[0] else left == pytest.approx(1.0 - whole, abs=1e-11)
    assert schedules._leakage(runs, [group], 1, 9.0, audit=False) == proposed
    monkeypatch.setattr(schedules, "releases_of", lambda _: None)
    each = schedules._leakage(runs, [group], 1, 9.0, audit=False)  # whose limit is told a hair above it
    assert proposed == pytest.approx(each, rel=1e-11)
    assert schedules._leakage(runs, [group], 1, 9.0, audit=True) == each
    monkeypatch.setattr(settled_runs, "KEPT", 10)
    assert largest_leakage(budgets, *sides, 1, lags) == pytest.approx(whole, rel=1e-11)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(6))
@GAPS
@STAYS
def test_of_steps_in_a_row_releases_alone_tell_as_much_as_all(
    seed: int, every: int, stay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shorter than a gap, whole gaps, some more, and nearly all steps; budgets that differ; heads and tails."""
    rng = np.random.default_rng(100 * every + seed)
    chain = mixing(int(rng.integers(2, 6)), stay, seed)
    lags = (1, every, 3 * every) if seed % 2 else (1, every)
    losses = losses_of(chain)
    released = np.where(rng.random(20) < 0.2, rng.uniform(0.05, 0.9, 20), 0.3)
    budgets = np.zeros(20 * every)
    budgets[::every] = released
    budgets = np.concatenate([np.zeros(seed * every // 7), budgets[: len(budgets) - seed * every // 9]])
    between = spaced(losses, lags, every)
    assert between is not None
    sides = both_sides(released, *between[0], between[1], 0)
    monkeypatch.setattr(settled_runs, "KEPT", 4)
    for width in {2, every - 1, every, every + 1, 3 * every, 5 * every + 1, 7 * every - 1, len(budgets)} - {1}:
        whole = float(window_leakage(budgets, *losses, width, lags).max())
        found = largest_between(released, sides, losses, every, width)
        assert whole * (1 - 1e-14) <= found <= whole * (1 + 1e-9), width  # by several lags hardly more
        assert largest_leakage(budgets, *losses, width, lags) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", [2, 5, 6, 7, 20, 29, 30, 400])
def test_steps_in_a_row_are_searched_and_proposed_from_releases_alone(
    seed: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a schedule leaves of a promise, and what the check will accept of it at most, to roundings."""
    every, chain = 6, mixing(3, 0.95, seed)
    head = [Run(float(e), every, every) for e in np.random.default_rng(seed).uniform(0.1, 0.4, 3)]
    runs = [Run(0.0, seed), *head, Run(0.2, 60 * every, every), Run(0.35, seed + 1, seed + 1)][seed == 0 :]
    group, promise = Group(None, chain, (1, every)), Promise(((9.0, window),))
    left, proposals = spare(runs, promise, [group]), schedules._leakage(runs, [group], window, 99.0, audit=False)
    asked = []
    monkeypatch.setattr(schedules, "releases_of", lambda _: asked.append(True))
    each = schedules._leakage(runs, [group], window, 99.0, audit=True)
    assert each <= proposals <= each * (1 + 1e-11)
    assert asked
    assert left == pytest.approx(spare(runs, promise, [group]), abs=1e-11)


@pytest.mark.parametrize("few", [1, 5, 1_000])
def test_what_no_other_is_as_large_as_is_kept(few: int) -> None:
    """Of columns of which many, or none, are as large as others; together the kept ones are as large as all."""
    rng = np.random.default_rng(few)
    for found in (rng.random((3, 300)), np.array([np.arange(200.0), np.zeros(200), 200.0 - np.arange(200)])):
        kept = spaced_releases._undominated(found, few)
        assert kept.shape[1] <= max(few, 1)
        assert (kept[:, None, :] >= found[:, :, None]).all(axis=0).any(axis=1).all()
        if few >= found.shape[1]:
            assert {*map(tuple, kept.T.tolist())} <= {*map(tuple, found.T.tolist())}
    some = np.array([[1.0, 2.0, 2.0, 0.0], np.zeros(4), [1.0, 1.0, 1.0, 3.0]])
    assert spaced_releases._undominated(some, few).shape[1] <= 2
    stairs = rng.random((3, 5_000)) * [[1.0], [0.0], [1.0]]  # of one sum between all that matter are found
    known = stairs[:, [not ((stairs >= one[:, None]).all(axis=0) & (stairs > one[:, None]).any(axis=0)).any()
                       for one in stairs.T]]  # fmt: skip
    if few == 1_000:
        found = spaced_releases._undominated(stairs, few)
        assert {*map(tuple, found.T.tolist())} == {*map(tuple, known.T.tolist())}


def test_many_are_proposed_as_one() -> None:
    """Also of rows that are known roughly to roundings, of nothing, and of next to nothing."""
    for loss in (losses_of(mixing(4, 0.9, 2))[0].loss(1, 1), losses_of(mixing(3, 0.7, 1))[1].loss(9, 9)):
        leakages = np.array([0.0, 1e-300, 1e-12, 0.1, 3.0, 40.0])
        each = [proposed(loss, leakage) for leakage in leakages.tolist()]
        assert proposed_each(loss, leakages) == pytest.approx(each, rel=1e-15, abs=0)
        assert loss.relative_error or len(loss.matrix) == 4


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


def test_laws_over_all_gaps_are_looked_at_where_more_leaks_between() -> None:
    """Also of a single gap, and where only few laws are too coarse to tell."""
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
    assert spaced(losses, (1, 2, 3, 6), 3) is None
    assert spaced(losses, (1, 3, 6), 3) is not None
    assert spaced(losses, (1,), 1) is None
    moving = Chain(forward=[[0.9, 0.1], [0.2, 0.8]], initial=np.array([0.5, 0.5]))
    assert spaced(losses_of(moving), (1, 3), 3) is None
