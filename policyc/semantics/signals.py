"""The `signal` statement: how the released numbers move, for utility only."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import cast

from policyc.semantics import reading
from policyc.semantics.calls import Parameter
from policyc.semantics.files import read_text
from policyc.semantics.policy import Signal
from policyc.semantics.scope import Scope
from policyc.semantics.statements import Signature, read_call
from policyc.syntax.tree import Call, CallStatement, Sequence, Value

FEWEST_OF_A_PILOT = 8
MOST_NUMBERS = 200  # of a list, as of a plan's


def _pilot_file(scope: Scope, value: Value, what: str) -> tuple[Decimal, ...] | None:
    """The only series in a public file: one number a step, after a line of names if there is one.

    Columns of dates or words are none, and neither is one that counts the lines.
    """
    if not isinstance(value, Call) or value.function.text != "file":
        reading.mismatch(scope, value, what, "a file", '`pilot(file("last_year.csv"), evidence = "...")`')
        return None
    text = read_text(scope, value)
    if text is None:
        return None
    lines = [[word.strip() for word in line.split(",")] for line in text.splitlines() if line.strip()]
    columns = list(zip(*lines, strict=True)) if len({len(line) for line in lines}) == 1 else []
    found = [series for series in map(_series, columns) if series is not None]
    if len(found) > 1:
        scope.refuse(
            "E0212",
            "the pilot file has several columns of numbers",
            value.span,
            because="nobody can tell which of them moves like what is released",
            hint="leave the one that is meant, beside dates if there are any",
        )
        return None
    if not found:
        scope.refuse(
            "E0212",
            "the pilot file is no series of numbers",
            value.span,
            because=f"one of its columns must have one number a line, at least {FEWEST_OF_A_PILOT} of them",
            hint="write one line a step, with a date if you like and the value; the first line may have names",
        )
        return None
    return found[0]


def _numbers(scope: Scope, value: Value, what: str) -> tuple[Decimal, ...] | None:
    """A list of numbers, or a file of one a line."""
    example = f'`{what} = [0.5, 0.3]`, or `{what} = file("{what}.csv")` with one number a line'
    if isinstance(value, Call) and value.function.text == "file":
        text = read_text(scope, value)
        if text is None:
            return None
        lines = text.split()
        read = [_decimal(line) for line in lines]
        found = tuple(one for one in read if one is not None and abs(one) <= reading.LARGEST_NUMBER)
        if len(found) < len(lines):
            place = next(place for place, one in enumerate(read) if one is None or abs(one) > reading.LARGEST_NUMBER)
            scope.refuse(
                "E0212", f"`{lines[place][:40]}` in the file of `{what}` is no number up to 1e15", value.span,
                hint="write one number a line, without names",
            )  # fmt: skip
            return None
    elif isinstance(value, Sequence):
        items = [reading.number(scope, item, what) for item in value.items]
        found = tuple(item for item in items if item is not None)
        if len(found) < len(items):
            return None
    else:
        reading.mismatch(scope, value, what, "a list of numbers", example)
        return None
    if 1 <= len(found) <= MOST_NUMBERS:
        return found
    scope.refuse(
        "E0209", f"`{what}` has {len(found):,} numbers, and must have 1 to {MOST_NUMBERS}", value.span,
        because="what is estimated takes the square of their number at every step",
        hint=f"write {example}",
    )  # fmt: skip
    return None


def _series(column: tuple[str, ...]) -> tuple[Decimal, ...] | None:
    """The numbers of a column after its name, None where it has too few, others, or counts the lines."""
    numbers = [_decimal(word) for word in column]
    found = tuple(number for number in numbers[numbers[0] is None :] if number is not None)
    if len(found) < len(numbers) - (numbers[0] is None) or len(found) < FEWEST_OF_A_PILOT:
        return None
    return None if all(after - before == 1 for before, after in pairwise(found)) else found


def _decimal(word: str) -> Decimal | None:
    try:
        number = Decimal(word)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _evidence(what: str) -> Parameter:
    return Parameter(
        "evidence", reading.text, 'evidence = "where it is from"', because=f"{what} must be public knowledge"
    )


_OBSERVATION_NOISE = Parameter("observation_noise", reading.truth, "observation_noise = true", required=False)

SIGNALS: Signature = {
    "ar1": (
        Parameter("learned", reading.truth, "learned = true", required=False),
        Parameter("mean", reading.number, "mean = 900", required=False),
        Parameter("sd", reading.positive, "sd = 120", required=False),
        Parameter("autocorrelation", reading.number, "autocorrelation = 0.4", required=False),
        _OBSERVATION_NOISE,
        Parameter("evidence", reading.text, 'evidence = "..."', required=False),
    ),
    "ar": (
        Parameter("coefficients", _numbers, "coefficients = [0.5, 0.3]"),
        Parameter("sd", reading.positive, "sd = 120", because="it is that of the values, not of what is new in each"),
        Parameter("mean", reading.number, "mean = 900", required=False),
        Parameter("evidence", reading.text, 'evidence = "..."', required=False),
    ),
    "autocovariance": (
        Parameter("lags", _numbers, "lags = [14_400, 9_600, 4_800]",
                  because="the first is the variance of the values, the next ones are their covariances with those of "
                  "one, two and more steps later"),
        Parameter("mean", reading.number, "mean = 900", required=False),
        Parameter("evidence", reading.text, 'evidence = "..."', required=False),
    ),
    "binomial_ar1": (
        Parameter("mean", reading.number, "mean = 900"),
        Parameter("autocorrelation", reading.number, "autocorrelation = 0.4"),
        Parameter("evidence", reading.text, 'evidence = "..."', required=False),
    ),
    "seasonal_ar1": (
        Parameter("period", reading.step_count, "period = 7 steps"),
        Parameter("learned", reading.truth, "learned = true", required=False),
        Parameter("mean", reading.number, "mean = 900", required=False),
        Parameter("seasonal_sd", reading.positive, "seasonal_sd = 120", required=False),
        Parameter("residual_sd", reading.positive, "residual_sd = 40", required=False),
        Parameter("autocorrelation", reading.number, "autocorrelation = 0.4", required=False),
        _OBSERVATION_NOISE,
        Parameter("evidence", reading.text, 'evidence = "..."', required=False),
    ),
    "pilot": (Parameter("series", _pilot_file, 'file("last_year.csv")', positional=True), _evidence("a pilot series")),
}  # fmt: skip


def resolve_signal(scope: Scope, statement: CallStatement) -> Signal | None:
    """How the released numbers move; for utility only."""
    read = read_call(scope, statement, SIGNALS)
    return None if read is None else Signal(read[0], read[1], statement.span)


def with_population(scope: Scope, signal: Signal | None, population: int | None) -> Signal | None:
    """A binomial AR(1) process as the AR(1) process with the same first two moments, which is all that is used of it.

    Each of n users is counted with probability p, and is still or again so a step later, independently of all others:
    the mean is n p, the variance n p (1 - p) (E0223 where n is not known, or below the mean).
    """
    if signal is None or signal.kind != "binomial_ar1":
        return signal
    mean = cast(Decimal, signal.arguments["mean"])
    if scope.population_misread:
        return None
    if population is None or not 0 < mean < population:
        scope.refuse(
            "E0223",
            "a binomial process needs to know of how many users",
            signal.span,
            because="so many of the users of `population` are counted on average, and how far their number moves "
            "follows from both",
            hint="add `population 12_000` to the stream, above the mean, or write `ar1(mean = ..., sd = ..., "
            "autocorrelation = ...)`",
        )
        return None
    told = {name: value for name, value in signal.arguments.items() if value is not None}
    return Signal("ar1", {**told, "sd": (mean * (1 - mean / population)).sqrt()}, signal.span)
