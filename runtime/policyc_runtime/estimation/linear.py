"""Straight lines between the noisy values there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from policyc_runtime.estimation.plain_series import PlainSeries
from policyc_runtime.offset import NO_OFFSET, Offset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


class Linear(PlainSeries):
    """The noisy values themselves, and straight lines between them where steps have none; level beyond the last.

    Source: KOGA22
    """

    name: Literal["linear"] = "linear"

    def described(self) -> str:
        """As a policy would write it."""
        return "linear()"

    def reason_against_delay(self, delay: int | None) -> str | None:
        """Only where values may wait for all others."""
        return None if delay is None else "values may not wait for the later ones that a line leads to"

    def looks_ahead(self, delay: int | None) -> bool:  # noqa: ARG002
        """It does."""
        return True

    def expected(
        self,
        values: Array,
        variances: Array,
        first: int,
        delay: int | None,  # noqa: ARG002
        offset: Offset = NO_OFFSET,  # noqa: ARG002
    ) -> Array:
        """The interpolated values."""
        steps = np.arange(first, len(values))
        found = np.zeros((steps.size, values.shape[1]))
        for line, series in zip(found.T, values.T, strict=True):
            given = np.flatnonzero(np.isfinite(series) & np.isfinite(variances))
            if given.size:
                line[:] = np.interp(steps, given, series[given])
        return found
