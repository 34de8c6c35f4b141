"""Gaps between releases of chains of hundreds of states, taken for shorter ones: what leaks most stays what it is."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.planning.leakage.gaps import FINE, _fewest
from policyc.planning.leakage.inheritance import (
    audited_group,
    audited_stationary_leakage,
    digits_around,
    digits_for,
    proposed_group,
    settled_leakage,
)
from policyc.planning.leakage.losses import Losses, losses_of
from policyc.planning.leakage.recursion import both_sides, window_leakage
from policyc.planning.leakage.settled_runs import largest_leakage
from policyc_check.steps.chains import Chain

MANY = "policyc.planning.leakage.gaps.MANY"


def staying(stay: float, states: int = 5, seed: int = 5) -> Chain:
    rows = np.random.default_rng(seed).random((states, states)) + 0.05
    return Chain(stay * np.eye(states) + (1 - stay) * rows / rows.sum(axis=1, keepdims=True))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_largest_leakage_is_that_of_all_laws(data: st.DataObject) -> None:
    """Bit for bit, whatever users do between releases; what steps inherit is accepted, and leaks as much at most."""
    chain = staying(data.draw(st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.9999])), seed=data.draw(st.integers(0, 9)))
    every, phase = data.draw(st.integers(1, 20)), data.draw(st.integers(0, 7))
    budgets = np.zeros(data.draw(st.integers(phase + 1, 90)))
    some = data.draw(st.lists(st.sampled_from([0.0, 0.03, 0.2, 0.5]), min_size=1, max_size=3))
    budgets[phase::every] = np.resize(some, len(budgets[phase::every]))
    lags = data.draw(st.sampled_from([(1, every), (1, every, 3 * every), (1, 2, 3)]))
    sides = chain.backward_side(), chain.forward_side()
    before, after = (Losses(side) for side in sides)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MANY, 2)
        found = largest_leakage(budgets, before, after, 1, lags)
        digits = digits_for(budgets, chain, lags)
    assert found == window_leakage(budgets, *sides, 1, lags).max()
    shown, all_laws = (audited_group(budgets, chain, lags, digits=kept) for kept in (digits, FINE))
    assert shown.largest() == all_laws.largest()
    assert (shown.windows(1) >= all_laws.windows(1)).all()
    assert (shown.windows(1) == proposed_group(budgets, chain, lags, digits=digits).windows(1)).all()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_largest_leakage_of_a_period_is_that_of_all_laws(data: st.DataObject) -> None:
    """The same of what repeats for ever, whose numbers the check shows: each step between releases leaks no less."""
    chain = staying(data.draw(st.sampled_from([0.0, 0.5, 0.9, 0.97])), seed=data.draw(st.integers(0, 9)))
    budgets = np.zeros(data.draw(st.integers(2, 40)))
    some = data.draw(st.lists(st.sampled_from([0.0, 0.03, 0.2, 0.5]), min_size=1, max_size=3))
    apart = budgets[:: data.draw(st.integers(1, 20))]
    apart[: len(some)] = some[: len(apart)]
    lags = data.draw(st.sampled_from([1, (1, len(budgets)), (1, 2, 3)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MANY, 2)
        digits = digits_around(budgets, chain, lags)
        found = audited_stationary_leakage(budgets.tolist(), chain, lags)
        told = settled_leakage(budgets.tolist(), chain, lags)
        asked = data.draw(st.sampled_from([0.1, 0.5, 2.0, 8.0]))
        up_to = settled_leakage(budgets.tolist(), chain, lags, asked)
    assert up_to == told if told <= asked else up_to > asked
    assert found <= told <= found * (1 + 2e-10)
    shown, all_laws = (audited_group(budgets, chain, lags, endless=True, digits=kept) for kept in (digits, None))
    assert found == shown.largest()[0] == all_laws.largest()[0]
    assert (shown.windows(1) >= all_laws.windows(1) * (1 - 1e-12)).all()  # each is raised by roundings of its own


def test_few_laws_of_a_period_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a release every 17 steps 1, 17 and what is to be kept between; where users hardly stay, nothing."""
    monkeypatch.setattr(MANY, 2)
    budgets = np.zeros(17)
    budgets[5] = 0.05
    assert [digits_around(budgets, staying(stay), (1, 17)) for stay in (0.5, 0.8, 0.9, 0.95)] == [0, 1, 2, 3]


def test_few_laws_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of gaps of 17 steps 1 and 17; where users stay longer 2, 4, 8 and 16 as well, or 3, 6 and 12, or all."""
    monkeypatch.setattr(MANY, 2)
    budgets = np.zeros(120)
    budgets[5::17] = 0.4
    asked: set[int] = set()
    loss = Losses.loss

    def noted(side: Losses, step: int, lag: int) -> object:
        asked.add(lag)
        return loss(side, step, lag)

    monkeypatch.setattr(Losses, "loss", noted)
    for chain, kept in ((staying(0.5), {1, 17}), (staying(0.8), {1, 2, 4, 8, 16, 17})):
        asked.clear()
        largest_leakage(budgets, chain.backward_side(), chain.forward_side(), 1, (1, 17))
        assert asked == kept
    assert digits_for(budgets, staying(0.5), (1, 17)) == 0
    assert digits_for(budgets, staying(0.8), (1, 17)) == 1
    assert digits_for(budgets, staying(0.9), (1, 17)) == 2
    assert digits_for(budgets, staying(0.97), (1, 17)) == 3
    ring = 0.6 * np.eye(6) + 0.3 * np.roll(np.eye(6), 1, axis=1) + 0.1 * np.roll(np.eye(6), -1, axis=1)
    assert digits_for(budgets, Chain(ring), (1, 17)) == FINE
    assert digits_for(budgets, Chain(ring), (1, 17), most=0.1) == 0  # releases alone leak more than is asked


def test_a_search_does_with_few_laws_where_more_help_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found then is never less than by all laws, and hardly more; where more laws help, all are looked at."""
    monkeypatch.setattr(MANY, 2)
    walk = 0.8 * np.eye(7) + 0.13 * np.roll(np.eye(7), 1, axis=1) + 0.07 * np.roll(np.eye(7), -1, axis=1)
    used = set()
    for every in range(2, 30):
        budgets, lags = np.zeros(4 * every), (1, every)
        budgets[::every] = 0.05
        for chain in (Chain(walk), staying(0.97), staying(0.99)):
            sides = Losses(chain.backward_side()), Losses(chain.forward_side())
            exact = window_leakage(budgets, *sides, 1, lags).max()
            found = largest_leakage(budgets, *sides, 1, lags, most=50.0)
            used.add(digits_for(budgets, chain, lags, most=50.0))
            assert exact <= found <= exact * (1 + 1e-4)
    assert {3, FINE} <= used


def test_more_laws_are_looked_at_only_where_they_lower_what_is_told() -> None:
    """By what releases leak and what leaks between them at 0, 1, 2, 3 and all digits, of which some are asked."""
    budgets, asked = np.array([1.0, 0.0]), list[int]()

    def told(*between: float) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
        def find(digits: int) -> tuple[np.ndarray, np.ndarray]:
            asked.append(digits)
            return np.array([0.0, between[digits]]), np.zeros(2)

        return find

    for leaked, most, digits, looked_at in (
        ((0.9, 0.9, 0.9, 0.9), math.inf, 0, [0]),
        ((1.1, 0.9, 0.9, 0.9), math.inf, 1, [0, 1]),
        ((1.1, 1.1, 1.1, 1.1), math.inf, 3, [0, 1, 2, 3]),
        ((1.1, 1.1, 1.1, 1.1 - 1e-7), math.inf, 5, [0, 1, 2, 3]),  # what is stated is as low as it can be
        ((1.1, 1.1, 1.1, 1.1 - 1e-7), 2.0, 3, [0, 1, 2, 3]),
        ((1.1, 1.1, 1.1, 1.1 - 1e-4), 2.0, 5, [0, 1, 2, 3]),
        ((1.1, 1.1, 1.1, 1.1), 0.9, 0, [0]),
    ):
        asked.clear()
        assert _fewest(budgets, told(*leaked), 0, 5, most) == digits
        assert asked == looked_at
    asked.clear()
    assert _fewest(budgets, told(1.1, 1.1, 1.1, 1.1), 3, 5, 2.0) == 3
    assert asked == [3, 0]  # whether more help is not known before
    assert _fewest(budgets, told(), 5, 5, 2.0) == 5


def test_rows_known_roughly_leak_no_less_by_few_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stated for rows that are off by a little goes from step to step between releases, and is a bound."""
    budgets = np.zeros(60)
    budgets[2::5] = 0.3
    for stay in (0.3, 0.9):
        chain = staying(stay)
        for rho in (0.001, 0.05):
            before, after = losses_of(chain, rho)
            exact = window_leakage(budgets, before, after, 1, (1, 5))
            with monkeypatch.context() as patch:
                patch.setattr(MANY, 2)
                found = largest_leakage(budgets, *losses_of(chain, rho), 1, (1, 5))
            assert exact.max() <= found * (1 + 1e-12)
            assert found <= exact.max() * 1.2


def test_what_is_stated_does_not_hang_on_what_was_searched_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search keeps how many laws were enough; what a page says of the same steps is as if there had been none."""
    monkeypatch.setattr(MANY, 2)
    budgets, chain = np.zeros(60), staying(0.5)
    budgets[2::5] = 0.3
    sides = Losses(chain.backward_side()), Losses(chain.forward_side())
    fresh = both_sides(budgets, *sides, (1, 5), 1)
    sides[0].digits[(budgets > 0).tobytes()] = FINE
    assert not np.array_equal(both_sides(budgets, *sides, (1, 5), 1, most=10.0)[0], fresh[0])  # by more laws
    assert all(np.array_equal(a, b) for a, b in zip(both_sides(budgets, *sides, (1, 5), 1), fresh, strict=True))
