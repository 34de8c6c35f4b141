"""A participation bound keeps what it should, whatever comes later, and never more than it says."""

from __future__ import annotations

import numpy as np
import pytest

from policyc_runtime.sources.participation import keep_first, keep_sample


def literal(users, steps, bound, spacing):
    """Going forward in time, user by user."""
    kept, last, used = [], {}, {}
    for user, step in zip(users.tolist(), steps.tolist(), strict=True):
        free = used.get(user, 0) < bound and (user not in last or step - last[user] >= spacing)
        if free:
            used[user], last[user] = used.get(user, 0) + 1, step
        kept.append(free)
    return np.array(kept, dtype=bool)


def participations(seed, users=12, horizon=40):
    rng = np.random.default_rng(seed)
    there = rng.random((users, horizon)) < rng.random((users, 1))
    return tuple(array.astype(np.int64) for array in np.nonzero(there))


@pytest.mark.sampled(30)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (3, 1), (3, 2), (5, 7), (50, 3), (50, 1)])
def test_keep_first_is_what_going_forward_keeps(seed, bound, spacing):
    """Equal to the literal rule on random streams, and to itself on every shorter stream."""
    users, steps = participations(seed)
    keep = keep_first(users, steps, bound, spacing)
    assert (keep == literal(users, steps, bound, spacing)).all()
    for end in (5, 17, 33):
        early = steps < end
        assert (keep_first(users[early], steps[early], bound, spacing) == keep[early]).all()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (3, 1), (3, 6), (50, 2)])
def test_keep_sample_keeps_the_bound(seed, bound, spacing):
    """No user keeps more than the bound or two steps too close, and nobody who was there is left out."""
    users, steps = participations(seed)
    ranks = np.random.default_rng(seed).integers(0, 2**63, len(users)).astype(np.uint64)
    keep = keep_sample(users, steps, ranks, bound, spacing)
    for user in np.unique(users):
        mine = steps[(users == user) & keep]
        assert 1 <= len(mine) <= bound
        assert (np.diff(mine) >= spacing).all()


def test_nobody_is_nobody():
    """An empty stream keeps nothing."""
    none = np.zeros(0, dtype=np.int64)
    assert keep_first(none, none, 3, 1).shape == keep_first(none, none, 3, 2).shape == (0,)
