"""Attacks on users who are in several cells: the mechanism's own noise, and the best test that there is against it.

Cells do not mix, so that many runs are one `measure` of as many times the cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from every_user import measured
from numpy.typing import NDArray
from stream_settings import simulated

from policyc.offers import calibrate
from policyc.offers.calibration import least_epsilon
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.laboratory.empirical.proof import counted
from policyc_runtime.mechanisms import StreamMechanism
from policyc_runtime.mechanisms.dft import Dft
from policyc_runtime.mechanisms.lmmse import Lmmse

CONFIDENCE = 0.998
CELLS = 8

Series = NDArray[np.int64]
Rows = NDArray[np.float64]


def attacked(
    mechanism: StreamMechanism,
    setting: Setting,
    base: Series,
    user: Series,
    score: Callable[[Rows, Rows], Rows],
    runs: int,
) -> Callable[[float], float]:
    """What runs with the user (steps, cells), and without, prove of epsilon at a delta.

    `score` says of the records of every run (runs, numbers), and of what the user moves (numbers,), how much they look
    like the user's.
    """
    moved = measured(mechanism, setting, base + user) - measured(mechanism, setting, base)
    without = measured(mechanism, setting, base).astype(float).ravel()
    wide = replace(setting, cells=setting.cells * runs)
    scores = []
    for seed, raw in enumerate((base + user, base)):
        records = mechanism.measure(wide, np.tile(raw, runs), (), simulated(seed))
        numbers = np.array(
            [row for record in records if record for row in np.reshape(record, (-1, runs, setting.cells))]
        )
        rows = numbers.transpose(1, 0, 2).reshape(runs, -1) - without
        scores.append(score(rows, moved.astype(float).ravel()))
    return lambda delta: counted(*scores, delta, CONFIDENCE).proven_epsilon(delta, CONFIDENCE)


def laplace_ratio(rows: Rows, moved: Rows) -> Rows:
    """The likelihood ratio of Laplace noise, but for its scale."""
    return np.asarray((np.abs(rows) - np.abs(rows - moved)).sum(axis=1))


def linear(rows: Rows, moved: Rows) -> Rows:
    """That of noise like Gaussian noise, of the same size everywhere."""
    return np.asarray(rows @ moved)


def test_a_user_in_several_cells_is_hidden_by_laplace_noise_on_frequencies() -> None:
    """No attack proves more than is promised; noise for the frequencies of one cell, as it once was, is too small."""
    setting = Setting(Participation(2, 2), cells=2, wait=None, per_step=1)
    mechanism = calibrate(Dft, setting, Decimal(1), Decimal("1e-6"), {"noise": "laplace"})
    base, user = np.full((2, 2), 20, dtype=np.int64), np.eye(2, dtype=np.int64)  # another cell at every step
    assert attacked(mechanism, setting, base, user, laplace_ratio, 60_000)(1e-6) <= 1
    one_cell = math.isqrt(2 * mechanism.strategy(setting).moves(setting).l2_square) + 1
    weak = mechanism.with_noise(one_cell / mechanism.strategy(setting).moves(setting).l1)
    assert attacked(weak, setting, base, user, laplace_ratio, 60_000)(1e-6) > 1


@pytest.mark.law
@pytest.mark.parametrize("weight", ["0.003", "0.02"])
def test_a_user_of_many_events_in_a_step_is_hidden_by_coins_of_tiny_weights(weight: str) -> None:
    """Every count that a part is taken of is rounded by itself: a curve for one rounding a step states too little."""
    steps, fields = 60, {"decay": 1, "grid": 1, "signal": None, "noise": "binomial"}
    setting = Setting(Participation(steps, steps), contribution=CELLS, cells=CELLS, per_step=CELLS)
    mechanism = Lmmse.model_validate({"stddev": 20, "weight": weight, **fields})
    base = np.full((steps, CELLS), math.ceil(Decimal("0.5") / Decimal(weight)) - 1, dtype=np.int64)  # rounded down
    proven = attacked(mechanism, setting, base, np.ones((steps, CELLS), dtype=np.int64), linear, 4_000)(0.02)
    assert proven <= least_epsilon(mechanism.profile(setting), 0.02)
    assert proven > least_epsilon(mechanism.profile(replace(setting, cells=1)), 0.02)
