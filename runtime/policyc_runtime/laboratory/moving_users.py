"""Where drawn users are in every step, as the chains of a plan say."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policyc_runtime.groups import group_sizes, shares_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain
    from policyc_runtime.plan import Plan

    Numbers = NDArray[np.int64]

USERS = 1000  # where the policy gives no population


class Places(NamedTuple):
    """One an entry: who is in which step in which cell, (rows,) each."""

    user: Numbers
    step: Numbers
    cell: Numbers


def moving_users(plan: Plan, steps: int, generator: np.random.Generator) -> Places:
    """Users of the declared chains, groups as large as is said, else all alike; those without a chain anywhere.

    Who is `otherwise` has no entry.
    """
    users, listed = plan.stream.population or USERS, len(plan.stream.cell.cells) if plan.stream.cell else 1
    states = len(plan.stream.cell.states) if plan.stream.cell else 2
    chains = [record.chain() for record in plan.correlation.chains]
    parts, first = [], 0
    groups = max(plan.groups, 1)
    shares = shares_of(plan.correlation.chains) if plan.one_law else [Fraction(1, groups)] * groups
    for group, many in enumerate(group_sizes(users, shares)):
        if group < len(chains):
            course = _courses(chains[group], many, steps, generator)
        else:
            course = generator.integers(0, states, (steps, many), dtype=np.int16)
        step, user = np.nonzero(course < listed)
        parts.append((user + first, step, course[step, user]))
        first += many
    user, step, cell = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Places(user.astype(np.int64), step.astype(np.int64), cell.astype(np.int64))


def _courses(chain: Chain, users: int, steps: int, generator: np.random.Generator) -> NDArray[np.int16]:
    """(steps, users): the state of every user at every step."""
    found = np.zeros((steps, users), dtype=np.int16)
    sums = np.cumsum(np.vstack([chain.marginal(0)[None], chain.forward]), axis=1)[:, :-1]
    row = np.zeros(users, dtype=np.int64)  # of `sums`: the law of the first state, then those of the next one
    for step in range(steps):
        found[step] = (generator.random(users)[:, None] >= sums[row]).sum(axis=1)
        row = found[step].astype(np.int64) + 1
    return found
