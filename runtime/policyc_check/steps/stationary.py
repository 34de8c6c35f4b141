"""Laws that a chain leaves as they are: the law backward is made of them.

Elimination without subtraction (Grassmann, Taksar, Heyman). Taking a state out of a chain leaves the ratios of the
other states' probabilities as they are; and by the Markov chain tree theorem, a relative error of e in every transition
of n states changes those ratios by at most 2 (n - 1) e. So n^3 roundings at worst: too many for floats, but here each
number is a float and the rest that it leaves, rounded by less than 2^-96 (Dekker); only the last ones are felt.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from policyc_check.errors import InvalidMatrixError
from policyc_check.rounding import Floats

Double = tuple[Floats, Floats]  # a number as the sum of a float and a much smaller one

VANISHING = 1e-280
"""Below it products of probabilities lose digits, and soon all."""

_SPLIT = 2.0**27 + 1


def closed_classes(matrix: Floats) -> list[NDArray[np.intp]]:
    """The sets of states that are never left, each of which has one law of its own."""
    reach = (matrix > 0) | np.eye(len(matrix), dtype=np.bool_)
    for _ in range(len(matrix).bit_length()):  # ways of 1, 2, 4, ... steps
        reach = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0
    both = reach & reach.T  # each can be reached from the other
    first = both.argmax(axis=1)
    return [np.flatnonzero(first == c) for c in np.unique(first).tolist() if not (reach[c] & ~both[c]).any()]


def stationary_law(matrix: Floats) -> Floats:
    """The law with law @ matrix = law, (n,), to full relative precision; InvalidMatrixError E0805 of several."""
    classes = closed_classes(matrix)
    if len(classes) > 1:
        a, b = (int(inside[0]) + 1 for inside in classes[:2])
        said = f"the chain has more than one stationary law: state {a} and state {b} can never be left for each other"
        advice = "give the law of the first step, or leave out states that are never visited"
        raise InvalidMatrixError("E0805", said, help=advice)
    result = np.zeros(len(matrix))
    result[classes[0]] = law_of_class(matrix, classes[0])
    return result


def law_of_class(matrix: Floats, inside: NDArray[np.intp]) -> Floats:
    """The stationary law on one closed set of states, in their order; two roundings from the matrix's own.

    InvalidMatrixError E0805 of a probability so small that floats lose it.
    """
    high = matrix[np.ix_(inside, inside)]
    if ((high > 0) & (high < VANISHING)).any():
        raise vanishing()
    low, law, rest = np.zeros_like(high), np.ones(len(high)), np.zeros(len(high))
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is found in the law
        for k in range(len(high) - 1, 0, -1):
            row = high[k, :k], low[k, :k]
            inverse = 1 / sum(map(Fraction, _total(row)))
            nearest, short = float(inverse), inverse - Fraction(float(inverse))
            column = _times((high[:k, k], low[:k, k]), (np.array(nearest), np.array(float(short))))
            by_way_of_k = _times((column[0][:, None], column[1][:, None]), row)
            high[:k, :k], low[:k, :k] = _plus((high[:k, :k], low[:k, :k]), by_way_of_k)
            high[:k, k], low[:k, k] = column
            small = high[:k, :k] < VANISHING
            if small.any() and small[np.ix_(column[0] > 0, row[0] > 0)].any():
                raise vanishing()
        for k in range(1, len(high)):
            law[k], rest[k] = _total(_times((law[:k], rest[:k]), (high[:k, k], low[:k, k])))
        result = law / law.sum()
    if not (result > VANISHING).all():
        raise vanishing()
    return np.asarray(result)


def vanishing() -> InvalidMatrixError:
    """The refusal of a chain whose probabilities floats cannot tell from 0."""
    said = "a state is so improbable that its probability vanishes in floating point"
    because = "it would be taken for a state that nobody can be in"
    advice = "write 0 for what cannot happen, and probabilities of at least 1e-100 for what can"
    return InvalidMatrixError("E0805", said, because=because, help=advice)


def _total(a: Double) -> tuple[float, float]:
    parts = [*a[0].tolist(), *a[1].tolist()]
    high = math.fsum(parts)
    return high, math.fsum([*parts, -high])


def _joined(high: Floats, low: Floats) -> Double:
    total = high + low
    return total, low - (total - high)


def _plus(a: Double, b: Double) -> Double:
    total = a[0] + b[0]
    of_b = total - a[0]
    return _joined(total, (a[0] - (total - of_b)) + (b[0] - of_b) + (a[1] + b[1]))


def _times(a: Double, b: Double) -> Double:
    (p, q), (r, s) = ((half, x - half) for x in (a[0], b[0]) for half in (_SPLIT * x - (_SPLIT * x - x),))
    total = a[0] * b[0]
    return _joined(total, ((p * r - total) + p * s + q * r) + q * s + (a[0] * b[1] + a[1] * b[0]))
