"""Releases that are made of released values alone, and cost no privacy: totals of blocks, ratios, means, changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from policyc.diagnostics.diagnostic import Label
from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind, kind_of
from policyc.semantics.policy import Baseline, CellSchema, Made, Release
from policyc.semantics.scope import Scope, spelt, suggest
from policyc.syntax.tree import LONGEST_HORIZON, Attribute, Name, Range, Value
from policyc.syntax.tree import Release as ReleaseTree

POPULATION = "population"
MADE_KINDS = ("total", "ratio", "mean", "change")
MADE_OF: Mapping[str, tuple[str, ...]] = {
    "total": ("count", "sum", "total"),
    "ratio": ("count", "sum", "prefix", "window", "total"),
    "mean": ("sum",),
    "change": ("count", "sum", "prefix", "window", "total", "ratio", "mean"),
}
"""What each may be made of; of a mean, a total of sums as well."""


def release_name(scope: Scope, value: Value, what: str) -> Name | None:
    """A release by its name alone."""
    if isinstance(value, Name):
        return value
    shown = scope.quote(value.span)
    remedy = f"the name of a release, which has a line of its own: `release NAME = {shown}`"
    if isinstance(value, Attribute):
        measured = f"`release total = sum({shown}, clamp = 0 .. 99)` and `release users = count({value.owner.text})`"
        remedy = f"the names of releases: {measured}; `mean(total, users)` divides one by the other"
    reading.mismatch(scope, value, what, "a name", remedy)
    return None


def _times(scope: Scope, value: Value, what: str) -> Decimal | None:
    read = reading.number(scope, value, what)
    if read is None or read > 0:
        return read
    scope.refuse("E0209", f"`{what}` is `{scope.quote(value.span)}`, and must be above 0", value.span,
                 hint="write `times = 100`, for percent")  # fmt: skip
    return None


def _steps_of_the_stream(scope: Scope, value: Value, what: str) -> tuple[int, int] | None:
    """`2 .. 36`: steps by their numbers, the first of the stream being 0."""
    if not isinstance(value, Range):
        reading.mismatch(scope, value, what, "a range of steps", "`steps = 2 .. 36`; the stream begins with step 0")
        return None
    low, high = value.low.value, value.high.value
    if low == int(low) and high == int(high) and 0 <= low <= high <= LONGEST_HORIZON:
        return int(low), int(high)
    scope.refuse(
        "E0234",
        f"`{scope.quote(value.span)}` are no steps of a stream",
        value.span,
        because="a baseline is made of fixed steps, by their numbers: the stream begins with step 0",
        hint="write the first and the last of them, such as `steps = 2 .. 36`",
    )
    return None


MEDIAN = (
    Parameter("every", reading.step_count, "every = 7 steps", required=False),
    Parameter("steps", _steps_of_the_stream, "steps = 2 .. 36",
              because="a baseline is made of fixed steps, all of which are published"),
)  # fmt: skip


def _baseline(scope: Scope, value: Value, what: str) -> Baseline | None:  # noqa: ARG001  every reader is told what for
    call = kind_of(scope, value, {"median": MEDIAN}, "baseline")
    bound = None if call is None else bind(scope, call, MEDIAN)
    steps = (bound or {}).get("steps")
    if bound is None or not isinstance(steps, tuple):
        return None
    every = bound.get("every", 1)
    return Baseline(every if isinstance(every, int) else 1, *steps)


_OF = Parameter("release", release_name, "my_release", positional=True)
MADE_QUERIES: Mapping[str, tuple[Parameter, ...]] = {
    "total": (
        _OF,
        Parameter("steps", reading.step_count, "24 steps", positional=True,
                  because="a total has a row for every so many steps"),
    ),
    "ratio": (
        _OF,
        Parameter("over", release_name, "my_count", positional=True),
        Parameter("times", _times, "times = 100", required=False),
    ),
    "mean": (
        Parameter("sum", release_name, "my_sum", positional=True),
        Parameter("count", release_name, "my_count", positional=True, because="a mean is a sum divided by a number"),
    ),
    "change": (
        _OF,
        Parameter("baseline", _baseline, "baseline = median(every = 7 steps, steps = 2 .. 36)",
                  because="a change is one from something that was published"),
    ),
}  # fmt: skip


def made_of(tree: ReleaseTree, bound: Mapping[str, object]) -> Made:
    """The release as it is written; cells, rows and names follow in `with_rows`."""
    of = bound.get("release", bound.get("sum"))
    over = bound.get("over", bound.get("count"))
    steps, times, baseline = bound.get("steps"), bound.get("times"), bound.get("baseline")
    assert isinstance(of, Name), "it is required"
    named = isinstance(over, Name) and over.text != POPULATION
    return Made(
        name=tree.name.text,
        kind=tree.query.function.text,  # type: ignore[arg-type]  # a key of MADE_QUERIES
        of=of.text,
        by=None,
        span=tree.span,
        over=over.text if isinstance(over, Name) and named else None,
        times=times if isinstance(times, Decimal) else Decimal(1),
        steps=steps if isinstance(steps, int) else 1,
        baseline=baseline if isinstance(baseline, Baseline) else None,
    )


def with_rows(scope: Scope, made: Sequence[Made], releases: Sequence[Release], cell: CellSchema | None) -> list[Made]:
    """All that have a meaning, each after what it is made of, with the cells and rows that follow from that.

    `cell` says what cells belong to at every level, where that is known. Kinds (E0231), rows (E0232) and cells (E0233)
    that do not fit are reported, and circles (E0222).
    """
    known: dict[str, Release | Made] = {release.name: release for release in releases}
    waiting = list(made)
    done: list[Made] = []
    while waiting:
        ready = [one for one in waiting if all(name not in {other.name for other in waiting} for name in _names(one))]
        if not ready:
            _circle(scope, waiting)
            break
        for one in ready:
            waiting.remove(one)
            parts = [known.get(name) for name in _names(one)]
            if None in parts:
                continue  # it was reported
            found = _fitted(scope, one, [part for part in parts if part is not None], known, cell)
            if found is not None:
                known[one.name] = found
                done.append(found)
    return done


def _names(one: Made) -> tuple[str, ...]:
    return (one.of,) if one.over is None else (one.of, one.over)


def _circle(scope: Scope, waiting: Sequence[Made]) -> None:
    first, *others = waiting
    scope.refuse(
        "E0222", f"release `{first.name}` is made of itself", first.span,
        hint="make one of them of a `count` or a `sum` of the stream",
        labels=tuple(Label(other.span, "through this one") for other in others),
    )  # fmt: skip


def _fitted(
    scope: Scope,
    one: Made,
    parts: Sequence[Release | Made],
    known: Mapping[str, Release | Made],
    cell: CellSchema | None,
) -> Made | None:
    for faults in (_kinds(one, parts, known), _rows(one, parts), _cells(parts, cell)):
        for message, because, hint, code in faults:
            labels = tuple(Label(part.span, "made of this") for part in parts)
            scope.refuse(code, message, one.span, because=because, hint=hint, labels=labels)
            return None
    base = parts[0]
    steps = one.steps if one.kind == "total" else rows_of(base)[0]
    first = rows_of(base)[1] if one.baseline is None else one.baseline.last + 1
    return replace(one, by=base.by, steps=steps, first=first)


def rows_of(part: Release | Made) -> tuple[int, int]:
    """Of how many steps a row is, and at which step the first one begins."""
    return (part.steps, part.first) if isinstance(part, Made) else (1, 0)


Fault = tuple[str, str | None, str, str]


def _kind_of(part: Release | Made, known: Mapping[str, Release | Made]) -> str:
    """What is counted in the end: of a total, what it adds up."""
    while isinstance(part, Made) and part.kind == "total":
        part = known[part.of]
    return part.kind


def _kinds(one: Made, parts: Sequence[Release | Made], known: Mapping[str, Release | Made]) -> Iterator[Fault]:
    base = parts[0]
    if one.kind == "mean":
        if _kind_of(base, known) != "sum":
            hint = f"name a sum first, or write `ratio({one.of}, {one.over or POPULATION})`"
            yield f"`{one.name}` is no mean: `{base.name}` is no sum", None, hint, "E0231"
        elif len(parts) > 1 and _kind_of(parts[1], known) != "count":
            hint = f"name a count second, or write `ratio({one.of}, {one.over})`"
            yield f"`{one.name}` is no mean: `{parts[1].name}` counts nothing", None, hint, "E0231"
        return
    because = {
        "total": "its values are totals of several steps or shares already, which do not add up over steps",
        "ratio": "it is a ratio already",
        "change": "it is a change already",
    }[one.kind]
    for part in parts:
        if part.kind not in MADE_OF[one.kind]:
            hint = f"name what it is made of: `{part.base if isinstance(part, Release) else part.of}`"
            yield f"a {one.kind} cannot be made of `{part.name}`, a {part.kind}", because, hint, "E0231"


def _rows(one: Made, parts: Sequence[Release | Made]) -> Iterator[Fault]:
    width, first = rows_of(parts[0])
    base = parts[0].name
    if one.kind == "total" and one.steps % width:
        near = max(one.steps // width, 1) * width
        message = f"blocks of {one.steps} steps cannot be made of `{base}`, whose rows are of {width}"
        yield message, None, f"write `total({base}, {near} steps)`", "E0232"
    if len(parts) > 1 and rows_of(parts[1]) != (width, first):
        other = rows_of(parts[1])[0]
        message = f"a row of `{base}` is of {_steps(width)}, and one of `{parts[1].name}` of {_steps(other)}"
        finer = base if width < other else parts[1].name
        hint = f"add `{finer}` up first: `release NAME = total({finer}, {max(width, other)} steps)`, and name that"
        yield message, "every row is divided by the row of the same steps", hint, "E0232"
    told = one.baseline
    if told is None:
        return
    if told.every % width or (told.first - first) % width or (told.last + 1 - first) % width:
        message = f"the baseline is not of whole rows of `{base}`, each of which is of {_steps(width)}"
        because = "steps are those of the stream, of which a row has several"
        begin = first + (told.first - first) // width * width
        end = first + max(-(-(told.last + 1 - first) // width), 1) * width - 1
        every = max(round(told.every / width), 1) * width
        yield message, because, f"write `median(every = {every} steps, steps = {begin} .. {end})`, say", "E0232"
    elif told.first < first:
        message = f"the baseline begins at step {told.first}, before the first row of `{base}`"
        yield message, None, f"begin it at step {first}", "E0234"


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"{count} steps"


def _cells(parts: Sequence[Release | Made], cell: CellSchema | None) -> Iterator[Fault]:
    """Whether every value of the first part has one of the second to be divided by."""
    base, *others = parts
    for over in others:
        if over.by in (None, base.by):
            continue
        if base.by is None:
            message = f"`{base.name}` is one number a row, and `{over.name}` one a cell"
            because = "one number divided by those of all cells is no number that means something"
            yield message, because, f"release `{base.name}` by cell, or divide by a release without `by`", "E0233"
        elif cell is not None and (several := cell.astride(base.by, over.by)) is not None:
            name, first, second = several
            message = f"`{name[:40]}` of `{base.name}` belongs to several of `{over.name}`"
            because = f"it belongs to `{first[:40]}` and to `{second[:40]}`, so it has no one number to be divided by"
            hint = f"divide by a release by `{base.by}`, or by a level to which each `{base.by}` belongs as a whole"
            yield message, because, hint, "E0233"


def check_operands(scope: Scope, tree: ReleaseTree, bound: Mapping[str, object], known: Sequence[str]) -> bool:
    """Whether every release that is named exists (E0204)."""
    others = [name for name in known if name != tree.name.text]
    whole = True
    for key, value in bound.items():
        if not isinstance(value, Name) or value.text in others:
            continue
        if value.text == POPULATION and key in ("over", "count"):
            continue
        whole = False
        if value.text == tree.name.text:
            hint = "name the release it is made of, such as one that is a `count`"
            scope.refuse("E0204", f"release `{value.text}` is made of itself", value.span, hint=hint)
        else:
            hint, edit = suggest(value.text, others), spelt(value, others)
            scope.refuse("E0204", f"there is no release `{value.text}`", value.span, hint=hint, edit=edit)
    return whole
