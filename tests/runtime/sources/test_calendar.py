"""Time divided by a clock, held against the rules of the zone: each moment, day and month by itself."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from policyc.planning.draft import draft_of
from policyc.semantics.checked import check_file
from policyc_check.plan.plan import Stated
from policyc_check.plan.stream import DAY, ClockRecord
from policyc_check.users.claims import period_of
from policyc_runtime.beyond import periods_in
from policyc_runtime.sources.calendar import Calendar, Clock, calendar_of
from policyc_runtime.sources.tables import connect

POLICY = """policy days "Days of a city"
stream seen {{
  user person  time at  step {step}  horizon {horizon} steps  start "{start}"  clock "{zone}"
}}
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove, per = {per})
participation at_most(1 steps, per = {per}, enforced = keep_first)
"""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR, MICRO = 3_600_000_000, timedelta(microseconds=1)
# a change of an hour, of half an hour, at midnight, over midnight, of a whole day that is left out, and none
CASES = [
    ("Europe/Berlin", "2025-01-01", "1h", 9000, "1d"),
    ("Europe/Berlin", "2025-01-01", "1h", 9000, "month"),
    ("America/Los_Angeles", "2025-01-01", "1d", 800, "month"),
    ("America/Los_Angeles", "2025-01-05", "1w", 60, "1d"),
    ("Australia/Lord_Howe", "2025-02-01", "30min", 18_000, "1d"),
    ("America/Havana", "2025-01-01", "1h", 9000, "1d"),
    ("Africa/Cairo", "2025-01-01", "1h", 9000, "1d"),
    ("America/St_Johns", "2010-01-01", "1min", 500_000, "1d"),
    ("Pacific/Apia", "2011-11-01", "1h", 2400, "1d"),
    ("Pacific/Apia", "2011-11-01", "month", 5, "1d"),
    ("UTC", "2024-01-01", "1d", 800, "month"),
    ("Europe/Berlin", "2024-02-01", "month", 24, "month"),
    ("Europe/Berlin", "2025-10-20", "1d", 20, "1h"),
    ("Europe/Berlin", "2025-01-01", "1d", 400, "1w"),
]


def stated(folder: Path, zone: str, start: str, step: str, horizon: int, per: str) -> Stated:
    (folder / "days.policy").write_text(
        POLICY.format(zone=zone, start=start, step=step, horizon=horizon, per=per), encoding="utf-8"
    )
    return draft_of(check_file(folder / "days.policy")[2], {})


def start_of(plan: Stated) -> int:
    assert plan.stream.clock is not None
    return plan.stream.clock.changes[0][0] * 1_000_000


def shown(moment: int, zone: str) -> datetime:
    return (EPOCH + moment * MICRO).astimezone(ZoneInfo(zone))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_hour_lies_in_the_day_and_month_that_the_zone_shows(case, tmp_path):
    """All quarters of an hour of the stream, by the rules of the zone; the same in SQL."""
    zone, start, step, horizon, per = case
    plan = stated(tmp_path, *case)
    calendar = calendar_of(plan, start_of(plan))
    end = int(calendar.steps.begin(np.array([horizon]))[0])
    moments = np.arange(start_of(plan), end, HOUR // 4)[:60_000]
    local = [shown(moment, zone) for moment in moments.tolist()]
    first = date.fromisoformat(start)
    days = np.array([(at.date() - first).days for at in local])
    months = np.array([(at.year - first.year) * 12 + at.month - first.month for at in local])
    elapsed = (moments - moments[0]) // 1000
    kinds = {"1d": days, "1w": days // 7, "month": months, "1h": elapsed // 3_600_000}
    kinds |= {"30min": elapsed // 1_800_000, "1min": elapsed // 60_000}
    assert calendar.periods is not None
    connection = connect()
    connection.register("event", {"moment": moments})
    for division, length in ((calendar.steps, step), (calendar.periods, per)):
        assert np.array_equal(division.of(moments), kinds[length])
        found = connection.execute(f"SELECT {division.sql('moment')} AS piece FROM event").fetchnumpy()
        assert np.array_equal(found["piece"], kinds[length])
        begins = division.begin(np.arange(division.of(moments[-1:])[0] + 1))
        held = np.searchsorted(begins, moments, side="right") - 1
        if zone not in ("America/St_Johns", "Pacific/Apia"):  # there a day comes back for an hour, or is left out
            assert np.array_equal(held, division.of(moments))
    connection.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_period_has_more_steps_than_the_check_says_and_one_has_as_many(case, tmp_path):
    """Steps counted one by one in every period, or periods in every step: the largest number is the check's."""
    zone, *_ = case
    plan = stated(tmp_path, *case)
    calendar, horizon = calendar_of(plan, start_of(plan)), plan.stream.horizon
    assert horizon is not None
    assert calendar.periods is not None
    claimed = period_of(plan)
    assert claimed is not None
    end = int(calendar.steps.begin(np.array([horizon]))[0])
    moments = np.arange(start_of(plan), end, 60_000_000)
    pairs = np.unique(np.stack([calendar.steps.of(moments), calendar.periods.of(moments)]), axis=1)
    several = claimed >= 1
    most = int(np.bincount(pairs[1] if several else pairs[0]).max())
    assert most <= (claimed if several else 1 / claimed)
    if zone not in ("Pacific/Apia", "America/St_Johns"):  # there a day is left out, or a minute of the next comes first
        assert claimed == (Fraction(most) if several else Fraction(1, most))
    if several:
        assert np.bincount(pairs[0]).max() == 1  # no step lies in two periods
    else:
        assert np.bincount(pairs[1]).max() == 1
    clock = plan.stream.clock
    assert clock is not None
    assert clock.periods == len(np.unique(pairs[1])) + (zone == "Pacific/Apia" and calendar.periods.clock is not None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zone", sorted({case[0] for case in CASES}))
def test_what_a_clock_shows_is_one_moment(zone, tmp_path):
    """Of an hour that comes twice the first, of one left out as if the clock were not put forward: as Python says."""
    plan = stated(tmp_path, zone, "2010-01-01", "1d", 700, "1d")
    assert plan.stream.clock is not None
    clock = Clock.of(plan.stream.clock)
    local = np.arange(0, 690 * 96) * (HOUR // 4) + (datetime(2010, 1, 1, tzinfo=UTC) - EPOCH) // MICRO
    moments = clock.moment_of(local)
    for said, moment in zip(local[::7].tolist(), moments[::7].tolist(), strict=True):
        naive = (EPOCH + said * MICRO).replace(tzinfo=ZoneInfo(zone))
        assert moment == (naive.astimezone(UTC) - EPOCH) // MICRO
    connection = connect()
    connection.register("event", {"said": local})
    found = connection.execute(f"SELECT {clock.moment_sql('said')} AS moment FROM event").fetchnumpy()
    connection.close()
    assert np.array_equal(found["moment"], moments)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Tehran", "Asia/Gaza"]
)
def test_the_table_has_every_change(zone, tmp_path):
    """Hour by hour through 20 years, with the half-hours between."""
    plan = stated(tmp_path, zone, "2010-03-02", "1d", 7300, "1d")
    assert plan.stream.clock is not None
    clock = Clock.of(plan.stream.clock)
    moments = np.arange(start_of(plan), plan.stream.clock.end * 1_000_000, HOUR // 2)
    ahead = [shown(moment, zone).utcoffset() // MICRO for moment in moments.tolist()]
    assert np.array_equal(clock.shown(moments) - moments, ahead)
    assert len(clock.since) < 100


@pytest.mark.parametrize("days", [7, 31, 366])
def test_so_many_days_touch_at_most_so_many_months(days, tmp_path):
    """Every stretch of so many days that begins in 40 years."""
    plan = stated(tmp_path, "UTC", "2000-01-01", "month", 480, "month")
    begins = [date(1996, 1, 1) + timedelta(days=n) for n in range(40 * 365)]
    ends = [begin + timedelta(days=days - 1) for begin in begins]
    touched = [
        (end.year - begin.year) * 12 + end.month - begin.month + 1 for begin, end in zip(begins, ends, strict=True)
    ]
    assert periods_in(plan, days) == max(touched)


def test_a_week_with_25_hours_has_169_of_them(tmp_path):
    """Periods of an hour: a day of the clock has up to 25, a week 169, two hours of the whole stream what there are."""
    plan = stated(tmp_path, "Europe/Berlin", "2025-10-20", "1d", 20, "1h")
    assert period_of(plan) == Fraction(1, 25)
    assert periods_in(plan, 7) == 169
    assert plan.stream.clock is not None
    assert plan.stream.clock.periods == 20 * 24 + 1


@pytest.mark.parametrize(
    "changes",
    [
        ((1_760_911_200, 7200), (1_761_440_400, 3600), (1_761_440_400, 7200)),  # twice at one moment
        ((1_760_911_200, 7200), (1_761_440_400, 3600), (1_761_400_000, 7200)),  # back in time
        ((1_760_911_200, 7200), (1_761_440_400, 5400)),  # by half an hour, under steps of one
        ((1_760_911_200, 7200), (1_761_440_401, 3601)),  # at no whole hour
        ((1_760_911_201, 7200),),  # from a second after midnight on
    ],
)
def test_a_table_that_breaks_hours_or_goes_back_is_refused(changes, tmp_path):
    """Such a plan was not compiled; days of it would not be made of whole steps."""
    plan = stated(tmp_path, "Europe/Berlin", "2025-10-20", "1h", 480, "1d")
    assert plan.stream.clock is not None
    assert period_of(plan) == 25
    other = ClockRecord(zone="Europe/Berlin", changes=changes, end=plan.stream.clock.end)
    broken = plan.model_copy(update={"stream": plan.stream.model_copy(update={"clock": other})})
    with pytest.raises(ValueError, match="not made of whole units"):
        period_of(broken)


def test_what_goes_on_is_kept_and_what_is_over_is_not(tmp_path):
    """The first step of the day that goes on, at every step, the 25th hour too."""
    plan = stated(tmp_path, "Europe/Berlin", "2025-10-25", "1h", 80, "1d")
    calendar = calendar_of(plan, start_of(plan))
    begins = [0, 24, 49, 73]
    for step in range(80):
        assert calendar.going_on(step) == max(begin for begin in begins if begin <= step)
    assert calendar.first_steps(60).tolist() == [0, 24, 49, 73]
    assert isinstance(calendar, Calendar)
    assert calendar.periods.length == DAY * 1000
