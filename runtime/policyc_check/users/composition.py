"""Sums of independent privacy losses on a lattice, and their delta, with a relative accuracy that does not fade.

The loss of a release is log Pr(output) / Pr'(output), drawn under Pr; losses of independent releases add, and
delta(epsilon) = E (1 - exp(epsilon - loss))^+. A law on a lattice is convolved by fast Fourier transform after tilting
it by exp(tilt loss) so that its mass sits around epsilon: the rounding of the transform is then small against the part
of the law that delta reads, be delta 0.1 or 1e-250. What rounding may hide is added, what falls beyond the window is
bounded by Chernoff's inequality and added, and what wraps around from below only adds: each delta is an upper bound.

A law is brought onto a lattice by splitting every atom between its two neighbors so that its mass under both Pr and
Pr' stays: that replaces exp(-loss) by a spread with the same mean, so no delta, a convex function of it, gets smaller.

Source: DGKKM22 (splitting atoms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policyc_check.rounding import Floats

GAP = 2.0**-52  # between 1 and the next float
RANGE = 2.0**12  # deviations that a law is wide at most, as its lattice sees it: wider ones need no finer one
REACH = 13.0  # standard deviations in the window on either side: what is outside is about 1e-37 of it


@dataclass(frozen=True, eq=False)
class Atoms:
    """A privacy loss of finitely many values, anywhere."""

    losses: Floats  # nats, increasing, shape (atoms,)
    probabilities: Floats  # of them, shape (atoms,)
    lost: float = 0.0  # probability that the loss is infinite

    @property
    def variance(self) -> float:
        """Of the loss, in squared nats, about."""
        mean = float(self.losses @ self.probabilities)
        return max(float((self.losses - mean) ** 2 @ self.probabilities), (np.ptp(self.losses) / RANGE) ** 2, 1e-30)

    def onto(self, step: float) -> LossLaw:
        """A law on the multiples of `step` (nats, > 0) whose delta is nowhere smaller."""
        below = np.floor(self.losses / step)
        up = self.probabilities * np.clip(np.expm1(below * step - self.losses) / math.expm1(-step), 0.0, 1.0)
        first = int(below[0])
        index = (below - first).astype(np.int64)
        size = int(index[-1]) + 2
        masses = np.bincount(index, self.probabilities - up, size) + np.bincount(index + 1, up, size)
        with np.errstate(divide="ignore"):
            return LossLaw(step, 0.0, first, np.log(masses), self.lost)


@dataclass(frozen=True, eq=False)
class LossLaw:
    """A privacy loss on the lattice offset + step (first + 0, 1, 2, ...)."""

    step: float  # nats, > 0
    offset: float  # nats
    first: int  # index of the first atom
    log_probabilities: Floats  # natural logarithms, shape (atoms,); -inf where there is none
    lost: float = 0.0  # probability that the loss is infinite

    @property
    def last(self) -> int:
        """Index of the last atom."""
        return self.first + self.log_probabilities.size - 1

    @property
    def variance(self) -> float:
        """Of the loss, in squared nats."""
        return max(_tilted(self, 0.0)[2], ((self.last - self.first) / RANGE) ** 2) * self.step**2

    def onto(self, step: float) -> LossLaw:
        """A law on the multiples of `step` whose delta is nowhere smaller."""
        losses = np.asarray(self.offset + self.step * np.arange(self.first, self.last + 1))
        return Atoms(losses, np.exp(self.log_probabilities), self.lost).onto(step)


Parts = Sequence[tuple[LossLaw, int]]


def composed_delta(epsilon: float, parts: Parts) -> float:
    """Upper bound on delta at `epsilon` (nats) of independent losses on one step, each law so many times."""
    step = parts[0][0].step
    offset = sum(times * law.offset for law, times in parts)
    kept = sum(times * math.log1p(-law.lost) for law, times in parts)
    target = (epsilon - offset) / step  # in lattice indices from here on
    if target >= sum(times * law.last for law, times in parts):
        return min(1.0, -math.expm1(kept) * (1 + 4 * GAP))
    tilt = _saddle(parts, target)
    size, lowest, F, log_mass, rounding = _transform(parts, tilt)
    index = lowest + np.arange(size)
    above = index > target
    law = np.roll(np.maximum(np.fft.irfft(F, size) + rounding, 0.0), -(lowest % size))[above]
    distance = index[above] - target
    gap = step * distance + 4 * GAP * np.maximum(1.0, np.abs(offset) + step * np.abs(index[above]))
    value = float(np.sum(law * np.exp(-tilt * distance) * -np.expm1(-gap))) * math.exp(log_mass - tilt * target)
    value += _beyond(parts, tilt, lowest + size, value * 1e-12)
    times = sum(times for _, times in parts)
    slack = 1e-12 + 4 * GAP * (10 + math.log2(size) + 2 * times + abs(log_mass) + abs(tilt * target))
    return min(1.0, value * (1 + slack) - math.expm1(kept))


def _tilted(law: LossLaw, tilt: float) -> tuple[float, float, float, Floats]:
    """Log of the mean of exp(tilt index), mean and variance of the index under the tilted law, and that law."""
    index = np.arange(law.first, law.last + 1)
    weights: Floats = tilt * index.astype(np.float64) + law.log_probabilities
    top = float(weights.max())
    weights -= top
    np.exp(weights, out=weights)
    total = float(weights.sum())
    weights /= total
    mean = float(weights @ index)
    return top + math.log(total), mean, float(weights @ (index - mean) ** 2), weights


def _moments(parts: Parts, tilt: float) -> tuple[float, float, float]:
    log_mass = mean = variance = 0.0
    for law, times in parts:
        one = [times * moment for moment in _tilted(law, tilt)[:3]]
        log_mass, mean, variance = log_mass + one[0], mean + one[1], variance + one[2]
    return log_mass, mean, variance


def _saddle(parts: Parts, target: float) -> float:
    """A tilt >= 0 that brings the mean index near the target: Newton's method, kept within a bracket."""
    low, high, tilt = 0.0, math.inf, 0.0
    for _ in range(60):
        _, mean, variance = _moments(parts, tilt)
        if abs(mean - target) <= 0.1 * math.sqrt(variance) + 0.01 or (tilt == 0 and mean >= target):
            break
        low, high = (tilt, high) if mean < target else (low, tilt)
        step = tilt + (target - mean) / variance if variance > 0 else math.inf
        if not low < step < high or step > 4 * tilt + 1:
            step = (low + high) / 2 if high < math.inf else 2 * tilt + 1
        tilt = step
    return tilt


def _transform(parts: Parts, tilt: float) -> tuple[int, int, NDArray[np.complex128], float, float]:
    """Window size and start, the transform of the tilted sum, the log of what tilting multiplied it by, and rounding.

    Each of the log2(size) stages of a transform of a probability law adds at most 4 roundings of 1 to every number of
    it; its n-th power multiplies that by n; transforming back takes the mean, and adds the roundings of its own stages.
    """
    log_mass, mean, variance = _moments(parts, tilt)
    reach = math.ceil(REACH * math.sqrt(variance)) + 8
    whole = sum(times * (law.last - law.first) for law, times in parts) + 1
    size = 2 ** math.ceil(math.log2(max(2, min(2 * reach, whole))))
    lowest = sum(times * law.first for law, times in parts) if whole <= size else math.floor(mean) - size // 2
    F = np.ones(size // 2 + 1, dtype=np.complex128)
    first, rest = np.zeros(F.size), np.ones(F.size)  # |F| less one factor of each kind, times its power; and |F|
    for law, times in parts:
        weights = _tilted(law, tilt)[3]
        one = np.fft.rfft(np.bincount(np.arange(law.first, law.last + 1) % size, weights, size))
        F *= one**times
        power = np.abs(one) ** (times - 1)
        first = first * power * np.abs(one) + times * power * rest
        rest *= power * np.abs(one)
    stages = math.log2(size) + 1
    count = sum(times for _, times in parts)
    rounding = 2 * GAP * (stages * float(first.mean()) + (stages + 2 * count) * float(rest.mean()))
    return size, lowest, F, log_mass, rounding


def _beyond(parts: Parts, tilt: float, top: int, enough: float) -> float:
    """Chernoff's bound on the mass at and above index `top`: any tilt gives one, less tilt where tails are heavy."""
    if top > sum(times * law.last for law, times in parts):
        return 0.0
    bound, more = 1.0, REACH / max(1.0, math.sqrt(_moments(parts, tilt)[2]))
    for further in (tilt + more / 2**halving for halving in range(6)):
        bound = min(bound, math.exp(min(0.0, _moments(parts, further)[0] - further * top)))
        if bound <= enough:
            break
    return bound
