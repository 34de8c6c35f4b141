"""How accurate a plan will be, tried on users drawn from its own chains. Nothing of this is a release.

Users move independently, as the plan says they do; under a promise about all events of a user, values move as the
policy's signal says, or users take part at random (`simulated_streams`). Noise is drawn at the plan's scales from a
seed; every estimator that applies is run on the same noisy values. So the table shows what the plan is worth where its
assumptions hold, beside the prior alone, which needs no data, where the policy declares one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from policyc_check.errors import KernelError
from policyc_check.users.claims import promised_user_level
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.ancestors import counted_by
from policyc_runtime.estimates import agreed, estimate_release
from policyc_runtime.estimation import Estimator, every_estimator, twins
from policyc_runtime.estimation.count_process import CountProcess, marginals
from policyc_runtime.groups import group_sizes, shares_of
from policyc_runtime.laboratory.possibility import MOST_STATES, impossible_moves, smoothing_level
from policyc_runtime.laboratory.simulation_result import SimulatedError, SimulationResult, shown_of
from policyc_runtime.laboratory.streams import DROPPING, noisy_streams, streams_of, true_values, variants_of
from policyc_runtime.made_file import made_series
from policyc_runtime.made_values import made_values, sources_of
from policyc_runtime.noisy_values import ready_steps
from policyc_runtime.planned_release import AdaptiveRelease, Scheduled
from policyc_runtime.predicted_errors import PredictedError
from policyc_runtime.published_values import Release
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.released_file import as_written
from policyc_runtime.sources.moments import declared_start, step_times, steps_in_calendar
from policyc_runtime.suppression import showing_all, suppresses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain
    from policyc_runtime.estimation.signal import SeriesProcess
    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan

    Array = NDArray[np.float64]

Number = TypeVar("Number", bound=np.generic)

LONGEST_SIMULATION = 1000
PRIOR_ALONE = "prior alone"
MADE = "made of released values"


@dataclass(frozen=True)
class _World:
    """What is simulated: how many steps, what the prior alone says, and how true, kept and noisy values are drawn.

    `moves`: of one chain, that all users share, the law of the next state; None where there is no such chain.
    """

    steps: int
    priors: dict[str, Array]
    said: tuple[str, ...]
    strengths: tuple[str, ...]
    moves: Array | None
    variants: dict[str, dict[str, ReleasePlan]]
    draw: Callable[[SimulationRandomness], dict[str, tuple[NDArray[Any], NDArray[Any], Array]]]


def simulate(
    plan: Plan,
    seed: int | SimulationRandomness,
    repeat: int,
    estimators: Sequence[Estimator] | None = None,
    *,
    steps: int | None = None,
    signal: SeriesProcess | Array | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SimulationResult:
    """Run a plan on simulated values.

    Args:
        plan: with a user-level target, or with a population and at least one chain.
        seed: makes the simulation repeatable; never used in a release. Or the generator that was made from one.
        repeat: how many independent streams, >= 1.
        estimators: what to compare; default every one that applies.
        steps: default the horizon, at most 1000 unless the plan takes all steps together.
        signal: under a user-level target, how values move; None where the policy does not say.
        progress: called with (repetitions done, repetitions in all).

    Raises:
        KernelError: the plan does not say how many users there are or how they move.
    """
    length = min(plan.stream.horizon or LONGEST_SIMULATION, steps or LONGEST_SIMULATION, steps_in_calendar(plan))
    streams = bool(promised_user_level(plan))
    by_cell = plan.stream.cell and plan.stream.cell.column
    world = _of_streams(plan, length, estimators, signal) if streams else _of_chains(plan, length, estimators)
    randomness = SimulationRandomness(seed) if isinstance(seed, int) else seed
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    impossible: dict[tuple[str, str], list[float]] = {}
    example: dict[str, tuple[Array, Array]] = {}
    truth: dict[str, NDArray[Any]] = {}
    distances: dict[str, list[Array]] = {part.name: [] for part in plan.releases if suppresses(plan, part)}
    distances |= {one.name: [] for one in plan.made if distances or one.suppressions}
    titles = {one.name: (one.name, MADE) for one in plan.made}
    for turn in range(repeat):
        published: dict[str, Array] = {}
        noises: dict[str, Array] = {}
        exact: dict[str, Array] = {}
        away: dict[str, Array] = {}
        drawn = world.draw(randomness)
        agreeing = agreed(plan, {name: noisy for name, (_, _, noisy) in drawn.items()}, every_digit=True)
        for name, (true, kept, noisy) in drawn.items():
            part = plan.release_named(name)
            tried = {PRIOR_ALONE: world.priors[name]} if name in world.priors else {}
            if plan.drops_from(part) and kept is not true:
                tried[DROPPING] = kept
            made = {part.estimator.described(): agreeing[name]} if plan.agrees(name) else {}
            tried |= made | {
                title: estimate_release(plan, variant, noisy, np.empty((0, true.shape[1])))
                for title, variant in world.variants[name].items()
                if title not in made
            }
            for title, values in tried.items():
                distance = np.abs(values - true)
                found.setdefault((name, title), []).append((float((distance**2).mean()), float(distance.mean())))
                if world.moves is not None and part.query.by == by_cell:
                    impossible.setdefault((name, title), []).append(impossible_moves(values, world.moves))
            published[name] = tried[part.estimator.described()]
            away[name] = np.abs(published[name] - true)
            noises[name], exact[name] = noisy, true
            if turn == 0:
                truth[name] = true
                example[name] = noisy, published[name]
        for name, distance in _of_made(plan, noises, published, exact).items():
            errors = distance[~np.isnan(distance)]
            if errors.size:
                found.setdefault(titles[name], []).append((float((errors**2).mean()), float(errors.mean())))
            away[name] = distance
        if distances:
            written = as_written(plan, noises, published)
            released = {name: one.released for name, one in written.items()}
            released |= {name: one.released for name, one in made_series(plan, written).items()}
            for name, rows in distances.items():
                rows.append(np.where(np.ma.getmaskarray(released[name]), np.nan, away[name]).ravel())
        if progress is not None:
            progress(turn + 1, repeat)
    predictions = {part.name: part.predicted for part in plan.releases}
    predictions |= {one.name: one.predicted for one in plan.made if one.predicted is not None}
    shown = as_written(plan, *({name: pair[place] for name, pair in example.items()} for place in (0, 1)))
    return SimulationResult(
        errors=tuple(_error(plan, name, pairs, impossible.get(name)) for name, pairs in found.items()),
        shown={name: shown_of(np.concatenate(rows)) for name, rows in distances.items()},
        predicted={name: predicted.published for name, predicted in predictions.items()},
        objective=plan.objective,
        limits={name: _limits(plan, name, predicted) for name, predicted in predictions.items()},
        bounds={name: predicted.least for name, predicted in predictions.items()},
        steps=world.steps,
        repeat=repeat,
        said=world.said,
        strengths=world.strengths,
        example=Release(
            shown, step_times(plan, declared_start(plan), world.steps), False, made=made_series(plan, shown)
        ),
        truth=truth,
    )


def _of_made(
    plan: Plan, noisy: dict[str, Array], published: dict[str, Array], true: dict[str, Array]
) -> dict[str, Array]:
    """By how much what is made of published values is off what is made of true ones; nan where one has no value.

    Of all values, before any are left out.
    """
    if not plan.made:
        return {}
    plan = showing_all(plan)
    made, exact = made_series(plan, as_written(plan, noisy, published)), made_values(plan, true)
    return {
        name: np.ma.filled(np.ma.abs(one.released - exact[name]).astype(np.float64), np.nan)
        for name, one in made.items()
    }


def _of_chains(plan: Plan, length: int, estimators: Sequence[Estimator] | None) -> _World:
    """Users of the plan's chains."""
    population = plan.stream.population
    if population is None:
        raise _cannot("the policy gives no population", "add `population 12_000` to the stream, the number of users")
    if not plan.correlation.chains or plan.stream.cell is None:
        remedy = "add `correlation markov(forward = ..., initial = stationary, evidence = ...)` and a `cell`"
        raise _cannot("the policy does not say how users move", remedy)
    if (others := plan.correlation.independent) and not promised_user_level(plan):
        remedy = "a chain with equal rows says where users are, and that steps are independent"
        raise _cannot(f"no law says where users of group `{others[0].group}` are", remedy)
    chains = [record.chain() for record in plan.correlation.chains]
    sizes = group_sizes(population, shares_of(plan.correlation.chains))
    split = f"the population was split evenly among {len(chains)} groups; the policy does not say how large they are"

    def draw(randomness: SimulationRandomness) -> dict[str, tuple[NDArray[Any], NDArray[Any], Array]]:
        states = simulate_counts(chains, sizes, length, randomness.generator)
        raw = {part.name: counts_of_states(plan, part, states) for part in plan.releases}
        noisy = {part.name: _noisy(part, raw[part.name], randomness) for part in plan.scheduled}
        return {name: (raw[name], raw[name], values) for name, values in noisy.items()}

    return _World(
        steps=length,
        priors={part.name: expected_counts(plan, part, chains, sizes, length) for part in plan.releases},
        said=("users move as the policy says", *(() if plan.one_law else (split,))),
        strengths=tuple(
            _strength(one.group, chain) for one, chain in zip(plan.correlation.chains, chains, strict=True)
        ),
        moves=chains[0].forward if len(chains) == 1 and chains[0].states <= MOST_STATES else None,
        variants={part.name: _variants(plan, part, estimators) for part in plan.scheduled},
        draw=draw,
    )


def _of_streams(
    plan: Plan, length: int, estimators: Sequence[Estimator] | None, signal: SeriesProcess | Array | None
) -> _World:
    """Values that move as the policy says, or users who take part at random."""
    steps = ready_steps(plan, length) or plan.stream.horizon or length
    streams = streams_of(plan, steps, signal)

    def draw(randomness: SimulationRandomness) -> dict[str, tuple[NDArray[Any], NDArray[Any], Array]]:
        raw = streams.draw(randomness.generator)
        kept, noisy = true_values(plan, raw.kept), noisy_streams(plan, raw.kept, randomness)
        true = kept if raw.all is raw.kept else true_values(plan, raw.all)
        return {name: (true[name], kept[name], noisy[name]) for name in true}

    return _World(
        steps=steps,
        priors=streams.priors,
        said=(streams.said,),
        strengths=(),
        moves=None,
        variants={part.name: variants_of(plan, part, estimators) for part in plan.releases},
        draw=draw,
    )


def simulate_counts(
    chains: Sequence[Chain], sizes: Sequence[int], steps: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Counts of independent users by state, exactly in law: each group's counts move by multinomial draws.

    Args:
        chains: one a group.
        sizes: users of each, >= 0.
        steps: T, >= 1.
        generator: of a simulation.

    Returns:
        (T, states).
    """
    counts = np.zeros((steps, chains[0].states), dtype=np.int64)
    for users, chain in zip(sizes, chains, strict=True):
        counts += CountProcess(float(users), chain.states, chain).drawn(steps, 1, generator)[:, 0]
    return counts


def expected_counts(plan: Plan, part: ReleasePlan, chains: Sequence[Chain], sizes: Sequence[int], steps: int) -> Array:
    """What the chains alone predict, (steps, cells): each group's users times the law of one, nothing rounded."""
    states = sum(n * marginals(chain, steps) for n, chain in zip(sizes, chains, strict=True))
    return counts_of_states(plan, part, np.asarray(states, dtype=np.float64))


def counts_of_states(plan: Plan, part: ReleasePlan, states: NDArray[Number]) -> NDArray[Number]:
    """(steps, cells of a release) from (steps, states)."""
    return states if plan.stream.cell is None else counted_by(plan.stream.cell, part.query.by, states)


def _variants(plan: Plan, part: Scheduled, estimators: Sequence[Estimator] | None) -> dict[str, ReleasePlan]:
    """The release with each estimator that applies, the plan's own among them."""
    constraints = part.constraint_set
    same = twins(constraints, plan.delivery.longest_wait)
    others = [kind for kind in every_estimator() if kind.name not in same] if estimators is None else estimators
    tried = [part.estimator, *others]
    skips = any(scale == 0 for segment in part.schedule.segments for scale in segment.scales)
    applying = [
        kind
        for kind in tried
        if kind.reason_against(plan.laws, constraints) is None
        and kind.reason_against_delay(plan.delivery.longest_wait) is None
        and (kind.fills or not skips)
    ]
    titles = {kind.described(): part.model_copy(update={"estimator": kind}) for kind in applying}
    return dict(sorted(titles.items()))


@lru_cache(maxsize=8)
def _strength(group: str | None, chain: Chain) -> str:
    """How strong the correlation of a chain is, in the papers' terms, and whose chain it is; kept for more streams."""
    level = smoothing_level(chain.forward)
    told = "states say nothing of each other" if level == math.inf else f"smoothing level s = {level:.3g}"
    whose = "" if group is None else f"group `{group}`: "
    return f"{whose}{told} over {chain.states} states (0: where one is says where one is next; CAO17, CAO23)"


def _error(
    plan: Plan, place: tuple[str, str], pairs: list[tuple[float, float]], impossible: list[float] | None
) -> SimulatedError:
    release, title = place
    values = np.array(pairs)
    mean = values.mean(axis=0)
    stderr = values.std(axis=0, ddof=1) / math.sqrt(len(pairs)) if len(pairs) > 1 else np.full(2, np.nan)
    own = title == MADE or title == plan.release_named(release).estimator.described()
    shares = None if impossible is None or math.isnan(impossible[0]) else float(np.mean(impossible))
    return SimulatedError(
        release, title, float(mean[0]), float(stderr[0]), float(mean[1]), float(stderr[1]), own, shares
    )


def _noisy(part: Scheduled, raw: NDArray[np.int64], randomness: SimulationRandomness) -> Array:
    """Noisy values (steps, cells); NaN at steps without a release."""
    if isinstance(part, AdaptiveRelease):
        mechanism = part.mechanism
        cells = Setting(Participation(mechanism.window, len(raw)), replaced=True, cells=len(part.cells))
        values: Array = mechanism.values(cells, mechanism.measure(cells, raw, (), randomness))
        return values
    scales = part.schedule.scales(len(raw))
    released = [step for step, scale in enumerate(scales) if scale > 0]
    noisy = np.full(raw.shape, np.nan)
    noisy[released] = part.mechanism.add_noise(raw[released], [scales[step] for step in released], randomness)
    return noisy


def _limits(plan: Plan, name: str, predicted: PredictedError) -> str:
    """What a prediction leaves open."""
    sources = [part for part in plan.releases if part.name in sources_of(plan, name)]
    kept = ", against kept events" if any(plan.drops_from(part) for part in sources) else ""
    if predicted.kind == "noise":
        return f" of the noise alone{kept} (what post-processing gains is not known)"
    return f"{kept} ({predicted.because})" if predicted.because else kept


def _cannot(reason: str, remedy: str) -> KernelError:
    return KernelError("E0819", "there is nothing to draw simulated users from", because=reason, help=remedy)
