"""Markov chains of one user's state, and the laws that leakage is passed through.

A chain is told forward (next given now), backward (before given now), or both. What is missing follows from the other
by Bayes' rule: P_B,t = diag(p_t)^-1 P_F^T diag(p_{t-1}), which depends on the step unless the start is stationary.

Source: CAO17 (backward and forward correlation). The law over several steps is ours.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_check.errors import InvalidMatrixError
from policyc_check.rounding import UNIT, roundings
from policyc_check.steps.laws import PowersSide, Side, StartedSide, reversal, reversal_error, transition_matrix
from policyc_check.steps.stationary import closed_classes, law_of_class, stationary_law

Floats = NDArray[np.float64]

_PATIENCE = 2000  # steps in which a chain is expected to forget its start


class Chain:
    """How one user's state moves, as the adversary knows it.

    Args:
        forward: (n, n), row i the law of the next state given state i now.
        backward: (n, n), row i the law of the state before given state i now. Given alone, `forward` is its reversal
            under its own stationary law; given together, both are used as they are.
        initial: law of the first state, shape (n,); `stationary` (or None) for the law that stays the same.
        relative_error: every true probability is within a factor exp(+-relative_error) of the one given.

    Raises:
        InvalidMatrixError: E0805.
    """

    def __init__(
        self,
        forward: ArrayLike | None = None,
        backward: ArrayLike | None = None,
        initial: ArrayLike | Literal["stationary"] | None = None,
        relative_error: float = 0.0,
    ) -> None:
        if forward is None and backward is None:
            raise InvalidMatrixError("E0805", "a chain needs a matrix, forward or backward")
        self._backward = None if backward is None else transition_matrix(backward)
        self._forward = None if forward is None else transition_matrix(forward)
        if self._forward is not None and self._backward is not None and len(self._forward) != len(self._backward):
            raise InvalidMatrixError(
                "E0805",
                f"the matrices have {len(self._forward)} and {len(self._backward)} states: they must be of one chain",
            )
        self.relative_error = float(relative_error)
        self.is_stationary_start = initial is None or isinstance(initial, str)
        self._told_backward = backward is not None
        self._told_forward = forward is not None
        self._sides: dict[tuple[str, float], Side] = {}  # kept: a side holds hulls, which cost
        self._stationary: Floats | None = None
        self._laws = [] if self.is_stationary_start else [self._start(initial)]
        self._settled: float = 0 if self.is_stationary_start else math.inf

    def _start(self, initial: ArrayLike | None) -> Floats:
        law = np.asarray(initial, dtype=np.float64)
        if law.shape != (self.states,) or not np.isfinite(law).all() or (law < 0).any() or abs(law.sum() - 1) > 1e-9:
            raise InvalidMatrixError("E0805", f"a first law is {self.states} probabilities that sum to 1")
        return np.asarray(law / law.sum())

    @property
    def states(self) -> int:
        """Number of states n."""
        return len(self._forward if self._forward is not None else self._backward)  # type: ignore[arg-type]

    @property
    def forward(self) -> Floats:
        """Law of the next state given the state now, shape (n, n)."""
        if self._forward is None:
            assert self._backward is not None
            law = self.stationary()
            self._forward = reversal(self._backward, law, law)
        return self._forward

    @property
    def backward(self) -> Floats:
        """Law of the state before given the state now under the stationary law (or as given), shape (n, n)."""
        if self._backward is None:
            law = self.stationary()
            self._backward = reversal(self.forward, law, law)
        return self._backward

    def stationary(self) -> Floats:
        """The law that the chain leaves as it is, shape (n,), to full relative precision.

        Raises:
            InvalidMatrixError: E0805, when there are several such laws.
        """
        if self._stationary is None:
            given = self._forward if self._forward is not None else self._backward
            assert given is not None
            self._stationary = stationary_law(given)
        return self._stationary

    @property
    def settled(self) -> float:
        """The step from which the marginal law stays the same, as far as floats can tell; inf if it is not seen to."""
        if self._settled == math.inf:
            self.marginal(_PATIENCE)  # periodic chains never settle
        return self._settled

    def marginal(self, step: int) -> Floats:
        """Law of the state at a 0-based step, shape (n,)."""
        if self.is_stationary_start:
            return self.stationary()
        while len(self._laws) <= step and self._settled == math.inf:
            law = (self._transposed * self._laws[-1]).sum(axis=1)
            law /= law.sum()
            self._laws.append(law)
            t = len(self._laws) - 1
            # against half the time as well: slow chains change little in one step
            if all((np.abs(law - self._laws[s]) <= 1e-15 * law).all() for s in (t - 1, t // 2)):
                self._settled = t
        return self._laws[min(step, len(self._laws) - 1)]

    @cached_property
    def _transposed(self) -> Floats:
        return np.ascontiguousarray(self.forward.T)

    def marginal_error(self, step: int) -> float:
        """Within what factor exp(+-error) of the true law at `step` is `marginal`, up to a factor common to all states.

        How far a law is from an invariant one, as the spread of their ratios, never grows: so from `settled` on it is
        as far as it was then, and the error stays what it was.
        """
        if self.is_stationary_start:
            return self._stationary_error
        self.marginal(step)
        steps = min(step, len(self._laws) - 1)
        error = self.relative_error + 2 * UNIT
        error += steps * (self.relative_error + (roundings(self.states) + 3) * UNIT)
        return error + self._unsettled if step >= self._settled else error

    @property
    def _stationary_error(self) -> float:
        """By the Markov chain tree theorem, and two roundings."""
        return 2 * (self.states - 1) * self.relative_error + 3 * UNIT

    @cached_property
    def _unsettled(self) -> float:
        """The spread of log ratios between the last law and an invariant one, and twice the error of that."""
        law = self._laws[-1]
        spread = 0.0
        for inside in closed_classes(self.forward):
            if (law[inside] > 0).any():
                ratios = law[inside] / law_of_class(self.forward, inside)
                spread = max(spread, math.log(ratios.max() / ratios.min()) if ratios.min() > 0 else math.inf)
        return spread + 2 * self._stationary_error + 8 * UNIT

    def marginals(self, horizon: int) -> Floats:
        """Laws of the steps 0..horizon - 1, shape (horizon, n)."""
        if horizon:
            self.marginal(horizon - 1)
        kept = self._laws[:horizon] if self._laws else [self.stationary()]
        result = np.empty((horizon, self.states))
        result[: len(kept)] = kept[:horizon]
        result[len(kept) :] = kept[-1]
        return result

    def backward_side(self, row_tolerance: float = 0.0) -> Side:
        """Laws of earlier states given the state now, for `backward_leakage`."""
        key = ("backward", row_tolerance)
        if key not in self._sides:
            same = self._told_backward or self.is_stationary_start
            backward = self.backward if same else self.forward
            error = self._error_of(told=self._told_backward)
            self._sides[key] = PowersSide(backward, row_tolerance, error) if same else StartedSide(self, row_tolerance)
        return self._sides[key]

    def forward_side(self, row_tolerance: float = 0.0) -> Side:
        """Laws of later states given the state now, for `forward_leakage`."""
        key = ("forward", row_tolerance)
        if key not in self._sides:
            self._sides[key] = PowersSide(self.forward, row_tolerance, self._error_of(told=self._told_forward))
        return self._sides[key]

    def _error_of(self, *, told: bool) -> float:
        """Relative error of a matrix that was given, or made of the other by the stationary law."""
        if told:
            return self.relative_error
        return reversal_error(self.states, self.relative_error, self._stationary_error)
