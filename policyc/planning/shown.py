"""What is left of a release once uncertain values are left out: known only when its noise is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policyc.diagnostics import Diagnostic, PolicyError
from policyc.semantics.policy import Policy
from policyc.semantics.rules.suppression import check_shown
from policyc_runtime.noise_tails import error_bounds
from policyc_runtime.plan import Plan


def shown_warnings(policy: Policy, plan: Plan, notices: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Warnings about releases of which no value can be shown.

    Raises:
        PolicyError: E0752, nobody knows beforehand how far off values are that are shown by their errors.
    """
    for block in policy.postprocess:
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
                    help="write `estimate none()`, whose errors are those of the noise; or `below = ...`, which asks "
                    "for no error; or say with `signal` how values move",
                )
                raise PolicyError(policy.source, [*notices, finding])
            if not rule.relative:
                yield from check_shown(release.name, rule, float(bounds.min()))
