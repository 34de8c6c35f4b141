"""What is left out of a release: `suppress(NAME, below = 90)`, `where = OTHER`, `error_above = 10, chance = 0.05`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import cast

from policyc.diagnostics.diagnostic import Label
from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind
from policyc.semantics.postprocessing import Suppression
from policyc.semantics.scope import Scope, spelt, suggest
from policyc.syntax.tree import Call, Name, Number, Text, Value
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


def _error(scope: Scope, value: Value, what: str) -> tuple[Decimal, bool] | None:
    """An error above 0, and whether it is a part of the published value: `10`, or `"25 %"`."""
    if isinstance(value, Text):
        match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*%\s*", value.value)
        found, relative = Decimal(match.group(1)) / 100 if match else None, True
    else:
        found, relative = value.value if isinstance(value, Number) else None, False
    if found is not None and 0 < found <= reading.LARGEST_NUMBER:
        return found, relative
    expected = "a number above 0, or a part of the value in quotes"
    reading.mismatch(scope, value, what, expected, f'`{what} = 10`, or `{what} = "25 %"`')
    return None


def _chance(scope: Scope, value: Value, what: str) -> Decimal | None:
    """A probability above 0 and below 1."""
    read = reading.fraction(scope, value, what)
    if read is None or read < 1:
        return read
    scope.refuse(
        "E0209", f"`{what}` is `{scope.quote(value.span)}`, and must be below 1", value.span,
        because="an error that may always be larger leaves nothing out", hint=f"write `{what} = 0.05`, say",
    )  # fmt: skip
    return None


SUPPRESS = (
    Parameter("release", _name, "my_release", positional=True),
    Parameter("below", _threshold, "below = 90", required=False),
    Parameter("where", _name, "where = my_other_release", required=False),
    Parameter("error_above", _error, "error_above = 10", required=False),
    Parameter("chance", _chance, "chance = 0.05", required=False),
)
CONDITIONS = ("below", "where", "error_above")


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
    bound = bind(scope, tree.call, SUPPRESS)
    if bound is None or not _one_condition(scope, tree.call, bound):
        return []
    below, where, chance = bound.get("below"), bound.get("where"), bound.get("chance")
    error, relative = cast(tuple[Decimal | None, bool], bound.get("error_above", (None, False)))
    if isinstance(where, str) and not _known(scope, tree.call, where, others):
        return []
    words = " ".join(scope.source.text[tree.span.start : tree.span.end].split())
    found = Suppression(
        text=words,
        line=scope.source.line_and_column(tree.span.start)[0],
        span=tree.span,
        below=below if isinstance(below, Decimal) else None,
        where=where if isinstance(where, str) else None,
        error_above=error,
        relative=relative,
        chance=chance if isinstance(chance, Decimal) else None,
    )
    what = next(name for name in CONDITIONS if name in bound)
    same = [
        one
        for one in before
        if getattr(one, what) is not None and (one.where, one.relative) == (found.where, found.relative)
    ]
    if same:
        hint = "keep the larger threshold: the other one leaves out nothing more"
        scope.refuse(
            "E0207",
            f"`{what}` is given twice",
            tree.span,
            hint=hint if what == "below" else "keep one of the two",
            labels=(Label(same[0].span, "first given here"),),
        )
        return []
    return [found]


def _one_condition(scope: Scope, call: Call, bound: dict[str, object]) -> bool:
    """Whether a call says one thing (E0711)."""
    given = [name for name in CONDITIONS if name in bound]
    if len(given) == 1 and ("chance" in bound) == (given == ["error_above"]):
        return True
    if len(given) == 1:
        alone = given == ["error_above"]
        scope.refuse(
            "E0711",
            "`error_above` does not say with which `chance`" if alone else f"`chance` says nothing beside `{given[0]}`",
            call.span,
            because="noise has no largest size: any error can be exceeded, more or less seldom" if alone else None,
            hint="add `chance = 0.05`" if alone else "leave `chance` out: it belongs to `error_above`",
        )
        return False
    several = "write a `suppress` for each: a value is shown where none of them leaves it out"
    scope.refuse(
        "E0711",
        f"one `suppress` has {' and '.join(f'`{name}`' for name in given)}"
        if given
        else "`suppress` does not say which values are left out",
        call.span,
        because="whether one of them is enough, or all are needed, could be read either way" if given else None,
        hint=several if given else "add `below = 90`, `where = my_other_release`, or `error_above = 10, chance = 0.05`",
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
    edit = spelt(value, others) if isinstance(value, Name) and not itself else None
    scope.refuse("E0204", problem, value.span, hint=suggest("" if itself else where, others), edit=edit)
    return False
