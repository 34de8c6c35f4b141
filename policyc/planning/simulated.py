"""What a simulation of a user-level plan may know of how values move: the policy's signal, never protected data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policyc.planning.courses import declared_signal
from policyc.semantics.policy import Policy
from policyc_runtime.estimation.signal import SeriesProcess, learned_process


def simulated_signal(policy: Policy) -> SeriesProcess | NDArray[np.float64] | None:
    """The declared process if nothing of it is left to learn, or the public pilot series; None without either."""
    signal = policy.signal
    if signal is None:
        return None
    if signal.kind == "pilot":
        series = signal.arguments.get("series")
        return np.array([float(value) for value in series]) if isinstance(series, tuple) else None
    process = learned_process(declared_signal(signal), np.empty(0), np.empty(0))
    return None if process is None or process.mean is None else process
