"""The stream: whose events, when, where, how long a step is and how many there are."""

from __future__ import annotations

import calendar
import datetime
import re
from typing import cast

from policyc.diagnostics import Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics import reading
from policyc.semantics.cells import resolve_cells
from policyc.semantics.clocks import resolve_clock
from policyc.semantics.lengths import DAY, MONTH, Length
from policyc.semantics.policy import Stream
from policyc.semantics.scope import Scope, suggest
from policyc.syntax.tree import CellField, Name, StreamField, Value
from policyc.syntax.tree import Stream as StreamTree

_OUTPUT = ("step", "time", "noisy", "released", "simulated")  # the columns of a released file beside the cell
_FIRST = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)  # a day of room for every zone, as for data
_FIELDS = ("user", "time", "cell", "step", "horizon", "population", "start", "clock", "dataset")
_MISSING = {
    "user": ("`user my_column`, the column that says whose event it is", "without it nobody is protected"),
    "time": ("`time my_column`", None),
    "step": ("`step 5min`, say", "the step decides how often something is published"),
    "horizon": (
        "`horizon 288 steps`, or `horizon unbounded`",
        "leakage grows with every step, so the number of steps is part of the promise",
    ),
}


def resolve_stream(scope: Scope, tree: StreamTree) -> Stream | None:
    """The stream, or None after reporting everything that is wrong with it."""
    fields = _by_keyword(scope, tree)
    length = cast(Length | None, _field(scope, fields, "step", reading.length))
    step = 31 * DAY if length == MONTH else length
    scope.step_milliseconds = step if length != MONTH else None
    user = _field(scope, fields, "user", reading.column)
    time = _field(scope, fields, "time", reading.column)
    horizon = _field(scope, fields, "horizon", _horizon)
    population = _field(scope, fields, "population", reading.whole)
    scope.population_misread = "population" in fields and population is None
    start = _field(scope, fields, "start", _start)
    zone = _field(scope, fields, "clock", reading.field_text)
    dataset = _field(scope, fields, "dataset", _dataset)
    cell_field = fields.get("cell")
    cell = resolve_cells(scope, cell_field) if isinstance(cell_field, CellField) else None
    for keyword, (example, because) in _MISSING.items():
        if keyword not in fields:
            message = f"stream `{tree.name.text}` does not say its `{keyword}`"
            scope.refuse("E0206", message, tree.name.span, because=because, hint=f"add {example}")
    split = [] if cell is None else [cell.column, *(level.column for level in cell.levels)]
    columns = [c for c in (user, time, *split) if isinstance(c, str)]
    for column in split:
        if cell is not None and column.casefold() in _OUTPUT:
            whose = "the cell's column" if column == cell.column else "the level"
            scope.refuse(
                "E0224", f"a released file has another column `{column.lower()}`", cell.span,
                because="a release has the columns `step`, `time`, the cell, `noisy` and `released`, and simulated "
                "ones `simulated`; many readers take capitals for the same",
                hint=f"name {whose} otherwise in the data and here, such as `{tree.name.text}_{column}`",
            )  # fmt: skip
    for named in (user, time):
        if isinstance(named, str):
            require_unmarked(scope, named, tree.name.span)
    if isinstance(step, int):
        _check_years(scope, fields, start if isinstance(start, str) else None, step, horizon)
    alike = [c.casefold() for c in columns]
    if len(set(alike)) < len(alike):
        twice = next(c for c in columns if alike.count(c.casefold()) > 1)
        scope.refuse(
            "E0203", f"column `{twice}` has two meanings in this stream", tree.name.span,
            hint="give `user`, `time`, `cell` and every level a column each",
        )  # fmt: skip
    if not isinstance(user, str) or not isinstance(time, str) or not isinstance(step, int) or horizon is None:
        return None
    if cell is None and "cell" in fields:
        return None
    clock = None
    if isinstance(zone, str) and length is not None and ("start" not in fields or start is not None):
        steps = horizon if isinstance(horizon, int) and not isinstance(horizon, bool) else None
        places = _span(fields, "clock") or tree.span, _span(fields, "start")
        said = start if isinstance(start, str) else None
        clock = resolve_clock(scope, zone, places[0], said, length, steps, places[1])
    return Stream(
        name=tree.name.text,
        user=user,
        time=time,
        cell=cell,
        step_milliseconds=step,
        step_text=MONTH if length == MONTH else scope.quote(_span(fields, "step") or tree.span),
        horizon=horizon if isinstance(horizon, int) and not isinstance(horizon, bool) else None,
        population=population if isinstance(population, int) else None,
        start=start if isinstance(start, str) else None,
        span=tree.span,
        horizon_span=_span(fields, "horizon") or tree.span,
        population_span=_span(fields, "population"),
        clock=clock,
        dataset=dataset if isinstance(dataset, str) else None,
    )


def _by_keyword(scope: Scope, tree: StreamTree) -> dict[str, CellField | StreamField]:
    fields: dict[str, CellField | StreamField] = {}
    for field in tree.fields:
        keyword = "cell" if isinstance(field, CellField) else field.keyword.text
        if keyword not in _FIELDS:
            hint = suggest(keyword, _FIELDS)
            scope.refuse("E0205", f"a stream has no `{keyword}`", field.span, hint=hint)
        elif keyword in fields:
            first = (Label(fields[keyword].span, "first said here"),)
            scope.refuse("E0207", f"`{keyword}` is given twice", field.span, hint="keep one of the two", labels=first)
        else:
            fields[keyword] = field
    return fields


def _field(
    scope: Scope, fields: dict[str, CellField | StreamField], keyword: str, read: reading.Reader
) -> object | None:
    field = fields.get(keyword)
    return read(scope, field.value, keyword) if isinstance(field, StreamField) else None


def _span(fields: dict[str, CellField | StreamField], keyword: str) -> Span | None:
    field = fields.get(keyword)
    return field.value.span if isinstance(field, StreamField) else None


def _horizon(scope: Scope, value: Value, what: str) -> int | bool | None:
    """A number of steps; False for a stream that never ends, which is not the same as not said."""
    if isinstance(value, Name):
        if value.text == "unbounded":
            return False
        hint = suggest(value.text, ["unbounded"])
        scope.refuse("E0205", f"`horizon` cannot be `{value.text}`", value.span, hint=hint)
        return None
    return reading.step_count(scope, value, what)


def require_unmarked(scope: Scope, column: str, span: Span) -> None:
    """Refuses the column that simulated events are known by: no events that have it would ever be released."""
    if column.casefold() == _OUTPUT[-1]:
        scope.refuse(
            "E0224", f"a column `{column.lower()}` says that events are simulated", span,
            because="what is made of such events is marked NOT A RELEASE, whoever made them",
            hint="name the column otherwise in the data and here",
        )  # fmt: skip


def _dataset(scope: Scope, value: Value, what: str) -> str | None:
    """The name of the data set whose account this plan shares with others."""
    if isinstance(value, Name):
        return value.text
    reading.mismatch(scope, value, what, "a name", "`dataset city_trips`")
    return None


def _start(scope: Scope, value: Value, what: str) -> str | None:
    """The first step's begin: an ISO date or timestamp."""
    read = reading.field_text(scope, value, what)
    if read is None:
        return None
    try:
        datetime.datetime.fromisoformat(read)
    except ValueError:
        message, hint = _no_date(read)
        scope.refuse("E0209", message, value.span, hint=hint)
        return None
    return read


def _check_years(
    scope: Scope, fields: dict[str, CellField | StreamField], start: str | None, step: int, horizon: object
) -> None:
    """All steps of the horizon, or the first of an endless one, lie between the years 1 and 9999."""
    begin = _FIRST if start is None else datetime.datetime.fromisoformat(start)
    begin = begin if begin.tzinfo else begin.replace(tzinfo=datetime.UTC)
    steps = horizon if horizon and isinstance(horizon, int) else 1
    if begin < _FIRST:
        scope.refuse(
            "E0209", "`start` lies before the year 1", _span(fields, "start") or Span(0, 0),
            because="the zone that it is said in is ahead of UTC", hint="write a later moment",
        )  # fmt: skip
    elif step * steps > (_LAST - begin) // datetime.timedelta(milliseconds=1):
        after = f"{steps:_} steps" if steps > 1 else "the first step"
        place = _span(fields, "horizon") if steps > 1 and start is None else _span(fields, "start")
        scope.refuse(
            "E0209", f"{after} of this stream end after the year 9999", place or _span(fields, "step") or Span(0, 0),
            because="no calendar of a release has such dates",
            hint="write shorter steps, fewer of them, or an earlier `start`",
        )  # fmt: skip


def _no_date(written: str) -> tuple[str, str]:
    """Why a text is no moment, and what to write."""
    day = re.match(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?![0-9])", written)
    if day is None:
        return "`start` is not a date", 'write the year first: `"2013-01-01"` or `"2013-01-01T06:00"`'
    year, month, number = (int(part) for part in day.groups())
    if not (year and 1 <= month <= 12):
        return (
            f"`start` is not a date: there is no month {month}"
            if year
            else "`start` is not a date: there is no year 0",
            'write year, month and day: `"2013-01-31"`',
        )
    last = calendar.monthrange(year, month)[1]
    if not 1 <= number <= last:
        name = f"{calendar.month_name[month]} {year}"
        return (
            f"`start` is not a date: {name} has {last} days",
            f'write a day that there is, such as `"{year:04}-{month:02}-{last:02}"`',
        )
    zone = re.search(r"[+-][0-9]{2}(:?[0-9]{2})*$", written[day.end() :])
    what = "`start` has no such time of day" if zone is None else "`start` has no such time of day, or no such zone"
    return what, f'write it as `"{day.group()}T06:00"`, `"{day.group()}T06:00Z"` or `"{day.group()}T06:00+02:00"`'
