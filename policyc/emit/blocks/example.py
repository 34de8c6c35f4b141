"""A run of the plan on simulated values: what a reader will see, and how far it is from the truth. Not a release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policyc.emit.blocks.wording import Json, JsonValue, quoted, steps_axis
from policyc.emit.numbers import about, exact, sentence_case
from policyc_check.errors import KernelError
from policyc_check.plan.targets import UserPromise
from policyc_check.users.claims import unit_of
from policyc_runtime.estimation.kalman import MOST_TOGETHER, PosteriorMean
from policyc_runtime.estimation.plain_series import PlainSeries
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.published_values import NOT_A_RELEASE

SHOWN = 60  # steps that are drawn
ANOTHER_MACHINE = 1e-3  # relative: far more than rounding does, far less than anybody sees
MOST_SERIES = 64  # that an estimator takes one after the other
SEED = 0  # the same picture from the same plan; nothing real is ever drawn with it


def example_picture(plan: Plan) -> Json | None:
    """One cell of the first release over the first steps: true, noisy, published; None where nothing fits."""
    if any(_takes_long(part) for part in plan.releases):
        return None
    try:
        result = simulate(plan, SEED, 1, [], steps=SHOWN)
    except KernelError:
        return None
    part = plan.releases[0]
    made = result.example.series[part.name]
    step = exact(unit_of(plan, part)) if any(isinstance(target, UserPromise) for target in plan.targets) else "1"
    cell = f", {part.query.by} {part.cells[0]}" if part.query.by is not None else ""
    shown = slice(0, SHOWN)
    noisy = np.where(made.skipped, np.nan, _with_gaps(made.noisy[:, 0]))[shown]
    columns = {
        "true": np.asarray(result.truth[part.name][shown, 0], dtype=np.float64),
        "noisy": noisy,
        "published": _with_gaps(made.released[shown, 0]),
    }
    if np.array_equal(columns["noisy"], columns["published"], equal_nan=True):
        del columns["noisy"]
    gaps: Json = {"gaps": True} if np.ma.is_masked(made.released) else {}
    values = np.concatenate(list(columns.values()))
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    said = [sentence_case(one) for one in result.said]
    if step != "1":
        said.append(f"Values are in multiples of {quoted(step)}")
    return {
        "id": "example",
        "title": f"An example on simulated values, {NOT_A_RELEASE}: {part.name}{cell}",
        "description": f"True and published values, and noisy ones where they differ, of the "
        f"first {len(noisy)} steps of a simulated run{', with gaps where they are left out' if gaps else ''}. "
        f"{'. '.join(said)}.",
        **steps_axis(plan),
        "y": "value",
        "stepped": False,
        "level": None,
        "low": about(low - 0.08 * (high - low), 3) if low > 0.3 * high else about(min(0.0, low), 3),
        "series": [
            {"name": name, "points": _points(column), **(gaps if name != "true" else {})}
            for name, column in columns.items()
            if not np.isnan(column).all()
        ],
    }


def _takes_long(part: ReleasePlan) -> bool:
    """Whether an estimator would take minutes, for a picture of one cell."""
    many = isinstance(part.estimator, PosteriorMean) and len(part.cells) > MOST_TOGETHER
    return many or (isinstance(part.estimator, PlainSeries) and len(part.cells) > MOST_SERIES)


def same_example(recorded: JsonValue, drawn: JsonValue) -> bool:
    """Whether a picture is the one that was drawn, but for the last digits of another machine's arithmetic.

    Estimators that learn stop their search where rounding lets them; what they publish agrees to fewer digits than a
    picture shows.
    """
    if isinstance(recorded, dict) and isinstance(drawn, dict):
        return recorded.keys() == drawn.keys() and all(same_example(recorded[key], drawn[key]) for key in drawn)
    if isinstance(recorded, list) and isinstance(drawn, list):
        return len(recorded) == len(drawn) and all(map(same_example, recorded, drawn))
    if recorded == drawn or not isinstance(recorded, str) or not isinstance(drawn, str):
        return recorded == drawn
    try:
        return math.isclose(float(recorded), float(drawn), rel_tol=ANOTHER_MACHINE)
    except ValueError:
        return False


def _with_gaps(values: NDArray[Any]) -> NDArray[np.float64]:
    """Values as numbers, NaN where they are left out."""
    return np.ma.filled(values.astype(np.float64), np.nan)


def _points(values: NDArray[np.float64]) -> list[JsonValue]:
    return [[str(step), about(float(value), 5)] for step, value in enumerate(values) if not np.isnan(value)]
