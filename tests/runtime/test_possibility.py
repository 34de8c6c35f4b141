"""Whether counts could follow each other: held against the law of all next counts, by enumeration."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from policyc_runtime.laboratory.possibility import (
    impossible_moves,
    log_possibilities,
    smoothing_level,
)

BASE = np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])  # CAO23, section 6.1


def smoothed(s, moves=BASE):
    return (moves + s) / (1 + len(moves) * s)


def next_counts(before, moves) -> Counter:
    """The law of the next counts, one user after the other."""
    law = Counter({(0,) * len(moves): 1.0})
    for state, users in enumerate(before):
        for _ in range(users):
            moved = Counter()
            for counts, p in law.items():
                for target in np.flatnonzero(moves[state]).tolist():
                    after = tuple(c + (j == target) for j, c in enumerate(counts))
                    moved[after] += p * moves[state, target]
            law = moved
    return law


@pytest.mark.parametrize("s", [0.0, 0.001, 0.1])
def test_never_below_the_law_of_the_next_counts(s):
    """The bound is at least the probability, of all counts of four users, and near; what cannot be is below 1e-10."""
    moves = smoothed(s)
    every = [c for c in itertools.product(range(5), repeat=3) if sum(c) == 4]
    pairs = list(itertools.product(every, every))
    before, after = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    bounds = log_possibilities(before, after, moves)
    laws = {counts: next_counts(counts, moves) for counts in every}
    for (origin, target), bound in zip(pairs, bounds.tolist(), strict=True):
        truth = laws[origin][target]
        assert math.exp(bound) >= truth * (1 - 1e-12)
        if truth == 0:
            assert bound == -math.inf
        else:
            assert math.exp(bound) < 40 * truth, "at most as many as there are ways"


def test_of_one_user_it_is_the_entry_of_the_chain():
    """Who is counted alone moves by the chain."""
    moves = smoothed(0.01)
    one = np.eye(3)
    found = log_possibilities(np.repeat(one, 3, axis=0), np.tile(one, (3, 1)), moves)
    assert np.exp(found).reshape(3, 3) == pytest.approx(moves, rel=1e-9)


def test_what_is_no_count_follows_nothing():
    """Negative values, and other numbers of users, cannot be; values that are not whole can."""
    before = np.array([[2.0, 1, 1]] * 3)
    after = np.array([[3.0, -1, 2], [2, 2, 1], [1.5, 1.25, 1.25]])
    found = log_possibilities(before, after, smoothed(0.5))
    assert found[:2].tolist() == [-math.inf, -math.inf]
    assert found[2] > -1


def test_the_share_of_steps():
    """A chain that forbids a move forbids counts; a stream that stands still where nobody can stay is impossible."""
    circle = np.roll(np.eye(3), 1, axis=1)
    counts = np.array([[5.0, 1, 0], [0, 5, 1], [1, 0, 5], [1, 0, 5], [5, 1, 0]])
    assert impossible_moves(counts, circle) == 0.25
    assert math.isnan(impossible_moves(counts[:1], circle))


def test_true_counts_of_many_users_are_possible():
    """Users who move as declared are seldom where 1e-10 says they cannot be, though each single count is improbable."""
    rng = np.random.default_rng(3)
    moves = smoothed(0.05)
    counts = [np.array([4000, 3000, 3000])]
    for _ in range(200):
        counts.append(sum(rng.multinomial(n, row) for n, row in zip(counts[-1], moves, strict=True)))
    assert impossible_moves(np.array(counts, dtype=float), moves) == 0


@pytest.mark.parametrize("s", [0.005, 0.1, 1, 20])
def test_the_smoothing_level_is_the_papers(s):
    """Equation 25 of CAO17 applied to a chain of sure moves, and read back; 0 is sure, infinite says nothing."""
    assert smoothing_level(smoothed(s, np.roll(np.eye(5), 1, axis=1))) == pytest.approx(s)
    assert smoothing_level(np.eye(4)) == 0
    assert smoothing_level(np.full((3, 3), 1 / 3)) == math.inf


def test_many_states_are_found_without_trying_all_sets():
    """Of twenty places on a circle thirty users too many in one cannot have come."""
    circle = 0.5 * (np.eye(20) + np.roll(np.eye(20), 1, axis=1))
    before = np.full((2, 20), 10.0)
    after = before.copy()
    after[0, 0] += 30
    after[0, 5:11] -= 5
    after[1] = np.roll(after[1], 1)
    found = log_possibilities(before, after, circle)
    assert found[0] < math.log(1e-10)
    assert found[1] == pytest.approx(0, abs=1e-6)
