"""From the noisy values of a release to its published ones, as its plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.constraints import ConstraintSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.plan import Plan, ReleasePlan

    Array = NDArray[np.float64]


def estimate_release(plan: Plan, release: ReleasePlan, noisy: Array, published: Array) -> Array:
    """The values to publish next.

    Args:
        plan: whose chain and delivery count.
        release: one of its releases.
        noisy: (t, cells) noisy values of all steps so far.
        published: (s, cells) values published already, s <= t.

    Returns:
        (t - s, cells) values for the steps s to t - 1; they satisfy the release's constraints.

    Raises:
        ReleaseError: no values satisfy the constraints.
    """
    done, now = len(published), len(noisy)
    fresh = np.asarray(noisy[done:], dtype=np.float64)
    if now == done:
        return fresh
    constraints = replace(ConstraintSet.of(release), first_step=done)
    chains = plan.correlation.chains
    law = release.estimator.law(
        chains[0].chain() if len(chains) == 1 else None,
        range(done, now),
        len(release.cells),
        np.asarray(noisy[0], dtype=np.float64),
    )
    scales = np.array([float(scale) for scale in release.schedule.scales(now)[done:]])
    previous = np.asarray(published[-1], dtype=np.float64) if done else None
    if plan.delivery.kind == "offline" or not constraints.couples_steps:
        values = release.estimator.estimate(fresh, scales, law, constraints, previous)
        constraints.check(values, previous)
        return values
    values = np.empty_like(fresh)
    for row in range(now - done):  # what is published at a step may not wait for the next one
        alone = replace(constraints, first_step=done + row)
        one = slice(row, row + 1)
        values[one] = release.estimator.estimate(
            fresh[one], scales[one], None if law is None else law[one], alone, previous
        )
        alone.check(values[one], previous)
        previous = values[row]
    return values
