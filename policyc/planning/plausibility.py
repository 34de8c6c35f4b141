"""Whether true counts can be what a policy demands of published values, if users move as it declares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from policyc.planning.draft import chain_record, counted_states
from policyc.semantics.policy import Policy
from policyc.semantics.postprocessing import LinearConstraint
from policyc_check.steps.chains import Chain
from policyc_runtime.groups import shares_of

LATER = 200  # steps after which laws are taken to have stopped moving
SURE = 4.0  # standard deviations beyond a bound


def broken_constraints(policy: Policy, chains: Sequence[Chain]) -> dict[str, list[tuple[LinearConstraint, float]]]:
    """Constraints within a step that expected counts break by far, by release; each with the value that is expected.

    At the first step or later. Expected is the population times the declared law, users split between groups by their
    shares, or evenly, as in every prediction.
    """
    population = policy.stream.population
    if population is None or not chains:
        return {}
    horizon = policy.stream.horizon or LATER + 1
    steps, shares = {0, min(LATER, horizon - 1)}, shares_of([chain_record(chain) for chain in policy.chains])
    groups = [(float(share), chain) for share, chain in zip(shares, chains, strict=True)]
    laws = [np.asarray(sum(share * chain.marginal(step) for share, chain in groups)) for step in steps]
    found: dict[str, list[tuple[LinearConstraint, float]]] = {}
    for release in policy.releases:
        demanded = policy.constraints_of(release.name)
        for row in demanded.constraints if demanded is not None and release.by is not None else ():
            if row.previous or row.relation == "==":
                continue
            of, weights = counted_states(policy, release), np.zeros(row.cells)
            for cell, weight in row.current.items():
                weights[cell] = float(weight)
            weights = weights if of is None else weights[of]
            sign = 1.0 if row.relation == "<=" else -1.0
            means = [float(population * weights @ law) for law in laws]
            spreads = [math.sqrt(max(0.0, population * float(weights**2 @ law - (weights @ law) ** 2))) for law in laws]
            beyond = [sign * (mean - float(row.bound)) - SURE * sd for mean, sd in zip(means, spreads, strict=True)]
            if max(beyond) > 0:
                found.setdefault(release.name, []).append((row, means[int(np.argmax(beyond))]))
    return found
