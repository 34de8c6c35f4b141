"""Simulations while planning: what they may know of how values move, and errors that no formula has.

Only what the policy declares is used, never protected data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from policyc.planning.choice import Choice
from policyc.planning.courses import declared_signal
from policyc.planning.expected import COUPLED
from policyc.semantics.policy import Policy, Release
from policyc_runtime.estimation.signal import SeriesProcess, learned_process
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.plan import Plan
from policyc_runtime.simulation import simulate

LONGEST = 100  # steps of a simulated stream
MOST_STEPS = 2000  # of all simulated streams: programs over several steps take milliseconds for each
MOST_STREAMS = 100
SEED = 2023


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


def with_simulated_errors(policy: Policy, choices: Sequence[Choice], draft: Callable[[], Plan]) -> list[Choice]:
    """The choices, with errors of simulated users where values of several steps depend on each other.

    They do where constraints couple steps, and where values are published again until counts have moved. Where no
    chain or population says how counts move, what is not known is said.

    Args:
        policy: with one release a choice, in order.
        choices: as they were compared, one step at a time.
        draft: makes the plan of these choices.
    """
    coupled = [_couples_steps(policy, release) for release in policy.releases]
    moving = [
        couples or isinstance(one.mechanism, WindowMechanism) for couples, one in zip(coupled, choices, strict=True)
    ]
    if not any(moving):
        return list(choices)
    if not policy.chains or policy.stream.population is None:
        return [_open(one) if couples else one for couples, one in zip(coupled, choices, strict=True)]
    steps = min(policy.stream.horizon or LONGEST, LONGEST)
    streams = max(2, min(MOST_STREAMS, MOST_STEPS // steps))
    found = {error.release: error for error in simulate(draft(), SEED, streams, (), steps=steps).errors if error.chosen}
    made = []
    for one, release, moves in zip(choices, policy.releases, moving, strict=True):
        error = found[release.name]
        mean, stderr = error.mean_squared_error, error.mean_squared_error_stderr
        if policy.objective == "mean_absolute_error":
            mean, stderr = error.mean_absolute_error, error.mean_absolute_error_stderr
        made.append(_simulated(one, mean, stderr, steps) if moves else one)
    return made


def _couples_steps(policy: Policy, release: Release) -> bool:
    demanded = policy.constraints_of(release.name)
    return demanded is not None and any(any(row.previous) for row in demanded.constraints)


def _simulated(one: Choice, mean: float, stderr: float, steps: int) -> Choice:
    """The choice with this error, at every step in proportion to what was computed for the step alone."""
    factor = mean / one.predicted.published
    method = (
        f"simulated users of the declared chain over {steps:,} steps; schedules and estimators are compared by what "
        "they err at single steps"
    )
    told = {"kind": "simulated", "published": mean, "stderr": stderr, "because": None, "method": method}
    errors = tuple(tuple(error * factor for error in pattern) for pattern in one.expected_errors)
    return replace(one, predicted=one.predicted.model_copy(update=told), expected_errors=errors)


def _open(one: Choice) -> Choice:
    """The choice, of whose error no more is known than that of its noise, or of counts that stand still."""
    because = COUPLED if one.predicted.because is None else f"{one.predicted.because}; {COUPLED}"
    told = {"kind": "noise", "published": one.predicted.without_postprocessing, "because": because}
    return replace(one, predicted=one.predicted.model_copy(update=told))
