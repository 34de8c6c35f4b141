"""How likely the noise of one value is to reach so far, and how far errors go, from a plan alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, singledispatch
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.mechanisms.linear import Identity
from policyc_check.plan.queries import CountQuery
from policyc_check.users.claims import promised_user_level, setting_of, source_release, unit_of
from policyc_check.users.noise import Coins, DiscreteGaussian, DiscreteLaplace, Law
from policyc_runtime.crossed_levels import Crossed
from policyc_runtime.estimates import level_variances
from policyc_runtime.mechanisms.laplace import balanced_sizes
from policyc_runtime.mechanisms.linear import LinearMechanism
from policyc_runtime.noisy_values import noise_stddevs
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import (
    AdaptiveRelease,
    BudgetedRelease,
    DerivedRelease,
    MeasuredRelease,
    ReleasePlan,
)

if TYPE_CHECKING:
    from decimal import Decimal

    from numpy.typing import NDArray

REACH = 40  # standard deviations
WIDE = 1e4  # standard deviations from which on sums over whole numbers are integrals, to nine digits
FINE = 4096.0  # scales of balanced noise up to which its law is computed at every whole number


@dataclass(frozen=True)
class Normal:
    """Nearly normal noise, as that of sums of many draws; of whole numbers, where `whole`."""

    stddev: float
    whole: bool


@dataclass(frozen=True)
class Balanced:
    """Of one of several cells whose discrete Laplace noise adds up to zero."""

    scale: float
    cells: int


NoiseLaw = Law | Normal | Balanced


def at_least(law: NoiseLaw, reach: int) -> float:
    """Pr(noise >= reach), in whole units of a release; all noise is symmetric."""
    return _tail(law, reach) if reach > 0 else 1.0 - _tail(law, 1 - reach)


@singledispatch
def _tail(law: NoiseLaw, reach: int) -> float:
    """Pr(noise >= reach) for reach >= 1."""
    raise TypeError(f"nothing is known of noise of this law: {type(law).__name__}, {reach}")


@_tail.register
def _(law: DiscreteLaplace, reach: int) -> float:
    scale = float(law.scale)
    return math.exp(-reach / scale) / (1 + math.exp(-1 / scale))


@_tail.register
def _(law: DiscreteGaussian, reach: int) -> float:
    stddev = math.sqrt(law.variance)
    if stddev > WIDE:
        return _tail(Normal(stddev, whole=True), reach)
    far = math.ceil(REACH * stddev) + 2
    sizes = np.exp(-((np.arange(far) / stddev) ** 2) / 2)
    total = float(sizes[0] + 2 * sizes[1:].sum())
    return float(np.exp(-(((float(reach) + np.arange(far)) / stddev) ** 2) / 2).sum()) / total


@_tail.register
def _(law: Coins, reach: int) -> float:
    from scipy.special import betainc

    return float(betainc(law.half + reach, law.half - reach + 1, 0.5)) if reach <= law.half else 0.0


@_tail.register
def _(law: Normal, reach: int) -> float:
    return math.erfc((reach - 0.5 * law.whole) / (law.stddev * math.sqrt(2))) / 2


@_tail.register
def _(law: Balanced, reach: int) -> float:
    scale = min(law.scale, FINE)
    tails = _balanced_tails(scale, law.cells)
    place = (reach - 0.5) * (scale / law.scale) + 0.5
    return float(np.interp(place, np.arange(len(tails)), tails))


@lru_cache(maxsize=8)
def _balanced_tails(scale: float, cells: int) -> NDArray[np.float64]:
    """Pr(noise >= 0, 1, ...), but for half of Pr(noise = 0)."""
    sizes = balanced_sizes(scale, cells)
    return np.append(np.cumsum(sizes[::-1])[::-1], 0.0) / 2


@lru_cache(maxsize=4096)
def exceeded(law: NoiseLaw, chance: float) -> float:
    """The least size, in units of a release, that noise is beyond with a probability of `chance` at most, in (0, 1)."""
    if isinstance(law, Normal):
        return law.stddev * normal_quantile(chance)

    def seldom(size: int) -> bool:
        return 2 * _tail(law, size + 1) <= chance

    high = 0
    while not seldom(high):
        high = 2 * high + 1
    low = high // 2 - 1 if high else -1  # not seldom, or below everything
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seldom(middle) else (middle, high)
    return float(high)


def normal_quantile(chance: float) -> float:
    """How many standard deviations a normal value is beyond with this probability."""
    return -NormalDist().inv_cdf(chance / 2)


def publishes_noise(plan: Plan, release: ReleasePlan, least: Decimal | int) -> bool:
    """Whether what is published is a value's own noisy one, or the nearest above a bound that is `least` at most."""
    if plan.agrees(release.name):
        return False
    bounded = all(
        row.relation == ">=" and not row.previous and len(row.current) == 1 and row.current[0][1] == 1
        and row.bound <= least
        for row in release.constraints
    )  # fmt: skip
    return release.estimator.name in ("none", "mle") and bounded


def publishes_true_and_noise(plan: Plan, release: ReleasePlan) -> bool:
    """Whether a published value is off by its noise at most: it is the noisy one, or 0 where no true one is below."""
    query = source_release(plan, release).query
    floored = isinstance(query, CountQuery) or getattr(query, "low", -1) >= 0
    return publishes_noise(plan, release, 0) and (floored or not release.constraints)


def error_bounds(
    plan: Plan, release: ReleasePlan, chance: float, steps: int, first: int = 0
) -> NDArray[np.float64] | None:
    """What the error of a published value is beyond with a probability of `chance` at most, (steps - first,).

    In published units, at the steps from `first` on.

    By the law of the noise where its value is published, or the nearest one that is not negative where no true one is;
    where noisy levels agree, by that of the value of the step that is known worst. Else that of an average cell of
    the step, no bound: a normal law with the expected error. None where the plan knows neither.
    """
    if publishes_true_and_noise(plan, release):
        laws = laws_of_steps(plan, release, steps)
        if laws is not None:
            sizes = [exceeded(law, chance) for law in laws[first:]]
            return steady(np.array(sizes) * float(published_unit(plan, release)))
    if release.predicted.kind not in ("expected", "simulated") or isinstance(release, AdaptiveRelease):
        return None
    if sums_of_noise(plan, release):
        rounding = 1.0 if release.integer else 0.0  # what whole numbers move a value by, from the top down
        return steady(_of_level(plan, release, steps)[first:] * _widest(release, chance) + rounding)
    errors = np.array(release.errors(steps)[first:])
    squared = plan.objective == "mean_squared_error"
    stddevs = np.sqrt(errors) if squared else errors * math.sqrt(math.pi / 2)
    return steady(stddevs * normal_quantile(chance))


def sums_of_noise(plan: Plan, release: ReleasePlan) -> bool:
    """Whether values agree with those of other releases, and are off by sums of noises whatever else is asked."""
    tree = next((tree for tree in plan.trees if release.name in tree.names), None)
    if tree is None or tree.demands is not None or (isinstance(tree, Crossed) and tree.whole):
        return False
    return all(plan.release_named(name).estimator.name in ("none", "mle") for name in tree.names)


def _of_level(plan: Plan, release: ReleasePlan, steps: int) -> NDArray[np.float64]:
    """The standard deviation of that value of a level which is known worst, (steps,)."""
    tree = next(tree for tree in plan.trees if release.name in tree.names)
    variances = np.stack(level_variances(plan, tree, steps), axis=1)
    rows, places = np.unique(variances, axis=0, return_inverse=True)
    level = tree.names.index(release.name)
    most = np.array([tree.variances(row.tolist())[level].max() for row in rows])
    return np.asarray(np.sqrt(most)[places.ravel()])


def _widest(release: ReleasePlan, chance: float) -> float:
    """In standard deviations, how far a sum of noises goes: between one of them, which may be Laplace, and a normal."""
    gaussian = isinstance(getattr(release.mechanism, "law", None), DiscreteGaussian)
    return max(normal_quantile(chance), 0.0 if gaussian else -math.log(chance) / math.sqrt(2))


def steady(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nine digits, which are the same on every machine."""
    return np.array([float(f"{value:.9g}") for value in values.ravel().tolist()]).reshape(values.shape)


def published_unit(plan: Plan, release: ReleasePlan) -> Fraction:
    """What a whole unit of noise is in published values."""
    return Fraction(1) if isinstance(release, BudgetedRelease | AdaptiveRelease) else Fraction(unit_of(plan, release))


def noise_laws(plan: Plan, release: ReleasePlan) -> tuple[NoiseLaw, ...] | None:
    """Of the noise of one noisy value, where it is least and where it is most; one where all steps are alike."""
    laws = laws_of_steps(plan, release, plan.expected_steps)
    if laws is None:
        return None
    different = sorted(dict.fromkeys(laws), key=lambda law: at_least(law, 1))  # the more noise, the larger
    return (different[0],) if len(different) == 1 else (different[0], different[-1])


def laws_of_steps(plan: Plan, release: ReleasePlan, steps: int) -> list[NoiseLaw] | None:
    """Of the noise of one noisy value of every step, in whole units.

    None where it is not known: of values that are estimates, are published again until counts have moved, or are not
    there at some steps.
    """
    if isinstance(release, BudgetedRelease):
        scales = release.schedule.scales(steps)
        laws = {scale: _of_step(release, scale) for scale in set(scales) if scale > 0}
        return None if 0 in scales else [laws[scale] for scale in scales]
    if isinstance(release, AdaptiveRelease):
        return None
    source = release
    while isinstance(source, DerivedRelease):
        source = plan.release_named(source.query.of)
    mechanism = source.mechanism
    if not isinstance(mechanism, LinearMechanism) or mechanism.estimates or mechanism.leaves_gaps:
        return None
    assert isinstance(source, MeasuredRelease), "no other has such a mechanism"
    setting = setting_of(plan, source, promised_user_level(plan)[0])
    if source is release and isinstance(mechanism.strategy(setting), Identity):
        return [mechanism.law] * steps
    if not isinstance(mechanism.law, DiscreteGaussian):
        return None
    stddevs = noise_stddevs(plan, release, steps) / float(unit_of(plan, release))
    return [Normal(stddev, whole=mechanism.whole_values) for stddev in stddevs.tolist()]


def _of_step(release: BudgetedRelease, scale: Decimal) -> NoiseLaw:
    cells = getattr(release.mechanism, "balanced_cells", None)
    if cells is not None:
        return Balanced(float(scale), cells)
    return DiscreteLaplace(Fraction(scale))
