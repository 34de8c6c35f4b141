"""What is expected of the errors of what is made of released values: what runs have, or nothing.

Noise that is drawn anew at every step adds up in a total by its variances, and what all steps have in common by its
standard deviation. Errors that depend on each other, or on how values move, are those of simulated courses or users,
as of the release itself. Of ratios and changes nothing is said unless the policy says where values lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from policyc.planning.courses import Courses, courses, still
from policyc.planning.expected_errors import FAR
from policyc.planning.measurements import Measurement
from policyc.planning.still_errors import still_totals
from policyc.planning.trials import SEED, Estimated, Trial, streams_for
from policyc.progress import counted
from policyc.semantics.policy import Policy
from policyc_check.plan.queries import PrefixQuery, SumQuery, WindowQuery
from policyc_check.users.claims import promised_user_level, setting_of, unit_of
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.projection import NearestValues, NoEstimation
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.made_release import BlockTotal, Change, Quotient
from policyc_runtime.made_values import changes, made_values
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import BudgetedRelease, MadeRelease, MeasuredRelease, ReleasePlan
from policyc_runtime.predicted_errors import PredictedError
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.row_sums import block_totals, running_totals, width_of
from policyc_runtime.suppression import showing_all

Array = NDArray[np.float64]

LONGEST = 100  # steps of a stream of simulated users, or more where rows are long
FEWEST_ROWS = 4  # in it
MOST_STEPS = 16_000  # of all of these streams: what is left of chance is printed
LEAST_STREAMS = 16
MOST_WHOLE = MOST_STEPS // LEAST_STREAMS  # steps of streams that are simulated from end to end
NOISE_STEPS = 100_000  # at which noise alone is drawn
OF_NOISE = "law of the noise of all steps of a row"
OF_USERS = "simulated users of the declared chain, through mechanism, estimator and what is made of released values"


def with_predictions(policy: Policy, plan: Plan) -> tuple[MadeRelease, ...]:
    """What a plan makes of released values, with what is known of its errors before any data.

    Args:
        policy: with its signal as far as it is used.
        plan: all but these predictions.
    """
    users = policy.chains_of_all and policy.stream.population is not None and policy.stream.cell is not None
    simulated = _of_users(plan) if plan.made and users and not promised_user_level(plan) else {}
    known: dict[str, PredictedError | None] = {part.name: part.predicted for part in plan.releases}
    for made in plan.made:
        known[made.name] = _predicted(policy, plan, made, known, simulated.get(made.name))
    return tuple(made.model_copy(update={"predicted": known[made.name]}) for made in plan.made)


def _predicted(
    policy: Policy, plan: Plan, made: MadeRelease, known: Mapping[str, PredictedError | None], users: Estimated | None
) -> PredictedError | None:
    """What is known of one, where `known` says it of all before it, and `users` what simulated ones found."""
    query, base, squared = made.query, known[made.query.of], policy.objective == "mean_squared_error"
    if plan.expected_steps < made.first + made.steps:
        return None  # no row of it is among the steps that stand for an endless stream
    if isinstance(query, Quotient) and query.over is None:
        factor = float(query.times) / (plan.stream.population or 1)
        return None if base is None else _scaled(base, factor**2 if squared else factor)
    part = _added_up(plan, made.query.of)
    agrees = part is not None and plan.agrees(part.name)
    if part is not None and agrees and (users is None or part.predicted.kind == "expected"):
        sums = squared and isinstance(query, BlockTotal) and isinstance(part.estimator, NearestValues)
        return _of_agreed(plan, part, made) if sums else None
    noise = None if part is None or agrees else _of_noise(plan, part, made, squared=squared)
    if part is not None and noise is not None and (_off_by_noise(part) or part.predicted.kind == "noise"):
        return _error(part.predicted, noise, OF_NOISE)
    so_far = _kinds(plan, made) & {"prefix", "window"}
    if users is not None and not (so_far and (plan.stream.horizon or math.inf) > MOST_WHOLE):
        return _simulated(users, OF_USERS)  # of totals over less of the stream it is another one
    return (
        None
        if part is None or agrees or so_far or isinstance(query, Quotient)
        else _on_courses(policy, plan, made, part)
    )


def _kinds(plan: Plan, made: MadeRelease) -> set[str]:
    """How one is made, and all that it is made of."""
    by_name, names = {one.name: one for one in plan.made}, [made.name]
    found: set[str] = set()
    while names:
        query = by_name[names.pop()].query
        found.add(query.kind)
        names += [name for name in (query.of, getattr(query, "over", None)) if name in by_name]
    return found


def _of_noise(plan: Plan, part: ReleasePlan, made: MadeRelease, *, squared: bool) -> Estimated | None:
    """The error of sums of a release's values, each off by its noise; None where it is no sum, or nobody knows."""
    if isinstance(made.query, BlockTotal):
        return _noise_of_totals(plan, part, made.steps) if squared else _drawn_noise_of_totals(plan, part, made.steps)
    if isinstance(made.query, WindowQuery) or (isinstance(made.query, PrefixQuery) and plan.stream.horizon is not None):
        return _noise_so_far(plan, part, width_of(made.query), squared=squared)
    return None


def _of_agreed(plan: Plan, part: ReleasePlan, made: MadeRelease) -> PredictedError | None:
    """Of totals of values that agree with others of their step: each step is off by noises of its own.

    None where values have bounds, as what these move up at every step adds up to more than noises do, and where they
    are published again, as what they are off by is that of other steps.
    """
    if part.predicted.kind in ("unconstrained", "at_least"):
        return None
    rows = plan.expected_steps // made.steps
    return _error(part.predicted, Estimated(sum(part.errors(rows * made.steps)) / rows, 0.0), OF_NOISE)


def _added_up(plan: Plan, name: str) -> ReleasePlan | None:
    """The release of a name, or the one that a total of totals adds up in the end; None for a ratio."""
    by_name = {one.name: one for one in plan.made}
    while name in by_name:
        if not isinstance(by_name[name].query, BlockTotal):
            return None
        name = by_name[name].query.of
    return plan.release_named(name)


def _off_by_noise(part: ReleasePlan) -> bool:
    """Whether published values are off by the noise of their own steps, as it is or moved onto a sum."""
    return isinstance(part.estimator, NearestValues) and part.predicted.kind == "expected"


def _noise_of_totals(plan: Plan, part: ReleasePlan, size: int) -> Estimated | None:
    """Mean squared error of totals of so many values, each off by its noise; None where noises depend on each other."""
    steps = plan.expected_steps // size * size
    if isinstance(part, BudgetedRelease):
        if 0 in part.schedule.scales(steps):
            return None
        own = np.array(part.errors(steps)) if part.predicted.kind in ("expected", "noise") else None
        return None if own is None else Estimated(float(own.sum()) / (steps // size), 0.0)
    entry = _measurement(plan, part)
    if entry is None or entry.mechanism.estimates or entry.mechanism.leaves_gaps or not entry.plain:
        return None
    # each total has as often what a period is off by as it has steps of it
    shared = np.unique([np.arange(steps) // size, entry.offset.periods(steps)], axis=1, return_counts=True)[1]
    whole = entry.own_variances()[:steps].sum() + entry.offset.stddev**2 * (shared**2).sum()
    return Estimated(float(whole) / (steps // size), 0.0)


def _drawn_noise_of_totals(plan: Plan, part: ReleasePlan, size: int) -> Estimated | None:
    """Mean absolute error of the same under budgets of steps, drawn: sums of few Laplace draws are not normal."""
    steps = plan.expected_steps // size * size
    noise = _drawn(part, steps, max(NOISE_STEPS // size * size, steps))
    if noise is None:
        return None
    errors = np.abs(noise.reshape(-1, size, noise.shape[1]).sum(axis=1)).mean(axis=1)
    return Estimated(float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(errors.size)))


def _drawn(part: ReleasePlan, steps: int, most: int) -> Array | None:
    """Noise of the first `steps` steps, as often as `most` allow, (at most `most`, cells); None where it is not all."""
    if not isinstance(part, BudgetedRelease) or part.constraints or 0 in part.schedule.scales(steps):
        return None
    scales = (part.schedule.scales(steps) * -(-most // steps))[:most]
    raw = np.zeros((len(scales), len(part.cells)), np.int64)
    return part.mechanism.add_noise(raw, scales, SimulationRandomness(SEED)).astype(np.float64)


def _noise_so_far(plan: Plan, part: ReleasePlan, width: int | None, *, squared: bool) -> Estimated | None:
    """The error of a running total or window of values that are each off by noise of their own step alone."""
    steps = plan.expected_steps
    if not squared:
        drawn = _drawn(part, steps, max(NOISE_STEPS // steps, LEAST_STREAMS) * steps) if steps <= NOISE_STEPS else None
        if drawn is None:
            return None
        streams = drawn.reshape(-1, steps, drawn.shape[1])
        errors = np.array([np.abs(running_totals(noise, width)).mean() for noise in streams])
        return Estimated(float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(errors.size)))
    if not isinstance(part, BudgetedRelease) or 0 in part.schedule.scales(steps):
        return None
    if part.predicted.kind not in ("expected", "noise"):
        return None
    often = np.minimum(np.arange(steps, 0, -1), width or steps)  # in so many totals each value is
    return Estimated(float(np.array(part.errors(steps)) @ often) / steps, 0.0)


def _measurement(plan: Plan, part: ReleasePlan) -> Measurement | None:
    """How a count or sum is measured under a promise about all of a user."""
    if not isinstance(part, MeasuredRelease):
        return None
    setting = setting_of(plan, part, promised_user_level(plan)[0])
    return Measurement(part.mechanism, setting, unit_of(plan, part))


def _on_courses(policy: Policy, plan: Plan, made: MadeRelease, part: ReleasePlan) -> PredictedError | None:
    """The error on courses of the signal, as of the release itself, or of a stream that does not move.

    None where it depends on how values move, or where they lie, and nobody says that.
    """
    entry, given, base = _measurement(plan, part), _signalled(policy, plan, part), part.predicted
    if entry is None:
        return None
    if base.kind == "noise":
        part = part.model_copy(update={"estimator": NoEstimation(), "constraints": (), "integer": False})
        given = None
    elif base.kind in ("expected", "simulated") and given is None and entry.mechanism.estimates:
        return None
    gaps = base.kind == "at_least" and entry.mechanism.leaves_gaps  # the least error of a level, at every step the same
    if gaps and policy.objective == "mean_squared_error" and isinstance(made.query, BlockTotal):
        return _error(base, Estimated(made.steps**2 * entry.variance_of_all(), 0.0), base.method)
    if gaps or (isinstance(made.query, Change) and (given is None or not given.placed)):
        return None
    if isinstance(entry.mechanism, WindowMechanism) and given is None and isinstance(made.query, BlockTotal):
        return _error(base, still_totals(entry, policy.objective, _function(made)), FAR)
    there = still(policy, entry.steps) if given is None else given
    rows = part.constraints if there.placed else ()
    constraints = ConstraintSet(rows, len(part.cells), integer=part.integer)
    found = Trial(entry, part.estimator, constraints, policy.objective, there, made=_function(made)).settled()
    known = math.isfinite(found.error) and math.isfinite(found.stderr)
    return _error(base, found, f"{there.said}, through all that is done to its values, simulated") if known else None


def _signalled(policy: Policy, plan: Plan, part: ReleasePlan) -> Courses | None:
    """How the values of the only count or sum move; None where the policy does not say it, or has several."""
    if policy.several_series:
        return None
    low = float(part.query.low) if isinstance(part.query, SumQuery) else 0.0
    return courses(policy, plan.expected_steps, least=-math.inf if low < 0 else 0.0)


def _function(made: MadeRelease) -> Callable[[Array], Array]:
    """What is made of the values of its source, (steps, cells), with NaN for what has no value."""
    query = made.query
    if isinstance(query, BlockTotal):
        return lambda values: np.asarray(block_totals(values, made.steps), np.float64)
    assert isinstance(query, Change), "a ratio is made of several releases"
    size = made.steps
    every, begin, end = query.every // size, query.first // size, (query.last + 1) // size

    def change(values: Array) -> Array:
        rows = values if size == 1 else np.asarray(block_totals(values, size), np.float64)
        return np.asarray(changes(rows, every, begin, end).filled(np.nan), np.float64)

    return change


def _of_users(plan: Plan) -> dict[str, Estimated]:
    """By name, the mean error against what is made of true values, of simulated users of the plan's chains.

    It is the error of values before any are left out, as of releases.
    """
    plan = showing_all(plan)
    rows = max(made.first + FEWEST_ROWS * made.steps for made in plan.made)
    if any(isinstance(made.query, PrefixQuery | WindowQuery) for made in plan.made):
        rows = max(rows, MOST_WHOLE)
    steps = min(plan.expected_steps, max(LONGEST, rows))
    squared = plan.objective == "mean_squared_error"
    errors: dict[str, list[float]] = {made.name: [] for made in plan.made}
    found: dict[str, Estimated] = {}
    count, most = 0, max(LEAST_STREAMS, MOST_STEPS // steps)
    numbers = counted("simulated streams, at most", range(most), most)
    while count < most and not (found and all(one.accurate for one in found.values())):
        for number in islice(numbers, max(LEAST_STREAMS, streams_for(found.values(), count)) - count):
            drawn = simulate(plan, SEED + number, 1, (), steps=steps)
            true = made_values(plan, drawn.truth)
            for name, values in errors.items():
                away = np.ma.abs(drawn.example.made[name].released - true[name]).compressed().astype(np.float64)
                if away.size:
                    values.append(float((away**2 if squared else away).mean()))
            count += 1
        found = {name: _mean(values) for name, values in errors.items() if len(values) > 1}
    return found


def _mean(values: list[float]) -> Estimated:
    return Estimated(float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))))


def _error(base: PredictedError, found: Estimated, method: str) -> PredictedError:
    """An error of the kind of the release that it is made of, unless that is all that there is to know."""
    if base.kind in ("expected", "simulated"):
        return _simulated(found, method)
    return PredictedError(
        kind=base.kind,
        published=found.error,
        stderr=found.stderr if found.stderr and base.kind != "noise" else None,
        because=base.because,
        without_postprocessing=None,
        prior_alone=None,
        signal=None,
        method=method,
    )


def _simulated(found: Estimated, method: str) -> PredictedError:
    """The error of published values: simulated, or computed where it has no standard error."""
    return PredictedError(
        kind="simulated" if found.stderr else "expected",
        published=found.error,
        stderr=found.stderr or None,
        without_postprocessing=None,
        prior_alone=None,
        signal=None,
        method=method,
    )


def _scaled(base: PredictedError, factor: float) -> PredictedError:
    """The same of values that are divided by a public number."""
    names = ("published", "stderr", "without_postprocessing", "prior_alone", "signal")
    told = {name: getattr(base, name) for name in names}
    return base.model_copy(update={name: None if value is None else value * factor for name, value in told.items()})
