"""The user who is attacked goes where the mechanism shows most of them: the attack on a sum over cells needs it."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_check.plan.targets import NeighboringRelation
from policyc_runtime.laboratory.empirical import attacks_on, streams
from policyc_runtime.laboratory.empirical.proof import counted
from policyc_runtime.mechanisms.dft import Dft
from policyc_runtime.noisy_values import measured
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness

RUNS = 12_000
CONFIDENCE = 0.995  # of each of two attacks, 0.99 together


def compiled(
    folder: Path, mechanism: str, events: int = 1, neighbors: str = "add_remove", cells: str = '"A", "B"'
) -> Plan:
    """A count by cells over two steps."""
    path = folder / "walk.policy"
    path.write_text(
        f"""policy walk "Users of cells"
stream trips {{
  user who time at cell place in {{{cells}}} step 1d horizon 2 steps start "2026-01-01" population 100
}}
release seen = count(trips) by place
target user_level(epsilon = 2.0, delta = 1e-6, neighbors = {neighbors})
participation at_most(2 steps, per_step = {events}, enforced = keep_first)
deliver offline
mechanism {mechanism}
""",
        encoding="utf-8",
    )
    return compile_policy(path).plan


def scene_of(plan: Plan) -> streams._Scene:
    return streams._Scene(plan, plan.targets[0])


def moved(scene: streams._Scene, walk: tuple[int, int]) -> int:
    """How far the user of a walk moves all numbers that get noise, L1, in units of the grid."""
    sides = scene._rows(scene.parts[0], walk, 1, 1, SimulationRandomness, lambda _: None)
    mine, other = (np.concatenate([np.array(record) for record in rows[0]]) for rows in sides)
    return int(np.abs(mine - other).sum())


@pytest.mark.law
@pytest.mark.parametrize(
    ("events", "neighbors", "cells"),
    [(1, "add_remove", '"A", "B"'), (2, "add_remove", '"A", "B"'), (1, "replace", '"A", "B", "C", "D"')],
)
def test_the_attacked_user_moves_what_noise_on_frequencies_is_made_for(
    tmp_path: Path, events: int, neighbors: str, cells: str
) -> None:
    """In several cells; a user who stays moves less, and would not see noise for the frequencies of one cell alone."""
    plan = compiled(tmp_path, "dft(noise = laplace)", events, neighbors, cells)
    mechanism, setting = measured(plan, plan.releases[0]) or (None, None)
    assert isinstance(mechanism, Dft)
    scene = scene_of(plan)
    attacked, stated = moved(scene, scene._walk), mechanism.strategy(setting).moves(setting).l1
    assert 0.999 * stated <= attacked <= stated
    assert moved(scene, (0, 0)) < 0.8 * stated


@pytest.mark.parametrize("mechanism", ["gaussian()", "laplace()"])
def test_of_users_who_move_as_much_the_one_who_stays_is_attacked(tmp_path: Path, mechanism: str) -> None:
    """Where cells make no difference, the attack is the simplest there is."""
    assert scene_of(compiled(tmp_path, mechanism))._walk == (0, 0)


def test_noise_for_the_frequencies_of_one_cell_is_noticed(tmp_path: Path, full: bool) -> None:
    """Noise as it once was, too small by the square root of two, is refuted by so many runs; its own is not.

    The event that tells most has a probability of 1 / 16 with the user and of exp(-2.83) / 16 without: of 6,000 runs
    that are counted about 22 do, at most 40 with 99.75 % confidence, against at least 330. That proves 2.1 nats.
    """
    if not full:
        pytest.skip("24,000 runs take half a minute: with --full")
    plan = compiled(tmp_path, "dft(noise = laplace)")
    mechanism, setting = measured(plan, plan.releases[0]) or (None, None)
    assert isinstance(mechanism, Dft)
    assert plan.claims.user_level[0].relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    one_cell = (math.isqrt(2 * mechanism.strategy(setting).moves(setting).l2_square) + 1) / mechanism.strategy(
        setting
    ).moves(setting).l1
    attack = attacks_on(plan)[-1]
    assert attack.epsilon == Decimal(2)
    for factor, noticed in ((1.0, False), (one_cell, True)):
        scores = attack.play(RUNS, factor, SimulationRandomness(1), lambda _: None)
        proven = counted(*scores, float(attack.delta), CONFIDENCE).proven_epsilon(float(attack.delta), CONFIDENCE)
        assert (proven > float(attack.epsilon)) is noticed
