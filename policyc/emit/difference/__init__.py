"""What changed between two plans: in the promise, in what it rests on, in how accurate it will be.

Only the plans are read. What cannot be compared counts as weaker: whoever relied on the old promise must look again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from policyc.emit.difference.assumptions import compare_assumptions
from policyc.emit.difference.change import Change, Effect
from policyc.emit.difference.promise import compare_promises
from policyc.emit.difference.releases import compare_releases
from policyc.emit.numbers import counted
from policyc_runtime.plan import Plan

if TYPE_CHECKING:
    from policyc.emit.blocks.wording import Json

COMPARISONS: tuple[Callable[[Plan, Plan], Iterator[Change]], ...] = (
    compare_promises,
    compare_assumptions,
    compare_releases,
)


def compare_plans(old: Plan, new: Plan) -> list[Change]:
    """Every change, the ones that weaken the promise first."""
    changes = [change for compare in COMPARISONS for change in compare(old, new)]
    order = list(Effect)
    return sorted(changes, key=lambda change: order.index(change.effect))


def is_weaker(changes: Iterable[Change]) -> bool:
    """Whether any change weakens the promise."""
    return any(change.effect is Effect.WEAKER for change in changes)


def render_changes(changes: list[Change]) -> list[str]:
    """One line a change, and what they come to."""
    lines = [
        f"{change.effect.value:<9} {change.part:<12} {change.what}: {_shown(change.old)} -> {_shown(change.new)} "
        f"({change.reason})"
        for change in changes
    ]
    weaker = sum(change.effect is Effect.WEAKER for change in changes)
    if weaker:
        return [*lines, f"the promise got weaker, or may have: {counted(weaker, 'change')}"]
    return [*lines, "the promise did not get weaker" if changes else "nothing changed"]


def _shown(value: str | None) -> str:
    return "none" if value is None else value


def changes_json(changes: list[Change]) -> Json:
    """The same for programs."""
    return {
        "weaker": is_weaker(changes),
        "changes": [
            {
                "part": change.part,
                "what": change.what,
                "old": change.old,
                "new": change.new,
                "effect": change.effect.value,
                "reason": change.reason,
            }
            for change in changes
        ],
    }


__all__ = ["Change", "Effect", "changes_json", "compare_plans", "is_weaker", "render_changes"]
