"""Losses that add up exactly: the largest one, for promises without delta, and rho."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from policyc_check.mechanisms import StreamMechanism, kinds
from policyc_check.users.noise import DiscreteGaussian, DiscreteLaplace
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Moves, Setting

THREE = Setting(Participation(3, 12))
ROOT = Decimal("18.25741859")  # sqrt(10 / 0.03), rounded up


def made(name: str, **fields: object) -> StreamMechanism:
    """The record of a mechanism."""
    record: Any = kinds("stream")[name]
    found: StreamMechanism = record.model_validate(fields)
    return found


@pytest.mark.parametrize(
    ("name", "fields", "largest", "rho"),
    [
        ("laplace", {"scale": 30}, Fraction(3, 30), Fraction(3, 2 * 900)),
        ("gaussian", {"stddev": 5}, None, Fraction(3, 50)),
        ("binomial", {"coins": 100}, None, None),
        ("fast", {"scale": 30, "samples": 2, "process_sd": 1}, Fraction(2, 30), Fraction(2, 2 * 900)),
        ("subsample", {"rate": "0.5", "sampling": "poisson", "stddev": 5}, None, None),
        ("lmmse", {"stddev": 5, "weight": 1, "decay": 1, "grid": 64, "signal": None}, None, Fraction(3, 50)),
        (
            "lmmse",
            {"stddev": 5, "weight": 1, "decay": 1, "grid": 64, "signal": None, "noise": "binomial"},
            None,
            None,
        ),
    ],
)
def test_what_three_steps_lose(
    name: str, fields: dict[str, object], largest: Fraction | None, rho: Fraction | None
) -> None:
    """Three counts that one user changes by 1 each, by hand: 3 / scale, 3 / (2 s^2), or no limit."""
    mechanism = made(name, **fields)
    assert mechanism.largest_loss(THREE) == largest
    assert mechanism.rho(THREE) == rho


def test_published_scales_keep_published_promises() -> None:
    """Thirty views a day at scale 30 lose 1 nat, two cells at 10 lose 0.2, ten pages at sqrt(10 / 0.03) rho 0.015."""
    thirty = Setting(Participation(1, 2188), contribution=30, cells=500, per_step=30)
    assert made("laplace", scale=30).largest_loss(thirty) == 1
    two = Setting(Participation(1, 1), contribution=2, cells=4, per_step=2)
    assert made("laplace", scale=10).largest_loss(two) == Fraction(2, 10)
    ten = Setting(Participation(10, 366), cells=500)
    rho = made("gaussian", stddev=ROOT).rho(ten)
    assert rho is not None
    assert Fraction("0.0149999999") < rho <= Fraction("0.015")
    less = made("gaussian", stddev=ROOT - Decimal("1e-8")).rho(ten)
    assert less is not None
    assert less > Fraction("0.015")
    assert made("gaussian", stddev=ROOT).profile(ten).delta(0.7998) <= 1e-7
    assert made("gaussian", stddev=ROOT).profile(ten).delta(0.7997) > 1e-7


def test_a_replaced_user_loses_twice_as_much_in_cells() -> None:
    """Not four times: the values that the one leaves and those that the other enters are others."""
    alone = Setting(Participation(1, 1), cells=9)
    for name, fields in (("gaussian", {"stddev": 3}), ("laplace", {"scale": 3})):
        mechanism = made(name, **fields)
        once, twice = mechanism.rho(alone), mechanism.rho(replace(alone, replaced=True))
        assert once is not None
        assert twice == 2 * once


def test_noise_on_whole_numbers_of_any_size_has_a_rho() -> None:
    """Half of L2 squared over the variance, also where the curve of continuous noise says nothing yet."""
    for variance in (Fraction(1, 7), Fraction(6), Fraction(10) ** 30):
        assert DiscreteGaussian(variance).rho(Moves(13)) == 13 / (2 * variance)
    assert DiscreteLaplace(Fraction(7)).largest_loss(Moves(13)) is None
    assert DiscreteLaplace(Fraction(7)).largest_loss(Moves(13, 5)) == Fraction(5, 7)


def test_losses_too_many_to_be_convolved_are_taken_for_the_largest() -> None:
    """A sum of large values under Laplace noise keeps a curve: that of its largest loss."""
    moved = DiscreteLaplace(Fraction(10) ** 9).alike(40, 10**6)
    assert moved.delta(0.04 * (1 + 1e-12)) <= 1e-14
    assert moved.delta(0.039) > 0
