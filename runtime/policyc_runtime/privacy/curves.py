"""Privacy curves: the delta that all that is released has at every epsilon, and how curves of releases compose."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from policyc_runtime.privacy.gaussian import gaussian_delta, gaussian_epsilon


class PrivacyCurve(ABC):
    """How likely a promise of epsilon fails; every number is rounded against us."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """An upper bound of delta at epsilon (nats, >= 0), in [0, 1]."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """The least epsilon found (nats, >= 0), rounded up, with delta(epsilon) <= delta (in (0, 1))."""


@dataclass(frozen=True)
class GaussianCurve(PrivacyCurve):
    """The curve of Gaussian noise; `mu` is L2 sensitivity / stddev, >= 0.

    Source: BW18
    """

    mu: float

    def delta(self, epsilon: float) -> float:
        """An upper bound of delta at epsilon (nats, >= 0)."""
        return gaussian_delta(epsilon, self.mu)

    def epsilon(self, delta: float) -> float:
        """The least epsilon, rounded up, at delta."""
        return gaussian_epsilon(delta, self.mu)


def compose(curves: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """The curve of independent releases about the same users, taken together; Gaussian curves add their mu^2.

    Source: BW18
    """
    if len(curves) == 1:
        return curves[0]
    gaussian = [curve.mu for curve in curves if isinstance(curve, GaussianCurve)]
    if len(gaussian) == len(curves):
        return GaussianCurve(math.nextafter(math.hypot(*gaussian) * (1 + 2**-50), math.inf))
    raise ValueError("these curves do not compose")
