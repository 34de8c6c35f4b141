"""Weights of errors: are they of releases that share a promise?"""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.semantics.policy import Policy
from policyc.semantics.scope import suggest


def check_objective(policy: Policy) -> Iterator[Diagnostic]:
    """Weights of what has no noise of its own (E0204), and those that change nothing (W0504)."""
    place = policy.objective_span
    if place is None:
        return
    known = [release.name for release in policy.releases]
    made = {one.name: one.of for one in policy.made}
    for name in policy.weights:
        if name in known:
            continue
        message = f"there is no release `{name}`"
        hint = suggest(name, known)
        if name in made:
            message, hint = f"`{name}` has no noise of its own", f"weigh `{made[name]}`, which it is made of"
        yield Diagnostic("E0204", message, place, help=hint)
        return
    if policy.weights and (len(known) == 1 or policy.budget.name == "parts"):
        alone = len(known) == 1
        yield Diagnostic(
            "W0504",
            "these weights change nothing",
            place,
            because="they say whose errors count more where several releases share a promise"
            + (", and there is one" if alone else ", and `budget parts(...)` says what each has"),
            help="leave them out" if alone else "leave them out, or write `budget auto`",
        )
