"""Common noise under promises about periods: a draw for every day, from the policy to the verified run."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from prompt import policyc
from test_periods import SHARED, compiled

from policyc import PolicyError
from policyc_check.users.claims import setting_of
from policyc_check.users.gaussian import gaussian_delta
from policyc_runtime.plan import load_plan
from policyc_runtime.refusal import verify


def test_what_a_day_has_in_common_is_that_of_each_day(tmp_path):
    """Also of a stream without end, which has the noise of one that ends: said in the plan and on the page."""
    ends = compiled(tmp_path, SHARED.replace("unbounded", "21 steps")).plan
    plain = compiled(tmp_path, SHARED.replace("common_noise()", "gaussian()")).plan.releases[0]
    made = compiled(tmp_path, SHARED)
    (release,) = made.plan.releases
    assert release.mechanism.common_steps == 6
    assert ends.releases[0].mechanism == release.mechanism
    assert release.predicted.published < 0.8 * plain.predicted.published
    made.save(tmp_path / "days.plan")
    page = (tmp_path / "days.plan" / "certificate.md").read_text()
    assert "common to all values of a period of 6 steps, one draw" in page
    assert load_plan(tmp_path / "days.plan") == made.plan


def test_auto_takes_it_where_users_may_be_in_all_of_a_day(tmp_path):
    """Of an endless stream too; not where they may be in three of 24 hours."""
    hourly = SHARED.replace("common_noise()", "auto").replace("step 4h", "step 1h")
    chosen = {
        bound: compiled(tmp_path, hourly.replace("at_most(6", f"at_most({bound}")).plan.releases[0].mechanism
        for bound in (3, 24)
    }
    assert chosen[24].name == "common_noise"
    assert chosen[24].common_steps == 24
    assert chosen[3].name != "common_noise"


@pytest.mark.parametrize("steps", [None, 2, 3, 12, 24])
def test_another_length_of_what_is_shared_is_refused(steps, tmp_path):
    """The noise of a draw a day under draws of other lengths, or one of all: whoever alters it has another promise."""
    plan = compiled(tmp_path, SHARED.replace("unbounded", "18 steps")).plan
    verify(plan)
    (release,) = plan.releases
    other = release.mechanism.model_copy(update={"common_steps": steps})
    with pytest.raises(Exception, match="plan refused"):
        verify(plan.model_copy(update={"releases": (release.model_copy(update={"mechanism": other}),)}).sealed())


@pytest.mark.parametrize("noise", ["stddev", "common_stddev"])
def test_less_of_either_noise_of_a_day_is_refused(noise, tmp_path):
    """A thousandth less."""
    plan = compiled(tmp_path, SHARED).plan
    (release,) = plan.releases
    other = release.mechanism.model_copy(update={noise: getattr(release.mechanism, noise) * 999 / 1000})
    with pytest.raises(Exception, match="too little noise"):
        verify(plan.model_copy(update={"releases": (release.model_copy(update={"mechanism": other}),)}).sealed())


def test_what_is_left_of_several_days_is_what_their_draws_tell(tmp_path):
    """Who is in several days moves as many draws: what is stated of them is what the covariance tells, and no more."""
    plan = compiled(tmp_path, SHARED).plan
    (claim,), (release,) = plan.claims.user_level, plan.releases
    setting = setting_of(plan, release, plan.targets[0])
    own, common = float(release.mechanism.stddev) ** 2, release.mechanism.common_variance(setting)
    inverse = np.linalg.inv(own * np.eye(12) + common)  # of a day with two cells
    users = [[float(mask >> step & 1) for step in range(6)] for mask in range(64)]
    day = max(float(np.kron(x, [1, 0]) @ inverse @ np.kron(x, [1, 0])) for x in users)
    assert [point.participation for point in claim.beyond] == [12, 42, 186, 2196]
    for point, days in zip(claim.beyond[:2], (2, 7), strict=True):
        assert gaussian_delta(float(point.epsilon), np.sqrt(days * day)) <= 1e-6
        assert gaussian_delta(float(point.epsilon) * 0.9, np.sqrt(days * day)) > 1e-6


@pytest.mark.parametrize(
    "change",
    [("neighbors = add_remove", "neighbors = replace"), (", per = 1d", "")],
    ids=["replaced", "all of a user"],
)
def test_where_no_draw_can_be_shared_the_finding_says_what_to_write(change, tmp_path):
    """Replaced users, or all of a user in a stream without end: E0755, with the neighbors or the period to write."""
    with pytest.raises(PolicyError) as refused:
        compiled(tmp_path, SHARED.replace(*change))
    (finding,) = [found for found in refused.value.diagnostics if found.code == "E0755"]
    assert ("`neighbors = add_remove`" if "replace" in change[1] else "`per = 1d`") in (finding.because or "")


def test_days_of_utc_have_a_draw_each(tmp_path):
    """As they are all as long, whether a clock is named or not."""
    hourly = SHARED.replace("step 4h", "step 1h").replace("at_most(6", "at_most(24")
    (release,) = compiled(tmp_path, hourly.replace("unbounded", 'unbounded clock "UTC"')).plan.releases
    assert release.mechanism.common_steps == 24


@pytest.mark.law
def test_continued_runs_know_what_was_drawn_of_their_day(tmp_path):
    """Pieces that end within days: taken for other counts, what was drawn before would draw what is not noise."""
    made = compiled(tmp_path, SHARED)
    made.save(tmp_path / "days.plan")
    cuts = [4, 6, 11, 18]
    for first, stop in zip([0, *cuts], cuts, strict=False):
        rows = [
            f"u{user},{np.datetime64('2026-01-01T01') + np.timedelta64(4 * step, 'h')}:00:00,{'AB'[user % 2]}"
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
    assert len(noise) == 36
    assert max(map(abs, noise)) < 6 * made.plan.releases[0].predicted.published ** 0.5
