"""What is left out of a release: `suppress(NAME, below = 90)`, `suppress(NAME, where = OTHER)`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from policyc.diagnostics.diagnostic import Label
from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind
from policyc.semantics.policy import Suppression
from policyc.semantics.scope import Scope, suggest
from policyc.syntax.tree import Call, Name, Value
from policyc.syntax.tree import Suppression as SuppressionTree


def _name(scope: Scope, value: Value, what: str) -> str | None:
    if isinstance(value, Name):
        return value.text
    reading.mismatch(scope, value, what, "the name of a release", f"`{what} = my_other_release`, without quotes")
    return None


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
    Parameter("release", _name, "my_release", positional=True),
    Parameter("below", _threshold, "below = 90", required=False),
    Parameter("where", _name, "where = my_other_release", required=False),
)
CONDITIONS = ("below", "where")


def resolve_suppression(
    scope: Scope, tree: SuppressionTree, before: Sequence[Suppression], others: Sequence[str]
) -> list[Suppression]:
    """What one `suppress` of a block leaves out; nothing after reporting what is wrong with it.

    Args:
        scope: collects the findings.
        tree: of the block's own release.
        before: those that stand before it in the block.
        others: names of all other releases.
    """
    bound = bind(scope, tree.call, _SUPPRESS)
    if bound is None or not _one_condition(scope, tree.call, bound):
        return []
    below, where = bound.get("below"), bound.get("where")
    if isinstance(where, str) and not _known(scope, tree.call, where, others):
        return []
    words = " ".join(scope.source.text[tree.span.start : tree.span.end].split())
    found = Suppression(
        text=words,
        line=scope.source.line_and_column(tree.span.start)[0],
        span=tree.span,
        below=below if isinstance(below, Decimal) else None,
        where=where if isinstance(where, str) else None,
    )
    same = [one for one in before if one.where == found.where]
    if same:
        what = "below" if found.where is None else "where"
        hint = "keep the larger threshold: the other one leaves out nothing more"
        scope.refuse(
            "E0207",
            f"`{what}` is given twice",
            tree.span,
            hint=hint if found.where is None else "keep one of the two",
            labels=(Label(same[0].span, "first given here"),),
        )
        return []
    return [found]


def _one_condition(scope: Scope, call: Call, bound: dict[str, object]) -> bool:
    """Whether a call says one thing (E0711)."""
    given = [name for name in CONDITIONS if name in bound]
    if len(given) == 1:
        return True
    several = "write a `suppress` for each: a value is shown where none of them leaves it out"
    scope.refuse(
        "E0711",
        f"one `suppress` has {' and '.join(f'`{name}`' for name in given)}"
        if given
        else "`suppress` does not say which values are left out",
        call.span,
        because="whether one of them is enough, or all are needed, could be read either way" if given else None,
        hint=several if given else "add `below = 90`, or `where = my_other_release`",
    )
    return False


def _known(scope: Scope, call: Call, where: str, others: Sequence[str]) -> bool:
    """Whether `where` names another release (E0204)."""
    if where in others:
        return True
    value = next(argument.value for argument in call.arguments if argument.name and argument.name.text == "where")
    own = call.arguments[0].value
    itself = isinstance(own, Name) and own.text == where
    problem = "a release cannot be shown where it is shown itself" if itself else f"there is no release `{where[:40]}`"
    scope.refuse("E0204", problem, value.span, hint=suggest("" if itself else where, others))
    return False
