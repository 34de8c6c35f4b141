"""Which published values are left out: a function of the plan and of published values alone.

Raw values are not even at hand here. The ledger keeps what was drawn and estimated, before anything is left out, so
that whoever has it can say again what is shown; files have neither the noisy nor the published value of a cell that is
left out, as a reader would else put it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from policyc_runtime.made_errors import made_stddevs
from policyc_runtime.noise_tails import error_bounds, normal_quantile, steady
from policyc_runtime.noisy_values import derived_values
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import DerivedRelease, MadeRelease, ReleasePlan
from policyc_runtime.suppression_rule import ErrorAbove, Where

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.bool_]


def suppresses(plan: Plan, release: ReleasePlan) -> bool:
    """Whether values of a release may be left out: by its own rules, or by those of what it is a total of."""
    if release.suppressions:
        return True
    return isinstance(release, DerivedRelease) and suppresses(plan, plan.release_named(release.query.of))


def showing_all(plan: Plan) -> Plan:
    """The same plan with nothing left out: stated errors are those of all values."""
    releases, made = (
        tuple(one.model_copy(update={"suppressions": ()}) for one in each) for each in (plan.releases, plan.made)
    )
    return plan.model_copy(update={"releases": releases, "made": made})


def _uncertain(plan: Plan, release: ReleasePlan, rule: ErrorAbove, values: NDArray[np.float64]) -> Places:
    """Where an error may be too large, by what the plan knows of it beforehand; everywhere if it knows nothing."""
    bounds = error_bounds(plan, release, float(rule.chance), len(values))
    if bounds is None:
        return np.ones(values.shape, dtype=np.bool_)
    allowed = float(rule.error) * (np.abs(values) if rule.relative else np.ones(values.shape))
    return np.asarray(bounds[:, None] > allowed)


def suppressed_rows(plan: Plan, made: MadeRelease, known: Mapping[str, NDArray[Any]]) -> Places:
    """Where rows are left out of what is made of released values, (rows, cells), beside those that have no value.

    Args:
        plan: whose `made` it is.
        made: one of them.
        known: values of all releases that come before it and of itself, (rows, cells), masked where there are none.
    """
    values = np.asarray(np.ma.getdata(known[made.name]), dtype=np.float64)
    left_out = np.zeros(values.shape, dtype=np.bool_)
    for rule in made.suppressions:
        if isinstance(rule, Where):
            other = next((one for one in plan.made if one.name == rule.where), None)
            ahead = (made.first - (0 if other is None else other.first)) // made.steps
            left_out |= np.ma.getmaskarray(known[rule.where])[ahead : ahead + len(values)]
        elif isinstance(rule, ErrorAbove):
            stddevs = made_stddevs(plan, made, known)
            bounds = np.full(1, np.inf) if stddevs is None else steady(stddevs * normal_quantile(float(rule.chance)))
            left_out |= bounds > float(rule.error) * (np.abs(values) if rule.relative else 1.0)
        else:
            left_out |= values < float(rule.below)
    return left_out


def suppressed_values(plan: Plan, published: Mapping[str, NDArray[Any]]) -> dict[str, Places]:
    """Where values are left out, (steps, cells), of every release.

    A total is left out where one of the values that it is made of is: their difference from step to step would else
    show that one. Totals that are measured by themselves have noise of their own, and nothing of others in them.

    Args:
        plan: whose rules count.
        published: (steps, cells) values of every release, before anything is left out; in published units.
    """
    found: dict[str, Places] = {}

    def of(release: ReleasePlan) -> Places:
        if release.name not in found:
            values = np.asarray(published[release.name], dtype=np.float64)
            left_out = np.zeros(values.shape, dtype=np.bool_)
            for rule in release.suppressions:
                if isinstance(rule, Where):
                    left_out |= of(plan.release_named(rule.where))
                elif isinstance(rule, ErrorAbove):
                    left_out |= _uncertain(plan, release, rule, values)
                else:
                    left_out |= values < float(rule.below)
            if isinstance(release, DerivedRelease):
                left_out |= derived_values(release, of(plan.release_named(release.query.of)).astype(np.float64)) > 0
            found[release.name] = left_out
        return found[release.name]

    return {release.name: of(release) for release in plan.releases}
