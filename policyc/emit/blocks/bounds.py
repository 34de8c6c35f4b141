"""What the plan promises for other units of privacy, so that nobody has to guess: one event, a window, a whole stream."""

from __future__ import annotations

import numpy as np
from policyc_runtime.plan import ChainRecord, Plan
from policyc_runtime.privacy import supremum, window_leakage
from policyc_runtime.verify import total_budgets

from policyc.emit.blocks.wording import JsonValue, span
from policyc.emit.numbers import counted, exact, round_up
from policyc.emit.steps import Array, shown_steps

WINDOWS = (1, 2, 7, 24)


def implied_bounds(plan: Plan) -> list[JsonValue]:
    """Block J. Each entry is a bound in nats, with its unit, adversary and time span."""
    scope = span(plan)
    entries: list[JsonValue] = [
        {
            "unit_of_privacy": "one event, one step",
            "adversary": "takes steps as independent",
            "value": exact(plan.claims.largest_budget),
            "unit": "nats",
            "time_scope": scope,
            "from": "the largest budget of a step",
        }
    ]
    entries += _windows(plan)
    total = plan.claims.budget_sum
    entries.append(
        {
            "unit_of_privacy": "all events of one user",
            "adversary": "knows any correlation whatever",
            "value": None if total is None else exact(total),
            "unit": "nats",
            "time_scope": scope,
            "from": "the sum of all budgets (user level, pure differential privacy)",
        }
    )
    return entries


def _windows(plan: Plan) -> list[JsonValue]:
    budgets = total_budgets(plan, shown_steps(plan))
    chains = plan.correlation.chains
    entries: list[JsonValue] = []
    for width in WINDOWS:
        if width >= len(budgets):
            break
        steps = "any one step" if width == 1 else f"any {counted(width, 'step')} in a row"
        unit = f"all events of one user in {steps}"
        if width > 1:
            plain = float(np.max(window_leakage(budgets, None, None, width)))
            entries.append(_entry(plan, unit, "takes steps as independent", plain, "the largest sum of budgets in a window"))
        if chains:
            largest = max(_largest_window(plan, record, budgets, width) for record in chains)
            who = "knows exactly the stated chain" + ("s" if len(chains) > 1 else "")
            entries.append(_entry(plan, unit, who, largest, "the window's budgets, and what leaks into it from both sides"))
    return entries


def _largest_window(plan: Plan, record: ChainRecord, budgets: Array, width: int) -> float:
    """The largest leakage about `width` steps in a row, nats; in an endless stream both sides are at their supremum."""
    past, future = record.chain().backward_side(), record.chain().forward_side()
    if plan.stream.horizon is not None:
        return float(np.max(window_leakage(budgets, past, future, width, record.lags)))
    epsilon = float(budgets[0])
    return supremum(epsilon, past, record.lags) + supremum(epsilon, future, record.lags) + (width - 2) * epsilon


def _entry(plan: Plan, unit: str, adversary: str, value: float, source: str) -> JsonValue:
    return {
        "unit_of_privacy": unit,
        "adversary": adversary,
        "value": round_up(value),
        "unit": "nats",
        "time_scope": span(plan),
        "from": source,
    }
