"""What the plan promises for other units of privacy, so that nobody has to guess: a step, a window, a whole stream."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np

from policyc.emit.accounting import Accounting
from policyc.emit.blocks.wording import Json, JsonValue, span
from policyc.emit.numbers import counted, round_up
from policyc.planning.leakage.recursion import supremum
from policyc.planning.leakage.settled_runs import largest_leakage
from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.targets import window_of
from policyc_check.steps.budgets import LARGEST_HORIZON, window_budget

WINDOWS = (1, 2, 7, 24)


def implied_bounds(accounting: Accounting) -> Json:
    """Block J: upper bounds in nats for all that one user does in a window, against three kinds of adversaries."""
    plan = accounting.plan
    total = plan.claims.budget_sum
    promised = set(map(window_of, plan.targets))
    longest = plan.stream.horizon or LARGEST_HORIZON
    rows = [_window(accounting, width) for width in sorted({*WINDOWS, *promised}) if width < longest]
    whole = _bound(total)
    rows.append(_row("all steps", "all", whole, whole if plan.correlation.chains else None, whole))
    return {
        "unit": "nats",
        "unit_of_privacy": "everything that one user does in the steps named",
        "time_scope": span(plan),
        "adversaries": _adversaries(len(plan.correlation.chains)),
        "rows": rows,
        "from": (
            "Steps taken as independent: the largest sum of budgets in a window. With the chain: that, and what leaks "
            "into the window from both sides. Any correlation: the sum of all budgets, which is pure differential "
            "privacy for a user."
        ),
    }


def _adversaries(chains: int) -> list[JsonValue]:
    """The columns of the table, weakest adversary first."""
    stated = f"knows exactly the stated chain{'s' if chains > 1 else ''}"
    known: list[JsonValue] = [{"key": "chain", "words": stated}] if chains else []
    return [
        {"key": "independent", "words": "takes steps as independent"},
        *known,
        {"key": "any", "words": "knows any correlation whatever"},
    ]


def _window(accounting: Accounting, width: int) -> JsonValue:
    plan = accounting.plan
    independent = window_budget(plan, width)
    chained = [_least_known(accounting, record, width) for record in plan.correlation.chains]
    words = "any one step" if width == 1 else f"any {counted(width, 'step')} in a row"
    largest = _bound(max(chained)) if chained else None
    return _row(words, str(width), _bound(independent), largest, _bound(plan.claims.budget_sum))


def _row(words: str, steps: str, independent: str, chain: str | None, whatever: str) -> JsonValue:
    return {"words": words, "steps": steps, "independent": independent, "chain": chain, "any": whatever}


def _bound(value: float | Decimal | Fraction | None) -> str:
    return "no limit" if value is None else round_up(value)


def _least_known(accounting: Accounting, record: ChainRecord, width: int) -> float:
    pairs = accounting.by_pairs(record)
    known = _largest_window(accounting, record, width)
    return known if pairs is None else min(known, pairs.largest(width)[0])


def _largest_window(accounting: Accounting, record: ChainRecord, width: int) -> float:
    """The largest leakage about `width` steps in a row, nats; in an endless stream both sides are at their supremum."""
    past, future = accounting.sides(record)
    if accounting.plan.stream.horizon is not None:
        return largest_leakage(accounting.budgets, past, future, width, record.lags)
    if accounting.repeats:
        before, after = accounting.inherited(record)
        period = len(before)
        within = [np.resize(np.roll(accounting.repeats, -t), width).sum() for t in range(period)]
        return max(float(before[t] + within[t] + after[(t + width - 1) % period]) for t in range(period))
    epsilon = float(accounting.budgets[0])
    return supremum(epsilon, past, record.lags) + supremum(epsilon, future, record.lags) + (width - 2) * epsilon
