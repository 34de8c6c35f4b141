"""What noisy values say of how series move, by Whittle's likelihood: of many series at once, each by itself.

It compares the periodogram with what is expected of it. The expectation is taken at this length and with these gaps,
exactly (SOL19), so that short series and missing steps need no correction. It sees released values only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from policyc_runtime.estimation.signal import STEADY, SeriesProcess, SignalModel
from policyc_runtime.estimation.simplex import least_by_simplex

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]

FEWEST_VALUES = 8  # below, nothing is learned
SEASON_COST = 4.0  # twice Akaike's two parameters: what a season must gain, in units of 2 log-likelihood
RESIDUAL_COST = 4.0  # the same of an AR(1) residual
AUTOCORRELATIONS = (0.3, 0.6, 0.9, 0.98)  # to start a search from
LEAST_SHARE = 1e-3  # of noise, below which an expected periodogram counts as rounding
MOST_AT_ONCE = 2**20  # numbers that are worked on


class Periodograms:
    """Those of noisy series around their means, and how well processes explain them.

    Args:
        values: (T, series), NaN where a step has none.
        variances: (T,) of the noise.
    """

    def __init__(self, values: Array, variances: Array) -> None:
        given = np.isfinite(values).all(axis=1)
        known = np.ascontiguousarray(values[given].T)
        count = int(given.sum())
        centred = np.zeros((values.shape[1], values.shape[0]))
        centred[:, given] = known - known.mean(axis=1, keepdims=True)
        padded = 1 << math.ceil(math.log2(2 * len(values)))
        pairs = np.fft.irfft(np.abs(np.fft.rfft(given.astype(float), padded)) ** 2, padded)[: len(values)]
        self._weights = pairs / count
        self._found = np.abs(np.fft.rfft(centred, axis=1))[:, 1:] ** 2 / count
        self._apart = np.arange(len(values))
        self.noise = float(np.mean(variances[given]))
        self.excess = np.maximum(known.var(axis=1) - self.noise, max(0.05 * self.noise, 1e-12))

    def misfit(self, told: Mapping[str, Array], period: int, which: Indices) -> Array:
        """Minus twice Whittle's log-likelihood, up to a constant, (k,).

        Args:
            told: of processes, by the names of `SeriesProcess`, (k,) each.
            period: of their season; 0 for none.
            which: (k,) series that each is held against.
        """
        size = max(MOST_AT_ONCE // len(self._apart), 1)
        if which.size <= size:
            return self._misfit(told, period, which)
        parts = [slice(begin, begin + size) for begin in range(0, which.size, size)]
        return np.concatenate(
            [self._misfit({name: array[part] for name, array in told.items()}, period, which[part]) for part in parts]
        )

    def _misfit(self, told: Mapping[str, Array], period: int, which: Indices) -> Array:
        covariances = told["residual_stddev"][:, None] ** 2 * told["autocorrelation"][:, None] ** self._apart
        if period:
            whole = self._apart[::period]
            kept = told["seasonal_autocorrelation"][:, None] ** (whole // period)
            covariances[:, whole] += told["seasonal_stddev"][:, None] ** 2 * kept
        weighted = self._weights * covariances
        noise = self.noise + told["observation_stddev"][:, None] ** 2
        expected = 2 * np.fft.rfft(weighted, axis=1).real[:, 1:] - weighted[:, :1] + noise
        expected = np.maximum(expected, LEAST_SHARE * self.noise + 1e-12)
        return np.asarray((np.log(expected) + self._found[which] / expected).sum(axis=1))


def learned_process(model: SignalModel, values: Array, variances: Array) -> SeriesProcess | None:
    """The process that explains noisy values best, where what the policy declares holds.

    A season or a residual that explains too little to be told from chance is left out, unless it is declared.

    Args:
        model: what is declared.
        values: (T,), NaN without one.
        variances: (T,) of the noise.

    Returns:
        None where there are too few values to learn from.

    Source: SOL19
    """
    return learned_processes(model, values[:, None], variances)[0]


def learned_processes(model: SignalModel, values: Array, variances: Array) -> list[SeriesProcess | None]:
    """The same of many series, each by itself: values are (T, series), with one at the same steps of all."""
    mean, series, period = None if model.mean is None else float(model.mean), values.shape[1], model.period or 0
    declared = {
        "residual_stddev": _number(model.residual_stddev),
        "autocorrelation": _number(model.autocorrelation),
        "seasonal_stddev": _number(model.seasonal_stddev),
    }
    known: dict[str, Any] = {name: value for name, value in declared.items() if value is not None}
    if model.arma is not None:
        first = model.arma.covariances(2)
        return [SeriesProcess(math.sqrt(first[0]), first[1] / first[0], mean=mean, arma=model.arma)] * series
    if model.complete:
        return [SeriesProcess(**known, period=period, mean=mean)] * series
    count = int(np.isfinite(values).all(axis=1).sum())
    if count < FEWEST_VALUES:
        return [None] * series
    seen = Periodograms(values, variances)
    if not model.observation_noise:
        known["observation_stddev"] = 0.0
    told, misfit = _fitted(seen, {name: known[name] for name in known if name != "seasonal_stddev"}, 0)
    if not {"residual_stddev", "autocorrelation"} & set(known):
        none = {name: np.full(series, STEADY if name == "seasonal_autocorrelation" else 0.0) for name in told}
        still = seen.misfit(none, 0, np.arange(series))
        left = still < misfit + RESIDUAL_COST
        told, misfit = {name: np.where(left, none[name], told[name]) for name in told}, np.where(left, still, misfit)
    found = _processes(told, 0, mean)
    if not period or ("seasonal_stddev" not in known and count < 2 * period + FEWEST_VALUES):
        return [*found]
    told, better = _fitted(seen, known, period)
    seasonal = ("seasonal_stddev" in known) | (better + SEASON_COST < misfit)
    return [
        one if stays else plain
        for one, stays, plain in zip(_processes(told, period, mean), seasonal.tolist(), found, strict=True)
    ]


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _processes(told: Mapping[str, Array], period: int, mean: float | None) -> list[SeriesProcess]:
    rows = zip(*(array.tolist() for array in told.values()), strict=True)
    return [SeriesProcess(**dict(zip(told, row, strict=True)), period=period, mean=mean) for row in rows]


def _fitted(seen: Periodograms, known: Mapping[str, float], period: int) -> tuple[dict[str, Array], Array]:
    """The best processes and their misfits, by simplex searches over what is not known, from the best of some."""
    size = np.log(seen.excess) / 2
    sizes = (size - 6, size + 3)
    same = np.ones_like(size)
    whole = {"residual_stddev": sizes, "autocorrelation": (-6 * same, 6 * same), "observation_stddev": sizes}
    if period:
        whole |= {"seasonal_stddev": sizes, "seasonal_autocorrelation": (-same, 7 * same)}
    free = {name: ends for name, ends in whole.items() if name not in known}
    if not free:  # all is declared
        every = np.arange(size.size)
        values = {"seasonal_stddev": 0.0, "seasonal_autocorrelation": STEADY} | dict(known)
        declared = {name: np.full(size.size, value) for name, value in values.items()}
        return declared, seen.misfit(declared, period, every)
    low, high = (np.stack(ends, axis=1) for ends in zip(*free.values(), strict=True))  # (series, unknown)

    def told(points: Array, which: Indices) -> dict[str, Array]:
        inside = np.clip(points, low[which], high[which]).T
        made = {
            name: np.exp(place) if name.endswith("stddev") else 1 / (1 + np.exp(-place))
            for name, place in zip(free, inside, strict=True)
        }
        whole = {"seasonal_stddev": 0.0, "seasonal_autocorrelation": STEADY} | dict(known)
        return {name: np.full(which.size, value) for name, value in whole.items() if name not in made} | made

    def misfit(points: Array, which: Indices) -> Array:
        return seen.misfit(told(points, which), period, which)

    part = math.log(0.5) / 2 if period else 0.0
    begin = {
        "residual_stddev": size + part,
        "seasonal_stddev": size + part,
        "seasonal_autocorrelation": 3.0 * same,
        "observation_stddev": size - 1.0,
    }
    starts = [
        np.stack([(begin | {"autocorrelation": math.log(rho / (1 - rho)) * same})[name] for name in free], axis=1)
        for rho in AUTOCORRELATIONS
    ]
    every = np.arange(size.size)
    best = np.argmin([misfit(points, every) for points in starts], axis=0)
    points, found = least_by_simplex(misfit, np.stack(starts)[best, every], width=0.03, drop=0.03, most=250)
    return told(points, every), found
