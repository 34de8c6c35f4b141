"""Altered plans of mechanisms that publish when values have moved, and of parts of a step: refused, or still kept.

Every field that privacy rests on is left out, and given numbers, texts and kinds that it may not have, in a plan with a
right digest. What the check believes all the same is held against all users, as in `test_every_user_of_windows.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from test_every_user_of_windows import compiled, promised, told

from policyc_check.errors import KernelError
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.refusal import verify

Place = tuple[str | int, ...]
OTHERS: dict[str, tuple[Any, ...]] = {
    "per": (1, 7, 43_199_999, 86_400_000, 2 * 86_400_000, "month", "12h", 43_200_000.5),
    "window": (1, 2, 3, 4, 10**6),
    "bound": (1, 2, 3, 4, 10**6),
    "per_step": (1, 2, 3, 10**6),
    "cells_per_step": (1, 2, 3, 10**6),
    "relation": ("replace_one", "add_or_remove_one"),
    "kind": ("user_level", "user_steps", "user_steps_rho", "w_event", "event_level", "alpha_dpt"),
    "name": ("budget_absorption", "budget_distribution", "laplace", "gaussian", "binomial"),
    "accounting": ("window", "stream", "step"),
    "horizon": (1, 2, 4, None),
    "low": ("-9",),  # whole numbers of units
    "high": ("9",),
    "grid": (),
    "step_milliseconds": (43_200_000, 2 * 86_400_000),
}
NO_NUMBERS = (None, "x", "", [], {}, "NaN", "Infinity")
ANYTHING = (*NO_NUMBERS, 0, -1, True, 2**63, "0", "-1", "1E-12", "1E+15", "1E+30", 1e300)
KINDS = (
    "several events",
    "several events, added",
    "two cells",
    "a sum by cell",
    "a part of a step",
    "a rho of a user",
    "a delta",
    "a part of a step, a sum",
    "who is absent, two windows",
    "who is absent, a part of a step",
)
NEAR = ("0.5", "0.999", "1.001", "2")


def privacy(content: dict[str, Any]) -> Iterator[Place]:
    """Where a plan says what its privacy rests on."""
    for start in (("targets",), ("participation",), ("stream", "horizon"), ("stream", "step_milliseconds")):
        yield from places(at(content, start), start)
    for index, release in enumerate(content["releases"]):
        for name in ("mechanism", "l1_sensitivity", "query", "schedule"):
            if name in release:
                yield from places(release[name], ("releases", index, name))


def places(value: Any, start: Place) -> Iterator[Place]:
    """A value, and all that it is made of."""
    yield start
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*start, key))


def at(content: Any, place: Place) -> Any:
    for key in place:
        content = content[key]
    return content


def altered(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Plans that differ in one place."""
    for place in privacy(content):
        old = at(content, place)
        clamp = place[-1] in ("low", "high", "grid")
        values = [*(NO_NUMBERS if clamp else ANYTHING), *OTHERS.get(str(place[-1]), ())]
        if not clamp and isinstance(old, str) and old.replace(".", "").isdigit() and Decimal(old):
            values += [str(Decimal(old) * Decimal(factor)) for factor in NEAR]
        for value in (*values, at):  # the last one stands for none
            copy = json.loads(json.dumps(content))
            inner = at(copy, place[:-1])
            if value is at:
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            yield copy


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_believed_of_an_altered_plan_is_kept(kind: str, tmp_path: Path) -> None:
    """One message for all that is refused; of the rest no user is told more than it promises."""
    plan = compiled(kind, f"budget_{'absorption' if KINDS.index(kind) % 2 else 'distribution'}", tmp_path)
    believed, refused = [], 0
    for content in altered(json.loads(plan.to_json())):
        try:
            read = Plan.model_validate_json(json.dumps(content)).sealed()
        except ValueError:
            (tmp_path / "plan.json").write_text(json.dumps(content))
            with pytest.raises(KernelError) as one:
                load_plan(tmp_path)
            assert one.value.code == "E0802"
            refused += 1
            continue
        try:
            verify(read)
            believed.append(read)
        except KernelError as error:
            assert error.help
            refused += 1
    assert refused > 4 * len(believed) > 0
    for read in believed:
        try:
            assert all(told(read, target) <= promised(target) * (1 + 1e-9) for target in read.targets)
        except KernelError as error:  # so much noise that none is drawn
            assert error.code == "E0831"
