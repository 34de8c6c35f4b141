"""Correlated noise, which cancels in running totals and windows."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.linear import GridOffer
from policyc.offers.offer import Options

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting

LONGEST_BAND = 64  # coefficients that are chosen one by one


class ToeplitzOffer(GridOffer):
    """For running totals and windows; there are no options."""

    name = "toeplitz"
    says = "noise that cancels in running totals and windows"

    def variants(self, setting: Setting) -> Sequence[Options]:
        """Nothing to compare on the steps themselves, where it is `gaussian`."""
        return () if setting.workload == "identity" else ({},)

    def fixed(self, setting: Setting, options: Options) -> dict[str, Any]:  # noqa: ARG002
        """The coefficients of least mean square error."""
        import numpy as np  # start-up: `policyc check` calculates nothing

        from policyc.offers.correlated_noise import best_band, best_exponent, mean_error, near
        from policyc_check.mechanisms.toeplitz import coefficients

        grid: int = self.record().grid  # type: ignore[attr-defined]
        close = near(setting.participation)
        decay, exponent = best_exponent(setting.participation, setting.workload, setting.window)
        whole: dict[str, Any] = {"decay": decay, "exponent": exponent, "band": None}
        if setting.workload == "identity" or not 1 < close.spacing <= LONGEST_BAND:
            return whole
        column = coefficients(decay, exponent, grid, close.horizon or 1).astype(np.float64)
        band = best_band(close, setting.workload, setting.window, column, grid)
        banded = np.zeros(column.size)
        banded[: len(band)] = band
        errors = [mean_error(one, close, setting.workload, setting.window)[0] for one in (column, banded)]
        if errors[1] >= errors[0]:
            return whole
        return {"decay": Decimal(0), "exponent": Decimal(0), "band": band}
