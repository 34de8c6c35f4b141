"""A policy file, read and checked: every pass before planning."""

from __future__ import annotations

from pathlib import Path

from policyc.diagnostics import Diagnostic, PolicyError, Severity, Source
from policyc.semantics.lengths import Clock
from policyc.semantics.policy import Policy
from policyc.semantics.resolve import resolve_policy
from policyc.semantics.rules import check_policy
from policyc.syntax import parse_policy, read_source
from policyc.syntax.tree import Tree


def check_file(
    path: str | Path, known_clock: Clock | None = None
) -> tuple[Source, Tree, Policy, tuple[Diagnostic, ...]]:
    """Everything up to the checked policy; by the clock of a plan that is held against it, if there is one.

    Raises:
        PolicyError: at least one finding is an error; carries all findings of the pass that stopped.
    """
    file = Path(path)
    source = read_source(file)
    tree = parse_policy(source)
    policy, findings = resolve_policy(tree, file.parent, known_clock)
    if policy is not None:
        findings = [*findings, *check_policy(policy)]
    if policy is None or any(finding.severity is Severity.ERROR for finding in findings):
        raise PolicyError(source, findings)
    return source, tree, policy, tuple(findings)
