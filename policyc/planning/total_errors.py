"""Whether a running total or window is made of another release's noisy values or measured by itself.

Made of another's it costs no privacy, but its noise adds up; measured, it takes a share of the promise from all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from policyc.planning.measurements import Array, Measurement, Objective, of_variances, shares
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_check.plan.release import Asked
from policyc_runtime.noisy_values import derived_values, totalled


def weights(
    releases: Sequence[Asked],
    alone: Mapping[str, Measurement],
    objective: Objective,
    counts: Callable[[str], float] = lambda name: 1.0,  # noqa: ARG005
) -> dict[str, float]:
    """By measured release, the expected error of its values and of all that is made of them.

    In units of what one user contributes, so that a sum of large values does not take the promise from a count.

    Args:
        releases: all that is published, each after what it is made of.
        alone: by name, releases that are measured, each with noise as if it had the whole promise.
        objective: what is added up, as the mean over steps.
        counts: how often the error of a release does.
    """
    variances: dict[str, Array] = {}
    totals: dict[str, list[Asked]] = {}
    measured_as: dict[str, str] = {}
    found = dict.fromkeys(alone, 0.0)
    for release in releases:
        query = release.query
        if release.name in alone:
            variances[release.name] = alone[release.name].own_variances()
            totals[release.name] = []
            measured_as[release.name] = release.name
        else:
            assert isinstance(query, PrefixQuery | WindowQuery), "all others are measured"
            variances[release.name] = derived_values(release, variances[query.of][:, None])[:, 0]
            totals[release.name] = [*totals[query.of], release]
            measured_as[release.name] = measured_as[query.of]
        source = measured_as[release.name]
        size = (float(alone[source].unit) * alone[source].setting.contribution) ** 2
        common = alone[source].offset.of_totals(partial(totalled, totals[release.name]), variances[release.name].size)
        whole = variances[release.name] + common**2
        found[source] += counts(release.name) * float(np.nanmean(of_variances(whole / size, objective)))
    return found


def least_together(errors: Mapping[str, float], objective: Objective, power: int = 2) -> float:
    """The sum of errors of releases that share a promise in the best parts; errors as if each had all of it."""
    squared = 2 if objective == "mean_squared_error" else 1
    each = list(errors.values())
    return float(sum(e * factor**squared for e, factor in zip(each, shares(each, objective, power), strict=True)))
