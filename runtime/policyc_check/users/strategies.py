"""How far one user can move A x, for any matrix A of whole numbers, under a participation bound and a spacing.

A user changes the series by d, with |d_t| <= 1 at the steps taken part in and 0 elsewhere; |A d|^2 = d' G d with
G = A' A. So it is at most the sum, over the user's steps, of row bounds: the largest sum of |G| in that row over steps
in which one user may take part. All is in whole numbers, and nothing is asked of the signs.
"""

from __future__ import annotations

import numpy as np

from policyc_check.runs import Whole
from policyc_check.users.participation import Participation


def general_l2_square(matrix: Whole, participation: Participation) -> int:
    """At most |A d|^2 of one user, for any A, (rows, steps): never too small, exact where G is diagonal."""
    return largest_sum(row_bounds(np.abs(matrix.T @ matrix), participation), participation)


def row_bounds(rows: Whole, participation: Participation) -> Whole:
    """For every row of numbers >= 0, (rows, steps), at least the largest sum over steps of one user, (rows,)."""
    return np.asarray(_largest(rows, participation).sum(axis=1))


def largest_sum(columns: Whole, participation: Participation) -> int:
    """At most the largest sum of whole numbers >= 0, one a step, over steps in which one user may take part.

    Exact where spacing is 1. `columns` are (horizon,); of an endless stream, all numbers that there are.
    """
    if participation.horizon is None:
        return participation.steps * int(columns.max())
    return sum(_largest(columns[None], participation)[0].tolist())


def _largest(rows: Whole, participation: Participation) -> Whole:
    """The largest numbers of every row: of every `spacing` steps in a row a user takes part in one at most."""
    spacing = participation.spacing
    blocks = -(-rows.shape[1] // spacing)
    padded = np.zeros((len(rows), blocks * spacing), dtype=np.int64)
    padded[:, : rows.shape[1]] = rows
    most = np.sort(padded.reshape(len(rows), blocks, spacing).max(axis=2), axis=1)
    return np.asarray(most[:, -participation.steps :])
