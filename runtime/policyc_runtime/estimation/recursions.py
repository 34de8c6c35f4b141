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
STRETCH = 32  # of them those that follow from one another
FEW_STATES = 16  # up to so many, powers of a matrix cost less than the steps one after the other


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
    fill_in = _recur_together if inputs.shape[1] <= FEW_STATES else _recur_each
    for piece in pieces(len(inputs)):  # a row by itself takes more room than its numbers
        fill_in(index[piece], matrices, inputs[piece], states[piece.start : piece.stop + 1])
    return states[:-1], states[-1]


def _recur_each(index: Index, matrices: Matrices, inputs: Array, states: Array) -> None:
    """Fill in the states after the first, one after the other."""
    now = states[0]
    for number, after, added in zip(index.tolist(), states[1:], inputs, strict=True):
        now = np.dot(matrices[number], now, out=after)
        now += added


def _recur_together(index: Index, matrices: Matrices, inputs: Array, states: Array) -> None:
    """The same, stretches of steps beside each other.

    What a stretch makes of its inputs alone needs no state before it, nor does the product of its matrices, which
    carries that state on; stretches with the same matrices have one.
    """
    steps, size = inputs.shape
    count, within = -(-steps // STRETCH), min(steps, STRETCH)
    kinds, which = np.unique(index, return_inverse=True)
    matrix = np.array([matrices[number] for number in kinds.tolist()])
    numbers, added = np.zeros((count, STRETCH), dtype=np.intp), np.zeros((count, STRETCH, size))
    numbers.ravel()[:steps], added.reshape(-1, size)[:steps] = which, inputs
    alike: dict[bytes, int] = {}
    row_of = np.array([alike.setdefault(row.tobytes(), len(alike)) for row in numbers])
    of_row = np.unique(row_of, return_index=True)[1]
    products, own = np.empty((within + 1, len(alike), size, size)), np.zeros((within + 1, count, size))
    products[0] = np.eye(size)
    for t in range(within):
        np.matmul(matrix[numbers[of_row, t]], products[t], out=products[t + 1])
        np.matmul(matrix[numbers[:, t]], own[t][:, :, None], out=own[t + 1][:, :, None])
        own[t + 1] += added[:, t]
    begins = np.arange(0, steps, STRETCH)
    for row, begin in enumerate(begins.tolist()):
        t = min(STRETCH, steps - begin)
        states[begin + t] = np.matmul(products[t, row_of[row]], states[begin, :, None])[:, 0] + own[t, row]
    for number in range(len(alike)):
        rows = np.flatnonzero(row_of == number)
        carried = np.matmul(products[1:within, number], states[begins[rows], None, :, None])[..., 0]
        carried += own[1:within, rows].transpose(1, 0, 2)
        places = begins[rows, None] + np.arange(1, within)
        states[places[places < steps]] = carried[places < steps]


def recur_back(index: Index, matrices: Matrices, inputs: Array, end: Array) -> tuple[Array, Array]:
    """x_{T-1} = end, x_{t-1} = matrices[index[t]] @ x_t + inputs[t]: (T, m), and x_{-1}."""
    states, before = recur(index[::-1], matrices, inputs[::-1], end)
    return states[::-1], before
