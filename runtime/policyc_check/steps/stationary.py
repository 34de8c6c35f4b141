"""Laws that a chain leaves as they are: the law backward is made of them.

Elimination without subtraction (Grassmann, Taksar, Heyman). Taking a state out of a chain leaves the ratios of the
other states' probabilities as they are; and by the Markov chain tree theorem, a relative error of e in every transition
of n states changes those ratios by at most 2 (n - 1) e. So n^3 roundings at worst: too many for floats, but here each
is of relative size 1e-40, and only the last one, to a float, is felt.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from policyc_check.errors import InvalidMatrixError

Floats = NDArray[np.float64]

VANISHING = 1e-280
"""Below it products of probabilities lose digits, and soon all."""

_DIGITS = 40


def closed_classes(matrix: Floats) -> list[NDArray[np.intp]]:
    """The sets of states that are never left, each of which has one law of its own."""
    reach = (matrix > 0) | np.eye(len(matrix), dtype=np.bool_)
    for _ in range(len(matrix).bit_length()):  # ways of 1, 2, 4, ... steps
        reach = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0
    both = reach & reach.T  # each can be reached from the other
    first = both.argmax(axis=1)
    return [np.flatnonzero(first == c) for c in np.unique(first).tolist() if not (reach[c] & ~both[c]).any()]


def stationary_law(matrix: Floats) -> Floats:
    """The unique law with law @ matrix = law, shape (n,), to full relative precision.

    Raises:
        InvalidMatrixError: E0805, when there are several such laws.
    """
    classes = closed_classes(matrix)
    if len(classes) > 1:
        a, b = (int(inside[0]) + 1 for inside in classes[:2])
        raise InvalidMatrixError(
            "E0805",
            f"the chain has more than one stationary law: state {a} and state {b} can never be left for each other",
            help="give the law of the first step, or leave out states that are never visited",
        )
    result = np.zeros(len(matrix))
    result[classes[0]] = law_of_class(matrix, classes[0])
    return result


def law_of_class(matrix: Floats, inside: NDArray[np.intp]) -> Floats:
    """The stationary law on one closed set of states, in their order; a rounding from the matrix's own.

    Raises:
        InvalidMatrixError: E0805, a probability so small that floats lose it.
    """
    with localcontext(prec=_DIGITS):
        flow = np.array([[+Decimal(p) for p in row] for row in matrix[np.ix_(inside, inside)].tolist()], dtype=object)
        for k in range(len(flow) - 1, 0, -1):
            to, out = np.flatnonzero(flow[:k, k]), np.flatnonzero(flow[k, :k])
            flow[to, k] /= flow[k, out].sum()
            flow[np.ix_(to, out)] += np.multiply.outer(flow[to, k], flow[k, out])
        exact = np.full(len(flow), Decimal(1))
        for k in range(1, len(flow)):
            exact[k] = exact[:k] @ flow[:k, k]
        law = (exact / exact.sum()).astype(np.float64)
    if (law <= VANISHING).any() or ((matrix > 0) & (matrix < VANISHING)).any():
        raise vanishing()
    return np.asarray(law)


def vanishing() -> InvalidMatrixError:
    """The refusal of a chain whose probabilities floats cannot tell from 0."""
    return InvalidMatrixError(
        "E0805",
        "a state is so improbable that its probability vanishes in floating point",
        because="it would be taken for a state that nobody can be in",
        help="write 0 for what cannot happen, and probabilities of at least 1e-100 for what can",
    )
