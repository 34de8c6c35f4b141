"""Bounds from counts, and events from scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from policyc_runtime.laboratory.empirical.proof import Counts, counted


def test_a_bound_is_that_of_clopper_and_pearson() -> None:
    """Both probabilities are bounded by the exact intervals, each with half of what may fail."""
    low, high = beta.ppf(0.005, 300, 701), beta.ppf(0.995, 101, 900)
    found = Counts(1000, 300, 100).proven_epsilon(0.01, 0.99)
    assert found == pytest.approx(math.log((low - 0.01) / high), rel=1e-9)


def test_nothing_is_proven_by_nothing() -> None:
    """A test that is never right, or no more often than delta, proves no epsilon at all."""
    assert Counts(1000, 0, 0).proven_epsilon(0.0, 0.99) == -math.inf
    assert Counts(1000, 50, 0).proven_epsilon(0.1, 0.99) == -math.inf


def test_bounds_are_true_as_often_as_they_say() -> None:
    """Of many tests of a loss of exactly 1 nat, hardly one proves more; with more runs they prove nearly all of it."""
    generator = np.random.default_rng(0)
    hits = generator.binomial(2000, 0.5 * math.e / 1.5, size=500)
    alarms = generator.binomial(2000, 0.5 / 1.5, size=500)
    proven = [Counts(2000, int(h), int(a)).proven_epsilon(0.0, 0.99) for h, a in zip(hits, alarms, strict=True)]
    assert np.mean(np.array(proven) > 1.0) < 0.01
    assert Counts(10**7, round(10**7 * 0.5 * math.e / 1.5), round(10**7 * 0.5 / 1.5)).proven_epsilon(0.0, 0.99) > 0.99


def test_the_event_is_chosen_on_other_runs_than_it_is_counted_on() -> None:
    """Scores that differ in the first half alone prove nothing."""
    score = np.concatenate([np.ones(500), np.zeros(500)])
    counts = counted(score, np.zeros(1000), 0.0, 0.99)
    assert (counts.runs, counts.hits) == (500, counts.false_alarms)
