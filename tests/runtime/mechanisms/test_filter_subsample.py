"""Filtering before subsampling: sensitivity against brute force and the dense bound."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from stream_settings import run, simulated

from policyc_check.mechanisms import filter_subsample
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms.filter_subsample import FilterSubsample


def made(rate: str, filter_: str = "triangle") -> FilterSubsample:
    return FilterSubsample(rate=Decimal(rate), stddev=Decimal(1), filter=filter_)


def moved_square(rate: str, setting: Setting, filter_: str = "triangle") -> int:
    return made(rate, filter_).strategy(setting).moves(setting).l2_square


def weights_of(rate: str, steps: int, filter_: str = "triangle") -> np.ndarray:
    """A as a matrix, (measured, steps)."""
    setting = Setting(Participation(1, steps), wait=None)
    return made(rate, filter_).strategy(setting).measured(np.eye(steps, dtype=np.int64), 0)[0]


@pytest.mark.parametrize("filter_", ["triangle", "average"])
@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("rate", ["0.5", "0.34", "0.25", "0.2", "1"])
@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (2, 1), (3, 1), (3, 2), (2, 5)])
def test_nobody_moves_the_means_further(rate, bound, spacing, short, filter_, monkeypatch):
    """Over all ways to take part, the squared distance is at most the bound, of short streams and long ones.

    For one step it is the bound, and so it is of averages wherever blocks are whole.
    """
    if not short:
        monkeypatch.setattr(filter_subsample, "SHORT", 0)
    matrix = weights_of(rate, 13, filter_)
    claimed = moved_square(rate, Setting(Participation(bound, 13, spacing), wait=None), filter_)
    largest = max(
        int((matrix[:, list(places)].sum(axis=1) ** 2).sum())
        for places in combinations(range(13), bound)
        if all(after - before >= spacing for before, after in pairwise(places))
    )
    assert largest <= claimed
    if bound == 1 or (filter_ == "average" and rate in ("1", "0.25") and spacing == 1):
        assert largest == claimed


@pytest.mark.parametrize("rate", ["0.5", "0.34", "0.25", "0.2", "1"])
def test_averages_are_of_blocks_that_do_not_overlap(rate):
    """Each step counts once, but for those at the end that are nearer to a step beyond it."""
    matrix = weights_of(rate, 23, "average")
    block = round(1 / float(rate))
    assert ((matrix > 0).sum(axis=0)[: 23 - block] == 1).all()
    assert set(np.unique(matrix)) <= {0, round(FilterSubsample.grid / block)}
    assert matrix[:-1].sum(axis=1) == pytest.approx(np.full(len(matrix) - 1, FilterSubsample.grid), rel=1e-3)


def test_old_plans_say_nothing_of_the_filter():
    """A triangle is what a plan without the word means, and what is written without it."""
    assert made("0.5") == FilterSubsample.model_validate({"rate": "0.5", "stddev": "1"})
    assert "filter" not in made("0.5").model_dump()
    assert made("0.5", "average").model_dump()["filter"] == "average"
    assert made("0.5", "average").described() == "filter_subsample(rate = 0.5, filter = average)"


def dense_bound(matrix, bound):
    """At most how far `bound` changes by 1 move `matrix @ series` in L2: eigenvalue, or the largest row bounds."""
    gram = np.abs(matrix.T @ matrix)
    rows = np.sort(np.sort(gram, axis=1)[:, -bound:].sum(axis=1))[-bound:].sum()
    return math.sqrt(min(bound * np.linalg.norm(matrix, 2) ** 2, rows))


@pytest.mark.parametrize("bound", [3, 40, 180])
def test_the_bound_is_that_of_the_drawn_steps(bound):
    """It equals the dense bound for these rows, the eigenvalue included, and is far below that of all steps."""
    matrix = weights_of("0.1", 180)
    claimed = moved_square("0.1", Setting(Participation(bound, 180), wait=None))
    dense = dense_bound(matrix.astype(float), bound) ** 2
    assert claimed == pytest.approx(dense, rel=0.05)
    assert claimed < 0.2 * bound * FilterSubsample.grid**2


def test_a_contribution_moves_them_so_many_times_as_far():
    """Three units a step, replaced or not."""
    one, three = (Setting(Participation(2, 20), contribution=c, wait=None) for c in (1, 3))
    assert moved_square("0.2", three) == 9 * moved_square("0.2", one)
    replaced = Setting(Participation(2, 20), replaced=True, wait=None)
    assert moved_square("0.2", replaced) >= moved_square("0.2", one)


def test_means_of_a_straight_line_are_the_line():
    """With next to no noise, weighted means of a line away from its ends are the line's values."""
    where = Setting(Participation(2, 60), wait=None)
    mechanism = FilterSubsample(rate=Decimal("0.2"), stddev=Decimal("0.001"))
    raw = 1000 * np.arange(60, dtype=np.int64)[:, None]
    values = mechanism.values(where, run(mechanism, where, raw, simulated(1)))[:, 0]
    inside = np.flatnonzero(np.isfinite(values))[1:-1]
    assert (np.diff(inside) == 5).all()
    assert values[inside] == pytest.approx(raw[inside, 0], rel=1e-4)


def test_records_of_another_mechanism_are_refused():
    """Records at other steps than those measured are none of its own."""
    with pytest.raises(ValueError, match="no records"):
        made("0.2").values(Setting(Participation(2, 20), wait=None), [(1,)] * 20)


def circular(steps: int, block: int) -> np.ndarray:
    """The same weights around every step of a circle, (steps, steps)."""
    matrix = np.zeros((steps, steps))
    for away in range(1 - block, block):
        matrix[np.arange(steps), (np.arange(steps) + away) % steps] = (block - abs(away)) / block**2
    return matrix


def theorem_4(matrix: np.ndarray, rate: float, participations: int, failing: float) -> float:
    """KOGA22, Theorem 4: what one user moves of rows that are drawn at this rate, but for a probability `failing`.

    By its Theorem 3, a matrix Chernoff bound of Tropp's, the drawn rows' largest eigenvalue exceeds (1 + e) mean
    with probability at most 2 r (exp(e) / (1 + e)^(1 + e))^(mean / largest row), r being the stable rank.
    """
    top = float(np.linalg.norm(matrix, 2)) ** 2
    row, rank = float((matrix**2).sum(axis=1).max()), float((matrix**2).sum()) / top
    mean = rate * top

    def excess(e: float) -> float:
        return math.log(2 * rank) + mean / row * (e - (1 + e) * math.log1p(e)) - math.log(failing)

    e = row / mean if excess(row / mean) <= 0 else brentq(excess, row / mean, 1e9)
    return math.sqrt(participations * min((1 + e) * mean, top))


@pytest.mark.parametrize(("steps", "bound", "rate"), [(300, 50, "0.1"), (300, 60, "0.05")])
def test_noise_for_the_measured_steps_is_less_than_half_of_what_theorem_4_asks(steps, bound, rate):
    """The source's bound holds for drawn rows, their own bound is below it, and that of even ones far below."""
    matrix, generator = circular(steps, round(1 / float(rate))), np.random.default_rng(1)
    reference = theorem_4(matrix, float(rate), bound, 5e-6)
    for _ in range(20):
        drawn = matrix[generator.random(steps) < float(rate)]
        assert dense_bound(drawn, bound) < reference
        assert np.linalg.norm(drawn, 2) * math.sqrt(bound) < reference
    ours = math.sqrt(moved_square(rate, Setting(Participation(bound, steps), wait=None))) / FilterSubsample.grid
    assert 2.2 * ours < reference < math.sqrt(bound) * np.linalg.norm(matrix, 2) * (1 + 1e-12)
