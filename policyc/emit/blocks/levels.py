"""Levels side by side: how many values each has, in how many one user is, its noise, and what is expected."""

from __future__ import annotations

from policyc.emit.blocks.accuracy import noise_words, typical_error
from policyc.emit.blocks.wording import JsonValue, events_counted
from policyc_check.users.claims import spread_of
from policyc_runtime.plan import Plan


def levels(plan: Plan) -> list[JsonValue]:
    """One row a release; none where no release is at a level of the cell."""
    cell = plan.stream.cell
    if cell is None or all(release.query.by in (None, cell.column) for release in plan.releases):
        return []
    return [
        {
            "release": release.name,
            "by": release.query.by,
            "values": f"{len(release.cells):,}",
            "of_a_user": f"{min(max(spread_of(plan, release), events_counted(plan)), len(release.cells)):,}",
            "noise_stddev": noise_words(plan, release),
            "expected_error": release.predicted.least + typical_error(plan, release.predicted.published),
        }
        for release in plan.releases
    ]
