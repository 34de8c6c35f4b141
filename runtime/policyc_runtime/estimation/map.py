"""The likeliest counts given the noisy ones and a public prior of where users are, each step on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation.constraints import Simplex
from policyc_runtime.estimation.count_process import Mixture
from policyc_runtime.estimation.estimator import Estimator
from policyc_runtime.estimation.separable import MapCost, minimise_integers, minimise_reals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain
    from policyc_runtime.estimation.constraints import ConstraintSet

    Array = NDArray[np.float64]

LEAST_SEEN = 0.5  # users: noise below zero must not make a cell impossible for ever
ANCHOR_DISTANCE = 1024  # steps between laws that are computed by a power of the chain


class Map(Estimator):
    """Most probable counts: Laplace likelihood times the multinomial law of independent users at that step.

    The chain's law at a step starts from `prior`: the declared `initial` law, `uniform` over the cells, or the
    `frequency` of the noisy values of step 0 (at least half a user a cell). Without a chain it stays what it was then.

    Source: CAO23
    """

    name: Literal["map"] = "map"
    prior: Literal["initial", "uniform", "frequency"]

    def reason_against(self, laws: int, constraints: ConstraintSet) -> str | None:
        """Why this estimator does not apply, or None when it does."""
        if laws > 1:
            return "several groups without a `share` each have no common law of where a user is"
        if constraints.cells == 1:
            return "one number a step is not a law over cells"
        if self.prior == "initial" and laws == 0:
            return "no chain says where users start"
        if constraints.total is None:
            return "no constraint says what the cells add up to"
        return None

    @property
    def of_one_step(self) -> bool:
        """They do, unless step 0 says where users are."""
        return self.prior != "frequency"

    def law(self, chain: Chain | None, steps: range, cells: int, first_noisy: Array | None) -> Array:
        """(len(steps), cells) probabilities of the cells at 0-based steps; the same for a step whatever the range.

        Of `first_noisy` with a row for each of several streams, (len(steps), rows, cells) where it matters.

        Raises:
            ReleaseError: the prior needs a chain, or noisy values, that are not there.
        """
        if isinstance(chain, Mixture):
            known = None if self.prior != "frequency" else chain.divided(self._start(None, cells, first_noisy))
            starts = [self._start(own, own.states, None) if known is None else known for own in chain.chains]
            laws = [
                share * propagate(start, own.forward, steps)
                for share, start, own in zip(chain.shares, starts, chain.chains, strict=True)
            ]
            return chain.seen(np.concatenate(laws, axis=-1))
        return propagate(self._start(chain, cells, first_noisy), None if chain is None else chain.forward, steps)

    def _start(self, chain: Chain | None, cells: int, first_noisy: Array | None) -> Array:
        """The law of step 0."""
        if self.prior == "uniform":
            return np.full(cells, 1.0 / cells)
        if self.prior == "initial" and chain is not None:
            return np.asarray(chain.marginal(0), dtype=np.float64)
        if self.prior == "frequency" and first_noisy is not None:
            counts = np.maximum(first_noisy, LEAST_SEEN)
            return np.asarray(counts / counts.sum(axis=-1, keepdims=True))
        raise ReleaseError(
            "E0833",
            f"there is nothing to make the `{self.prior}` prior of `map` from",
            because="it needs a correlation, or the noisy values of step 0",
            help="choose another prior in the policy and compile again",
        )

    def estimate(
        self, noisy: Array, scales: Array, law: Array | None, constraints: ConstraintSet, previous: Array | None
    ) -> Array:
        """The most probable counts (rows, cells).

        Raises:
            ReleaseError: no counts of positive probability satisfy the constraints.
        """
        assert law is not None
        cost = MapCost(noisy, scales[:, None], law)
        simplex = constraints.simplex
        if simplex is None:
            from policyc_runtime.estimation.constrained import minimise_under_constraints

            free = np.full(constraints.cells, np.inf)
            Simplex(constraints.total, np.zeros(constraints.cells), free).require_feasible(constraints, law > 0)
            return minimise_under_constraints(cost, constraints, previous)
        simplex = simplex.nonnegative()
        simplex.require_feasible(constraints, law > 0)
        solve = minimise_integers if constraints.integer else minimise_reals
        return solve(cost, simplex.total, simplex.lower, simplex.upper)


def propagate(start: Array, forward: Array | None, steps: range) -> Array:
    """The law of every step of a range, (len(steps), ..., cells), from the law of step 0, (..., cells).

    A step's law depends on the step alone, to the last bit: laws at multiples of 1024 come from a power of the chain,
    those between from single steps, so a stream gets the same numbers in one run as step by step.
    """
    if forward is None:
        return np.tile(start, (len(steps), *[1] * start.ndim))
    laws = np.empty((len(steps), *start.shape))
    law = start
    at = -1
    for index, step in enumerate(steps):
        anchor = step - step % ANCHOR_DISTANCE
        if at < anchor:
            at, law = anchor, _renormalised(start @ np.linalg.matrix_power(forward, anchor))
        while at < step:
            at, law = at + 1, _renormalised(law @ forward)
        laws[index] = law
    return laws


def _renormalised(law: Array) -> Array:
    return np.asarray(law / law.sum(axis=-1, keepdims=True))


def map_counts(noisy: Array, scale: float | Array, probabilities: Array, population: int) -> NDArray[np.int64]:
    """The most probable counts of one step, or of many.

    Args:
        noisy: (cells,) or (steps, cells) noisy counts, whole numbers or not.
        scale: of the Laplace noise, > 0; a number, or (steps,).
        probabilities: (cells,) or (steps, cells) law of where a user is; 0 fixes a count at 0.
        population: what the counts of a step add up to.

    Returns:
        Whole numbers in the shape of `noisy`.

    Raises:
        ReleaseError: all probabilities of a step are 0.

    Source: CAO23
    """
    rows = np.atleast_2d(np.asarray(noisy, dtype=np.float64))
    law = np.broadcast_to(np.asarray(probabilities, dtype=np.float64), rows.shape)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), len(rows))
    if not (law > 0).any(axis=1).all():
        raise ReleaseError("E0833", "a user can be nowhere", because="all probabilities of a step are 0")
    cost = MapCost(rows, scales[:, None], law)
    counts = minimise_integers(cost, population, np.zeros(rows.shape[1]), np.full(rows.shape[1], np.inf))
    return np.rint(counts).astype(np.int64).reshape(np.shape(noisy))
