"""What mechanisms with chance or memory show of a user: every public choice of steps, and histories of all kinds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from every_user import Noise, least_delta, noise_replaced, supports
from numpy.typing import NDArray
from stream_settings import simulated

from policyc.offers import calibrate
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime import randomness
from policyc_runtime.mechanisms import window_mechanism_kinds
from policyc_runtime.mechanisms.fast import Fast
from policyc_runtime.mechanisms.subsample import Subsample

Series = NDArray[np.int64]
STEPS = 5


def changes(bound: int, spacing: int, size: int, replaced: bool) -> Iterator[Series]:
    """The differences of most size between neighbors who take part in at most so many steps."""
    own = supports(STEPS, bound, spacing)
    for mine, other in product(own, own if replaced else [frozenset()]):
        yield np.array([size * ((t in mine) - (t in other)) for t in range(STEPS)], dtype=np.int64)
        yield np.array([size * ((t in mine) or (t in other)) for t in range(STEPS)], dtype=np.int64)


def choices(mechanism: Subsample) -> list[tuple[float, list[int]]]:
    """Every set of steps that may be shown, through the mechanism's own choosing, with its probability."""
    found: list[tuple[float, list[int]]] = []

    def follow(drawn: tuple[int, ...], probability: float) -> None:
        told = list(drawn)
        asked: list[int] = []

        def uniform(whole: int, count: int, _: Any) -> Series:
            out = []
            for _turn in range(count):
                if told:
                    out.append(told.pop(0))
                else:
                    asked.append(whole)
                    out.append(0)
            return np.array(out, dtype=np.int64)

        kept, randomness.uniform_integers = randomness.uniform_integers, uniform  # type: ignore[assignment]
        try:
            shown = mechanism._chosen(STEPS, simulated(1)).tolist()
        finally:
            randomness.uniform_integers = kept  # type: ignore[assignment]
        if not asked:
            found.append((probability, shown))
            return
        for value in range(asked[0]):
            follow((*drawn, value), probability / asked[0])

    follow((), 1.0)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sampling", ["poisson", "fixed_size", "stratified"])
@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (2, 1), (3, 2), (5, 1)])
@pytest.mark.parametrize("replaced", [False, True])
def test_sampled_steps_show_no_user_more_than_is_stated(
    sampling: str, bound: int, spacing: int, replaced: bool
) -> None:
    """Over all choices of steps, each as likely as it is, delta of every user is below that of the stated curve."""
    setting = Setting(Participation(bound, STEPS, spacing), contribution=2, per_step=2, replaced=replaced, wait=None)
    options = {"rate": Decimal("0.5"), "sampling": sampling}
    mechanism = calibrate(Subsample, setting, Decimal("0.5"), Decimal("1e-3"), options)
    drawn = choices(mechanism)
    assert math.fsum(probability for probability, _ in drawn) == pytest.approx(1)
    noise = Noise("gaussian", float(Fraction(mechanism.stddev) ** 2))
    profile = mechanism.profile(setting)
    seen: dict[tuple[int, ...], float] = {}
    for epsilon in (0.1, 0.5, 0.8):
        seen.clear()
        for change in {tuple(c.tolist()) for c in changes(bound, spacing, 2, replaced)}:
            total = 0.0
            for probability, shown in drawn:
                moves = tuple(sorted(abs(change[t]) for t in shown if change[t]))
                if moves not in seen:
                    seen[moves] = least_delta([(noise, move) for move in moves], epsilon)
                total += probability * seen[moves]
            assert total <= profile.delta(epsilon)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("samples", [None, 1, 2, 4])
@pytest.mark.parametrize("replaced", [False, True])
def test_adaptive_samples_show_no_user_more_than_is_stated(samples: int | None, replaced: bool) -> None:
    """Whatever was recorded before, the samples of a user are at most as many, and moved as far, as is stated."""
    setting = Setting(Participation(2, STEPS), contribution=2, per_step=2, replaced=replaced)
    options = {} if samples is None else {"samples": samples}
    mechanism = calibrate(Fast, setting, Decimal(1), Decimal("1e-6"), options)
    noise, profile = Noise("laplace", float(mechanism.scale)), mechanism.profile(setting)
    raw = np.full((STEPS, 1), 20, dtype=np.int64)
    for change in changes(2, 1, 2, replaced):
        for seed in range(2):
            history = mechanism.measure(setting, raw * (1 + 50 * seed), (), simulated(seed))
            moves = []
            with noise_replaced(lambda _law, _parameter, count: np.zeros(count, dtype=np.int64)):
                for step in range(STEPS):
                    one, other = (
                        mechanism.measure(setting, rows[: step + 1], history[:step], simulated(1))[0]
                        for rows in (raw, raw + change[:, None])
                    )
                    assert len(one) == len(other) == len(history[step])
                    moves += [(noise, abs(b - a)) for a, b in zip(one, other, strict=True) if a != b]
            for epsilon in (0.3, 1.0, 1.4):
                assert least_delta(moves, epsilon) <= profile.delta(epsilon)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(window_mechanism_kinds()))
@pytest.mark.parametrize("window", [1, 2, 3])
def test_windows_spend_no_more_than_is_stated(name: str, window: int) -> None:
    """Whatever was recorded before, a user who is elsewhere throughout any steps in a row loses at most `spent`."""
    kind = window_mechanism_kinds()[name]
    fields = {"window": window, "epsilon": Decimal(6), "l1_sensitivity": 2, "still_error": 1}
    mechanism = kind.model_validate({"name": name, **fields})
    setting = Setting(Participation(window, 8), replaced=True, cells=3)
    generator, published = np.random.default_rng(1), 0
    for seed in range(5):
        raw = generator.integers(20, 20 + 30 * seed + 1, size=(8, 3))
        history = mechanism.measure(setting, raw, (), simulated(seed))
        for width, first in product(range(1, 5), range(8)):
            for here, there in combinations(range(3), 2):
                other = raw.copy()
                other[first : first + width, here] -= 1
                other[first : first + width, there] += 1
                loss = 0.0
                for step in range(first, min(first + width, 8)):
                    drawn: list[float] = []

                    def nothing(_law: str, scale: float, count: int, drawn: list[float] = drawn) -> Series:
                        drawn.append(scale)
                        return np.full(count, 10**6 if count == 1 else 0, dtype=np.int64)  # far enough to publish

                    with noise_replaced(nothing):
                        one, two = (
                            mechanism.measure(setting, rows[: step + 1], history[:step], simulated(1))[0]
                            for rows in (raw, other)
                        )
                    assert len(one) == len(two)
                    scales = drawn[: len(drawn) // 2]
                    loss += abs(one[0] - two[0]) / scales[0]
                    if len(history[step]) > 1:
                        published += 1
                        loss += sum(abs(a - b) for a, b in zip(one[1:], two[1:], strict=True)) / scales[1]
                assert loss <= float(mechanism.spent(width)) * (1 + 1e-12)
    assert published > 20
