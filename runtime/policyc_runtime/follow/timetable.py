"""When steps close and when their values are published: by the clock alone, whatever arrives.

A step closes when it is over and the lateness has passed. Its values are published a fixed time after that, which
computing them does not take: so neither moment tells anything of them. Where computing did take longer, they wait for
the next multiple of that time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.moments import last_moment
from policyc_runtime.sources.step_counts import LARGEST_HORIZON

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan
    from policyc_runtime.sources.calendar import Division

SECOND = 1_000_000
LEAST_LATENESS, MOST_LATENESS = SECOND, 300 * SECOND
PART_OF_A_STEP = 10


def usual_lateness(plan: Plan) -> int:
    """A tenth of a step, at least a second and at most five minutes, in microseconds."""
    tenth = plan.stream.step_milliseconds * 1000 // PART_OF_A_STEP
    return min(max(tenth, LEAST_LATENESS), MOST_LATENESS)


@dataclass(frozen=True)
class Timetable:
    """Moments in microseconds since 1970, times in microseconds.

    Args:
        plan: how long steps are, and how many there are.
        start: the moment of step 0.
        lateness: how long after its end a step closes, >= 0.
        pause: how long after that its values are published, > 0.

    `horizon` says how many steps there are at most.
    """

    plan: Plan
    start: int
    lateness: int
    pause: int
    horizon: int = field(init=False)
    _steps: Division = field(init=False)

    def __post_init__(self) -> None:
        steps = calendar_of(self.plan, self.start).steps
        horizon = min(self.plan.stream.horizon or LARGEST_HORIZON, max(steps.over(last_moment(self.plan)), 0))
        object.__setattr__(self, "_steps", steps)
        object.__setattr__(self, "horizon", horizon)

    def closes(self, step: int) -> int:
        """When a step closes."""
        return int(self._steps.begin(np.array([step + 1]))[0]) + self.lateness

    def closed(self, moment: int) -> int:
        """How many steps are to be closed at a moment."""
        return max(0, min(self._steps.over(moment - self.lateness), self.horizon))

    def publication(self, closed: int, moment: int) -> int:
        """When values are published that are there at a moment, of steps that were closed at another."""
        return closed + self.pause * max(1, -(-(moment - closed) // self.pause))
