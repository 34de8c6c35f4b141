"""A mechanism of a plan, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable
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


Kinds = Callable[[], dict[str, type[Any]]]


def loader(step: Kinds, stream: Kinds, window: Kinds) -> Callable[[Any], Any]:
    """A validator that turns a mechanism's fields into its record, of the kinds that are given by `accounting`."""

    def load(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if value.get("accounting") == "none":
            return Derived.model_validate(value)
        return load_kind({"stream": stream, "window": window}.get(str(value.get("accounting")), step))(value)

    return load


AnyMechanism = SerializeAsAny[
    Annotated[Mechanism, BeforeValidator(loader(step_mechanism_kinds, stream_mechanism_kinds, window_mechanism_kinds))]
]
