"""How far off a value is that is made of released ones: to first order, from the noise of what it is made of.

A ratio A / B is off by about (dA - (A / B) dB) / B, with the published values in place of the true ones. The median of
a baseline is off as the median of as many draws of noise, as if the true values there were alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_check.users.noise import DiscreteLaplace
from policyc_runtime.denominators import denominators
from policyc_runtime.made_release import BlockTotal, Change, Quotient
from policyc_runtime.noise_tails import laws_of_steps, publishes_true_and_noise
from policyc_runtime.noisy_values import noise_stddevs
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import MadeRelease, MeasuredRelease, ReleasePlan, Scheduled
from policyc_runtime.row_sums import running_totals, width_of

Array = NDArray[np.float64]
POINTS = 20_001  # of an integral over quantiles


class Noise(NamedTuple):
    """Of the rows of a release: standard deviations (rows, cells) or (rows, 1), and whether it is Laplace noise.

    `own`: whether each row has noise of its own, which running totals and windows do not.
    """

    stddevs: Array
    laplace: bool
    own: bool = True


def made_stddevs(plan: Plan, made: MadeRelease, known: Mapping[str, NDArray[Any]]) -> Array | None:
    """Standard deviations of rows, (rows, cells) or (rows, 1); None where nobody knows them, or errors hang together.

    Args:
        plan: whose `made` it is.
        made: one of them.
        known: values of all releases that come before it and of itself, (rows, cells), masked where there are none.
    """
    found = _of(plan, made.name, known)
    return None if found is None else found.stddevs


def _of(plan: Plan, name: str, known: Mapping[str, NDArray[Any]]) -> Noise | None:
    made = next((one for one in plan.made if one.name == name), None)
    if made is None:
        return _of_release(plan, plan.release_named(name), len(known[name]))
    query, base = made.query, _of(plan, made.query.of, known)
    if base is None or not (base.own or isinstance(query, Quotient)):
        return None
    if isinstance(query, BlockTotal):
        rows = len(known[name])
        blocks = (base.stddevs**2)[: len(base.stddevs) // rows * rows if rows else 0]
        return Noise(np.sqrt(blocks.reshape(rows, -1, base.stddevs.shape[1]).sum(axis=1)), laplace=False)
    if isinstance(query, PrefixQuery | WindowQuery):
        summed = running_totals(base.stddevs**2, width_of(query))
        return Noise(np.sqrt(np.asarray(np.ma.getdata(summed), np.float64)), laplace=False, own=False)
    if isinstance(query, Change):
        return Noise(_of_change(plan, made, base, known), laplace=False)
    return _of_quotient(plan, query, base, known, np.asarray(np.ma.getdata(known[name]), np.float64))


def _of_quotient(
    plan: Plan, query: Quotient, base: Noise, known: Mapping[str, NDArray[Any]], data: Array
) -> Noise | None:
    """Of `times` A / B, whose values are `data`."""
    times = float(query.times)
    if query.over is None:
        return base._replace(stddevs=base.stddevs * times / float(plan.stream.population or 1))
    over = _of(plan, query.over, known)
    if over is None or _roots(plan, query.of) & _roots(plan, query.over):
        return None
    divisors = np.maximum(np.asarray(np.ma.getdata(denominators(plan, query, known[query.over])), np.float64), 1.0)
    spread = data / times * denominators(plan, query, over.stddevs)
    return Noise(times / divisors * np.hypot(base.stddevs, spread), laplace=False, own=base.own and over.own)


def _of_release(plan: Plan, release: ReleasePlan, steps: int) -> Noise | None:
    """Of noise that is new for every value, where it is published as it is."""
    laws = laws_of_steps(plan, release, steps) if publishes_true_and_noise(plan, release) else None
    new = isinstance(release, Scheduled) or (isinstance(release, MeasuredRelease) and release.mechanism.independent)
    if laws is None or not new:
        return None
    laplace = bool(laws) and isinstance(laws[0], DiscreteLaplace)
    return Noise(noise_stddevs(plan, release, steps)[:, None], laplace)


def _of_change(plan: Plan, made: MadeRelease, base: Noise, known: Mapping[str, NDArray[Any]]) -> Array:
    """Of 100 (x / median - 1)."""
    query = made.query
    assert isinstance(query, Change), "asked for changes only"
    under = next((one for one in plan.made if one.name == query.of), None)
    size, start = (1, 0) if under is None else (under.steps, under.first)
    every, begin, end = query.every // size, (query.first - start) // size, (query.last + 1 - start) // size
    values = np.asarray(np.ma.getdata(known[query.of]), np.float64)
    ratios = 1.0 + np.asarray(np.ma.getdata(known[made.name]), np.float64) / 100.0
    now = np.broadcast_to(base.stddevs, values.shape)
    found = np.empty(ratios.shape)
    for row in range(len(ratios)):
        place = end + row
        rows = np.arange(begin + (place - begin) % every, end, every)
        factor = median_variance(len(rows) - 1 + len(rows) % 2, laplace=base.laplace)
        medians = np.maximum(np.median(values[rows], axis=0), 1.0)
        spread = np.sqrt(factor * (now[rows] ** 2).mean(axis=0))
        found[row] = 100.0 / medians * np.hypot(now[place], ratios[row] * spread)
    return found


@lru_cache(maxsize=64)
def median_variance(draws: int, *, laplace: bool) -> float:
    """The variance of the median of an odd number of draws, in that of one draw; of an even number it is less."""
    from scipy.special import ndtri

    u = (np.arange(POINTS) + 0.5) / POINTS
    tails = np.minimum(u, 1 - u)
    squares = np.log(2 * tails) ** 2 / 2 if laplace else ndtri(tails) ** 2
    half = draws // 2
    logs = half * np.log(u * (1 - u))
    weights = np.exp(logs - logs.max())
    return float(squares @ weights / weights.sum())


def _roots(plan: Plan, name: str) -> set[str]:
    """The releases whose noise is in the values of one."""
    made = next((one for one in plan.made if one.name == name), None)
    if made is not None:
        over = getattr(made.query, "over", None)
        return _roots(plan, made.query.of) | (set() if over is None else _roots(plan, over))
    query = plan.release_named(name).query
    return _roots(plan, query.of) if plan.release_named(name).mechanism.accounting == "none" else {name}  # type: ignore[union-attr]  # of a derived one
