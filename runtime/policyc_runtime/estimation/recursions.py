"""Linear recursions over many steps.

Every step is computed on its own, in the same order of operations however many steps come before or after it: a stream
taken in pieces has the same values, to the last bit, as one taken whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Index = NDArray[np.intp]
    Matrices = Sequence[Array] | Mapping[int, Array]

PIECE = 4096  # steps that are worked on together


def pieces(steps: int) -> Iterator[slice]:
    """Stretches of `PIECE` steps, the last one shorter."""
    return (slice(start, min(start + PIECE, steps)) for start in range(0, steps, PIECE))


def piece_at(step: int) -> int:
    """The first step of the piece that a step is in."""
    return step // PIECE * PIECE


def apply_each(index: Index, matrices: Matrices, rows: Array) -> Array:
    """matrices[index[t]] @ rows[t] for every t, (T, m); where most steps release nothing, most rows are 0."""
    busy = rows.any(axis=1)
    if not busy.all():
        result = np.zeros((len(rows), len(matrices[index[0]])))
        if busy.any():
            result[busy] = apply_each(index[busy], matrices, rows[busy])
        return result
    kinds, counts = np.unique(index, return_counts=True)
    if len(kinds) == 1:
        return _applied(matrices[kinds[0]], rows)
    result = np.empty((len(rows), len(matrices[kinds[0]])))
    groups = np.split(np.argsort(index, kind="stable"), np.cumsum(counts)[:-1])
    for kind, chosen in zip(kinds.tolist(), groups, strict=True):
        result[chosen] = _applied(matrices[kind], rows[chosen])
    return result


def _applied(matrix: Array, rows: Array) -> Array:
    """The product with every row, one by one: a product of all would sum in an order that depends on their number."""
    return np.asarray(np.matmul(matrix, rows[:, :, None])[:, :, 0])


def recur(index: Index, matrices: Matrices, inputs: Array, start: Array) -> tuple[Array, Array]:
    """x_0 = start, x_{t+1} = matrices[index[t]] @ x_t + inputs[t]: (T, m) of x_0 to x_{T-1}, and x_T."""
    states = np.empty((len(inputs) + 1, inputs.shape[1]))
    states[0] = start
    for piece in pieces(len(inputs)):  # a row by itself takes more room than its numbers
        now, later = states[piece.start], states[piece.start + 1 : piece.stop + 1]
        for number, after, added in zip(index[piece].tolist(), later, inputs[piece], strict=True):
            now = np.dot(matrices[number], now, out=after)
            now += added
    return states[:-1], states[-1]


def recur_back(index: Index, matrices: Matrices, inputs: Array, end: Array) -> tuple[Array, Array]:
    """x_{T-1} = end, x_{t-1} = matrices[index[t]] @ x_t + inputs[t]: (T, m), and x_{-1}."""
    states, before = recur(index[::-1], matrices, inputs[::-1], end)
    return states[::-1], before
