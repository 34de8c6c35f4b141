"""Subsampling in time: noise on steps chosen at random without looking at the data, and then published.

Since the chosen steps are public and do not depend on the data, delta is the mean over them of the delta of what they
show of one user: delta(epsilon) = sum over m of Pr(m of the user's steps are chosen) times that of m changes.
(Accounting of a mixture whose choice stays hidden is another thing and gives too small a delta here.) A user who takes
part more often loses more, so k participations are the worst case.

Under stratified choice, one step of every block, the number m is a sum of independent yes/no draws whose probabilities
add up to a given total, wherever the participations fall. The mean of a convex function of such a sum is largest where
all probabilities are equal (HOE56), a binomial law. delta is convex in m where it is small; where it is not, a convex
function above it takes its place.

Source: KOGA22 (the mechanism; its own theorems are looser), HOE56, CKS20
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np

from policyc_check.rounding import UNIT, Floats
from policyc_check.users.composition import LossLaw
from policyc_check.users.noise import NEARLY_NORMAL, SMOOTH, DiscreteGaussian
from policyc_check.users.profile import FINENESS, Laws, PrivacyProfile
from policyc_check.users.setting import Moves

NEVER = 1e-300  # a probability far below any delta
CLOSE = 1e-12
RARE = 1e-32  # cases of less probability lose everything where laws are mixed
ROUNDING = 1e-11  # every weight is raised by this, and by what its own recurrence may have lost


@dataclass(frozen=True, eq=False)
class StepSample:
    """How many of one user's steps a public random choice of steps shows."""

    law: Floats  # of that number, shape (most + 1,), rounded up
    convex: bool = False  # whether it is the worst law for convex functions only

    def mean(self, delta_of: Callable[[int], float]) -> float:
        """Upper bound on delta, where `delta_of(m)` is that of m shown steps, >= 0 and increasing."""
        first, last = 0, self.law.size - 1
        if not self.convex:  # outside, simple bounds are close enough: a relative 1e-12 in all
            usual = int(np.argmax(self.law))
            enough = max(CLOSE * float(self.law[usual]) * delta_of(usual), NEVER)
            first = min(usual, int(np.searchsorted(np.cumsum(self.law), CLOSE)))
            last = max(usual, min(last, int(np.searchsorted(-np.cumsum(self.law[::-1])[::-1], -enough))))
        deltas = np.ones(self.law.size)  # what is too rare to matter counts as if all were lost
        deltas[first : last + 1] = [delta_of(m) for m in range(first, last + 1)]
        deltas[:first] = deltas[first]
        if self.convex:
            slope = 0.0
            for m in range(1, deltas.size):
                slope = max(slope, float(deltas[m] - deltas[m - 1]))
                deltas[m] = deltas[m - 1] + slope
        return min(1.0, float(self.law @ deltas))


def poisson_sample(participations: int, rate: float | Fraction) -> StepSample:
    """Every step is chosen independently with probability `rate` in (0, 1]."""
    _require(participations >= 1 and 0 < rate <= 1)
    return StepSample(_binomial(participations, float(rate)))


def fixed_size_sample(participations: int, horizon: int, size: int) -> StepSample:
    """`size` of `horizon` steps are chosen, all such sets equally likely."""
    _require(1 <= participations <= horizon and 1 <= size <= horizon)
    weights = np.zeros(participations + 1)
    low, high = max(0, size + participations - horizon), min(participations, size)
    m = np.arange(low, high)  # ratios of neighbors in the hypergeometric law
    up = (participations - m) * (size - m)
    weights[low : high + 1] = _law(up / ((m + 1) * (horizon - participations - size + m + 1)))
    return StepSample(weights)


def stratified_sample(participations: int, horizon: int, block: int) -> StepSample:
    """One step of every `block` is chosen, the last block being shorter where the horizon is no multiple of it.

    The bound holds wherever the participations fall (HOE56).
    """
    _require(1 <= participations <= horizon and 1 <= block <= horizon)
    blocks, rest = divmod(horizon, block)
    short = min(participations, rest)  # steps of a shorter block are likelier to be chosen
    total = Fraction(short, rest or 1) + Fraction(participations - short, block)
    most = min(participations, blocks + (rest > 0))  # blocks a user takes part in
    return StepSample(_binomial(most, min(1.0, float(total / most))), convex=True)


def _binomial(trials: int, probability: float) -> Floats:
    """The binomial law, shape (trials + 1,), rounded up."""
    if probability in {0.0, 1.0}:  # also one so small that it is no float
        return np.append(np.zeros(trials), 1.0)[:: 1 if probability else -1]
    m = np.arange(trials)
    return _law((trials - m) / (m + 1) * (probability / (1 - probability)))


def _law(ratios: Floats) -> Floats:
    """A law with one mode from the ratios of neighbors, each right to a few roundings: (ratios + 1,), rounded up.

    Logarithms are added from the mode outward, so that what matters most has lost least; n sums lose at most n
    roundings of the largest, and dividing by the sum of all weights loses what these have lost on average.
    """
    mode = int(np.searchsorted(-ratios, -1.0))
    steps = np.log(ratios)
    logs = np.concatenate([-np.cumsum(steps[:mode][::-1])[::-1], [0.0], np.cumsum(steps[mode:])])
    masses = np.exp(logs)
    lost = (np.abs(np.arange(logs.size) - mode) * (np.abs(logs) + 4) + 8) * UNIT
    total = masses.sum()
    return np.asarray(masses / total * (1 + ROUNDING + 1.1 * lost + 1.1 * float(masses @ lost / total)))


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("participations, sizes and blocks are at least 1 and fit the horizon; rates are in (0, 1]")


@dataclass(frozen=True, eq=False)
class SampledGaussianLoss:
    """The loss of discrete Gaussian noise on the steps of one user that are shown."""

    sample: StepSample  # the law of how many these are
    noise: Fraction  # variance parameter of the noise, in squared units, > 0
    shift: int = 1  # by how much the value of a step differs, >= 1

    @property
    def mu(self) -> None:
        """None: a mixture is no Gaussian noise."""

    def delta(self, epsilon: float) -> float:
        """What is public mixes the curves."""
        return self.sample.mean(lambda m: self._case(m).delta(epsilon) if m else 0.0)

    @cached_property
    def laws(self) -> Laws:
        """The mixture of all cases, on a fine lattice.

        All steps count as shown where no single law is the worst, or noise is so small that sums have no closed form.
        """
        law = self.sample.law
        step = self.shift * math.sqrt(float(law @ np.arange(law.size)) / float(self.noise)) / FINENESS
        if self.sample.convex or self.noise < SMOOTH:
            return tuple(self._case(law.size - 1).onto(step))
        cases = [(law[m], self._case(m).onto(step)[0][0]) for m in np.flatnonzero(law > RARE).tolist() if m]
        lost = math.fsum(law[law <= RARE].tolist() + [weight * case.lost for weight, case in cases])
        first = min([0, *(case.first for _, case in cases)])
        masses = np.zeros(max([0, *(case.last for _, case in cases)]) + 1 - first)
        masses[-first] = law[0] * (law[0] > RARE)
        for weight, case in cases:
            masses[case.first - first : case.last + 1 - first] += weight * np.exp(case.log_probabilities)
        with np.errstate(divide="ignore"):
            return ((LossLaw(step, 0.0, first, np.log(masses), min(lost, 1 - 1e-15)), 1),)

    @cached_property
    def _case(self) -> Callable[[int], PrivacyProfile]:
        noise, normal = DiscreteGaussian(self.noise), self.noise >= NEARLY_NORMAL
        return cache(lambda m: noise.any_way(Moves(m * self.shift**2)) if normal else noise.alike(m, self.shift))
