"""Linear recursions over many steps, fast where the same matrix comes again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Index = NDArray[np.intp]

LONG = 64  # steps with one matrix that are worth more than a loop
FORGOTTEN = 1e-13  # powers of a matrix below this are left out
FEW = 0.05  # stretches of steps with one matrix, a step, that are taken one by one
PIECE = 2048  # steps
STACKED = 2e7  # numbers that may be gathered at once


def apply_each(index: Index, matrices: Sequence[Array], rows: Array) -> Array:
    """matrices[index[t]] @ rows[t] for every t, (T, m)."""
    stretches = _stretches(index)
    if len(stretches) > FEW * len(rows) and len(rows) * rows.shape[1] ** 2 <= STACKED:
        return np.asarray(np.matmul(np.stack(matrices)[index], rows[:, :, None])[:, :, 0])
    result = np.empty_like(rows)
    for start, end in stretches:
        result[start:end] = rows[start:end] @ matrices[index[start]].T
    return result


def recur(index: Index, matrices: Sequence[Array], inputs: Array) -> Array:
    """x_0 = 0, x_{t+1} = matrices[index[t]] @ x_t + inputs[t]: (T, m) of x_0 to x_{T-1}."""
    result = np.zeros_like(inputs)
    last = len(inputs) - 1
    for start, end in _stretches(index[:last]):
        matrix = matrices[index[start]]
        if end - start < LONG:
            for t in range(start, end):
                result[t + 1] = matrix @ result[t] + inputs[t]
        else:
            result[start + 1 : end + 1] = _scan(matrix, result[start], inputs[start:end])
    return result


def recur_back(index: Index, matrices: Sequence[Array], inputs: Array) -> Array:
    """x_{T-1} = 0, x_{t-1} = matrices[index[t]] @ x_t + inputs[t]: (T, m)."""
    return recur(index[::-1], matrices, inputs[::-1])[::-1]


def _scan(matrix: Array, start: Array, inputs: Array) -> Array:
    """The recursion with one matrix: sums over twice as many steps in every round."""
    result = inputs.copy()
    result[0] += matrix @ start
    reach, power = 1, matrix.T
    while reach < len(result) and np.abs(power).max() > FORGOTTEN:
        result[reach:] += result[:-reach] @ power
        reach, power = 2 * reach, power @ power
    return result


def _stretches(index: Index) -> list[tuple[int, int]]:
    """Where the index stays the same, as (start, end), in pieces that fit a processor's cache."""
    if not len(index):
        return []
    turns = np.union1d(np.flatnonzero(np.diff(index)) + 1, np.arange(PIECE, len(index), PIECE))
    return list(zip([0, *turns.tolist()], [*turns.tolist(), len(index)], strict=True))
