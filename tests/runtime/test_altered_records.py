"""Plans made by hand, sealed, and wrong in a way that their numbers alone do not show: the kernel refuses them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from plans import make_plan, make_release

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.queries import CountQuery, PrefixQuery, Query, SumQuery
from policyc_check.plan.schedule import BudgetSegment
from policyc_check.plan.stream import ParticipationRecord
from policyc_runtime.mechanisms.window_mechanism import window_mechanism_kinds
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, ReleasePlan
from policyc_runtime.refusal import verify
from policyc_runtime.schedule import Schedule


def resealed(plan: Plan, **changes: object) -> Plan:
    return plan.model_copy(update=changes).sealed()


def altered(release: ReleasePlan, **changes: object) -> tuple[ReleasePlan]:
    return (release.model_copy(update=changes),)


@pytest.mark.parametrize(
    "query",
    [
        SumQuery(column="speed", low=Decimal(0), high=Decimal(100), grid=Decimal(1), by="origin"),
        PrefixQuery(of="parked", by="origin"),
    ],
)
def test_budgets_of_steps_are_for_counts_of_users(query: Query):
    """A sum or a total with budgets of steps is refused: one user moves it by more than a count."""
    plan = make_plan()
    verify(resealed(plan, releases=altered(plan.releases[0], query=CountQuery(by="origin"))))
    with pytest.raises(PlanRejectedError, match="no sensitivity"):
        verify(resealed(plan, releases=altered(plan.releases[0], query=query)))


def test_a_participation_bound_needs_a_promise_that_accounts_for_it():
    """With budgets of steps a user counts once: a bound that lets five events of a step count is refused."""
    record = ParticipationRecord(bound=3, per_step=5, spacing=1, enforced="keep_first", assumed=None)
    with pytest.raises(PlanRejectedError, match="a bound of all events of a user, and no such target"):
        verify(resealed(make_plan(), participation=record))


@pytest.mark.parametrize("name", sorted(window_mechanism_kinds()))
def test_a_mechanism_that_measures_every_step_has_a_budget_at_every_step(name: str):
    """A schedule that says 0 where an adaptive mechanism spends is refused: leakage is computed from it."""
    plan = make_plan(horizon=10)
    fields = {"name": name, "window": 3, "epsilon": "50", "l1_sensitivity": "2", "still_error": "1"}
    mechanism = window_mechanism_kinds()[name].model_validate(fields)
    nothing = BudgetSegment(epsilons=(Decimal(0),), scales=(Decimal(0),), expected_errors=(1.0,), repeats=10)
    (release,) = altered(plan.releases[0], mechanism=mechanism, schedule=Schedule(name="none", segments=(nothing,)))
    releases = (AdaptiveRelease.model_validate(release.model_dump()),)  # as a file of it is read
    claims = plan.claims.model_copy(update={"budget_sum": Decimal(1000), "largest_budget": Decimal(100)})
    with pytest.raises(PlanRejectedError, match="may spend more"):
        verify(resealed(plan, releases=releases, claims=claims))


@pytest.mark.parametrize("name", sorted(window_mechanism_kinds()))
def test_a_release_is_of_the_kind_of_its_mechanism(name: str):
    """A record made by hand that says one kind and has the mechanism of another is refused, whatever it promises."""
    plan = make_plan(horizon=10)
    fields = {"name": name, "window": 3, "epsilon": "0.0001", "l1_sensitivity": "2", "still_error": "1"}
    mechanism = window_mechanism_kinds()[name].model_validate(fields)
    with pytest.raises(PlanRejectedError, match="made by hand"):
        verify(resealed(plan, releases=altered(plan.releases[0], mechanism=mechanism)))


def test_nothing_follows_a_segment_that_goes_on_for_ever():
    """A schedule with segments after an endless one is none: the last would hide what the endless one spends."""
    (segment,) = make_release(horizon=None).schedule.segments
    with pytest.raises(ValueError, match="goes on for ever"):
        Schedule(name="uniform", segments=(segment, segment))


def test_every_release_has_its_own_name():
    """Two releases of one name are refused: data is kept by name, and one would be read with the other's noise."""
    releases = (make_release(epsilon="0.1"), make_release(epsilon="0.2"))
    with pytest.raises(PlanRejectedError, match="same"):
        verify(make_plan(releases=releases))
