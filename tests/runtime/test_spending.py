"""What a plan spends and leaks is that of all its releases, in every window that the stream meets."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from plans import make_plan, make_release

from policyc_check.plan.schedule import BudgetSegment
from policyc_check.steps.budgets import window_budget
from policyc_check.steps.inheritance import leakage_of_group
from policyc_runtime.schedule import Schedule


def test_releases_leak_together():
    """Two releases of 0.1 nats a step leak what one of 0.2 leaks."""
    both = make_plan(releases=tuple(make_release(name, horizon=20) for name in ("parked", "again")), horizon=20)
    one = make_plan(epsilon="0.2", horizon=20)
    leaked = [leakage_of_group(plan, plan.correlation.chains[0]).windows(1) for plan in (both, one)]
    assert leaked[0].tolist() == leaked[1].tolist()


def test_the_fullest_window_of_an_endless_stream_may_lie_across_two_periods():
    """Large budgets at the end of a period and at the start of the next count together."""
    epsilons = tuple(map(Decimal, ("1", "0.25", "0.25", "1")))
    part = make_release(horizon=None)
    scales = tuple(map(part.mechanism.calibrate, epsilons))
    segment = BudgetSegment(epsilons=epsilons, scales=scales, expected_errors=(1.0,) * 4, repeats=None)
    release = part.model_copy(update={"schedule": Schedule(name="sparse", segments=(segment,))})
    plan = make_plan(horizon=None, releases=(release,))
    assert [window_budget(plan, width) for width in (1, 2, 3, 5)] == [1, 2, Fraction(9, 4), Fraction(7, 2)]
