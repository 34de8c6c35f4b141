"""Promises about periods: one day of a user, hidden by itself, from the policy to the audit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from prompt import policyc
from walk import walked

from policyc import PolicyError, compile_policy
from policyc.diagnostics.pages import read_page
from policyc_check.users.claims import stream_profile
from policyc_runtime.refusal import verify
from policyc_runtime.sources import read_events
from policyc_runtime.sources.history import History

POLICY = """policy days "Visitors of each place, every day by itself"
stream seen {
  user person
  time at
  cell place in {"A", "B"}
  step 4h
  horizon 18 steps
  start "2026-01-01"
}
release there = count(seen) by place
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove, per = 1d)
participation at_most(2 steps, per = 1d, enforced = keep_first)
mechanism gaussian()
estimate none()
deliver realtime
"""
DAILY = POLICY.replace("4h", "1d").replace("18 steps", "unbounded").replace("at_most(2 steps", "at_most(1 steps")
SHARED = POLICY.replace("at_most(2", "at_most(6").replace("gaussian()", "common_noise()")
SHARED = SHARED.replace("horizon 18 steps", "horizon unbounded")
SEVERAL = POLICY.replace("step 4h", "step 2d").replace("at_most(2", "at_most(1")


def compiled(folder: Path, text: str = POLICY):
    (folder / "days.policy").write_text(text)
    return compile_policy(folder / "days.policy")


def events(folder: Path, name: str, hours: range, users: int = 6, seed: int = 4) -> Path:
    """Events in which everybody is seen often, those of some hours."""
    generator = np.random.default_rng(seed)
    lines = ["person,at,place"]
    for hour in range(72):
        for user in generator.choice(users, 3, replace=False):
            if hour in hours:
                lines.append(f"u{user},2026-01-0{1 + hour // 24}T{hour % 24:02}:10:00,{'AB'[user % 2]}")
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_noise_is_for_one_period_however_long_the_stream(tmp_path):
    """Two steps of a day of six: the noise of two steps, not of all 18, whatever the horizon."""
    plan = compiled(tmp_path).plan
    endless = compiled(tmp_path, POLICY.replace("horizon 18 steps", "horizon unbounded")).plan
    whole = compiled(tmp_path, POLICY.replace(", per = 1d", "").replace("at_most(2", "at_most(18")).plan
    stddevs = [float(one.releases[0].mechanism.stddev) for one in (plan, endless, whole)]
    assert stddevs[0] == stddevs[1]
    assert stddevs[2] / stddevs[0] == pytest.approx(3.0, rel=0.01)  # the root of 18 over 2


def test_several_periods_are_what_so_many_changes_lose(tmp_path):
    """Any stretch of a day touches two days; 7, 31 and 366 follow, each as users of so many steps would be told."""
    plan = compiled(tmp_path, DAILY).plan
    (claim,) = plan.claims.user_level
    assert [point.participation for point in claim.beyond] == [2, 7, 31, 366]
    for point in claim.beyond:
        known = stream_profile(plan, plan.targets[0], point.participation).delta(float(point.epsilon))
        assert known <= 1e-6
        assert stream_profile(plan, plan.targets[0], point.participation).delta(float(point.epsilon) * 0.99) > 1e-6


@pytest.mark.parametrize("change", [("per", 2 * 86_400_000), ("per", 30_000_000), ("per", None)])
def test_a_period_that_is_changed_is_found(change, tmp_path):
    """A longer period than the noise is for, one that straddles steps, none at all: `verify` refuses each."""
    plan = compiled(tmp_path).plan
    (target,) = plan.targets
    other = plan.model_copy(update={"targets": (target.model_copy(update=dict([change])),)}).sealed()
    with pytest.raises(Exception, match="plan refused"):
        verify(other)


def test_noise_that_is_too_small_for_a_period_is_refused(tmp_path):
    """One percent less than the noise of one day."""
    plan = compiled(tmp_path).plan
    (release,) = plan.releases
    less = release.mechanism.model_copy(update={"stddev": release.mechanism.stddev * 99 / 100})
    other = plan.model_copy(update={"releases": (release.model_copy(update={"mechanism": less}),)}).sealed()
    with pytest.raises(Exception, match="too little noise"):
        verify(other)


def test_no_page_says_that_all_of_a_user_is_hidden(tmp_path):
    """Wherever a document says of whose events it speaks, it says of which period."""
    compiled(tmp_path).save(tmp_path / "days.plan")
    for name in ("certificate.md", "certificate.html", "certificate.json", "registry.yaml"):
        path = tmp_path / "days.plan" / name
        if not path.exists():
            continue
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", path.read_text()))
        assert "one period of 1 day" in text
        assert "part in the whole stream" not in text
        for found in re.finditer(r"all events of one user(?: \(one .{1,40}?\))?(.{0,25})", text):
            assert found[1].startswith((" in one period", " in on")), found[0]


def test_the_certificate_says_what_remains_of_several_periods(tmp_path):
    """Its first page lists two days, a week, a month and a year, with the numbers of the plan."""
    made = compiled(tmp_path, DAILY)
    made.save(tmp_path / "days.plan")
    page = (tmp_path / "days.plan" / "certificate.md").read_text()
    (claim,) = made.plan.claims.user_level
    for point, words in zip(claim.beyond, ("any stretch of 1 day", "7 days", "31 days", "366 days"), strict=True):
        assert re.search(rf"{float(point.epsilon):g}\d* nats in {point.participation} periods \({words}\)", page), words
    assert "Over a lifetime nothing is promised" in page


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cuts", [[4, 6, 7, 12, 18], [18], list(range(1, 19))], ids=str)
def test_pieces_count_what_the_whole_counts(cuts, tmp_path):
    """Cut within a day, at its end, or at every step; and what was kept in days that are over is forgotten."""
    plan = compiled(tmp_path).plan
    whole = read_events(events(tmp_path, "all.csv", range(72)), plan, steps=18)
    for first, stop in zip([0, *cuts], cuts, strict=False):
        with History(tmp_path / "l", plan) as history:
            found = history.read(events(tmp_path, "piece.csv", range(4 * first, 4 * stop)), start=None, steps=stop)
            kept = history._file.execute("SELECT min(step) FROM kept").fetchone()[0]
            assert kept is None or kept >= stop // 6 * 6
            history.keep()
    assert np.array_equal(found.counts["there"], whole.counts["there"])
    assert found.dropped == whole.dropped
    assert whole.counts["there"].sum() == 3 * 6 * 2  # three days, six users, two steps each


def test_days_are_counted_in_a_week(tmp_path):
    """Steps of two days, periods of one: who is there on both days counts twice, and the page says what is counted."""
    text = POLICY.replace("step 4h", "step 2d").replace("18 steps", "2 steps").replace("at_most(2", "at_most(1")
    plan = compiled(tmp_path, text).plan
    rows = [("u1", 1, "A"), ("u1", 2, "A"), ("u1", 2, "B"), ("u2", 1, "B"), ("u2", 3, "B"), ("u1", 4, "B")]
    path = tmp_path / "e.csv"
    path.write_text(
        "person,at,place\n" + "".join(f"{u},2026-01-0{day}T10:0{n}:00,{c}\n" for n, (u, day, c) in enumerate(rows))
    )
    found = read_events(path, plan, steps=2)
    assert found.counts["there"].tolist() == [[1, 2], [0, 2]]  # u1 on the first day, then where u1 was seen last
    compile_policy(tmp_path / "days.policy").save(tmp_path / "days.plan")
    assert "the number of users in each period, added up" in (tmp_path / "days.plan" / "certificate.md").read_text()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [POLICY, DAILY, SEVERAL, SHARED], ids=["hours", "days", "weeks", "shared"])
def test_it_is_simulated_run_and_verified(text, tmp_path):
    """From the command line: events of its own, a run in two pieces, an audit that proves no more than is claimed."""
    walked(tmp_path, text, 6)


def test_a_month_of_which_hardly_anything_is_left_is_warned_of(tmp_path):
    """W0762 with the number of the certificate; not where a month keeps something, nor for a month itself."""
    wrong, right = re.findall(r"```policy\n(.*?)```", read_page("W0762"), re.S)
    found = {}
    for name, text in (("wrong", wrong), ("right", right), ("month", wrong.replace("1d", "31d"))):
        (tmp_path / f"{name}.policy").write_text(text)
        found[name] = compile_policy(tmp_path / f"{name}.policy")
    codes = {name: [d.code for d in made.diagnostics] for name, made in found.items()}
    assert "W0762" in codes["wrong"]
    assert "W0762" not in codes["right"] + codes["month"]
    (warning,) = [d for d in found["wrong"].diagnostics if d.code == "W0762"]
    left = next(p.epsilon for p in found["wrong"].plan.claims.user_level[0].beyond if p.participation == 31 * 3)
    assert (
        (f"{left.normalize():f} nats" in warning.message)
        if left is not None
        else "nothing is promised" in warning.message
    )


def test_a_shorter_period_is_a_weaker_promise(tmp_path):
    """`diff` from days to all of a user, and back; from days to two days, and to no multiple of a day."""
    plans = {}
    for name, per in (("day", "per = 1d"), ("two", "per = 2d"), ("odd", "per = 36h"), ("all", "")):
        text = POLICY.replace(", per = 1d", f", {per}" if per else "").replace("at_most(2", "at_most(2")
        (tmp_path / f"{name}.policy").write_text(text)
        compile_policy(tmp_path / f"{name}.policy").save(tmp_path / f"{name}.plan")
        plans[name] = f"{name}.plan"

    def effect(old: str, new: str) -> str:
        out = policyc("diff", plans[old], plans[new], "--json", cwd=tmp_path)
        changes = json.loads(out.stdout)["changes"]
        return next(change["effect"] for change in changes if change["what"] == "user_level")

    assert effect("day", "all") == effect("day", "two") == "stronger"
    assert effect("all", "day") == effect("two", "day") == effect("day", "odd") == "weaker"


def test_a_bound_of_a_year_keeps_the_level_of_later_years(tmp_path):
    """Weekly flights of three years: a bound of 20 over all of them empties the last one, one of 20 a year does not."""
    generator = np.random.default_rng(3)
    start = np.datetime64("2024-01-01T12:00:00")
    lines, true = ["person,at,place"], np.zeros(156, dtype=int)
    for user in range(60):
        for week in np.flatnonzero(generator.random(156) < 0.3):
            lines.append(f"u{user},{start + np.timedelta64(7 * int(week), 'D')},A")
            true[week] += 1
    (tmp_path / "flights.csv").write_text("\n".join(lines) + "\n")
    weekly = POLICY.replace("step 4h", "step 1w").replace("18 steps", "156 steps").replace("2026-01-01", "2024-01-01")
    weekly = weekly.replace("at_most(2 steps", "at_most(20 steps").replace("per = 1d", "per = 52w")
    counts = {}
    for name, text in (("year", weekly), ("all", weekly.replace(", per = 52w", ""))):
        made = compiled(tmp_path, text)
        counts[name] = read_events(tmp_path / "flights.csv", made.plan, steps=156).counts["there"].sum(axis=1)
        (warning,) = [found for found in made.diagnostics if found.code == "W0502"]
        assert ("`per = 52w` in both" in (warning.help or "")) == (name == "all")
    assert counts["all"][104:].sum() < 0.1 * true[104:].sum()
    assert counts["year"][104:].sum() > 0.97 * true[104:].sum()


@pytest.mark.parametrize("mechanism", ["common_noise()", "subsample(rate = 0.5)"])
def test_days_of_a_week_are_no_users_of_their_own(mechanism, tmp_path):
    """Where several periods lie in a step, one draw for the number of users, or one choice of steps, hides less."""
    text = SEVERAL.replace("18 steps", "2 steps").replace("gaussian()", mechanism).replace("realtime", "offline")
    with pytest.raises(PolicyError) as refused:
        compiled(tmp_path, text.replace("estimate none()", ""))
    assert any("several periods of one user" in (found.because or "") for found in refused.value.diagnostics)


@pytest.mark.parametrize(("per", "counts"), [("1h", [2, 168, 744, 8784]), ("1d", [2, 7, 31, 366]), ("1w", [2, 6, 54]),
                                             ("3d", [2, 4, 12, 123])])  # fmt: skip
def test_stretches_touch_as_many_periods_as_they_can(per, counts, tmp_path):
    """A month of 31 days lies in six weeks at worst; days and hours fill it. The page says so of each number."""
    step = "1h" if per == "1h" else "1d"
    text = DAILY.replace("step 1d", f"step {step}").replace("per = 1d", f"per = {per}")
    plan = compiled(tmp_path, text).plan
    assert [point.participation for point in plan.claims.user_level[0].beyond] == counts
    days = {"1h": 1 / 24, "1d": 1, "1w": 7, "3d": 3}[per]
    for length in (7, 31, 366):  # by trying all beginnings, an hour apart
        touched = {
            int(np.floor((first + length - 1e-6) / days) - np.floor(first / days)) + 1
            for first in np.arange(0, 21, 1 if per in ("1h", "1d") else 1 / 24)
        }
        assert max(touched) <= max(2, *(count for count in counts if count >= max(touched) or count == 2))


def test_a_plan_about_periods_has_a_start(tmp_path):
    """Without it nobody knows which events are hidden together: the check refuses the plan."""
    plan = compiled(tmp_path).plan
    with pytest.raises(Exception, match="from a start that is said"):
        verify(plan.model_copy(update={"stream": plan.stream.model_copy(update={"start": None})}).sealed())
