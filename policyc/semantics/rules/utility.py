"""Whether what is published is worth publishing; asked by the planner, which knows the expected error."""

from __future__ import annotations

from collections.abc import Sequence

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Policy, Release
from policyc.semantics.postprocessing import LinearConstraint

ABOUT = 0.95  # of the error of the public prior alone


def check_utility(
    policy: Policy,
    release: Release,
    predicted_error: float,
    prior_alone: float | None,
    signal_size: float | None,
    broken: Sequence[tuple[LinearConstraint, float]] = (),
    *,
    unit: str = "users",
    known: str = "the expected error",
) -> list[Diagnostic]:
    """Warnings about a release that carries little.

    Args:
        policy: the policy that was planned.
        release: which of its releases this is about; named where there are several.
        predicted_error: expected error of one published value, as a root mean square or mean absolute error in units
            of the release; nonnegative.
        prior_alone: the same error of guessing from public knowledge alone, or None when there is none.
        signal_size: typical size of a value, in the same units, or None when unknown.
        broken: constraints that true counts would break if users moved as declared, each with what is expected of
            its left side.
        unit: what values are counted in.
        known: what `predicted_error` is, where it is not the whole expected error.

    Returns:
        W0701 when the error exceeds the signal, W0702 when the public prior alone is about as good: an estimator that
        knows the prior is never worse, however strong the noise.
    """
    target = policy.targets[0]
    error = known if len(policy.releases) == 1 else f"{known} of `{release.name}`"
    stronger = "allow a larger " + ("alpha" if hasattr(target, "alpha") else "epsilon")
    remedy = f"{stronger}, publish less often, count in fewer cells, or drop constraints that true counts break"
    labels: tuple[Label, ...] = ()
    if broken:
        row, expected = broken[0]
        more = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        remedy = (
            f"drop or widen the constraint `{row.text}`{more}: users who move as declared would make it "
            f"{_count(expected)}, so published values are forced away from the truth; or mend the declared chain"
        )
        labels = tuple(Label(row.span, f"expected: {_count(expected)}") for row, expected in broken)
    size = f"{predicted_error:.4g} {unit}"
    findings = []
    if signal_size is not None and predicted_error > signal_size:
        findings.append(
            Diagnostic(
                "W0701",
                f"{error} ({size}) exceeds the signal ({signal_size:.4g} {unit})",
                target.span,
                because="the promise holds, and readers would take noise for news",
                help=remedy,
                labels=labels,
            )
        )
    if prior_alone is not None and predicted_error >= ABOUT * prior_alone:
        how = "above" if predicted_error * ABOUT > prior_alone else "about"
        findings.append(
            Diagnostic(
                "W0702",
                f"{error} ({size}) is {how} that of the public prior alone ({prior_alone:.4g} {unit})",
                target.span,
                because="a reader learns as much from what was public before, so privacy is spent for nothing",
                help=remedy,
                labels=labels,
            )
        )
    return findings


def _count(expected: float) -> str:
    return f"about {expected:,.0f}" if abs(expected) >= 10 else f"about {expected:.2g}"
