"""What E0415 says of sums under alpha-DP_T: the chain bounds what they tell where amounts depend on places alone.

Let a user at step t be at a place, with an amount of a law that depends on the place, and on nothing else: place and
amount are a chain whose rows depend on the place alone, so what leaks through it is what leaks through the chain of
places. A habit, which amounts of all steps share, leaks beside the chain.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

STEPS, PLACES, AMOUNTS = 3, 2, (0, 1, 4)
STATES = list(product(range(PLACES), range(len(AMOUNTS))))
COURSES = np.array(list(product(range(len(STATES)), repeat=STEPS)))
SCALE = 6.0
COST = 2 * max(AMOUNTS) / SCALE  # replacing a place and an amount moves two sums


def passed(law, leakage):
    """The loss function of a law by its definition, over all pairs of rows and sets of columns."""
    chosen = np.array(list(product([0, 1], repeat=len(law))))
    sums = chosen @ law.T * np.expm1(leakage) + 1
    return float(np.log(sums[:, :, None] / sums[:, None]).max())


def bound(laws, forward):
    """The most that is told of a step, by the recursion over the chain of places alone."""
    before, after = [0.0] * STEPS, [0.0] * STEPS
    for t in range(1, STEPS):
        backward = (forward * laws[t - 1][:, None]).T / laws[t][:, None]
        before[t] = passed(backward, COST + before[t - 1])
    for t in range(STEPS - 2, -1, -1):
        after[t] = passed(forward, COST + after[t + 1])
    return [b + COST + a for b, a in zip(before, after, strict=True)]


def told(weights, value_of):
    """By step, the most that any output tells of a value there; weights are those of courses.

    Outputs are sums that lie where they tell most: beyond all that one user can add, at either end or between.
    """
    place, amount = (np.array(column)[COURSES] for column in zip(*STATES, strict=True))
    amount = np.array(AMOUNTS)[amount]
    sums = np.stack([np.where(place == cell, amount, 0) for cell in range(PLACES)], axis=2).reshape(len(COURSES), -1)
    found = [0.0] * STEPS
    for output in product(AMOUNTS, repeat=STEPS * PLACES):
        likely = weights * np.exp(-np.abs(sums - np.array(output)).sum(axis=1) / SCALE)
        for t in range(STEPS):
            of = value_of(place[:, t], amount[:, t])
            values = [v for v in np.unique(of) if weights[of == v].sum() > 0]
            means = [likely[of == v].sum() / weights[of == v].sum() for v in values]
            found[t] = max(found[t], float(np.log(max(means) / min(means))))
    return found


def of_place(place, amount):
    """Where the user is."""
    return place + 0 * amount


def of_both(place, amount):
    """Where it is, and what it spends."""
    return place * 10 + amount


def drawn(seed):
    generator = np.random.default_rng(seed)
    forward = generator.dirichlet(np.full(PLACES, 0.5), PLACES)
    laws = [generator.dirichlet(np.ones(PLACES))]
    for _ in range(STEPS - 1):
        laws.append(laws[-1] @ forward)
    place = np.array([state[0] for state in STATES])[COURSES]
    moves = laws[0][place[:, 0]] * np.prod(
        [forward[place[:, t], place[:, u]] for t, u in pairwise(range(STEPS))], axis=0
    )
    return generator, forward, laws, place, moves


@pytest.mark.parametrize("seed", range(4))
def test_amounts_that_depend_on_places_alone_leak_as_places_do(seed):
    """All courses of place and amount, all kinds of outputs; a tenth less would be exceeded."""
    generator, forward, laws, place, moves = drawn(seed)
    law = generator.dirichlet(np.full(len(AMOUNTS), 0.3), PLACES)
    amount = np.array([state[1] for state in STATES])[COURSES]
    weights = moves * np.prod([law[place[:, t], amount[:, t]] for t in range(STEPS)], axis=0)
    found, most = told(weights, of_both), bound(laws, forward)
    assert all(f <= m * (1 + 1e-12) for f, m in zip(found, most, strict=True))
    assert seed != 3 or max(f / m for f, m in zip(found, most, strict=True)) > 0.99


def test_a_habit_leaks_beside_the_chain():
    """Who always spends the same tells by all steps what that is; of places no more than their chain passes on."""
    forward = np.full((PLACES, PLACES), 0.5)  # without memory, so that the chain passes nothing on
    laws = [np.full(PLACES, 0.5)] * STEPS
    place, amount = (np.array(column)[COURSES] for column in zip(*STATES, strict=True))
    moves = np.prod([forward[place[:, t], place[:, u]] for t, u in pairwise(range(STEPS))], axis=0) / PLACES
    weights = moves * (amount == amount[:, :1]).all(axis=1) / len(AMOUNTS)
    most = bound(laws, forward)
    assert max(told(weights, of_both)) > 1.49 * max(most)
    assert all(f <= m * (1 + 1e-12) for f, m in zip(told(weights, of_place), most, strict=True))
