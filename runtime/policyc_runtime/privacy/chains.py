"""Markov chains of one user's state, and the laws that leakage is passed through.

A chain is told forward (next given now), backward (before given now), or both. What is missing follows from the other by
Bayes' rule: P_B,t = diag(p_t)^-1 P_F^T diag(p_{t-1}), which depends on the step unless the start is stationary.

Source: CAO17 (backward and forward correlation). The law over several steps is ours.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_runtime.errors import InvalidMatrixError
from policyc_runtime.privacy.loss import LossFunction, transition_matrix

Floats = NDArray[np.float64]


@runtime_checkable
class Side(Protocol):
    """One direction of correlation: the loss function of the law `lag` steps away, for every step."""

    @property
    def settled(self) -> float:
        """From this step on the law does not depend on the step; inf for never."""

    def loss(self, step: int, lag: int) -> LossFunction:
        """Loss function of the state at `step - lag` given the state at `step` (counted in the direction of the recursion)."""

    def reversed(self, horizon: int) -> Side:
        """The same laws counted from the last step."""

    def check_horizon(self, horizon: int) -> None:
        """Refuse a side that tells a number of steps other than `horizon`."""


class PowersSide:
    """The same matrix at every step: its law over k steps is the k-th power."""

    settled = 0.0

    def __init__(self, matrix: ArrayLike, row_tolerance: float = 0.0) -> None:
        self._losses = {1: LossFunction(matrix, row_tolerance)}

    def loss(self, step: int, lag: int) -> LossFunction:
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

    def reversed(self, horizon: int) -> Side:
        """Itself."""
        return self

    def check_horizon(self, horizon: int) -> None:
        """Any horizon fits."""


class NoSide(PowersSide):
    """No correlation: the state elsewhere says nothing about the state here, so L = 0."""

    def __init__(self) -> None:
        super().__init__([[1.0]])

    def loss(self, step: int, lag: int) -> LossFunction:
        """The loss function that is 0."""
        return self._losses[1]


class StackSide:
    """A matrix for every step: entry t - 1 leads from step t to step t - 1 in the direction of the recursion.

    Args:
        stack: shape (T - 1, n, n).
        forward: whether entry t - 1 leads from step t - 1 to step t instead, for a recursion run from the end.
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

    def reversed(self, horizon: int) -> Side:
        """The stack from its end."""
        return StackSide(self._stack[::-1])

    def check_horizon(self, horizon: int) -> None:
        """The stack has one matrix fewer than there are steps."""
        if len(self._stack) != horizon - 1:
            raise InvalidMatrixError(
                "E0805", f"{horizon} steps need {horizon - 1} matrices, there are {len(self._stack)}"
            )


class StartedSide:
    """The law backward of a chain whose start is not stationary: P_B over k steps is diag(p_t)^-1 (P_F^k)^T diag(p_{t-k})."""

    def __init__(self, chain: Chain, row_tolerance: float = 0.0) -> None:
        self._chain = chain
        self._tolerance = row_tolerance
        self._powers = PowersSide(chain.forward)
        self._losses: dict[tuple[int, int], LossFunction] = {}

    @property
    def settled(self) -> float:
        """The step at which the marginal law has converged, as far as floats can tell."""
        return float(self._chain.settled)

    def loss(self, step: int, lag: int) -> LossFunction:
        """Loss function of the state at `step - lag` given the state at `step`."""
        settled = self._chain.settled
        step = min(step, settled + lag)
        if (step, lag) not in self._losses:
            before, after = self._chain.marginal(step - lag), self._chain.marginal(step)
            law = reversal(self._powers.loss(0, lag).matrix, before, after)
            self._losses[step, lag] = LossFunction(law, min(0.999, lag * self._tolerance))
        return self._losses[step, lag]

    def reversed(self, horizon: int) -> Side:
        """Refused: this side is always told from the first step."""
        raise InvalidMatrixError("E0805", "a law backward cannot serve as the law forward")

    def check_horizon(self, horizon: int) -> None:
        """Any horizon fits."""


def reversal(forward: Floats, law_before: Floats, law_after: Floats) -> Floats:
    """Law of the state before given the state after: diag(after)^-1 P^T diag(before), shape (n, n).

    A state that cannot be reached has no row of its own: it gets a reachable state's row, which adds no pair.
    """
    joint = forward.T * law_before
    reached = law_after > 0
    joint[~reached] = joint[int(law_after.argmax())]
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


class Chain:
    """How one user's state moves, as the adversary knows it.

    Args:
        forward: (n, n), row i the law of the next state given state i now.
        backward: (n, n), row i the law of the state before given state i now. Given alone, `forward` is its reversal under
            its own stationary law; given together, both are used as they are.
        initial: law of the first state, shape (n,); `stationary` (or None) for the law that stays the same.

    Raises:
        InvalidMatrixError: E0805.
    """

    def __init__(
        self,
        forward: ArrayLike | None = None,
        backward: ArrayLike | None = None,
        initial: ArrayLike | Literal["stationary"] | None = None,
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
        self.is_stationary_start = initial is None or isinstance(initial, str)
        self._told_backward = backward is not None
        self._sides: dict[tuple[str, float], Side] = {}  # kept: a side holds hulls, which cost
        self._stationary: Floats | None = None
        self._laws = [] if self.is_stationary_start else [self._start(initial)]
        self._settled: int | None = 0 if self.is_stationary_start else None

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
    def settled(self) -> int:
        """The step from which the marginal law stays the same, as far as floats can tell."""
        t = len(self._laws) - 1
        while self._settled is None:
            t += 1
            self.marginal(t)
        return self._settled

    def marginal(self, step: int) -> Floats:
        """Law of the state at a 0-based step, shape (n,)."""
        if self.is_stationary_start:
            return self.stationary()
        while len(self._laws) <= step and self._settled is None:
            law = self._laws[-1] @ self.forward
            law /= law.sum()
            self._laws.append(law)
            t = len(self._laws) - 1
            # against half the time as well: slow chains change little in one step
            if all((np.abs(law - self._laws[s]) <= 1e-15 * law).all() for s in (t - 1, t // 2)):
                self._settled = t
        return self._laws[min(step, len(self._laws) - 1)]

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
            self._sides[key] = PowersSide(self.backward, row_tolerance) if same else StartedSide(self, row_tolerance)
        return self._sides[key]

    def forward_side(self, row_tolerance: float = 0.0) -> Side:
        """Laws of later states given the state now, for `forward_leakage`."""
        key = ("forward", row_tolerance)
        if key not in self._sides:
            self._sides[key] = PowersSide(self.forward, row_tolerance)
        return self._sides[key]


def stationary_law(matrix: Floats) -> Floats:
    """The unique law with law @ matrix = law, by elimination without subtraction (Grassmann, Taksar, Heyman)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(csr_array(matrix > 0), directed=True, connection="strong")
    leaves = {int(label[i]) for i, j in np.argwhere(matrix > 0) if label[i] != label[j]}
    closed = [c for c in range(count) if c not in leaves]
    if len(closed) > 1:
        a, b = (int(np.flatnonzero(label == c)[0]) + 1 for c in closed[:2])
        raise InvalidMatrixError(
            "E0805",
            f"the chain has more than one stationary law: state {a} and state {b} can never be left for each other",
            because="the law of earlier states given later ones depends on where the chain starts",
            help="give the law of the first step, or leave out states that are never visited",
        )
    inside = np.flatnonzero(label == closed[0])
    A = matrix[np.ix_(inside, inside)].copy()
    for k in range(len(A) - 1, 0, -1):
        A[:k, k] /= A[k, :k].sum()
        A[:k, :k] += np.outer(A[:k, k], A[k, :k])
    law = np.ones(len(A))
    for k in range(1, len(A)):
        law[k] = law[:k] @ A[:k, k]
    result = np.zeros(len(matrix))
    result[inside] = law / law.sum()
    return result


_BOUNDS = (0.1, 1.0, 4.0)  # leakages, nats, and
_BUDGETS = (0.05, 0.5)  # budgets on which lags are tried


def useful_lags(chain: Chain, most: int = 64) -> tuple[int, ...]:
    """Lags that can lower the leakage of this chain, always with 1; fewer lags only loosen the bound.

    Two states, and chains on which lag 2 wins nowhere, need lag 1 alone; deciding that costs less than one hull.
    """
    if chain.states <= 2 or most < 2:
        return (1,)
    lags = {1}
    for side in (chain.backward_side(), chain.forward_side()):
        lags.update(_useful(side, most))
    return tuple(sorted(lags))


def _useful(side: Side, most: int) -> set[int]:
    first = side.loss(0, 1)
    lag = 1
    if first.is_identity:
        lag = _first_joined(first.matrix, most)
        if lag == 0:
            return set()
    elif not _second_wins(side):
        return set()
    found, best, idle = set(), [np.inf] * len(_BUDGETS), 0
    while lag <= most and idle < 4:
        limits = [side.loss(0, lag).supremum(lag * e) for e in _BUDGETS]
        if any(new < old * (1 - 1e-9) for new, old in zip(limits, best, strict=True)):
            found.add(lag)
            best, idle = [min(pair) for pair in zip(limits, best, strict=True)], 0
        elif np.isfinite(best).all():
            idle += 1
        lag += 1
    return found


def _first_joined(matrix: Floats, most: int) -> int:
    """The first lag at which every two rows of the power share a column; 0 if there is none up to `most`."""
    support = (matrix > 0).astype(np.float32)
    power = support
    for lag in range(2, most + 1):
        power = ((power @ support) > 0).astype(np.float32)
        if (power @ power.T > 0).all():
            return lag
    return 0


def _second_wins(side: Side) -> bool:
    """Whether two steps at once ever pass on less than one step twice."""
    first, second = side.loss(0, 1), side.loss(0, 2)
    for b in _BOUNDS:
        two = second(b)
        if any(first(e + first(b)) > (e + two) * (1 + 1e-12) for e in _BUDGETS):
            return True
    return False
