"""The privacy curve of discrete Gaussian noise on steps that a public random choice shows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from policyc_check.users.composition import LossLaw
from policyc_check.users.discrete_noise import SMOOTH, DiscreteGaussianLoss
from policyc_check.users.subsampling import StepSample

RARE = 1e-32  # cases of less probability lose everything where laws are mixed


@dataclass(frozen=True, eq=False)
class SampledGaussianLoss:
    """The loss of discrete Gaussian noise on the steps of one user that are shown, how many being public and random.

    Args:
        sample: the law of that number.
        v: variance parameter of the noise, in squared units, > 0.
        shift: by how much the value of a step differs, >= 1.

    Source: KOGA22, CKS20
    """

    sample: StepSample
    v: float
    shift: int = 1

    @property
    def variance(self) -> float:
        """Of the loss within each case, in squared nats."""
        return float(self.sample.law @ np.arange(self.sample.law.size)) * self.shift**2 / self.v

    @property
    def laws(self) -> list[tuple[LossLaw, int]]:
        """None: cases have different lattices."""
        return []

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` (nats, >= 0): what is public mixes the curves."""
        return self.sample.mean(lambda m: self._case(m).delta(epsilon) if m else 0.0)

    def onto(self, step: float) -> list[tuple[LossLaw, int]]:
        """Laws on the multiples of `step` whose delta is nowhere smaller.

        All steps count as shown where no single law is the worst, or noise is so small that sums have no closed form.
        """
        most = self.sample.law.size - 1
        if self.sample.convex or self.v < SMOOTH:
            return self._case(most).onto(step)
        cases = [(weight, m) for m, weight in enumerate(self.sample.law.tolist()) if weight > RARE]
        lost = math.fsum(weight for weight in self.sample.law.tolist() if weight <= RARE)
        laws = [(weight, self._case(m).onto(step)[0][0] if m else _nothing(step)) for weight, m in cases]
        first = min(law.first for _, law in laws)
        masses = np.zeros(max(law.first + law.log_probabilities.size for _, law in laws) - first)
        for weight, law in laws:
            masses[law.first - first :][: law.log_probabilities.size] += weight * np.exp(law.log_probabilities)
            lost += weight * law.lost
        with np.errstate(divide="ignore"):
            return [(LossLaw(step, 0.0, first, np.log(masses), min(lost, 1 - 1e-15)), 1)]

    def _case(self, shown: int) -> DiscreteGaussianLoss:
        return DiscreteGaussianLoss(self.v, shown, self.shift)


def _nothing(step: float) -> LossLaw:
    """A loss of 0."""
    return LossLaw(step, 0.0, 0, np.zeros(1))
