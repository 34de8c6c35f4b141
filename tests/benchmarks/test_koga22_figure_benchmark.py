"""KOGA22's figures 1 and 2 and table 2: outputs, errors over the density of moments, and errors on real series.

Figure 2 has its synthetic signal, ever more moments of it, without (2a) and with observation noise (2b).

`pytest -m law -s -k koga22_figure` prints three frequencies, `--full` all and more runs. The text on the web
has lost the frequencies, the promise and the deviation of the observation noise; those here are of the authors' code.
The text says in words only that filtering helps where there is observation noise and not where there is none, and that
both err less the denser the moments; its own calibration needs the most of them before filtering pays.
"""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from equal_privacy import Row
from equal_privacy_data import flights, pems, shipped, synthetic
from koga22 import koga22_methods
from koga22_figures import denser_moments, outputs, real_series

from policyc.offers import calibrate
from policyc_runtime.estimates import estimate_release
from policyc_runtime.noisy_values import measured, noisy_values
from policyc_runtime.randomness import SimulationRandomness

pytestmark = pytest.mark.law

FOLDER = os.environ.get("POLICYC_BENCHMARK_DATA")
COEFFICIENTS = (10, 20, 40, 80)


def ours(plan, values):
    """What `auto` publishes, and Gaussian noise alone at the same promise, each from a seed."""
    release = plan.releases[0]
    mechanism, setting = measured(plan, release)
    target = plan.targets[0]
    gaussian = calibrate("gaussian", setting, target.epsilon, target.delta)

    def published(seed):
        records = mechanism.measure(setting, values, [], SimulationRandomness(seed))
        return estimate_release(plan, release, noisy_values(plan, release, records), np.zeros((0, 1)))[:, 0]

    def plain(seed):
        return gaussian.values(setting, gaussian.measure(setting, values, [], SimulationRandomness(seed)))[:, 0]

    return published, plain


def error(publish, truth, runs):
    """The mean absolute error of so many runs."""
    return float(np.mean([np.abs(publish(seed) - truth).mean() for seed in range(runs)]))


@pytest.mark.parametrize("noisy", [False, True])
def test_denser_moments(noisy, full, table, tmp_path):
    """Sampling errs less the denser the moments; filtering helps under observation noise alone; `auto` is best."""
    every, runs = ((80, 40, 20, 16, 10, 8, 5, 2), 20) if full else ((80, 32, 8), 3)
    rows = []
    for apart in every:
        series = synthetic(apart, noisy=noisy)
        row = Row("KOGA22", series, "0.5", "1e-4", min(100, series.steps), offline=True)
        plan, values = row.plan(tmp_path), series.values.astype(np.int64)
        published, plain = ours(plan, values[:, None])
        theirs = {
            name: error(lambda seed, publish=publish: publish(seed)[0], series.truth, runs)
            for name, publish in koga22_methods(values, 0.5, 1e-4, row.bound)
            if "authors" in name
        }
        sampled, filtered = (min(v for n, v in theirs.items() if ("filter" in n) is way) for way in (False, True))
        found = [error(plain, series.truth, runs), sampled, filtered, error(published, series.truth, runs)]
        rows.append([apart, series.steps, *found])
        assert found[-1] < min(found) + 1e-9
    table(
        f"koga22_figure2{'b' if noisy else 'a'}",
        f"Mean absolute error, {'with' if noisy else 'without'} observation noise, (0.5, 1e-4), each user in at "
        f"most 100 steps, {runs} runs; KOGA22's at the best of its rates.",
        ["moments apart", "T", "gaussian", "KOGA22, sampled", "KOGA22, filtered", "auto"],
        rows,
        denser_moments(rows, noisy=noisy),
    )
    assert rows[-1][3] < rows[0][3]
    assert (rows[-1][4] < rows[-1][3]) is noisy


def published_by(row, directory):
    """The paper's four methods and ours: from a seed to what is published, (T,); theirs at their best in hindsight."""
    plan, values = row.plan(directory), row.series.values.astype(np.int64)
    ours_of, plain = ours(plan, values[:, None])
    _, setting = measured(plan, plan.releases[0])

    def transformed(most):
        dft = calibrate("dft", setting, Decimal(row.epsilon), Decimal(row.delta), {"coefficients": most})

        def publish(seed):
            return dft.values(setting, dft.measure(setting, values[:, None], [], SimulationRandomness(seed)))[:, 0]

        return publish

    def best_of(found):
        return min(found, key=lambda publish: error(publish, row.series.truth, 3))

    kept = best_of([transformed(most) for most in COEFFICIENTS if most <= row.series.steps])
    tried = {True: [], False: []}
    for name, publish in koga22_methods(values, float(row.epsilon), float(row.delta), row.bound):
        if "authors" in name:
            tried["filter" in name].append(lambda seed, publish=publish: publish(seed)[0])
    best = {way: best_of(found) for way, found in tried.items()}
    return {"Gaussian": plain, "DFT": kept, "sampled": best[False], "filtered": best[True], "ours": ours_of}


@pytest.mark.parametrize("noisy", [True, False])
def test_outputs(noisy, full, table, tmp_path):
    """Figure 1 and its brother in the appendix: one output of each; ours lies closest to the signal."""
    series = synthetic(2 if full else 8, noisy=noisy)
    row = Row("KOGA22", series, "0.5", "1e-4", 100, offline=True)
    shown = {name: publish(0) for name, publish in published_by(row, tmp_path).items()}
    errors = {name: float(np.abs(values - series.truth).mean()) for name, values in shown.items()}
    table(
        f"koga22_figure1{'' if noisy else '_clean'}",
        f"Mean absolute error of one output, T = {series.steps}, (0.5, 1e-4), each user in at most 100 steps.",
        list(errors),
        [list(errors.values())],
        outputs(series.truth, shown, errors, noisy=noisy),
    )
    assert errors["ours"] == min(errors.values())


def test_table_2_real_series(full, table, tmp_path):
    """Table 2 on series that are free: ours errs no more than any of the four."""
    rows = [Row("KOGA22", shipped("aircraft"), "2", "1e-5", 59, offline=True)]
    if FOLDER is not None:
        rows = [
            Row("KOGA22", pems(Path(FOLDER)), "0.5", "1e-4", 180, offline=True),
            Row("KOGA22", flights(Path(FOLDER), 200, 24), "0.5", "1e-5", 200, offline=True),
            Row("KOGA22", flights(Path(FOLDER), 200, 6), "1", "1e-5", 200, offline=True),
        ]
    found = []
    for row in rows:
        methods = published_by(row, tmp_path)
        errors = {name: error(publish, row.series.truth, 20 if full else 5) for name, publish in methods.items()}
        found.append([row.series.name, *errors.values()])
        assert errors["ours"] <= 1.02 * min(errors.values())
    table(
        "koga22_table2",
        "Mean absolute error at the promises of the equal-privacy table.",
        ["series", *methods],
        found,
        real_series(found, list(methods)),
    )
