"""What an estimator believes of a user's cell at a step, by where the first release said that everybody is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from policyc_check.steps.chains import Chain
from policyc_runtime.estimation import Estimator
from policyc_runtime.estimation.count_process import Mixture

Array = NDArray[np.float64]

MIXED = 1e-9  # laws of two steps in a row that differ by less are taken to have stopped moving
MANY = 1e9  # users in a corner: of so many, the half that every cell has at least is nothing


@dataclass
class Beliefs:
    """Laws of the cells at steps, for every estimator; remembers what it has computed.

    `moving` is the law of all users where it is known.
    """

    moving: Chain | None
    cells: int
    _known: dict[tuple[str, int], Array] = field(default_factory=dict)
    _mixed: dict[str, int] = field(default_factory=dict)
    _powers: dict[int, Array] = field(default_factory=dict)

    def laws(self, estimator: Estimator, step: int) -> Array:
        """At a step, after each first release that is all in one cell, (cells, cells).

        One row, (1, cells), where the first release tells the estimator nothing; none, (0,), where it believes nothing.
        """
        name = estimator.described()
        mixed = self._mixed.get(name)
        key = (name, step if mixed is None else min(step, mixed))
        if key not in self._known:
            rows = self._known[key] = self._moved(estimator, step)
            before = self._known.get((name, step - 1))
            if before is not None and rows.shape == before.shape and np.abs(rows - before).max(initial=0.0) < MIXED:
                self._mixed[name] = step  # later steps have the same law
        return self._known[key]

    def _moved(self, estimator: Estimator, step: int) -> Array:
        """The same, computed: a run goes step by step, which takes long for all cells at once."""
        corners = MANY * np.eye(self.cells)
        first = estimator.law(self.moving, range(1), self.cells, corners)
        if first is None:
            return np.empty(0)
        if first.ndim == 3 and self.moving is not None and not isinstance(self.moving, Mixture):
            rows = first[0] @ self._power(self.moving.forward, step)
            return np.asarray(rows / rows.sum(axis=1, keepdims=True))
        law = estimator.law(self.moving, range(step, step + 1), self.cells, corners)
        assert law is not None, "it has one at step 0"
        return np.atleast_2d(law[0])

    def _power(self, forward: Array, steps: int) -> Array:
        """The law of the state so many steps ahead, (cells, cells), from the last one that is known before."""
        if steps not in self._powers:
            near = max((known for known in self._powers if known < steps), default=0)
            way = np.linalg.matrix_power(forward, steps - near)
            self._powers[steps] = self._powers[near] @ way if near else way
        return self._powers[steps]
