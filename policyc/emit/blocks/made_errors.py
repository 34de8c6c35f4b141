"""How far off it is expected to be what is made of released values, as the certificate says it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from policyc.emit.blocks.accuracy import dropped, typical_error, unit_words
from policyc.emit.blocks.wording import Json, JsonValue, chance, listed, quoted
from policyc.emit.numbers import about, exact, grouped
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_runtime.made_release import BlockTotal, Change, Quotient
from policyc_runtime.made_values import sources_of
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import DerivedRelease, MadeRelease, MeasuredRelease, ReleasePlan
from policyc_runtime.predicted_errors import PredictedError

GRID = 1500  # points at which laws of medians are added up
STATED = (10, 30, 100)  # times its own error, at which a ratio's is stated: its error is of first order there


def made_error(plan: Plan, made: MadeRelease) -> Json:
    """What is known of the error of one that is made of released values, before any data."""
    predicted, query = made.predicted, made.query
    if predicted is not None:
        typical = predicted.least + typical_error(plan, predicted.published)
        row: Json = {"typical": typical, "error": predicted.least + grouped(about(predicted.published))}
        return {"sentence": _sentence(plan, made, predicted) + _dropped(plan, made), "known": row, "stated": []}
    sentence = "How far off it is depends on how large values are, which the policy does not say."
    if isinstance(query, BlockTotal | PrefixQuery | WindowQuery):
        sentence = "How far off it is was not computed: errors of the steps that it adds up may depend on each other."
    if isinstance(query, PrefixQuery) and plan.stream.horizon is None:
        sentence = "How far off it is grows with the steps that it adds up, and the stream has no end."
    stated: list[JsonValue] = []
    if isinstance(query, Quotient) and query.over is not None:
        more, stated = _first_order(plan, query, query.over)
    elif isinstance(query, Change):
        more = _change(plan, made, query)
    else:
        more = ""
    return {"sentence": sentence + more + _dropped(plan, made), "known": None, "stated": stated}


def _sentence(plan: Plan, made: MadeRelease, predicted: PredictedError) -> str:
    size = f"{predicted.least}about {typical_error(plan, predicted.published)}{_unit(plan, made)}"
    if predicted.kind == "noise":
        return f"By its noise, a value is off by {size}; what post-processing gains is not known: {predicted.because}."
    what = "Before constraints, a value" if predicted.kind == "unconstrained" else "A published value"
    size = size.removeprefix("before constraints ")
    why = f": {predicted.because}" if predicted.because else ""
    stderr = ""
    if chance(predicted) and predicted.stderr is not None:
        share = about(100 * predicted.stderr / predicted.published, 2)
        stderr = f" (simulated; the error has a standard error of {share} %)"
    return f"{what} is expected to be off by {size}{stderr}{why}."


def _unit(plan: Plan, made: MadeRelease) -> str:
    if isinstance(made.query, Change):
        return " percentage points"
    if isinstance(made.query, Quotient):
        return ""
    return f" {unit_words(plan, plan.release_named(min(sources_of(plan, made.name))))}"


def _dropped(plan: Plan, made: MadeRelease) -> str:
    """That errors are of kept events, where some may be dropped."""
    sources = [plan.release_named(name) for name in sorted(sources_of(plan, made.name))]
    told = list(dict.fromkeys(dropped(plan, part) for part in sources if plan.drops_from(part)))
    return f" That is against the kept events: {listed(told)} are dropped, and no error tells of it." if told else ""


def _root(plan: Plan, name: str) -> float | None:
    """The root mean square error that is stated for a release, where it is of what is published."""
    known: dict[str, PredictedError | None] = {made.name: made.predicted for made in plan.made}
    known |= {release.name: release.predicted for release in plan.releases}
    predicted = known[name]
    if plan.objective != "mean_squared_error" or predicted is None or predicted.kind not in ("expected", "simulated"):
        return None
    return math.sqrt(predicted.published)


def _first_order(plan: Plan, query: Quotient, over: str) -> tuple[str, list[JsonValue]]:
    """The error of a ratio from those of its parts, and at stated denominators."""
    if _noises_of(plan, query.of) & _noises_of(plan, over):
        return " Both parts are made of the same values, so that their errors depend on each other.", []
    times = float(query.times)
    front = "" if times == 1 else f"{exact(query.times)} * "
    formula = f"{front}sqrt(a^2 + r^2 b^2) / B"
    words = (
        f" To first order, a quotient r of a value and a denominator B is off by `{formula}`, where a and b are the "
        f"errors of {quoted(query.of)} and {quoted(over)}, if these are independent of each other, as noises are"
    )
    first, second = _root(plan, query.of), _root(plan, over)
    if first is None or second is None:
        return f"{words}.", []
    words += f": a = {grouped(about(first))}, b = {grouped(about(second))}."
    stated: list[JsonValue] = []
    for size in STATED:
        denominator = float(about(size * second, 1))
        rows = {r: times * math.hypot(first, r * second) / denominator for r in (0, 1)}
        stated.append(
            {
                "denominator": grouped(about(denominator)),
                "error_at_ratio_0": grouped(about(rows[0])),
                "error_at_ratio_1": grouped(about(rows[1])),
            }
        )
    return words, stated


def _noises_of(plan: Plan, name: str) -> set[str]:
    """The names of the releases whose noise is in one: those that it is made of, through totals of noisy values too."""
    found = set()
    for source in sources_of(plan, name):
        part = plan.release_named(source)
        while isinstance(part, DerivedRelease):
            part = plan.release_named(part.query.of)
        found.add(part.name)
    return found


def _change(plan: Plan, made: MadeRelease, query: Change) -> str:
    """The error of a change from that of its values, the baseline's being that of a median of some."""
    count = (query.last + 1 - query.first) // made.steps // (query.every // made.steps)
    words = (
        " To first order, at a baseline B and a value of q B, it is off by {} `100 * sqrt(a^2 + q^2 m^2) / B` points, "
    )
    error, source = _root(plan, query.of), min(sources_of(plan, query.of))
    factor = _median_factor(made, plan.release_named(source), count) if error is not None else None
    if error is None:
        return (
            words.format("at most") + f"where a is the error of {quoted(query.of)} and m, that of a median, at most a."
        )
    if factor is None:
        return words.format("at most") + f"where a = {grouped(about(error))} and m is at most a."
    median = grouped(about(error * math.sqrt(factor)))
    return words.format("about") + f"where a = {grouped(about(error))} and m = {median}, of a median of {count} values."


def _median_factor(made: MadeRelease, part: ReleasePlan, count: int) -> float | None:
    """The variance of a median of so many values in that of one, for noise of its own at every step; None for other."""
    plain = isinstance(part, MeasuredRelease) and part.estimator.name == "none" and not part.constraints
    if not plain or part.mechanism.name not in ("gaussian", "laplace"):
        return None
    if part.mechanism.name == "laplace" and made.steps > 1:
        return None
    return _variance_of_median(count, laplace=part.mechanism.name == "laplace")


@cache
def _variance_of_median(count: int, *, laplace: bool) -> float:
    """Of so many independent draws of variance 1, by the order statistics of even draws."""
    from scipy.special import ndtri

    points = (np.arange(GRID) + 0.5) / GRID
    values = ndtri(points)
    if laplace:
        values = np.where(points < 0.5, np.log(2 * points), -np.log(2 - 2 * points)) / math.sqrt(2)
    below = (count - 1) // 2
    logs = below * np.log(points), below * np.log1p(-points)
    if count % 2:
        weights = np.exp(logs[0] + logs[1] - (logs[0] + logs[1]).max())
        return float((weights * values**2).sum() / weights.sum())
    joint = np.exp(logs[0] - logs[0].max())[:, None] * np.exp(logs[1] - logs[1].max())[None, :]
    joint = np.triu(joint)
    return float((joint * (0.5 * (values[:, None] + values[None, :])) ** 2).sum() / joint.sum())
