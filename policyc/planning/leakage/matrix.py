"""Tables of numbers that are the laws of a next state."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_check.errors import InvalidMatrixError

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
