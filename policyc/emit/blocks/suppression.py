"""Which values are left out, how often that happens to which true values, and what it means for errors and totals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from policyc.emit.blocks.wording import Json, listed, quoted
from policyc.emit.numbers import about, counted, exact, grouped, plain, round_up
from policyc_runtime.estimates import published_values
from policyc_runtime.noise_tails import (
    Normal,
    at_least,
    error_bounds,
    noise_laws,
    published_unit,
    publishes_noise,
    sums_of_noise,
)
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import DerivedRelease, MadeRelease, ReleasePlan
from policyc_runtime.suppression import suppresses
from policyc_runtime.suppression_rule import AnySuppressionRule, Below, ErrorAbove, Where

SELDOM = 1e-12  # of smaller probabilities no more is said


def suppression(plan: Plan, release: ReleasePlan) -> Json | None:
    """What is left out of one release; None where nothing is."""
    if not suppresses(plan, release):
        return None
    return {
        "rules": [{"text": rule.text, "line": str(rule.line)} for rule in release.suppressions],
        "sentence": f"Left out are {left_out_words(plan, release)}: of such a cell and step neither the published nor "
        f"the noisy value is shown, both fields are empty.{_of_totals(plan, release)}",
        "privacy": "What is left out follows from published values and the plan alone, never from true ones. So it "
        "costs no privacy; nor does it protect anybody: it keeps readers from values that are mostly noise.",
        "chances": [_chances(plan, release, rule) for rule in release.suppressions],
        "errors": "Errors that are stated are those of all values, before any are left out. Those of the values that "
        f"are shown are others{_biased(release)}: `policyc simulate` finds them on simulated streams.",
    }


def _biased(release: ReleasePlan) -> str:
    """Why values that are shown err otherwise, where their size decides."""
    sizes = any(isinstance(rule, Below) or getattr(rule, "relative", False) for rule in release.suppressions)
    return ", since noise upwards is shown more often than noise downwards" if sizes else ""


def left_out_words(plan: Plan, release: ReleasePlan | MadeRelease) -> str:
    """Which values are left out, as a phrase; empty for none."""
    told = [_rule_words(rule) for rule in release.suppressions]
    if isinstance(release, DerivedRelease) and suppresses(plan, plan.release_named(release.query.of)):
        told.append(f"totals of values of {quoted(release.query.of)} that are left out")
    return listed(told) if told else ""


def _rule_words(rule: AnySuppressionRule) -> str:
    if isinstance(rule, Where):
        return f"values where {quoted(rule.where)} is left out"
    if isinstance(rule, Below):
        return f"values below {grouped(exact(rule.below))}"
    size = f"{plain(100 * rule.error)} % of the value" if rule.relative else grouped(exact(rule.error))
    return f"values whose error is above {size} with a probability of more than {plain(100 * rule.chance)} %"


def _of_totals(plan: Plan, release: ReleasePlan) -> str:
    """Why totals are left out."""
    if not isinstance(release, DerivedRelease) or not suppresses(plan, plan.release_named(release.query.of)):
        return ""
    return " Of such totals the difference from one step to the next would show what is left out."


def _chances(plan: Plan, release: ReleasePlan, rule: AnySuppressionRule) -> Json:
    """How likely 0, the threshold and twice as much are shown, as true values."""
    if isinstance(rule, Where):
        return {
            "rows": [],
            "method": f"As often as values of {quoted(rule.where)} are left out, however large they are.",
        }
    if isinstance(rule, ErrorAbove):
        return {"rows": [], "method": _certain(plan, release, rule)}
    laws = noise_laws(plan, release) if publishes_noise(plan, release, rule.below) else None
    if laws is None:
        return {
            "rows": [],
            "method": "How often a value is left out is not known before the data: what is published is "
            f"{_made(plan, release)}. `policyc simulate` counts it on simulated streams.",
        }
    unit = published_unit(plan, release)
    least = least_shown(plan, release, rule, unit)
    once = math.ceil(Fraction(rule.below) / unit)
    normal = any(isinstance(law, Normal) for law in laws)
    return {
        "rows": [
            {
                "true": grouped(about(float(true * unit), 15)),
                "shown": _probabilities([at_least(law, least - true) for law in laws]),
                "left_out": _probabilities([at_least(law, 1 - least + true) for law in laws]),
            }
            for true in (0, once, 2 * once)
        ],
        "method": ("From a normal law with the variance of the noise" if normal else "From the exact law of the noise")
        + (", at the steps with the least noise and with the most." if len(laws) > 1 else "."),
    }


def _made(plan: Plan, release: ReleasePlan) -> str:
    """What published values are that are not noisy ones."""
    if plan.agrees(release.name):
        return "made to agree with values of other releases"
    many = f"what `{release.estimator.described()}` makes of several noisy values"
    return f"{many}, or values that are kept until counts move"


def _certain(plan: Plan, release: ReleasePlan, rule: ErrorAbove) -> str:
    """Which values these are, as errors are known beforehand: small ones, or those of some steps."""
    steps = plan.expected_steps
    bounds = error_bounds(plan, release, float(rule.chance), steps)
    if bounds is None:
        return "Nothing is known of the errors of these values beforehand, so all are left out."
    own = publishes_noise(plan, release, 0) and noise_laws(plan, release) is not None
    average = "By a normal law with the expected error of each step, which is that of its average cell"
    known = "By the law of the noise" if own else average
    if sums_of_noise(plan, release):
        known = "By the error of that value of each step which is known worst once levels agree"
    if rule.relative:
        ends = sorted({float(bounds.min()), float(bounds.max())})
        sizes = " to ".join(grouped(round_up(end / float(rule.error), 4)) for end in ends)
        where = ", at the steps with the least noise and with the most" if len(ends) > 1 else ""
        return f"{known}, shown are values of a size of at least {sizes}{where}, whatever the true ones are."
    shown = int((bounds <= float(rule.error)).sum())
    which = {0: "no value is shown", steps: "all values are shown"}.get(
        shown, f"all values of {counted(shown, 'step')} are shown, and none of the other {steps - shown:,}"
    )
    return f"{known}, {which}: how large a value is does not matter."


def least_shown(plan: Plan, release: ReleasePlan, rule: Below, unit: Fraction) -> int:
    """The least noisy value that is published as one that is shown, in whole units."""

    def shown(noisy: int) -> bool:
        row = np.full((1, len(release.cells)), float(noisy * unit))
        return bool(published_values(plan, release, row, row[:0])[0, 0] >= float(rule.below))

    low, high = 0, 2 * math.ceil(Fraction(rule.below) / unit) + 1  # nothing at 0 is shown, twice the threshold is
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def _probabilities(found: Sequence[float]) -> str:
    """Of the steps with the least and with the most noise."""
    return " to ".join(dict.fromkeys("less than 1e-12" if p < SELDOM else about(p) for p in sorted(found)))
