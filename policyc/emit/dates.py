"""Dates along the axis of steps: few, round, and read without counting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
SPACINGS = [  # of marks, in milliseconds; each divides a day, or is counted in days
    *(SECOND * n for n in (1, 5, 15, 30)), *(MINUTE * n for n in (1, 5, 15, 30)), *(HOUR * n for n in (1, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14)),
]  # fmt: skip
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 6_000)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_DATES, MOST_MOMENTS = 6, 4  # marks; a moment may have a longer name


def date_ticks(start: int, step: int, first: float, last: float) -> list[tuple[float, str]]:
    """Where round dates lie among steps, and what they are called.

    Args:
        start: the moment of step 0, in milliseconds since 1970 (UTC).
        step: its length, in milliseconds.
        first: step at which the axis begins.
        last: step at which it ends.

    Returns:
        Steps, not always whole, with names such as `2026-01-05`; empty where no calendar reaches. Of moments of a day
        the first has its date, each day's midnight is its date, and the others are times such as `06:00`.
    """
    low, high = start + first * step, start + last * step
    try:
        for spacing in SPACINGS:
            most = MOST_DATES if spacing >= DAY else MOST_MOMENTS
            if high - low < spacing * most:
                found = _placed(_regular(low, spacing), start, step, high, _name_of(spacing))
                return _shortened(found) if MINUTE <= spacing < DAY else found
        for months in MONTHS:
            if high - low < 30 * DAY * months * MOST_DATES:
                return _placed(_monthly(low, months), start, step, high, "%Y-%m" if months < 12 else "%Y")
    except (OverflowError, ValueError):  # beyond the year 9999
        pass
    return []


def month_ticks(start: int, first: float, last: float) -> list[tuple[float, str]]:
    """The same where steps are calendar months, the first of which begins at `start`."""
    begun = EPOCH + timedelta(milliseconds=start)
    begin = begun.year * 12 + begun.month - 1
    for months in MONTHS:
        if last - first < months * MOST_DATES:
            steps = range(math.ceil(first), math.floor(last) + 1)
            marked = (step for step in steps if (begin + step) % months == 0 and begin + step < 120_000)
            name = "{0:04}-{1:02}" if months < 12 else "{0:04}"
            return [(step, name.format((begin + step) // 12, (begin + step) % 12 + 1)) for step in marked]
    return []


def _name_of(spacing: int) -> str:
    if spacing >= DAY:
        return "%Y-%m-%d"
    return "%Y-%m-%d %H:%M" if spacing >= MINUTE else "%H:%M:%S"


def _shortened(found: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Full names would run into each other at a phone's width: the date stands where it begins."""
    shortened, before = [], ""
    for place, name in found:
        day, time = name.split(" ")
        shortened.append((place, day if time == "00:00" else time if day == before else name))
        before = day
    return shortened


def _placed(moments: Iterator[datetime], start: int, step: int, high: float, name: str) -> list[tuple[float, str]]:
    before: Callable[[datetime], bool] = lambda moment: _milliseconds(moment) <= high  # noqa: E731
    found = takewhile(before, moments)
    return [((_milliseconds(moment) - start) / step, moment.strftime(name)) for moment in found]


def _regular(low: float, spacing: int) -> Iterator[datetime]:
    """Every so many milliseconds, from a multiple on: a Monday for weeks."""
    offset = 4 * DAY if spacing % (7 * DAY) == 0 else 0  # 1970-01-05 was a Monday
    count = -int(-(low - offset) // spacing)
    while True:
        yield EPOCH + timedelta(milliseconds=offset + count * spacing)
        count += 1


def _monthly(low: float, months: int) -> Iterator[datetime]:
    begun = EPOCH + timedelta(milliseconds=low)
    count = (begun.year * 12 + begun.month - 1) // months * months
    while True:
        moment = datetime(count // 12, count % 12 + 1, 1, tzinfo=UTC)
        if _milliseconds(moment) >= low:
            yield moment
        count += months


def _milliseconds(moment: datetime) -> int:
    return round((moment - EPOCH) / timedelta(milliseconds=1))
