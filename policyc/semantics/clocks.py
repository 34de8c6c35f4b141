"""The clock of a stream: from the name of a zone to a table of how far it is ahead of UTC, kept in the plan.

Zone rules change, so a plan carries what was known when it was compiled. The rules are those of this machine: Python's
`zoneinfo` takes the system's, else the package `tzdata`, which only systems without any need.
"""

from __future__ import annotations

import datetime
import difflib
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from policyc.diagnostics import Span
from policyc.semantics.lengths import DAY, MONTH, Clock, Length
from policyc.semantics.scope import Scope, spelt
from policyc.syntax.tree import Text

KNOWN_YEARS = 50  # of an endless stream
ONE_CITY = 0.8  # likeness of names that are one, misspelt: Munich is not Zurich
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NO_PLACE = {"Factory", "localtime", "posixrules"}  # what this machine happens to have
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND = datetime.timedelta(seconds=1)
_LAST = datetime.date(9999, 12, 30)
_BESIDE = 'add `start "2026-01-01"` to the stream: the date alone, which is midnight of its clock'


def resolve_clock(
    scope: Scope, zone: str, span: Span, start: str | None, step: Length, horizon: int | None, place: Span | None
) -> Clock | None:
    """The clock from `start` on to the end of the horizon, or through `KNOWN_YEARS`; None after reporting why not.

    Args:
        scope: may carry the clock of a plan that is held against its policy; then that one counts.
        zone: as written.
        span: where it is.
        start: of the stream, as written.
        step: its length.
        horizon: in steps; None for an endless stream.
        place: where `start` is.
    """
    known, day = scope.known_clock, _first_day(scope, start, step, place or span)
    if known is not None and known.zone == zone:
        return known if day is not None and _is_midnight(known, day) else None
    rules = _rules(scope, zone, span)
    if rules is None or day is None:
        return None
    try:
        begin = _midnight(day, rules)
        ahead = _ahead(rules, begin)
    except OverflowError:
        because, hint = "its midnight lies before the year 1", "begin in a year of which there may be data"
        scope.refuse("E0239", f"{zone} has no day {day}", place or span, because=because, hint=hint)
        return None
    if (begin + ahead) % (DAY // 1000):
        scope.refuse(
            "E0239", f"{zone} has no midnight on {day}", place or span,
            because="its clock is put forward there, over the beginning of this day",
            hint=f'begin a day later: `start "{day + datetime.timedelta(days=1)}"`',
        )  # fmt: skip
        return None
    end = _end(day, begin, rules, step, horizon)
    changes = _changes(rules, begin, end)
    if any(moment + ahead < begin + changes[0][1] for moment, ahead in changes):
        later = (day.replace(day=28) + datetime.timedelta(days=4)).replace(day=1)
        scope.refuse(
            "E0239", f"the clock of {zone} is put back into the day before {day}, when that has begun", place or span,
            because="what happens then would lie before step 0, and be counted nowhere",
            hint=f'begin later: `start "{later if step == MONTH else day + datetime.timedelta(days=1)}"`',
        )  # fmt: skip
        return None
    return Clock(zone, changes, end, span)


def _first_day(scope: Scope, start: str | None, step: Length, place: Span) -> datetime.date | None:
    """The day that `start` says, or None after reporting that it says none, or no first one of a month."""
    if start is not None and _DATE.fullmatch(start):
        day = datetime.date.fromisoformat(start)
        if step != MONTH or day.day == 1:
            return day
        message, because = f"a month does not begin on day {day.day}", "step 0 would be a part of a month"
        scope.refuse("E0239", message, place, because=because, hint=f'write `start "{day.replace(day=1)}"`')
        return None
    message = "a stream by a clock begins at midnight, and `start` says another moment"
    hint = f'write the date alone: `start "{(start or "")[:10]}"`'
    if start is None:
        message, hint = "a stream by a clock does not say when it begins", _BESIDE
    because = "days and months begin at midnight there, and the plan says from then on how its clock goes"
    scope.refuse("E0239", message, place, because=because, hint=hint)
    return None


def _is_midnight(clock: Clock, day: datetime.date) -> bool:
    """Whether a clock of a plan begins with a day, by its own table."""
    moment, ahead = clock.changes[0]
    return _EPOCH + (moment + ahead) * _SECOND == datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)


def _rules(scope: Scope, zone: str, span: Span) -> ZoneInfo | None:
    names = available_timezones() - _NO_PLACE
    if not names:
        scope.refuse(
            "E0237", "this machine does not know any clock", span,
            because="neither the system nor Python has the rules of time zones",
            hint="install them: `pip install tzdata`",
        )  # fmt: skip
        return None
    try:
        if zone in names:
            return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        pass
    places = {name for name in names if _same_place(zone, name)}  # and no abbreviation: EST is far from CEST
    near = max(sorted(places), key=lambda name: _likeness(zone, name), default=None)
    hint = 'write a zone as the IANA names it, by one of its large cities: `clock "Europe/Berlin"`'
    hint = hint if near is None else f"did you mean `{near}`?"
    edit = spelt(Text(span, zone), places)
    scope.refuse("E0237", f"there is no clock `{scope.quote(span)[1:-1]}`", span, hint=hint, edit=edit)
    return None


def _same_place(written: str, name: str) -> bool:
    """Whether a name may be what was meant: its city is spelt nearly so."""
    city, meant = (text.rpartition("/")[2] for text in (written, name))
    return "/" in name and _likeness(city, meant) >= ONE_CITY


def _likeness(written: str, name: str) -> float:
    """From 0 to 1."""
    one, other = (text.lower().replace(" ", "_") for text in (written, name))
    return difflib.SequenceMatcher(None, one, other).ratio()


def _ahead(rules: ZoneInfo, moment: int) -> int:
    """How many seconds the clock is ahead of UTC at a moment, in seconds since 1970."""
    offset = (_EPOCH + moment * _SECOND).astimezone(rules).utcoffset()
    assert offset is not None, "it is of a zone"
    return offset // _SECOND


def _midnight(day: datetime.date, rules: ZoneInfo) -> int:
    """The moment when a day begins."""
    return (datetime.datetime(day.year, day.month, day.day, tzinfo=rules) - _EPOCH) // _SECOND


def _end(day: datetime.date, begin: int, rules: ZoneInfo, step: Length, horizon: int | None) -> int:
    """The moment until which the clock has to be known, at most that of the year 9999."""
    try:
        if horizon is None:
            last = datetime.date(day.year + KNOWN_YEARS, 1, 1)
        elif step == MONTH:
            years, month = divmod(day.month - 1 + horizon, 12)
            last = datetime.date(day.year + years, month + 1, 1)
        elif step < DAY:
            return min(begin + -(-horizon * step // 1000), _midnight(_LAST, rules))
        else:
            last = day + datetime.timedelta(milliseconds=step) * horizon
        return _midnight(min(last, _LAST), rules)
    except (OverflowError, ValueError):
        return _midnight(_LAST, rules)


def _changes(rules: ZoneInfo, begin: int, end: int) -> tuple[tuple[int, int], ...]:
    """From when on it is how far ahead: looked for day by day, and then by halves."""
    found = [(begin, _ahead(rules, begin))]
    moment = begin
    while moment < end:
        later, offset = min(moment + DAY // 1000, end), found[-1][1]
        if _ahead(rules, later) != offset:
            before, after = moment, later
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if _ahead(rules, middle) == offset else (before, middle)
            if after >= end:
                break
            found.append((after, _ahead(rules, after)))
            later = after
        moment = later
    return tuple(found)
