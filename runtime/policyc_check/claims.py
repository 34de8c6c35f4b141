"""One claim, and whether it was found true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One line of a verification: what is claimed, and whether it holds; None when it was not checked.

    `detail`: what was recomputed, or why it does not hold; never raw data. `where`: in the file; `code`: of a failure.
    """

    name: str
    holds: bool | None
    detail: str
    where: str | None = None
    code: str = "E0801"
