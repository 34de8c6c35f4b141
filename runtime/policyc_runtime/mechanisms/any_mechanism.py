"""A mechanism of a plan, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, SerializeAsAny

from policyc_check.mechanisms import Mechanism, loader
from policyc_runtime.mechanisms.mechanism import StepMechanism, mechanism_kinds, stream_mechanism_kinds
from policyc_runtime.mechanisms.window_mechanism import WindowMechanism, window_mechanism_kinds

BudgetMechanism = StepMechanism | WindowMechanism
"""Mechanisms whose steps have budgets: a plan gives them a schedule."""

Kinds = Callable[[], dict[str, type[Any]]]


def kinds(accounting: str) -> dict[str, type[Any]]:
    """All mechanisms that account so, by name."""
    found: dict[str, Kinds] = {"stream": stream_mechanism_kinds, "window": window_mechanism_kinds}
    return found.get(accounting, mechanism_kinds)()


Kind = TypeVar("Kind", bound=Mechanism)
Accounted = SerializeAsAny[Annotated[Kind, BeforeValidator(loader(kinds))]]
AnyMechanism = Accounted[Mechanism]
