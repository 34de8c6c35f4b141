"""Mechanisms that publish when counts have moved: what any window of steps spends is bounded by their rule.

At each step the distance of the counts from the last published ones is measured first, with half of the window's
budget divided evenly; whether to publish, and with how much of the other half, follows from earlier *records* alone.
Otherwise the last values are published again. No window of steps ever spends more than epsilon: so says `spent`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, Literal

from policyc_check.mechanisms.mechanism import StreamMechanism
from policyc_check.records import PositiveDecimal, Steps
from policyc_check.users.noise import DiscreteLaplace, Law
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Moves, Setting


class WindowMechanism(StreamMechanism):
    """Measures how far counts have moved, and publishes when that exceeds the noise; see the module.

    `window` steps in a row spend at most `epsilon` nats. `l1_sensitivity`: how far one user's value at one step moves
    the counts of that step; their distance from public whole numbers moves no further. `still_error`: the mean squared
    error of published values over the steps while counts stand still, in units of (l1_sensitivity / epsilon)^2 (of an
    absolute objective: of the Laplace noise with the same mean absolute error); only for prediction.

    Source: KELLARIS14
    """

    accounting: Literal["window"] = "window"  # type: ignore[assignment]
    window: Steps
    epsilon: PositiveDecimal
    l1_sensitivity: PositiveDecimal
    still_error: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"
    largest_part: ClassVar[Fraction]  # of epsilon, that one publication takes

    def spent(self, width: int) -> Fraction:
        """The most nats that any `width` steps in a row spend, whatever the data."""
        steps = Fraction(width, 2 * self.window)  # for distances
        published = min(width * self.largest_part, Fraction(-(-width // self.window), 2))
        return Fraction(self.epsilon) * (steps + published)

    def noises(self, setting: Setting) -> list[tuple[Law, Moves]]:
        """As Laplace noise of one number, which loses what steps spend in which neighbors differ, as far as they move.

        Budgets are for steps that move by `l1_sensitivity` in L1; one that moves further spends more in proportion.
        """
        part, one = setting.participation, replace(setting, participation=Participation(1, 1))
        differing, width = part.steps_of_two if setting.replaced else part.steps, part.window or part.horizon
        spent = min(differing * self.spent(1), self.spent(width or differing * self.window))
        moved = one.changes * one.shift
        return [(DiscreteLaplace(Fraction(self.l1_sensitivity) / spent), Moves(moved**2, moved))]


class BudgetDistribution(WindowMechanism):
    """Publishes the counts anew when they have moved further than noise would, with half of what its window has left.

    Half of epsilon measures distances, evenly; the other half is for publications.
    """

    name: Literal["budget_distribution"] = "budget_distribution"
    largest_part: ClassVar[Fraction] = Fraction(1, 4)


class BudgetAbsorption(WindowMechanism):
    """Publishes the counts anew when they have moved further than noise would, with the budget of the steps it skipped.

    Half of epsilon measures distances, evenly; the other half is divided evenly between steps.
    """

    name: Literal["budget_absorption"] = "budget_absorption"
    largest_part: ClassVar[Fraction] = Fraction(1, 2)
