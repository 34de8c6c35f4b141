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
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    Array = NDArray[np.float64]

MANY = 100  # states from which on products with few moves leave out those that nobody makes
FEW_MOVES = 0.05  # of all moves


def marginals(chain: Chain, steps: int) -> Array:
    """Laws of the state at the steps 0..steps - 1, shape (steps, n)."""
    last = chain.marginal(max(steps - 1, 0))  # once a chain has settled, its law is this very one
    laws = list(takewhile(lambda law: law is not last, map(chain.marginal, range(steps))))
    result = np.empty((steps, chain.states))
    result[: len(laws)] = np.reshape(laws, (-1, chain.states))
    result[len(laws) :] = last
    return result


class Mixture(Chain):
    """Users of whom less is counted than how they move: by group, of known sizes, or within what cells belong to.

    It is one chain whose states are the cells of each group, one group after the other.

    Args:
        chains: one a group, over the same cells.
        shares: what part of all users each group has, (groups,), > 0; they sum to 1.
        of: which value each cell is counted in, (cells,), from 0 on; None where it has one of its own.
    """

    def __init__(self, chains: Sequence[Chain], shares: Sequence[float], of: Sequence[int] | None = None) -> None:
        self.chains, self.shares = tuple(chains), tuple(shares)
        self.of = np.arange(chains[0].states) if of is None else np.array(of, dtype=np.int64)
        self.cells, self.values = len(self.of), int(self.of.max()) + 1
        self.belongs = None if of is None else np.eye(self.values)[self.of]  # (cells, values): 1 where it is counted
        self.states = sum(chain.states for chain in chains)
        self.is_stationary_start = all(chain.is_stationary_start for chain in chains)
        self._forward = np.zeros((self.states, self.states))
        for chain, own in zip(self.chains, self.blocks, strict=True):
            self._forward[own, own] = chain.forward
        self._known: dict[float, Array] = {}

    @property
    def level(self) -> bool:
        """Whether cells are counted in what they belong to."""
        return self.belongs is not None

    @property
    def blocks(self) -> list[slice]:
        """The states of each group."""
        return [slice(first, first + self.cells) for first in range(0, self.states, self.cells)]

    def seen(self, rows: Array) -> Array:
        """Sums over groups and over what belongs together, (..., values) of (..., states)."""
        cells: Array = rows if len(self.chains) == 1 else np.asarray(sum(rows[..., own] for own in self.blocks))
        return cells if self.belongs is None else np.asarray(cells @ self.belongs)

    def unseen(self, rows: Array) -> Array:
        """What is said of a value, said of it in every group and cell: (..., states) of (..., values)."""
        cells = rows if self.belongs is None else rows[..., self.of]
        return cells if len(self.chains) == 1 else np.concatenate([cells] * len(self.chains), axis=-1)

    def divided(self, law: Array) -> Array:
        """Laws over values as ones over the cells of a group: cells of one value are alike, (..., cells)."""
        return np.asarray((law / np.bincount(self.of))[..., self.of])

    @property
    def forward(self) -> Array:
        """Law of the next state given the state now, (states, states): nobody changes groups."""
        return self._forward

    @property
    def settled(self) -> float:
        """The step from which the laws of all groups stay the same."""
        return max(chain.settled for chain in self.chains)

    def marginal(self, step: int) -> Array:
        """Law of group and cell of one of all users at a step, (states,)."""
        at = min(step, self.settled)
        if at not in self._known:
            laws = [share * chain.marginal(step) for share, chain in zip(self.shares, self.chains, strict=True)]
            self._known[at] = np.concatenate(laws)
        return self._known[at]

    def smoothed(self, amount: float) -> Mixture:
        """Each group on its chain (P + s) / (1 + m s)."""
        of = None if self.belongs is None else self.of.tolist()
        return Mixture([_Smoothed(chain, amount) for chain in self.chains], self.shares, of)


class _Smoothed(Chain):
    """Users on the chain (P + s) / (1 + m s), whose stationary law is known as well as estimates need it."""

    def __init__(self, chain: Chain, amount: float) -> None:
        whole = 1.0 + chain.states * amount
        forward = (chain.forward + amount) / whole
        super().__init__(forward=forward, initial=None if chain.is_stationary_start else chain.marginal(0))
        if chain.is_stationary_start:  # law (P + s) = law (1 + m s), where law s = s
            law = np.linalg.solve(whole * np.eye(chain.states) - chain.forward.T, np.full(chain.states, amount))
            self._laws = [law / law.sum()]


@dataclass(frozen=True)
class CountProcess:
    """Counts n_t of `population` users over `cells` cells who move on one chain, or in groups on one each.

    The states of the process are its cells, or those of a mixture, of which only sums are seen.

    Without a chain, steps have nothing to do with each other, and all counts are equally likely.
    Users being independent, n_{t+1} given n_t has mean P^T n_t and covariance sum_i n_t(i) (diag P_i - P_i P_i^T),
    whose expectation is exact at n p_t(i).
    """

    population: float
    cells: int
    chain: Chain | None
    dispersion: float = 1.0  # how many times more than those of independent users counts vary

    @classmethod
    def of(cls, population: float, chain: Chain) -> CountProcess:
        """That of so many users of a chain, or of groups of them."""
        return cls(population, chain.values if isinstance(chain, Mixture) else chain.states, chain)

    @property
    def blocks(self) -> list[slice]:
        """The states of each group, whose counts add up to a known number."""
        return self.chain.blocks if isinstance(self.chain, Mixture) else [slice(0, self.cells)]

    @property
    def states(self) -> int:
        """How many counts there are, seen or not."""
        return self.cells if self.chain is None else self.chain.states

    def seen(self, rows: Array) -> Array:
        """Sums that are seen, (..., cells) of (..., states)."""
        return self.chain.seen(rows) if isinstance(self.chain, Mixture) else rows

    def unseen(self, rows: Array) -> Array:
        """What is said of a sum, said of all states in it: (..., states) of (..., cells)."""
        return self.chain.unseen(rows) if isinstance(self.chain, Mixture) else rows

    @cached_property
    def move(self) -> Array:
        """P, (states, states); 0 where steps have nothing to do with each other."""
        return np.zeros((self.cells, self.cells)) if self.chain is None else self.chain.forward

    @cached_property
    def _few_moves(self) -> tuple[csr_array, Array] | None:
        """P^T less what all moves from a state have in common, and that, (states,), where few others are left.

        A smoothed chain has as few of them as the chain.
        """
        if self.states < MANY:
            return None
        common = self.move.min(axis=1)
        rest = self.move.T - common
        if np.count_nonzero(rest) > FEW_MOVES * rest.size:
            return None
        from scipy.sparse import csr_array  # start-up: few chains need it

        return csr_array(rest), common

    def moved(self, rows: Array) -> Array:
        """P^T rows, (states, k)."""
        if self._few_moves is None:
            return np.asarray(self.move.T @ rows)
        rest, common = self._few_moves
        return np.asarray(rest @ rows + common @ rows)

    def moved_back(self, rows: Array) -> Array:
        """P rows, (states, k): what is said of the next states, said of those now."""
        if self._few_moves is None:
            return np.asarray(self.move @ rows)
        rest, common = self._few_moves
        return np.asarray(rest.T @ rows + common[:, None] * rows.sum(axis=0))

    @property
    def settled(self) -> float:
        """The step from which expectations stay the same."""
        return 0 if self.chain is None else self.chain.settled

    def expected(self, steps: int, first: int = 0) -> Array:
        """(steps, states) expected counts of the steps from `first` on."""
        if self.chain is None:
            return np.full((steps, self.cells), self.population / self.cells)
        if first >= self.settled:
            return self.population * np.tile(self.chain.marginal(first), (steps, 1))
        return self.population * marginals(self.chain, first + steps)[first:]

    def start(self) -> Array:
        """The covariance of step 0, (states, states)."""
        if self.chain is None:  # of counts that are evenly spread over all that have this total
            n, m = self.population, self.cells
            return n * (n + m) / (m * m * (m + 1.0)) * (m * np.eye(m) - 1.0)
        law = self.chain.marginal(0)
        found = np.diag(law)
        for own in self.blocks:
            found[own, own] -= np.outer(law[own], law[own]) / (law[own].sum() if len(self.blocks) > 1 else 1.0)
        return np.asarray(self.dispersion * self.population * found)

    def spread(self, step: int) -> Array:
        """The expected covariance of the counts of `step` + 1 given those of `step`."""
        return self._settled_spread if step >= self.settled else self._spread(step)

    @cached_property
    def _settled_spread(self) -> Array:
        return self._spread(int(self.settled))

    def _spread(self, step: int) -> Array:
        if self.chain is None:
            return self.start()
        law, move = self.chain.marginal(step), self.move
        return np.asarray(self.dispersion * self.population * (np.diag(law @ move) - move.T @ (law[:, None] * move)))

    def spreads(self, step: int) -> Array:
        """The diagonal of `spread`, of a chain, (states,)."""
        return self._settled_spreads if step >= self.settled else self._spreads(step)

    @cached_property
    def _settled_spreads(self) -> Array:
        return self._spreads(int(self.settled))

    def _spreads(self, step: int) -> Array:
        assert self.chain is not None
        return np.asarray(self.dispersion * self.population * (self.chain.marginal(step) @ self._scattered))

    @cached_property
    def _scattered(self) -> Array:
        """How much one user's place varies, given the place before, (states, states)."""
        return self.move * (1.0 - self.move)

    def drawn(self, steps: int, series: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """(steps, series, cells) counts of simulated users, exactly in law: counts move by multinomial draws.

        A group of them has whole numbers of users, within one of its share.
        """
        assert self.chain is not None
        if isinstance(self.chain, Mixture):
            ends = np.rint(int(self.population) * np.cumsum(self.chain.shares))
            sizes = np.diff(ends, prepend=0.0).tolist()
            each = [CountProcess.of(size, chain) for size, chain in zip(sizes, self.chain.chains, strict=True)]
            drawn = np.asarray(sum(one.drawn(steps, series, generator) for one in each))
            return drawn if self.chain.belongs is None else drawn @ self.chain.belongs.astype(np.int64)
        now = generator.multinomial(int(self.population), _law(self.chain.marginal(0)), size=series)
        counts, moves, places = [now], _law(self.move), None
        if self.states >= MANY and (most := int(np.count_nonzero(moves, axis=1).max())) < self.states // 2:
            places = np.argsort(-moves, axis=1, kind="stable")[:, :most]
            moves = np.take_along_axis(moves, places, axis=1)
        for _ in range(1, steps):
            moved = generator.multinomial(now, moves)
            if places is None:
                now = moved.sum(axis=1)
            else:
                now = np.array([np.bincount(places.ravel(), one.ravel(), self.states) for one in moved], dtype=np.int64)
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
        smooth = self.chain.smoothed(amount) if isinstance(self.chain, Mixture) else _Smoothed(self.chain, amount)
        return CountProcess(self.population, self.cells, smooth)


def _law(rows: Array) -> Array:
    """Probabilities that numpy accepts: rows sum to 1 within 1e-9 in a plan, and here as nearly as floats can."""
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
