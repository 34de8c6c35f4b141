"""What budgets of steps tell together about all events of one user, whatever their correlation.

Neighbors differ in so many steps at most, each of which loses its budget at most, whatever was published before. So
losses add up, and rhos, half of their squares (BS16); chance leaves at most what randomised response does (KOV15).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from policyc_check.claims import Claim
from policyc_check.plan.plan import Plan, Stated
from policyc_check.plan.targets import AnyUserSteps, NeighboringRelation, UserStepsRho
from policyc_check.rounding import Floats, rounded_down, rounded_up
from policyc_check.runs import enough
from policyc_check.steps.budgets import total_budgets, window_budget
from policyc_check.users.claims import composed, kept_by_noise, steps_in
from policyc_check.users.participation import Participation
from policyc_check.users.profile import PrivacyProfile, pure_profile

MOST_LAWS = 2000  # different budgets whose curve is computed
MOST_NUMBERS = 4_000_000  # that are sorted at once
Costs = Sequence[tuple[Fraction, int]]


def differing_steps(target: AnyUserSteps, horizon: int | None) -> int:
    """In how many steps neighbors differ at most: of two users, in those of either."""
    part = Participation(target.bound, horizon, window=target.window)
    return part.steps_of_two if target.relation is NeighboringRelation.REPLACE_ONE else part.steps


def costs_of(plan: Stated, target: AnyUserSteps) -> Costs:
    """The budgets of the costliest steps in which neighbors may differ, nats, rounded up, each with how often."""
    most, width = differing_steps(target, plan.stream.horizon), target.window or plan.stream.horizon
    if width is None:
        return [(window_budget(plan, 1), most)]
    budgets = total_budgets(plan, enough([release.schedule.runs for release in plan.scheduled], width))
    found = Counter(costliest(budgets, width, most).tolist())
    return [(Fraction(budget), times) for budget, times in found.items() if budget]


def costliest(budgets: Floats, width: int, most: int) -> Floats:
    """At each rank the largest that `width` steps in a row have there, of their `most` largest, (most,) or fewer."""
    width = min(width, len(budgets))
    apart = 1 + (len(budgets) - width) * width // MOST_NUMBERS  # steps between stretches, each so much longer
    rows = sliding_window_view(np.pad(budgets, (0, apart - 1)), width + apart - 1)[::apart]
    return np.asarray(np.sort(rows)[:, ::-1][:, :most].max(axis=0))


def profile_of(costs: Costs) -> PrivacyProfile:
    """The curve of such steps together, an upper bound."""
    return composed(pure_profile(rounded_up(cost), times=times) for cost, times in costs).coarse


def kept(costs: Costs, target: AnyUserSteps) -> tuple[bool, str]:
    """Whether steps of such budgets keep a promise, and what was recomputed."""
    if isinstance(target, UserStepsRho):
        rho = sum((budget**2 / 2 * times for budget, times in costs), Fraction(0))
        return rho <= Fraction(target.rho), f"recomputed rho {float(rho)!r}"
    loss = sum((budget * times for budget, times in costs), Fraction(0))
    if target.delta == 0 or loss <= Fraction(target.epsilon) or len(costs) > MOST_LAWS:
        return loss <= Fraction(target.epsilon), f"recomputed {float(loss)!r} nats"
    failing = profile_of(costs).delta(rounded_down(target.epsilon))
    return Fraction(failing) <= Fraction(target.delta), f"delta recomputed from the budgets: {failing!r}"


def check_user_steps(plan: Plan) -> Iterator[Claim]:
    """Promises about all events of one user, beside those about steps: kept by budgets, or by noise of all steps."""
    cell, horizon, budgets = plan.stream.cell, plan.stream.horizon, not plan.measured
    total = budgets and cell is not None and cell.otherwise is None and plan.stream.population is not None
    for place, goal in [(f"targets.{n}", one) for n, one in enumerate(plan.targets) if isinstance(one, AnyUserSteps)]:
        hours = f"{Fraction(goal.per, 3_600_000)} h" if isinstance(goal.per, int) else "a month" if goal.per else ""
        longest, period = goal.window or horizon, f" of a period of {hours or goal.window}"
        steps = f"{goal.bound:,} steps{period if hours or goal.window else ''}"
        fits = goal.bound == longest or (goal.assumed is not None and goal.bound <= (longest or goal.bound))
        fits = fits and (goal.per is None or (goal.window == 1 and steps_in(plan.stream, goal.per) < 1))
        detail = "assumed" if goal.assumed else "all there are"
        detail = "in others it is in none of the cells, which add up to a public number" if total else detail
        yield Claim(f"a user takes part in at most {steps}", fits and not total, detail, place)
        holds, found = kept(costs_of(plan, goal), goal) if budgets else kept_by_noise(plan, goal, goal)
        told = f"rho {goal.rho}" if isinstance(goal, UserStepsRho) else f"{goal.epsilon} nats at delta {goal.delta}"
        name = f"all events of one user in {steps} together leak at most {told}"
        yield Claim(name, holds, f"{found}; neighbors differ in {differing_steps(goal, horizon):,}", place, "E0843")
