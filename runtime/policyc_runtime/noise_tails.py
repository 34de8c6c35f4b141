"""How likely the noise of one value is to reach so far, from a plan alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.mechanisms.linear import Identity
from policyc_check.users.claims import promised_user_level, setting_of, unit_of
from policyc_check.users.noise import Coins, DiscreteGaussian, DiscreteLaplace, Law
from policyc_runtime.mechanisms.laplace import balanced_sizes
from policyc_runtime.mechanisms.linear import LinearMechanism
from policyc_runtime.noisy_values import noise_stddevs
from policyc_runtime.plan import AdaptiveRelease, BudgetedRelease, DerivedRelease, MeasuredRelease, Plan, ReleasePlan

if TYPE_CHECKING:
    from decimal import Decimal

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
    return float(np.exp(-(((reach + np.arange(far)) / stddev) ** 2) / 2).sum()) / total


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
    sizes = balanced_sizes(scale, law.cells)
    tails = np.append(np.cumsum(sizes[::-1])[::-1], 0.0) / 2
    place = (reach - 0.5) * (scale / law.scale) + 0.5
    return float(np.interp(place, np.arange(len(tails)), tails))


def noise_laws(plan: Plan, release: ReleasePlan) -> tuple[NoiseLaw, ...] | None:
    """Of the noise of one noisy value in whole units, where it is least and where it is most; one where all are alike.

    None where it is not known: of values that are estimates, or are published again until counts have moved.
    """
    if isinstance(release, BudgetedRelease):
        scales = [scale for segment in release.schedule.segments for scale in segment.scales if scale > 0]
        return tuple(_of_step(release, scale) for scale in sorted({min(scales), max(scales)}))
    if isinstance(release, AdaptiveRelease):
        return None
    source = release
    while isinstance(source, DerivedRelease):
        source = plan.release_named(source.query.of)
    mechanism = source.mechanism
    if not isinstance(mechanism, LinearMechanism) or mechanism.estimates or mechanism.leaves_gaps:
        return None
    assert isinstance(source, MeasuredRelease), "no other has such a mechanism"
    setting = setting_of(plan, source, promised_user_level(plan)[0].relation)
    if source is release and isinstance(mechanism.strategy(setting), Identity):
        return (mechanism.law,)
    if not isinstance(mechanism.law, DiscreteGaussian):
        return None
    stddevs = noise_stddevs(plan, release, plan.expected_steps) / float(unit_of(plan, release))
    ends = sorted({float(stddevs.min()), float(stddevs.max())})
    return tuple(Normal(stddev, whole=mechanism.whole_values) for stddev in ends)


def _of_step(release: BudgetedRelease, scale: Decimal) -> NoiseLaw:
    cells = getattr(release.mechanism, "balanced_cells", None)
    if cells is not None:
        return Balanced(float(scale), cells)
    return DiscreteLaplace(Fraction(scale))
