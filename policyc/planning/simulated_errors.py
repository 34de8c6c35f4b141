"""Simulations while planning: what they may know of how values move, and errors that no formula has.

Only what the policy declares is used, never protected data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from policyc.planning.candidates import EVENLY_SPLIT
from policyc.planning.comparison import Choice
from policyc.planning.courses import FAR, declared_signal
from policyc.planning.expected_errors import BOUNDED, COUPLED, GAINS
from policyc.planning.step_agreement import is_computed, with_agreement
from policyc.planning.trials import Estimated, controlled, streams_for
from policyc.progress import counted
from policyc.semantics.policy import Policy
from policyc_runtime.estimation.count_process import marginals
from policyc_runtime.estimation.projection import NearestValues
from policyc_runtime.estimation.signal import SeriesProcess
from policyc_runtime.estimation.whittle import learned_process
from policyc_runtime.groups import group_sizes, shares_of
from policyc_runtime.laboratory.simulation import counts_of_states, simulate
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, ReleasePlan, Scheduled
from policyc_runtime.suppression import showing_all

LONGEST = 100  # steps of a simulated stream
MOST_STEPS = 16_000  # of all simulated streams: what is left of chance is printed
FEW_STEPS = 2000  # the same where values of several cells, steps or levels are found together, in milliseconds
MOST_TOGETHER = 128  # streams of levels that agree: two ways are compared
LEAST_STREAMS = 16
SEED = 2023

Array = NDArray[np.float64]


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
    """The choices, with errors of simulated users where no formula has them.

    So it is where constraints couple steps, where values are published again until counts have moved, where counts are
    so near a bound that it makes errors other ones, and where no formula has those of levels that agree. Where no chain
    or population says how counts move, what is not known is said.

    Args:
        policy: with one release a choice, in order.
        choices: as they were compared, one step at a time.
        draft: makes the plan of these choices.
    """
    plan = draft()
    choices = with_agreement(plan, choices)
    computed = {name for tree in plan.trees if is_computed(plan, tree) for name in tree.names}
    known = bool(policy.chains_of_all) and policy.stream.population is not None and policy.stream.cell is not None
    coupled = [part.constraint_set.couples_steps for part in plan.scheduled]
    if not known:
        return [
            one if plan.agrees(part.name) else _open(one, part)
            for one, part in zip(choices, plan.scheduled, strict=True)
        ]
    steps = min(policy.stream.horizon or LONGEST, LONGEST)
    tried = [
        part
        for part, couples in zip(plan.scheduled, coupled, strict=True)
        if couples
        or isinstance(part, AdaptiveRelease)
        or (plan.agrees(part.name) and part.name not in computed)
        or _near_bounds(plan, part, steps)
    ]
    if not tried:
        return list(choices)
    found, alone = _errors(plan, tried, steps)
    return [
        _simulated(one, found[part.name], alone[part.name], steps, evenly=not plan.one_law) if part in tried else one
        for one, part in zip(choices, plan.scheduled, strict=True)
    ]


def _near_bounds(plan: Plan, part: ReleasePlan, steps: int) -> bool:
    """Whether a count of users who move as declared is, at some step, near a bound of its own or of several cells."""
    constraints = part.constraint_set
    means, variances = _moments(plan, part, steps)
    sums = (constraints.coupled.current != 0).sum(axis=1) > 1
    if int(sums.sum()) > (constraints.total is not None and len(part.cells) > 1):
        return True
    reach, (lower, upper) = FAR * np.sqrt(variances), constraints.cell_bounds
    return bool(((means - reach < lower) | (means + reach > upper))[variances > 0].any())


def _moments(plan: Plan, part: ReleasePlan, steps: int) -> tuple[Array, Array]:
    """Means and variances (steps, cells) of the true counts of users who move as declared."""
    chains, population = [record.chain() for record in plan.correlation.chains], plan.stream.population or 0
    laws = [counts_of_states(plan, part, marginals(chain, steps)) for chain in chains]
    users = np.array(group_sizes(population, shares_of(plan.correlation.chains)), dtype=np.float64)
    return np.tensordot(users, laws, 1), np.tensordot(users, [law * (1 - law) for law in laws], 1)


def _errors(plan: Plan, tried: Sequence[Scheduled], steps: int) -> tuple[dict[str, Estimated], dict[str, float]]:
    """By release, the error of published values, until it is accurate or takes too long; and that of the noisy ones.

    How far noise and counts of a stream are spread by chance is known beforehand, and errors follow it: they are moved
    along their regression on it (control variates).
    """
    plan = showing_all(plan)
    moments = {part.name: _moments(plan, part, steps) for part in tried}
    squared = plan.objective == "mean_squared_error"
    noises = {part.name: _noise(part, steps, squared=squared) for part in tried}
    programs = any(part.constraint_set.simplex is None or plan.agrees(part.name) for part in tried)
    rows: dict[str, list[tuple[float, float, float]]] = {part.name: [] for part in tried}
    most = max(LEAST_STREAMS, (FEW_STEPS if programs else MOST_STEPS) // steps)
    most = min(most, MOST_TOGETHER) if plan.agreements else most
    alone: dict[str, list[float]] = {part.name: [] for part in tried}
    count = 0
    found: dict[str, Estimated] = {}
    numbers = counted("simulated streams, at most", range(most), most)
    while count < most and not (found and all(one.accurate for one in found.values())):
        for number in islice(numbers, max(LEAST_STREAMS, streams_for(found.values(), count)) - count):
            drawn = simulate(plan, SEED + number, 1, (), steps=steps)
            for part in tried:
                series, true = drawn.example.series[part.name], drawn.truth[part.name]
                means, variances = moments[part.name]
                away, noise = np.abs(series.released - true), (series.noisy - true)[~series.skipped]
                error = float((away**2 if squared else away).mean())
                alone[part.name].append(float((noise**2 if squared else np.abs(noise)).mean()))
                spread, known = float(((true - means) ** 2 - variances).mean()), noises[part.name]
                rows[part.name].append((error, 0.0 if known is None else alone[part.name][-1] - known, spread))
        count = len(rows[tried[0].name])
        tables = {name: np.array(table) for name, table in rows.items()}
        found = {name: controlled(table[:, 0], table[:, 1:]) for name, table in tables.items()}
    return found, {name: float(np.mean(errors)) for name, errors in alone.items()}


def _noise(part: Scheduled, steps: int, *, squared: bool) -> float | None:
    """The mean error of the noise over the steps that have some; None where values are published again."""
    if isinstance(part, AdaptiveRelease):
        return None
    error = part.mechanism.variance if squared else part.mechanism.absolute_error
    scales = [scale for scale in part.schedule.scales(steps) if scale > 0]
    errors = {scale: error(scale) for scale in set(scales)}
    return float(np.mean([errors[scale] for scale in scales]))


def _simulated(one: Choice, found: Estimated, alone: float, steps: int, *, evenly: bool) -> Choice:
    """The choice with the error of its first steps, at all steps in proportion to what was computed for them.

    `alone` is that of the noisy values, where nothing else tells it; `evenly`: nobody says how large groups are.
    """
    runs = zip(one.allocation.runs, one.expected_errors, strict=True)
    computed = np.concatenate([np.resize(errors, min(run.steps or steps, steps)) for run, errors in runs])[:steps]
    mean = float(computed.mean())
    if not found.error > 0:  # everybody is where the chain says, and no value is uncertain
        return one
    if mean == 0:
        one, mean = _flat(one), 1.0
    factor = found.error / mean
    split = f"; {EVENLY_SPLIT}" if evenly else ""
    method = (
        f"simulated users of the declared chain{'s' if evenly else ''} over {steps:,} steps{split}. Schedules and "
        "estimators are compared by what is computed for counts far from bounds, step by step"
    )
    told = {
        "kind": "simulated",
        "published": factor * one.predicted.published,
        "stderr": factor * one.predicted.published * found.stderr / found.error,
        "because": None,
        "method": method,
    }
    if one.predicted.without_postprocessing is None:
        told["without_postprocessing"] = alone
    errors = tuple(tuple(error * factor for error in pattern) for pattern in one.expected_errors)
    return replace(one, predicted=one.predicted.model_copy(update=told), expected_errors=errors)


def _flat(one: Choice) -> Choice:
    """The choice with an error of one at every step, to be scaled, where nothing was computed but zeros."""
    errors = tuple(tuple(1.0 for _ in pattern) for pattern in one.expected_errors)
    return replace(one, predicted=one.predicted.model_copy(update={"published": 1.0}), expected_errors=errors)


def _open(one: Choice, part: ReleasePlan) -> Choice:
    """The choice, of whose error no more is known than that of its noise, or of counts that stand still.

    Of plain noise under constraints that have no bounds, such as a sum, all is known.
    """
    demands, predicted = part.constraint_set, one.predicted
    bounded = demands.couples_steps or any(row.relation != "==" for row in demands.rows)
    factor = 1.0
    if isinstance(part, AdaptiveRelease):
        told: dict[str, object] = {"kind": "unconstrained"} if bounded else {}
    elif bounded or not isinstance(part.estimator, NearestValues):
        because = COUPLED if demands.couples_steps else BOUNDED if bounded else GAINS
        noise = predicted.without_postprocessing
        assert noise is not None, "of what is drawn at every step anew it is known"
        told = {"kind": "noise", "published": noise, "because": because}
        one = one if predicted.published > 0 else _flat(one)  # hardly any noise reaches whole numbers: nothing to scale
        factor = noise / one.predicted.published
    else:
        return one
    errors = tuple(tuple(error * factor for error in pattern) for pattern in one.expected_errors)
    return replace(one, predicted=predicted.model_copy(update=told), expected_errors=errors)
