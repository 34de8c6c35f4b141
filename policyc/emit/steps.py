"""One row a step: budget, noise, leakage and expected error. Shown by `policyc show`, attached to the certificate."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from policyc.emit.accounting import ENDLESS_STRETCH, Accounting, Array
from policyc.emit.numbers import round_up
from policyc.planning.leakage.repeats import patterns
from policyc_check.runs import Runs
from policyc_runtime.noisy_values import follows_results, noise_stddevs
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan

LONG = 10_000  # steps


@dataclass(frozen=True)
class StepTable:
    """One row a step, by column.

    `t` counts from 0, like `step` in released files. `epsilon` and `scale` are the plan's exact decimals; leakages are
    the largest over all groups, in nats; `expected_error` is in the objective's unit, and called `error_at_least`,
    `error_before_constraints` or `noise_error` where the plan knows no more than that, and `mean_...` where it knows
    their mean over all steps alone: there the noise follows from earlier results, and has no column. With several
    releases `epsilon` is their sum, and each has columns of its own, `epsilon:NAME`, `scale:NAME`,
    `expected_error:NAME`.
    Of a stream of more than 10,000 steps a row may stand for several: for `t` and every `every`-th step after it, up to
    and including `until`. `squared` names the columns of squared errors.
    """

    columns: dict[str, Sequence[object]]
    squared: frozenset[str] = frozenset()

    @property
    def length(self) -> int:
        """Number of steps shown."""
        return len(self.columns["t"])


def step_rows(plan: Plan, accounting: Accounting | None = None) -> StepTable:
    """The table of a plan's steps (of an endless stream: a stretch from its start), by an accounting that is there."""
    columns = _budgeted_rows(accounting or Accounting(plan)) if plan.scheduled else _stream_rows(plan)
    errors = {name for name in columns if "error" in name.partition(":")[0]}
    return StepTable(columns, frozenset(errors if plan.objective == "mean_squared_error" else ()))


def _budgeted_rows(accounting: Accounting) -> dict[str, Sequence[object]]:
    """The columns where steps have budgets."""
    plan, leakage = accounting.plan, accounting.leakage
    leakages = {f"{name}_leakage": getattr(leakage, name) for name in ("backward", "forward", "total")}
    columns, at = _places(accounting.steps, leakages.values(), [release.schedule.runs for release in plan.scheduled])
    single = len(plan.scheduled) == 1
    first = plan.scheduled[0]
    columns["epsilon"] = _texts(first.schedule.epsilons(at)) if single else _sums(plan, at)
    if single and not follows_results(plan, first):
        columns["scale"] = _texts(first.schedule.scales(at))
    columns |= {name: column[at].tolist() for name, column in leakages.items()}
    if single:
        columns[_error_name(plan, first)] = first.schedule.column("expected_errors", at)
        return columns
    for release in plan.scheduled:
        columns[f"epsilon:{release.name}"] = _texts(release.schedule.epsilons(at))
        if not follows_results(plan, release):
            columns[f"scale:{release.name}"] = _texts(release.schedule.scales(at))
        columns[f"{_error_name(plan, release)}:{release.name}"] = release.schedule.column("expected_errors", at)
    return columns


def _stream_rows(plan: Plan) -> dict[str, Sequence[object]]:
    """The columns where noise is accounted for the whole stream: its standard deviation and the expected error."""
    steps = plan.stream.horizon or ENDLESS_STRETCH
    numbers: dict[str, Array] = {}
    for release in plan.releases:
        suffix = f":{release.name}" if len(plan.releases) > 1 else ""
        if not follows_results(plan, release):
            numbers[f"stddev{suffix}"] = noise_stddevs(plan, release, steps)
        numbers[f"{_error_name(plan, release)}{suffix}"] = np.array(release.errors(steps), dtype=np.float64)
    columns, at = _places(steps, numbers.values())
    for name, column in numbers.items():
        columns[name] = ["" if math.isnan(value) else value for value in column[at].tolist()]
    return columns


def _places(
    steps: int, numbers: Iterable[Array], runs: Sequence[Runs] = ()
) -> tuple[dict[str, Sequence[object]], NDArray[np.int64]]:
    """The first columns, and the steps that have a row: of a long stream the first period of what repeats."""
    if steps <= LONG:
        return {"t": range(steps)}, np.arange(steps)
    told = [*runs, *(Runs(patterns(np.nan_to_num(column, nan=-1.0))) for column in numbers)]
    ends = np.unique(np.concatenate([column.ends for column in told]))
    rows: list[tuple[int, int, int]] = []
    for begin, end in pairwise([0, *ends[ends < steps].tolist(), steps]):
        period = math.lcm(*(int(column.periods[np.searchsorted(column.ends, begin, side="right")]) for column in told))
        last = ((t, end - 1 - (end - 1 - t) % period) for t in range(begin, min(begin + period, end)))
        rows += [(t, period if until > t else 1, until) for t, until in last]
    t, every, until = zip(*rows, strict=True)
    return {"t": t, "every": every, "until": until}, np.array(t)


def _error_name(plan: Plan, release: ReleasePlan) -> str:
    """What the errors of a release are, as a column."""
    names = {"at_least": "error_at_least", "noise": "noise_error", "unconstrained": "error_before_constraints"}
    name = names.get(release.predicted.kind, "expected_error")
    return f"mean_{name}" if follows_results(plan, release) else name


def _texts(values: list[Decimal]) -> list[str]:
    return [f"{value:f}" for value in values]


def _sums(plan: Plan, at: NDArray[np.int64]) -> list[str]:
    known: dict[tuple[Decimal, ...], str] = {}
    rows = zip(*(release.schedule.epsilons(at) for release in plan.scheduled), strict=True)
    texts = []
    for row in rows:
        if row not in known:
            known[row] = round_up(sum(map(Fraction, row), Fraction(0)), digits=40)
        texts.append(known[row])
    return texts


def render_steps(table: StepTable, format: Literal["table", "csv", "json"]) -> str:  # noqa: A002  the option's name
    """The table as aligned text, CSV or JSON (a list of objects). CSV and JSON read back exactly.

    People read the root of a squared error before it.
    """
    names = list(table.columns)
    rows = zip(*table.columns.values(), strict=True)
    if format == "csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
        return buffer.getvalue()
    if format == "json":
        lines = ",\n ".join(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows)
        return f"[\n {lines}\n]\n"
    shown: dict[str, Iterable[str]] = {}
    for name, column in table.columns.items():
        if name in table.squared:
            roots = (math.sqrt(value) if isinstance(value, float) else value for value in column)
            shown["typical_" + name.removeprefix("expected_")] = map(_short, roots)
        shown[name + " (squared)" if name in table.squared else name] = map(_short, column)
    names = list(shown)
    cells = [names, *zip(*shown.values(), strict=True)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    aligned = ("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(aligned) + "\n"


def _short(value: object) -> str:
    return f"{value:.9f}" if isinstance(value, float) else str(value)
