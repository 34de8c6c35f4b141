"""A mechanism of a plan, whatever its kind."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from policyc_check.kinds import load_kind
from policyc_check.mechanisms.mechanism import (
    Derived,
    Mechanism,
    StepMechanism,
    step_mechanism_kinds,
    stream_mechanism_kinds,
)
from policyc_check.mechanisms.window_mechanism import WindowMechanism, window_mechanism_kinds

Budgeted = StepMechanism | WindowMechanism
"""Mechanisms whose steps have budgets: a plan gives them a schedule."""


def _load(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.get("accounting") == "none":
        return Derived.model_validate(value)
    if value.get("accounting") == "stream":
        return load_kind(stream_mechanism_kinds)(value)
    if value.get("accounting") == "window":
        return load_kind(window_mechanism_kinds)(value)
    return load_kind(step_mechanism_kinds)(value)


AnyMechanism = SerializeAsAny[Annotated[Mechanism, BeforeValidator(_load)]]
