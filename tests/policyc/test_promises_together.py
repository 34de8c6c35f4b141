"""All events of a user beside promises about steps: planned, run, verified, certified, compared, attacked, refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest

import policyc.emit
from policyc import PolicyError, compile_policy
from policyc.emit import verify_directory
from policyc.emit.context import certificate_content
from policyc.emit.difference import compare_plans, is_weaker
from policyc.emit.numbers import shown
from policyc.emit.registry import registry_record
from policyc.emit.summary import render_summary
from policyc_check.plan.plan import load_plan as load_checked
from policyc_check.plan.targets import AnyUserSteps
from policyc_check.steps.users import costs_of, differing_steps
from policyc_check.users.composition import GAP
from policyc_check.verify import verified_claims
from policyc_runtime.laboratory.empirical import audit
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan, load_plan

POLICY = """policy rooms "Visitors by room"
stream seen {{
  user person time at cell room in {{"A", "B"}} {otherwise} step 1d horizon {horizon} {start} population 50
}}
release there = count(seen) by room
{targets}
{participation}
{more}
"""
CHAIN = """correlation markov(forward = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]], initial = stationary,
  evidence = "counted")"""
USER = "target user_level(epsilon = {}, delta = {}, neighbors = {})"
PLAIN = {
    "otherwise": 'otherwise "away"',
    "horizon": "20 steps",
    "start": 'start "2026-01-01"',
    "targets": "target alpha_dpt(alpha = 1.0)\n" + USER.format("2.0", "1e-4", "add_remove"),
    "participation": 'participation at_most(6 steps, assumed = "tickets")',
    "more": CHAIN,
}
EVENT = "target event_level(epsilon = 0.5)\n"
ALPHA = "target alpha_dpt(alpha = 1.0)\n"
WEEK = "target user_level(epsilon = 1.0, delta = 0, neighbors = add_remove, per = 1w)"
HOUR = "target user_level(epsilon = 0.3, delta = 0, neighbors = add_remove, per = 1h)"
TICKETS = 'participation at_most(5 steps, per = 1w, assumed = "tickets")'


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., Plan]:
    """The plan of the page with some words changed."""

    def compile_with(text: str = POLICY, **changed: str) -> Plan:
        (tmp_path / "rooms.policy").write_text(text.format(**{**PLAIN, **changed}))
        return compile_policy(tmp_path / "rooms.policy").plan

    return compile_with


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    """Codes, and what is said, of the errors of the page with some words changed."""

    def refuse_with(**changed: str) -> list[tuple[str, str]]:
        (tmp_path / "rooms.policy").write_text(POLICY.format(**{**PLAIN, **changed}))
        with pytest.raises(PolicyError) as found:
            compile_policy(tmp_path / "rooms.policy")
        return [(d.code, f"{d.message}; {d.help}") for d in found.value.diagnostics if d.code.startswith("E")]

    return refuse_with


def promised(plan: Plan) -> AnyUserSteps:
    """The promise about all events of a user."""
    (target,) = (target for target in plan.targets if isinstance(target, AnyUserSteps))
    return target


def test_a_plan_keeps_both_and_says_both(compiled, tmp_path):
    """Saved, run, verified by itself and from its policy; the certificate's first page has a sentence of each."""
    compilation = tmp_path / "plan"
    (tmp_path / "rooms.policy").write_text(POLICY.format(**PLAIN))
    compile_policy(tmp_path / "rooms.policy").save(compilation)
    plan = load_plan(compilation)
    assert promised(load_checked(compilation)) == promised(plan)
    assert (promised(plan).bound, promised(plan).assumed) == (6, "tickets")
    content = certificate_content(plan, {})
    schema = json.loads((Path(policyc.emit.__file__).parent / "certificate.schema.json").read_text())
    jsonschema.validate(content, schema)
    alpha, user = content["promises"]
    assert (alpha["kind"], user["kind"]) == ("alpha_dpt", "user_level")
    assert "tells at most 2.0 nats at delta 0.0001 about all events" in user["sentence"]
    assert "One user, as is assumed, takes part in at most 6 steps." in user["sentence"]
    assert "as is assumed" in user["sentence"]
    assert any("tickets" in entry["vouched_by"] for entry in content["assumptions"])
    assert "Limited participation (assumed, not enforced)" in user["conditional_on"]
    assert "Limited participation (assumed, not enforced)" not in alpha["conditional_on"]
    assert content["participation"]["bound"].startswith("at most 6 steps")
    assert registry_record(content)["deployment"]["dp_variant"]["variant_name"] == "Custom"
    said = render_summary(plan, compilation)
    assert "user level: at most 2.0 nats about all events of one user in at most 6 steps" in said
    assert all(claim.holds is not False for claim in verify_directory(compilation))


def test_a_rho_is_kept_and_said(compiled):
    """Half of the squares of the costliest budgets; the certificate says what that is at a delta, too."""
    targets = "target alpha_dpt(alpha = 1.0)\ntarget user_level(rho = 0.05, neighbors = replace)"
    plan = compiled(targets=targets)
    rho = sum(budget**2 * times for budget, times in costs_of(plan, promised(plan))) / 2
    assert 0.05 * (1 - 1e-9) <= rho <= Decimal("0.05")
    content = certificate_content(plan, {})
    schema = json.loads((Path(policyc.emit.__file__).parent / "certificate.schema.json").read_text())
    jsonschema.validate(content, schema)
    user = content["promises"][1]
    assert (user["kind"], user["unit"], user["value"]) == ("user_level_rho", "rho", "0.05")
    assert "tells at most rho 0.05, which is" in user["sentence"]
    budgets = [float(budget) for budget, times in costs_of(plan, promised(plan)) for _ in range(times)]
    assert math.log(float(user["factor"])) < sum(budgets)  # less than all budgets: some of it is left to chance
    assert not is_weaker(compare_plans(plan, compiled(targets=targets.replace("0.05", "0.04"))))
    assert is_weaker(compare_plans(plan, compiled(targets=targets.replace("0.05", "0.06"))))
    pure = targets.replace("rho = 0.05", "epsilon = 0.3, delta = 0")  # of which half the square is 0.045
    assert not is_weaker(compare_plans(plan, compiled(targets=pure)))
    assert is_weaker(compare_plans(plan, compiled(targets=pure.replace("0.3", "0.32"))))


@pytest.mark.parametrize("delta", ["", ", delta = 1e-4"])
def test_a_step_with_neighbors_of_its_own_is_kept_and_said(compiled, delta, tmp_path):
    """Who is away counts as such, so that budgets hide whether a user is there as they hide where; no delta is used."""
    step = f"target w_event(epsilon = 0.5, window = 3 steps{delta}, neighbors = add_remove)"
    plan = compiled(targets=f"{ALPHA}{step}", participation="")
    replaced = compiled(targets=f"{ALPHA}target w_event(epsilon = 0.5, window = 3 steps)", participation="")
    assert [one.schedule for one in plan.releases] == [one.schedule for one in replaced.releases]
    content = certificate_content(plan, {})
    schema = json.loads((Path(policyc.emit.__file__).parent / "certificate.schema.json").read_text())
    jsonschema.validate(content, schema)
    said = content["promises"][1]
    assert said["neighboring_relation"] == "add_or_remove_one"
    assert said["neighbors"].endswith("; without events a user counts as `away`")
    assert "as likely with what the user does there as without it." in said["sentence"]
    assert ("delta of 0.0001 is not used" in said["sentence"]) == bool(delta) == ("delta" in said)
    assert ("(delta 0.0001 is not used)" in render_summary(plan, tmp_path)) == bool(delta)
    assert is_weaker(compare_plans(plan, replaced))  # other data sets are compared
    weaker = compiled(targets=f"{ALPHA}{step}".replace("1e-4", "2e-4"), participation="")
    assert is_weaker(compare_plans(plan, weaker)) == bool(delta)


@pytest.mark.parametrize("mechanism", ["budget_absorption", "budget_distribution"])
def test_budgets_that_adapt_hide_whether_a_user_is_there_as_they_hide_where(compiled, mechanism):
    """Of two events in a step the last counts: one event less may move a user, so noise for one count is refused."""
    step = "target w_event(epsilon = 1.0, window = 1 step, delta = 1e-4{})"
    words = {"otherwise": "", "participation": "", "more": f"mechanism {mechanism}()"}
    text = POLICY.replace(" population 50", "")
    plans = [compiled(text, **words, targets=step.format(one)) for one in (", neighbors = add_remove", "")]
    plan, (added, replaced) = plans[0], (plan.releases[0] for plan in plans)
    assert all(claim.holds is not False for claim in verified_claims(plan))
    assert added.l1_sensitivity == replaced.l1_sensitivity == 2
    assert (added.mechanism, added.predicted) == (replaced.mechanism, replaced.predicted)
    (statement,) = (
        one["statement"] for one in certificate_content(plan, {})["assumptions"] if one["id"] == "one_count"
    )
    assert "at most one cell" in statement  # who is removed is in none
    half = added.mechanism.model_copy(update={"l1_sensitivity": Decimal(1)})
    alone = added.model_copy(update={"l1_sensitivity": Decimal(1), "mechanism": half})
    counted = plan.stream.model_copy(update={"population": 50})
    for change in ({"releases": (alone,)}, {"stream": counted}):
        altered = plan.model_copy(update=change).sealed()
        assert not all(claim.holds is not False for claim in verified_claims(altered))


def test_without_a_bound_any_steps_are_covered(compiled):
    """Nothing is assumed then, and neighbors that replace a user differ in all steps at most."""
    plan = compiled(participation="", targets=EVENT + USER.format("2.0", "0", "replace"), more="")
    assert (promised(plan).bound, promised(plan).assumed) == (20, None)
    assert differing_steps(promised(plan), 20) == 20
    content = certificate_content(plan, {})
    user = content["promises"][1]
    assert "any of the 20 steps" in user["sentence"]
    assert not any(entry["id"] == "participation" for entry in content["assumptions"])
    assert "assumed" not in content["participation"]["bound"]
    assert registry_record(content)["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    budgets = sum(budget * times for budget, times in costs_of(plan, promised(plan)))
    assert 2 * (1 - 20 * GAP) <= budgets <= 2


def test_a_period_of_a_user_is_kept_and_said(compiled, tmp_path):
    """Of seven steps in a row those that differ cost no more than is promised; pages say so, and what is left."""
    plan = compiled(targets=ALPHA + WEEK, participation=TICKETS)
    user = promised(plan)
    assert (user.bound, user.window, user.assumed) == (5, 7, "tickets")
    assert differing_steps(user, 20) == 5
    schedule = plan.releases[0].schedule.epsilons(20)
    weeks = [sum(sorted(schedule[at : at + 7])[-5:]) for at in range(14)]
    assert 1 - Decimal("1e-9") < max(weeks) <= 1
    assert sum(schedule) > 2  # all weeks together are told more, and the pages say how much
    content = certificate_content(plan, {})
    schema = json.loads((Path(policyc.emit.__file__).parent / "certificate.schema.json").read_text())
    jsonschema.validate(content, schema)
    said = content["promises"][1]
    assert said["unit_of_privacy"] == "all events of one user in one period of 7 steps (7 days)"
    assert "at most 5 steps of one period of 7 steps (7 days)" in said["sentence"]
    (several,) = [one["text"] for one in content["not_covered"] if "in several periods" in one["title"]]
    assert f"at most {shown(plan.claims.budget_sum)} nats for one user" in several
    assert "2026-01-01" in several
    assert "in at most 5 steps of one period of 7 steps (7 days)" in render_summary(plan, tmp_path)


def test_a_period_that_is_whole_is_a_window(compiled):
    """Of users who may be in all its steps nothing is assumed, and replaced ones cost what a window of it does."""
    plan = compiled(targets=EVENT + WEEK.replace("add_remove", "replace"), participation="", more="")
    window = compiled(
        targets=EVENT + "target w_event(epsilon = 1.0, window = 7 steps)", participation="", more="", otherwise=""
    )
    assert (promised(plan).bound, promised(plan).window, promised(plan).assumed) == (7, 7, None)
    own, other = (list(map(float, one.releases[0].schedule.epsilons(20))) for one in (plan, window))
    assert own == pytest.approx(other, rel=1e-9)
    assert "any steps of one period of 7 steps" in certificate_content(plan, {})["promises"][1]["sentence"]


@pytest.mark.parametrize(
    ("start", "per", "longest"),
    [
        ('start "2026-01-01" clock "Europe/Berlin"', "month", 31),
        ('start "2026-10-19" clock "Europe/Berlin"', "1w", 7),
        ('start "2026-10-19"', "1d", 1),
    ],
)
def test_periods_of_a_clock_are_as_long_as_the_longest(compiled, start, per, longest):
    """Months have 31 days; a day is a step, in which two users differ once."""
    user = f"target user_level(epsilon = 1.0, delta = 0, neighbors = replace, per = {per})"
    plan = compiled(start=start, horizon="90 steps", targets=EVENT + user, participation="", more="")
    assert promised(plan).window == promised(plan).bound == differing_steps(promised(plan), 90) == longest
    content = certificate_content(plan, {})
    least = "at most " if "clock" in start else ""
    assert f"one period of {least}{longest} step" in content["promises"][1]["sentence"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "one period of 1 hour within a step"),
        ({"participation": 'participation at_most(1 steps, per = 1h, assumed = "x")'}, "within a step"),
        ({"participation": "participation at_most(1 steps, per = 1h, enforced = keep_first)"}, "within a step"),
        ({"horizon": "unbounded", "more": f"{CHAIN}\ndeliver realtime"}, "within a step"),
        ({"start": 'start "2026-03-20" clock "Europe/Berlin"'}, "within a step"),
        ({"targets": ALPHA + HOUR.replace("epsilon = 0.3, delta = 0", "rho = 0.045")}, "within a step"),
        ({"targets": ALPHA + HOUR.replace("1h", "20min").replace("delta = 0", "delta = 1e-9")}, "20 minutes within"),
    ],
)
def test_a_period_that_is_part_of_a_step_is_one_step(compiled, changed, said, tmp_path):
    """Whatever one user does in an hour, each step of a day has the budget; pages say what else counts without it."""
    plan = compiled(**{"targets": ALPHA + HOUR, "participation": "", **changed})
    user = promised(plan)
    assert (user.bound, user.window, differing_steps(user, plan.stream.horizon)) == (1, 1, 1)
    assert Decimal("0.3") * (1 - Decimal("1e-6")) < plan.claims.largest_budget <= Decimal("0.3") * (1 + Decimal("1e-6"))
    assert said in render_summary(plan, tmp_path)
    content = certificate_content(plan, {})
    jsonschema.validate(
        content, json.loads((Path(policyc.emit.__file__).parent / "certificate.schema.json").read_text())
    )
    promise = content["promises"][1]
    assert "Such a period lies within one step." in promise["sentence"]
    assert "other events of the step may count in place of those left out" in promise["neighbors"]
    assert "the largest budget of one step" in promise["recomputed"]
    assert not any(entry["id"] == "participation" for entry in content["assumptions"])


def test_an_hour_and_the_day_around_it_are_compared(compiled):
    """Of users replaced the longer period is the stronger promise; of users added none of the two is."""
    hour, half, day = (
        compiled(targets=ALPHA + HOUR.replace("1h", per).replace("add_remove", "replace"), participation="")
        for per in ("1h", "30min", "1d")
    )
    for weaker, stronger in ((half, hour), (hour, day)):
        assert is_weaker(compare_plans(stronger, weaker))
        assert not is_weaker(compare_plans(weaker, stronger))
    added = [compiled(targets=ALPHA + HOUR.replace("1h", per), participation="") for per in ("1h", "1d")]
    assert is_weaker(compare_plans(*added))
    assert is_weaker(compare_plans(*added[::-1]))


def test_periods_of_a_stream_without_end(compiled):
    """They need no bound there: a period has only so many steps. Sparse steps cost what a period has of them."""
    plan = compiled(horizon="unbounded", targets=ALPHA + WEEK, participation="", more=f"{CHAIN}\ndeliver realtime")
    assert promised(plan).bound == 7
    ((budget, times),) = costs_of(plan, promised(plan))
    assert times == 7
    assert 1 - 1e-9 < 7 * budget <= 1
    assert "nothing over a stream that has no end" in str(certificate_content(plan, {})["not_covered"])
    week = WEEK.replace("1.0", "0.5")
    sparse = compiled(
        horizon="unbounded",
        targets=ALPHA + week,
        participation="",
        more=f"{CHAIN}\ndeliver realtime\nbudget sparse(every = 3 steps)\n"
        "postprocess there { sum(there) == population }",
    )
    ((budget, times),) = costs_of(sparse, promised(sparse))
    assert times == 3
    assert 0.5 - 1e-9 < 3 * budget <= 0.5


def test_longer_periods_are_the_stronger_promise(compiled):
    """Of more of a user at once; all of it is more than any period."""
    plan = compiled(targets=ALPHA + WEEK, participation=TICKETS)
    shorter = compiled(
        targets=ALPHA + WEEK.replace("1w", "5d"),
        participation='participation at_most(5 steps, per = 5d, assumed = "x")',
    )
    whole = compiled(
        targets=ALPHA + WEEK.replace(", per = 1w", ""), participation='participation at_most(5 steps, assumed = "x")'
    )
    for weaker, stronger in ((shorter, plan), (plan, whole)):
        assert is_weaker(compare_plans(stronger, weaker))
        assert not any(
            change.what == "user_level beside steps" and change.effect.value == "weaker"
            for change in compare_plans(weaker, stronger)
        )
    moved = compiled(targets=ALPHA + WEEK, participation=TICKETS, start='start "2026-01-02"')
    assert "when periods begin" in [change.what for change in compare_plans(plan, moved)]


@pytest.mark.law
def test_simulations_predict_the_error_beside_a_period(compiled):
    """By budgets of steps as it is stated; the attack on a week is within the promise."""
    plan = compiled(targets=ALPHA + WEEK, participation=TICKETS, more=f"{CHAIN}\nestimate none()")
    (found,) = [one for one in simulate(plan, 40, 60, (), steps=20).errors if one.chosen]
    stated = plan.releases[0].predicted.published
    assert abs(found.mean_squared_error - stated) < 5 * found.mean_squared_error_stderr
    assert audit(plan, "2026-01-01", 1000, seed=5).refuted is None


@pytest.mark.parametrize("spacing", ["", ", spacing = 4 steps"])
def test_a_stream_without_end_keeps_both(compiled, spacing):
    """So many of the largest budgets there are; events that are apart make no difference where there is no end."""
    plan = compiled(
        horizon="unbounded",
        targets="target alpha_dpt(alpha = 1.0)\n" + USER.format("0.9", "0", "replace"),
        participation=f'participation at_most(6 steps{spacing}, assumed = "tickets")',
        more=f"{CHAIN}\ndeliver realtime",
    )
    (cost,) = costs_of(plan, promised(plan))
    assert cost[1] == 12
    assert 0.9 * (1 - 1e-9) <= 12 * cost[0] <= 0.9


def test_spacing_leaves_fewer_steps(compiled):
    """Of 20 steps at least four apart a user is in five."""
    apart = 'participation at_most(6 steps, spacing = 4 steps, assumed = "tickets")'
    assert promised(compiled(participation=apart)).bound == 5


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"participation": "participation at_most(6 steps, enforced = keep_first)"}, "E0510", "assumed ="),
        ({"participation": "participation at_most(6 steps, enforced = keep_sample)"}, "E0510", "at_most(20 steps"),
        ({"participation": 'participation at_most(6 steps, per_step = 2, assumed = "x")'}, "E0702", "per_step = 1"),
        ({"participation": 'participation at_most(6 steps, per = 7d, assumed = "x")'}, "E0505", "per"),
        ({"otherwise": "", "targets": EVENT + USER.format("2.0", "0", "replace"), "more": ""}, "E0304", "otherwise"),
        ({"horizon": "unbounded", "participation": "", "more": f"{CHAIN}\ndeliver realtime"}, "E0501", "assumed"),
        (
            {"targets": ALPHA + HOUR, "participation": 'participation at_most(2 steps, per = 1h, assumed = "x")'},
            "E0502",
            "1 step",
        ),
        ({"targets": ALPHA + HOUR.replace("1h", "7h"), "participation": ""}, "E0506", "whole"),
        ({"targets": ALPHA + WEEK, "participation": 'participation at_most(5 steps, assumed = "x")'}, "E0505", "per"),
        ({"targets": ALPHA + WEEK.replace("1w", "36h"), "participation": ""}, "E0506", "whole"),
        ({"targets": ALPHA + WEEK, "start": "", "participation": ""}, "E0507", "start"),
        (
            {
                "targets": ALPHA + WEEK,
                "participation": "participation at_most(5 steps, per = 1w, enforced = keep_first)",
            },
            "E0510",
            "at_most(7 steps",
        ),
        ({"targets": EVENT + USER.format("2.0", "0", "replace")}, "E0309", "alpha_dpt"),
        (
            {
                "targets": "target alpha_dpt(alpha = 1.0)\ntarget event_level(epsilon = 0.5, delta = 0.1)",
                "participation": "",
            },
            "E0310",
            "delta",
        ),
        (
            {
                "otherwise": "",
                "targets": "target w_event(epsilon = 0.5, window = 2 steps, neighbors = add_remove)",
                "participation": "",
                "more": "mechanism budget_absorption()",
            },
            "E0304",
            "otherwise",
        ),
        ({"more": f"{CHAIN}\nrelease sums = sum(seen.spent, clamp = 0 .. 5) by room"}, "E0415", "amounts = by_cell"),
        ({"more": f"{CHAIN}\nbudget parts(there = 1.0)"}, "E0509", "parts"),
        ({"targets": EVENT + USER.format("2.0", "0.5", "replace"), "more": ""}, "E0310", "delta"),
    ],
)
def test_what_budgets_cannot_keep_is_refused_with_what_to_write(refused, changed, code, words):
    """One finding, which names the place."""
    found = refused(**changed)
    assert [one for one, _ in found] == [code]
    assert words in found[0][1]


def test_a_bound_that_drops_nothing_may_be_enforced(compiled):
    """Whoever may take part in every step is never cut."""
    plan = compiled(participation="participation at_most(20 steps, enforced = keep_first)")
    assert (promised(plan).bound, promised(plan).assumed) == (20, None)


def test_plans_are_compared_by_every_promise(compiled):
    """Fewer steps, more nats, a larger delta or no such promise are weaker; the opposite is not."""
    plan = compiled()
    for weaker in (
        {"participation": 'participation at_most(5 steps, assumed = "tickets")'},
        {"targets": PLAIN["targets"].replace("epsilon = 2.0", "epsilon = 2.5")},
        {"targets": PLAIN["targets"].replace("1e-4", "2e-4")},
        {"targets": "target alpha_dpt(alpha = 1.0)", "participation": ""},
    ):
        other = compiled(**weaker)
        assert is_weaker(compare_plans(plan, other)), weaker
    same = compiled()
    assert not is_weaker(compare_plans(plan, same))


def test_an_assumption_more_makes_no_promise_stronger(compiled):
    """That users take part in at most all steps there are assumes nothing, so nothing differs."""
    every = compiled(participation="")
    assumed = compiled(participation='participation at_most(20 steps, assumed = "tickets")')
    assert not compare_plans(every, assumed)


def test_an_attack_on_all_steps_is_within_the_promise(compiled):
    """It is played, and proves no more than is promised; with a third of the noise it proves more."""
    plan = compiled(
        targets=EVENT + USER.format("1.5", "0", "replace"),
        participation='participation at_most(3 steps, assumed = "tickets")',
        more="",
    )
    found = audit(plan, "2026-01-01", 4000, seed=3)
    assert found.refuted is None
    assert any("throughout steps" in attack.secret for attack in found.attacks)
    refuted = audit(plan, "2026-01-01", 4000, seed=3, noise=0.3).refuted
    assert refuted is not None


def test_simulations_predict_its_error(compiled):
    """What is chosen errs as stated, on users who move as the chain says."""
    plan = compiled()
    found = simulate(plan, 4, 60, (), steps=20)
    (error,) = [one for one in found.errors if one.chosen]
    assert error.mean_squared_error == pytest.approx(plan.releases[0].predicted.published, rel=0.15)


def test_budgets_that_adapt_keep_it_too(compiled):
    """The most that steps may spend, in the steps of one user."""
    plan = compiled(
        targets="target w_event(epsilon = 1.0, window = 4 steps)\n" + USER.format("1.0", "0", "add_remove"),
        more="mechanism budget_absorption()",
    )
    total = sum(budget * times for budget, times in costs_of(plan, promised(plan)))
    assert 0.999 <= total <= 1
    assert 6 * plan.releases[0].mechanism.spent(1) <= total
