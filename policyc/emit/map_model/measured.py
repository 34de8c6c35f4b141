"""What each mechanism that measures a whole stream makes of true values: constants of the emitted file, and words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import singledispatch
from typing import TYPE_CHECKING, Literal

import numpy as np

from policyc.emit.map_model.literals import number, sequence
from policyc_check.mechanisms import Mechanism
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_check.users.noise import DiscreteGaussian
from policyc_runtime.mechanisms.binary_tree import BinaryTree
from policyc_runtime.mechanisms.binomial import Binomial
from policyc_runtime.mechanisms.common_noise import CommonNoise
from policyc_runtime.mechanisms.dft import Dft
from policyc_runtime.mechanisms.fast import Fast
from policyc_runtime.mechanisms.filter_subsample import FilterSubsample
from policyc_runtime.mechanisms.gaussian import Gaussian
from policyc_runtime.mechanisms.linear import LinearMechanism
from policyc_runtime.mechanisms.lmmse import Lmmse
from policyc_runtime.mechanisms.process_prediction import DeclaredProcess
from policyc_runtime.mechanisms.stream_laplace import StreamLaplace
from policyc_runtime.mechanisms.subsample import Subsample
from policyc_runtime.mechanisms.toeplitz import Toeplitz
from policyc_runtime.mechanisms.window_mechanism import WindowMechanism
from policyc_runtime.noisy_values import measured

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan

Kind = Literal[
    "laplace_steps", "laplace", "gaussian", "common", "filtered", "toeplitz", "tree", "waves", "lmmse", "fast", "rows"
]
MOST_ROWS = 2000  # steps of a model that states every one of them
AGAIN = (
    "values are published again until counts have moved, and count as measured each time, with discrete Laplace noise "
    "of the scale that errs as much as they do while counts stand still: sum of |r - noisy| / scale. The noisy "
    "distances, which the ledger has and the file has not, are left out"
)
EACH = "sum of (r - noisy)^2 / (2 stddev^2)"


@dataclass(frozen=True)
class Likelihood:
    """How probable noisy values are.

    Args:
        kind: which lines of the template state it.
        words: the same in words.
        constants: lines of Python.
        laplace: whether the noise is Laplace noise, else it is normal.
        totals: widths of the sliding totals that are undone first, "None" for running ones; innermost last.
        variance: Python for the variance of the noise of one value, where a prior is learned from noisy values.
        options: what else the template asks of the kind.
        of_steps: whether it is about the values of steps, so that totals are undone first; else about what is released.
    """

    kind: Kind
    words: str
    constants: tuple[str, ...]
    laplace: bool = False
    totals: tuple[str, ...] = ()
    variance: str = "0.0"
    options: Mapping[str, object] = field(default_factory=dict)
    of_steps: bool = True

    @property
    def separable(self) -> bool:
        """Whether every value has noise of its own, so that its likelihood is its own too."""
        return self.kind in ("laplace_steps", "laplace", "gaussian") and not self.totals

    @property
    def combines(self) -> bool:
        """Whether the noise that was drawn is a combination of values."""
        return self.kind in ("filtered", "toeplitz", "tree", "waves", "rows")


@dataclass(frozen=True)
class Measured:
    """Where a mechanism measures; sizes of noise are in units of the release. `suffix` ends the names of constants."""

    plan: Plan
    release: ReleasePlan
    unit: Decimal
    suffix: str

    def size(self, name: str, value: Decimal) -> str:
        """A constant in published units."""
        return f"{name}{self.suffix} = {number(value * self.unit)}"

    def normal(
        self, kind: Kind, words: str, stddev: Decimal, *constants: str, options: Mapping[str, object] | None = None
    ) -> Likelihood:
        """Normal noise of one standard deviation on everything that is measured."""
        lines = (self.size("STDDEV", stddev), *constants)
        return Likelihood(kind, words, lines, variance=f"STDDEV{self.suffix} ** 2", options=options or {})


@singledispatch
def stated(mechanism: Mechanism, where: Measured) -> Likelihood:
    """The likelihood of what a mechanism publishes: of any linear one, by the numbers that make up each noisy value.

    Raises:
        TypeError: it is not linear, or of too many steps, and none is written for it.
    """
    horizon = where.plan.stream.horizon
    if not isinstance(mechanism, LinearMechanism) or horizon is None or horizon > MOST_ROWS:
        raise TypeError(f"no likelihood is written for `{mechanism.name}`")
    if not isinstance(mechanism.law, DiscreteGaussian):
        raise TypeError(f"no likelihood is written for the noise of `{mechanism.name}`")
    words = (
        "combinations of steps were measured, each with discrete Gaussian noise; every noisy value is off by a "
        "combination of these noises: sum of noise^2 / (2 stddev^2)"
    )
    rows = [", ".join(f"{number}: {part!r}" for number, part in row.items()) for row in _rows(mechanism, where)]
    lines = (f"ROWS{where.suffix} = [", *(f"    {{{row}}}," for row in rows), "]")
    stddev = Decimal(float(mechanism.law.variance)).sqrt()
    return replace(where.normal("rows", words, stddev, *lines), of_steps=False)


def _rows(mechanism: LinearMechanism, where: Measured) -> list[dict[int, float]]:
    """By step, how much of the noise of each number is in its noisy value: {number: part}, in units of the release."""
    known = measured(where.plan, where.release)
    assert known is not None, "it accounts for the whole stream"
    setting = replace(known[1], cells=1)
    steps = where.plan.stream.horizon or 0
    numbers, counts = mechanism.strategy(setting).measured(np.zeros((steps, 1), dtype=np.int64), 0)
    ends = np.cumsum(counts)[:-1]
    parts = []
    for place in range(len(numbers)):
        drawn = np.zeros(len(numbers), dtype=np.int64)
        drawn[place] = 1
        records = [tuple(part.tolist()) for part in np.split(drawn, ends)]
        parts.append(mechanism.values(setting, records)[:, 0])
    of_steps = np.array(parts).T
    return [{int(n): float(row[n]) for n in np.flatnonzero(np.nan_to_num(row))} for row in of_steps]


@stated.register
def _(mechanism: Gaussian, where: Measured) -> Likelihood:
    return where.normal("gaussian", f"discrete Gaussian noise of one standard deviation: {EACH}", mechanism.stddev)


@stated.register
def _(mechanism: CommonNoise, where: Measured) -> Likelihood:
    steps = mechanism.common_steps
    sharing = "one draw that all values share" if steps is None else f"a draw that the values of {steps:,} steps share"
    words = (
        f"discrete Gaussian noise of one standard deviation, and {sharing}: sum of (r + draw - "
        f"noisy)^2 / (2 stddev^2), and {'' if steps is None else 'sum of '}draw^2 / (2 common^2)"
    )
    known = measured(where.plan, where.release)
    assert known is not None, "it accounts for the whole stream"
    common = Decimal(mechanism.common_variance(known[1])).sqrt()
    if steps is None:
        return where.normal("common", words, mechanism.stddev, where.size("COMMON", common))
    constants = where.size("COMMON", common), f"COMMON_STEPS{where.suffix} = {steps}"
    found = where.normal("common", words, mechanism.stddev, *constants, options={"periods": True})
    return replace(found, variance=f"{found.variance} + COMMON{where.suffix} ** 2")  # to one that learns a prior


@stated.register
def _(mechanism: Subsample, where: Measured) -> Likelihood:
    words = f"discrete Gaussian noise of one standard deviation at the steps that were measured: {EACH}"
    return where.normal("gaussian", words, mechanism.stddev)


@stated.register
def _(mechanism: Binomial, where: Measured) -> Likelihood:
    words = (
        f"heads of {mechanism.coins:,} fair coins less their mean, in normal form, which is off by "
        f"{_normal_gap(mechanism.coins):.1g} nats at four standard deviations: {EACH}"
    )
    return where.normal("gaussian", words, (Decimal(mechanism.coins) / 4).sqrt())


def _normal_gap(coins: int) -> float:
    """How far the normal log-likelihood of heads is from that of coins, four standard deviations out, nats."""
    half = coins // 2
    far = min(half, round(2 * math.sqrt(coins)))
    exact = math.lgamma(half + far + 1) + math.lgamma(half - far + 1) - 2 * math.lgamma(half + 1)
    return abs(exact - 2 * far**2 / coins)


@stated.register
def _(mechanism: StreamLaplace, where: Measured) -> Likelihood:
    return Likelihood(
        "laplace",
        "discrete Laplace noise of one scale: sum of |r - noisy| / scale",
        (where.size("SCALE", mechanism.scale),),
        laplace=True,
        variance=f"2 * SCALE{where.suffix} ** 2",
    )


@stated.register
def _(mechanism: FilterSubsample, where: Measured) -> Likelihood:
    words = (
        "weighted means of the steps around every measured one, each with discrete Gaussian noise: sum of "
        "(mean - noisy)^2 / (2 stddev^2)"
    )
    grid, block = f"GRID{where.suffix} = {mechanism.grid}", f"BLOCK{where.suffix} = {max(1, round(1 / mechanism.rate))}"
    options = {"average": mechanism.filter == "average"}
    return where.normal("filtered", words, mechanism.stddev, grid, block, options=options)


@stated.register
def _(mechanism: Toeplitz, where: Measured) -> Likelihood:
    words = (
        "what was measured are weighted sums of a step and those before it, each with discrete Gaussian noise; they "
        "follow from the noisy totals, whose errors depend on each other: sum of (sum - measured)^2 / (2 stddev^2)"
    )
    s, band = where.suffix, mechanism.band
    if band is not None:
        column = sequence([repr(part / mechanism.grid) for part in band], f"BAND{s} = ", "")
    else:
        grid = f"GRID{s} = {mechanism.grid}"
        column = [grid, f'DECAY{s} = "{mechanism.decay}"', f'EXPONENT{s} = "{mechanism.exponent}"']
    return where.normal("toeplitz", words, mechanism.stddev, *column, options={"band": band is not None})


@stated.register
def _(mechanism: BinaryTree, where: Measured) -> Likelihood:
    query = where.release.query
    window = isinstance(query, WindowQuery)
    everything = where.plan.delivery.kind == "offline" and not window
    whence = "all of them" if everything else "those of the nodes that make up each, and those below"
    words = (
        "the sums of 1, 2, 4, ... steps were measured, each with discrete Gaussian noise, and noisy values are "
        f"least-squares estimates from {whence}, so that their errors depend on each other: sum of noise^2 / "
        "(2 stddev^2) over the nodes"
    )
    width = str(query.steps) if isinstance(query, WindowQuery) else "None" if isinstance(query, PrefixQuery) else "1"
    found = where.normal("tree", words, mechanism.stddev, options={"everything": everything, "width": width})
    return replace(found, of_steps=False)


@stated.register
def _(mechanism: Dft, where: Measured) -> Likelihood:
    wait, horizon, s = where.plan.delivery.longest_wait, where.plan.stream.horizon, where.suffix
    length = horizon if wait is None else wait + 1 if horizon is None else min(wait + 1, horizon)
    laplace = mechanism.noise == "laplace"
    noise = "Laplace noise: sum of |noise| / scale" if laplace else "Gaussian noise: sum of noise^2 / (2 stddev^2)"
    left = "; those that were left out as noise say nothing here" if mechanism.choose else ""
    words = f"the lowest frequencies of every block of steps were measured, each with discrete {noise} over them{left}"
    constants = (
        where.size("STDDEV", mechanism.stddev),
        f"BLOCK{s} = {length}",
        *([] if horizon is None else [f"HORIZON{s} = {horizon}"]),
        f"COEFFICIENTS{s} = {mechanism.coefficients}",
    )
    options = {"choose": mechanism.choose, "ends": horizon is not None}
    return Likelihood("waves", words, constants, laplace=laplace, variance=f"STDDEV{s} ** 2", options=options)


@stated.register
def _(mechanism: Lmmse, where: Measured) -> Likelihood:
    words = (
        "each noisy value is a mixture of a prediction from those before it and of a measured one, which follows from "
        "both: sum of (r - measured)^2 / (2 (stddev / weight)^2)"
    )
    if mechanism.noise == "binomial":
        words += "; heads of fair coins, in normal form"
    s, told, unit = where.suffix, mechanism.signal, where.unit
    process = ["None  # the AR(1) process that predicts is learned from the values before"]
    if isinstance(told, DeclaredProcess):
        known = [repr(float(value) * float(unit) ** 2) for value in told.known_covariances]
        mean = number((told.mean or Decimal(0)) * unit)
        process = sequence(known, f'{{"mean": {mean}, "covariances": ', "}  # of the law that predicts")
    elif told is not None:
        values = ", ".join(number(value) for value in (told.mean * unit, told.sd * unit, told.autocorrelation))
        process = [f"({values})  # mean, sd and autocorrelation of the AR(1) process that predicts"]
    constants = (
        where.size("STDDEV", mechanism.stddev),
        f"WEIGHT{s} = {number(mechanism.weight)}",
        f"DECAY{s} = {number(mechanism.decay)}",
        f"PREDICTION{s} = {process[0]}",
        *process[1:],
    )
    options = {"predicts": isinstance(told, DeclaredProcess)}
    return Likelihood("lmmse", words, constants, variance=f"(STDDEV{s} / WEIGHT{s}) ** 2", options=options)


@stated.register
def _(mechanism: WindowMechanism, where: Measured) -> Likelihood:
    scale = where.size("SCALE", mechanism.still_scale)
    return Likelihood("laplace", AGAIN, (scale,), laplace=True, variance=f"2 * SCALE{where.suffix} ** 2")


@stated.register
def _(mechanism: Fast, where: Measured) -> Likelihood:
    words = (
        "samples with discrete Laplace noise, which follow from what the mechanism's filter made of them: sum of "
        "|r - sample| / scale over the sampled steps"
    )
    constants = (
        where.size("SCALE", mechanism.scale),
        where.size("PROCESS_SD", mechanism.process_sd),
        where.size("UNIT", Decimal(1)),
        f"SAMPLES{where.suffix} = {mechanism.samples}",
    )
    return Likelihood("fast", words, constants, laplace=True, variance=f"2 * SCALE{where.suffix} ** 2")
