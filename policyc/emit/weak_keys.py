"""Public ed25519 keys under which any text has a signature, so that signatures say nothing.

Source: RFC8032
"""

from __future__ import annotations

PRIME = 2**255 - 19
LOW_ORDER = frozenset(
    {
        0,
        1,
        PRIME - 1,
        2707385501144840649318225287225658788936804267575313519463743609750303402022,
        55188659117513257062467267217118295137698188065244968500265048394206261417927,
    }
)
"""The y coordinates of the eight points whose eightfold is the neutral one."""


def is_weak(public: bytes) -> bool:
    """Whether a key of 32 bytes is a point of low order, or not written in its one way."""
    y = int.from_bytes(public, "little") & (2**255 - 1)
    return y >= PRIME or y in LOW_ORDER
