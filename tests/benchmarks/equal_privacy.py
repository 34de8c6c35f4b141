"""The settings of ZKL22 and KOGA22 on their data or the nearest that is free, and every method at equal privacy.

A row is a series, a promise and a delivery. Every method of a row keeps the same (epsilon, delta) for the same users by
the kernel's own accounting, and sees the same true values; `auto` is what `policyc compile` makes of a policy that
names neither mechanism nor estimator, and that says what is known beforehand: the season's period, that no value is
negative, and whether values have observation noise. All others have what their authors tune on the true values.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from equal_privacy_data import Series
from koga22 import Noisy, koga22_methods
from numpy.typing import NDArray
from pydantic import ValidationError

from policyc import compile_policy
from policyc.offers import calibrate, mechanism_offers
from policyc.offers.offer import Options
from policyc_check.errors import KernelError
from policyc_check.users.claims import unit_of
from policyc_check.users.setting import Setting
from policyc_runtime.estimates import estimate_release
from policyc_runtime.estimation import estimator_kinds
from policyc_runtime.estimation.plain_series import PlainSeries
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.mechanisms import (
    StreamMechanism,
    WindowMechanism,
    stream_mechanism_kinds,
    window_mechanism_kinds,
)
from policyc_runtime.noisy_values import measured, noisy_values
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]
WEIGHTS = ("0.05", "0.1", "0.2", "0.3", "0.5", "0.7", "0.9", "1")
PARTS = (0.02, 0.05, 0.15, 0.4)
"""Of all steps, how many frequencies or samples are tried."""

WIDER = 1.3
"""Noise that is so many times as wide as independent Gaussian noise is measured without estimators: they take long."""

FEWEST_RUNS = 3

PLAIN = ("none", "linear")  # estimators that the sources themselves use on noisy values


@dataclass(frozen=True)
class Row:
    """One promise about one series.

    Args:
        paper: whose setting it is: `ZKL22` or `KOGA22`.
        bound: steps that one user takes part in at most.
        offline: whether values may wait for all others.
    """

    paper: str
    series: Series
    epsilon: str
    delta: str
    bound: int
    offline: bool

    @property
    def name(self) -> str:
        """As the table has it."""
        delivery = "offline" if self.offline else "realtime"
        return f"{self.series.name}, T = {self.series.steps}, k = {self.bound}, epsilon {self.epsilon}, {delivery}"

    def plan(self, folder: Path) -> Plan:
        """What the compiler makes of a policy with nothing chosen by hand."""
        count = self.series.clamp is None
        release = "count(events)" if count else f"sum(events.size, clamp = 0 .. {self.series.clamp})"
        observed = ", observation_noise = true" if self.series.observed else ""
        text = f"""policy row "{self.name}"
stream events {{
  user     person
  time     happened_at
  step     1h
  horizon  {self.series.steps} steps
}}
release shown = {release}
target user_level(epsilon = {self.epsilon}, delta = {self.delta}, neighbors = add_remove)
participation at_most({self.bound} steps, assumed = "part of a benchmark")
signal seasonal_ar1(period = {self.series.period} steps, learned = true{observed})
deliver {"offline" if self.offline else "realtime"}
postprocess shown {{
  shown >= 0
}}
objective mean_absolute_error
"""
        path = folder / "row.policy"
        path.write_text(text, encoding="utf-8")
        return compile_policy(path).plan


@dataclass(frozen=True)
class Method:
    """A mechanism with one set of options, and the estimators to put on top (None: none).

    `made` is the mechanism, where it is one of the kernel's with noise by its accounting.
    """

    name: str
    noisy: Noisy
    estimators: tuple[PlainSeries | None, ...]
    made: StreamMechanism | None = None


@dataclass(frozen=True)
class Error:
    """Mean absolute errors and relative errors (ZKL22) of one method, a value a run."""

    absolute: Sequence[float]
    relative: Sequence[float]

    @property
    def mean(self) -> float:
        """Of the absolute errors."""
        return float(np.mean(self.absolute))

    def shown(self) -> list[str]:
        """MAE and RE, each with its standard deviation over runs."""
        return [f"{np.mean(x):.3g} ± {np.std(x):.2g}" for x in (self.absolute, self.relative)]


@dataclass(frozen=True)
class Result:
    """What was measured on one row."""

    row: Row
    chosen: str
    auto: Error
    own: Mapping[str, Error]
    sources: Mapping[str, Error]
    refused: Mapping[str, str]

    @property
    def best(self) -> tuple[str, Error]:
        """The best single method."""
        return _least({**self.own, **self.sources})

    @property
    def best_source(self) -> tuple[str, Error]:
        """The best method of the sources."""
        return _least(self.sources)

    @property
    def best_koga(self) -> tuple[str, Error]:
        """The best of KOGA22's algorithm as its authors calibrate it."""
        return _least({name: error for name, error in self.sources.items() if "authors" in name})

    def ratio(self, other: Error) -> tuple[float, float]:
        """`auto` to another method, and the standard error of that."""
        spread = [
            float(np.std(one.absolute, ddof=1)) / one.mean / math.sqrt(len(one.absolute)) for one in (self.auto, other)
        ]
        ratio = self.auto.mean / other.mean
        return ratio, ratio * math.hypot(*spread)


def measure(row: Row, runs: int, folder: Path, seconds: float = math.inf) -> Result:
    """All methods on one row, each `runs` times; three times at least and then for so many seconds at most."""
    plan = row.plan(folder)
    release = plan.releases[0]
    found = measured(plan, release)
    assert found is not None, "a promise about all events of a user is kept by stream mechanisms"
    mechanism, setting = found
    unit = float(unit_of(plan, release))
    raw = np.rint(row.series.values / unit).astype(np.int64)[:, None]
    truth = row.series.truth
    auto = []
    for seed in range(runs):
        records = mechanism.measure(setting, raw, [], SimulationRandomness(seed))
        auto.append(estimate_release(plan, release, noisy_values(plan, release, records), np.zeros((0, 1)))[:, 0])
    errors: dict[str, list[Array]] = {}
    sources: set[str] = set()
    refused: dict[str, str] = {}
    for method in methods(row, setting, raw, refused):
        for estimator in method.estimators:
            name = method.name if estimator is None else f"{method.name} + {described(estimator)}"
            if estimator is None or estimator.name in PLAIN:
                sources.add(name)
            if method.made == mechanism and estimator == release.estimator:
                errors[name] = auto
                continue
            errors[name] = _shown(method, estimator, setting, unit, runs, seconds)
    scored = {name: _error(shown, truth) for name, shown in errors.items()}
    return Result(
        row=row,
        chosen=f"{mechanism.described()} + {release.estimator.described()}",
        auto=_error(auto, truth),
        own={name: error for name, error in scored.items() if name not in sources},
        sources={name: error for name, error in scored.items() if name in sources},
        refused=refused,
    )


def _shown(
    method: Method, estimator: PlainSeries | None, setting: Setting, unit: float, runs: int, seconds: float
) -> list[Array]:
    """What is published, a series a run; three runs at least, then for so many seconds at most."""
    shown: list[Array] = []
    start = time.process_time()
    while len(shown) < runs and (len(shown) < FEWEST_RUNS or time.process_time() - start < seconds):
        values, variances = method.noisy(len(shown))
        if estimator is not None:
            values = estimator.expected(values[:, None], variances, 0, setting.wait)[:, 0]
        if estimator is not None and estimator.name not in PLAIN:
            values = np.maximum(values, 0.0)  # as the policy has it; the sources publish what there is
        shown.append(values * unit)
    return shown


def methods(row: Row, setting: Setting, raw: NDArray[np.int64], refused: dict[str, str]) -> Iterator[Method]:
    """Every mechanism there is with everything worth trying; reasons against the others go into `refused`."""
    epsilon, delta = Decimal(row.epsilon), Decimal(row.delta)
    for name, kind in stream_mechanism_kinds().items():
        reason = kind.reason_not_here(setting)
        for options in [] if reason else in_hindsight(kind, setting, raw):
            try:
                made = calibrate(kind, setting, epsilon, delta, options)
            except KernelError as error:
                reason = error.because or error.message
                continue
            yield from stream_methods(row, made, setting, raw, _called(name, options))
        if reason:
            refused[name] = reason
    if row.paper == "ZKL22":
        yield from zkl22_methods(row, setting, raw)
    else:
        for name, noisy in koga22_methods(raw[:, 0], float(epsilon), float(delta), row.bound):
            yield Method(name, noisy, (None,))


def _called(name: str, options: Options) -> str:
    told = ", ".join(f"{key} = {value}" for key, value in options.items())
    return f"{name}({told})" if told else name


def stream_methods(
    row: Row, made: StreamMechanism, setting: Setting, raw: NDArray[np.int64], name: str, *, published: bool = False
) -> Iterator[Method]:
    """A calibrated mechanism, alone and, if it is not as published, with every estimator for plain series."""
    variances = made.variances(setting, len(raw))
    own = variances - made.common_variance(setting)  # what is common to all values, estimators leave as it is
    useful = np.nanmean(variances) < WIDER**2 * least_variance(row, setting)

    def noisy(seed: int) -> tuple[Array, Array]:
        records = made.measure(setting, raw, [], SimulationRandomness(seed))
        values = made.values(setting, records)[:, 0]
        return values, np.where(np.isfinite(values), own, np.inf)

    on_top: list[PlainSeries | None] = [] if made.leaves_gaps else [None]
    if useful and not made.estimates and not published:
        usable = [one for one in plain_series(row) if one.reason_against_delay(setting.wait) is None]
        on_top += [one for one in usable if made.leaves_gaps or one.name != "linear"]
    if on_top:
        yield Method(name, noisy, tuple(on_top), None if published else made)


def in_hindsight(kind: type[StreamMechanism], setting: Setting, raw: NDArray[np.int64]) -> Sequence[Options]:
    """Options worth measuring: what `auto` compares, and what the sources tune on the truth itself."""
    steps, spread = len(raw), max(1.0, float(np.std(np.diff(raw[:, 0]))))
    some = [max(2, round(part * steps)) for part in PARTS]
    tuned: Mapping[str, Sequence[Options]] = {
        "lmmse": [{"weight": Decimal(weight)} for weight in WEIGHTS],
        "dft": [{}, {"choose": True}, *({"coefficients": most} for most in some)],
        "fast": [{"process_sd": Decimal(f"{spread * size:.3g}")} for size in (0.1, 0.3, 1)]
        + [{"process_sd": Decimal(f"{spread:.3g}"), "samples": most} for most in some[1:]],
    }
    name = kind.model_fields["name"].default
    return tuned.get(str(name), mechanism_offers()[str(name)].variants(setting))


def least_variance(row: Row, setting: Setting) -> float:
    """Of Gaussian noise on every step, in units squared."""
    from policyc.offers.calibration import gaussian_stddev, l2_sensitivity

    return gaussian_stddev(float(row.epsilon), float(row.delta), l2_sensitivity(setting)) ** 2


def plain_series(row: Row) -> Iterator[PlainSeries]:
    """Every estimator for plain series, with the season of the row, and with observation noise where there is any."""
    for kind in estimator_kinds().values():
        if not issubclass(kind, PlainSeries):
            continue
        tried: list[dict[str, Any]] = [{}]
        if "signal" in kind.model_fields:
            tried = [{"signal": SignalModel(period=row.series.period)}]
        if "observation_noise" in kind.model_fields and row.series.observed:
            tried.append({"observation_noise": True})
        for fields in tried:
            try:
                yield kind.model_validate(fields)
            except ValidationError:
                continue  # it needs what no row declares


def described(estimator: PlainSeries) -> str:
    """An estimator as the table has it."""
    return estimator.described().replace("() of", " of")


def zkl22_methods(row: Row, setting: Setting, raw: NDArray[np.int64]) -> Iterator[Method]:
    """Laplace noise as ZKL22 has it, lmmse with noise by its Corollary 5.2, and budgets over a window of all steps."""
    epsilon, steps, moved = float(row.epsilon), len(raw), setting.contribution
    laplace = stream_mechanism_kinds()["laplace"].model_validate(
        {"scale": Decimal(repr(setting.changes * setting.shift / epsilon))}
    )
    yield from stream_methods(row, laplace, setting, raw, "laplace, delta 0 (ZKL22's baseline)", published=True)
    lmmse = stream_mechanism_kinds()["lmmse"]
    log = math.log(1 / float(row.delta))
    left = 2 * epsilon + 4 * log - 4 * math.sqrt(log**2 + epsilon * log)
    for options in in_hindsight(lmmse, setting, raw):
        exact: Any = calibrate(lmmse, setting, Decimal(row.epsilon), Decimal(row.delta), options)
        squares = 2 + (steps - 2) * float(exact.weight) ** 2
        published = exact.with_noise(moved * math.sqrt(squares / left) / float(exact.stddev))
        name = f"{_called('lmmse', options)}, noise of ZKL22's Corollary 5.2"
        yield from stream_methods(row, published, setting, raw, name, published=True)
    for name, kind in window_mechanism_kinds().items():
        if moved > 1:
            continue  # they count distances in whole numbers of users
        fields = {"name": name, "window": steps, "epsilon": row.epsilon, "l1_sensitivity": 1, "still_error": 1}
        yield Method(f"{name}, w = T", _window_noise(kind.model_validate(fields), setting, raw), (None,))


def _window_noise(rule: WindowMechanism, setting: Setting, raw: NDArray[np.int64]) -> Noisy:
    def noisy(seed: int) -> tuple[Array, Array]:
        records = rule.measure(setting, raw, [], SimulationRandomness(seed))
        return rule.values(setting, records)[:, 0], np.full(len(raw), np.nan)

    return noisy


def _error(shown: Sequence[Array], truth: Array) -> Error:
    away = [np.abs(one - truth) for one in shown]
    largest = float(np.abs(truth).max())
    return Error(
        [float(one.mean()) for one in away],
        [float(np.linalg.norm(one)) / truth.size / largest for one in away],
    )


def _least(errors: Mapping[str, Error]) -> tuple[str, Error]:
    name = min(errors, key=lambda one: errors[one].mean)
    return name, errors[name]
