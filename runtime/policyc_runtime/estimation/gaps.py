"""Steps without values in a row: what is known before, during and after them, without going from one to the next.

Covariances move on by C -> P^T C P + spread, and what later steps say by B -> P B P^T less what fades: of many steps
both are one product with powers, which all gaps share.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.count_process import MANY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.estimation.count_process import CountProcess

    Array = NDArray[np.float64]

NUMBERS = 2_000_000  # of matrices that are held at a time
EXACT = 1e-9  # of a variance, so much is left at least when later values are known: less is not told apart


def powers(process: CountProcess, steps: int) -> Gaps | None:
    """What is kept for gaps of up to so many steps; None where the law moves, or powers take too much memory."""
    if process.chain is None or process.settled or process.states >= MANY or steps * process.states**2 > NUMBERS:
        return None
    return _kept(process)


@lru_cache(maxsize=2)
def _kept(process: CountProcess) -> Gaps:
    return Gaps(process)


class Gaps:
    """Powers of a process whose law does not move, by numbers of steps.

    Args:
        process: of few states.
    """

    def __init__(self, process: CountProcess) -> None:
        self._process = process
        n = process.states
        self._moves, self._spreads, self._back = (np.empty((1, n, n)) for _ in range(3))
        self._moves[0], self._spreads[0], self._back[0] = np.eye(n), np.zeros((n, n)), np.eye(n)

    def covariance(self, covariance: Array, steps: int) -> Array:
        """What is predicted so many steps after a covariance is, (states, states)."""
        self._know(steps)
        moves = self._moves[steps]
        found = moves.T @ covariance @ moves + self._spreads[steps]
        return np.asarray(0.5 * (found + found.T))

    def told_back(self, information: Array, steps: int) -> Array:
        """What later steps say, (states, states), said of the states so many steps earlier."""
        self._know(steps)
        back = self._back[steps]
        found = back @ information @ back.T
        return np.asarray(0.5 * (found + found.T))

    def variances(self, covariances: Array, information: Array, steps: int) -> Array:
        """Expected squared errors at the steps of some gaps of one length, (gaps, steps, cells).

        Args:
            covariances: that are predicted of each gap's first step, (gaps, states, states).
            information: of later steps about each gap's last one, (gaps, states, states).
            steps: of each.
        """
        self._know(steps)
        together = max(1, NUMBERS // (steps * self._moves[0].size))
        pieces = (slice(at, at + together) for at in range(0, len(covariances), together))
        return np.concatenate([self._variances(covariances[few], information[few], steps) for few in pieces])

    def _variances(self, covariances: Array, information: Array, steps: int) -> Array:
        moves, back = self._moves[:steps], self._back[:steps][::-1]
        known = moves.transpose(0, 2, 1) @ covariances[:, None] @ moves + self._spreads[:steps]
        told = self._process.seen(known)
        later = back @ information[:, None] @ back.transpose(0, 2, 1)
        variances = np.einsum("...ii->...i", self._process.seen(told.swapaxes(-1, -2)))
        return np.asarray(np.maximum(variances - ((later @ told) * told).sum(axis=-2), EXACT * variances))

    def _know(self, steps: int) -> None:
        """Powers up to so many steps: each is one of 2, 4, 8 ... times a lower one, whatever was asked for before."""
        while (known := len(self._moves)) <= steps:
            whole = 1 << (known.bit_length() - 1)
            first = self._moves[whole - 1] @ self._one[0]
            spread = self._moved(self._spreads[whole - 1]) + self._process.spread(0)
            back = self._back[whole - 1] @ self._one[1]
            lower = slice(known - whole, min(whole, steps + 1 - whole))
            few = self._moves[lower]
            spreads = few.transpose(0, 2, 1) @ (0.5 * (spread + spread.T)) @ few + self._spreads[lower]
            self._spreads = np.concatenate([self._spreads, 0.5 * (spreads + spreads.transpose(0, 2, 1))])
            self._moves = np.concatenate([self._moves, first @ few])
            self._back = np.concatenate([self._back, back @ self._back[lower]])

    @cached_property
    def _one(self) -> tuple[Array, Array]:
        """Of one step, P and what is left of it where what is said of all states alike fades."""
        move = self._process.move
        back = np.array(move)
        for own in self._process.blocks:
            back[own] -= move[own].mean(axis=0)
        return move, back

    def _moved(self, covariance: Array) -> Array:
        return np.asarray(self._process.move.T @ covariance @ self._process.move)
