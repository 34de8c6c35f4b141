"""Common noise of days that a clock makes longer or shorter: what blocks share, from the policy to the verified run."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from prompt import policyc
from test_periods import SHARED, compiled

from policyc_check.users.claims import setting_of
from policyc_check.users.gaussian import gaussian_delta
from policyc_runtime.estimation.signal import SeriesProcess
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.refusal import verify

BERLIN = ZoneInfo("Europe/Berlin")
AUTUMN = "2026-10-24"  # the day before that of 25 hours
HOURLY = SHARED.replace("step 4h", "step 1h").replace("at_most(6", "at_most(25").replace("2026-01-01", AUTUMN)
CITY = HOURLY.replace("unbounded", 'unbounded\n  clock "Europe/Berlin"')
MONTHLY = CITY.replace("step 1h", "step 1d").replace("per = 1d", "per = month").replace("at_most(25", "at_most(31")
MONTHLY = MONTHLY.replace(AUTUMN, "2026-01-01")


def hours_of_days(start: str, days: int) -> list[range]:
    """Steps of every day, hours being counted by the moments at which the rules of the zone have its midnights."""
    midnights = [
        datetime.combine(date.fromisoformat(start) + timedelta(days=day), datetime.min.time(), BERLIN).astimezone(UTC)
        for day in range(days + 1)
    ]
    ends = [int((at - midnights[0]).total_seconds()) // 3600 for at in midnights]
    return [range(first, end) for first, end in pairwise(ends)]


def days_of_months(start: str, months: int) -> list[range]:
    """Steps of every month."""
    begin = date.fromisoformat(start)
    firsts = [date(begin.year + n // 12, n % 12 + 1, 1) for n in range(begin.month - 1, begin.month + months)]
    ends = [(first - begin).days for first in firsts]
    return [range(first, end) for first, end in pairwise(ends)]


def furthest(plan: Plan, periods: list[range], bound: int, less: float = 1.0) -> float:
    """The most that any user of any of these periods moves what is published, by the covariance of its noise.

    Places of one block are alike, so that a user is how often it is in each block; all of these are tried.
    """
    (release,) = plan.releases
    mechanism, setting = release.mechanism, setting_of(plan, release, plan.targets[0])
    own, common = float(mechanism.stddev) ** 2 * less**2, mechanism.common_variance(setting) * less**2
    block = mechanism.common_steps or max(period.stop for period in periods)
    most = 0.0
    for places in {tuple(np.unique([step // block for step in period], return_counts=True)[1]) for period in periods}:
        inverse = np.linalg.inv(own * np.eye(block * setting.cells) + common)
        by_count = [
            float(x @ inverse @ x)
            for x in (np.arange(block * setting.cells) < count for count in range(max(places) + 1))
        ]
        for counts in product(*(range(place + 1) for place in places)):
            if sum(counts) <= bound:
                most = max(most, sum(by_count[count] for count in counts))
    return float(np.sqrt(most))


@pytest.mark.parametrize(
    ("text", "periods", "bound"),
    [
        (CITY, hours_of_days(AUTUMN, 800), 25),
        (CITY.replace(AUTUMN, "2026-03-28"), hours_of_days("2026-03-28", 800), 25),
        (CITY.replace("at_most(25", "at_most(14"), hours_of_days(AUTUMN, 800), 14),
        (MONTHLY, days_of_months("2026-01-01", 60), 31),
    ],
    ids=["autumn", "spring", "14 hours", "months"],
)
def test_no_user_of_a_day_of_any_length_is_told_of_more_than_is_promised(text, periods, bound, tmp_path):
    """Of days of 23, 24 and 25 hours, or months, wherever they begin in a block; a tenth less noise tells of one."""
    plan = compiled(tmp_path, text).plan
    verify(plan)
    (release,), longest = plan.releases, max(map(len, periods))
    assert {len(period) for period in periods} == ({28, 29, 30, 31} if longest == 31 else {23, 24, 25})
    assert 1 < release.mechanism.common_steps < longest
    plain = compiled(tmp_path, text.replace("common_noise()", "gaussian()")).plan.releases[0]
    assert release.predicted.published < 0.95 * plain.predicted.published
    assert gaussian_delta(1.0, furthest(plan, periods, bound)) <= 1e-6
    assert gaussian_delta(1.0, furthest(plan, periods, bound, less=0.9)) > 1e-6


def test_a_plan_of_other_blocks_is_refused_or_keeps_its_promise(tmp_path):
    """Of a user in 25 hours: one draw for all, a day, a week or fewer hours, under the noise of the plan's blocks."""
    plan, refused = compiled(tmp_path, CITY).plan, []
    (release,) = plan.releases
    for steps in (None, 1, 2, 3, 4, 6, 8, 11, 13, 23, 24, 25, 26, 48, 168):
        other = release.mechanism.model_copy(update={"common_steps": steps})
        altered = plan.model_copy(update={"releases": (release.model_copy(update={"mechanism": other}),)}).sealed()
        try:
            verify(altered)
        except Exception as error:
            assert "plan refused" in str(error)
            refused.append(steps)
            continue
        assert gaussian_delta(1.0, furthest(altered, hours_of_days(AUTUMN, 800), 25)) <= 1e-6
    assert {None, 1, 11, 13, 23, 24, 25, 26, 48, 168} <= {*refused}


@pytest.mark.parametrize("noise", ["stddev", "common_stddev"])
def test_less_of_either_noise_of_a_block_is_refused(noise, tmp_path):
    """A thousandth less."""
    plan = compiled(tmp_path, CITY).plan
    (release,) = plan.releases
    other = release.mechanism.model_copy(update={noise: getattr(release.mechanism, noise) * 999 / 1000})
    with pytest.raises(Exception, match="too little noise"):
        verify(plan.model_copy(update={"releases": (release.model_copy(update={"mechanism": other}),)}).sealed())


def test_days_that_are_said_to_be_as_long_as_others_are_not_believed(tmp_path):
    """The noise of days that have 24 hours, and a draw for each, under a clock that is put back."""
    plan = compiled(tmp_path, HOURLY.replace("at_most(25", "at_most(24")).plan
    city = compiled(tmp_path, CITY).plan
    assert plan.releases[0].mechanism.common_steps == 24
    for end in ("unbounded", "75 steps"):
        stream = city.stream.model_copy(update={"horizon": None if end == "unbounded" else 75})
        taken = city.model_copy(update={"stream": stream, "releases": plan.releases})
        with pytest.raises(Exception, match="plan refused"):
            verify(taken.sealed())


def test_the_page_and_the_plan_say_what_a_block_is(tmp_path):
    """Not a period; a plan that is read again is the same."""
    made = compiled(tmp_path, CITY)
    made.save(tmp_path / "days.plan")
    page = (tmp_path / "days.plan" / "certificate.md").read_text()
    steps = made.plan.releases[0].mechanism.common_steps
    assert f"common to all values of a block of {steps} steps, one draw" in page
    assert "common to all values of a period" not in page
    assert load_plan(tmp_path / "days.plan") == made.plan


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize(
    ("deliver", "estimate"), [("realtime", "mle()"), ("realtime", "filter()"), ("offline", "smoother()")]
)
def test_stated_errors_are_those_of_simulated_streams(deliver, estimate, tmp_path):
    """Of a declared signal over the change of the clock: within 2 % and four standard errors."""
    signal = 'signal ar1(mean = 900, sd = 40, autocorrelation = 0.9, evidence = "e")\n'
    text = CITY.replace("by place", "").replace('  cell place in {"A", "B"}\n', "").replace("unbounded", "150 steps")
    text = text.replace("estimate none()", f"{signal}estimate {estimate}").replace("realtime", deliver)
    plan = compiled(tmp_path, text).plan
    assert plan.releases[0].mechanism.common_steps
    found = next(
        one for one in simulate(plan, 100, 150, (), signal=SeriesProcess(40, 0.9, mean=900)).errors if one.chosen
    )
    stated = plan.releases[0].predicted
    allowed = 4 * np.hypot(found.mean_squared_error_stderr, stated.stderr or 0) + 0.02 * stated.published
    assert abs(found.mean_squared_error - stated.published) <= allowed


@pytest.mark.law
def test_continued_runs_know_what_was_drawn_of_their_block(tmp_path: Path):
    """Pieces that end within blocks and at them, over the hour that comes twice, and events of all of 25 hours."""
    made = compiled(tmp_path, CITY)
    made.save(tmp_path / "days.plan")
    begin = datetime.fromisoformat(AUTUMN).replace(tzinfo=BERLIN).astimezone(UTC)
    cuts = [5, 12, 27, 49, 75]
    for first, stop in zip([0, *cuts], cuts, strict=False):
        rows = [
            f"u{user},{(begin + timedelta(hours=step, minutes=30)).isoformat()},{'AB'[user % 2]}"
            for step in range(first, stop)
            for user in range(800)
        ]
        (tmp_path / "piece.csv").write_text("person,at,place\n" + "\n".join(rows) + "\n")
        run = policyc(
            "run", "days.plan", "--input", "piece.csv", "--output", "out.csv", "--steps", str(stop), "--continued",
            cwd=tmp_path,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
    verified = policyc("verify", "days.plan", "--release", "out.csv", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout
    with (tmp_path / "out.csv").open(newline="") as file:
        noise = [float(row["noisy"]) - 400 for row in csv.DictReader(file)]
    assert len(noise) == 150  # nobody's hour of the day of 25 was dropped
    assert max(map(abs, noise)) < 6 * made.plan.releases[0].predicted.published ** 0.5
