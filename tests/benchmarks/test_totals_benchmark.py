"""Running totals under one promise: correlated noise beside independent noise and binary trees, in one run."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from policyc.offers import calibrate
from policyc.offers.calibration import gaussian_stddev
from policyc_check.mechanisms.binary_tree import Tree
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms import StreamMechanism
from policyc_runtime.mechanisms.binary_tree import BinaryTree
from policyc_runtime.mechanisms.gaussian import Gaussian
from policyc_runtime.mechanisms.toeplitz import Toeplitz
from policyc_runtime.randomness import SimulationRandomness

pytestmark = pytest.mark.law

RUNS = 200
SETTINGS = [(365, 30, 12), (365, 1, 1), (1440, 4, 30), (365, 365, 1)]


def measured_rms(mechanism: StreamMechanism, setting: Setting, *, cumulated: bool) -> float:
    """Of `RUNS` runs on a stream of zeros."""
    assert setting.horizon is not None
    raw, randomness = np.zeros((setting.horizon, 1), dtype=np.int64), SimulationRandomness(1)
    squares = []
    for _ in range(RUNS):
        values = mechanism.values(setting, mechanism.measure(setting, raw, [], randomness))
        squares.append(float(((np.cumsum(values) if cumulated else values) ** 2).mean()))
    return float(np.sqrt(np.mean(squares)))


def as_published(participation: Participation) -> float:
    """Rms error of the tree of CSS11: over a power of two of steps, totals of nodes as they were measured."""
    steps = participation.horizon or 1
    padded = replace(participation, horizon=1 << (steps - 1).bit_length())
    nodes = np.mean([step.bit_count() for step in range(1, steps + 1)])
    return gaussian_stddev(1.0, 1e-6, math.sqrt(Tree(padded.horizon or 1, 1).l2_square(padded))) * math.sqrt(nodes)


@pytest.mark.parametrize(("steps", "bound", "spacing"), SETTINGS)
def test_running_totals(steps: int, bound: int, spacing: int) -> None:
    """(1, 1e-6) at user level: measured rms errors, and how many times that of `toeplitz` each of the others has."""
    participation = Participation(bound, steps, spacing)
    plain, total = Setting(participation), Setting(participation, workload="prefix")
    offline = Setting(participation, workload="prefix", wait=None)
    promise = (Decimal(1), Decimal("1e-6"), {})
    started = time.process_time()
    toeplitz = calibrate(Toeplitz, total, *promise)
    seconds = time.process_time() - started
    errors = {
        "toeplitz": measured_rms(toeplitz, total, cumulated=False),
        "independent": measured_rms(calibrate(Gaussian, plain, *promise), plain, cumulated=True),
        "tree": measured_rms(calibrate(BinaryTree, total, *promise), total, cumulated=False),
        "tree offline": measured_rms(calibrate(BinaryTree, offline, *promise), offline, cumulated=False),
    }
    errors["tree as published"] = as_published(participation)
    best = errors["toeplitz"]
    ratios = ", ".join(f"{name} {error:.1f} ({error / best:.2f})" for name, error in errors.items())
    print(f"\nT {steps}, k {bound}, spacing {spacing}: {ratios}; planned in {seconds:.2f} s")
    assert best <= 1.15 * min(errors.values())
