"""Which releases of a policy agree, in which order, and what is asked of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.queries import Query
from policyc_check.plan.stream import CellRecord
from policyc_check.records import Count, Name, Record
from policyc_runtime.agreement import Bounds, Tree
from policyc_runtime.agreement_demands import Demands
from policyc_runtime.ancestors import parents
from policyc_runtime.constraint_row import ConstraintRow
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
) -> list[Tree]:
    """The releases that agree with each other, from the finest on.

    Args:
        cell: of the stream.
        releases: among them those that agree.
        agreements: each release is the child of one and the parent of one at most.
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
) -> tuple[Tree, ...]:
    columns, by_name = {one.name: one.query.by for one in releases}, {one.name: one for one in releases}
    up = {agreement.child: agreement.parent for agreement in agreements}
    if len(up) < len(agreements) or len(set(up.values())) < len(up):
        raise ValueError("a release adds up to one other, and one adds up to it")
    found = []
    for first in sorted(up.keys() - set(up.values())):
        names, above = [first], []
        while names[-1] in up:
            child, parent = columns[names[-1]], columns[up[names[-1]]]
            if cell is None or child is None or child == parent:
                raise ValueError(f"`{names[-1]}` has no values that could belong to those of another")
            if parent is None:
                if cell.otherwise is not None:
                    raise ValueError(f"who is `{cell.otherwise}` counts in `{names[-1]}` alone")
                own: Indices | None = np.zeros(len(cell.states_by[child]), np.int64)
            else:
                own = parents(cell, child, parent)
            if own is None:
                raise ValueError(f"values of `{names[-1]}` belong to several of `{up[names[-1]]}`")
            above.append(own)
            names.append(up[names[-1]])
        bounds = [Bounds.of(by_name[first].constraint_set, None, None)]
        for name, own in zip(names[1:], above, strict=True):
            bounds.append(Bounds.of(by_name[name].constraint_set, bounds[-1], own))
        if empty := [name for name, one in zip(names, bounds, strict=True) if (one.lower > one.upper).any()]:
            raise ValueError(f"no values of `{empty[0]}` keep its bounds and agree with those that belong to it")
        asked = any(one.bounded or one.whole for one in bounds)
        total = _total([by_name[name] for name in names], bounds[-1], population)
        texts = [next((one.text, one.line) for one in agreements if one.child == name) for name in names[:-1]]
        demands = Demands.of([by_name[name].constraint_set for name in names], above, texts, total)
        found.append(Tree(tuple(names), tuple(above), tuple(bounds) if asked else (), total, demands))
    if sum(len(tree.above) for tree in found) < len(agreements):
        raise ValueError("releases add up to each other in a circle")
    return tuple(found)


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
