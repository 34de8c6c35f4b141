"""The two directions of correlation: for every step and lag, the loss function of the law that lies between.

Source: CAO17 for one step. The laws over several steps are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_runtime.errors import InvalidMatrixError
from policyc_runtime.privacy.loss import LossFunction, transition_matrix
from policyc_runtime.privacy.stationary import VANISHING, vanishing
from policyc_runtime.rounding import UNIT, roundings

if TYPE_CHECKING:
    from policyc_runtime.privacy.chains import Chain

Floats = NDArray[np.float64]


@runtime_checkable
class Side(Protocol):
    """One direction of correlation: the loss function of the law `lag` steps away, for every step."""

    @property
    def settled(self) -> float:
        """From this step on the law does not depend on the step; inf for never."""

    def loss(self, step: int, lag: int) -> LossFunction:
        """Loss function of the state at `step - lag` given the state at `step` (in the order of the recursion)."""

    def reversed(self) -> Side:
        """The same laws counted from the last step."""

    def check_horizon(self, horizon: int) -> None:
        """Refuse a side that tells a number of steps other than `horizon`."""


class PowersSide:
    """The same matrix at every step: its law over k steps is the k-th power.

    Args:
        matrix: shape (n, n), row-stochastic.
        row_tolerance: total variation within which rows are known.
        relative_error: every true entry is within a factor exp(+-relative_error) of the one given.
    """

    settled = 0.0

    def __init__(self, matrix: ArrayLike, row_tolerance: float = 0.0, relative_error: float = 0.0) -> None:
        self._losses = {1: LossFunction(matrix, row_tolerance, relative_error)}

    def loss(self, step: int, lag: int) -> LossFunction:  # noqa: ARG002  the law is the same at every step
        """Loss function of the power `lag`; `step` does not matter."""
        found = self._losses.get(lag)
        if found is None:
            shorter = max(k for k in self._losses if k < lag)
            base, one, rest = self._losses[shorter], self._losses[1], lag - shorter
            power = _product(base.matrix, _power(one.matrix, rest))
            # a row known within rho of total variation, k times over, is known within k rho
            tolerance = min(0.999, one.row_tolerance * lag)
            error = base.relative_error + rest * (one.relative_error + product_error(len(power)))
            found = self._losses[lag] = LossFunction(power, tolerance, error)
        return found

    def reversed(self) -> Side:
        """Itself."""
        return self

    def check_horizon(self, horizon: int) -> None:
        """Any horizon fits."""


class NoSide(PowersSide):
    """No correlation: the state elsewhere says nothing about the state here, so L = 0."""

    def __init__(self) -> None:
        super().__init__([[1.0]])

    def loss(self, step: int, lag: int) -> LossFunction:  # noqa: ARG002  the law is the same at every step
        """The loss function that is 0."""
        return self._losses[1]


class StackSide:
    """A matrix for every step: entry t - 1 leads from step t to step t - 1 in the direction of the recursion.

    Args:
        stack: shape (T - 1, n, n).
    """

    settled = float("inf")

    def __init__(self, stack: ArrayLike) -> None:
        self._stack = np.asarray(stack, dtype=np.float64)
        self._losses: dict[tuple[int, int], LossFunction] = {}

    def loss(self, step: int, lag: int) -> LossFunction:
        """Loss function of the product of the last `lag` matrices."""
        key = (step, lag)
        if key not in self._losses:
            law = transition_matrix(self._stack[step - 1])
            for t in range(step - 2, step - 1 - lag, -1):
                law = _product(law, transition_matrix(self._stack[t]))
            self._losses[key] = LossFunction(law, relative_error=(lag - 1) * product_error(len(law)))
        return self._losses[key]

    def reversed(self) -> Side:
        """The stack from its end."""
        return StackSide(self._stack[::-1])

    def check_horizon(self, horizon: int) -> None:
        """The stack has one matrix fewer than there are steps."""
        if len(self._stack) != horizon - 1:
            raise InvalidMatrixError(
                "E0805", f"{horizon} steps need {horizon - 1} matrices, there are {len(self._stack)}"
            )


class StartedSide:
    """The law backward of a chain with a start of its own: over k steps diag(p_t)^-1 (P_F^k)^T diag(p_{t-k})."""

    def __init__(self, chain: Chain, row_tolerance: float = 0.0) -> None:
        self._chain = chain
        self._tolerance = row_tolerance
        self._powers = PowersSide(chain.forward, relative_error=chain.relative_error)
        self._losses: dict[tuple[int, int], LossFunction] = {}

    @property
    def settled(self) -> float:
        """The step at which the marginal law has converged."""
        return self._chain.settled

    def loss(self, step: int, lag: int) -> LossFunction:
        """Loss function of the state at `step - lag` given the state at `step`."""
        step = int(min(step, self._chain.settled + lag))
        if (step, lag) not in self._losses:
            before, after = self._chain.marginal(step - lag), self._chain.marginal(step)
            power = self._powers.loss(0, lag)
            law = reversal(power.matrix, before, after)
            error = reversal_error(len(law), power.relative_error, self._chain.marginal_error(step - lag))
            self._losses[step, lag] = LossFunction(law, min(0.999, lag * self._tolerance), error)
        return self._losses[step, lag]

    def reversed(self) -> Side:
        """Refused: this side is always told from the first step."""
        raise InvalidMatrixError("E0805", "a law backward cannot serve as the law forward")

    def check_horizon(self, horizon: int) -> None:
        """Any horizon fits."""


def reversal(forward: Floats, law_before: Floats, law_after: Floats) -> Floats:
    """Law of the state before given the state after: diag(after)^-1 P^T diag(before), shape (n, n).

    Raises InvalidMatrixError (E0805) where a reachable state's probability underflows.

    A state that cannot be reached has no row of its own: it gets a reachable state's row, which adds no pair.
    """
    backward = np.ascontiguousarray(forward.T)
    joint = backward * law_before
    reached = law_after > 0
    possible = (backward > 0) & (law_before > 0)
    if (~reached & possible.any(axis=1)).any() or (joint[possible] < VANISHING).any():
        raise vanishing()
    joint[~reached] = joint[int(law_after.argmax())]
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def reversal_error(states: int, of_matrix: float, of_law: float) -> float:
    """Relative error of the entries of `reversal`, given those of its matrix and of the law before, up to a factor."""
    return 2 * (of_matrix + of_law) + (roundings(states) + 6) * UNIT


def product_error(states: int) -> float:
    """Relative error that a product of two matrices without negative entries adds, in whatever order it is summed."""
    return 1.01 * states * UNIT


def _product(A: Floats, B: Floats) -> Floats:
    """A @ B, in which entries too small for floats are raised and none becomes 0 that is not."""
    product = A @ B
    small = product < VANISHING
    if small.any():
        product[small & ((A > 0).astype(np.float32) @ (B > 0).astype(np.float32) > 0)] = VANISHING
    return product


def _power(P: Floats, exponent: int) -> Floats:
    if exponent == 1:
        return P
    half = _power(P, exponent // 2)
    square = _product(half, half)
    return _product(square, P) if exponent % 2 else square
