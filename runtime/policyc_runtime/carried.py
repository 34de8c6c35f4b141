"""What one more step of a long stream needs of all steps before it, so that they need not be read.

Where each step has noise of its own that is nothing; of a binary tree it is what it knows of nodes that are not yet in
a larger one, of totals the last of them. All of it is a function of what the ledger holds, and public as that. A run
notes it at its end, beside the SHA-256 of the ledger that it is of, under the ledger's key (`ledger_checkpoint.py`);
`verify` computes every value from the first step on. Raw values that a mechanism adds up anew are in the private
history alone, which has those of every step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from policyc_runtime.estimates import estimated_under, needed
from policyc_runtime.groups import law_of
from policyc_runtime.mechanisms import StreamMechanism
from policyc_runtime.mechanisms.mechanism import Left, StepRecord
from policyc_runtime.noisy_values import (
    derived_after,
    in_units,
    made_together,
    measured,
    noisy_values,
    stored_noisy,
    waiting_steps,
)
from policyc_runtime.planned_release import BudgetedRelease, DerivedRelease, MeasuredRelease, Recorded, ReleasePlan
from policyc_runtime.suppression_rule import ErrorAbove

if TYPE_CHECKING:
    from policyc_runtime.ledger_reader import LedgerReader
    from policyc_runtime.plan import Plan

Array = NDArray[np.float64]
Carried = Mapping[str, Left]
"""By release, what the steps before some step left."""


def goes_on(plan: Plan) -> bool:
    """Whether what a step draws and publishes follows from what was left, and from few steps before it.

    Not where an estimator looks at all earlier values, where they wait for later ones, where rows are made of several
    steps, or where it depends on other steps which values are left out.
    """
    return plan.delivery.kind != "offline" and waiting_steps(plan) == 0 and _of_few_steps(plan)


def lets_go(plan: Plan) -> bool:
    """Whether a run needs few of the steps that it has released itself: also where all are published at its end."""
    offline = plan.delivery.kind == "offline" and rows_are_apart(plan) and not made_together(plan)
    return goes_on(plan) or (offline and _of_few_steps(plan))


def looks_at_few(plan: Plan) -> bool:
    """Whether a run looks at what was counted step after step: counts of a long one need not be held."""
    return goes_on(plan) or not any(isinstance(part, Recorded) for part in plan.releases)


def _of_few_steps(plan: Plan) -> bool:
    """Whether a step is made of what was left and of few steps before it, as far as it waits for no others."""
    totals = any(isinstance(part, DerivedRelease) for part in plan.releases)
    whole = not totals or not any(part.suppressions for part in plan.releases)
    known = all(
        _goes_on(part) and part.estimator.goes_on(law_of(plan, part), estimated_under(plan, part))
        for part in plan.releases
    )
    return known and not plan.made and whole and _leaves_out_by_step(plan)


def rows_are_apart(plan: Plan) -> bool:
    """Whether what a file says of a step follows from what the ledger has of that step, once it is there."""
    return all(map(_alone, plan.releases)) and not plan.made and _leaves_out_by_step(plan)


def _leaves_out_by_step(plan: Plan) -> bool:
    return not any(isinstance(rule, ErrorAbove) for part in plan.releases for rule in part.suppressions)


def _goes_on(part: ReleasePlan) -> bool:
    if isinstance(part, MeasuredRelease):
        return part.mechanism.goes_on
    return isinstance(part, BudgetedRelease | DerivedRelease)


def first_needed(plan: Plan, book: LedgerReader, steps: int) -> int:
    """From which step on values are needed for steps behind the first so many, of a plan that goes on."""
    found = (needed(plan, part, steps, process_before(book, part.name, steps)) for part in plan.releases)
    return min(found, default=steps)


def first_kept(plan: Plan, book: LedgerReader, latest: int) -> int:
    """The first step that the next run reads: of the `latest`, or of those before them that later steps need."""
    first = book.steps - latest
    return max(book.first, min(first, first_needed(plan, book, book.steps)) if goes_on(plan) else first)


def process_before(book: LedgerReader, release: str, step: int) -> str:
    """What the users of a release were taken to move like at the step before one, as a ledger says; empty for none."""
    pieces = book.values.get(release) if book.steps == step else None
    return pieces[-1].processes[-1] if pieces else ""


def looks_back(plan: Plan, first: int, steps: int) -> int:
    """From which step on the steps `first` to `steps` - 1 of a plan that goes on need raw values."""
    found = [(part.mechanism, measured(plan, part)) for part in plan.releases if isinstance(part, MeasuredRelease)]
    return min([first, *(one.looks_back(known[1], first, steps) for one, known in found if known is not None)])


def noisy_from(plan: Plan, part: Recorded, book: LedgerReader, records: Sequence[StepRecord]) -> Array:
    """`noisy_values` of the steps from the first on that a ledger was read of."""
    if not book.first:
        return noisy_values(plan, part, records)
    return _noisy_after(plan, part, book, records)[0]


def _noisy_after(
    plan: Plan, part: ReleasePlan, book: LedgerReader, records: Sequence[StepRecord]
) -> tuple[Array, Left]:
    """The same of a plan that goes on, and what all these steps leave to later ones."""
    found = measured(plan, part)
    assert found is not None, "all others give away no records"
    mechanism, setting = found
    assert isinstance(mechanism, StreamMechanism), "no other goes on"
    values, left = mechanism.values_after(setting, book.first, book.left.get(part.name, ()), records)
    return in_units(plan, part, values), left


def left_at(plan: Plan, book: LedgerReader, steps: int) -> dict[str, Left]:
    """What the first so many steps of a ledger left; nothing of any release where each step is its own."""
    if not goes_on(plan) or all(map(_alone, plan.releases)):
        return {}
    found: dict[str, Left] = {}
    values: dict[str, Array] = {}
    for part in plan.releases:
        if isinstance(part, DerivedRelease):
            left = book.left.get(part.name, ())
            values[part.name], found[part.name] = derived_after(part, left, values[part.query.of])
            continue
        text = ",".join(piece.noisy for piece in book.values.get(part.name, ()))
        rows = json.loads(f"[{text}]")[: steps - book.first]
        if isinstance(part, MeasuredRelease):
            values[part.name], found[part.name] = _noisy_after(plan, part, book, [tuple(row) for row in rows])
        else:
            values[part.name] = stored_noisy(plan, part, rows)
    return found


def _alone(part: ReleasePlan) -> bool:
    return isinstance(part, BudgetedRelease) or (isinstance(part, MeasuredRelease) and part.mechanism.of_one_step)


def left_as_text(left: Carried) -> str:
    """What was left, as JSON whose numbers read back exactly."""
    return json.dumps({name: [rows.tolist() for rows in arrays] for name, arrays in left.items()}, sort_keys=True)


def left_of_text(text: str) -> dict[str, Left]:
    """The same read back."""
    found = json.loads(text)
    return {name: [np.array(rows, dtype=np.float64) for rows in arrays] for name, arrays in found.items()}
