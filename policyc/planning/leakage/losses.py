"""The loss functions of a chain, for every step and lag: each hull is built once."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc.planning.leakage.loss import LossFunction
from policyc_check.errors import InvalidMatrixError
from policyc_check.steps.chains import Chain
from policyc_check.steps.laws import Law, PowersSide, Side, product, product_error, transition_matrix

Floats = NDArray[np.float64]


class NoSide(PowersSide):
    """No correlation: the state elsewhere says nothing about the state here, so L = 0."""

    def __init__(self) -> None:
        super().__init__([[1.0]])

    def law(self, step: int, lag: int) -> Law:  # noqa: ARG002  the law is the same at every step
        """The law of one state."""
        return self._laws[1]


class StackSide:
    """A matrix for every step: entry t - 1 leads from step t to step t - 1 in the direction of the recursion.

    Args:
        stack: shape (T - 1, n, n).
    """

    settled = float("inf")

    def __init__(self, stack: ArrayLike) -> None:
        self._stack = np.asarray(stack, dtype=np.float64)
        self._laws: dict[tuple[int, int], Law] = {}

    def law(self, step: int, lag: int) -> Law:
        """The product of the last `lag` matrices."""
        key = (step, lag)
        if key not in self._laws:
            law = transition_matrix(self._stack[step - 1])
            for t in range(step - 2, step - 1 - lag, -1):
                law = product(law, transition_matrix(self._stack[t]))
            self._laws[key] = Law(law, relative_error=(lag - 1) * product_error(len(law)))
        return self._laws[key]

    def reversed(self) -> Side:
        """The stack from its end."""
        return StackSide(self._stack[::-1])

    def check_horizon(self, horizon: int) -> None:
        """The stack has one matrix fewer than there are steps."""
        if len(self._stack) != horizon - 1:
            raise InvalidMatrixError(
                "E0805", f"{horizon} steps need {horizon - 1} matrices, there are {len(self._stack)}"
            )


class Losses:
    """The loss functions of one direction of correlation."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._known: dict[int, tuple[Law, LossFunction]] = {}

    @property
    def settled(self) -> float:
        """From this step on the law does not depend on the step; inf for never."""
        return self.side.settled

    def loss(self, step: int, lag: int) -> LossFunction:
        """Loss function of the state at `step - lag` given the state at `step` (in the order of the recursion)."""
        law = self.side.law(step, lag)
        if id(law) not in self._known:
            self._known[id(law)] = law, LossFunction(law.matrix, law.row_tolerance, law.relative_error)
        return self._known[id(law)][1]

    def reversed(self) -> Losses:
        """The same laws counted from the last step."""
        other = self.side.reversed()
        return self if other is self.side else as_losses(other)

    def check_horizon(self, horizon: int) -> None:
        """Refuse a side that tells a number of steps other than `horizon`."""
        self.side.check_horizon(horizon)


LossesLike = ArrayLike | Side | Losses | None
_KEPT: WeakKeyDictionary[Side, Losses] = WeakKeyDictionary()


def as_losses(matrices: LossesLike) -> Losses:
    """One direction from a matrix (n, n), a stack (T - 1, n, n) in the order of steps, None, or a side of a chain."""
    if isinstance(matrices, Losses):
        return matrices
    if matrices is None:
        return Losses(NoSide())
    if isinstance(matrices, Side):
        if matrices not in _KEPT:
            _KEPT[matrices] = Losses(matrices)
        return _KEPT[matrices]
    array = np.asarray(matrices, dtype=np.float64)
    return Losses(StackSide(array) if array.ndim == 3 else PowersSide(array))


def losses_of(chain: Chain, row_tolerance: float = 0.0) -> tuple[Losses, Losses]:
    """Both directions of a chain, backward and forward."""
    return as_losses(chain.backward_side(row_tolerance)), as_losses(chain.forward_side(row_tolerance))
