"""One claim, and whether it was found true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One line of a verification.

    Args:
        name: what is claimed, in plain words.
        holds: True, False, or None when it was not checked.
        detail: what was recomputed, or why it does not hold or was not checked; never raw data.
        where: the place in the file that was checked, and `code` the diagnostic code when it does not hold.
    """

    name: str
    holds: bool | None
    detail: str
    where: str | None = None
    code: str = "E0801"
