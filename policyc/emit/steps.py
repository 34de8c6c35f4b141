"""One row a step: budget, noise, leakage and expected error. Shown by `policyc show`, attached to the certificate."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from policyc.emit.accounting import ENDLESS_STRETCH, Accounting
from policyc.emit.numbers import round_up
from policyc_runtime.noisy_values import noise_stddevs
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, ReleasePlan


@dataclass(frozen=True)
class StepTable:
    """One row a step, by column.

    `t` counts from 0, like `step` in released files. `epsilon` and `scale` are the plan's exact decimals; leakages are
    the largest over all groups, in nats; `expected_error` is in the objective's unit, and called `error_at_least`,
    `error_before_constraints` or `noise_error` where the plan knows no more than that, and `mean_...` where it knows
    their mean over all steps alone. With several releases `epsilon`
    is their sum, and each release has columns of its own, `epsilon:NAME`, `scale:NAME` and `expected_error:NAME`.
    """

    columns: dict[str, Sequence[object]]

    @property
    def length(self) -> int:
        """Number of steps shown."""
        return len(self.columns["t"])


def step_rows(plan: Plan) -> StepTable:
    """The table of a plan's steps (of an endless stream: a stretch from its start)."""
    if not plan.scheduled:
        return _stream_rows(plan)
    accounting = Accounting(plan)
    steps, leakage = accounting.steps, accounting.leakage
    texts = {release.name: _texts(release.schedule.epsilons(steps)) for release in plan.scheduled}
    single = len(plan.scheduled) == 1
    first = plan.scheduled[0]
    columns: dict[str, Sequence[object]] = {"t": range(steps)}
    columns["epsilon"] = texts[first.name] if single else _sums(plan, steps)
    if single:
        columns["scale"] = _texts(first.schedule.scales(steps))
    columns["backward_leakage"] = leakage.backward.tolist()
    columns["forward_leakage"] = leakage.forward.tolist()
    columns["total_leakage"] = leakage.total.tolist()
    if single:
        columns[_error_name(first)] = first.schedule.column("expected_errors", steps)
        return StepTable(columns)
    for release in plan.scheduled:
        columns[f"epsilon:{release.name}"] = texts[release.name]
        columns[f"scale:{release.name}"] = _texts(release.schedule.scales(steps))
        columns[f"{_error_name(release)}:{release.name}"] = release.schedule.column("expected_errors", steps)
    return StepTable(columns)


def _stream_rows(plan: Plan) -> StepTable:
    """The table where noise is accounted for the whole stream: its standard deviation and the expected error."""
    steps = plan.stream.horizon or ENDLESS_STRETCH
    columns: dict[str, Sequence[object]] = {"t": range(steps)}
    for release in plan.releases:
        suffix = f":{release.name}" if len(plan.releases) > 1 else ""
        columns[f"stddev{suffix}"] = [
            "" if math.isnan(value) else value for value in noise_stddevs(plan, release, steps).tolist()
        ]
        columns[f"{_error_name(release)}{suffix}"] = release.errors(steps)
    return StepTable(columns)


def _error_name(release: ReleasePlan) -> str:
    """What the errors of a release are, as a column."""
    names = {"at_least": "error_at_least", "noise": "noise_error", "unconstrained": "error_before_constraints"}
    name = names.get(release.predicted.kind, "expected_error")
    return f"mean_{name}" if isinstance(release, AdaptiveRelease) else name


def _texts(values: list[Decimal]) -> list[str]:
    return [f"{value:f}" for value in values]


def _sums(plan: Plan, steps: int) -> list[str]:
    known: dict[tuple[Decimal, ...], str] = {}
    rows = zip(*(release.schedule.epsilons(steps) for release in plan.scheduled), strict=True)
    texts = []
    for row in rows:
        if row not in known:
            known[row] = round_up(sum(map(Fraction, row), Fraction(0)), digits=40)
        texts.append(known[row])
    return texts


def render_steps(table: StepTable, format: Literal["table", "csv", "json"]) -> str:  # noqa: A002  the option's name
    """The table as aligned text, CSV or JSON (a list of objects). CSV and JSON read back exactly."""
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
    cells = [names, *([_short(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    aligned = ("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(aligned) + "\n"


def _short(value: object) -> str:
    return f"{value:.9f}" if isinstance(value, float) else str(value)
