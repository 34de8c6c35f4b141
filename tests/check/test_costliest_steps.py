"""The costliest steps of a period: at every rank no less than any stretch of so many steps has there, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from policyc_check.steps import users
from policyc_check.steps.users import costliest


def by_hand(budgets: list[float], width: int, most: int) -> list[float]:
    """The same, stretch by stretch."""
    stretches = [sorted(budgets[at : at + width], reverse=True) for at in range(max(1, len(budgets) - width + 1))]
    return [max(stretch[rank] for stretch in stretches) for rank in range(min(most, width, len(budgets)))]


@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_ranks_are_those_of_all_stretches(steps: int) -> None:
    """Of any budgets, any width, any number of steps that may differ."""
    draw = np.random.default_rng(steps)
    for _ in range(60):
        budgets = draw.choice([0.0, 0.25, 0.5, draw.random(), 1.0], steps)
        width, most = (int(draw.integers(1, steps + 4)) for _ in range(2))
        assert costliest(budgets, width, most).tolist() == by_hand(budgets.tolist(), width, most)


def test_of_very_many_stretches_longer_ones_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never less than all of them have, whatever is left out; the last ones are among them."""
    draw = np.random.default_rng(1)
    for most_numbers in (1, 7, 60):
        monkeypatch.setattr(users, "MOST_NUMBERS", most_numbers)
        for _ in range(40):
            budgets = draw.random(int(draw.integers(1, 40))) ** 4
            width = int(draw.integers(1, 12))
            least = by_hand(budgets.tolist(), width, width)
            found = costliest(budgets, width, width)
            assert (found[: len(least)] >= least).all()
            assert found[0] == budgets.max()
