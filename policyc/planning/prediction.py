"""The expected error of published values, before any data.

Cubature over the declared model: evenly spread points (a Kronecker sequence on square roots of primes) stand for true
counts (the multinomial law of independent users) and for noise; the estimator itself is run on them. Noise has heavy
tails, which points reach by chance: as its variance is known, errors are corrected by how far that of the points is off
(a control variate). Nothing random, nothing protected: the same policy gives the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from policyc_runtime.estimation import Estimator
from policyc_runtime.estimation.constraints import ConstraintSet

Array = NDArray[np.float64]
Objective = Literal["mean_squared_error", "mean_absolute_error"]

POINTS = 1024
MOST_VALUES = 40_000  # points times cells
FEW_POINTS = 16  # where every point costs a linear program


def spread_points(count: int, dimensions: int) -> Array:
    """Points that fill the open unit cube evenly, (count, dimensions); always the same ones."""
    primes: list[int] = []
    candidate = 2
    while len(primes) < dimensions:
        if all(candidate % p for p in primes if p * p <= candidate):
            primes.append(candidate)
        candidate += 1
    steps = np.sqrt(np.array(primes, dtype=np.float64))
    points = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0
    return np.clip(points, 1e-12, 1 - 1e-12)


def laplace_quantile(points: Array, scale: float) -> Array:
    """The discrete Laplace value at each probability in (0, 1).

    Pr(X <= k) = r^-k / (1 + r) below zero and 1 - r^(k+1) / (1 + r) from zero on, with r = exp(-1 / scale).
    """
    ratio = math.exp(-1.0 / scale)
    tail = np.minimum(points, 1.0 - points) * (1.0 + ratio)
    size = np.floor(-scale * np.log(tail) - 1e-9)
    size = np.maximum(size, 0.0)
    return np.where(points < 0.5, -size, size)


def multinomial_quantile(points: Array, population: int, law: Array) -> Array:
    """Counts of `population` users over the cells of `law`, (rows, cells), from points (rows, cells - 1)."""
    from scipy.special import bdtrik

    counts = np.zeros((len(points), len(law)))
    left = np.full(len(points), float(population))
    remaining = 1.0
    for cell in range(len(law) - 1):
        share = min(max(law[cell] / remaining, 0.0), 1.0) if remaining > 0 else 0.0
        if share >= 1.0:
            counts[:, cell] = left
        elif share > 0.0:
            some = left > 0
            drawn = np.zeros_like(left)
            drawn[some] = np.ceil(bdtrik(points[some, cell], left[some], share))
            counts[:, cell] = np.clip(np.nan_to_num(drawn), 0.0, left)
        left = left - counts[:, cell]
        remaining -= law[cell]
    counts[:, -1] = left
    return counts


@dataclass(frozen=True)
class StepModel:
    """What is declared of the true counts at one step: laws (groups, cells) of one user, and how many users there are.

    `points` (rows, groups (cells - 1) + cells) stand for all outcomes: the first ones for the counts of each group, the
    last `cells` for noise, which adds up to zero over the cells when it is `balanced`.
    """

    laws: Array
    sizes: tuple[int, ...]
    points: Array
    balanced: bool = False

    @property
    def cells(self) -> int:
        """Values a step."""
        return int(self.laws.shape[1])

    @property
    def _expected(self) -> Array:
        return np.asarray(np.array(self.sizes) @ self.laws)

    @cached_property
    def true(self) -> Array:
        """True counts, (rows, cells)."""
        free = self.cells - 1
        groups = enumerate(zip(self.laws, self.sizes, strict=True))
        each = [multinomial_quantile(self.points[:, i * free : (i + 1) * free], n, law) for i, (law, n) in groups]
        return np.asarray(sum(each))

    def noisy(self, scale: float) -> Array:
        """Noisy counts, (rows, cells)."""
        noise = laplace_quantile(self.points[:, -self.cells :], scale)
        if self.balanced:
            noise[:, -1] = -noise[:, :-1].sum(axis=1)
        return self.true + noise

    def weights(self, noisy: Array, scale: float) -> Array:
        """How likely each row is, (rows,): of balanced noise, as likely as the last cell's own noise."""
        return np.exp(-np.abs(noisy - self.true)[:, -1] / scale) if self.balanced else np.ones(len(noisy))

    def prior_error(self, objective: Objective) -> float:
        """The expected error of publishing the prior alone, mean over cells."""
        if objective == "mean_squared_error":
            return float(np.mean(np.array(self.sizes) @ (self.laws * (1 - self.laws))))
        return float(_sizes(self.true - self._expected, objective).mean())

    def estimation_error(
        self,
        estimator: Estimator,
        prior: Array | None,
        scale: float,
        noise: tuple[float, float],
        constraints: ConstraintSet,
        objective: Objective,
    ) -> float:
        """The expected error of one step's published values, mean over cells.

        Args:
            estimator: run on every point.
            prior: (cells,) or (rows, cells) law that the estimator believes, or None.
            scale: of the discrete Laplace noise.
            noise: mean absolute value and variance of that of one cell.
            constraints: those that bind one step alone.
            objective: the unit of the answer.

        Source: OWE13
        """
        noisy = self.noisy(scale)
        believed = None if prior is None else np.broadcast_to(prior, noisy.shape)
        published = estimator.estimate(noisy, np.full(len(noisy), scale), believed, constraints, None)
        away = noisy - self.true
        errors, (absolute, variance) = _sizes(published - self.true, objective), noise
        if not self.balanced and constraints.simplex is not None and constraints.simplex.total is not None:
            away -= away.mean(axis=1, keepdims=True)  # a known sum takes it away
            variance *= 1.0 - 1.0 / self.cells
        elif objective == "mean_absolute_error":
            return _corrected(errors, _sizes(away, objective), absolute, self.weights(noisy, scale))
        return _corrected(errors, _sizes(away, "mean_squared_error"), variance, self.weights(noisy, scale))


def _sizes(away: Array, objective: Objective) -> Array:
    """Mean squared or absolute value of every row."""
    return np.asarray((away**2 if objective == "mean_squared_error" else np.abs(away)).mean(axis=1))


def _corrected(errors: Array, control: Array, expected: float, weights: Array) -> float:
    """The mean of errors, moved along their regression on a control to where its mean is the expected one."""
    mean, seen = float(np.average(errors, weights=weights)), float(np.average(control, weights=weights))
    spread = float(weights @ (control - seen) ** 2)
    slope = float(weights @ ((control - seen) * (errors - mean))) / spread if spread > 0 else 0.0
    moved = mean + slope * (expected - seen)
    return moved if moved > 0 else mean
