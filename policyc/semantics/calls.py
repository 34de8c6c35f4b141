"""Calls with their parameters: `user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policyc.diagnostics import Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.reading import Reader
from policyc.semantics.scope import Scope, spelt, suggest
from policyc.syntax.numerals import numeral_around, plain
from policyc.syntax.tree import Argument, Call, Name, Value

MEAN = "release a `sum(...)`, a `count(...)`, and `mean(my_sum, my_count)` of them, which costs no privacy"
STEP = "how often something is published is the stream's `step`; write `realtime`, `within` or `offline`"
MEANT = {
    **{("release", word): MEAN for word in ("average", "avg")},
    **{("deliver", word): STEP for word in ("hourly", "daily", "weekly", "monthly", "yearly")},
}
"""What to write for words that say clearly what was wanted."""
PROMISED = {"target", "participation"}
"""Statements whose kind is the promise: which one is meant is said by a person."""


@dataclass(frozen=True)
class Parameter:
    """One argument that a call takes.

    Args:
        name: as it is written before `=`.
        read: converts its value.
        example: what to write, for the help line when it is missing.
        required: whether leaving it out is an error.
        positional: whether it may (and does, usually) stand without its name.
        because: why a missing one is refused.
    """

    name: str
    read: Reader
    example: str
    required: bool = True
    positional: bool = False
    because: str | None = None


def kind_of(scope: Scope, value: Value | Call, known: Mapping[str, object], keyword: str) -> Call | None:
    """The call, when its name is known; a bare word counts as a call without arguments."""
    if isinstance(value, Name):
        value = Call(value.span, value, ())
    if not isinstance(value, Call):
        scope.refuse("E0208", f"`{keyword}` needs a call", value.span, hint=suggest("", known))
        return None
    if value.function.text in known:
        return value
    scope.refuse(
        "E0205",
        f"there is no kind of {keyword} called `{value.function.text}`",
        value.function.span,
        hint=MEANT.get((keyword, value.function.text)) or suggest(value.function.text, known),
        edit=None if (keyword, value.function.text) in MEANT or keyword in PROMISED else spelt(value.function, known),
    )
    return None


def bind(scope: Scope, call: Call, parameters: tuple[Parameter, ...]) -> dict[str, object] | None:
    """The call's arguments by name, converted; None after reporting everything that is wrong with them.

    An argument that was left out and is not required is absent.
    """
    given, complete = _pair(scope, call, parameters)
    report_missing = complete  # a misspelt name must not be reported as missing too
    result: dict[str, object] = {}
    for parameter in parameters:
        argument = given.get(parameter.name)
        if argument is not None:
            result[parameter.name] = parameter.read(scope, argument.value, parameter.name)
            complete = complete and result[parameter.name] is not None
        elif parameter.required:
            complete = False
            if report_missing:
                scope.refuse(
                    "E0206",
                    f"`{call.function.text}` does not say its `{parameter.name}`",
                    call.span,
                    because=parameter.because,
                    hint=f"add `{parameter.example}`",
                )
    return result if complete else None


def _pair(scope: Scope, call: Call, parameters: tuple[Parameter, ...]) -> tuple[dict[str, Argument], bool]:
    """Arguments by parameter name, and whether each one fitted a parameter."""
    places = [p for p in parameters if p.positional]
    names = [p.name for p in parameters]
    given: dict[str, Argument] = {}
    fits, numeral_end = True, 0
    for index, argument in enumerate(call.arguments):
        if argument.name is None and index < len(places):
            name = places[index].name
        elif argument.name is None and (around := numeral_around(scope.source.text, argument.span.start)):
            if argument.span.start >= numeral_end:
                numeral_end = _no_decimal(scope, *around)
            given = {name: known for name, known in given.items() if known.value.span.start < around[0].start}
            fits = False
            continue
        elif argument.name is None:
            hint = f"write `{names[0]} = {scope.quote(argument.span)}`, say" if names else "write it without arguments"
            fits = _unfit(scope, "E0208", f"`{call.function.text}` needs a name before this value", argument, hint)
            continue
        else:
            name = argument.name.text
        if name not in names:
            hint = suggest(name, names) if names else f"write `{call.function.text}()`"
            said = {other.name.text for other in call.arguments if other.name is not None}
            free = [known for known in names if known not in said]
            fits = _unfit(scope, "E0205", f"`{call.function.text}` takes no `{name}`", argument, hint, free)
        elif name in given:
            fits = False
            scope.refuse(
                "E0207",
                f"`{name}` is given twice",
                argument.span,
                hint="keep one of the two",
                labels=(Label(given[name].span, "first given here"),),
            )
        else:
            given[name] = argument
    return given, fits


def _no_decimal(scope: Scope, span: Span, written: str) -> int:
    """Reports a number with a comma in it, which is several values here; says where it ends."""
    meant = " or ".join(f"`{number}`" for number in plain(written)) or "a number such as `0.05`"
    message = f"`{written}` is several values: the sign of decimals is a point"
    scope.refuse("E0208", message, span, hint=f"write {meant}")
    return span.end


def _unfit(scope: Scope, code: str, message: str, argument: Argument, hint: str, known: Sequence[str] = ()) -> bool:
    span = argument.name.span if argument.name is not None else argument.span
    edit = None if argument.name is None else spelt(argument.name, known)
    scope.refuse(code, message, span, hint=hint, edit=edit)
    return False
