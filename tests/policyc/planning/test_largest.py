"""The root of what a promise leaves: on the safe side, as near as asked, and in few tries."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from policyc.planning.largest import largest

SHAPES = {
    "in proportion": lambda x, root: 1 - x / root,
    "ever less": lambda x, root: 1 - math.log1p(300 * x) / math.log1p(300 * root),
    "ever more": lambda x, root: 1 - (0.5 * x / root + 0.5 * (x / root) ** 3),
    "without end beyond": lambda x, root: 1 - x / root if x < 1.5 * root else -math.inf,
    "another below": lambda x, root: min(1e-9, 1.5 * (root - x)),
    "two that bind": lambda x, root: min(1 - x / root, 3 * (1 - x / root)),
}


@given(shape=st.sampled_from(sorted(SHAPES)), root=st.floats(1e-6, 0.99), nats=st.floats(0.01, 20))
def test_it_is_the_root_seen_from_below(shape, root, nats):
    tried = []

    def left(x):
        tried.append(x)
        return nats * SHAPES[shape](x, root)

    found = largest(left, 0.0, 1.0, nats)
    assert left(found) >= 0
    assert found == pytest.approx(root, rel=1e-11)
    assert len(tried) - 1 == len(set(tried)), "an argument was asked for twice"
    assert len(tried) <= 45


@given(root=st.floats(1e-3, 0.99), unspent=st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_as_much_may_be_left_as_is_said(root, unspent):
    found = largest(lambda x: 1 - x / root, 0.0, 1.0, 1.0, unspent=unspent)
    assert 0 <= 1 - found / root <= unspent


@pytest.mark.parametrize(("shape", "low", "times"), [("ever less", 0.0, 1.0), ("another below", 0.01, 2.5)])
def test_it_takes_fewer_tries_than_a_librarys_root(shape, low, times):
    """Of what slow chains leak, and of ends that are raised above a middle that leaves next to nothing."""
    ours: list[float] = []
    theirs: list[float] = []
    for root in (0.7, 0.5, 0.2, 0.1, 0.03):

        def left(x, tries, root=root):
            tries.append(x)
            return max(SHAPES[shape](x, root), -1e3) if x else 1e3

        largest(lambda x, left=left: left(x, ours), low, 1.0, 1.0)
        brentq(lambda x, left=left: left(x, theirs), low, 1.0, xtol=1e-14, rtol=1e-14)
    assert times * len(ours) <= len(theirs), (len(ours), len(theirs))


def test_all_is_left_or_nothing():
    assert largest(lambda x: 1.0, 0.0, 2.0, 3.0) == 2.0
    assert largest(lambda x: -1.0, 0.0, 1.0, 1.0) == 0.0
    assert largest(lambda x: -math.inf, 0.0, 1.0, 1.0) == 0.0
    assert largest(lambda x: 0.25 - x, 0.25, 1.0, 1.0) == 0.25
    assert largest(lambda x: 0.125 - x, 0.25, 1.0, 1.0) == pytest.approx(0.125)  # what was said to be left is not


def test_a_step_is_found_from_below():
    found = largest(lambda x: 0.5 if x < 0.3 else -0.5, 0.0, 1.0, 1.0)
    assert found < 0.3 <= found * (1 + 1e-13)


@pytest.mark.parametrize("beyond", [1e-16, 1e-17, 1e-300])
def test_what_is_beyond_by_less_than_rounding_is_beyond(beyond):
    """Of a middle that leaves nothing at all."""
    found = largest(lambda x: 0.0 if x <= 0.5 else -beyond, 0.25, 1.0, 1.0)
    assert 0.25 <= found <= 0.5
