"""Which releases of a policy agree, in which order, and what is asked of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.queries import Query
from policyc_check.plan.stream import CellRecord
from policyc_check.records import Count, Name, Record
from policyc_runtime.agreement import Bounds, Levels, Tree
from policyc_runtime.agreement_demands import Demands, Link, beyond_bounds, general_rows, rows_but_totals
from policyc_runtime.ancestors import parents
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.crossed_levels import Crossed, reason_against
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.constraints import TOLERANCE

Indices = NDArray[np.int64]


class Agreement(Record):
    """That for each value of `parent` those values of `child` that belong to it add up to it, in the policy's words."""

    text: str
    line: Count
    child: Name
    parent: Name


class Agreeing(Protocol):
    """A release of a policy or of a plan."""

    @property
    def name(self) -> str:
        """Of the release."""

    @property
    def query(self) -> Query:
        """What it is split by."""

    @property
    def constraint_set(self) -> ConstraintSet:
        """What is asked of its values."""


@dataclass(frozen=True)
class _Level:
    """What is known of a release that agrees, and nothing else, so that trees are found once."""

    name: str
    query: Query
    constraints: tuple[ConstraintRow, ...]
    cells: int
    integer: bool
    balanced: bool

    @property
    def constraint_set(self) -> ConstraintSet:
        """What is asked of its values."""
        return ConstraintSet(self.constraints, self.cells, integer=self.integer)


def trees(
    cell: CellRecord | None,
    releases: Sequence[Agreeing],
    agreements: Sequence[Agreement],
    population: int | None = None,
) -> list[Levels]:
    """The releases that agree with each other, each before those that it adds up to.

    Args:
        cell: of the stream.
        releases: among them those that agree.
        agreements: no release adds up to itself, and where one adds up to several, all others are sums of its values.
        population: what values add up to that have balanced noise.

    Raises:
        ValueError: values do not belong to one value of the next, releases are not as said above, or bounds of their
            values cannot be kept.
    """
    named = {name for one in agreements for name in (one.child, one.parent)}
    levels = tuple(
        _Level(
            one.name,
            one.query,
            one.constraint_set.rows,
            one.constraint_set.cells,
            one.constraint_set.integer,
            bool(getattr(one, "balanced", False)),
        )
        for one in releases
        if one.name in named
    )
    return list(_trees(cell, levels, tuple(agreements), population)) if levels else []


@lru_cache(maxsize=8)  # of one plan they are asked for often
def _trees(
    cell: CellRecord | None, releases: tuple[_Level, ...], agreements: tuple[Agreement, ...], population: int | None
) -> tuple[Levels, ...]:
    by_name, left = {one.name: one for one in releases}, list(agreements)
    found = []
    while left:
        names, together = {left[0].child}, list[Agreement]()
        while new := [one for one in left if one.child in names or one.parent in names]:
            names |= {name for one in new for name in (one.child, one.parent)}
            together += new
            left = [one for one in left if one not in new]
        ordered = _ordered([name for name in by_name if name in names], together)
        links = [_link(cell, by_name, ordered, one) for one in together]
        links.sort(key=lambda link: (link.child, link.parent))
        found.append(_levels([by_name[name] for name in ordered], links, population))
    return tuple(sorted(found, key=lambda one: one.names[0]))


def _ordered(names: list[str], agreements: Sequence[Agreement]) -> list[str]:
    """Each release before those that it adds up to, the next as soon as it can be."""
    found, left = list[str](), names
    while left:
        parts = {one.parent for one in agreements if one.child in left}
        free = [name for name in left if name not in parts]
        if not free:
            raise ValueError("releases add up to each other in a circle")
        found.append(free[0])
        left = [name for name in left if name != free[0]]
    return found


def _link(cell: CellRecord | None, releases: Mapping[str, _Level], names: list[str], one: Agreement) -> Link:
    child, parent = releases[one.child].query.by, releases[one.parent].query.by
    if cell is None or child is None or child == parent:
        raise ValueError(f"`{one.child}` has no values that could belong to those of another")
    if parent is None:
        if cell.otherwise is not None:
            raise ValueError(f"who is `{cell.otherwise}` counts in `{one.child}` alone")
        own: Indices | None = np.zeros(len(cell.states_by[child]), np.int64)
    else:
        own = parents(cell, child, parent)
    if own is None:
        raise ValueError(f"values of `{one.child}` belong to several of `{one.parent}`")
    return Link(names.index(one.child), names.index(one.parent), own, one.text, one.line)


def _levels(releases: Sequence[_Level], links: Sequence[Link], population: int | None) -> Levels:
    """Releases that agree, each before those that it adds up to."""
    names, asked = tuple(one.name for one in releases), [one.constraint_set for one in releases]
    bounds = list[Bounds]()
    for level, one in enumerate(asked):
        bounds.append(Bounds.of(one, [(bounds[link.child], link.own) for link in links if link.parent == level]))
    if empty := [name for name, one in zip(names, bounds, strict=True) if (one.lower > one.upper).any()]:
        raise ValueError(f"no values of `{empty[0]}` keep its bounds and agree with those that belong to it")
    total = _total(releases, bounds[-1], population)
    kept = tuple(bounds) if any(one.bounded or one.whole for one in bounds) else ()
    general = general_rows if len({link.child for link in links}) == len(links) else rows_but_totals
    demands = Demands.of(asked, links, total, general) if any(general(one) for one in asked) else None
    if general is general_rows:
        return Tree(
            names, tuple(link.own for link in links), kept, total, demands, tuple(link.parent for link in links)
        )
    above = _sums_of_finest(names, links)
    if reason := reason_against(names, above, [one.whole for one in bounds], demanding=beyond_bounds(asked)):
        raise ValueError(reason)
    alone = [ConstraintSet((), one.cells, integer=False) for one in asked]
    equations = Demands.of(alone, links, total, general) if bounds[0].whole else None
    return Crossed(names, above, kept, total, demands, equations)


def _sums_of_finest(names: Sequence[str], links: Sequence[Link]) -> tuple[Indices, ...]:
    """By release but the first, to which of its values each of the first belongs."""
    found: dict[int, Indices] = {}
    for index, link in enumerate(links):
        if link.parent in _reached([other for place, other in enumerate(links) if place != index], link.child):
            raise ValueError(f"`{names[link.child]}` adds up to `{names[link.parent]}` already")
    for level in range(1, len(names)):
        own = next((link for link in links if link.parent == level), None)
        if own is None:
            raise ValueError(f"`{names[level]}` and `{names[0]}` agree with what adds up along several ways")
        found[level] = own.own if own.child == 0 else own.own[found[own.child]]
    return tuple(found[level] for level in range(1, len(names)))


def _reached(links: Sequence[Link], level: int) -> set[int]:
    """All levels to which one adds up in the end."""
    found = {level}
    for link in sorted(links, key=lambda link: link.child):  # each level comes before those that it adds up to
        found |= {link.parent} if link.child in found else set()
    return found - {level}


def _total(releases: Sequence[_Level], bounds: Bounds, population: int | None) -> float | None:
    """What all values of each release add up to, those of the last one within bounds; None where nobody knows."""
    asked = [one.constraint_set.total for one in releases]
    known = {total for total in asked if total is not None and total % 1 == 0}  # others are asked beside it
    if population is not None and any(one.balanced for one in releases):
        known.add(float(population))
    if not known:
        return None
    total = known.pop()
    room = TOLERANCE * (abs(total) + 1)
    if known or not bounds.lower.sum() - room <= total <= bounds.upper.sum() + room:
        raise ValueError(f"no values of `{releases[-1].name}` keep their bounds and add up to all that is said")
    return total
