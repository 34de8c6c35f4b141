"""Constraints on released values as rows of numbers: `NAME >= 0` on every cell, `sum(NAME) == population`.

An expression becomes one linear form (a scalar) or one a cell (a value of the release as a whole).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

from policyc.diagnostics import Edit, Span
from policyc.semantics.linear import Coefficients, Form, Forms, added_up, joined
from policyc.semantics.policy import Made, Release
from policyc.semantics.postprocessing import Agreement, LinearConstraint, Postprocess, Suppression
from policyc.semantics.reading import LARGEST_NUMBER
from policyc.semantics.scope import Scope, suggest
from policyc.semantics.suppressions import resolve_suppression
from policyc.syntax.tree import (
    Cell,
    Comparison,
    Expression,
    IntegerConstraint,
    Name,
    Number,
    Previous,
    Product,
    SumOf,
    Total,
)
from policyc.syntax.tree import Postprocess as PostprocessTree
from policyc.syntax.tree import Suppression as SuppressionTree

MOST_COEFFICIENTS = 10_000_000
_EXACT = Context(prec=200, traps=[])  # exact for every number a policy can hold; overflow is found by looking
_RELATIONS = {"==", "<=", ">="}
_NO_NEAREST = "no nearest values exist that keep out of the boundary"
_SAME = {"=<": "<=", "=>": ">=", "≤": "<=", "≥": ">="}
_SLOPPY = {"=": "==", "<": "<=", ">": ">=", "!=": "==", "<>": "==", "≠": "==", **_SAME}


class _Unlinear(Exception):  # noqa: N818  # never leaves this module
    """An expression that was reported and has no form."""


@dataclass(frozen=True)
class Target:
    """The release that constraints are about, and what else they may name."""

    release: str
    cells: tuple[str, ...]
    by_cell: bool
    population: int | None
    others: tuple[str, ...]


def resolve_postprocess(
    scope: Scope,
    tree: PostprocessTree,
    release: Release | Made,
    cells: tuple[str, ...],
    population: int | None,
    others: tuple[str, ...],
) -> Postprocess:
    """Every constraint of a block that has a meaning; the others are reported and left out.

    Args:
        scope: collects the findings.
        tree: the block.
        release: whose values are constrained; what is made of released values is only suppressed.
        cells: names of the release's values in a step.
        population: the stream's public number of users, if said.
        others: names of all other releases.
    """
    target = Target(release.name, cells, release.by is not None, population, others)
    rows: list[LinearConstraint] = []
    suppressions: list[Suppression] = []
    agreements: list[Agreement] = []
    integer = False
    for constraint in tree.constraints:
        if isinstance(constraint, SuppressionTree):
            name = constraint.call.arguments[0].value
            assert isinstance(name, Name), "the grammar has nothing else there"
            if _is_own(scope, name, target):
                suppressions += resolve_suppression(scope, constraint, suppressions, others)
            continue
        if isinstance(constraint, IntegerConstraint):
            integer = integer or _is_own(scope, constraint.release, target)
            continue
        if (parent := _parent(constraint, target)) is not None:
            line, words = _place(scope, constraint)
            agreements.append(Agreement(words, line, parent.text, constraint.span))
            continue
        with localcontext(_EXACT):
            rows.extend(_rows(scope, constraint, target, rows))
    return Postprocess(release.name, tuple(rows), integer, tree.span, tuple(suppressions), tuple(agreements))


def _parent(tree: Comparison, target: Target) -> Name | None:
    """The release that `sum(NAME) == OTHER` names, to whose values those of this one add up; None for all else."""
    for own, other in ((tree.left, tree.right), (tree.right, tree.left)):
        added = isinstance(own, SumOf) and isinstance(own.argument, Name) and own.argument.text == target.release
        if added and tree.operator == "==" and isinstance(other, Name) and other.text in target.others:
            return other
    return None


def _place(scope: Scope, tree: Comparison) -> tuple[int, str]:
    """The line of a constraint, and its words."""
    words = " ".join(scope.source.text[tree.span.start : tree.span.end].split())
    return scope.source.line_and_column(tree.span.start)[0], words


def _is_own(scope: Scope, name: Name, target: Target) -> bool:
    if name.text != target.release:
        _unpublished(scope, name, target)
        return False
    return True


def _same_operator(scope: Scope, tree: Comparison) -> Edit | None:
    """The edit of a comparison that another notation has, and this language spells otherwise."""
    start, end = tree.left.span.end, tree.right.span.start
    place = scope.source.text.find(tree.operator, start, end)
    if tree.operator not in _SAME or place < 0 or "#" in scope.source.text[start:end]:
        return None
    return Edit(Span(place, place + len(tree.operator)), _SAME[tree.operator])


def _rows(scope: Scope, tree: Comparison, target: Target, before: Sequence[LinearConstraint]) -> list[LinearConstraint]:
    """The linear rows of one comparison, after those `before`; none after reporting."""
    if tree.operator not in _RELATIONS:
        hint = f"write `{_SLOPPY.get(tree.operator, '<=')}`"
        if tree.operator in ("<", ">"):
            hint += (
                f", with a {'smaller' if tree.operator == '<' else 'larger'} bound if the boundary must not be reached"
            )
        scope.refuse(
            "E0605",
            f"a constraint cannot use `{tree.operator[:10]}`",
            tree.span,
            because=_NO_NEAREST if tree.operator in ("<", ">", "!=") else None,
            hint=hint,
            edit=_same_operator(scope, tree),
        )
        return []
    try:
        left, right = _forms(scope, tree.left, target), _forms(scope, tree.right, target)
        _require_room(scope, tree, target, before, left, right)
    except _Unlinear:
        return []
    differences = joined(left, tuple(f.times(Decimal(-1)) for f in right))
    line, words = _place(scope, tree)
    if not _says_something(scope, tree, differences):
        return []
    return [
        LinearConstraint(
            text=words,
            line=line,
            cells=len(target.cells),
            current=_without_zeros(form.current),
            previous=_without_zeros(form.previous),
            relation=tree.operator,  # type: ignore[arg-type]  # one of _RELATIONS
            bound=Decimal(0) - form.constant,
            span=tree.span,
        )
        for form in differences
    ]


def _without_zeros(coefficients: Coefficients) -> dict[int, Decimal]:
    return {index: value for index, value in coefficients.items() if value}


def _require_room(
    scope: Scope, tree: Comparison | Total, target: Target, before: Sequence[LinearConstraint], *sides: Forms
) -> None:
    """Nothing where all rows can be kept at once: of several values as a matrix, of single ones as they are."""
    rows = max(len(side) for side in sides)
    several = sum(max(len(form.current) + len(form.previous) for form in side) for side in sides) > 1
    matrix = rows * several + sum(len(row.current) + len(row.previous) > 1 for row in before)
    if matrix * len(target.cells) <= MOST_COEFFICIENTS:
        return
    scope.refuse(
        "E0209",
        f"{matrix:,} constraints on {len(target.cells):,} cells are more than can be kept at once",
        tree.span,
        because="the nearest values that satisfy all of them are found together",
        hint="constrain single cells, or their sum; or list fewer cells, larger ones",
    )
    raise _Unlinear


def _says_something(scope: Scope, tree: Comparison, forms: Forms) -> bool:
    """Whether every row constrains a value of the current step by numbers of sensible size."""
    numbers = [n for f in forms for n in (*f.current.values(), *f.previous.values(), f.constant)]
    if any(not n.is_finite() or abs(n) > LARGEST_NUMBER for n in numbers):
        scope.refuse(
            "E0209", "the numbers of this constraint are too large", tree.span, hint="write numbers below 1e15"
        )
        return False
    if all(f.current for f in forms):
        return True
    if any(f.previous for f in forms):
        scope.refuse(
            "E0606", "this constrains the past only", tree.span,
            because="the previous value is published and cannot change any more",
            hint="compare it with the value of this step: `NAME - previous(NAME) <= 40`".replace("NAME", "my_release"),
        )  # fmt: skip
        return False
    scope.refuse(
        "E0609", "this says nothing about the released values", tree.span, hint="name the release in it, or drop it"
    )
    return False


def _forms(scope: Scope, expression: Expression, target: Target) -> Forms:
    """One form, or one a cell."""
    if isinstance(expression, Name):
        return _named(scope, expression, target)
    if isinstance(expression, Previous):
        return _before(scope, expression, target)
    if isinstance(expression, Product):
        return _product(scope, expression, target)
    if isinstance(expression, Total):
        return _total(scope, expression, target)
    return (_scalar(scope, expression, target),)


def _scalar(scope: Scope, expression: Number | Cell | SumOf, target: Target) -> Form:
    if isinstance(expression, Cell):
        return _one_cell(scope, expression, target)
    if isinstance(expression, SumOf):
        return _summed(scope, expression, target)
    if abs(expression.value) > LARGEST_NUMBER:
        scope.refuse("E0209", "this number is too large", expression.span, hint="write a number below 1e15")
        raise _Unlinear
    return Form({}, {}, expression.value)


def _named(scope: Scope, name: Name, target: Target) -> Forms:
    if name.text == target.release:
        return tuple(Form({i: Decimal(1)}, {}) for i in range(len(target.cells)))
    if name.text != "population":
        _unpublished(scope, name, target)
        raise _Unlinear
    if target.population is None and scope.population_misread:
        raise _Unlinear  # what is said is no number of users, and was reported
    if target.population is None:
        scope.refuse(
            "E0603",
            "the stream does not say its `population`",
            name.span,
            because="only a number that is public already may shape what is published",
            hint="add `population 12_000` to the stream, if that number is public; under `neighbors = add_remove` it "
            "is not, so drop the constraint",
        )
        raise _Unlinear
    return (Form({}, {}, Decimal(target.population)),)


def _unpublished(scope: Scope, name: Name, target: Target) -> None:
    """A name that is not the block's own release: not a public number here (E0601)."""
    if name.text in target.others:
        hint = f"constrain `{target.release}` here, and `{name.text}` in a block of its own"
    else:
        hint = suggest(name.text, [target.release, "population"]).replace("write `", "write a number, `")
    scope.refuse(
        "E0601",
        f"`{name.text[:40]}` is not a published number here",
        name.span,
        because="a constraint on anything but the released values and public numbers would publish it through the back "
        "door",
        hint=hint,
    )


def _one_cell(scope: Scope, expression: Cell, target: Target) -> Form:
    if not _is_own(scope, expression.release, target):
        raise _Unlinear
    if target.by_cell and expression.cell.value in target.cells:
        return Form({target.cells.index(expression.cell.value): Decimal(1)}, {})
    problem = f"`{target.release}` has no cell `{expression.cell.value[:40]}`"
    hint = suggest(expression.cell.value, target.cells)
    if not target.by_cell:
        hint = f"write `{target.release}` alone: it is one number a step"
    scope.refuse("E0601", problem, expression.cell.span, hint=hint)
    raise _Unlinear


def _summed(scope: Scope, expression: SumOf, target: Target) -> Form:
    inner = _forms(scope, expression.argument, target)
    if len(inner) != len(target.cells):
        scope.refuse(
            "E0608",
            "this sum has one number in it",
            expression.span,
            hint=f"`sum` is over the cells: write `sum({target.release})`, or leave `sum` out",
        )
        raise _Unlinear
    return added_up(inner)


def _before(scope: Scope, expression: Previous, target: Target) -> Forms:
    inner = _forms(scope, expression.argument, target)
    if any(form.previous for form in inner):
        scope.refuse(
            "E0606", "`previous` of a `previous` is two steps back", expression.span,
            hint=f"only the step before can be named: `previous({target.release})`",
        )  # fmt: skip
        raise _Unlinear
    return tuple(Form({}, form.current, form.constant) for form in inner)


def _product(scope: Scope, expression: Product, target: Target) -> Forms:
    left, right = _forms(scope, expression.left, target), _forms(scope, expression.right, target)
    for constant, other in ((left, right), (right, left)):
        if len(constant) == 1 and constant[0].is_constant:
            return tuple(form.times(constant[0].constant) for form in other)
    scope.refuse(
        "E0604",
        "two released values are multiplied",
        expression.span,
        because="constraints must be linear, so that the nearest values that satisfy them can be found for certain",
        hint="multiply a released value by a number only",
    )
    raise _Unlinear


def _total(scope: Scope, expression: Total, target: Target) -> Forms:
    parts = [
        tuple(form.times(Decimal(term.sign)) for form in _forms(scope, term.term, target)) for term in expression.terms
    ]
    scalar = added_up(tuple(part[0] for part in parts if len(part) == 1))
    wide = [part for part in parts if len(part) > 1]
    if not wide:
        return (scalar,)
    _require_room(scope, expression, target, (), (scalar,), *wide)
    return tuple(added_up((scalar, *cell)) for cell in zip(*wide, strict=True))
