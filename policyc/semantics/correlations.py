"""Correlations: how one user moves, as public knowledge."""

from __future__ import annotations

from typing import Literal

from policyc.semantics import reading
from policyc.semantics.calls import Parameter, bind, kind_of
from policyc.semantics.matrices import read_matrix, read_vector, report_learned
from policyc.semantics.policy import MarkovCorrelation, NoCorrelation, Vector
from policyc.semantics.scope import Scope, suggest
from policyc.syntax.tree import Call, Correlation, Name, Text, Value

KINDS = {"markov": (), "none": ()}


def resolve_correlation(
    scope: Scope, tree: Correlation, states: tuple[str, ...] | None
) -> MarkovCorrelation | NoCorrelation | None:
    """One correlation, or None after reporting.

    Args:
        scope: collects the findings.
        tree: the statement.
        states: the stream's states; None when it has no cell or is broken, and the number of rows is then free.
    """
    call = kind_of(scope, tree.call, KINDS, "correlation")
    if call is None:
        return None
    learned = [a for a in call.arguments if a.name is not None and a.name.text == "learned"]
    for argument in learned:
        report_learned(scope, argument.span)
    if learned:
        return None
    group = None if tree.group is None else tree.group.text if isinstance(tree.group, Name) else tree.group.value
    bound = bind(scope, call, chain_parameters(call.function.text, states))
    evidence = _evidence(scope, call)
    if bound is None or evidence is None:
        return None
    if call.function.text == "none":
        return NoCorrelation(group, evidence, tree.span)
    if "forward" not in bound and "backward" not in bound:
        scope.refuse(
            "E0411",
            "the chain has no matrix",
            call.span,
            because="without it nothing is known about how a user moves, and no leakage can be computed",
            hint='add `forward = [[0.8, 0.2], [0.1, 0.9]]`, or `forward = file("transitions.csv")`',
        )
        return None
    return MarkovCorrelation(
        group=group,
        forward=bound.get("forward"),  # type: ignore[arg-type]  # read by its parameter, here and below
        backward=bound.get("backward"),  # type: ignore[arg-type]
        initial=bound.get("initial"),  # type: ignore[arg-type]
        evidence=evidence,
        span=tree.span,
        share=bound.get("share"),  # type: ignore[arg-type]
        amounts=bound.get("amounts"),  # type: ignore[arg-type]
    )


def chain_parameters(kind: str, states: tuple[str, ...] | None) -> tuple[Parameter, ...]:
    """What a correlation of a kind takes, between these states."""
    evidence = Parameter("evidence", _any_text, "", required=False)
    if kind == "none":
        return (evidence,)

    def matrix(scope: Scope, value: Value, what: str) -> object | None:
        return read_matrix(scope, value, what, states)

    def initial(scope: Scope, value: Value, what: str) -> Literal["stationary"] | Vector | None:
        if not isinstance(value, Name):
            return read_vector(scope, value, what, states)
        if value.text == "stationary":
            return "stationary"
        scope.refuse(
            "E0205", f"`initial` cannot be `{value.text}`", value.span, hint=suggest(value.text, ["stationary"])
        )
        return None

    return (
        Parameter("forward", matrix, "forward = ...", required=False),
        Parameter("backward", matrix, "backward = ...", required=False),
        Parameter("initial", initial, "initial = stationary", required=False),
        Parameter("share", reading.fraction, "share = 0.3", required=False),
        Parameter("amounts", reading.word("by_cell", promised=True), "amounts = by_cell", required=False),
        evidence,
    )


def _any_text(scope: Scope, value: Value, what: str) -> str | None:
    return reading.text(scope, value, what)


def _evidence(scope: Scope, call: Call) -> str | None:
    """What vouches for the chain; it must be said (E0409)."""
    given = [a for a in call.arguments if a.name is not None and a.name.text == "evidence"]
    value = given[0].value if given else None
    if value is not None and not isinstance(value, Text):
        return None  # reported when it was bound
    if value is not None and value.value.strip():
        return value.value
    scope.refuse(
        "E0409",
        "nothing says where this correlation is known from",
        call.span if value is None else value.span,
        because="the promise holds only while users move as stated, and the certificate names who vouches for that",
        hint='add `evidence = "..."` with the public source',
    )
    return None
