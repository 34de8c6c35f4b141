"""The two directions of correlation: for every step and lag, the law that lies between.

Source: CAO17 for one step. The laws over several steps are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_check.errors import InvalidMatrixError
from policyc_check.rounding import UNIT, roundings
from policyc_check.steps.stationary import VANISHING, vanishing

if TYPE_CHECKING:
    from policyc_check.steps.chains import Chain

Floats = NDArray[np.float64]


def transition_matrix(matrix: ArrayLike) -> Floats:
    """Check that a matrix is row-stochastic, and return it with rows that sum to 1 within 1e-14.

    Args:
        matrix: shape (n, n), probabilities; rows may miss 1 by 1e-9, as printed decimals do.

    Raises:
        InvalidMatrixError: E0805, for a matrix that is not square, finite, non-negative and row-stochastic.
    """
    try:
        P = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidMatrixError("E0805", "a transition matrix must be a table of numbers") from None
    if P.ndim != 2 or P.shape[0] != P.shape[1] or P.shape[0] == 0:
        shape = " x ".join(map(str, P.shape)) or "a single number"
        raise InvalidMatrixError("E0805", f"a transition matrix must be square, this one is {shape}")
    for broken, what in ((~np.isfinite(P), "is not a finite number"), (P < 0, "is negative")):
        if broken.any():
            row, column = np.argwhere(broken)[0]
            raise InvalidMatrixError("E0805", f"the probability in row {row + 1}, column {column + 1} {what}")
    sums = P.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > 1e-9:
        raise InvalidMatrixError(
            "E0805", f"row {worst + 1} of the transition matrix sums to {sums[worst]:.12g}, not 1",
            because="a row lists the probabilities of all states, given one",
            help="divide the row by its sum, or correct the entry that is off",
        )  # fmt: skip
    # a matrix that went through here once is left as it is: audits must see the very floats
    return np.asarray(P / np.where(np.abs(sums - 1) > 1e-14, sums, 1.0)[:, None])


class Law:
    """The law of a user's state some steps away, given the state now, and how well it is known.

    Args:
        matrix: shape (n, n), row-stochastic.
        row_tolerance: total variation, in [0, 1), within which rows are known; bounds hold for every such matrix.
        relative_error: every true entry is within a factor exp(+-relative_error) of the one given.

    Raises:
        InvalidMatrixError: E0805.
    """

    def __init__(self, matrix: ArrayLike, row_tolerance: float = 0.0, relative_error: float = 0.0) -> None:
        if not 0 <= row_tolerance < 1:
            raise InvalidMatrixError("E0805", f"a row tolerance lies between 0 and 1, not at {row_tolerance:g}")
        self.matrix = transition_matrix(matrix)
        self.row_tolerance = float(row_tolerance)
        self.relative_error = float(relative_error)
        if relative_error:  # rows whose rounding took them away from 1 were divided by their sum
            missed = float(np.abs(np.sum(matrix, axis=1) - 1).max())
            self.relative_error += 1.01 * missed + (roundings(len(self.matrix)) + 3) * UNIT if missed > 0.9e-14 else 0.0


@runtime_checkable
class Side(Protocol):
    """One direction of correlation: the law of the state `lag` steps away, for every step."""

    @property
    def settled(self) -> float:
        """From this step on the law does not depend on the step; inf for never."""

    def law(self, step: int, lag: int) -> Law:
        """The law of the state at `step - lag` given the state at `step` (in the order of the recursion)."""

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
        self._laws = {1: Law(matrix, row_tolerance, relative_error)}

    def law(self, step: int, lag: int) -> Law:  # noqa: ARG002  the law is the same at every step
        """The power `lag`; `step` does not matter."""
        found = self._laws.get(lag)
        if found is None:
            shorter = max(k for k in self._laws if k < lag)
            base, one, rest = self._laws[shorter], self._laws[1], lag - shorter
            power = product(base.matrix, _power(one.matrix, rest))
            # a row known within rho of total variation, k times over, is known within k rho
            tolerance = min(0.999, one.row_tolerance * lag)
            error = base.relative_error + rest * (one.relative_error + product_error(len(power)))
            found = self._laws[lag] = Law(power, tolerance, error)
        return found

    def reversed(self) -> Side:
        """Itself."""
        return self

    def check_horizon(self, horizon: int) -> None:
        """Any horizon fits."""


class StartedSide:
    """The law backward of a chain with a start of its own: over k steps diag(p_t)^-1 (P_F^k)^T diag(p_{t-k})."""

    def __init__(self, chain: Chain, row_tolerance: float = 0.0) -> None:
        self._chain = chain
        self._tolerance = row_tolerance
        self._powers = PowersSide(chain.forward, relative_error=chain.relative_error)
        self._laws: dict[tuple[int, int], Law] = {}

    @property
    def settled(self) -> float:
        """The step at which the marginal law has converged."""
        return self._chain.settled

    def law(self, step: int, lag: int) -> Law:
        """The law of the state at `step - lag` given the state at `step`."""
        step = int(min(step, self._chain.settled + lag))
        if (step, lag) not in self._laws:
            before, after = self._chain.marginal(step - lag), self._chain.marginal(step)
            power = self._powers.law(0, lag)
            law = reversal(power.matrix, before, after)
            error = reversal_error(len(law), power.relative_error, self._chain.marginal_error(step - lag))
            self._laws[step, lag] = Law(law, min(0.999, lag * self._tolerance), error)
        return self._laws[step, lag]

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


def product(A: Floats, B: Floats) -> Floats:
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
    square = product(half, half)
    return product(square, P) if exponent % 2 else square
