"""The policy's constraints as Python, each beside the policy's words."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING

from policyc.emit.map_model.literals import comment, literal, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policyc_runtime.constraint_row import ConstraintRow
    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan


@dataclass(frozen=True)
class ConstraintText:
    """Constraints that come from one place of the policy, as lines of Python inside a loop over steps `t`."""

    policy_line: int
    policy_text: str
    python: tuple[str, ...]


def constraint_texts(plan: Plan, release: ReleasePlan, suffix: str) -> tuple[tuple[ConstraintText, ...], str | None]:
    """The constraints of a release, and what all its cells add up to, None where no constraint says it."""
    population = plan.stream.population
    names = {} if population is None else {Decimal(population): f"POPULATION{suffix}"}
    groups = groupby(release.constraints, key=lambda row: (row.line, row.text))
    texts = tuple(
        ConstraintText(line, comment(text), tuple(_python(list(rows), release.cells, suffix, names)))
        for (line, text), rows in groups
    )
    total = release.constraint_set.total
    if total is None:
        return texts, None
    exact = Decimal(repr(total))
    return texts, names.get(exact, number(exact))


def _python(rows: list[ConstraintRow], cells: tuple[str, ...], suffix: str, names: dict[Decimal, str]) -> Iterator[str]:
    """Statements that add the rows of one policy constraint for step `t`; `names` are numbers that have one."""
    relation = rows[0].relation
    if len(cells) > 1 and _one_row_a_cell(rows, cells):
        row = rows[0]
        terms = [(coefficient, "r[t, cell]") for _, coefficient in row.current]
        terms += [(coefficient, "before[cell]") for _, coefficient in row.previous]
        yield f"for cell in CELLS{suffix}:"
        yield f"    model.constraints.add({_sum(terms)} {relation} {number(row.bound)})"
        return
    for row in rows:
        everywhere = {coefficient for _, coefficient in row.current}
        if len(row.current) == len(cells) > 1 and everywhere == {Decimal(1)} and not row.previous:
            left, bound = f"sum(r[t, cell] for cell in CELLS{suffix})", names.get(row.bound, number(row.bound))
        else:
            terms = [(coefficient, f"r[t, {literal(cells[cell])}]") for cell, coefficient in row.current]
            terms += [(coefficient, f"before[{literal(cells[cell])}]") for cell, coefficient in row.previous]
            left, bound = _sum(terms), number(row.bound)
        yield f"model.constraints.add({left} {row.relation} {bound})"


def _one_row_a_cell(rows: list[ConstraintRow], cells: tuple[str, ...]) -> bool:
    """Whether the rows say the same of every cell, each of one."""
    if len(rows) != len(cells):
        return False
    shapes = set()
    for cell, row in enumerate(rows):
        if [index for index, _ in (*row.current, *row.previous)] not in ([cell], [cell, cell]) or not row.current:
            return False
        coefficients = (tuple(c for _, c in row.current), tuple(c for _, c in row.previous))
        shapes.add((coefficients, row.relation, row.bound))
    return len(shapes) == 1


def _sum(terms: list[tuple[Decimal, str]]) -> str:
    """`r[t, "A"] - 2 * before["A"]`."""
    text = ""
    for coefficient, name in terms:
        size = abs(coefficient)
        term = name if size == 1 else f"{number(size)} * {name}"
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {term}" if text else (f"-{term}" if coefficient < 0 else term)
    return text or "0"
