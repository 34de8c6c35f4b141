"""KOGA22's figure 2: its synthetic signal, ever more moments of it, without (2a) and with observation noise (2b).

`pytest -m law -s -k koga22_figure` prints three frequencies, `--full` all and more runs. The text on the web
has lost the frequencies, the promise and the deviation of the observation noise; those here are of the authors' code.
The text says in words only that filtering helps where there is observation noise and not where there is none, and that
both err less the denser the moments; its own calibration needs the most of them before filtering pays.
"""

from __future__ import annotations

import numpy as np
import pytest
from equal_privacy import Row
from equal_privacy_data import synthetic
from koga22 import koga22_methods
from paper_figures import denser_moments

from policyc.offers import calibrate
from policyc_runtime.estimates import estimate_release
from policyc_runtime.noisy_values import measured, noisy_values
from policyc_runtime.randomness import SimulationRandomness

pytestmark = pytest.mark.law


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
