"""Mechanisms that publish when counts have moved: what any window of steps spends is bounded by their rule.

At each step the distance of the counts from the last published ones is measured first, with half of the window's
budget divided evenly; whether to publish, and with how much of the other half, follows from earlier *records* alone.
Otherwise the last values are published again. No window of steps ever spends more than epsilon: so says `spent`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

from policyc_check.mechanisms.mechanism import Mechanism
from policyc_check.records import PositiveDecimal, Steps


class WindowMechanism(Mechanism):
    """Measures how far counts have moved, and publishes when that exceeds the noise; see the module.

    `window` steps in a row spend at most `epsilon` nats. `l1_sensitivity`: how far one user's value at one step moves
    the counts of that step; their distance from public whole numbers moves no further. `still_error`: the mean squared
    error of published values over the steps while counts stand still, in units of (l1_sensitivity / epsilon)^2 (of an
    absolute objective: of the Laplace noise with the same mean absolute error); only for prediction.

    Source: KELLARIS14
    """

    accounting: Literal["window"] = "window"
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
