"""The two directions of correlation: for every step and lag, the loss function of the law that lies between.

Source: CAO17 for one step. The laws over several steps are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_runtime.errors import InvalidMatrixError
from policyc_runtime.privacy.loss import LossFunction, transition_matrix

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
    """The same matrix at every step: its law over k steps is the k-th power."""

    settled = 0.0

    def __init__(self, matrix: ArrayLike, row_tolerance: float = 0.0) -> None:
        self._losses = {1: LossFunction(matrix, row_tolerance)}

    def loss(self, step: int, lag: int) -> LossFunction:  # noqa: ARG002  the law is the same at every step
        """Loss function of the power `lag`; `step` does not matter."""
        found = self._losses.get(lag)
        if found is None:
            shorter = max(k for k in self._losses if k < lag)
            base, rest = self._losses[shorter], lag - shorter
            other = self._losses[1].matrix if rest == 1 else np.linalg.matrix_power(self._losses[1].matrix, rest)
            # a row known within rho of total variation, k times over, is known within k rho
            tolerance = min(0.999, self._losses[1].row_tolerance * lag)
            found = self._losses[lag] = LossFunction(base.matrix @ other, tolerance)
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
                law = law @ transition_matrix(self._stack[t])
            self._losses[key] = LossFunction(law)
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
        self._powers = PowersSide(chain.forward)
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
            law = reversal(self._powers.loss(0, lag).matrix, before, after)
            self._losses[step, lag] = LossFunction(law, min(0.999, lag * self._tolerance))
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
    joint = forward.T * law_before
    reached = law_after > 0
    if (~reached & ((forward.T > 0) @ (law_before > 0))).any() or (joint.sum(axis=1) <= 0)[reached].any():
        raise InvalidMatrixError(
            "E0805",
            "a state is so improbable that its probability vanishes in floating point",
            because="it would be taken for a state that nobody can be in",
            help="write 0 for what cannot happen, and probabilities of at least 1e-100 for what can",
        )
    joint[~reached] = joint[int(law_after.argmax())]
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))
