"""The loss functions of a chain, for every step and lag: each hull is built once."""

from __future__ import annotations

from functools import reduce
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc.planning.leakage.loss import LossFunction
from policyc.planning.leakage.matrix import transition_matrix
from policyc_check.errors import InvalidMatrixError
from policyc_check.steps.chains import Chain, Law, Side, product

Floats = NDArray[np.float64]


class StackSide(Side):
    """A matrix for every step: entry t - 1 leads from step t to step t - 1 in the direction of the recursion.

    Args:
        stack: shape (T - 1, n, n).
    """

    settled = float("inf")

    def __init__(self, stack: ArrayLike) -> None:
        self.stack = np.asarray(stack, dtype=np.float64)
        self._laws: dict[tuple[int, int], Law] = {}

    def law(self, step: int, lag: int) -> Law:
        """The product of the last `lag` matrices."""
        key = (step, lag)
        if key not in self._laws:
            laws = (Law(transition_matrix(self.stack[t])) for t in range(step - 1, step - 1 - lag, -1))
            self._laws[key] = reduce(product, laws)
        return self._laws[key]


class Losses:
    """The loss functions of one direction of correlation.

    Args:
        side: the laws.
        row_tolerance: total variation within which the rows of every matrix one step away are known.
    """

    def __init__(self, side: Side, row_tolerance: float = 0.0) -> None:
        self.side = side
        self.row_tolerance = row_tolerance
        self.digits: dict[bytes, int] = {}  # of gaps, that were enough for releases at some steps
        self.settles: dict[int, int] = {}  # after how many steps leakage does, by the period of budgets, where seen
        self.spaced: dict[int, Losses] = {}  # from release to release, by how many steps these are apart
        self.lags: dict[int, set[int]] = {}  # up to some lag, those that can lower what leaks
        self._known: dict[tuple[int, int], tuple[Law, LossFunction]] = {}
        self._steady: dict[int, LossFunction] = {}  # by lag, where no law depends on the step

    @property
    def settled(self) -> float:
        """From this step on the law does not depend on the step; inf for never."""
        return self.side.settled

    def loss(self, step: int, lag: int) -> LossFunction:
        """Loss function of the state at `step - lag` given the state at `step` (in the order of the recursion)."""
        if (steady := self._steady.get(lag)) is not None:
            return steady
        law = self.side.law(step, lag)
        key = (id(law), lag)
        if key not in self._known:
            # a row known within rho of total variation, k times over, is known within k rho
            tolerance = min(0.999, lag * self.row_tolerance)
            self._known[key] = law, LossFunction(law.matrix, tolerance, law.relative_error, often=True)
        found = self._known[key][1]
        if not self.settled:
            self._steady[lag] = found
        return found

    def reversed(self) -> Losses:
        """The same laws counted from the last step.

        Raises:
            InvalidMatrixError: E0805, laws that depend on the step, and are counted from the first.
        """
        if isinstance(self.side, StackSide):
            return Losses(StackSide(self.side.stack[::-1]))
        if self.settled:
            raise InvalidMatrixError("E0805", "a law backward cannot serve as the law forward")
        return self

    def check_horizon(self, horizon: int) -> None:
        """Refuse a stack that tells a number of steps other than `horizon`."""
        told = len(self.side.stack) if isinstance(self.side, StackSide) else horizon - 1
        if told != horizon - 1:
            raise InvalidMatrixError("E0805", f"{horizon} steps need {horizon - 1} matrices, there are {told}")


LossesLike = ArrayLike | Side | Losses | None
_KEPT: WeakKeyDictionary[Side, Losses] = WeakKeyDictionary()


def as_losses(matrices: LossesLike) -> Losses:
    """One direction from a matrix (n, n), a stack (T - 1, n, n) in the order of steps, None, or a side of a chain."""
    if isinstance(matrices, Losses):
        return matrices
    if matrices is None:
        return Losses(Side([[1.0]]))  # one state says nothing, so L = 0
    if isinstance(matrices, Side):
        if matrices not in _KEPT:
            _KEPT[matrices] = Losses(matrices)
        return _KEPT[matrices]
    array = np.asarray(matrices, dtype=np.float64)
    return Losses(StackSide(array) if array.ndim == 3 else Side(transition_matrix(array)))


def losses_of(chain: Chain, row_tolerance: float = 0.0) -> tuple[Losses, Losses]:
    """Both directions of a chain, backward and forward."""
    sides = chain.backward_side(), chain.forward_side()
    back, ahead = (Losses(side, row_tolerance) if row_tolerance else as_losses(side) for side in sides)
    return back, ahead
