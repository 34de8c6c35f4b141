"""What every statement may name, with the parameters of each: editors offer them while a policy is written."""

from __future__ import annotations

from collections.abc import Mapping

from policyc.offers import Offer, budget_offers, estimator_offers, mechanism_offers
from policyc.semantics import reading
from policyc.semantics.calls import Parameter
from policyc.semantics.correlations import KINDS, chain_parameters
from policyc.semantics.made import MADE_QUERIES, MEDIAN
from policyc.semantics.objective import OBJECTIVES
from policyc.semantics.releases import QUERIES
from policyc.semantics.signals import SIGNALS
from policyc.semantics.statements import DELIVERIES, PARTICIPATION, TARGETS, Signature, wishes
from policyc.semantics.suppressions import SUPPRESS


def signatures() -> Mapping[str, Signature]:
    """By the keyword of a statement: everything it may name, with what that takes."""
    return {
        "release": {**QUERIES, **MADE_QUERIES},
        "target": TARGETS,
        "participation": PARTICIPATION,
        "correlation": {kind: chain_parameters(kind, None) for kind in KINDS},
        "signal": SIGNALS,
        "deliver": DELIVERIES,
        "objective": dict.fromkeys(OBJECTIVES, ()),
        **{keyword: wishes(keyword) for keyword in ("budget", "mechanism", "estimate")},
        "postprocess": {"suppress": SUPPRESS},
    }


def parameters_of(keyword: str, function: str) -> tuple[Parameter, ...]:
    """Those of a call in a statement; none of what is not known."""
    if keyword == "release" and function == "median":
        return MEDIAN
    return signatures().get(keyword, {}).get(function, ())


def words_of(parameter: Parameter) -> tuple[str, ...]:
    """What may stand for a parameter: its words, or the value of its example."""
    if isinstance(parameter.read, reading.OneOf):
        return parameter.read.options
    if parameter.read is reading.truth:
        return ("true", "false")
    value = parameter.example.partition(" = ")[2]
    return () if value in ("", "...") else (value,)


def offer_of(keyword: str, name: str) -> Offer | None:
    """The offer that a statement names, if it names one."""
    offers: dict[str, Mapping[str, Offer]] = {
        "budget": budget_offers(),
        "mechanism": mechanism_offers(),
        "estimate": estimator_offers(),
    }
    return offers.get(keyword, {}).get(name)
