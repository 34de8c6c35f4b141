"""A mechanism and an estimator that a policy names are used together, or refused with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc import PolicyError, compile_policy
from policyc.offers import mechanism_offers
from policyc_check.errors import PlanFormatError
from policyc_check.mechanisms import Derived
from policyc_check.plan import plan as checked
from policyc_check.plan.queries import PrefixQuery
from policyc_check.verify import verified_claims
from policyc_runtime.plan import load_plan

SKIPPING = {name for name, offer in mechanism_offers().items() if offer.leaves_gaps}
POLICY = """policy visits "Visitors, daily"
stream events {{
  user     visitor
  time     seen_at
  {cell}
  step     1d
  horizon  {horizon}
  start    "2026-01-01"
}}
release visitors = count(events){by}
{target}
participation at_most({bound} steps, assumed = "tickets")
{more}
"""
USER_LEVEL = "target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)"


def write(folder: Path, more: str, **changed: str) -> Path:
    place = folder / "visits.policy"
    parts = {"cell": "", "horizon": "60 steps", "by": "", "target": USER_LEVEL, "bound": "10", **changed}
    place.write_text(POLICY.format(more=more, **parts))
    return place


def findings(folder: Path, more: str, **changed: str) -> list[tuple[str, str]]:
    """Code, and everything that is said, of each finding."""
    with pytest.raises(PolicyError) as refused:
        compile_policy(write(folder, more, **changed))
    return [(d.code, f"{d.message}; {d.because}; {d.help}") for d in refused.value.diagnostics]


@pytest.mark.parametrize(
    ("mechanism", "estimate", "deliver"),
    [
        ("lmmse(weight = 0.5)", "filter", "realtime"),
        ("fast()", "filter", "realtime"),
        ("dft()", "filter", "within(5 steps)"),
        ("dft()", "smoother", "offline"),
        ("gaussian()", "linear", "offline"),
    ],
)
def test_an_estimator_that_would_not_be_used_is_refused(
    mechanism: str, estimate: str, deliver: str, tmp_path: Path
) -> None:
    """What estimates already is not estimated again untried, and `linear` fills gaps only: one finding says so."""
    more = f"signal ar1(learned = true)\nmechanism {mechanism}\nestimate {estimate}()\ndeliver {deliver}"
    ((code, said),) = findings(tmp_path, more)
    assert code == "E0755"
    assert f"`{estimate}`" in said


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize(("mechanism", "estimate"), [("lmmse(weight = 0.5)", "filter"), ("gaussian()", "filter")])
def test_an_estimator_that_is_named_is_used_where_it_was_tried(mechanism: str, estimate: str, tmp_path: Path) -> None:
    """With a declared signal the pair is simulated, and it is the plan's even where another would be better."""
    signal = "signal ar1(mean = 900, sd = 100, autocorrelation = 0.8)"
    more = f"{signal}\nmechanism {mechanism}\nestimate {estimate}()\ndeliver realtime"
    plan = compile_policy(write(tmp_path, more)).plan
    assert plan.releases[0].estimator.described().startswith(f"{estimate}(")


@pytest.mark.parametrize(
    ("changed", "more", "place"),
    [
        ({}, "budget uniform()", "`uniform`"),
        ({}, "budget bounded()", "`bounded`"),
        ({}, "budget quantified()", "`quantified`"),
        ({}, "budget optimal()", "`optimal`"),
        ({}, "budget sparse(every = 4 steps)", "`sparse`"),
    ],
)
def test_what_a_user_level_promise_is_not_planned_with_is_one_finding(
    changed: dict[str, str], more: str, place: str, tmp_path: Path
) -> None:
    """Budgets of steps: E0702, which names it and says what to write."""
    ((code, said),) = findings(tmp_path, more, **changed)
    assert code == "E0702"
    assert place in said


@pytest.mark.parametrize("mechanism", ["toeplitz()", "binary_tree()"])
def test_an_endless_stream_has_no_factorisation(mechanism: str, tmp_path: Path) -> None:
    """Their noise is made for a horizon: one finding says so; without a name another mechanism is taken."""
    ((code, said),) = findings(tmp_path, f"mechanism {mechanism}\ndeliver realtime", horizon="unbounded")
    assert code == "E0755"
    assert "horizon" in said
    plan = compile_policy(write(tmp_path, "deliver realtime", horizon="unbounded")).plan
    assert plan.releases[0].mechanism.name == "gaussian"


@pytest.mark.parametrize("mechanism", ["subsample(rate = 1e-8)", "filter_subsample(rate = 1e-8)"])
def test_a_rate_that_shows_next_to_nothing_is_refused(mechanism: str, tmp_path: Path) -> None:
    """A promise that chance alone keeps is none; the finding says which rate or delta would be one."""
    ((code, said),) = findings(tmp_path, f"mechanism {mechanism}\ndeliver offline")
    assert code == "E0755"
    assert "or more" in said or "or less" in said


def test_running_totals_of_single_events_are_measured_where_that_is_better(tmp_path: Path) -> None:
    """One event is in every total after it: with a delta the total is measured, in the same noise as under one step."""
    total = " \nrelease so_far = prefix(visitors)"
    single, whole = (
        compile_policy(
            write(tmp_path, "deliver realtime\nmechanism toeplitz()", by=total, bound="1", target=target)
        ).plan
        for target in ("target event_level(epsilon = 1.0, delta = 1e-6)", USER_LEVEL.replace("add_remove", "replace"))
    )
    for plan in (single, whole):
        assert {release.mechanism.name for release in plan.releases} == {"toeplitz"}
    assert single.releases[0].predicted.published <= whole.releases[0].predicted.published


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("total", ["prefix(visitors)", "window(visitors, 5 steps)"])
@pytest.mark.parametrize("mechanism", ["subsample(rate = 0.5)", "filter_subsample(rate = 0.5)"])
def test_totals_of_steps_that_are_not_measured_are_refused(mechanism: str, total: str, tmp_path: Path) -> None:
    """One finding, before anything is planned, says what to write; without a name every step is measured."""
    by = f"\nrelease total = {total}"
    ((code, said),) = findings(tmp_path, f"mechanism {mechanism}\ndeliver offline", by=by)
    assert code == "E0611"
    assert "`total`" in said
    assert "`visitors`" in said
    signal = "signal ar1(mean = 9, sd = 3, autocorrelation = 0.99)"
    plan = compile_policy(write(tmp_path, f"{signal}\ndeliver offline", by=by)).plan
    assert not {release.mechanism.name for release in plan.releases} & SKIPPING


def test_a_total_of_steps_without_values_is_no_plan(tmp_path: Path) -> None:
    """Made by other means, with a running total of a subsample: it promises nothing false, and nothing runs it."""
    plan = compile_policy(write(tmp_path, "mechanism subsample(rate = 0.5)\ndeliver offline")).plan
    (base,) = plan.releases
    query = PrefixQuery(of=base.name, by=None)
    total = base.model_copy(update={"name": "total", "query": query, "mechanism": Derived()})
    altered = plan.model_copy(update={"releases": (base, total)}).sealed()
    assert all(claim.holds for claim in verified_claims(checked.Plan.model_validate_json(altered.to_json())))
    (tmp_path / "plan.json").write_text(altered.to_json())
    with pytest.raises(PlanFormatError) as refused:
        load_plan(tmp_path)
    assert "what it adds up has steps without a value" in str(refused.value.because)
    elsewhere = plan.model_copy(update={"delivery": plan.delivery.model_copy(update={"kind": "realtime"})}).sealed()
    (tmp_path / "plan.json").write_text(elsewhere.to_json())
    with pytest.raises(PlanFormatError) as refused:
        load_plan(tmp_path)
    assert "it fills steps from later ones" in str(refused.value.because)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", ["binary_tree()", "toeplitz()", "auto"])
def test_totals_of_totals_are_made_of_what_they_add_up(mechanism: str, tmp_path: Path) -> None:
    """No mechanism measures them, named or not: its noise would be for a total of what one user changes in a step."""
    by = "\nrelease so_far = prefix(visitors)\nrelease lately = window(so_far, 4 steps)"
    plan = compile_policy(write(tmp_path, f"mechanism {mechanism}\ndeliver realtime", by=by)).plan
    assert plan.release_named("lately").mechanism == Derived()


@pytest.mark.parametrize("estimate", ["linear", "smoother"])
def test_an_estimator_that_waits_says_so(estimate: str, tmp_path: Path) -> None:
    """Where values wait for few later steps, what needs all of them is refused for that, not for want of a chain."""
    ((code, said),) = findings(tmp_path, f"estimate {estimate}()\ndeliver within(3 steps)")
    assert code == "E0752"
    assert "wait" in said
