"""What error is made small, and whose counts how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from policyc.diagnostics import Span
from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind
from policyc.semantics.scope import Scope, spelt, suggest
from policyc.syntax.tree import Call, CallStatement, Name, Value, WordStatement

OBJECTIVES = ("mean_squared_error", "mean_absolute_error")


@dataclass(frozen=True)
class Objective:
    """A mean over values; `weights` by release, 1 where none is said."""

    name: str
    weights: Mapping[str, Decimal] = field(default_factory=dict)
    span: Span | None = None


def resolve_objective(scope: Scope, statement: CallStatement | WordStatement) -> Objective | None:
    """The error, with the weights of releases: `mean_squared_error(counties = 2)`."""
    name, span = _word(statement)
    if name not in OBJECTIVES:
        hint, edit = suggest(name, OBJECTIVES), spelt(Name(span, name), OBJECTIVES)
        scope.refuse("E0205", f"there is no objective called `{name}`", span, hint=hint, edit=edit)
        return None
    if not isinstance(statement.value, Call):
        return Objective(name, {}, statement.span)
    written = dict.fromkeys(one.name.text for one in statement.value.arguments if one.name is not None)
    bound = bind(scope, statement.value, tuple(Parameter(word, _weight, f"{word} = 2") for word in written))
    weights = {word: value for word, value in (bound or {}).items() if isinstance(value, Decimal)}
    return None if bound is None else Objective(name, weights, statement.span)


def _word(statement: CallStatement | WordStatement) -> tuple[str, Span]:
    value = statement.value
    return (value.text, value.span) if isinstance(value, Name) else (value.function.text, value.span)


def _weight(scope: Scope, value: Value, what: str) -> Decimal | None:
    read = reading.number(scope, value, what)
    if read is None or Decimal("1e-6") <= read <= Decimal("1e6"):
        return read
    scope.refuse("E0209", f"the weight of `{what}` is `{scope.quote(value.span)}`, and must be from 1e-6 to 1e6",
                 value.span, hint=f"write `{what} = 2`, which counts its errors twice")  # fmt: skip
    return None
