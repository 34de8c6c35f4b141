"""The first two moments of the counts of independent users who move on one chain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.steps.chains import Chain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def marginals(chain: Chain, steps: int) -> Array:
    """Laws of the state at the steps 0..steps - 1, shape (steps, n)."""
    last = chain.marginal(max(steps - 1, 0))  # once a chain has settled, its law is this very one
    laws = list(takewhile(lambda law: law is not last, map(chain.marginal, range(steps))))
    result = np.empty((steps, chain.states))
    result[: len(laws)] = np.reshape(laws, (-1, chain.states))
    result[len(laws) :] = last
    return result


@dataclass(frozen=True)
class CountProcess:
    """Counts n_t of `population` users over `cells` states who move on one chain.

    Without a chain, steps have nothing to do with each other, and all counts are equally likely.
    Users being independent, n_{t+1} given n_t has mean P^T n_t and covariance sum_i n_t(i) (diag P_i - P_i P_i^T),
    whose expectation is exact at n p_t(i).
    """

    population: float
    cells: int
    chain: Chain | None
    dispersion: float = 1.0  # how many times more than those of independent users counts vary

    @cached_property
    def move(self) -> Array:
        """P, (cells, cells); 0 where steps have nothing to do with each other."""
        return np.zeros((self.cells, self.cells)) if self.chain is None else self.chain.forward

    @property
    def settled(self) -> float:
        """The step from which expectations stay the same."""
        return 0 if self.chain is None else self.chain.settled

    def expected(self, steps: int, first: int = 0) -> Array:
        """(steps, cells) expected counts of the steps from `first` on."""
        if self.chain is None:
            return np.full((steps, self.cells), self.population / self.cells)
        if first >= self.settled:
            return self.population * np.tile(self.chain.marginal(first), (steps, 1))
        return self.population * marginals(self.chain, first + steps)[first:]

    def start(self) -> Array:
        """The covariance of step 0, (cells, cells)."""
        if self.chain is None:  # of counts that are evenly spread over all that have this total
            n, m = self.population, self.cells
            return n * (n + m) / (m * m * (m + 1.0)) * (m * np.eye(m) - 1.0)
        law = self.chain.marginal(0)
        return np.asarray(self.dispersion * self.population * (np.diag(law) - np.outer(law, law)))

    def spread(self, step: int) -> Array:
        """The expected covariance of the counts of `step` + 1 given those of `step`."""
        if self.chain is None:
            return self.start()
        law, move = self.chain.marginal(step), self.move
        return np.asarray(self.dispersion * self.population * (np.diag(law @ move) - move.T @ (law[:, None] * move)))

    def drawn(self, steps: int, series: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """(steps, series, cells) counts of simulated users, exactly in law: counts move by multinomial draws."""
        assert self.chain is not None
        now = generator.multinomial(int(self.population), _law(self.chain.marginal(0)), size=series)
        counts, moves = [now], _law(self.move)
        for _ in range(1, steps):
            now = generator.multinomial(now, moves).sum(axis=1)
            counts.append(now)
        return np.array(counts)

    def dispersed(self, factor: float) -> CountProcess:
        """The same chain for users who move together: counts vary so many times more about the same expectation."""
        return CountProcess(self.population, self.cells, self.chain, factor)

    def smoothed(self, amount: float) -> CountProcess:
        """The same users on the chain (P + s) / (1 + m s); for s = inf none."""
        if self.chain is None or amount == 0:
            return self
        if amount == math.inf:
            return CountProcess(self.population, self.cells, None)
        forward = (self.chain.forward + amount) / (1.0 + self.cells * amount)
        initial = None if self.chain.is_stationary_start else self.chain.marginal(0)
        return CountProcess(self.population, self.cells, Chain(forward=forward, initial=initial))


def _law(rows: Array) -> Array:
    """Probabilities that numpy accepts: rows sum to 1 within 1e-9 in a plan, and here as nearly as floats can."""
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
