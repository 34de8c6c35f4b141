"""Sums, totals and deltas under promises about steps and about all of a user: one noise, said, attacked, compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import policyc.emit
from policyc import PolicyError, compile_policy
from policyc.emit import verify_directory
from policyc.emit.context import certificate_content
from policyc.emit.difference import compare_plans, is_weaker
from policyc.emit.summary import render_summary
from policyc_check.plan.targets import UserLevel, UserSteps
from policyc_check.users.claims import stream_largest_loss, stream_profile
from policyc_runtime.laboratory.empirical import audit
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan
from policyc_runtime.sources.events import read_events

POLICY = """policy rooms "Visitors and what they spend"
stream seen {{ user person time at {cell} step 1d horizon 10 steps start "2026-01-01" population 50 }}
release there = count(seen)
release spent = sum(seen.spent, clamp = 0 .. 5)
release ever = prefix(there)
target event_level(epsilon = {event})
target w_event(epsilon = {window}, window = 3 steps)
target user_level({user}, neighbors = add_remove)
{participation}
{more}
"""
PLAIN = {
    "cell": "",
    "event": "0.9",
    "window": "2.0",
    "user": "epsilon = 2.0, delta = 0",
    "participation": 'participation at_most(4 steps, assumed = "tickets")',
    "more": "",
}


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., Plan]:
    """The plan of the page with some words changed."""

    def compile_with(**changed: str) -> Plan:
        (tmp_path / "rooms.policy").write_text(POLICY.format(**{**PLAIN, **changed}))
        return compile_policy(tmp_path / "rooms.policy").plan

    return compile_with


def test_every_promise_is_kept_and_said(tmp_path):
    """Of four steps of a user 2 nats are left, so 0.5 of one: less than events and windows ask for; pages say each."""
    (tmp_path / "rooms.policy").write_text(POLICY.format(**PLAIN))
    compilation = compile_policy(tmp_path / "rooms.policy")
    compilation.save(tmp_path / "plan")
    plan = compilation.plan
    event, _, user = plan.targets
    assert isinstance(event, UserLevel)
    assert isinstance(user, UserSteps)
    assert (user.bound, user.assumed, plan.participation.enforced) == (4, "tickets", "keep_first")
    lost = [stream_largest_loss(plan, target) for target in plan.targets]
    assert lost[0] * 4 == lost[2]
    assert 1.9999 < float(lost[2]) <= 2
    assert [claim.epsilon for claim in plan.claims.user_level] == pytest.approx([Decimal("0.5"), Decimal("1.5")])
    content = certificate_content(plan, {})
    schema = json.loads((Path(policyc.emit.__file__).parent / "certificate.schema.json").read_text())
    jsonschema.validate(content, schema)
    kinds = [(promise["id"], promise["kind"], promise["value"]) for promise in content["promises"]]
    assert kinds == [("P1", "event_level", "0.9"), ("P2", "w_event", "2.0"), ("P3", "user_level", "2.0")]
    assert "One user, as is assumed, takes part in at most 4 steps." in content["promises"][2]["sentence"]
    assert "in any 3 steps in a row" in content["promises"][1]["sentence"]
    assumed = "Limited participation (assumed, not enforced)"
    assert [assumed in promise["conditional_on"] for promise in content["promises"]] == [False, False, True]
    assert ["Independent steps" in promise["conditional_on"] for promise in content["promises"]] == [True, True, False]
    said = render_summary(plan, tmp_path / "plan")
    assert "user level: at most 2.0 nats about all events of one user in at most 4 steps" in said
    assert all(claim.holds is not False for claim in verify_directory(tmp_path / "plan"))


def test_a_period_of_a_user_is_kept_by_the_same_noise(compiled, tmp_path):
    """Of three steps of a week 2 nats are left, and no fewer of one of them; pages name the period and what is left."""
    plan = compiled(
        user="epsilon = 2.0, delta = 0, per = 5d",
        participation='participation at_most(3 steps, per = 5d, assumed = "tickets")',
    )
    event, window, user = plan.targets
    assert (user.bound, user.window, plan.participation.bound) == (3, 5, 1)
    lost = [stream_largest_loss(plan, target) for target in (event, window, user)]
    assert lost[0] * 3 == lost[1] == lost[2]
    assert 1.9999 < float(lost[2]) <= 2
    content = certificate_content(plan, {})
    schema = json.loads((Path(policyc.emit.__file__).parent / "certificate.schema.json").read_text())
    jsonschema.validate(content, schema)
    assert "in one period of 5 steps (5 days) together" in content["promises"][2]["sentence"]
    (several,) = [one["text"] for one in content["not_covered"] if "in several periods" in one["title"]]
    assert "6.66" in several  # ten steps
    assert "in at most 3 steps of one period of 5 steps (5 days)" in render_summary(plan, tmp_path)


def test_a_delta_is_left_of_the_noise_of_all_steps(compiled):
    """Composed over all releases; the promise that binds is kept just so."""
    plan = compiled(event="3.0", window="8.0", user="epsilon = 1.0, delta = 1e-4")
    user = plan.targets[2]
    assert 0.99e-4 < stream_profile(plan, user).delta(1.0) <= 1e-4
    content = certificate_content(plan, {})
    (failing,) = [one for one in content["not_covered"] if one["title"].startswith("Failure")]
    assert "0.0001" in failing["text"]


def test_gaussian_noise_is_taken_where_all_leave_something_to_chance(compiled):
    """Every promise with a delta, of two releases and many steps."""
    plan = compiled(event="1.0, delta = 1e-5", window="2.0, delta = 1e-5", user="rho = 0.1")
    assert {part.mechanism.name for part in plan.measured} & {"gaussian", "toeplitz", "binary_tree"}


def test_a_run_keeps_what_counts_of_a_step_and_no_more(compiled, tmp_path):
    """A user in more steps than is assumed is counted in all of them: only more events of a step are dropped."""
    plan = compiled()
    rows = [f"one,2026-01-{day:02d}T{hour}:00:00Z,2" for day in range(1, 11) for hour in ("08", "09")]
    file = tmp_path / "events.csv"
    file.write_text("\n".join(["person,at,spent", *rows]) + "\n", encoding="utf-8")
    counts = read_events(file, plan, steps=10).counts
    assert counts["there"].tolist() == np.ones((10, 1), int).tolist()


def test_simulations_predict_its_error(compiled):
    """Counts and totals err as stated; of a sum further events of a step are dropped, and no error tells of it."""
    plan = compiled(more="estimate none()")
    found = {one.release: one for one in simulate(plan, 40, 60, (), steps=10).errors if one.chosen}
    for name in ("there", "ever"):
        stated = plan.release_named(name).predicted.published
        assert abs(found[name].mean_squared_error - stated) < 5 * found[name].mean_squared_error_stderr


@pytest.mark.law
def test_attacks_are_within_every_promise(compiled):
    """They are played, and prove no more than is promised; with a fifth of the noise they prove more."""
    plan = compiled(event="1.5", window="4.0", user="epsilon = 2.0, delta = 0")
    found = audit(plan, "2026-01-01", 2000, seed=3)
    assert found.refuted is None
    assert any("in 4 of the first" in attack.secret for attack in found.attacks)
    assert audit(plan, "2026-01-01", 2000, seed=3, noise=0.2).refuted is not None


@pytest.mark.law
def test_plans_are_compared_by_every_promise(compiled):
    """Each of them being weaker makes a plan weaker."""
    plan = compiled()
    for weaker in (
        {"event": "1.0"},
        {"window": "2.5"},
        {"user": "epsilon = 2.5, delta = 0"},
        {"participation": 'participation at_most(3 steps, assumed = "tickets")'},
    ):
        assert is_weaker(compare_plans(plan, compiled(**weaker))), weaker
    assert not is_weaker(compare_plans(plan, compiled()))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"participation": "participation at_most(4 steps, enforced = keep_first)"}, "E0510"),
        ({"participation": 'participation at_most(4 steps, per = 2d, assumed = "x")'}, "E0505"),
        ({"participation": 'participation at_most(11 steps, assumed = "x")'}, "E0502"),
        ({"more": "mechanism gaussian()"}, "E0313"),
        ({"more": "budget parts(there = 1.0, spent = 1.0)"}, "E0509"),
        ({"user": "epsilon = 2.0, delta = 0, per = 7h", "participation": ""}, "E0506"),
        ({"more": "target event_level(epsilon = 0.3)"}, "E0306"),
    ],
)
def test_what_no_noise_keeps_is_refused(compiled, changed, code):
    """One finding, or the one that matters among them."""
    with pytest.raises(PolicyError) as found:
        compiled(**changed)
    assert code in [one.code for one in found.value.diagnostics]
