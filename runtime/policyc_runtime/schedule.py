"""The schedule of a plan, written out step by step."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from policyc_check.plan import schedule as checked_schedule
from policyc_check.runs import Whole


class Schedule(checked_schedule.Schedule):
    """The budget of every step, compactly, with its columns."""

    def column(self, field: str, steps: int | Whole) -> list[Any]:
        """A field of the segments, as `column` has it."""
        return column(self, field, steps)

    def epsilons(self, steps: int | Whole) -> list[Decimal]:
        """Budgets of these steps, in nats."""
        return column(self, "epsilons", steps)

    def scales(self, steps: int | Whole) -> list[Decimal]:
        """Noise scales of these steps."""
        return column(self, "scales", steps)


def column(schedule: checked_schedule.Schedule, field: str, steps: int | Whole) -> list[Any]:
    """A field of a schedule's segments at the first `steps` steps, or at steps given by number, rising."""
    at = np.arange(steps) if isinstance(steps, int) else steps
    entries = np.array([entry for segment in schedule.segments for entry in getattr(segment, field)], dtype=object)
    return list(entries[schedule.runs.places(at)])
