"""Days of a city and calendar months, from the policy to the audit; both changes of the clock, runs cut anywhere."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from itertools import product
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from prompt import policyc
from walk import walked

from policyc import PolicyError, compile_policy
from policyc_check.errors import KernelError
from policyc_check.plan.stream import ClockRecord
from policyc_check.users.claims import own_bound, period_of, setting_of
from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import computed_with, verify
from policyc_runtime.sources import read_events
from policyc_runtime.sources.history import History

POLICY = """policy days "Visitors of each place, by the days of a city"
stream seen {{
  user person
  time at
  cell place in {{"A", "B"}}
  step {step}
  horizon {horizon}
  start "{start}"
  clock "{zone}"
}}
release there = count(seen) by place
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove, per = {per})
participation at_most({bound} steps, per = {per}, {how})
mechanism gaussian()
estimate none()
deliver realtime
"""
BERLIN = "Europe/Berlin"
AUTUMN, SPRING = "2025-10-25", "2026-03-28"  # the days before the clock of Berlin is put back, and forward


def text_of(
    step: str = "1h",
    per: str = "1d",
    start: str = AUTUMN,
    bound: int = 2,
    horizon: str = "75 steps",
    zone: str = BERLIN,
    how: str = "enforced = keep_first",
) -> str:
    return POLICY.format(step=step, per=per, start=start, bound=bound, horizon=horizon, zone=zone, how=how)


def planned(folder: Path, text: str) -> Plan:
    (folder / "days.policy").write_text(text)
    return compile_policy(folder / "days.policy").plan


def refused(folder: Path, text: str) -> str:
    (folder / "days.policy").write_text(text)
    with pytest.raises(PolicyError) as found:
        compile_policy(folder / "days.policy")
    return "\n".join(f"{one.code} {one.message}: {one.because}: {one.help}" for one in found.value.diagnostics)


Event = tuple[datetime, str, str]


def drawn(start: str, days: int, zone: str, events: int = 400, users: int = 5) -> list[Event]:
    """Events at any moment of so many days, as moments of UTC."""
    generator = np.random.default_rng(11)
    begin = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    minutes = np.sort(generator.integers(0, (days * 24 - 1) * 60, events))
    return [
        (begin + timedelta(minutes=int(minute)), f"u{generator.integers(users)}", "AB"[generator.integers(2)])
        for minute in minutes
    ]


def written(folder: Path, events: list[Event], name: str = "e.csv") -> Path:
    lines = [f"{who},{at.isoformat()},{place}" for at, who, place in events]
    (folder / name).write_text("\n".join(["person,at,place", *lines]) + "\n")
    return folder / name


def shown(at: datetime, zone: str) -> datetime:
    return at.astimezone(ZoneInfo(zone))


def unit_of(at: datetime, zone: str, per: str, start: str) -> object:
    """The period of a moment by the rules of the zone."""
    local = shown(at, zone)
    if per == "month":
        return local.year, local.month
    if per == "1h":
        return at.replace(minute=0)
    return (local.date() - date.fromisoformat(start)).days // (7 if per == "1w" else 1)


RULES = [
    (text_of(), 3),
    (text_of(start=SPRING, horizon="71 steps"), 3),
    (text_of(step="1d", per="month", start="2025-10-01", horizon="62 steps", bound=3), 62),
    (text_of(step="1w", per="1d", start="2025-10-20", horizon="3 steps", bound=1), 21),
    (text_of(step="month", per="1d", start="2025-10-01", horizon="2 steps", bound=1), 61),
    (text_of(step="month", per="month", start="2025-10-01", horizon="3 steps", bound=1), 92),
    (text_of(step="1h", per="month", start="2025-10-25", horizon="400 steps", bound=3), 16),
    (text_of(step="1d", per="1w", start="2026-03-23", horizon="20 steps", bound=2), 20),
    (text_of(step="1d", per="1h", start=AUTUMN, horizon="3 steps", bound=1), 3),
    (text_of(step="30min", zone="Australia/Lord_Howe", start="2026-04-04", horizon="146 steps"), 3),
    (text_of(step="1h", zone="Africa/Cairo", start="2025-10-30", horizon="73 steps"), 3),
]


@pytest.mark.sampled(1, laws=5)
@pytest.mark.parametrize("case", RULES, ids=range(len(RULES)))
def test_removing_a_unit_takes_away_its_own_and_nothing_else(case, tmp_path):
    """Of random events on days of 23, 24 and 25 hours: what is left without one user's day is the rest of the whole."""
    text, days = case
    plan = planned(tmp_path, text)
    clock, per = plan.stream.clock, text.partition("per = ")[2].partition(")")[0]
    assert clock is not None
    steps, start = plan.stream.horizon, plan.stream.start
    assert start is not None
    events = drawn(start, days, clock.zone)
    units: dict[object, list[Event]] = defaultdict(list)
    for event in events:
        units[event[1], unit_of(event[0], clock.zone, per, start)].append(event)

    def counts(chosen: list[Event]) -> np.ndarray:
        return read_events(written(tmp_path, chosen), plan, steps=steps).counts["there"]

    everything = counts(events)
    setting = setting_of(plan, plan.releases[0], plan.targets[0])
    for own in list(units.values())[:: max(1, len(units) // 12)]:
        moved = everything - counts([event for event in events if event not in own])
        assert np.array_equal(moved, counts(own))
        assert moved.sum() <= setting.participation.steps * setting.contribution
        assert moved.sum(axis=1).max() <= setting.contribution


@pytest.mark.parametrize(("start", "hours"), [(AUTUMN, 25), (SPRING, 23)])
def test_who_is_there_in_every_hour_counts_in_all_of_the_day(start, hours, tmp_path):
    """All hours of the day on which the clock changes, by the bound of the longest day; noise is made for as many."""
    text = text_of(start=start, bound=25, horizon=f"{48 + hours} steps")
    if hours < 25:
        text = text.replace("at_most(25", "at_most(24")
    plan = planned(tmp_path, text)
    begin = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(BERLIN)).astimezone(UTC)
    events = [(begin + timedelta(hours=hour, minutes=30), "u", "A") for hour in range(48 + hours)]
    found = read_events(written(tmp_path, events), plan, steps=48 + hours)
    assert found.counts["there"].sum() == 48 + hours
    assert own_bound(plan) == max(24, hours)
    alone = read_events(written(tmp_path, events[24 : 24 + hours]), plan, steps=48 + hours).counts["there"]
    assert alone.sum() == hours
    assert np.flatnonzero(alone.sum(axis=1)).tolist() == list(range(24, 24 + hours))
    other = planned(tmp_path, text.replace("at_most(25", "at_most(24"))
    if hours == 25:  # 24 are kept of it, for the noise of 24
        assert read_events(written(tmp_path, events[24:49]), other, steps=73).counts["there"].sum() == 24
        less, more = (float(one.releases[0].mechanism.stddev) for one in (other, plan))
        assert (more / less) ** 2 == pytest.approx(25 / 24, rel=1e-3)


def test_noise_for_a_day_of_24_hours_is_too_small_for_25(tmp_path):
    """The bound of a plan for 25 hours with the noise of 24, and a table without the change: both are found."""
    plan = planned(tmp_path, text_of(bound=25))
    less = planned(tmp_path, text_of(bound=24)).releases
    with pytest.raises(Exception, match="too little noise"):
        verify(plan.model_copy(update={"releases": less}).sealed())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("start", [AUTUMN, SPRING])
@pytest.mark.parametrize("cuts", [[71], [10, 26, 27, 28, 49, 71], list(range(1, 72))], ids=len)
def test_pieces_count_what_the_whole_counts(start, cuts, tmp_path):
    """Cut at every step, or within the hours that come twice or not at all: the same counts, the same dropped."""
    plan = planned(tmp_path, text_of(start=start))
    events = drawn(start, 3, BERLIN)
    begin = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(BERLIN)).astimezone(UTC)
    whole = read_events(written(tmp_path, events), plan, steps=71)
    for first, stop in zip([0, *cuts], cuts, strict=False):
        lower, upper = (begin + timedelta(hours=step) for step in (first, stop))
        piece = [event for event in events if lower <= event[0] < upper]
        with History(tmp_path / "l", plan) as history:
            found = history.read(written(tmp_path, piece, "piece.csv"), start=None, steps=stop)
            history.keep()
    assert np.array_equal(found.counts["there"], whole.counts["there"])
    assert found.dropped == whole.dropped


@pytest.mark.parametrize("months", [True, False])
def test_pieces_of_months_count_what_the_whole_counts(months, tmp_path):
    """Days under a bound of every month, cut over the ends of months and the change of the clock."""
    text = text_of(step="1d", per="month", start="2025-10-01", horizon="92 steps", bound=3)
    plan = planned(tmp_path, text)
    events = drawn("2025-10-01", 91, BERLIN, users=3)
    whole = read_events(written(tmp_path, events), plan, steps=92)
    cuts = [31, 61, 92] if months else [5, 26, 30, 33, 60, 92]
    for first, stop in zip([0, *cuts], cuts, strict=False):
        piece = [e for e in events if first <= (shown(e[0], BERLIN).date() - date(2025, 10, 1)).days < stop]
        with History(tmp_path / "l", plan) as history:
            found = history.read(written(tmp_path, piece, "piece.csv"), start=None, steps=stop)
            history.keep()
    assert np.array_equal(found.counts["there"], whole.counts["there"])
    assert whole.counts["there"].sum() == 3 * 3 * 3


def test_times_without_a_zone_are_what_the_clock_shows(tmp_path):
    """The hour that comes twice is its first, the one left out as if it were not; a zone in the text counts."""
    autumn = planned(tmp_path, text_of(horizon="49 steps"))
    spring = planned(tmp_path, text_of(start=SPRING, horizon="47 steps"))
    for plan, day, hour, step in [
        (autumn, "2025-10-26", "01:30", 25),
        (autumn, "2025-10-26", "02:30", 26),
        (autumn, "2025-10-26", "02:30+01:00", 27),
        (autumn, "2025-10-26", "02:30+02:00", 26),
        (autumn, "2025-10-26", "01:30Z", 27),
        (autumn, "2025-10-26", "03:30", 28),
        (spring, "2026-03-29", "01:30", 25),
        (spring, "2026-03-29", "02:30", 26),
        (spring, "2026-03-29", "03:30", 26),
        (spring, "2026-03-29", "00:30Z", 25),
    ]:
        (tmp_path / "e.csv").write_text(f"person,at,place\nu,{day}T{hour},A\n")
        found = read_events(tmp_path / "e.csv", plan, steps=plan.stream.horizon)
        assert np.flatnonzero(found.counts["there"].sum(axis=1)).tolist() == [step], (day, hour)
    (tmp_path / "e.csv").write_text("person,at,place\nu,2025-10-26,A\n")
    assert read_events(tmp_path / "e.csv", autumn, steps=49).counts["there"][24].sum() == 1


@pytest.mark.parametrize("kind", ["naive", "zoned", "date"])
def test_parquet_says_by_its_type_whether_there_is_a_zone(kind, tmp_path):
    """A timestamp is what the clock shows, one with a time zone a moment."""
    import pyarrow as pa
    from pyarrow import parquet

    plan = planned(tmp_path, text_of(horizon="49 steps"))
    moment = datetime(2025, 10, 26, 12)
    kinds = {
        "naive": (pa.array([moment], pa.timestamp("us")), 24 + 13),
        "zoned": (pa.array([moment.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")), 24 + 14),
        "date": (pa.array([moment.date()], pa.date32()), 24),
    }
    column, step = kinds[kind]
    parquet.write_table(pa.table({"person": ["u"], "at": column, "place": ["A"]}), tmp_path / "e.parquet")
    found = read_events(tmp_path / "e.parquet", plan, steps=49)
    assert np.flatnonzero(found.counts["there"].sum(axis=1)).tolist() == [step]


@pytest.mark.parametrize(
    ("moment", "over"),
    [
        ("2025-10-25T21:59:59Z", 0),
        ("2025-10-25T22:00:00Z", 1),
        ("2025-10-26T22:30:00Z", 1),  # a day of 24 hours would be over
        ("2025-10-26T23:00:00Z", 2),
    ],
)
def test_a_day_that_goes_on_is_not_released(moment, over, clock, tmp_path):
    """By this machine's clock, and the day's own 25 hours: nothing is waited for beside."""
    plan = planned(tmp_path, text_of(step="1d", horizon="unbounded", bound=1))
    clock(moment)
    path = written(tmp_path, [(datetime(2025, 10, 25, 12, tzinfo=UTC), "u", "A")])
    if over == 0:
        with pytest.raises(DataError, match="no step is over yet"):
            read_events(path, plan, zoned=True)
    else:
        assert read_events(path, plan, zoned=True).steps == over


def test_nothing_is_released_beyond_what_is_known_of_the_clock(tmp_path):
    """An endless stream knows its clock through fifty years, and says what to do then."""
    plan = planned(tmp_path, text_of(step="1d", horizon="unbounded", bound=1, start="2020-01-01"))
    assert plan.stream.clock is not None
    assert plan.stream.clock.end == datetime(2070, 1, 1, tzinfo=ZoneInfo(BERLIN)).timestamp()
    path = written(tmp_path, [(datetime(2020, 1, 1, 12, tzinfo=UTC), "u", "A")])
    days = (date(2070, 1, 1) - date(2020, 1, 1)).days
    assert read_events(path, plan, steps=days).steps == days
    with pytest.raises(DataError, match="beyond what the plan knows of the clock"):
        read_events(path, plan, steps=days + 1)


def test_months_of_editors_go_the_whole_way(tmp_path):
    """Deployment 6: months of a clock, a year's horizon, pure epsilon; every row says when its month begins."""
    text = (
        text_of(step="month", per="month", start="2018-01-01", horizon="12 steps", bound=1, zone="UTC")
        .replace("delta = 1e-6", "delta = 0")
        .replace("gaussian()", "laplace()")
    )
    plan = walked(tmp_path, text, 12)
    assert float(plan.releases[0].mechanism.scale) == pytest.approx(1.0)
    lines = (tmp_path / "o.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in lines[::2]] == [
        f"2018-{month:02}-01T00:00:00+00:00" for month in range(1, 13)
    ]
    page = (tmp_path / "p.plan" / "certificate.md").read_text()
    assert "Every month, for 12 steps (12 months)" in page
    assert "in one period of 1 month (UTC)" in page
    assert "3 nats in 3 periods (any 31 days)" in page
    assert "12 nats in 12 periods (all there are)" in page


def test_weeks_of_days_of_users_go_the_whole_way(tmp_path):
    """Deployment 3: weeks that begin at midnight in Los Angeles, over the change of its clock; days are counted."""
    text = text_of(step="1w", per="1d", start="2021-03-01", horizon="4 steps", bound=1, zone="America/Los_Angeles")
    plan = walked(tmp_path, text.replace("epsilon = 1.0", "epsilon = 2.19"), 4)
    times = [line.split(",")[1] for line in (tmp_path / "o.csv").read_text().splitlines()[1::2]]
    assert times == [f"2021-03-{day:02}T00:00:00-0{8 if day < 15 else 7}:00" for day in (1, 8, 15, 22)]
    told = json.loads((tmp_path / "p.plan" / "certificate.json").read_text())["promises"][0]["unit_of_privacy"]
    assert told == "all events of one user in one period of 1 day (America/Los_Angeles)"
    assert plan.stream.clock is not None
    assert plan.stream.clock.periods == 28


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [
        text_of(start=AUTUMN, horizon="49 steps", bound=3),
        text_of(start=SPRING, horizon="47 steps", bound=3),
        text_of(step="month", per="1d", start="2025-10-01", horizon="2 steps", bound=1),
        text_of(step="1d", per="month", start="2025-10-15", horizon="40 steps", bound=4),
        text_of(step="1d", per="1h", start=AUTUMN, horizon="3 steps", bound=1),
        text_of(how='assumed = "so it is"', bound=25, horizon="75 steps"),
    ],
    ids=range(6),
)
def test_every_length_goes_the_whole_way(text, tmp_path):
    """Simulated events keep within the bound, two runs are one, the plan verifies, the attack finds nothing."""
    (tmp_path / "p.policy").write_text(text)
    if "assumed" in text:
        steps = 75
        made = ["compile", "p.policy", "-o", "p.plan"], ["simulate", "p.plan", "--steps", steps, "--events", "e.csv"]
        for words in (*made, ["run", "p.plan", "--input", "e.csv", "--output", "o.csv"], ["verify", "p.plan"]):
            done = policyc(*words, cwd=tmp_path)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
        return
    steps = int(text.partition("horizon ")[2].split()[0])
    walked(tmp_path, text, steps)


def test_a_plan_keeps_to_the_rules_that_were_known(tmp_path, monkeypatch):
    """Other rules on the machine that verifies, or none at all: the plan is of its policy, and `verify` tells of it."""
    from policyc.emit import verify_directory
    from policyc.semantics import clocks

    (tmp_path / "days.policy").write_text(text_of())
    compile_policy(tmp_path / "days.policy").save(tmp_path / "days.plan")
    told = "the clock of Europe/Berlin goes as this machine knows it"
    assert {claim.name: claim.holds for claim in verify_directory(tmp_path / "days.plan")}[told] is True
    monkeypatch.setattr(clocks, "_changes", lambda rules, begin, end: ((begin, 7200),))
    claims = {claim.name: claim for claim in verify_directory(tmp_path / "days.plan")}
    assert claims[told].holds is None
    assert "otherwise from 2025-10-26 on" in claims[told].detail
    assert all(claim.holds for name, claim in claims.items() if name != told)
    monkeypatch.setattr(clocks, "available_timezones", set)
    claims = {claim.name: claim for claim in verify_directory(tmp_path / "days.plan")}
    assert "this machine does not know any clock" in claims[told].detail
    assert all(claim.holds for name, claim in claims.items() if name != told)


def test_a_plan_of_another_clock_is_not_of_its_policy(tmp_path):
    """A table that begins at another midnight than the policy's."""
    from policyc.planning.declaration import differences, known_clock
    from policyc.semantics.checked import check_file

    plan = planned(tmp_path, text_of())
    clock = plan.stream.clock
    assert clock is not None
    later = clock.model_copy(update={"changes": ((clock.changes[0][0] + 86_400, 7200), *clock.changes[1:])})
    other = plan.model_copy(update={"stream": plan.stream.model_copy(update={"clock": later})}).sealed()
    _, _, policy, findings = check_file(tmp_path / "days.policy", known_clock(other))
    assert next(differences(policy, findings, other)).place == "stream"


def test_the_clock_is_compared(tmp_path):
    """Another zone covers other events together; so do months in place of days, which cover more."""
    days = planned(tmp_path, text_of(step="1d", bound=1, horizon="30 steps"))
    from policyc.emit.difference import compare_plans

    def changed(text: str) -> str:
        return json.dumps([str(change) for change in compare_plans(days, planned(tmp_path, text))], ensure_ascii=False)

    london = changed(text_of(step="1d", bound=1, horizon="30 steps", zone="Europe/London"))
    assert "the clock" in london
    assert "begin at other moments" in london
    assert "the clock" not in changed(text_of(step="1d", bound=1, horizon="30 steps"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (text_of(zone="Europe/Berln"), "E0237 there is no clock `Europe/Berln`: None: did you mean `Europe/Berlin`"),
        (text_of(zone="CEST"), "E0237 there is no clock `CEST`: None: write a zone as the IANA names it"),
        (text_of(zone="Europe/Munich"), "E0237 there is no clock `Europe/Munich`: None: write a zone"),
        (text_of(zone="New York"), "E0237 there is no clock `New York`: None: did you mean `America/New_York`"),
        (text_of(zone="Berlin"), "E0237 there is no clock `Berlin`: None: did you mean `Europe/Berlin`"),
        (
            text_of().replace('"Europe/Berlin"', "CET"),
            'E0208 `clock` needs a text in quotes, and `CET` is a word: None: write `clock "CET"`',
        ),
        (text_of(zone="localtime"), "E0237"),
        (text_of(zone="../etc/passwd"), "E0237"),
        (text_of(step="1mo"), "write `month`, with a `clock`"),
        (text_of(step="month", per="month").replace('  clock "Europe/Berlin"\n', ""), "E0238 `step` is a month"),
        (text_of(step="36h", per="72h"), "E0238"),
        (text_of(step="6h"), "E0238"),
        (text_of(step="1w", per="month", start="2025-10-20"), "E0506"),
        (text_of(step="month", per="1w", start="2025-10-01"), "E0506"),
        (text_of(step="month", per="31d", start="2025-10-01"), "E0506"),
        (text_of(step="31d", per="month", start="2025-10-01"), "E0506"),
        (text_of(step="month", per="month", start="2025-10-02"), "E0239 a month does not begin on day 2"),
        (text_of(start="2025-10-01T00:00:00+02:00"), 'write the date alone: `start "2025-10-01"`'),
        (text_of().replace(f'  start "{AUTUMN}"\n', ""), "E0239"),
        (text_of(zone="Africa/Cairo", start="2025-04-25"), "E0239 Africa/Cairo has no midnight on 2025-04-25"),
        (
            text_of(step="month", per="month", start="2009-11-01", zone="America/St_Johns", bound=1),
            "E0239 the clock of America/St_Johns is put back into the day before 2009-11-01",
        ),
        (text_of(step="1d", start="2009-11-01", zone="America/St_Johns", bound=1), 'begin later: `start "2009-11-02"`'),
        (text_of(step="month", per="month", start="0001-01-01", zone="Europe/Amsterdam", bound=1), "E0239"),
        (text_of(bound=26), "E0502 a user cannot take part in 26 of 25 steps"),
        (text_of(step="fortnight"), "E0205"),
        (text_of(step="months"), "write `month`"),
    ],
)
def test_what_a_clock_does_not_have_is_said(text, said, tmp_path):
    """Each with what to write."""
    assert said in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('participation at_most(24 steps, per = 1d, assumed = "so it is")', "some have 25"),
        ("signal seasonal_ar1(period = 24 steps, learned = true)", "the season is 24 steps"),
        ("release total_of = total(there, 24 steps)", "the block of `total_of`"),
        ("release wide = window(there, 48 steps)", "the window of `wide`"),
        (
            "release moved = change(there, baseline = median(every = 24 steps, steps = 0 .. 48))",
            "the distance of values in `moved`",
        ),
    ],
)
def test_what_is_taken_for_a_day_is_told(more, words, tmp_path):
    """W0709, under a clock that changes in the stream; not where it does not."""
    from policyc.semantics.checked import check_file

    for start, told in ((AUTUMN, True), ("2025-07-01", False)):
        text = text_of(start=start, horizon="75 steps")
        if more.startswith("participation"):
            lines = [line for line in text.splitlines() if not line.startswith("participation")]
            text = "\n".join([*lines, more]) + "\n"
        else:
            text += more + "\n"
        (tmp_path / "days.policy").write_text(text)
        _, _, _, found = check_file(tmp_path / "days.policy")
        assert any(one.code == "W0709" and words in (one.because or "") for one in found) == told


def test_a_policy_with_a_clock_is_written_in_one_form(tmp_path):
    """`clock` stands last in its stream, and what is written reads as the same."""
    (tmp_path / "days.policy").write_text(
        'policy p "p" stream s { clock "UTC" user u population 12 step month time t horizon 3 steps start "2026-01-01" '
        "} release r = count(s) target event_level(epsilon = 1)"
    )
    assert policyc("fmt", "days.policy", cwd=tmp_path).returncode == 0
    text = (tmp_path / "days.policy").read_text()
    assert text.index("start") < text.index('  clock       "UTC"\n}')
    assert "  step        month\n" in text
    assert policyc("fmt", "--check", "days.policy", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("text", "alike"),
    [
        (text_of(bound=20), False),
        (text_of(bound=20, start="2025-07-01"), True),
        (text_of(step="1d", per="month", start="2025-10-01", horizon="92 steps", bound=20), False),
        (text_of(step="1d", per="1w", start="2025-10-20", horizon="21 steps", bound=5), True),
    ],
    ids=range(4),
)
def test_what_steps_have_in_common_is_drawn_anew_for_periods_only_where_all_are_as_long(text, alike, tmp_path):
    """A draw for every 25 steps would be one for parts of two days, which the check counts; shorter ones need less."""
    plan = planned(tmp_path, text.replace("gaussian()", "common_noise()"))
    (part,) = plan.releases
    longest = int(period_of(plan) or 0)
    assert (part.mechanism.common_steps == longest) == alike
    if not alike:
        assert 1 < part.mechanism.common_steps < longest
        anew = part.model_copy(update={"mechanism": part.mechanism.model_copy(update={"common_steps": longest})})
        with pytest.raises(Exception, match="plan refused"):
            verify(plan.model_copy(update={"releases": (anew,)}).sealed())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", ["1h", "1d", "month"])
def test_an_altered_clock_is_refused_or_counts_as_it_says(step, tmp_path):
    """Every field of it, with values that no compiler writes: a refusal, and never a mistake of the program's."""
    per = {"1h": "1d", "1d": "month", "month": "1d"}[step]
    plan = planned(tmp_path, text_of(step=step, per=per, start="2025-10-01", horizon="30 steps", bound=1))
    path = written(tmp_path, drawn("2025-10-01", 2, BERLIN))
    content = json.loads(plan.to_json())
    fields = [("clock",), *(("clock", name) for name in ("zone", "changes", "end", "periods"))]
    fields += [("clock", "changes", at, part) for at in (0, -1) for part in (0, 1)] + [("step_text",), ("start",)]
    values = [
        0,
        -1,
        -62_135_596_800,
        86_399,
        10**12,
        None,
        "x",
        "month",
        [],
        [[0, 0]],
        [[0, 0], [1, 1]],
        [[1, 0], [0, 1]],
    ]
    accepted = 0
    for field in fields:
        for value in values:
            other = json.loads(json.dumps(content))
            place = other["stream"]
            for key in field[:-1]:
                place = place[key]
            place[field[-1]] = value
            try:
                made = type(plan).model_validate_json(json.dumps(other)).sealed()
            except ValueError:
                continue
            accepted += 1
            try:
                with computed_with():
                    verify(made)
                    read_events(path, made, steps=1)
            except KernelError:
                continue
    assert accepted > 5


@pytest.mark.sampled(1)
@pytest.mark.parametrize("bound", [1, 2])
def test_no_user_of_a_small_stream_moves_more_than_the_noise_is_for(bound, tmp_path):
    """All that a user may do in two days on either side of the end of a February, beside all of the other month."""
    plan = planned(tmp_path, text_of(step="1d", per="month", start="2026-02-27", horizon="4 steps", bound=bound))
    setting = setting_of(plan, plan.releases[0], plan.targets[0])
    noon = [datetime(2026, 2, 27, 12, tzinfo=UTC) + timedelta(days=day) for day in range(4)]
    most = 0
    for days, other in ((noon[:2], noon[2:]), (noon[2:], noon[:2])):
        others = [(at, "u", place) for at in other for place in "AB"]
        less = read_events(written(tmp_path, others), plan, steps=4).counts["there"]
        for places in product(["", "A", "B", "AB"], repeat=2):
            unit = [(at, "u", place) for at, chosen in zip(days, places, strict=True) for place in chosen]
            found = read_events(written(tmp_path, [*unit, *others]), plan, steps=4).counts["there"]
            moved = np.abs(found - less)
            assert moved.sum() <= setting.changes * setting.shift
            assert (moved**2).sum() <= setting.changes * setting.shift**2
            most = max(most, int(moved.sum()))
    assert most == bound


def altered(plan: Plan, **clock: object) -> Plan:
    """The plan with another table of its clock, sealed again, though `load_plan` may not read it."""
    other = plan.stream.clock.model_copy(update=clock)
    return plan.model_copy(update={"stream": plan.stream.model_copy(update={"clock": other})}).sealed()


@pytest.mark.parametrize(("step", "per"), [("month", "month"), ("1d", "month"), ("month", "1d")])
def test_nothing_lies_before_the_first_step_of_a_stream(step, per, tmp_path, monkeypatch):
    """A clock that is put back over the midnight of `start` shows the day before again: no such plan is made or run.

    What happens in these minutes would lie in step -1, which a table of counts takes for its last one: of a user in one
    month every published month would change.
    """
    plan = planned(tmp_path, text_of(step=step, per=per, start="2025-10-01", bound=1, zone="UTC"))
    begin = plan.stream.clock.changes[0][0]
    back = altered(plan, changes=((begin, 0), (begin + 60, -3600)))
    with pytest.raises(KernelError, match="plan refused"):
        verify(back)
    at = datetime(2025, 10, 1, 0, 30, tzinfo=UTC)
    path = written(tmp_path, [(at, "u", "A"), (at + timedelta(days=2), "v", "A")])
    monkeypatch.setattr(ClockRecord, "put_back", lambda *_: 0)  # were it taken for a table
    with pytest.raises(DataError, match="before the start"):
        read_events(path, back, steps=2)
    assert read_events(path, plan, steps=2).counts["there"].sum() > 0


def test_fewer_periods_than_there_are_hide_nothing_of_the_table(tmp_path):
    """What is left of all periods is recomputed for no fewer of them than the horizon has to have."""
    plan = planned(tmp_path, text_of(horizon="240 steps", bound=12))
    assert plan.stream.clock.periods == 10
    (claim,) = plan.claims.user_level
    for periods, kept in ((1, ()), (2, claim.beyond[:1])):
        other = altered(plan, periods=periods)
        claims = other.claims.model_copy(update={"user_level": (claim.model_copy(update={"beyond": kept}),)})
        with pytest.raises(KernelError, match="plan refused"):
            verify(other.model_copy(update={"claims": claims}).sealed())


def test_a_period_that_a_day_is_not_made_of_is_no_period(tmp_path):
    """Half a day of a city has no number of steps: refused where the period is read, whatever else asks for it."""
    plan = planned(tmp_path, text_of())
    (target,) = plan.targets
    other = plan.model_copy(update={"targets": (target.model_copy(update={"per": 43_200_000}),)})
    with pytest.raises(ValueError, match="whole units"):
        period_of(other)
