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
    return source, *check_source(source, file.parent, known_clock)


def check_source(
    source: Source, directory: Path, known_clock: Clock | None = None
) -> tuple[Tree, Policy, tuple[Diagnostic, ...]]:
    """The same of a text that stands, or will stand, in a folder.

    Raises:
        PolicyError: as above.
    """
    tree = parse_policy(source)
    policy, findings = resolve_policy(tree, directory, known_clock)
    if policy is not None:
        findings = [*findings, *check_policy(policy)]
    if policy is None or any(finding.severity is Severity.ERROR for finding in findings):
        raise PolicyError(source, findings)
    return tree, policy, tuple(findings)


def findings_in(source: Source, directory: Path) -> tuple[Diagnostic, ...]:
    """Every finding of the pass that stopped, or of all of them, in source order."""
    try:
        return check_source(source, directory)[2]
    except PolicyError as error:
        return error.diagnostics
