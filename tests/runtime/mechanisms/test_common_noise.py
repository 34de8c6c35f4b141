"""Common noise: every user of small streams by enumeration, and one law however a run is cut into pieces."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from policyc.offers import calibrate
from policyc.offers.mechanisms.common_noise import best_split
from policyc_check.errors import KernelError
from policyc_check.mechanisms import common_noise as checked
from policyc_check.mechanisms.common_noise import FINE, GRID, PARTS, LessUsers
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.noise import DiscreteGaussian
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Moves, Setting
from policyc_runtime.mechanisms.common_noise import CommonNoise
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.samplers import discrete_gaussian_around

HALF = PARTS // 2


def made(setting: Setting, weight: str = "0.3", epsilon: str = "1", delta: str = "1e-6") -> CommonNoise:
    """Calibrated noise."""
    mechanism = calibrate(CommonNoise, setting, Decimal(epsilon), Decimal(delta), {"weight": Decimal(weight)})
    assert isinstance(mechanism, CommonNoise)
    return mechanism


def users(steps: int, cells: int, bound: int, spacing: int, contribution: int) -> list[np.ndarray]:
    """Every user's part in a small stream: all steps it may be in, and all ways to spread what it adds."""
    spreads = [row for row in product(range(contribution + 1), repeat=cells) if 0 < sum(row) <= contribution]
    found = [np.zeros((steps, cells), dtype=np.int64)]
    for size in range(1, bound + 1):
        for places in combinations(range(steps), size):
            if all(b - a >= spacing for a, b in pairwise(places)):
                for rows in product(spreads, repeat=size):
                    found.append(np.zeros((steps, cells), dtype=np.int64))
                    found[-1][list(places)] = rows
    return found


@pytest.mark.parametrize("part", [1, PARTS // 10, HALF - 1, HALF])
@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (2, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize(("cells", "contribution"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)])
def test_no_user_moves_values_less_users_further_than_is_said(
    part: int, bound: int, spacing: int, cells: int, contribution: int
) -> None:
    """X - p n, for every user of four steps; for some user it is exactly as far."""
    steps = 4 if cells * contribution < 4 else 3
    setting = Setting(Participation(bound, steps, spacing), contribution=contribution, cells=cells)
    said = LessUsers(part).moves(setting).l2_square
    moved = [
        int(((x * GRID - part * FINE * contribution) ** 2).sum())
        for x in users(steps, cells, bound, spacing, contribution)
    ]
    assert max(moved) <= said
    assert max(moved) == said or contribution > 1 or setting.participation.steps < min(bound, steps)


@pytest.mark.parametrize("weight", ["1", "0.3", "0.03"])
@pytest.mark.parametrize(
    ("steps", "bound", "spacing", "cells"),
    [(5, 5, 1, 1), (5, 3, 1, 1), (8, 2, 1, 1), (6, 1, 1, 1), (6, 3, 2, 1), (3, 2, 1, 3)],
)
def test_what_is_published_hides_every_user(weight: str, steps: int, bound: int, spacing: int, cells: int) -> None:
    """The covariance of what is published, inverted: no user, adding or taking away, has a delta above the promise.

    Noise with a tenth less variance would not hide the worst one, where users may be in half of all values.
    """
    setting = Setting(Participation(bound, steps, spacing), contribution=2, cells=cells)
    mechanism = made(setting, weight)
    own, common = float(mechanism.stddev) ** 2, mechanism.common_variance(setting)
    inverse = np.linalg.inv(own * np.eye(steps * cells) + common)
    worst = max(float(x.ravel() @ inverse @ x.ravel()) for x in users(steps, cells, bound, spacing, 2))
    assert gaussian_delta(1.0, math.sqrt(worst)) <= 1e-6
    assert mechanism.profile(setting).delta(1.0) <= 1e-6
    assert gaussian_delta(1.0, math.sqrt(worst / 0.9)) > 1e-6 or 2 * bound < steps * cells


def test_half_the_noise_hides_too_little() -> None:
    """With half of either noise the promise is not kept, and the stated curve says so."""
    setting = Setting(Participation(30, 40))
    mechanism = made(setting)
    own, common = float(mechanism.stddev) ** 2, mechanism.common_variance(setting)
    for factors in ((0.25, 1.0), (1.0, 0.25)):
        inverse = np.linalg.inv(factors[0] * own * np.eye(40) + factors[1] * common)
        x = np.zeros((2, 40))
        x[0, :30], x[1, :] = 1, 1
        worst = max(float(row @ inverse @ row) for row in x[:1])
        less = mechanism.model_copy(
            update={
                "stddev": mechanism.stddev * Decimal(factors[0]).sqrt(),
                "common_stddev": mechanism.common_stddev * Decimal(factors[1]).sqrt(),
            }
        )
        assert less.profile(setting).delta(1.0) > 2e-6
        assert gaussian_delta(1.0, math.sqrt(worst)) > 1e-6


@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize(("variance", "common"), [(70, 8), (200, 30)])
@pytest.mark.parametrize("bound", [1, 2])
def test_discrete_noise_tells_no_more_than_is_said(
    monkeypatch: pytest.MonkeyPatch, part: int, variance: int, common: int, bound: int
) -> None:
    """Every probability of two published values is added up, for every user added and removed, on a coarse grid."""
    for name, value in (("GRID", 8), ("FINE", 2), ("PARTS", 4)):
        monkeypatch.setattr(checked, name, value)
    setting = Setting(Participation(bound, 2))
    moves = LessUsers(part).moves(setting)
    said = DiscreteGaussian(Fraction(variance)).any_way(moves)
    said = said.compose(DiscreteGaussian(Fraction(common)).any_way(Moves(2**2)))
    far, wide = 12 * math.isqrt(common), 12 * math.isqrt(variance)
    shared = np.arange(-far, far + 1)
    heights = np.exp(-(shared**2) / (2 * common))
    reach = wide + part * far
    line = np.exp(-(np.arange(-wide, wide + 1) ** 2) / (2 * variance))
    joint = np.zeros((2 * reach + 1, 2 * reach + 1))
    for eta, height in zip(shared.tolist(), heights.tolist(), strict=True):
        place = reach + part * eta - wide
        joint[place : place + line.size, place : place + line.size] += height * np.outer(line, line)
    joint /= joint.sum()
    for x in users(2, 1, bound, 1, 1):
        a, b = (8 * x[:, 0]).tolist()
        mine = np.zeros((joint.shape[0] + 8, joint.shape[1] + 8))
        other = np.zeros_like(mine)
        mine[: joint.shape[0], : joint.shape[1]] = joint
        other[a : a + joint.shape[0], b : b + joint.shape[1]] = joint
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            for one, two in ((mine, other), (other, mine)):
                true = np.maximum(one - math.exp(epsilon) * two, 0).sum()
                assert true <= said.delta(epsilon) + 1e-12


def test_replaced_users_signs_and_endless_streams_are_refused() -> None:
    """Where the number of users says nothing, neither the record nor the offer takes it; nor is a curve computed."""
    dense = Participation(10, 10)
    mechanism = made(Setting(dense))
    for setting in (
        Setting(dense, replaced=True),
        Setting(dense, signed=True),
        Setting(Participation(10, None)),
        Setting(Participation(1, 100)),
        Setting(dense, workload="prefix"),
    ):
        assert CommonNoise.reason_against(setting) is not None
    for setting in (Setting(dense, replaced=True), Setting(dense, signed=True), Setting(Participation(10, None))):
        with pytest.raises(ValueError):
            mechanism.profile(setting)
    with pytest.raises(ValueError):
        LessUsers(HALF + 1).moves(Setting(dense))


def test_dense_users_take_a_fourth_of_the_variance() -> None:
    """Of a user in all of many steps own and common variance together are hardly above a fourth of plain noise."""
    for steps, bound, most in ((365, 365, 0.29), (2000, 2000, 0.27), (365, 200, 0.52), (24, 24, 0.39)):
        setting = Setting(Participation(bound, steps))
        plain = calibrate("gaussian", setting, Decimal(1), Decimal("1e-6"))
        total = made(setting).variances(setting, 1)[0]
        assert total <= most * float(plain.stddev) ** 2
        assert total >= 0.25 * float(plain.stddev) ** 2


@pytest.mark.parametrize(
    ("weight", "present", "values"), [(0.3, 365, 365), (0.1, 100, 365), (0.03, 180, 1800), (1, 2, 9)]
)
def test_the_split_is_the_best_of_all(weight: float, present: int, values: int) -> None:
    """No split of a fine table of own variances and parts costs less."""
    least, own, part = best_split(weight, present, values, PARTS)

    def cost(r: float, p: float) -> float:
        moved = (present * (1 - 2 * p) + values * p * p) / present
        return weight * r + p * p / (present * (1 - moved / r)) if r > moved else math.inf

    tried = min(cost(r, p) for r in np.linspace(0.2, 1.2, 400) for p in np.linspace(1 / PARTS, 0.5, 300))
    assert cost(own, part / PARTS) <= tried * (1 + 1e-3)
    assert least == pytest.approx(cost(own, part / PARTS), rel=1e-9)


@pytest.mark.sampled(0, laws=2)
@pytest.mark.parametrize("centre", [Fraction(0), Fraction(1, 2), Fraction(-7, 3), Fraction(1000, 7)])
@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(5), Fraction(123, 10)])
def test_noise_around_a_centre_has_its_law(centre: Fraction, variance: Fraction) -> None:
    """Chi-square of 20,000 draws against the stated probabilities."""
    randomness = SimulationRandomness(5)
    drawn = np.array([discrete_gaussian_around(centre, variance, randomness) for _ in range(20_000)])
    values = np.arange(math.floor(centre) - 30, math.floor(centre) + 31)
    heights = np.exp(-((values - float(centre)) ** 2) / (2 * float(variance)))
    expected = 20_000 * heights / heights.sum()
    likely = expected > 10
    found = np.array([(drawn == value).sum() for value in values])
    chi = ((found - expected)[likely] ** 2 / expected[likely]).sum()
    assert chi <= likely.sum() + 4 * math.sqrt(2 * likely.sum())
    assert found[~likely].sum() <= expected[~likely].sum() + 6 * math.sqrt(expected[~likely].sum() + 1)


@pytest.mark.sampled(0, laws=2)
@pytest.mark.parametrize("pieces", [[6], [1, 2, 3], [1, 1, 1, 1, 1, 1], [4, 2]])
def test_a_run_in_pieces_has_the_law_of_one_run(pieces: list[int]) -> None:
    """Noise of any two steps has the covariance of the common draw, whether one run or several made them.

    A draw made afresh by every run would have none, and tell the number of users again; 4,000 runs.
    """
    setting = Setting(Participation(6, 6), contribution=2, cells=2)
    mechanism, raw = made(setting), np.random.default_rng(1).integers(0, 50, (6, 2))
    randomness, noise = SimulationRandomness(7), []
    for _ in range(4000):
        records: list[tuple[int, ...]] = []
        for count in pieces:
            records += mechanism.measure(setting, raw[: len(records) + count], records, randomness)
        noise.append((mechanism.values(setting, records) - raw).ravel())
    found = np.cov(np.array(noise).T)
    common, own = mechanism.common_variance(setting), float(mechanism.stddev) ** 2
    expected = np.full((12, 12), common) + own * np.eye(12)
    spread = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / 4000)
    assert (np.abs(found - expected) <= 4.5 * spread).all()
    assert np.abs(np.array(noise).mean(axis=0)).max() <= 4.5 * math.sqrt((common + own) / 4000)


@pytest.mark.parametrize("value", [2**47 - 1, 2**53, -(2**50)])
def test_values_beyond_64_bits_on_the_grid_are_exact(value: int) -> None:
    """No number wraps around before the common draw is added, which would tell a value's own noise; runs go on."""
    setting = Setting(Participation(8, 8))
    mechanism, raw = made(setting, "1"), np.full((8, 1), value, dtype=np.int64)
    randomness = SimulationRandomness(3)
    records = mechanism.measure(setting, raw[:4], (), randomness)
    records += mechanism.measure(setting, raw, records, randomness)
    noise = [record[0] - value * GRID for record in records]
    deviation = math.sqrt(mechanism.variances(setting, 1)[0]) * GRID
    assert max(map(abs, noise)) <= 6 * deviation
    assert mechanism.values(setting, records)[:, 0] == pytest.approx(value, abs=8 * deviation / GRID)


def test_so_little_noise_around_a_centre_is_refused() -> None:
    """Below a sixteenth hardly any proposal would be kept, and the generator would be blamed."""
    with pytest.raises(KernelError) as refused:
        discrete_gaussian_around(Fraction(1, 2), Fraction(1, 100), SimulationRandomness(1))
    assert refused.value.code == "E0831"


def test_two_runs_share_a_draw_as_large_as_is_said() -> None:
    """The means of two runs' noise vary together as the common draw does: less of it, or a fresh one, is noticed."""
    setting = Setting(Participation(120, 120))
    mechanism, raw = made(setting, "1"), np.full((120, 1), 70, dtype=np.int64)
    randomness, means = SimulationRandomness(11), []
    for _ in range(400):
        records = mechanism.measure(setting, raw[:60], (), randomness)
        records += mechanism.measure(setting, raw, records, randomness)
        noise = mechanism.values(setting, records)[:, 0] - 70
        means.append((noise[:60].mean(), noise[60:].mean()))
    found = np.cov(np.array(means).T)
    common, own = mechanism.common_variance(setting), float(mechanism.stddev) ** 2 / 60
    spread = math.sqrt(((common + own) ** 2 + common**2) / 400)
    assert abs(found[0, 1] - common) <= 4 * spread
    assert 4 * spread < common * 3 / 4  # so that half of the draw is too little
    assert np.abs(found[[0, 1], [0, 1]] - common - own).max() <= 4 * math.sqrt(2 / 400) * (common + own)


@pytest.mark.parametrize("pieces", [[750], [1, 300, 449]], ids=str)
def test_every_value_has_noise_of_its_own_as_large_as_is_said(pieces: list[int]) -> None:
    """By squares about the mean of 3,000 values, which are free of what is common: a tenth less is noticed."""
    setting = Setting(Participation(750, 750), cells=4)
    mechanism, raw = made(setting, "1"), np.full((750, 4), 70, dtype=np.int64)
    randomness, records = SimulationRandomness(5), []
    for count in pieces:
        records += mechanism.measure(setting, raw[: len(records) + count], records, randomness)
    noise = mechanism.values(setting, records) - 70
    found = float(((noise - noise.mean()) ** 2).sum()) / (noise.size - 1)
    spread = math.sqrt(2 / noise.size)
    assert abs(found / float(mechanism.stddev) ** 2 - 1) <= 3.5 * spread
    assert 7 * spread < 1 - 0.9**2  # a tenth less is as far away again


def test_nothing_is_drawn_where_nothing_is_new() -> None:
    """A run without new steps makes no record."""
    setting = Setting(Participation(3, 3))
    mechanism, raw = made(setting, "1"), np.array([[5], [6], [7]])
    records = mechanism.measure(setting, raw, (), SimulationRandomness(1))
    assert mechanism.measure(setting, raw, records, SimulationRandomness(2)) == []
