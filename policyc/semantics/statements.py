"""The statements that are one call each: targets, participation, delivery, objective and wishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from policyc.offers import Offer, Option, budget_offers, estimator_offers, mechanism_offers
from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind, kind_of
from policyc.semantics.policy import Delivery, Participation, Wish
from policyc.semantics.scope import Scope
from policyc.semantics.targets import AlphaDPTTarget, EventLevelTarget, Target, UserLevelTarget, WEventTarget
from policyc.syntax.tree import Argument, Call, CallStatement, Value, WordStatement

Signature = Mapping[str, tuple[Parameter, ...]]

_EPSILON = Parameter("epsilon", reading.privacy_parameter, "epsilon = 1.0", because="it is the promise itself")
_NEIGHBORS = reading.word("add_remove", "replace", promised=True)

_ENFORCED = reading.word("keep_first", "keep_sample", promised=True)
_STEP_NEIGHBORS = Parameter("neighbors", _NEIGHBORS, "neighbors = replace", required=False)
_DELTA = Parameter("delta", reading.number, "delta = 1e-6", required=False)
_PER = Parameter("per", reading.length, "per = 1d", required=False)
_RHO = Parameter("rho", reading.privacy_parameter, "rho = 0.015", required=False)
_USER_NEIGHBORS = Parameter(
    "neighbors", _NEIGHBORS, "neighbors = add_remove",
    because="whether one user more, or another user instead, is hidden changes the noise by a factor",
)  # fmt: skip
OF_RHO = (
    _RHO,
    _USER_NEIGHBORS,
    Parameter("epsilon", reading.privacy_parameter, "", required=False),
    Parameter("delta", reading.number, "", required=False),
    _PER,
)

TARGETS: Signature = {
    "alpha_dpt": (
        Parameter("alpha", reading.privacy_parameter, "alpha = 1.0", because="it is the promise itself"),
        Parameter("window", reading.step_count, "window = 1 step", required=False),
        _STEP_NEIGHBORS,
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
    "event_level": (_EPSILON, _DELTA, _STEP_NEIGHBORS),
    "w_event": (
        _EPSILON,
        Parameter("window", reading.step_count, "window = 12 steps", because="it says what is protected together"),
        _DELTA,
        _STEP_NEIGHBORS,
    ),
}  # fmt: skip

PARTICIPATION: Signature = {
    "at_most": (
        Parameter("steps", reading.step_count, "50 steps", positional=True,
                  because="the noise grows with the number of steps one user takes part in"),
        _PER,
        Parameter("per_step", reading.whole, "per_step = 1", required=False),
        Parameter("cells_per_step", reading.whole, "cells_per_step = 10", required=False),
        Parameter("spacing", reading.step_count, "spacing = 1 step", required=False),
        Parameter("enforced", _ENFORCED, "enforced = keep_first", required=False),
        Parameter("assumed", reading.text, 'assumed = "why this holds"', required=False),
    ),
}  # fmt: skip


DELIVERIES: Signature = {
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


def wishes(keyword: str) -> Signature:
    """What a statement may name: `auto`, and what is offered."""
    return {"auto": (), **{name: tuple(map(_parameter, offer.options)) for name, offer in _OFFERS[keyword]().items()}}


def read_call(
    scope: Scope, statement: CallStatement | WordStatement, known: Signature
) -> tuple[str, dict[str, object]] | None:
    """The kind that a statement names, and its arguments."""
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
    read = read_call(scope, statement, TARGETS if beside is None else {**TARGETS, "user_level": OF_RHO})
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
    read = read_call(scope, statement, PARTICIPATION)
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


def resolve_delivery(scope: Scope, statement: CallStatement | WordStatement) -> Delivery | None:
    """When values are published."""
    read = read_call(scope, statement, DELIVERIES)
    if read is None:
        return None
    delay = read[1].get("within")
    return Delivery(read[0], delay if isinstance(delay, int) else None, statement.span)  # type: ignore[arg-type]


def resolve_wish(scope: Scope, statement: CallStatement) -> Wish | None:
    """A `budget`, `mechanism` or `estimate` statement."""
    known = dict(wishes(statement.keyword.text))
    if statement.keyword.text == "budget" and isinstance(statement.value, Call):  # parts have the names of releases
        names = dict.fromkeys(a.name.text for a in statement.value.arguments if a.name is not None)
        known["parts"] = tuple(Parameter(name, reading.privacy_parameter, f"{name} = 0.5") for name in names)
    read = read_call(scope, statement, known)
    return None if read is None else Wish(read[0], read[1], statement.span)
