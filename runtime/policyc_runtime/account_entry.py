"""An entry of an account, and the chain of hashes that ties each to all before it."""

from __future__ import annotations

import hashlib
from typing import Literal, NamedTuple

from policyc_check.plan.plan import canonical_json


class AccountEntry(NamedTuple):
    """What happened: a plan was `requested`, `withdrawn`, or `spent` by a run on a ledger (its name, else empty)."""

    what: Literal["requested", "withdrawn", "spent"]
    plan: str
    ledger: str
    moment: str


def chained(previous: str, number: int, entry: AccountEntry, text: str) -> str:
    """The SHA-256 of an entry, of its plan's text, and of the entry before it, hexadecimal."""
    plan = hashlib.sha256(text.encode()).hexdigest()
    return hashlib.sha256(previous.encode() + canonical_json([number, *entry, plan])).hexdigest()
