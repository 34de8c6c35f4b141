"""What each mechanism measures, and what that tells about one user; found by being here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, SerializeAsAny

from policyc_check.kinds import find_kinds, load_kind
from policyc_check.mechanisms.mechanism import Derived, Mechanism, StepMechanism, StreamMechanism
from policyc_check.mechanisms.window_mechanism import WindowMechanism

__all__ = ["Accounted", "AnyMechanism", "Derived", "Mechanism", "StepMechanism", "StreamMechanism", "WindowMechanism"]

BASES: dict[str, type[Mechanism]] = {"step": StepMechanism, "stream": StreamMechanism, "window": WindowMechanism}


@cache
def kinds(accounting: str) -> dict[str, type[Mechanism]]:
    """All mechanisms that account so, by name."""
    return find_kinds("policyc_check.mechanisms", BASES[accounting])


def loader(kinds_of: Callable[[str], dict[str, type[Any]]]) -> Callable[[Any], Any]:
    """A validator that turns a mechanism's fields into its record, of the kinds that are given by `accounting`."""

    def load(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        accounting = value.get("accounting")
        if accounting == "none":
            return Derived.model_validate(value)
        return load_kind(lambda: kinds_of(accounting if accounting in ("stream", "window") else "step"))(value)

    return load


Kind = TypeVar("Kind", bound=Mechanism)
Accounted = SerializeAsAny[Annotated[Kind, BeforeValidator(loader(kinds))]]
"""A mechanism of a kind, read by its name."""

AnyMechanism = Accounted[Mechanism]
