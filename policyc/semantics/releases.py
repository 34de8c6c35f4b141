"""Releases: what is published, and of which stream or release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from policyc.diagnostics import Edit, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind, kind_of
from policyc.semantics.cells import column_of
from policyc.semantics.made import MADE_QUERIES, check_operands, made_of
from policyc.semantics.policy import Made, Release
from policyc.semantics.scope import Scope, spelt, suggest
from policyc.semantics.streams import require_unmarked
from policyc.syntax.tree import Attribute, Call, Name, Range, Value
from policyc.syntax.tree import Release as ReleaseTree


@dataclass(frozen=True)
class Names:
    """What a release can refer to: the stream, the columns of its cell and levels, and the other releases."""

    stream: str
    columns: tuple[str, ...]
    releases: tuple[str, ...]


def _name(scope: Scope, value: Value, what: str) -> Name | None:
    if isinstance(value, Name):
        return value
    remedy = "the name alone, without quotes or column"
    if isinstance(value, Call):
        remedy = f"the name of another release, which has a line of its own: `release NAME = {scope.quote(value.span)}`"
    reading.mismatch(scope, value, what, "a name", remedy)
    return None


def _column_of(scope: Scope, value: Value, what: str) -> Attribute | None:
    if isinstance(value, Attribute):
        require_unmarked(scope, value.attribute.text, value.attribute.span)
        return value
    reading.mismatch(scope, value, what, "a column of the stream", "`sum(my_stream.my_column, clamp = 0 .. 130)`")
    return None


def _clamp(scope: Scope, value: Value, what: str) -> tuple[Decimal, Decimal] | None:
    if not isinstance(value, Range):
        reading.mismatch(scope, value, what, "a range", "`clamp = 0 .. 130`")
        return None
    low, high = reading.number(scope, value.low, what), reading.number(scope, value.high, what)
    return None if low is None or high is None else (low, high)


_CLAMP = Parameter(
    "clamp", _clamp, "clamp = 0 .. 130", because="without it one user can change the sum by any amount"
)  # fmt: skip
_CELLS = Parameter("cells_per_step", reading.whole, "cells_per_step = 3", required=False)
QUERIES: Mapping[str, tuple[Parameter, ...]] = {
    "count": (Parameter("stream", _name, "count(my_stream)", positional=True), _CELLS),
    "sum": (Parameter("column", _column_of, "my_stream.my_column", positional=True), _CLAMP, _CELLS),
    "prefix": (Parameter("release", _name, "prefix(my_release)", positional=True),),
    "window": (
        Parameter("release", _name, "my_release", positional=True),
        Parameter("width", reading.step_count, "7 steps", positional=True,
                  because="the width is the sensitivity: one event is in that many windows"),
    ),
}  # fmt: skip


def resolve_release(scope: Scope, tree: ReleaseTree, names: Names | None) -> Release | Made | None:
    """The release, or None after reporting what is wrong; names are looked up when the stream is known."""
    call = kind_of(scope, tree.query, {**QUERIES, **MADE_QUERIES}, "release")
    if call is None:
        return None
    resolve = _resolve_made if call.function.text in MADE_QUERIES else _resolve_measured
    return resolve(scope, tree, call, names)


def _resolve_measured(scope: Scope, tree: ReleaseTree, call: Call, names: Names | None) -> Release | None:
    """A count or sum, or what is made of the noisy values of one."""
    kind = call.function.text
    if kind == "sum" and not any(a.name is not None or isinstance(a.value, Range) for a in call.arguments):
        scope.refuse(
            "E0218",
            "a sum needs a `clamp`",
            call.span,
            because=_CLAMP.because,
            hint="add `clamp = 0 .. 130`, the range that one value is cut to",
        )
        return None
    bound = bind(scope, call, QUERIES[kind])
    if bound is None:
        return None
    owner = next(v for v in bound.values() if isinstance(v, (Name, Attribute)))
    owner_name = owner.owner if isinstance(owner, Attribute) else owner
    if names is not None and not _known(scope, tree, kind, owner_name, names):
        return None
    if tree.by is not None and not _by_cells(scope, tree, kind, names):
        return None
    clamp, width, cells = bound.get("clamp"), bound.get("width"), bound.get("cells_per_step")
    of_release = kind in ("prefix", "window")
    return Release(
        name=tree.name.text,
        kind=kind,  # type: ignore[arg-type]  # a key of QUERIES
        stream=names.stream if names is not None else owner_name.text,
        by=None if tree.by is None else column_of(tree.by),
        span=tree.span,
        column=owner.attribute.text if isinstance(owner, Attribute) else None,
        clamp=clamp if isinstance(clamp, tuple) else None,
        base=owner_name.text if of_release else None,
        width=width if isinstance(width, int) else None,
        cells_per_step=cells if isinstance(cells, int) else None,
    )


def _resolve_made(scope: Scope, tree: ReleaseTree, call: Call, names: Names | None) -> Made | None:
    """A release that is made of released values."""
    kind = call.function.text
    bound = bind(scope, call, MADE_QUERIES[kind])
    if bound is None or (names is not None and not check_operands(scope, tree, bound, names.releases)):
        return None
    if tree.by is not None and not _by_cells(scope, tree, kind, names):
        return None
    return made_of(tree, bound)


def _known(scope: Scope, tree: ReleaseTree, kind: str, owner: Name, names: Names) -> bool:
    """Whether the stream or release that a query names exists (E0204)."""
    of_release = kind in ("prefix", "window")
    known = [r for r in names.releases if r != tree.name.text] if of_release else [names.stream]
    if owner.text in known:
        return True
    what = "release" if of_release else "stream"
    if of_release and owner.text == tree.name.text:
        hint = "name the release it is made of, such as one that is a `count`"
        scope.refuse("E0204", f"release `{owner.text}` is made of itself", owner.span, hint=hint)
        return False
    hint, edit = suggest(owner.text, known), spelt(owner, known)
    scope.refuse("E0204", f"there is no {what} `{owner.text}`", owner.span, hint=hint, edit=edit)
    return False


def _by_cells(scope: Scope, tree: ReleaseTree, kind: str, names: Names | None) -> bool:
    """Whether `by` names the stream's cell or a level of it; a release can be split by nothing else (E0220)."""
    if names is None or tree.by is None:
        return True
    column = column_of(tree.by)
    if kind in ("prefix", "window", *MADE_QUERIES):
        hint = "leave `by` out: the release it is made of decides"
        without = Span(tree.query.span.end, tree.by.span.end)
        edit = None if "#" in scope.source.text[without.start : without.end] else Edit(without, "")
        scope.refuse("E0220", f"a {kind} is split as its release is", tree.by.span, hint=hint, edit=edit)
        return False
    if column in names.columns:
        return True
    hint = suggest(column, names.columns) if names.columns else f'add `cell {column} in {{"A", "B"}}` to the stream'
    which = "cell or its levels only, and `{}` is none" if len(names.columns) > 1 else "cell only, and `{}` is not it"
    scope.refuse(
        "E0220",
        f"a release can be split by the stream's {which.format(column[:40])}",
        tree.by.span,
        because="the values of any other column are known from the protected data alone",
        hint=hint,
        edit=spelt(tree.by, names.columns),
    )
    return False


def inherit_cells(scope: Scope, releases: list[Release], made: list[Made]) -> list[Release]:
    """Gives a prefix or window the cells of the release it is made of; a circle is refused (E0222).

    So is one of what is `made` of released values (E0231): its noise is measured or added up before.
    """
    from dataclasses import replace

    by_name = {release.name: release for release in releases}
    later = {one.name: one for one in made}
    result = []
    for release in releases:
        if release.base in later:
            one = later[release.base]
            scope.refuse(
                "E0231", f"a {release.kind} cannot be made of `{one.name}`, a {one.kind} of released values",
                release.span, because="running totals and windows are made of noisy values, before any estimate",
                hint=f"name a count or a sum, such as `{one.of}`, or write `total(...)`",
                labels=(Label(one.span, "made of this"),),
            )  # fmt: skip
        base, seen = release, {release.name}
        while base.base is not None and base.base in by_name and base.base not in seen:
            base = by_name[base.base]
            seen.add(base.name)
        if base.base in seen:
            scope.refuse(
                "E0222", f"release `{release.name}` is made of itself", release.span,
                hint="make one of them a `count` or a `sum` of the stream",
                labels=(Label(base.span, "through this one"),) if base is not release else (),
            )  # fmt: skip
        result.append(replace(release, by=base.by))
    return result
