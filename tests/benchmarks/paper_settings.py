"""The settings of CAO23 and CAO17 for the benchmarks: chains, plans, moving users, and the papers' metrics.

Noise is for the true sensitivity of a histogram under replacement, 2, wherever it is not marked otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc import compile_policy
from policyc.planning import candidates
from policyc_check.plan.schedule import BudgetSegment
from policyc_check.steps.chains import Chain
from policyc_runtime.estimates import estimate_release
from policyc_runtime.estimation import estimator_kinds
from policyc_runtime.estimation.count_process import CountProcess, marginals
from policyc_runtime.estimation.projection import nearest_values
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.schedule import Schedule

Array = NDArray[np.float64]

BASE = np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])  # CAO23, section 6.1
PAPER = "budget quantified()\nmechanism laplace()\nestimate mle()"  # CAO17's Algorithm 3, noise in every cell
IMPOSSIBLE = 1e-10  # CAO23's cut-off: a step less possible than this is an impossible event
ADMM_ROUNDS = 500

MLE = {"name": "mle"}
MAP_UNIFORM = {"name": "map", "prior": "uniform"}
MAP_FREQUENCY = {"name": "map", "prior": "frequency"}
SMOOTHER = {"name": "smoother"}


def smoothed(moves: Array, s: float) -> Array:
    """The papers' Laplacian smoothing: s added to every entry, then rows divided by their sums."""
    return (moves + s) / (1 + len(moves) * s)


def lazy(cells: int, stay: float) -> Array:
    """Stay with this probability, else go anywhere else, evenly."""
    move = (1 - stay) / (cells - 1)
    return (stay - move) * np.eye(cells) + move


def by_the_recursion(policy: Path) -> Plan:
    """The plan whose budgets are those that CAO17's recursion allows, pairs of states not being told apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "allocate_by_pairs", lambda *_: None)
        return compile_policy(policy).plan


@dataclass(frozen=True)
class Setting:
    """A chain, how many users move by it, and for how many steps."""

    moves: Array
    population: int
    horizon: int

    def plan(self, directory: Path, alpha: float, choices: str = "") -> Plan:
        """The plan that keeps alpha-DP_T here; `choices` are further statements of the policy."""
        cells = ", ".join(f'"c{cell}"' for cell in range(len(self.moves)))
        rows = ", ".join(f"[{', '.join(f'{x:.12f}' for x in row)}]" for row in self.moves)
        path = directory / "p.policy"
        path.write_text(f"""policy p "a paper's setting"
stream s {{
  user u
  time t
  cell c in {{{cells}}}
  step 5min
  horizon {self.horizon} steps
  population {self.population}
}}
release r = count(s) by c
target alpha_dpt(alpha = {alpha})
correlation markov(forward = [{rows}], initial = stationary, evidence = "the paper")
deliver offline
objective mean_squared_error
{choices}
postprocess r {{ sum(r) == population, r >= 0, integer(r) }}
""")
        return by_the_recursion(path) if choices == PAPER else compile_policy(path).plan

    def truth(self, seed: int) -> NDArray[np.int64]:
        """(horizon, cells) counts of users who move by the chain, from its stationary law."""
        process = CountProcess(float(self.population), len(self.moves), Chain(self.moves, initial="stationary"))
        return process.drawn(self.horizon, 1, np.random.default_rng(1000 + seed))[:, 0]

    def prior(self) -> Array:
        """(horizon, cells) the expectation that is public."""
        return self.population * marginals(Chain(self.moves, initial="stationary"), self.horizon)


def at_every_step(plan: Plan, epsilon: float) -> Plan:
    """The same plan with epsilon nats at every step, whatever that leaks: CAO23's epsilon-DP. Not a promise."""
    part, horizon = plan.releases[0], plan.stream.horizon
    budget = Decimal(repr(epsilon))
    scale = part.mechanism.calibrate(budget)
    segment = BudgetSegment(epsilons=(budget,), scales=(scale,), expected_errors=(1.0,), repeats=horizon)
    schedule = Schedule(name="uniform", segments=(segment,))
    return plan.model_copy(update={"releases": (part.model_copy(update={"schedule": schedule}),)})


def noisy_counts(plan: Plan, truth: NDArray[np.int64], seed: int) -> Array:
    """The plan's noise on these counts, NaN at steps that it does not release."""
    part = plan.releases[0]
    scales = part.schedule.scales(len(truth))
    on = [step for step, scale in enumerate(scales) if scale > 0]
    noisy = np.full(truth.shape, np.nan)
    drawn = [scales[step] for step in on]
    noisy[on] = part.mechanism.add_noise(truth[on].astype(np.int64), drawn, SimulationRandomness(seed))
    return noisy


def published(plan: Plan, noisy: Array, estimator: dict[str, str] | None = None) -> Array:
    """What is published from noisy counts: by this estimator, or by the plan's own."""
    part = plan.releases[0]
    if estimator is not None:
        kind = estimator_kinds()[estimator["name"]]
        part = part.model_copy(update={"estimator": kind.model_validate(estimator)})
    return estimate_release(plan, part, noisy, np.zeros((0, noisy.shape[1])))


def likeliest_by_admm(plan: Plan, noisy: Array) -> Array:
    """A least L1 distance under {sum = n, values >= 0} by ADMM from zero, as Lee et al. 2015, then whole numbers.

    One of many minimisers: which one depends on the start and on the penalty.
    """
    part = plan.releases[0]
    total = float(plan.stream.population or 0)
    scales = np.array([float(scale) for scale in part.schedule.scales(len(noisy))])[:, None]
    kept, dual = np.zeros_like(noisy), np.zeros_like(noisy)
    for _ in range(ADMM_ROUNDS):
        away = kept - dual - noisy
        near = noisy + np.sign(away) * np.maximum(np.abs(away) - scales, 0.0)
        kept = _on_simplex(near + dual, total)
        dual = dual + near - kept
    return nearest_values(kept, part.constraint_set, None)


def _on_simplex(rows: Array, total: float) -> Array:
    """The nearest points with values >= 0 that sum to `total`."""
    down = -np.sort(-rows, axis=1)
    level = (np.cumsum(down, axis=1) - total) / np.arange(1, rows.shape[1] + 1)
    last = (down > level).sum(axis=1) - 1
    return np.maximum(rows - level[np.arange(len(rows)), last][:, None], 0.0)


def possibilities(counts: Array, moves: Array) -> Array:
    """CAO23's metric: the probability under the chain of each step's counts given those of the step before, (T - 1,).

    Exact up to 1e-14 or so: a coefficient of the product over places of (sum_j P_ij z_j)^count_i, for three places.
    """
    whole = np.rint(counts).astype(np.complex128)  # as the products below are
    users = int(whole[0].real.sum())
    size = users + 1 + users % 2  # odd, and more than anyone can count
    half = size // 2 + 1  # the rest of the grid is conjugate
    first, second = (index.ravel() for index in np.indices((size, half)))
    turn = 2j * np.pi / size
    powers = np.log(moves @ np.exp(turn * np.stack([0 * first, first, second])) + 1e-300)
    weights = np.where(second == 0, 1.0, 2.0) / size**2
    return np.array(
        [
            np.exp(before @ powers - turn * (after[1] * first + after[2] * second)).real @ weights
            for before, after in pairwise(whole)
        ]
    )


def mean_error(values: Sequence[Array], truths: Sequence[NDArray[np.int64]]) -> float:
    """The mean squared error of one value."""
    return float(np.mean([np.mean((value - truth) ** 2) for value, truth in zip(values, truths, strict=True)]))
