"""Dates along the axes of pictures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from policyc.emit.dates import DAY, HOUR, MINUTE, date_ticks, month_ticks

START = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize("step", [1_000, MINUTE, 5 * MINUTE, HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY])
@pytest.mark.parametrize("steps", [2, 7, 59, 288, 365, 2_000, 7_777])
def test_a_mark_stands_at_the_step_that_begins_at_its_date(step: int, steps: int) -> None:
    """Every name, read as a date, or as a time of the date before it, is that of its place; marks are few, in order."""
    marks = date_ticks(START, step, 0, steps - 1)
    if steps * step > 7_900 * 365 * DAY:
        assert not marks
        return
    assert len(marks) <= 7
    assert len({place for place, _ in marks}) == len(marks)
    assert [place for place, _ in marks] == sorted(place for place, _ in marks)
    day = ""
    for place, name in marks:
        assert 0 <= place <= steps - 1
        full = f"{day} {name}" if len(name) == 5 else name
        assert name != "00:00"
        day = full[:10]
        moment = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(milliseconds=round(place * step))
        formats = {4: "%Y", 7: "%Y-%m", 8: "%H:%M:%S", 10: "%Y-%m-%d", 16: "%Y-%m-%d %H:%M"}
        assert moment.strftime(formats[len(full)]) == full
        assert moment == datetime.strptime(full, formats[len(full)]).replace(tzinfo=UTC) or len(full) == 8


def test_a_date_stands_once() -> None:
    """Where a day has several marks: at its midnight alone, or at the first of all."""
    names = [name for _, name in date_ticks(START, MINUTE, 0, 1_439)]
    assert names == ["2026-01-05", "06:00", "12:00", "18:00"]
    names = [name for _, name in date_ticks(START + 7 * HOUR, HOUR, 0, 30)]
    assert names == ["2026-01-05 12:00", "2026-01-06", "12:00"]


def test_an_axis_of_any_length_has_marks() -> None:
    """From half a minute to centuries there are at least two dates to read."""
    for steps in (40, 500, 5_000, 50_000, 500_000, 5_000_000, 50_000_000, 500_000_000):
        assert 2 <= len(date_ticks(START, 1_000, 0, steps)) <= 7, steps


def test_beyond_the_calendar_there_is_none() -> None:
    """A stream that outlives the year 9999 keeps its steps."""
    assert date_ticks(START, 365 * DAY, 0, 100_000) == []


def test_months_are_marked_at_their_steps():
    """A mark where a month, a quarter or a year begins, at most six, by name; years alone where there are many."""
    assert month_ticks(START, 0, 3) == [(0, "2026-01"), (1, "2026-02"), (2, "2026-03"), (3, "2026-04")]
    for steps in range(1, 2000):
        marks = month_ticks(START, 0, steps)
        assert len(marks) <= 7, steps
        for step, name in marks:
            year, month = 2026 + step // 12, step % 12 + 1
            assert name in ((f"{year}-{month:02}", f"{year}") if month == 1 else (f"{year}-{month:02}",))
