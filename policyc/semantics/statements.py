"""The statements that are one call each: targets, participation, signal, delivery, objective and wishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import cast

from policyc.offers import Offer, Option, budget_offers, estimator_offers, mechanism_offers
from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind, kind_of
from policyc.semantics.files import read_text
from policyc.semantics.policy import (
    AlphaDPTTarget,
    Delivery,
    EventLevelTarget,
    Participation,
    Signal,
    Target,
    UserLevelTarget,
    WEventTarget,
    Wish,
)
from policyc.semantics.scope import Scope
from policyc.syntax.tree import Argument, Call, CallStatement, Value, WordStatement

Signature = Mapping[str, tuple[Parameter, ...]]

FEWEST_OF_A_PILOT = 8

_EPSILON = Parameter("epsilon", reading.privacy_parameter, "epsilon = 1.0", because="it is the promise itself")
_NEIGHBORS = reading.word("add_remove", "replace")

_PER = Parameter("per", reading.length, "per = 1d", required=False)
_RHO = Parameter("rho", reading.privacy_parameter, "rho = 0.015", required=False)
_USER_NEIGHBORS = Parameter(
    "neighbors", _NEIGHBORS, "neighbors = add_remove",
    because="whether one user more, or another user instead, is hidden changes the noise by a factor",
)  # fmt: skip
_OF_RHO = (
    _RHO,
    _USER_NEIGHBORS,
    Parameter("epsilon", reading.privacy_parameter, "", required=False),
    Parameter("delta", reading.number, "", required=False),
    _PER,
)

_TARGETS: Signature = {
    "alpha_dpt": (
        Parameter("alpha", reading.privacy_parameter, "alpha = 1.0", because="it is the promise itself"),
        Parameter("window", reading.step_count, "window = 1 step", required=False),
        Parameter("neighbors", _NEIGHBORS, "neighbors = replace", required=False),
    ),
    "user_level": (
        _EPSILON,
        Parameter("delta", reading.number, "delta = 1e-6",
                  because="Gaussian noise keeps a promise that may fail with probability delta, and `delta = 0` is for "
                  "Laplace noise alone"),
        _USER_NEIGHBORS,
        _PER,
        _RHO,
    ),
    "event_level": (_EPSILON,),
    "w_event": (
        _EPSILON,
        Parameter("window", reading.step_count, "window = 12 steps", because="it says what is protected together"),
    ),
}  # fmt: skip

_PARTICIPATION: Signature = {
    "at_most": (
        Parameter("steps", reading.step_count, "50 steps", positional=True,
                  because="the noise grows with the number of steps one user takes part in"),
        _PER,
        Parameter("per_step", reading.whole, "per_step = 1", required=False),
        Parameter("cells_per_step", reading.whole, "cells_per_step = 10", required=False),
        Parameter("spacing", reading.step_count, "spacing = 1 step", required=False),
        Parameter("enforced", reading.word("keep_first", "keep_sample"), "enforced = keep_first", required=False),
        Parameter("assumed", reading.text, 'assumed = "why this holds"', required=False),
    ),
}  # fmt: skip


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

_SIGNALS: Signature = {
    "ar1": (
        Parameter("learned", reading.truth, "learned = true", required=False),
        Parameter("mean", reading.number, "mean = 900", required=False),
        Parameter("sd", reading.number, "sd = 120", required=False),
        Parameter("autocorrelation", reading.number, "autocorrelation = 0.4", required=False),
        _OBSERVATION_NOISE,
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
        Parameter("seasonal_sd", reading.number, "seasonal_sd = 120", required=False),
        Parameter("residual_sd", reading.number, "residual_sd = 40", required=False),
        Parameter("autocorrelation", reading.number, "autocorrelation = 0.4", required=False),
        _OBSERVATION_NOISE,
        Parameter("evidence", reading.text, 'evidence = "..."', required=False),
    ),
    "pilot": (Parameter("series", _pilot_file, 'file("last_year.csv")', positional=True), _evidence("a pilot series")),
}

_DELIVERIES: Signature = {
    "realtime": (),
    "within": (Parameter("within", reading.step_count, "12 steps", positional=True),),
    "offline": (),
}

_READERS: Mapping[str, reading.Reader] = {
    "whole": reading.whole,
    "number": reading.number,
    "fraction": reading.fraction,
    "truth": reading.truth,
    "steps": reading.step_count,
}


def _parameter(option: Option) -> Parameter:
    read = _READERS[option.reads] if isinstance(option.reads, str) else reading.word(*option.reads)
    return Parameter(option.name, read, option.example, required=option.required)


_OFFERS: Mapping[str, Callable[[], Mapping[str, Offer]]] = {
    "budget": budget_offers,
    "mechanism": mechanism_offers,
    "estimate": estimator_offers,
}


def _wishes(keyword: str) -> Signature:
    """What a statement may name: `auto`, and what is offered."""
    return {"auto": (), **{name: tuple(map(_parameter, offer.options)) for name, offer in _OFFERS[keyword]().items()}}


def _call(
    scope: Scope, statement: CallStatement | WordStatement, known: Signature
) -> tuple[str, dict[str, object]] | None:
    keyword = statement.keyword.text
    call = kind_of(scope, statement.value, known, keyword)
    if call is None:
        return None
    bound = bind(scope, call, known[call.function.text])
    return None if bound is None else (call.function.text, bound)


def resolve_target(scope: Scope, statement: CallStatement) -> Target | None:
    """One promise."""
    beside = _beside_rho(statement.value)
    for argument in beside or ():
        what = argument.name.text if argument.name is not None else ""
        scope.refuse(
            "E0312",
            f"`{what}` stands beside `rho`",
            argument.span,
            because="rho stands in place of both epsilon and delta: it says for every delta which epsilon is kept, and "
            "the certificate lists some",
            hint=f"leave `{what}` out, or promise `user_level(epsilon = ..., delta = ..., neighbors = ...)`",
        )
    read = _call(scope, statement, _TARGETS if beside is None else {**_TARGETS, "user_level": _OF_RHO})
    if read is None or beside:
        return None
    kind, arguments = read
    made = {
        "alpha_dpt": AlphaDPTTarget,
        "user_level": UserLevelTarget,
        "event_level": EventLevelTarget,
        "w_event": WEventTarget,
    }[kind]
    return cast(Target, made(span=statement.span, **arguments))


def _beside_rho(value: Value | Call) -> list[Argument] | None:
    """The arguments of a promise of rho that have no place beside it; None where no rho is promised."""
    arguments = value.arguments if isinstance(value, Call) and value.function.text == "user_level" else ()
    named = {argument.name.text: argument for argument in arguments if argument.name is not None}
    return [named[name] for name in ("epsilon", "delta") if name in named] if "rho" in named else None


def resolve_participation(scope: Scope, statement: CallStatement) -> Participation | None:
    """How many steps one user can take part in (E0503 when it is not said how that is known)."""
    read = _call(scope, statement, _PARTICIPATION)
    if read is None:
        return None
    arguments = {"per_step": 1, "spacing": 1, "enforced": None, "assumed": None, **read[1]}
    given = [name for name in ("enforced", "assumed") if arguments[name] is not None]
    if len(given) == 1 and (given == ["enforced"] or str(arguments["assumed"]).strip()):
        return Participation(span=statement.span, **arguments)  # type: ignore[arg-type]  # read by its parameters
    problem = "both enforced and assumed" if len(given) == 2 else "neither enforced nor assumed"
    scope.refuse(
        "E0503",
        f"the participation bound is {problem}",
        statement.span,
        because="an enforced bound holds for everybody; an assumed one holds only while the assumption does, and the "
        "certificate must say which",
        hint='write `enforced = keep_first`, or `assumed = "why this holds"`, and not both',
    )
    return None


def resolve_signal(scope: Scope, statement: CallStatement) -> Signal | None:
    """How the released numbers move; for utility only."""
    read = _call(scope, statement, _SIGNALS)
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


def resolve_delivery(scope: Scope, statement: CallStatement | WordStatement) -> Delivery | None:
    """When values are published."""
    read = _call(scope, statement, _DELIVERIES)
    if read is None:
        return None
    delay = read[1].get("within")
    return Delivery(read[0], delay if isinstance(delay, int) else None, statement.span)  # type: ignore[arg-type]


def resolve_wish(scope: Scope, statement: CallStatement) -> Wish | None:
    """A `budget`, `mechanism` or `estimate` statement."""
    known = dict(_wishes(statement.keyword.text))
    if statement.keyword.text == "budget" and isinstance(statement.value, Call):  # parts have the names of releases
        names = dict.fromkeys(a.name.text for a in statement.value.arguments if a.name is not None)
        known["parts"] = tuple(Parameter(name, reading.privacy_parameter, f"{name} = 0.5") for name in names)
    read = _call(scope, statement, known)
    return None if read is None else Wish(read[0], read[1], statement.span)
