"""One difference between two plans, and what it does to the promise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What a change does to the promise."""

    WEAKER = "weaker"
    STRONGER = "stronger"
    NEITHER = "changed"


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was.

    Args:
        part: promise, assumptions, release or accuracy.
        what: what changed, in the policy's words.
        old: how it was; None when it was not there.
        new: how it is; None when it is gone.
        effect: what that does to the promise.
        reason: why.
    """

    part: str
    what: str
    old: str | None
    new: str | None
    effect: Effect
    reason: str
