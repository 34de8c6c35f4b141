"""What the emitted model says of noise is what mechanisms draw: at the true values its cost is that of their noise."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pyomo.environ as pyo
import pytest
from numpy.typing import NDArray

from policyc import compile_policy
from policyc.emit.map_model import render_map_model
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release

Array = NDArray[np.float64]
STEPS = 48
POLICY = """policy p "likelihoods"
stream s {{
  user u
  time t
  step 1d
  horizon {steps} steps
  start "2013-01-01"
}}
release a = count(s)
{totals}
target user_level(epsilon = 2, delta = 1e-6, neighbors = add_remove)
participation at_most(5 steps, assumed = "test")
{mechanism}
deliver {deliver}
objective mean_squared_error
"""
DECLARED = 'signal ar1(mean = 100, sd = 20, autocorrelation = 0.9, evidence = "test")'
PREFIX, WINDOW = "release b = prefix(a)", "release b = window(a, 7 steps)"
WINDOW_OF_PREFIX = f"{PREFIX}\nrelease c = window(b, 3 steps)"
NUMBERS = {  # the cost expected: half the number of numbers with normal noise, the number of those with Laplace noise
    "gaussian": ("mechanism gaussian()", "", "realtime", STEPS / 2),
    "in common": ("mechanism common_noise(weight = 0.3)", "", "realtime", (STEPS + 1) / 2),
    "in common of a week": ("mechanism common_noise()", "", "realtime", (STEPS + 7) / 2),
    "laplace": ("mechanism laplace()", "", "realtime", STEPS),
    "binomial": ("mechanism binomial()", "", "realtime", STEPS / 2),
    "totals of noisy values": ("mechanism gaussian()", WINDOW_OF_PREFIX, "realtime", STEPS / 2),
    "tree": ("mechanism binary_tree()", PREFIX, "realtime", STEPS / 2),
    "tree, windows": ("mechanism binary_tree()", WINDOW, "realtime", STEPS / 2),
    "tree, from all": ("mechanism binary_tree()", PREFIX, "offline", STEPS / 2),
    "correlated, totals": ("mechanism toeplitz()", PREFIX, "realtime", STEPS / 2),
    "correlated, windows": ("mechanism toeplitz()", WINDOW, "realtime", STEPS / 2),
    "frequencies": ("mechanism dft(coefficients = 20)", "", "offline", 10),
    "frequencies, Laplace": ("mechanism dft(coefficients = 20, noise = laplace)", "", "offline", 20),
    "frequencies of blocks": ("mechanism dft()", "", "within(6 steps)", STEPS / 2),
    "mixed with predictions": ("mechanism lmmse(weight = 0.5)", "", "realtime", STEPS / 2),
    "mixed with declared ones": (f"{DECLARED}\nmechanism lmmse(weight = 0.5, decay = 0.99)", "", "realtime", 24),
    "mixed, of coins": ("mechanism lmmse(weight = 0.5, noise = binomial)", "", "realtime", STEPS / 2),
    "filtered": ("mechanism fast(process_sd = 10)", "", "realtime", STEPS),
    "sampled and filtered": ("mechanism fast(samples = 20, process_sd = 10)", "", "realtime", 20),
    "subsample": ("mechanism subsample(rate = 0.5)", "", "offline", None),
    "means of few steps": ("mechanism filter_subsample(rate = 0.34)", "", "offline", STEPS / 3 / 2),
    "averages": ("mechanism filter_subsample(rate = 0.25, filter = average)", "", "offline", STEPS / 4 / 2),
}  # fmt: skip


def truth(plan: Plan, name: str, counts: Array) -> Array:
    """True values of a release, (steps,)."""
    query = plan.release_named(name).query
    if not isinstance(query, PrefixQuery | WindowQuery):
        return counts
    totals = np.cumsum(truth(plan, query.of, counts))
    if isinstance(query, PrefixQuery):
        return totals
    return totals - np.append(np.zeros(query.steps), totals[: -query.steps])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NUMBERS)
def test_the_cost_at_the_truth_is_that_of_the_noise(name: str, tmp_path: Path) -> None:
    """Half the number of measured numbers for normal noise, their number for Laplace noise, but for chance.

    Five standard deviations of the mean of six runs are allowed. Noise of half the size, or of another law, is far off.
    """
    mechanism, totals, deliver, expected = NUMBERS[name]
    if "subsample" not in mechanism:
        mechanism += "\nestimate none()"
    text = POLICY.format(steps=STEPS, totals=totals, mechanism=mechanism, deliver=deliver)
    if "week" in name:
        text = text.replace("add_remove)", "add_remove, per = 1w)").replace(
            "at_most(5 steps", "at_most(5 steps, per = 1w"
        )
    (tmp_path / "p.policy").write_text(text)
    plan = compile_policy(tmp_path / "p.policy").plan
    module = ModuleType("map_model")
    exec(compile(render_map_model(plan), "map_model.py", "exec"), module.__dict__)
    vars(module)["signal_cost"] = lambda *_: []  # the likelihood alone
    suffixes = {part.name: f"_{part.name}" if len(plan.releases) > 1 else "" for part in plan.releases}
    found: dict[str, list[float]] = {part: [] for part in suffixes}
    measured: list[int] = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        counts = np.rint(150 + 40 * np.sin(np.arange(STEPS) / 7) + rng.normal(0, 4, STEPS))
        data = counts.astype(np.int64)[:, None]
        released = release(
            plan, data, tmp_path / f"{seed}", randomness=SimulationRandomness(seed), steps=STEPS, pin=None
        )
        for part, suffix in suffixes.items():
            series, true = released.series[part], truth(plan, part, counts)
            noisy = {t: {} if series.skipped[t] else {"": float(row[0])} for t, row in enumerate(series.noisy)}
            measured.append(sum(map(bool, noisy.values())))
            model = getattr(module, f"build_model{suffix}")(noisy)
            model.signal = pyo.ConstraintList()
            for t in range(STEPS):
                model.signal.add(model.r[t, ""] == true[t])
            module.solve(model)
            found[part].append(float(pyo.value(model.cost)))
    for costs in found.values():
        mean = float(np.mean(measured)) / 2 if expected is None else expected
        spread = mean**0.5  # of half a chi-square with twice as many degrees, and of a sum of so many exponentials
        assert abs(np.mean(costs) - mean) < 5 * spread / 6**0.5, (name, costs)
