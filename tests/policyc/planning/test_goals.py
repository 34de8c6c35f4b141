"""The least noise for a loss that adds up: in closed form, never too small, and hardly ever too large."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from policyc.offers import Goal, LargestLoss, Rho, StreamOffer, calibrate_to, mechanism_offers
from policyc_check.errors import KernelError
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting

SETTING = Setting(Participation(4, 12), cells=1, wait=None)
TOTALS = Setting(Participation(4, 12), workload="prefix")
PURE: dict[str, dict[str, Any]] = {"laplace": {}, "fast": {"samples": 3}, "dft": {"noise": "laplace"}}
KEPT: dict[str, dict[str, Any]] = {
    "laplace": {},
    "fast": {},
    "gaussian": {},
    "dft": {"coefficients": 3},
    "lmmse": {"weight": Decimal("0.5")},
    "common_noise": {"weight": Decimal("0.3")},
    "filter_subsample": {"rate": Decimal("0.5")},
    "toeplitz": {},
    "binary_tree": {},
}
CASES = [(name, options, LargestLoss(Decimal(e))) for name, options in PURE.items() for e in ("0.1", "1", "7.3")]
CASES += [(name, options, Rho(Decimal(r))) for name, options in KEPT.items() for r in ("0.015", "1", "19.776")]


@pytest.mark.parametrize(("name", "options", "goal"), CASES)
def test_noise_is_the_least_that_keeps_a_loss(name: str, options: dict[str, Any], goal: LargestLoss | Rho) -> None:
    """What it loses is at most the limit, exactly, and a millionth less noise would lose more."""
    setting = TOTALS if name in ("toeplitz", "binary_tree") else SETTING
    made = calibrate_to(name, setting, goal, options)
    lost = goal.lost(made, setting)
    assert lost is not None
    assert lost <= Fraction(goal.limit)
    less = goal.lost(made.of_size(made.noise_size * (1 - 1e-6)), setting)
    assert less is not None
    assert less > Fraction(goal.limit)


def test_published_scales() -> None:
    """Deployments 4, 5 and 8: sqrt(10 / 0.03), 30 and 10; every digit beyond the tenth is rounded up."""
    views = Setting(Participation(1, 2188), contribution=30, cells=9, per_step=30)
    assert calibrate_to("laplace", views, LargestLoss(Decimal(1))).scale == 30
    devices = Setting(Participation(1, 1), contribution=2, cells=9, per_step=2)
    assert calibrate_to("laplace", devices, LargestLoss(Decimal("0.2"))).scale == 10
    pages = Setting(Participation(10, 10), cells=9)
    assert calibrate_to("gaussian", pages, Rho(Decimal("0.015"))).stddev == Decimal("18.25741859")
    third = calibrate_to("laplace", Setting(Participation(1, 1)), LargestLoss(Decimal("0.3"))).scale
    assert third == Decimal("3.333333334")


@pytest.mark.parametrize("goal", [LargestLoss(Decimal(1)), Rho(Decimal(1))])
def test_parts_add_up_to_no_more_than_all(goal: LargestLoss | Rho) -> None:
    """Rounded down each, and to the limit but for that."""
    parts = goal.parts([1.0, 1 / 3, 0.7, 1e-3])
    together = sum((Fraction(part.limit) for part in parts), Fraction(0))
    assert Fraction(goal.limit) * (1 - Fraction(1, 10**10)) < together <= Fraction(goal.limit)
    assert parts[1].limit / parts[0].limit == pytest.approx(Decimal(1) / 3)


@pytest.mark.parametrize(
    ("goal", "able"),
    [
        (LargestLoss(Decimal(1)), {"laplace", "fast", "dft"}),
        (Rho(Decimal(1)), {*KEPT}),
    ],
)
def test_an_offer_says_what_its_noise_can_keep(goal: Goal, able: set[str]) -> None:
    """Just the mechanisms whose record has such a loss: coins have neither, nor do steps chosen by chance."""
    offers = {name: offer for name, offer in mechanism_offers().items() if isinstance(offer, StreamOffer)}
    assert {name for name, offer in offers.items() if offer.keeping(goal, {}) is not None} == able | {
        "budget_absorption",
        "budget_distribution",
    }
    assert offers["dft"].keeping(LargestLoss(Decimal(1)), {}) == {"noise": "laplace"}
    assert offers["dft"].keeping(LargestLoss(Decimal(1)), {"noise": "gaussian"}) is None
    assert offers["lmmse"].keeping(Rho(Decimal(1)), {"noise": "binomial"}) is None


def test_so_small_a_loss_that_noise_has_no_room_is_refused() -> None:
    """One finding, and no noise that is cut."""
    with pytest.raises(KernelError) as refused:
        calibrate_to("laplace", Setting(Participation(10**5, 10**6), 10**6), LargestLoss(Decimal("1e-12")))
    assert refused.value.code == "E0831"


def test_so_large_a_rho_that_the_grid_is_coarse_has_the_least_noise_of_the_grid() -> None:
    """More noise than it needs, never less."""
    made = calibrate_to("binary_tree", TOTALS, Rho(Decimal(10) ** 6))
    assert made.noise_size == made.least_size
    assert made.rho(TOTALS) <= 10**6
