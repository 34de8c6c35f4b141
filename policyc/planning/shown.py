"""What is left of a release once uncertain values are left out: known only when its noise is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from policyc.diagnostics import Diagnostic, PolicyError
from policyc.semantics.policy import Policy
from policyc.semantics.rules.suppression import check_shown
from policyc_runtime.made_errors import made_stddevs
from policyc_runtime.made_values import made_values
from policyc_runtime.noise_tails import error_bounds
from policyc_runtime.plan import Plan
from policyc_runtime.suppression import showing_all


def shown_warnings(policy: Policy, plan: Plan, notices: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Warnings about releases of which no value can be shown.

    Raises:
        PolicyError: E0752, nobody knows beforehand how far off values are that are shown by their errors.
    """
    made = {one.name for one in policy.made}
    for block in policy.postprocess:
        if block.release in made:
            continue
        release = plan.release_named(block.release)
        for rule in block.suppressions:
            if rule.error_above is None or rule.chance is None:
                continue
            bounds = error_bounds(plan, release, float(rule.chance), plan.expected_steps)
            if bounds is None:
                finding = Diagnostic(
                    "E0752",
                    f"the estimator `{release.estimator.described()}` does not say how far off a value of "
                    f"`{release.name}` is",
                    rule.span,
                    because=release.predicted.because or "its values are kept until counts move",
                    help="write `below = ...`, which asks for no error, or drop what makes levels agree"
                    if plan.agrees(release.name)
                    else "write `estimate none()`, whose errors are those of the noise; or `below = ...`, which asks "
                    "for no error; or say with `signal` how values move",
                )
                raise PolicyError(policy.source, [*notices, finding])
            if not rule.relative:
                yield from check_shown(release.name, rule, float(bounds.min()))


def require_known_errors(policy: Policy, plan: Plan, notices: Sequence[Diagnostic]) -> None:
    """Nothing where the errors of what is made of released values are known, wherever they decide what is shown.

    Raises:
        PolicyError: E0752, they depend on each other, or nobody knows them.
    """
    spans = {block.release: block.suppressions for block in policy.postprocess}
    steps = max((one.first + one.steps for one in plan.made), default=0)
    known = {release.name: np.ones((steps, len(release.cells))) for release in plan.releases}
    known |= made_values(showing_all(plan), known)
    for one in plan.made:
        rule = next((rule for rule in spans.get(one.name, ()) if rule.error_above is not None), None)
        if rule is None or made_stddevs(plan, one, known) is not None:
            continue
        finding = Diagnostic(
            "E0752",
            f"nobody knows how far off a value of `{one.name}` is",
            rule.span,
            because="that follows from the noise of what it is made of where each of these has noise of its own; "
            "estimates, running totals, and values that are made of the same noise depend on each other",
            help="write `estimate none()`, and `mechanism gaussian()` or `laplace()`; or `below = ...`, which asks for "
            "no error",
        )
        raise PolicyError(policy.source, [*notices, finding])
