"""The report for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from policyc.quantification.meaning import meaning
from policyc_check.rounding import rounded_up

if TYPE_CHECKING:
    from policyc.quantification.leakage import ChainLeakage, Floats
    from policyc.quantification.report import Report


def record(report: Report) -> dict[str, Any]:
    """For programs: nats as floats, rounded up; null where no bound is known or none was computed."""
    found = report.found
    spent = found.spent

    def chain(one: ChainLeakage) -> dict[str, Any]:
        of_step = {a: _largest(one.at_step(a)) for a in report.knows}
        limits = None if one.limits is None else {a: _finite(one.limits[a]) for a in report.knows}
        return {"name": one.name, "lags": list(one.lags), "about_one_step": of_step, "if_budgets_go_on": limits}

    tolerance = None
    if report.alpha is not None:
        tolerance = {"alpha": str(report.alpha), "kept": not report.exceeded, "steps_kept": report.kept or None}
    return {
        "format": "policyc-leakage",
        "version": 1,
        "unit": "nats, rounded up; null: no bound is known",
        "budgets": {"source": spent.source, "steps": len(spent.budgets), "endless": spent.endless,
                    "in_all": None if (whole := found.spent_in_all) is None else rounded_up(whole)},
        "chains": {"source": found.knowledge.source, "count": len(found.chains)},
        "meaning": meaning(report),
        "tolerance": tolerance,
        "windows": [{"steps": w, **{a: _largest(found.window(a, w)) for a in report.knows}} for w in found.widths],
        "horizons": [{"steps": n, **{a: _finite(by[a]) for a in report.knows}} for n, by in found.horizons.items()],
        "if_budgets_go_on": {a: None if (b := found.limit(a)) is None else _finite(b) for a in report.knows},
        "budgets_that_repeat": found.pattern or None,
        "of_each_chain": [chain(one) for one in found.chains],
        "steps": {
            "first": spent.first,
            "epsilon": found.budgets.tolist(),
            "backward_leakage": _list(found.backward),
            "forward_leakage": _list(found.forward),
            "total_leakage": _list(found.total),
        },
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _largest(found: Any) -> dict[str, Any]:
    return {"nats": _finite(found.nats), "step": found.step}


def _list(values: Floats) -> list[float | None]:
    return values.tolist() if np.isfinite(values).all() else [_finite(value) for value in values.tolist()]
