"""How people move, read alone: of a policy's page the stream and the correlation count, and matrices from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from policyc.diagnostics import Diagnostic, PolicyError, Severity, Source, Span
from policyc.semantics.matrices import read_named_matrix
from policyc.semantics.policy import Matrix, Policy
from policyc.semantics.resolve import resolve_policy
from policyc.semantics.rules.correlation import check_correlation
from policyc.semantics.scope import Scope
from policyc.syntax import parse_policy, read_source
from policyc.syntax.tree import Argument, Call, Correlation, Name, PolicyHeader, Stream, Text

_NEEDED = {
    "stream": "add `stream my_stream { ... }` with `user`, `time`, `step` and `horizon`",
    "correlation": 'say how a user moves: `correlation markov(forward = file("moves.csv"), initial = stationary, '
    'evidence = "...")`',
}


def check_movement(path: str | Path) -> tuple[Source, Policy, tuple[Diagnostic, ...]]:
    """The stream and the correlations of a policy, whatever else it says; a page with these two alone will do.

    Raises:
        PolicyError: they are not said, or are wrong; carries all findings about them.
    """
    file = Path(path)
    source = read_source(file)
    tree = parse_policy(source)
    kept = tuple(s for s in tree.statements if isinstance(s, (PolicyHeader, Stream, Correlation)))
    policy, findings = resolve_policy(replace(tree, statements=kept), file.parent, needed=_NEEDED)
    if policy is not None:
        findings = [*findings, *check_correlation(policy)]
    if policy is None or any(finding.severity is Severity.ERROR for finding in findings):
        raise PolicyError(source, findings)
    return source, policy, tuple(findings)


def matrix_of(path: Path, what: str, states: tuple[str, ...] | None = None) -> tuple[Matrix, tuple[str, ...] | None]:
    """A transition matrix of a file, CSV or NumPy, and the names of its states where a header gives them.

    Args:
        path: the file.
        what: `forward` or `backward`.
        states: the states in their order, where they are known.

    Raises:
        PolicyError: it holds no such matrix.
    """
    nowhere = Span(0, 0)
    scope = Scope(Source(str(path), ""), path.parent)
    call = Call(nowhere, Name(nowhere, "file"), (Argument(nowhere, None, Text(nowhere, path.name)),))
    if path.is_dir():  # it may have no name, as `.` has none
        scope.refuse("E0212", "this is a folder", nowhere, hint="name a file in it")
    found = None if scope.findings else read_named_matrix(scope, call, what, states)
    if found is None or scope.findings:
        raise PolicyError(scope.source, scope.findings)
    return found
