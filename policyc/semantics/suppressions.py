"""What is left out of a release: `suppress(NAME, below = 90)`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from policyc.diagnostics.diagnostic import Label
from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind
from policyc.semantics.policy import Suppression
from policyc.semantics.scope import Scope
from policyc.syntax.tree import Name, Value
from policyc.syntax.tree import Suppression as SuppressionTree


def _own_name(scope: Scope, value: Value, what: str) -> str | None:  # noqa: ARG001  the grammar has a name there
    return value.text if isinstance(value, Name) else None


def _threshold(scope: Scope, value: Value, what: str) -> Decimal | None:
    """A number above 0, below which values are left out."""
    read = reading.number(scope, value, what)
    if read is None or read > 0:
        return read
    scope.refuse(
        "E0710",
        f"`below = {scope.quote(value.span)}` would show every cell without users",
        value.span,
        because="what is measured of nobody is noise alone, at or above 0 half of the time; a threshold is there to "
        "leave such values out",
        hint="write a threshold that noise alone seldom reaches, such as five times its standard deviation; or leave "
        "`suppress` out",
    )
    return None


_SUPPRESS = (
    Parameter("release", _own_name, "my_release", positional=True),
    Parameter("below", _threshold, "below = 90", because="it says which values are left out"),
)


def resolve_suppression(scope: Scope, tree: SuppressionTree, before: Sequence[Suppression]) -> list[Suppression]:
    """What one `suppress` of a block leaves out; nothing after reporting what is wrong with it.

    Args:
        scope: collects the findings.
        tree: of the block's own release.
        before: those that stand before it in the block.
    """
    bound = bind(scope, tree.call, _SUPPRESS)
    if bound is None:
        return []
    below = bound["below"]
    assert isinstance(below, Decimal), "its reader gives nothing else"
    if before:
        scope.refuse(
            "E0207",
            "`below` is given twice",
            tree.span,
            hint="keep the larger threshold: the other one leaves out nothing more",
            labels=(Label(before[0].span, "first given here"),),
        )
        return []
    words = " ".join(scope.source.text[tree.span.start : tree.span.end].split())
    return [Suppression(words, scope.source.line_and_column(tree.span.start)[0], below, tree.span)]
