"""Of which steps and cells the rows are that are made of released values, and whether they fit together."""

from __future__ import annotations

from collections.abc import Sequence

from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_check.plan.release import ReleasePlan
from policyc_check.plan.stream import CellRecord
from policyc_runtime.ancestors import parents
from policyc_runtime.made_release import Change, MadeRecord, Quotient

Rows = tuple[int, int]  # how many steps a row is of, and at which step the first one begins
Cells = tuple[tuple[str, ...], str | None]


def reason_against_made(
    releases: Sequence[ReleasePlan], made: Sequence[MadeRecord], cell: CellRecord | None, *, public_users: bool
) -> str | None:
    """Why something cannot be made as a plan says, naming it; None where all of it can.

    `cell`: what cells belong to. `public_users`: whether the number of users is public, to divide values by it.
    """
    rows: dict[str, Rows] = {release.name: (1, 0) for release in releases}
    cells: dict[str, Cells] = {release.name: (release.cells, release.query.by) for release in releases}
    for one in made:
        try:
            reason = _reason(one, rows, cells, cell)
        except KeyError:
            reason = "what it is made of does not come before it"
        if one.name in rows:
            reason = "another release has its name"
        if isinstance(one.query, Quotient) and one.query.over is None and not public_users:
            reason = "the number of users is not public"
        if reason is not None:
            return f"`{one.name}` cannot be made of `{one.query.of}`: {reason}"
        rows[one.name], cells[one.name] = (one.steps, one.first), (one.cells, one.query.by)
    return None


def _reason(one: MadeRecord, rows: dict[str, Rows], cells: dict[str, Cells], cell: CellRecord | None) -> str | None:
    query, own = one.query, (one.steps, one.first)
    steps, first = rows[query.of]
    if (one.cells, query.by) != cells[query.of]:
        return "it has other cells"
    if isinstance(query, Quotient):
        over = query.of if query.over is None else query.over
        if not own == (steps, first) == rows[over]:
            return "rows are of other steps"
        below = cells[over][1]
        known = cell is not None and {query.by, below} <= cell.states_by.keys()
        fits = cells[over] in (cells[query.of], (("",), None))
        if not fits and known and cell is not None and query.by is not None and below is not None:
            fits = parents(cell, query.by, below) is not None
        return None if fits else "its denominator has other cells"
    if isinstance(query, Change):
        apart = (query.every, query.first - first, query.last + 1 - first)
        whole = all(number % steps == 0 for number in apart) and query.first >= first
        covers = query.last + 1 - query.first >= query.every
        return None if whole and covers and own == (steps, query.last + 1) else "its baseline is not of its rows"
    if isinstance(query, PrefixQuery | WindowQuery):
        return None if own == (steps, first) == (1, 0) else "it has a row for every step"
    return None if one.steps % steps == 0 and first == one.first == 0 else "its blocks are of no whole rows"
