"""Errors of what is made of values that are published again until counts have moved, while these stand still."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from policyc.planning.measurements import Measurement, Objective
from policyc.planning.trials import Estimated
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.mechanisms.window_mechanism import still_away

Array = NDArray[np.float64]

MOST_RUNS, FEW_RUNS = 4000, 8
MOST_VALUES = 600_000  # of all runs


def still_totals(entry: Measurement, objective: Objective, made: Callable[[Array], Array]) -> Estimated:
    """The mean error of totals that `made` adds up of values, (steps, series), which stand still far above the noise.

    What such values are off by stays for many steps, so that it adds up.
    """
    rule, cells = entry.mechanism, entry.setting.cells
    assert isinstance(rule, WindowMechanism), "others publish each step anew"
    runs = min(MOST_RUNS, max(FEW_RUNS, MOST_VALUES // (entry.steps * cells)))
    steps = list(still_away(rule, cells, entry.steps, runs, most=entry.steps))
    away = np.stack(steps) * float(entry.unit)  # (steps, runs, cells)
    totals = made(away.reshape(len(steps), -1)).reshape(-1, *away.shape[1:])
    errors = np.nanmean(totals**2 if objective == "mean_squared_error" else np.abs(totals), axis=(0, 2))
    return Estimated(float(errors.mean()), float(errors.std(ddof=1) / len(errors) ** 0.5))
