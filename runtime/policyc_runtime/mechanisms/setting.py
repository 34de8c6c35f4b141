"""What the noise of one release has to hide, and how it is published: all that a stream mechanism may depend on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from policyc_runtime.privacy.participation import Participation, l1_sensitivity, l2_sensitivity


@dataclass(frozen=True)
class Setting:
    """Public facts about one release under a user-level promise; values are whole numbers of units.

    Args:
        participation: in how many steps, how densely, over which horizon (None: endless) one user takes part.
        contribution: by how many units, in L1 over cells, one user moves the values of a step at most, >= 1. A count
            has per_step; a clamped sum per_step times the largest clamped size in units of its grid.
        replaced: neighbors replace one user by another; else they add or remove one.
        signed: contributions may be negative as well as positive.
        cells: values a step, >= 1.
        wait: how many later steps a value may wait for: 0, d, or None for all (offline).
        workload: what is released of the steps: themselves, their running total, or totals of `window` steps. The raw
            values that are measured are those of the steps.
        window: for `window`, how many steps.
    """

    participation: Participation
    contribution: int = 1
    replaced: bool = False
    signed: bool = False
    cells: int = 1
    wait: int | None = 0
    workload: Literal["identity", "prefix", "window"] = "identity"
    window: int | None = None

    @property
    def horizon(self) -> int | None:
        """Steps of the stream; None when endless."""
        return self.participation.horizon

    @property
    def l2_sensitivity(self) -> float:
        """How far one neighbor moves the raw series, in units, L2 over all steps and cells, rounded up."""
        exchange: float | None = None
        if self.replaced:
            several = 2.0 if self.signed else math.nextafter(math.sqrt(2), 2)
            exchange = self.contribution * (1.0 if self.cells == 1 and not self.signed else several)
        return l2_sensitivity(self.participation, self.contribution, exchange)

    @property
    def l1_sensitivity(self) -> int:
        """How far one neighbor moves the raw series, in units, L1 over all steps and cells."""
        exchange: int | None = None
        if self.replaced:
            exchange = self.contribution * (1 if self.cells == 1 and not self.signed else 2)
        return round(l1_sensitivity(self.participation, self.contribution, exchange))
