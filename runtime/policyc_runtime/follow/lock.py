"""One `follow` at a time on a plan's ledger: a lock that the system lets go when its process ends, however it does."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from policyc_runtime.errors import LedgerError
from policyc_runtime.files import PRIVATE_MODE
from policyc_runtime.ledger_file import BUSY, guarded
from policyc_runtime.ledger_private import make_private, private_file


@contextmanager
def followed_alone(ledger: Path) -> Iterator[None]:
    """Nobody else follows with this ledger meanwhile.

    Raises:
        LedgerError: E0824, somebody does.
    """
    with guarded(ledger):
        handle = os.open(make_private(private_file(ledger, "follow")), os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerError(
                BUSY,
                "this plan is being followed already",
                where=str(ledger),
                because="another `policyc follow` takes in its events; two of them would take in half of them each",
                help="end the other one first (SIGTERM ends it between steps)",
            ) from None
        yield
    finally:
        os.close(handle)
