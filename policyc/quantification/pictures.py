"""Pictures of a leakage: over steps, over windows, and over how long the release went on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from policyc.emit.numbers import plain, round_up
from policyc.emit.pictures import thinned
from policyc.quantification.report import HEADS, Report


def pictures(report: Report) -> list[dict[str, Any]]:
    """Leakage over steps, over windows and over horizons."""
    return [picture for picture in (_over_steps(report), _over_windows(report), _over_horizons(report)) if picture]


def _over_steps(report: Report) -> dict[str, Any] | None:
    found = report.found
    names = {"both": "total (TPL)", "backward": "backward (BPL)", "forward": "forward (FPL)", "none": "budget"}
    shown = {a: report.columns[a] for a in reversed(report.knows) if np.isfinite(report.columns[a]).all()}
    if not shown:
        return None
    first = found.spent.first
    series = [
        {"name": names[a], "points": [[str(first + t), round_up(float(c[t]))] for t in thinned(c).tolist()]}
        for a, c in shown.items()
    ]
    return _picture(
        report, "steps", "Leakage about each step", "step", series, "Upper bounds in nats at each step, and its budget."
    )


def _over_windows(report: Report) -> dict[str, Any] | None:
    found = report.found
    if len(found.widths) < 2:
        return None
    return _by_adversary(report,
        "windows", "Leakage about several steps in a row", "steps in a row",
        {w: {a: found.window(a, w).nats for a in report.knows} for w in found.widths},
        "Upper bounds in nats of all that one person does in so many steps in a row.",
    )  # fmt: skip


def _over_horizons(report: Report) -> dict[str, Any] | None:
    if len(report.found.horizons) < 2:
        return None
    return _by_adversary(report,
        "horizons", "Leakage about one step, over how long the release went on", "steps released",
        report.found.horizons,
        "Upper bounds in nats about the step that leaks most, had the release ended after so many steps.",
    )  # fmt: skip


def _by_adversary(report: Report, name: str, title: str, x: str, values: Any, described: str) -> dict[str, Any] | None:
    shown = [a for a in reversed(report.knows) if all(math.isfinite(of[a]) for of in values.values())]
    series = [{"name": HEADS[a], "points": [[str(at), round_up(of[a])] for at, of in values.items()]} for a in shown]
    return _picture(report, name, title, x, series, described) if series else None


def _picture(report: Report, name: str, title: str, x: str, series: Any, described: str) -> dict[str, Any]:
    level = None if report.alpha is None else {"name": f"alpha {plain(report.alpha)}", "value": str(report.alpha)}
    return {
        "id": name, "title": title, "description": described, "x": x, "y": "nats", "stepped": False,
        "level": level, "series": series,
    }  # fmt: skip
