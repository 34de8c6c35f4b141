"""Common noise of periods that are not all as long, drawn anew for every block of steps: all users of small streams."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from policyc.offers import calibrate
from policyc_check.mechanisms.common_noise import FINE, GRID, PARTS, LessUsers
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms.common_noise import CommonNoise, blocks
from policyc_runtime.randomness import SimulationRandomness

LENGTHS = [(3, 4), (2, 3, 3), (5, 4), (2, 1, 2)]
BOUNDS = [(2, {}), (5, {}), (2, {"contribution": 2}), (2, {"cells": 2}), (1, {"cells": 3, "spread": 2})]


def setting(longest: int, bound: int, touched: int = 1, steps: int | None = None, **more: int) -> Setting:
    """Of users in `touched` periods of so many steps at most, as plans have it."""
    own = min(bound, longest)
    participation = Participation(own * touched, steps)
    return Setting(participation, period=Fraction(longest), aligned=False, touched=touched, **more)


def users(periods: list[range], given: Setting, bound: int) -> list[tuple[np.ndarray, set[int]]]:
    """What every user adds, (steps, cells), and the steps of the periods that it is in: all ends of what it may do."""
    cells, most = given.cells, given.contribution
    in_step = [row for row in product((0, most), repeat=cells) if 0 < np.count_nonzero(row) <= given.spread]
    found = []
    for touched in combinations(periods, given.touched):
        chosen = []
        for period in touched:
            sizes = range(1, min(bound, len(period)) + 1)
            chosen.append([
                list(zip(places, rows, strict=True))
                for size in sizes
                for places in combinations(period, size)
                for rows in product(in_step, repeat=size)
            ])  # fmt: skip
        for parts in product(*chosen):
            x = np.zeros((periods[-1].stop, cells), dtype=np.int64)
            for step, row in (one for part in parts for one in part):
                x[step] = row
            found.append((x, {step for period in touched for step in period}))
    return found


def streams(lengths: tuple[int, ...], block: int) -> list[list[range]]:
    """Periods of these lengths, from every step of a block on: one that is as short as it takes comes first."""
    found = []
    for first in range(1, block + 1):
        ends = np.cumsum([first, *lengths]).tolist()
        found.append([range(a, b) for a, b in zip([0, *ends], ends, strict=False)][1:])
    return found


@pytest.mark.sampled(12)
@pytest.mark.parametrize("block", [1, 2, 3, 4, 6])
@pytest.mark.parametrize(("bound", "more"), BOUNDS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_no_user_moves_values_less_users_of_blocks_further_than_is_said(
    lengths: tuple[int, ...], bound: int, more: dict[str, int], block: int
) -> None:
    """X - p n of every block, n the users of whom a period touches it; of some period it is exactly as far."""
    given = setting(max(lengths), bound, **more)
    for part in (1, PARTS // 10, PARTS // 2):
        q, moved = part * FINE * given.contribution, []
        for periods in streams(lengths, block):
            for x, steps in users(periods, given, bound):
                counted = {step // block for step in steps}
                assert len(counted) <= LessUsers(part, block).draws(given)
                longer = np.zeros((len(x) + block, given.cells), dtype=np.int64)  # until its last block ends
                longer[: len(x)] = x * GRID
                moved.append(
                    int(((longer - q * np.isin(np.arange(len(longer)) // block, [*counted])[:, None]) ** 2).sum())
                )
        assert max(moved) == LessUsers(part, block).moves(given).l2_square


@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("lengths", [(2, 3, 1), (1, 2, 2)], ids=str)
def test_who_is_in_several_periods_moves_no_more_than_is_said(lengths: tuple[int, ...], block: int) -> None:
    """Of two periods, be they beside each other or not."""
    given = setting(max(lengths), 2, touched=2, cells=2)
    for part, periods in product((1, PARTS // 2), streams(lengths, block)):
        said, q = LessUsers(part, block).moves(given).l2_square, part * FINE
        for x, steps in users(periods, given, 2):
            counted = np.isin(np.arange(len(x)) // block, [step // block for step in steps])
            assert int(((x * GRID - q * counted[:, None]) ** 2).sum()) <= said


@pytest.mark.sampled(6)
@pytest.mark.parametrize("weight", ["1", "0.3", "0.03"])
@pytest.mark.parametrize(("bound", "more"), BOUNDS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_what_is_published_hides_every_user_of_periods_of_any_length(
    lengths: tuple[int, ...], bound: int, more: dict[str, int], weight: str
) -> None:
    """The covariance of what is published, inverted: of all users, wherever their period begins in a block."""
    given = setting(max(lengths), bound, **more)
    mechanism = calibrate(CommonNoise, given, Decimal(1), Decimal("1e-6"), {"weight": Decimal(weight)})
    assert isinstance(mechanism, CommonNoise)
    block = mechanism.common_steps
    assert block in blocks(given)
    assert block is not None
    own, common, worst = float(mechanism.stddev) ** 2, mechanism.common_variance(given), 0.0
    for periods in streams(lengths, block):
        numbers = np.repeat(np.arange(periods[-1].stop) // block, given.cells)
        inverse = np.linalg.inv(own * np.eye(numbers.size) + common * np.equal.outer(numbers, numbers))
        found = np.unique([x.ravel() for x, _ in users(periods, given, bound)], axis=0)
        worst = max(worst, float(np.einsum("ut,ts,us->u", found, inverse, found).max()))
    for epsilon in (0.1, 1.0, 2.0):
        assert gaussian_delta(epsilon, math.sqrt(worst)) <= mechanism.profile(given).delta(epsilon)
    assert mechanism.profile(given).delta(1.0) <= 1e-6
    assert gaussian_delta(1.0, math.sqrt(worst / 0.81)) > 1e-6  # a tenth less noise hides too little


@pytest.mark.parametrize("period", [2, 3, 24, 25, 31, 1500])
def test_blocks_are_the_shortest_that_are_touched_as_seldom(period: int) -> None:
    """Wherever a period begins, it touches so many blocks at most, and more of any shorter ones."""
    given = setting(period, period)
    lengths = [length for length in blocks(given) if length is not None]
    assert lengths
    for length in lengths:
        touched = [len({(first + step) // length for step in range(period)}) for first in range(length)]
        assert max(touched) == LessUsers(1, length).draws(given)
        if length > 1:
            shorter = length - 1
            assert max(
                len({(first + step) // shorter for step in range(period)}) for first in range(shorter)
            ) > max(touched)  # fmt: skip
    assert None not in blocks(given)
    assert None in blocks(setting(period, period, steps=10 * period))


def test_the_noise_is_that_of_the_best_block() -> None:
    """However long the stream; days of up to 25 hours take 59 % of the variance of plain noise, 36 % if all have 24."""
    given = setting(25, 25)
    made = calibrate(CommonNoise, given, Decimal(1), Decimal("1e-6"))
    assert isinstance(made, CommonNoise)
    plain = calibrate("gaussian", given, Decimal(1), Decimal("1e-6")).stddev  # type: ignore[union-attr]
    assert made.variances(given, 1)[0] == pytest.approx(0.586 * float(plain) ** 2, rel=0.01)
    endless = [calibrate(CommonNoise, setting(25, 25, steps=n), Decimal(1), Decimal("1e-6")) for n in (1000, 5000)]
    assert endless == [made, made]


def test_runs_draw_anew_at_blocks() -> None:
    """Differences within a block are free of its draw, those between blocks have two: a run in pieces as one."""
    given = setting(5, 5)
    mechanism = calibrate(CommonNoise, given, Decimal(1), Decimal("1e-6"))
    assert isinstance(mechanism, CommonNoise)
    block = mechanism.common_steps
    assert block is not None
    raw, records = np.full((600 * block, 1), 50), []
    for stop in (7, 8, 100, len(raw)):
        records += mechanism.measure(given, raw[:stop], records, SimulationRandomness(stop))
    noise = (mechanism.values(given, records) - 50).reshape(600, block)
    means = noise.mean(axis=1)
    expected = mechanism.common_variance(given) + float(mechanism.stddev) ** 2 / block
    assert abs(float(means.var()) / expected - 1) <= 4 * math.sqrt(2 / 600)
    inside = ((noise - means[:, None]) ** 2).sum() / (600 * (block - 1))
    assert abs(inside / float(mechanism.stddev) ** 2 - 1) <= 4 * math.sqrt(2 / (600 * (block - 1)))
