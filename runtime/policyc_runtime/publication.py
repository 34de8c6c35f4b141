"""Whether published values are what the plan's estimator makes of the noisy ones, computed again.

Estimators are functions of the plan and of noisy values alone, so whoever has the ledger can ask them again. Another
machine rounds otherwise in the last bits, which may turn a tie: there a value is held against what noisy values make
that differ by a billionth, and against the constraints, which hold in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimates import estimate_release, published_values
from policyc_runtime.estimation.constraints import TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan

    Array = NDArray[np.float64]

NEAR = 1e-9  # by how much noisy values are moved, relative to their size
TRIALS = 16
REAL = 1e-6  # relative: values that are not whole are compared so


def unexplained_value(
    plan: Plan,
    release: ReleasePlan,
    noisy: Callable[[int], Array],
    measured: int,
    published: Array,
    known: Sequence[int],
    processes: Sequence[str],
) -> int | None:
    """The first step whose published values do not follow from the noisy ones; None if all do.

    Args:
        plan: of the ledger.
        release: one of its releases.
        noisy: from how many steps were measured to their noisy values then, (t, cells): where values wait for later
            steps, more of them change what is known of the earlier ones.
        measured: how many steps were measured in all.
        published: (s, cells) published values of the first steps, s <= measured: all that have any.
        known: by step, how many steps had noisy values when this one was estimated.
        processes: by step, what the estimator took users to move like; empty where nothing is said.
    """
    first = 0
    while first < len(published):
        stop = next((t for t in range(first, len(published)) if known[t] != known[first]), len(published))
        if not stop <= known[first] <= measured:
            return first
        used = list(processes[first : known[first]])
        wrong = _differing_row(
            plan, release, noisy(known[first]), published[:first], published[first:stop], used if any(used) else None
        )
        if wrong is not None:
            return first + wrong
        first = stop
    return None


def _differing_row(
    plan: Plan, release: ReleasePlan, noisy: Array, before: Array, rows: Array, used: list[str] | None
) -> int | None:
    """The first of the rows that is not what the estimator gives, near or beyond a tie; None if all are.

    Runs of earlier versions published every digit.
    """
    try:
        values = published_values(plan, release, noisy, before, used)[: len(rows)]
        if np.array_equal(values, rows):
            return None  # the estimator's own values keep the constraints
        every_digit = (
            values if plan.agrees(release.name) else estimate_release(plan, release, noisy, before, used)[: len(rows)]
        )
        if np.array_equal(every_digit, rows):
            return None
        tried = [values]
        for trial in range(0 if plan.agrees(release.name) else TRIALS):  # those that agree have been rounded
            signs = np.random.default_rng(trial).choice([-1.0, 1.0], noisy.shape)
            moved = noisy + signs * NEAR * np.maximum(1.0, np.abs(noisy))
            tried.append(published_values(plan, release, moved, before, used)[: len(rows)])
    except ReleaseError:
        return 0
    low, high = np.min(tried, axis=0), np.max(tried, axis=0)
    room = 2 * (high - low) + REAL * (1.0 + np.abs(values))
    outside = ((rows < low - room) | (rows > high + room)).any(axis=1)
    if outside.any():
        return int(np.argmax(outside))
    kept = release.constraint_set.violation(rows, before[-1] if len(before) else None) <= TOLERANCE
    return None if kept else 0
