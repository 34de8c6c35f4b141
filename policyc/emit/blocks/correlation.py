"""How users are assumed to move, how leakage grows with the stream, and how much a wrong chain would cost."""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal

import numpy as np

from policyc.emit.accounting import Accounting
from policyc.emit.blocks.wording import Json, JsonValue, group_name, span
from policyc.emit.numbers import counted, exact, round_up
from policyc.planning.leakage.gaps import MANY
from policyc.planning.leakage.inheritance import settled_leakage
from policyc.planning.leakage.recursion import supremum
from policyc_check.errors import KernelError
from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.plan import canonical_json
from policyc_check.records import Matrix
from policyc_runtime.consistency import reversal_gap
from policyc_runtime.plan import Plan

LARGEST_INLINE_CHAIN = 20
TOLERANCES = (Decimal("0.001"), Decimal("0.01"), Decimal("0.05"))
MOST_TOLD = 4  # nats, of hundreds of states: to know by how much more an endless stream tells takes as long as a plan
GROWTH_STEPS = (1, 10, 100, 1_000, 10_000)


def correlation(accounting: Accounting) -> Json:
    """Block D."""
    plan = accounting.plan
    if not plan.correlation.chains:
        return {
            "kind": "none",
            "chains": [],
            "growth": [],
            "tolerance": [],
            "evidence": plan.correlation.evidence,
            "words": "Steps of one user are taken as independent: total leakage of a step is its own budget.",
            **_independent(plan),
        }
    return {
        "kind": "markov",
        "words": (
            "A chain says how one user moves from step to step. What is published before and after a step tells "
            "something "
            "of that step through the chain; leakage counts it."
        ),
        **_independent(plan),
        "chains": [_chain(accounting, record) for record in plan.correlation.chains],
        "about": "one step" if accounting.width == 1 else f"any {counted(accounting.width, 'step')} in a row",
        "growth": growth(accounting),
        "tolerance": tolerance(accounting),
    }


def _independent(plan: Plan) -> Json:
    """Groups without a chain, where there are any."""
    groups = plan.correlation.independent
    if not groups:
        return {}
    words = (
        "Their steps are taken to tell nothing of each other, wherever they are: what leaks about a step is its "
        "budget, about a window what its steps spend. With the same budgets a chain never leaks less."
    )
    found: list[JsonValue] = [{"name": group_name(group), "evidence": group.evidence} for group in groups]
    return {"independent": {"words": words, "groups": found}}


def _chain(accounting: Accounting, record: ChainRecord) -> Json:
    plan = accounting.plan
    chain = record.chain()
    stated = [
        name for name, matrix in (("forward", record.forward), ("backward", record.backward)) if matrix is not None
    ]
    return {
        "group": record.group,
        "name": group_name(record),
        "states": [*plan.stream.cell.states] if plan.stream.cell else [],
        "forward": _matrix(record.forward),
        "backward": _matrix(record.backward),
        "initial": record.initial
        if isinstance(record.initial, str) or record.initial is None
        else [*map(exact, record.initial)],
        "evidence": record.evidence,
        **({} if record.share is None else {"share": exact(record.share)}),
        **({} if record.amounts is None else {"amounts": AMOUNTS}),
        "stated": list(stated),
        "reversal": _reversal(record),
        "settled": chain.is_stationary_start,
        "lags": [str(lag) for lag in record.lags],
        "lags_words": PAIRS if accounting.by_pairs(record) else _lags_words(record),
        "supremum": _supremum(accounting, record),
    }


def _matrix(matrix: Matrix | None) -> Json | None:
    if matrix is None:
        return None
    rows = [[exact(value) for value in row] for row in matrix]
    content: Json = {"states": str(len(rows)), "sha256": hashlib.sha256(canonical_json(rows)).hexdigest()}
    if len(rows) <= LARGEST_INLINE_CHAIN:
        content["rows"] = [[*row] for row in rows]
    return content


def _reversal(record: ChainRecord) -> str:
    """What is known of the other direction of time; a check that did not run is not claimed."""
    if record.forward is None or record.backward is None:
        given, other = ("backward", "forward") if record.forward is None else ("forward", "backward")
        if record.initial is None:
            return f"only the {given} matrix is stated; leakage in the other direction is not counted"
        start = "the stationary law" if record.initial == "stationary" else "the stated law of the first step"
        return f"the {other} matrix is derived from the {given} one by Bayes' rule, from {start}"
    largest = reversal_gap(record) or 0.0
    return (
        "both matrices are stated; leakage is computed from the forward one and its Bayes reversal, from which the "
        f"backward one differs by at most {round_up(largest, 3)}"
    )


AMOUNTS = "that of an event depends on its cell, and on nothing else of the user or of other steps"
PAIRS = (
    "every ordered pair of states by itself, through all steps before and after: what the worst outputs of all of them "
    "tell together, not more, where noise can show every set of cells"
)


def _lags_words(record: ChainRecord) -> str:
    if record.lags == (1,):
        return "one step at a time (CAO17)"
    return (
        f"the least of the bounds through the chain's powers {', '.join(map(str, record.lags))}: the last k results "
        "are worth "
        "at most the sum of their budgets, and the state k steps back is tied to today's by the k-th power"
    )


def _supremum(accounting: Accounting, record: ChainRecord) -> Json:
    """Where leakage would settle if the largest constant stretch of the schedule went on for ever."""
    if not (accounting.budgets > 0).all():
        return _supremum_of_pattern(accounting, record)
    epsilon = _lasting_budget(accounting)
    words = "if the longest stretch of equal budgets went on for ever"
    total = sum(supremum(epsilon, side, record.lags) for side in accounting.sides(record)) - epsilon
    pairs = accounting.by_pairs(record)
    if pairs is not None and pairs.both is not None:
        total = min(total, float(pairs.both.max()) + epsilon)
    if not np.isfinite(total):
        return {"value": None, "words": f"none: total leakage would grow without limit {words}"}
    return {"value": round_up(float(total)), "unit": "nats", "epsilon": round_up(epsilon), "words": words}


def _supremum_of_pattern(accounting: Accounting, record: ChainRecord) -> Json:
    """The same for schedules with steps that release nothing: of the longest stretch that repeats one pattern."""
    segments = [segment for release in accounting.plan.scheduled for segment in release.schedule.segments]
    longest = max(segments, key=lambda segment: (segment.repeats or math.inf) * len(segment.epsilons))
    pattern = [float(epsilon) for epsilon in longest.epsilons]
    words = "if the longest stretch of repeating budgets went on for ever"
    try:
        most = MOST_TOLD if record.chain().states >= MANY else math.inf
        total = settled_leakage(pattern, accounting.sides(record), record.lags, most)
    except KernelError:
        return {"value": None, "words": "not computed: the law of where users are is not seen to settle"}
    if not np.isfinite(total):
        return {"value": None, "words": f"none: total leakage would grow without limit {words}"}
    if total > most:
        return {"value": None, "words": f"more than {most:g} nats by these bounds {words}"}
    return {"value": round_up(float(total)), "unit": "nats", "epsilon": round_up(max(pattern)), "words": words}


def _lasting_budget(accounting: Accounting) -> float:
    budgets = accounting.budgets
    changes = np.flatnonzero(np.diff(budgets)) + 1
    edges = np.concatenate(([0], changes, [len(budgets)]))
    return float(budgets[edges[np.argmax(np.diff(edges))]])


def growth(accounting: Accounting) -> list[JsonValue]:
    """The largest total leakage if the stream ended after t steps, for a few t up to the horizon."""
    horizon = accounting.plan.stream.horizon
    if horizon is None:
        return []
    ends = sorted({t for t in GROWTH_STEPS if t < horizon} | {horizon})
    return [
        {
            "steps": str(t),
            "words": counted(t, "step"),
            "total_leakage": round_up(accounting.largest_leakage(t)),
            "unit": "nats",
        }
        for t in ends
    ]


def tolerance(accounting: Accounting) -> list[JsonValue]:
    """Total leakage when every row of a chain is known only within total variation rho; the sum of budgets caps it."""
    return [_tolerated(accounting, rho) for rho in TOLERANCES]


def _tolerated(accounting: Accounting, rho: Decimal) -> Json:
    whole_stream = accounting.plan.claims.budget_sum
    most = np.inf if whole_stream is None else float(whole_stream)
    total = accounting.largest_leakage(accounting.steps, float(rho), most)
    if whole_stream is not None and not total < whole_stream:
        value: str | None = round_up(whole_stream)
        words = f"{value} nats, the sum of all budgets"
    elif np.isfinite(total):
        value = round_up(total)
        words = f"{value} nats"
    else:
        value, words = None, "no limit over a stream without end"
    return {
        "rho": exact(rho),
        "total_leakage": value,
        "unit": "nats",
        "time_scope": span(accounting.plan),
        "words": words,
    }
