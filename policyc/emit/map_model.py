"""The post-processing of a plan as a Pyomo model: readable Python that runs on its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policyc_runtime.estimation.constraints import ConstraintRow
    from policyc_runtime.plan import Plan, ReleasePlan
    from policyc_runtime.schedule import Schedule

LINE_LENGTH = 120


@dataclass(frozen=True)
class ConstraintText:
    """Constraints that come from one place of the policy, as lines of Python inside a loop over steps `t`."""

    policy_line: int
    policy_text: str
    python: tuple[str, ...]


@dataclass(frozen=True)
class ReleaseText:
    """What the template says of one release. `suffix` tells the names of several releases apart.

    `users` is what the flows of `joint_map` add up to; None for other estimators, which have no flows.
    """

    name: str
    suffix: str
    method: str
    prior: str | None
    users: str | None
    constants: tuple[str, ...]
    constraints: tuple[ConstraintText, ...]
    integer: bool
    couples_steps: bool
    skips: bool


def render_map_model(plan: Plan) -> str:
    """The text of `map_model.py`: the problem that post-processing solves, for every release of the plan.

    Runs with Pyomo and the standard library alone: `python map_model.py noisy.csv`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(  # noqa: S701  the output is Python, not HTML; every value is a Python literal
        loader=PackageLoader("policyc.emit"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    several = len(plan.releases) > 1
    releases = [release_text(plan, release, f"_{release.name}" if several else "") for release in plan.releases]
    return environment.get_template("map_model.py.jinja").render(
        plan=plan,
        purpose=_comment(plan.policy.purpose),
        source=_comment(plan.policy.source.name),
        realtime=plan.delivery.kind != "offline",
        releases=releases,
        any_map=any(release.prior for release in releases),
        any_flows=any(release.users for release in releases),
        any_skips=any(release.skips for release in releases),
        any_coupled=any(release.couples_steps for release in releases),
    )


def release_text(plan: Plan, release: ReleasePlan, suffix: str) -> ReleaseText:
    """The content of one release's section."""
    prior = getattr(release.estimator, "prior", None)
    population = plan.stream.population
    constants = [
        *([] if population is None else [f"POPULATION{suffix} = {population}"]),
        f"CELL_COLUMN{suffix} = {_literal(release.query.by)}",
        *_listed(f"CELLS{suffix}", [_literal(cell) for cell in release.cells]),
        *(_scales(f"SCALES{suffix}", release.schedule) if release.schedule else [f"SCALES{suffix} = [([1.0], None)]"]),
    ]
    flows = release.estimator.name == "joint_map"
    if prior is not None or flows:
        constants += _law(plan, len(release.cells), prior or "initial", suffix)
    names = {} if population is None else {Decimal(population): f"POPULATION{suffix}"}
    groups = groupby(release.constraints, key=lambda row: (row.line, row.text))
    return ReleaseText(
        name=release.name,
        suffix=suffix,
        method=release.estimator.name,
        prior=prior,
        users=_users(release, names) if flows else None,
        constants=tuple(constants),
        constraints=tuple(
            ConstraintText(line, _comment(text), tuple(_python(list(rows), release.cells, suffix, names)))
            for (line, text), rows in groups
        ),
        integer=release.integer,
        couples_steps=any(row.previous for row in release.constraints),
        skips=any(0 in segment.epsilons for segment in release.budgets.segments) if release.schedule else False,
    )


def _users(release: ReleasePlan, names: dict[Decimal, str]) -> str:
    """What all cells add up to."""
    total = Decimal(repr(release.constraint_set.total))
    return names.get(total, _number(total))


def _law(plan: Plan, cells: int, prior: str, suffix: str) -> list[str]:
    """The constants of where users are: the law of step 0, and how it moves."""
    constants: list[str]
    chain = plan.correlation.chains[0].chain() if len(plan.correlation.chains) == 1 else None
    if prior == "uniform":
        constants = _listed(f"FIRST_LAW{suffix}", [repr(1.0 / cells)] * cells)
    elif prior == "initial" and chain is not None:
        constants = _listed(f"FIRST_LAW{suffix}", [repr(float(share)) for share in chain.marginals(1)[0]])
    else:
        constants = []  # the frequencies of the noisy values of step 0
    if chain is None:
        return [*constants, f"FORWARD{suffix} = None  # no chain: the law stays what it was at step 0"]
    rows = ["[" + ", ".join(repr(float(share)) for share in row) + "]" for row in chain.forward]
    return [*constants, f"FORWARD{suffix} = [", *(f"    {row}," for row in rows), "]"]


def _scales(name: str, schedule: Schedule) -> list[str]:
    """Segments (noise scales of a pattern of steps, how often it comes, None for ever)."""
    lines = [f"{name} = ["]
    for segment in schedule.segments:
        pattern = _sequence([str(float(scale)) for scale in segment.scales], "    (", f", {segment.repeats}),")
        lines += pattern
    return [*lines, "]"]


def _listed(name: str, items: list[str]) -> list[str]:
    return _sequence(items, f"{name} = ", "")


def _sequence(items: list[str], before: str, after: str) -> list[str]:
    """A list literal on one line, or on one line an item where that is too long."""
    line = f"{before}[{', '.join(items)}]{after}"
    if len(line) <= LINE_LENGTH:
        return [line]
    indent = " " * (len(before) - len(before.lstrip()))
    return [f"{before}[", *(f"{indent}    {item}," for item in items), f"{indent}]{after}"]


def _python(rows: list[ConstraintRow], cells: tuple[str, ...], suffix: str, names: dict[Decimal, str]) -> Iterator[str]:
    """Statements that add the rows of one policy constraint for step `t`; `names` are numbers that have one."""
    relation = rows[0].relation
    if len(cells) > 1 and _one_row_a_cell(rows, cells):
        row = rows[0]
        terms = [(coefficient, "r[t, cell]") for _, coefficient in row.current]
        terms += [(coefficient, "before[cell]") for _, coefficient in row.previous]
        yield f"for cell in CELLS{suffix}:"
        yield f"    model.constraints.add({_sum(terms)} {relation} {_number(row.bound)})"
        return
    for row in rows:
        everywhere = {coefficient for _, coefficient in row.current}
        if len(row.current) == len(cells) > 1 and everywhere == {Decimal(1)} and not row.previous:
            left, bound = f"sum(r[t, cell] for cell in CELLS{suffix})", names.get(row.bound, _number(row.bound))
        else:
            terms = [(coefficient, f"r[t, {_literal(cells[cell])}]") for cell, coefficient in row.current]
            terms += [(coefficient, f"before[{_literal(cells[cell])}]") for cell, coefficient in row.previous]
            left, bound = _sum(terms), _number(row.bound)
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
        term = name if size == 1 else f"{_number(size)} * {name}"
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {term}" if text else (f"-{term}" if coefficient < 0 else term)
    return text or "0"


def _number(value: Decimal) -> str:
    return str(int(value)) if value == value.to_integral_value() else repr(float(value))


def _literal(text: str | None) -> str:
    """A Python literal with double quotes."""
    return "None" if text is None else json.dumps(text, ensure_ascii=False)


def _comment(text: str) -> str:
    """Policy text that can stand in a comment or a docstring."""
    return " ".join(text.split()).replace("\\", "/").replace('"""', "'''")
