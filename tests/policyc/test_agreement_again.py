"""Levels that agree where values are published again until counts have moved: stated errors are those of still counts.

Values that agree err less than those that do not, also while counts move.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from agreeing import PLACES
from numpy.typing import NDArray

from policyc import compile_policy
from policyc_check.users.claims import unit_of
from policyc_check.verify import verified_claims
from policyc_runtime.estimates import agreed
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.noisy_values import measured, noisy_values
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, MeasuredRelease
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
STEPS, FAR = 16, 10**8
POLICY = """policy visits "Visits of places, regions and all, which agree"
stream visits {{
  user account  time at  cell place in file("places.csv") levels(region, country, kind) {away}
  step 1h  horizon {steps} steps  start "2026-01-01"
}}
release places  = {counted} by place
release regions = {counted} by region
{top}
{targets}
objective {objective}
mechanism {mechanism}
deliver realtime
postprocess places {{ sum(places) == regions }}
"""
ALL = "release all = {}\npostprocess regions {{ sum(regions) == all }}"
ROWS = [[0.4 if here == there else 0.1 for there in range(7)] for here in range(7)]
CHAIN = f"""target alpha_dpt(alpha = 3)
correlation markov(forward = {ROWS}, initial = stationary, evidence = "e") for walkers
correlation none(evidence = "nobody knows how they move") for riders"""
WINDOW = "target w_event(epsilon = 2, window = 5 steps)"
CASES = {  # mechanism, objective, promises, what is counted
    "absorption": ("budget_absorption()", "mean_squared_error", WINDOW, "count(visits)"),
    "absorption, absolute": ("budget_absorption()", "mean_absolute_error", WINDOW, "count(visits)"),
    "distribution": ("budget_distribution()", "mean_squared_error", WINDOW, "count(visits)"),
    "sums": ("budget_absorption()", "mean_squared_error", WINDOW, "sum(visits.h, clamp = 0 .. 5)"),
    "two ways": ("budget_absorption()", "mean_squared_error", WINDOW, "count(visits)"),
    "budgets": ("budget_absorption(window = 4 steps)", "mean_squared_error", CHAIN, "count(visits)"),
    "budgets, two ways": ("budget_absorption(window = 4 steps)", "mean_squared_error", CHAIN, "count(visits)"),
    "budgets, absolute": ("budget_distribution(window = 4 steps)", "mean_absolute_error", CHAIN, "count(visits)"),
}
REGIONS, KINDS = ((0, 1, 2), (3,), (4, 5)), ((0, 2, 4), (1, 3, 5))


def compiled(kind: str, folder: Path) -> Plan:
    """One of the plans; where who is away counts as well, no number of all that are in places is above the levels."""
    mechanism, objective, targets, counted = CASES[kind]
    (folder / "places.csv").write_text(PLACES)
    told = {"mechanism": mechanism, "objective": objective, "targets": targets, "counted": counted, "steps": STEPS}
    chain = targets == CHAIN
    told["away"] = 'otherwise "away" population 999_999_999' if chain else ""
    told["top"] = "" if chain else ALL.format(counted)
    text = POLICY.format(**told)
    if "two ways" in kind:
        text = text.replace("by region\n", f"by region\nrelease kinds = {counted} by kind\n")
        text = text.replace("sum(places) == regions", "sum(places) == regions, sum(places) == kinds")
    (folder / "visits.policy").write_text(text)
    return compile_policy(folder / "visits.policy").plan


def away(plan: Plan, places: Whole, seed: int, *, agreeing: bool = True) -> dict[str, Array]:
    """How far values of a run are from the true ones, which places have."""
    true = {"places": places, "all": places.sum(axis=1, keepdims=True)}
    for name, belong in {"regions": REGIONS, "kinds": KINDS}.items():
        sums = [places[:, list(own)].sum(axis=1) for own in belong]
        true[name] = np.stack([*sums, *places.T[6:]], axis=1)  # and away
    noisy, units = {}, {}
    for index, part in enumerate(plan.releases):
        found = measured(plan, part)
        assert found is not None
        records = found[0].measure(found[1], true[part.name], (), SimulationRandomness(100 * seed + index))
        noisy[part.name], units[part.name] = noisy_values(plan, part, records), float(unit_of(plan, part))
    values = agreed(plan, noisy, every_digit=True) if agreeing else noisy
    return {name: values[name] - true[name] * units[name] for name in noisy}


@pytest.mark.sampled(3, laws=2)
@pytest.mark.parametrize("kind", CASES)
def test_stated_errors_are_those_of_counts_that_stand_still(kind: str, tmp_path: Path) -> None:
    """Every level within 4 % and four standard errors of runs; the promise is kept."""
    plan = compiled(kind, tmp_path)
    assert all(claim.holds for claim in verified_claims(plan))
    runs = [away(plan, np.full((STEPS, len(plan.releases[0].cells)), FAR), seed) for seed in range(40)]
    for part in plan.releases:
        assert isinstance(part, MeasuredRelease | AdaptiveRelease)
        assert isinstance(part.mechanism, WindowMechanism)
        assert part.predicted.kind == "at_least"
        assert (part.predicted.because or "").startswith("how far off values are depends on how far counts move")
        found = np.array([run[part.name] for run in runs])
        means = (found**2 if plan.objective == "mean_squared_error" else np.abs(found)).mean(axis=(1, 2))
        stderr = float(means.std() / len(means) ** 0.5)
        assert abs(means.mean() - part.predicted.published) < 0.04 * part.predicted.published + 4 * stderr, part.name


@pytest.mark.parametrize("kind", ["absorption", "budgets, absolute"])
@pytest.mark.parametrize("size", [30, 3000])
def test_values_that_agree_err_no_more_while_counts_move(kind: str, size: int, tmp_path: Path) -> None:
    """Each level, of walks near zero and far from it: what is stale in one is not in all."""
    plan = compiled(kind, tmp_path)
    found: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
    for seed in range(24):  # of twelve, a mean is off by more than what is asked here
        moves = np.random.default_rng(seed).integers(-size // 30, size // 30 + 1, (STEPS, len(plan.releases[0].cells)))
        places = np.maximum(0, size + np.cumsum(moves, axis=0))
        for agreeing, errors in found.items():
            for name, one in away(plan, places, seed, agreeing=agreeing).items():
                errors.setdefault(name, []).append(float((one**2).mean()))
    for name in found[True]:
        assert np.mean(found[True][name]) < 1.02 * np.mean(found[False][name]), name
