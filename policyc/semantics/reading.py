"""Values of the tree as Python values: each reader converts one kind or reports why it cannot.

A reader takes the scope, the value and what it is for (`alpha`, in a message), and returns None after reporting.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from policyc.diagnostics import Edit, Span
from policyc.semantics.lengths import MONTH, Length
from policyc.semantics.scope import Scope, one_of, spelt, suggest
from policyc.syntax.spelling import UNITS_IN_WORDS
from policyc.syntax.tree import LONGEST_HORIZON, Call, Duration, Name, Number, Range, Sequence, Set, Steps, Text, Value

Reader = Callable[[Scope, Value, str], object]

LARGEST_POPULATION = 10**12
LARGEST_NUMBER = Decimal(10) ** 15
LONGEST_DURATION = 3_650_000  # days, which no calendar with years of four digits exceeds

UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AMBIGUOUS = {
    "m": "`m` could be minutes or months; write `{n}min`, or `{n}d` with the number of days",
    "mo": "months differ in length; write `month`, with a `clock` in the stream, or a number of days, such as `30d`",
    "y": "years differ in length; write a number of days, such as `365d`",
}


def _kind(value: Value) -> str:
    """What a value is, in plain words."""
    kinds: dict[type, str] = {
        Name: "a word", Text: "a text", Number: "a number", Duration: "a duration", Steps: "a number of steps",
        Range: "a range", Sequence: "a list", Set: "a set", Call: "a call",
    }  # fmt: skip
    return kinds.get(type(value), "a column of a stream")


def mismatch(
    scope: Scope, value: Value, what: str, expected: str, example: str, replacement: str | None = None
) -> None:
    """Reports a value of the wrong kind."""
    scope.refuse(
        "E0208",
        f"`{what}` needs {expected}, and `{scope.quote(value.span)}` is {_kind(value)}",
        value.span,
        hint=f"write {example}",
        edit=None if replacement is None else Edit(value.span, replacement),
    )


def _out_of_range(scope: Scope, span: Span, what: str, demand: str, hint: str, because: str | None = None) -> None:
    scope.refuse("E0209", f"`{what}` is `{scope.quote(span)}`, and must be {demand}", span, because=because, hint=hint)


def number(scope: Scope, value: Value, what: str) -> Decimal | None:
    """Any decimal of sensible size, exact."""
    if not isinstance(value, Number):
        mismatch(scope, value, what, "a number", f"`{what} = 1.0`")
        return None
    if abs(value.value) > LARGEST_NUMBER:
        _out_of_range(scope, value.span, what, "at most 1e15 in size", "write a smaller number")
        return None
    return value.value


def privacy_parameter(scope: Scope, value: Value, what: str) -> Decimal | None:
    """An alpha or epsilon: from 1e-12 to 1e6 nats, where the kernel's mathematics is exact to the last digits."""
    read = number(scope, value, what)
    if read is None or Decimal("1e-12") <= read <= Decimal("1e6"):
        return read
    reason = "a promise of zero or less allows nothing to be published" if read <= 0 else None
    _out_of_range(scope, value.span, what, "between 1e-12 and 1e6", f"write `{what} = 1.0`, say", reason)
    return None


def positive(scope: Scope, value: Value, what: str) -> Decimal | None:
    """A number above 0: a standard deviation."""
    read = number(scope, value, what)
    if read is None or read >= Decimal("1e-12"):
        return read
    _out_of_range(scope, value.span, what, "at least 1e-12", f"write `{what} = 120`, say")
    return None


def fraction(scope: Scope, value: Value, what: str) -> Decimal | None:
    """A number above 0 and at most 1: a rate or a weight."""
    read = number(scope, value, what)
    if read is None or 0 < read <= 1:
        return read
    _out_of_range(scope, value.span, what, "above 0 and at most 1", f"write `{what} = 0.5`, say")
    return None


def whole(scope: Scope, value: Value, what: str, most: int = LARGEST_POPULATION) -> int | None:
    """A whole number from 1 to `most`."""
    if isinstance(value, Steps):
        count = scope.quote(value.span).split()[0]
        mismatch(scope, value, what, "a whole number", f"`{what} = {count}`, without `steps`", count)
        return None
    if not isinstance(value, Number):
        mismatch(scope, value, what, "a whole number", "a number such as `1_000`")
        return None
    if value.value <= 0 or value.value > most or value.value != value.value.to_integral_value():
        _out_of_range(scope, value.span, what, f"a whole number from 1 to {most:_}", "write a number such as `1_000`")
        return None
    return int(value.value)


def step_count(scope: Scope, value: Value, what: str) -> int | None:
    """`12 steps`, from 1 to ten million; a duration gets the number of steps it would be."""
    if isinstance(value, Steps):
        if 1 <= value.count <= LONGEST_HORIZON:
            return value.count
        hint = "write `1 step` or more" if value.count < 1 else f"write `{LONGEST_HORIZON:_} steps`, or fewer"
        if what == "horizon" and value.count > 0:
            hint = f"write `horizon {LONGEST_HORIZON:_} steps`, or `horizon unbounded`"
        if what == "within" and value.count < 1:
            hint = "write `deliver realtime`"
        _out_of_range(scope, value.span, what, f"from 1 to {LONGEST_HORIZON:_} steps", hint)
        return None
    if isinstance(value, Duration):
        hint = _as_steps(scope, value)
        scope.refuse(
            "E0211",
            f"`{what}` is counted in steps, and `{scope.quote(value.span)}` is a duration",
            value.span,
            hint=hint,
            edit=Edit(value.span, hint.split("`")[1]) if hint.startswith("write `") else None,
        )
        return None
    example = f"`{scope.quote(value.span)} steps`" if isinstance(value, Number) and value.is_integer else "`12 steps`"
    mismatch(scope, value, what, "a number of steps", example)
    return None


def _as_steps(scope: Scope, value: Duration) -> str:
    """The help line that turns a duration into steps, when the stream's step is known."""
    length = UNITS.get(value.unit)
    if scope.step_milliseconds is None or length is None or not 0 < value.amount <= LARGEST_POPULATION:
        return "write a number of steps, such as `12 steps`"
    steps, rest = divmod(value.amount * length, scope.step_milliseconds)
    if rest or not steps:
        return f"`{value.amount}{value.unit}` is not a whole number of this stream's steps; write `{steps + 1} steps`"
    return f"write `{steps} steps`" if steps > 1 else "write `1 step`"


def duration(scope: Scope, value: Value, what: str) -> int | None:
    """`5min` in milliseconds."""
    if isinstance(value, Steps):
        scope.refuse(
            "E0211",
            f"`{what}` is a duration, and `{scope.quote(value.span)}` counts steps",
            value.span,
            hint="write how long a step is, such as `5min`" if what == "step" else "write how long it is, such as `1d`",
        )
        return None
    if not isinstance(value, Duration):
        example = "`5min`"
        if isinstance(value, Number) and value.is_integer:
            digits = scope.quote(value.span)
            example = f"the unit too: `{digits}s`, `{digits}min`, `{digits}h` or `{digits}d`"
        mismatch(scope, value, what, "a duration", example)
        return None
    if value.unit not in UNITS:
        _wrong_unit(scope, value)
        return None
    length = value.amount * UNITS[value.unit]
    if not 0 < length <= LONGEST_DURATION * UNITS["d"]:
        demand = f"longer than nothing and at most {LONGEST_DURATION:_}d, ten thousand years"
        _out_of_range(scope, value.span, what, demand, "write `5min`, say")
        return None
    return length


def length(scope: Scope, value: Value, what: str) -> Length | None:
    """A duration in milliseconds, or the word `month`."""
    if isinstance(value, Name) and value.text == MONTH:
        return MONTH
    if isinstance(value, Name):
        hint = "write `month`" if value.text in ("months", "monthly") else suggest(value.text, [MONTH])
        scope.refuse("E0205", f"`{what}` cannot be `{value.text}`", value.span, hint=hint)
        return None
    return duration(scope, value, what)


def written(milliseconds: Length) -> str:
    """A length as a policy writes it: `1d`, `month`."""
    if milliseconds == MONTH:
        return MONTH
    unit, size = max(((u, s) for u, s in UNITS.items() if milliseconds % s == 0), key=lambda pair: pair[1])
    return f"{milliseconds // size}{unit}"


def _wrong_unit(scope: Scope, value: Duration) -> None:
    shown = scope.quote(value.span)
    word = value.unit.lower()
    meant = UNITS_IN_WORDS.get(word.removesuffix("s"), word)
    ambiguous, digits = _AMBIGUOUS.get(meant), shown[: -len(value.unit)].strip() or "1"
    if ambiguous:
        scope.refuse(
            "E0210",
            f"the unit of `{shown}` is ambiguous",
            value.span,
            because="the length of a step decides how many values are published, and so how much is revealed",
            hint=ambiguous.format(n=digits),
        )
        return
    hint = f"did you mean `{digits}{meant}`?" if meant in UNITS else suggest(value.unit, UNITS)
    scope.refuse("E0210", f"`{shown}` has no unit that policyc knows", value.span, hint=hint)


def text(scope: Scope, value: Value, what: str) -> str | None:
    """A quoted string; it may be empty."""
    return _quoted(scope, value, what, f'{what} = "..."')


def field_text(scope: Scope, value: Value, what: str) -> str | None:
    """The same where a stream's field is said, without a `=`."""
    meant = json.dumps(value.text, ensure_ascii=False) if isinstance(value, Name) else '"..."'
    return _quoted(scope, value, what, f"{what} {meant}")


def _quoted(scope: Scope, value: Value, what: str, example: str) -> str | None:
    if isinstance(value, Text):
        return value.value
    mismatch(scope, value, what, "a text in quotes", f"`{example}`")
    return None


@dataclass(frozen=True)
class OneOf:
    """A reader of one of a few words; which one is `promised` is said by a person, however near it is spelt."""

    options: tuple[str, ...]
    promised: bool = False

    def __call__(self, scope: Scope, value: Value, what: str) -> str | None:
        """The word, or None after reporting."""
        if not isinstance(value, Name):
            mismatch(scope, value, what, "a word", one_of(self.options))
            return None
        if value.text in self.options:
            return value.text
        hint, edit = suggest(value.text, self.options), None if self.promised else spelt(value, self.options)
        scope.refuse("E0205", f"`{what}` cannot be `{value.text}`", value.span, hint=hint, edit=edit)
        return None


def word(*options: str, promised: bool = False) -> OneOf:
    """A reader of one of a few words."""
    return OneOf(options, promised)


def truth(scope: Scope, value: Value, what: str) -> bool | None:
    """`true` or `false`."""
    read = word("true", "false")(scope, value, what)
    return None if read is None else read == "true"


def column(scope: Scope, value: Value, what: str) -> str | None:
    """A column's name, bare or in quotes."""
    if isinstance(value, Name):
        return value.text
    if isinstance(value, Text) and value.value.strip():
        return value.value
    mismatch(scope, value, what, "a column", f"`{what} my_column`, or the column in quotes")
    return None
