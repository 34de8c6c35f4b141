"""Markov chains of one user's state, and the laws that leakage is passed through.

A chain is told forward (next given now), backward (before given now), or both. What is missing follows from the other
by Bayes' rule: over k steps P_B = diag(p_t)^-1 (P_F^k)^T diag(p_{t-k}), which is the same at every step only where the
laws p_t of the state are. Every law comes with a bound on the relative error of its entries.

Source: CAO17 (backward and forward correlation). The law over several steps is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from policyc_check.errors import InvalidMatrixError
from policyc_check.rounding import UNIT, Floats, roundings
from policyc_check.steps.stationary import VANISHING, closed_classes, law_of_class, stationary_law, vanishing

_PATIENCE = 2000  # steps in which a chain is expected to forget its start


@dataclass(frozen=True, eq=False)
class Law:
    """The law of a user's state some steps away, given the state now."""

    matrix: Floats  # shape (n, n), row-stochastic
    relative_error: float = 0.0  # every true entry is within a factor exp(+-relative_error) of the one given


class Side:
    """One direction of a chain: the law of the state any number of steps away.

    `matrix` is that of the state one step away, given the state now, (n, n), its entries within a factor
    exp(+-relative_error). The laws of the state of the chain `reversed_by`, if there is one, turn its powers around.
    """

    def __init__(self, matrix: ArrayLike, relative_error: float = 0.0, reversed_by: Chain | None = None) -> None:
        self._powers = {1: Law(np.asarray(matrix, dtype=np.float64), relative_error)}
        self._chain = reversed_by
        self._reversals: dict[tuple[int, int], Law] = {}

    @property
    def settled(self) -> float:
        """From this step on the law does not depend on the step; inf for never."""
        return self._chain.settled if self._chain else 0.0

    def law(self, step: int, lag: int) -> Law:
        """The law of the state `lag` steps away, given the state at `step`."""
        power = self._power(lag)
        if self._chain is None:
            return power
        step = int(max(lag, min(step, self.settled + lag)))
        if (step, lag) not in self._reversals:
            law = reversal(power.matrix, self._chain.marginal(step - lag), self._chain.marginal(step))
            error = 2 * (power.relative_error + self._chain.marginal_error(step - lag))
            self._reversals[step, lag] = Law(law, error + (roundings(len(law)) + 6) * UNIT)
        return self._reversals[step, lag]

    def _power(self, lag: int) -> Law:
        if lag not in self._powers:
            self._powers[lag] = product(self._power(lag - lag // 2), self._power(lag // 2))
        return self._powers[lag]


class Chain:
    """How one user's state moves, as the adversary knows it; InvalidMatrixError E0805 where that is no chain.

    Args:
        forward: (n, n), row i the law of the next state given state i now.
        backward: (n, n), row i the law of the state before given state i now, from a stationary start. Given together
            with `forward`, both are used as they are.
        initial: law of the first state, shape (n,); `stationary` (or None) for the law that stays the same.
        relative_error: every true probability is within a factor exp(+-relative_error) of the one given.
    """

    def __init__(
        self,
        forward: ArrayLike | None = None,
        backward: ArrayLike | None = None,
        initial: ArrayLike | Literal["stationary"] | None = None,
        relative_error: float = 0.0,
    ) -> None:
        told = [np.asarray(matrix, dtype=np.float64) for matrix in (forward, backward) if matrix is not None]
        self.is_stationary_start = initial is None or isinstance(initial, str)
        if not told or (forward is None and not self.is_stationary_start):
            missing = "a matrix, forward or backward" if not told else "the matrix forward where the start is given"
            raise InvalidMatrixError("E0805", f"a chain needs {missing}")
        self.states = len(told[0])
        if any(matrix.shape != (self.states, self.states) for matrix in told):
            shapes = " and ".join(str(matrix.shape) for matrix in told)
            raise InvalidMatrixError("E0805", f"matrices of a chain are square and have its states, not {shapes}")
        self.relative_error = float(relative_error)
        self._matrix = told[0]
        self._ahead = Side(told[0], self.relative_error, self if forward is None else None)
        self._back = Side(told[-1], self.relative_error, self if backward is None else None)
        self._settled = 0.0
        if not self.is_stationary_start:
            law = np.asarray(initial, dtype=np.float64)
            if law.shape != (self.states,) or not (law >= 0).all() or not abs(law.sum() - 1) <= 1e-9:
                raise InvalidMatrixError("E0805", f"a first law is {self.states} probabilities that sum to 1")
            self._laws, self._settled, self._transposed = [law / law.sum()], math.inf, told[0].T.copy()

    def backward_side(self) -> Side:
        """Laws of earlier states given the state now."""
        return self._back

    def forward_side(self) -> Side:
        """Laws of later states given the state now."""
        return self._ahead

    @property
    def forward(self) -> Floats:
        """Law of the next state given the state now, shape (n, n)."""
        return self._ahead.law(1, 1).matrix

    @property
    def backward(self) -> Floats:
        """Law of the first state given the second, shape (n, n); of every step where the start is stationary."""
        return self._back.law(1, 1).matrix

    @property
    def settled(self) -> float:
        """The step from which the marginal law stays the same, as far as floats can tell; inf if it is not seen to."""
        if self._settled == math.inf:
            self.marginal(_PATIENCE)  # periodic chains never settle
        return self._settled

    def marginal(self, step: int) -> Floats:
        """Law of the state at a 0-based step, (n,); InvalidMatrixError E0805 of several stationary ones to start."""
        while len(self._laws) <= step and self._settled == math.inf:
            law = (self._transposed * self._laws[-1]).sum(axis=1)
            rare = (law < VANISHING) & ((self._transposed > 0) @ (self._laws[-1] > 0))
            law[rare] = VANISHING / (2 * self.states)  # stays possible; too small for `reversal`, and so are sums of it
            law /= law.sum()
            self._laws.append(law)
            t = len(self._laws) - 1
            # against half the time as well: slow chains change little in one step
            if not rare.any() and all((np.abs(law - self._laws[s]) <= 1e-15 * law).all() for s in (t - 1, t // 2)):
                self._settled = t
        return self._laws[min(step, len(self._laws) - 1)]

    @cached_property
    def _laws(self) -> list[Floats]:
        """Of the first steps, as far as they were asked for; of a stationary start, the only one."""
        return [stationary_law(self._matrix)]

    def marginal_error(self, step: int) -> float:
        """Within what factor exp(+-error) of the true law at `step` is `marginal`, up to a factor common to all states.

        How far a law is from an invariant one, as the spread of their ratios, never grows: so from `settled` on it is
        as far as it was then, and the error stays what it was.
        """
        invariant = 2 * (self.states - 1) * self.relative_error + 3 * UNIT  # Markov chain tree theorem, two roundings
        if self.is_stationary_start:
            return invariant
        self.marginal(step)
        steps = min(step, len(self._laws) - 1)
        error = self.relative_error + 2 * UNIT
        error += steps * (self.relative_error + (roundings(self.states) + 3) * UNIT)
        return error if step < self._settled else error + self._spread + 2 * invariant + 8 * UNIT

    @cached_property
    def _spread(self) -> float:
        """Of log ratios between the last law and an invariant one."""
        law, spread = self._laws[-1], 0.0
        for inside in closed_classes(self._matrix):
            if (law[inside] > 0).any():
                ratios = law[inside] / law_of_class(self._matrix, inside)
                spread = max(spread, math.log(ratios.max() / ratios.min()) if ratios.min() > 0 else math.inf)
        return spread


def reversal(forward: Floats, law_before: Floats, law_after: Floats) -> Floats:
    """Law of the state before given the state after: diag(after)^-1 P^T diag(before), shape (n, n).

    A state that cannot be reached has no row of its own: it gets a reachable state's row, which adds no pair. Where the
    probability of one that can be underflows, InvalidMatrixError E0805.
    """
    backward = np.ascontiguousarray(forward.T)
    joint = backward * law_before
    reached = law_after > 0
    possible = (backward > 0) & (law_before > 0)
    if (~reached & possible.any(axis=1)).any() or (joint[possible] < VANISHING).any():
        raise vanishing()
    joint[~reached] = joint[int(law_after.argmax())]
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def product(first: Law, second: Law) -> Law:
    """One law after another; entries too small for floats are raised, and none becomes 0 that is not."""
    A, B = first.matrix, second.matrix
    matrix = A @ B
    small = matrix < VANISHING
    if small.any():
        matrix[small & ((A > 0).astype(np.float32) @ (B > 0).astype(np.float32) > 0)] = VANISHING
    # 1.01 n UNIT: in whatever order n products without negative ones are summed
    return Law(matrix, first.relative_error + second.relative_error + 1.01 * len(A) * UNIT)
