"""What `policyc diff` says about two plans, and that no weakening passes for anything else."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from policyc.emit.difference import Effect, changes_json, compare_plans, is_weaker, render_changes
from policyc_check.plan.claims import UserLevelClaim
from policyc_check.plan.stream import ParticipationRecord
from policyc_check.plan.targets import AlphaDPT, EventLevel, NeighboringRelation, UserLevel
from policyc_runtime.plan import Plan

USERS = UserLevel(epsilon=Decimal(1), delta=Decimal("1e-6"), relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
BOUND = ParticipationRecord(bound=10, per_step=2, spacing=3, enforced="keep_first", assumed=None)


def changed(plan: Plan, **fields: Any) -> Plan:
    return plan.model_copy(update=fields)


def promising(plan: Plan, *targets: Any) -> Plan:
    kept = tuple(
        UserLevelClaim(epsilon=target.epsilon, delta=target.delta, relation=target.relation, beyond=())
        for target in targets
        if isinstance(target, UserLevel)
    )
    return changed(plan, targets=targets, claims=plan.claims.model_copy(update={"user_level": kept}))


def stream(plan: Plan, **fields: Any) -> Plan:
    return changed(plan, stream=plan.stream.model_copy(update=fields))


def effects(old: Plan, new: Plan) -> list[Effect]:
    return [change.effect for change in compare_plans(old, new)]


def weaker_and_back(old: Plan, new: Plan) -> None:
    """The change is weaker, and its reverse is not."""
    assert is_weaker(compare_plans(old, new))
    assert effects(new, old)
    assert not is_weaker(compare_plans(new, old))


def test_equal_plans_differ_in_nothing(traffic: Plan) -> None:
    """A plan compared with itself has no change, and says so."""
    assert compare_plans(traffic, traffic) == []
    assert render_changes([]) == ["nothing changed"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (AlphaDPT(alpha=Decimal(1)), AlphaDPT(alpha=Decimal("1.000001"))),
        (AlphaDPT(alpha=Decimal(1), window=3), AlphaDPT(alpha=Decimal(1), window=2)),
        (USERS, USERS.model_copy(update={"epsilon": Decimal("1.1")})),
        (USERS, USERS.model_copy(update={"delta": Decimal("1e-5")})),
        (EventLevel(epsilon=Decimal(1)), EventLevel(epsilon=Decimal(2))),
    ],
)
def test_a_larger_number_or_a_shorter_window_is_weaker(fleet: Plan, old: Any, new: Any) -> None:
    """Larger alpha, epsilon or delta and a shorter window weaken a promise; the other way round they do not."""
    plan = changed(fleet, participation=BOUND)
    weaker_and_back(promising(plan, old), promising(plan, new))


def test_better_in_one_number_and_worse_in_another_is_weaker(fleet: Plan) -> None:
    """A smaller epsilon does not pay for a larger delta, nor a longer window for a larger alpha."""
    plan = changed(fleet, participation=BOUND)
    other = USERS.model_copy(update={"epsilon": Decimal("0.1"), "delta": Decimal("1e-5")})
    assert is_weaker(compare_plans(promising(plan, USERS), promising(plan, other)))
    one, two = AlphaDPT(alpha=Decimal(1)), AlphaDPT(alpha=Decimal(2), window=9)
    assert is_weaker(compare_plans(promising(plan, one), promising(plan, two)))


def test_a_dropped_promise_is_weaker_even_when_another_is_added(fleet: Plan) -> None:
    """No kind of promise is taken for another; one more beside the old one is stronger."""
    alpha, event = AlphaDPT(alpha=Decimal(1)), EventLevel(epsilon=Decimal("0.1"))
    assert is_weaker(compare_plans(promising(fleet, alpha), promising(fleet, event)))
    weaker_and_back(promising(fleet, alpha, event), promising(fleet, alpha))


def test_other_neighbors_count_as_weaker_both_ways(fleet: Plan) -> None:
    """Replaced and added users cannot be compared, so either change is weaker."""
    plan = changed(fleet, participation=BOUND)
    other = USERS.model_copy(update={"relation": NeighboringRelation.REPLACE_ONE})
    one, two = promising(plan, USERS), promising(plan, other)
    assert is_weaker(compare_plans(one, two))
    assert is_weaker(compare_plans(two, one))


@pytest.mark.parametrize(
    "fields",
    [
        {"user_column": "household"},
        {"time_column": "landed_at"},
        {"step_milliseconds": 1000},
        {"horizon": 20},
        {"horizon": 10_000},
        {"horizon": None},
    ],
)
def test_another_unit_or_time_is_weaker(fleet: Plan, fields: dict[str, Any]) -> None:
    """Another user, step, or horizon, longer or shorter, counts as weaker in both directions, with a reason."""
    new = stream(fleet, **fields)
    for one, other in ((fleet, new), (new, fleet)):
        weaker = [change for change in compare_plans(one, other) if change.effect is Effect.WEAKER]
        assert weaker
        assert all(change.reason for change in weaker)


def test_other_cells_are_weaker_also_when_only_a_late_one_differs(fleet: Plan) -> None:
    """Renaming any cell, the ninth too, is found and shown."""
    assert fleet.stream.cell is not None
    many = tuple(f"c{index}" for index in range(9))
    one = stream(fleet, cell=fleet.stream.cell.model_copy(update={"cells": many}))
    two = stream(fleet, cell=fleet.stream.cell.model_copy(update={"cells": (*many[:8], "x")}))
    (change,) = compare_plans(one, two)
    assert change.effect is Effect.WEAKER
    assert change.old != change.new


def test_another_chain_is_weaker_and_other_evidence_is_said(traffic: Plan) -> None:
    """A changed probability or a dropped group is weaker; new evidence for the same chain is told."""
    (chain,) = traffic.correlation.chains

    def having(*chains: Any) -> Plan:
        kind = "markov" if chains else "none"
        correlation = traffic.correlation.model_copy(update={"chains": chains, "kind": kind, "evidence": "none known"})
        return changed(traffic, correlation=correlation)

    assert chain.forward is not None
    rows = (tuple(reversed(chain.forward[0])), *chain.forward[1:])
    assert is_weaker(compare_plans(traffic, having(chain.model_copy(update={"forward": rows}))))
    told = compare_plans(having(chain), having(chain.model_copy(update={"evidence": "a newer survey"})))
    assert [change.effect for change in told] == [Effect.NEITHER]
    assert is_weaker(compare_plans(traffic, having()))
    group = chain.model_copy(update={"group": "guests"})
    weaker_and_back(having(chain, group), having(chain))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (BOUND, {"enforced": None, "assumed": "they do"}),
        ({"enforced": None, "assumed": "a"}, {"enforced": None, "assumed": "a", "bound": 9}),
        ({"enforced": None, "assumed": "a"}, {"enforced": None, "assumed": "a", "per_step": 1}),
        ({"enforced": None, "assumed": "a"}, {"enforced": None, "assumed": "a", "spacing": 4}),
    ],
)
def test_weaker_enforcement_of_participation_is_weaker(fleet: Plan, old: Any, new: Any) -> None:
    """An enforced bound that becomes an assumed one, or an assumption that asks for more, is weaker."""
    from policyc.emit.difference.assumptions import _participation

    def record(fields: Any) -> ParticipationRecord:
        return fields if isinstance(fields, ParticipationRecord) else BOUND.model_copy(update=fields)

    one, two = changed(fleet, participation=record(old)), changed(fleet, participation=record(new))
    assert [change.effect for change in _participation(one, two)] == [Effect.WEAKER]
    assert [change.effect for change in _participation(two, one)] == [Effect.STRONGER]


def test_what_remains_when_an_assumption_fails_counts(fleet: Plan) -> None:
    """A larger sum of budgets, or a bound that is gone, is weaker."""
    assert fleet.claims.budget_sum is not None
    for value in (fleet.claims.budget_sum + Decimal("1e-9"), None):
        weaker_and_back(fleet, changed(fleet, claims=fleet.claims.model_copy(update={"budget_sum": value})))


def test_numbers_that_become_public_are_weaker(fleet: Plan) -> None:
    """A population that is newly published is weaker; who says the start, which no event does, is told and is not."""
    weaker_and_back(stream(fleet, population=None), fleet)
    said, told = stream(fleet, start="2026-01-01T00:00:00"), stream(fleet, start=None)
    for old, new in ((said, told), (told, said)):
        (change,) = compare_plans(old, new)
        assert change.what == "the start"
        assert not is_weaker([change])


def test_accuracy_and_means_are_told_and_do_not_weaken(fleet: Plan) -> None:
    """Another estimator, error, delivery or release is told; none of it is about the promise."""
    (release,) = fleet.releases
    better = release.model_copy(update={"predicted": release.predicted.model_copy(update={"published": 1.0})})
    new = changed(fleet, releases=(better, release.model_copy(update={"name": "second"})), objective=fleet.objective)
    changes = compare_plans(fleet, new)
    assert not is_weaker(changes)
    assert {change.part for change in changes} == {"release", "accuracy"}
    assert any("less mean squared error" in line for line in render_changes(changes))


def test_a_much_larger_error_is_told_as_a_multiple(fleet: Plan) -> None:
    """From twice the error on it is "5 times", not a percentage of hundreds."""
    (release,) = fleet.releases
    worse = release.predicted.model_copy(update={"published": 5 * release.predicted.published})
    new = changed(fleet, releases=(release.model_copy(update={"predicted": worse}),))
    assert any("(5 times the mean squared error)" in line for line in render_changes(compare_plans(fleet, new)))


def test_words_and_json_say_the_same(fleet: Plan) -> None:
    """Both forms carry every change, weakest first, and JSON reads back."""
    new = stream(promising(fleet, AlphaDPT(alpha=Decimal(3))), user_column="seat")
    changes = compare_plans(fleet, new)
    told = json.loads(json.dumps(changes_json(changes)))
    assert told["weaker"] is True
    assert [one["what"] for one in told["changes"]] == [change.what for change in changes]
    lines = render_changes(changes)
    assert len(lines) == len(changes) + 1
    assert "got weaker" in lines[-1]
    assert lines[0].startswith("weaker")
