"""What given values cost, which the exact solvers never ask: they go by prices of single units, and by slopes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policyc_runtime.estimation.separable import SeparableCost

Array = NDArray[np.float64]


def cost_of(cost: SeparableCost, values: Array) -> Array:
    """(rows, cells)."""
    return cost.weight * np.abs(values - cost.noisy) + cost.curve(values)
