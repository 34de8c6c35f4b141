"""What the pattern of a chain says: where it ends up, whether its states meet, and how it runs backwards.

Small and in plain Python, so that `policyc check` starts fast; leakage itself is the kernel's.
A set of states is an integer with one bit a state.
"""

from __future__ import annotations

from policyc.semantics.policy import Matrix

FURTHEST_POWER = 64
_LARGE = 60  # states from which the kernel's arrays are worth loading


def supports(matrix: Matrix) -> list[int]:
    """For each row, the set of states with a probability that is positive as a float, as the kernel sees it.

    >>> from decimal import Decimal as D
    >>> supports(((D("0.5"), D("0.5")), (D(0), D(1))))
    [3, 2]
    """
    return [int("".join("1" if float(p) > 0 else "0" for p in reversed(row)), 2) for row in matrix]


def transposed(rows: list[int], within: int) -> list[int]:
    """The supports of the chain run backwards, for the states of `within`; other states have none."""
    return [
        sum(1 << j for j, row in enumerate(rows) if within >> j & 1 and row >> i & 1) if within >> i & 1 else 0
        for i in range(len(rows))
    ]


def states_of(states: int) -> list[int]:
    """The indices of a set of states."""
    return [i for i in range(states.bit_length()) if states >> i & 1]


def _after(rows: list[int], steps: list[int]) -> list[int]:
    """Supports of the product: first `rows`, then `steps`."""
    everywhere = (1 << len(steps)) - 1
    product = []
    for row in rows:
        reached = 0
        while row and reached != everywhere:
            lowest = row & -row
            reached |= steps[lowest.bit_length() - 1]
            row ^= lowest  # noqa: PLW2901  # the row is used up
        product.append(reached)
    return product


def reached_from(rows: list[int], start: int) -> int:
    """The states in which a chain can ever be from a set of first ones, these among them."""
    while (
        more := start | sum(1 << i for i in range(len(rows)) if any(rows[s] >> i & 1 for s in states_of(start)))
    ) != start:
        start = more
    return start


def closed_classes(rows: list[int]) -> list[int]:
    """The sets of states that are never left once entered; a chain has one stationary law iff there is exactly one.

    Args:
        rows: supports of a row-stochastic matrix.
    """
    reach = [row | 1 << i for i, row in enumerate(rows)]
    for middle in range(len(rows)):
        for state, reached in enumerate(reach):
            if reached >> middle & 1:
                reach[state] = reached | reach[middle]
    found = []
    for state, reached in enumerate(reach):
        if all(reach[other] >> state & 1 for other in states_of(reached)) and reached not in found:
            found.append(reached)
    return found


def states_that_never_meet(rows: list[int], power: int = FURTHEST_POWER) -> tuple[int, int] | None:
    """Two rows without a shared state in the given power of a matrix, or None.

    Rows that share a state in one power share one in every higher power, so the highest decides. Empty rows are
    states that cannot occur and are passed over.

    Args:
        rows: supports of the matrix.
        power: a power of two.
    """
    for _ in range(power.bit_length() - 1):
        rows = _after(rows, rows)
    for i, row in enumerate(rows):
        for j in range(i + 1, len(rows)):
            if row and rows[j] and not row & rows[j]:
                return i, j
    return None


def stationary_law(matrix: Matrix) -> list[float] | None:
    """The stationary law of a chain with one closed class, zero outside it; None when it is not unique.

    Elimination without subtraction (Grassmann, Taksar, Heyman 1985): every digit is right, however sparse the chain.
    """
    classes = closed_classes(supports(matrix))
    if len(classes) != 1:
        return None
    states = states_of(classes[0])
    a = [[float(matrix[i][j]) for j in states] for i in states]
    if len(states) > _LARGE:
        import numpy as np

        from policyc_check.steps.stationary import stationary_law as by_the_kernel

        weights: list[float] | None = by_the_kernel(np.array(a)).tolist()
    else:
        weights = _eliminated(a)
    if weights is None:
        return None
    whole = sum(weights)
    law = [0.0] * len(matrix)
    for state, weight in zip(states, weights, strict=True):
        law[state] = weight / whole
    return law


def _eliminated(a: list[list[float]]) -> list[float] | None:
    """Weights in proportion to the stationary law, or None when they are too small for floats; `a` is used up."""
    for n in range(len(a) - 1, 0, -1):
        total = sum(a[n][:n])
        if total <= 0:
            return None
        for i in range(n):
            a[i][n] /= total
            factor = a[i][n]
            if factor:
                for j in range(n):
                    a[i][j] += factor * a[n][j]
    weights = [1.0]
    for n in range(1, len(a)):
        weights.append(sum(weights[i] * a[i][n] for i in range(n)))
    return weights


def largest_reversal_error(forward: Matrix, backward: Matrix) -> tuple[float, int, int] | None:
    """How far a backward matrix is from the Bayes reversal of a stationary chain.

    Returns:
        The largest difference of two entries with its row and column (0-based), or None without a stationary law. Rows
        of states that the stationary chain never visits are not compared: they have no reversal.
    """
    law = stationary_law(forward)
    if law is None:
        return None
    ahead = [[float(p) for p in row] for row in forward]
    worst = (0.0, 0, 0)
    for i, here in enumerate(law):
        if here <= 0:
            continue
        differences = [abs(law[j] * ahead[j][i] / here - entry) for j, entry in enumerate(map(float, backward[i]))]
        largest = max(differences)
        if largest > worst[0]:
            worst = (largest, i, differences.index(largest))
    return worst
