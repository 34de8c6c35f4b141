"""Records told apart by `name`, each in a module of its own, found by being in its package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from policyc_check.records import Record

Kind = TypeVar("Kind", bound=Record)


def find_kinds(package: str, base: type[Kind]) -> dict[str, type[Kind]]:
    """All records below `base` that modules of a package define, by the value of their `name` field."""
    found: dict[str, type[Kind]] = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, base) and kind.__module__ == module.name:
                name = kind.model_fields["name"].default
                found.update({name: kind} if isinstance(name, str) else {})
    return dict(sorted(found.items()))


def load_kind(kinds: Callable[[], dict[str, type[Kind]]]) -> Callable[[Any], Any]:
    """A validator that turns `{"name": ..., ...}` into the record of that name; ValueError for an unknown name."""

    def load(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kind = kinds().get(str(value.get("name")))
        if kind is None:
            raise ValueError(f"unknown name; known are {', '.join(kinds())}")
        return kind.model_validate(value)

    return load
