"""Common noise that is drawn anew for every period: every user of small streams, and periods that know no others."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest

import policyc_runtime.mechanisms.common_noise as drawn
from policyc.offers import calibrate
from policyc_check.mechanisms import common_noise as checked
from policyc_check.mechanisms.common_noise import FINE, GRID, PARTS, LessUsers
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.noise import DiscreteGaussian
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Moves, Setting
from policyc_runtime.mechanisms.common_noise import CommonNoise
from policyc_runtime.offset import Offset
from policyc_runtime.randomness import SimulationRandomness

HALF = PARTS // 2


def setting(steps: int | None, period: int, bound: int, touched: int = 1, spacing: int = 1, **more: int) -> Setting:
    """Of users in `touched` periods, in each of which they are in so many steps at most; as plans have it."""
    own = min(bound, -(-period // spacing))
    participation = Participation(own * touched, steps, spacing if touched == 1 else 1)
    return Setting(participation, period=Fraction(period), touched=touched, **more)


def made(given: Setting, weight: str = "0.3", epsilon: str = "1", delta: str = "1e-6") -> CommonNoise:
    """Calibrated noise."""
    mechanism = calibrate(CommonNoise, given, Decimal(epsilon), Decimal(delta), {"weight": Decimal(weight)})
    assert isinstance(mechanism, CommonNoise)
    return mechanism


def parts(steps: int, period: int, given: Setting, bound: int, spacing: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """What every user adds, (steps, cells), and the steps of the periods it is in: all it may do in any of them."""
    cells, most, spread = given.cells, given.contribution, given.spread
    rows = [row for row in product(range(most + 1), repeat=cells) if 0 < sum(row) <= most]
    if spread > 1:  # up to `contribution` in each of so many cells
        rows = [row for row in product(range(most + 1), repeat=cells) if 0 < np.count_nonzero(row) <= spread]
    alone: list[list[np.ndarray]] = []
    for start in range(0, steps, period):
        alone.append([])
        inside = range(start, min(start + period, steps))
        for size in range(1, bound + 1):
            for places in combinations(inside, size):
                if all(b - a >= spacing for a, b in pairwise(places)):
                    for chosen in product(rows, repeat=size):
                        alone[-1].append(np.zeros((steps, cells), dtype=np.int64))
                        alone[-1][-1][list(places)] = chosen
    found = []
    for count in range(1, given.touched + 1):
        for periods in combinations(range(len(alone)), count):
            inside = np.isin(np.arange(steps) // period, periods)
            found += [(np.sum(one, axis=0), inside) for one in product(*(alone[n] for n in periods))]
    return found


SMALL = [
    (7, 3, 3, 1, {}),
    (7, 3, 2, 1, {"contribution": 2}),
    (7, 2, 2, 1, {"cells": 2, "contribution": 2}),
    (6, 2, 1, 1, {"cells": 3, "spread": 2}),
    (5, 2, 2, 1, {"cells": 3, "contribution": 2}),
    (7, 3, 2, 2, {"cells": 2}),
    (7, 3, 2, 2, {}),
    (4, 2, 2, 1, {"cells": 2, "spread": 2}),
]
SEVERAL = [(*one, 1) for one in SMALL] + [(*SMALL[n], touched) for n, touched in ((0, 2), (2, 2), (3, 3), (6, 2))]


@pytest.mark.parametrize("part", [1, PARTS // 10, HALF])
@pytest.mark.parametrize(("steps", "period", "bound", "spacing", "more", "touched"), SEVERAL, ids=str)
def test_no_user_moves_values_less_users_of_periods_further_than_is_said(
    steps: int, period: int, bound: int, spacing: int, more: dict[str, int], touched: int, part: int
) -> None:
    """X - p n of every period, n the users who are in it; for some user it is exactly as far."""
    given = setting(steps, period, bound, touched, spacing=spacing, **more)
    said = LessUsers(part, period).moves(given).l2_square
    q = part * FINE * given.contribution
    moved = [
        int(((x * GRID - q * inside[:, None]) ** 2).sum()) for x, inside in parts(steps, period, given, bound, spacing)
    ]
    assert max(moved) == said


@pytest.mark.parametrize("touched", [1, 2])
@pytest.mark.parametrize("weight", ["1", "0.3", "0.03"])
@pytest.mark.parametrize(("steps", "period", "bound", "spacing", "more"), SMALL, ids=str)
def test_what_is_published_hides_every_user_of_a_period(
    weight: str, steps: int, period: int, bound: int, spacing: int, more: dict[str, int], touched: int
) -> None:
    """The covariance of what is published, inverted: no user of a period, nor of two, is told of more than is said."""
    own_setting = setting(steps, period, bound, spacing=spacing, **more)
    mechanism = made(own_setting, weight)
    assert mechanism.common_steps == period
    given = setting(steps, period, bound, touched, spacing=spacing, **more)
    own, common = float(mechanism.stddev) ** 2, mechanism.common_variance(given)
    blocks = np.repeat(np.arange(steps) // period, given.cells)
    inverse = np.linalg.inv(own * np.eye(blocks.size) + common * np.equal.outer(blocks, blocks))
    users = np.unique([x.ravel() for x, _ in parts(steps, period, given, bound, spacing)], axis=0)
    worst = float(np.einsum("ut,ts,us->u", users, inverse, users).max())
    for epsilon in (0.1, 1.0, 2.0):
        assert gaussian_delta(epsilon, math.sqrt(worst)) <= mechanism.profile(given).delta(epsilon)
    if touched == 1:
        assert mechanism.profile(given).delta(1.0) <= 1e-6
        dense = 2 * bound * given.spread >= period * given.cells
        assert not dense or gaussian_delta(1.0, math.sqrt(worst / 0.9)) > 1e-6


@pytest.mark.parametrize("factors", [(0.25, 1.0), (1.0, 0.25)])
def test_half_of_either_noise_hides_too_little(factors: tuple[float, float]) -> None:
    """A user in 18 of the 24 hours of a day: the promise is not kept, and the stated curve says so."""
    given = setting(None, 24, 18)
    mechanism = made(given)
    own, common = float(mechanism.stddev) ** 2, mechanism.common_variance(given)
    inverse = np.linalg.inv(factors[0] * own * np.eye(24) + factors[1] * common)
    x = np.repeat([1.0, 0.0], [18, 6])
    less = {
        "stddev": mechanism.stddev * Decimal(factors[0]).sqrt(),
        "common_stddev": mechanism.common_stddev * Decimal(factors[1]).sqrt(),
    }
    assert mechanism.profile(given).delta(1.0) <= 1e-6
    assert mechanism.model_copy(update=less).profile(given).delta(1.0) > 2e-6
    assert gaussian_delta(1.0, math.sqrt(x @ inverse @ x)) > 1e-6


@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize(("variance", "common"), [(70, 8), (200, 30)])
@pytest.mark.parametrize(
    ("period", "bound", "touched", "block"),
    [(2, 1, 1, 2), (2, 2, 1, 2), (1, 1, 1, 1), (1, 1, 2, 1), (2, 2, 1, 1), (2, 1, 1, 1), (1, 1, 2, 2)],
)
def test_discrete_noise_of_periods_tells_no_more_than_is_said(
    monkeypatch: pytest.MonkeyPatch,
    part: int,
    variance: int,
    common: int,
    period: int,
    bound: int,
    touched: int,
    block: int,
) -> None:
    """Every probability of two values is added up: of one draw, and of two, which are independent."""
    for name, value in (("GRID", 8), ("FINE", 2), ("PARTS", 4)):
        monkeypatch.setattr(checked, name, value)
    given = replace(setting(2, period, bound, touched), aligned=period == block)
    strategy = LessUsers(part, block)
    said = DiscreteGaussian(Fraction(variance)).any_way(strategy.moves(given))
    said = said.compose(DiscreteGaussian(Fraction(common)).any_way(Moves(strategy.draws(given) * 2**2)))
    far, wide = 12 * math.isqrt(common), 12 * math.isqrt(variance)
    line = np.exp(-(np.arange(-wide, wide + 1) ** 2) / (2 * variance))
    reach = wide + part * far
    joint, single = np.zeros((2 * reach + 1, 2 * reach + 1)), np.zeros(2 * reach + 1)
    for eta in range(-far, far + 1):
        place, height = (
            slice(reach + part * eta - wide, reach + part * eta + wide + 1),
            math.exp(-(eta**2) / 2 / common),
        )
        joint[place, place] += height * np.outer(line, line)
        single[place] += height * line
    joint = joint if block == 2 else np.outer(single, single)
    joint /= joint.sum()
    size = joint.shape[0]
    for x, _ in parts(2, period, given, bound, 1):
        a, b = (8 * x[:, 0]).tolist()
        mine, other = np.zeros((size + 8, size + 8)), np.zeros((size + 8, size + 8))
        mine[:size, :size] = joint
        other[a : a + size, b : b + size] = joint
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            for one, two in ((mine, other), (other, mine)):
                assert np.maximum(one - math.exp(epsilon) * two, 0).sum() <= said.delta(epsilon) + 1e-12


def test_endless_streams_have_the_noise_of_one_period() -> None:
    """However long the stream: the same noise, which goes on beyond any horizon; longer periods are one draw.

    With a weight of 1, as a policy has it that says none, it is 36 % of the variance of plain noise.
    """
    found = [made(setting(steps, 24, 24), "1") for steps in (None, 48, 1000)]
    assert found[0] == calibrate(CommonNoise, setting(None, 24, 24), Decimal(1), Decimal("1e-6"))
    assert found[0] == found[1] == found[2]
    plain = calibrate("gaussian", setting(None, 24, 24), Decimal(1), Decimal("1e-6")).stddev  # type: ignore[union-attr]
    assert found[0].variances(setting(None, 24, 24), 1)[0] == pytest.approx(0.36 * float(plain) ** 2, rel=0.01)
    whole = Setting(Participation(10, 10), period=Fraction(24))
    assert made(whole).common_steps is None
    assert made(whole) == made(Setting(Participation(10, 10)))


def test_a_plan_of_one_draw_for_all_periods_is_what_it_was() -> None:
    """Plans of earlier versions say nothing of periods: one draw for the whole stream, which has an end, moved once."""
    given = setting(12, 4, 4)
    old = made(Setting(Participation(12, 12)))
    assert "common_steps" not in old.model_dump()
    assert old.offset(given) == Offset(math.sqrt(old.common_variance(given)))
    moves = LessUsers(old.parts).moves(given).l2_square
    q = old.parts * FINE
    assert moves == 4 * (GRID**2 - 2 * q * GRID) + 12 * q**2
    with pytest.raises(ValueError):
        old.profile(setting(None, 4, 4))


@pytest.mark.parametrize(
    "other",
    [
        Setting(Participation(4, 12)),
        Setting(Participation(4, 12), period=Fraction(1, 2)),
        Setting(Participation(4, 12), period=Fraction(4), replaced=True),
        Setting(Participation(4, 12), period=Fraction(4), signed=True),
    ],
)
def test_draws_of_other_periods_than_the_promise_is_about_are_no_claim(other: Setting) -> None:
    """A draw for every 4 steps says nothing of all of a user, of parts of a step, or of replaced users."""
    with pytest.raises(ValueError):
        made(setting(12, 4, 4)).profile(other)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Setting(Participation(4, None)), "per = 1d"),
        (Setting(Participation(4, None), period=Fraction(1, 4)), "several periods"),
        (setting(None, 100, 1), "hardly anything"),
        (Setting(Participation(4, None), period=Fraction(4), replaced=True), "add_remove"),
    ],
)
def test_where_it_does_not_apply_it_says_why(given: Setting, words: str) -> None:
    """With what to write, where something can be."""
    assert words in (CommonNoise.reason_against(given) or "")
    assert CommonNoise.reason_against(setting(None, 24, 6)) is None


@pytest.mark.parametrize("pieces", [[8], [1, 1, 1, 1, 1, 1, 1, 1], [2, 3, 3], [4, 4], [3, 4, 1]])
def test_a_draw_is_made_again_from_its_own_period_alone(monkeypatch: pytest.MonkeyPatch, pieces: list[int]) -> None:
    """Centre and variance are those of its law given the values and records of its period, by the law's definition."""
    given = setting(None, 3, 3, cells=2, contribution=2)
    mechanism, raw = made(given), np.random.default_rng(1).integers(0, 50, (8, 2))
    asked: list[tuple[Fraction, Fraction]] = []
    real = drawn.discrete_gaussian_around

    def noted(centre: Fraction, variance: Fraction, randomness: SimulationRandomness) -> int:
        asked.append((centre, variance))
        return real(centre, variance, randomness)

    monkeypatch.setattr(drawn, "discrete_gaussian_around", noted)
    records: list[tuple[int, ...]] = []
    expected = []
    for count in pieces:
        begin, stop = len(records), len(records) + count
        known = list(records)
        records += mechanism.measure(given, raw[:stop], records, SimulationRandomness(begin))
        starts = {begin, *(step for step in range(begin, stop) if step % 3 == 0)}
        expected += [(step - step % 3, step, known) for step in sorted(starts)]
    assert len(asked) == len(expected)
    shift = mechanism.parts * given.contribution
    for (centre, variance), (first, step, known) in zip(asked, expected, strict=True):
        away = [n - int(x) * GRID for t in range(first, step) for n, x in zip(known[t], raw[t], strict=True)]
        around = [round(centre) + n * math.isqrt(int(variance)) for n in (-3, -1, 0, 2)]
        logs = [
            Fraction(h**2) / mechanism.common_law.variance / 2
            + sum(Fraction((w - shift * h) ** 2) for w in away) / mechanism.law_variance / 2
            - (h - centre) ** 2 / variance / 2
            for h in around
        ]
        assert len(set(logs)) == 1  # the same but for a constant, exactly


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("pieces", [[7], [2, 3, 2]])
def test_a_run_in_pieces_has_the_law_of_one_run(pieces: list[int]) -> None:
    """Noise of a period has the covariance of its draw, of two periods none, whichever run made them; 4,000 runs."""
    given = setting(None, 3, 3, cells=2, contribution=2)
    mechanism, raw = made(given), np.random.default_rng(1).integers(0, 50, (7, 2))
    randomness, noise = SimulationRandomness(7), []
    for _ in range(4000):
        records: list[tuple[int, ...]] = []
        for count in pieces:
            records += mechanism.measure(given, raw[: len(records) + count], records, randomness)
        noise.append((mechanism.values(given, records) - raw).ravel())
    found = np.cov(np.array(noise).T)
    common, own = mechanism.common_variance(given), float(mechanism.stddev) ** 2
    blocks = np.repeat(np.arange(7) // 3, 2)
    expected = common * np.equal.outer(blocks, blocks) + own * np.eye(14)
    spread = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / 4000)
    assert (np.abs(found - expected) <= 4.5 * spread).all()
    assert np.abs(np.array(noise).mean(axis=0)).max() <= 4.5 * math.sqrt((common + own) / 4000)


@pytest.mark.parametrize(("shared", "steps"), [(None, 10), (4, 10), (3, 9), (20, 10), (1, 5)])
def test_totals_are_off_by_the_draws_of_their_periods(shared: int | None, steps: int) -> None:
    """Running totals, windows and windows of totals, by the matrix of what each adds up."""
    blocks = np.arange(steps) // (shared or steps)
    running = np.tril(np.ones((steps, steps)))
    window = running - np.eye(steps, k=-3) @ running
    for matrix in (np.eye(steps), running, window, window @ running):
        expected = np.sqrt(np.diag(matrix @ (4.0 * np.equal.outer(blocks, blocks)) @ matrix.T))
        found = Offset(2.0, shared).of_totals(lambda values, matrix=matrix: matrix @ values, steps)
        assert found == pytest.approx(expected)
