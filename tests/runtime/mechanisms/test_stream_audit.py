"""An attacker who sees all records of a stream tries to tell whether one user is in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from stream_settings import KINDS, calibrated, kind_of, one_setting, run, simulated

from policyc_check.mechanisms.window_mechanism import WindowMechanism
from policyc_check.users.setting import Setting
from policyc_runtime.laboratory.empirical.proof import counted
from policyc_runtime.laboratory.empirical.streams import fisher
from policyc_runtime.mechanisms import StreamMechanism

RUNS = {True: 20_000, False: 2_500}  # of the full audit, and of the one that every test run can afford
FEW = 2_500
STEPS = 6
OTHERS = 20  # what all other users add up to in a step
CONFIDENCE = 0.998
RARE = 1 / 16  # of the noise, where little is published: less is noticed by tests/runtime/test_every_user_of_windows.py
EPSILON, DELTA = 1.0, 0.1  # where an attack on few runs still proves something

Rows = NDArray[np.float64]


def seen(mechanism: StreamMechanism, setting: Setting, present: bool, runs: int, seed: int) -> Rows:
    """What an attacker sees, (runs, features): all numbers of all records; where there is none, what others give."""
    raw = np.full((STEPS, 1), OTHERS, dtype=np.int64)
    if present:
        raw[: setting.participation.steps] += setting.contribution
    randomness = simulated(seed)
    rows = [run(mechanism, setting, raw, randomness) for _ in range(runs)]
    width = max(len(record) for row in rows for record in row)
    return np.array([[n for r in row for n in (*r, *[OTHERS] * (width - len(r)))] for row in rows], dtype=np.float64)


def proven_epsilon(without: Rows, present: Rows) -> float:
    """A lower bound of epsilon at DELTA, with 99.8 % confidence; the first half of the runs fits the attack."""
    half = len(present) // 2
    features = min(without.shape[1], present.shape[1])
    without, present = without[:, :features], present[:, :features]
    difference = present[:half].mean(axis=0) - without[:half].mean(axis=0)
    direction = fisher(present[:half], without[:half], difference)
    counts = counted(present @ direction, without @ direction, DELTA, CONFIDENCE)
    return counts.proven_epsilon(DELTA, CONFIDENCE)


@pytest.mark.sampled(1, laws=6)  # the first takes least
@pytest.mark.parametrize("name", ["binomial", *(kind for kind in KINDS if kind != "binomial"), "lmmse, binomial"])
def test_no_attack_proves_more_than_is_claimed_and_half_the_noise_is_noticed(name: str, full: bool) -> None:
    """Runs on two neighboring streams prove no more than is promised; with half the noise they do."""
    setting = one_setting(kind_of(name), steps=STEPS, bound=2, contribution=3)
    totals = replace(setting, workload="prefix")  # where running totals are measured, theirs are attacked
    setting = setting if kind_of(name).reason_not_here(totals) else totals
    mechanism = calibrated(name, setting, str(EPSILON), str(DELTA))
    without, present = (seen(mechanism, setting, there, RUNS[full], seed) for seed, there in ((1, False), (2, True)))
    assert proven_epsilon(without, present) <= EPSILON
    weak = mechanism.with_noise(RARE if isinstance(mechanism, WindowMechanism) else 0.5)
    without, present = (seen(weak, setting, there, FEW, seed) for seed, there in ((3, False), (4, True)))
    assert proven_epsilon(without, present) > EPSILON
