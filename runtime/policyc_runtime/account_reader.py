"""An account that is looked at: its entries, the plans that it keeps, what they tell together, and how far ledgers are.

What is entered is in `account.py`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from policyc_check.plan.plan import Plan, canonical_json
from policyc_runtime.account_bound import Bound, Standing, said
from policyc_runtime.account_entry import AccountEntry, chained
from policyc_runtime.account_file import (
    APPLICATION,
    BROKEN,
    EARLIER,
    FORMAT,
    REACHED,
    RESTORE,
    VERSION,
    altered,
    guarded,
    unusable,
)
from policyc_runtime.ledger_seal import State


class AccountReader:
    """An account as a connection has it; use it in a `with` statement.

    `entries` are in order, `plans` the texts of `plan.json` by digest; both as they were read last, and checked.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.entries: list[AccountEntry] = []
        self.hashes: list[str] = []
        self.plans: dict[str, str] = {}
        self._connection = connection
        self._bound: Bound | None = None
        self._genesis = ""
        self._keeps_states = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def bound(self) -> Bound:
        """What all plans together are held to."""
        assert self._bound is not None, "it was read"
        return self._bound

    @property
    def requested(self) -> list[str]:
        """Digests of the plans that were asked for, not withdrawn, and have not run."""
        found: dict[str, None] = {}
        for entry in self.entries:
            if entry.what == "requested":
                found[entry.plan] = None
            else:
                found.pop(entry.plan, None)
        return list(found)

    @property
    def spent(self) -> list[AccountEntry]:
        """The runs that drew noise, one a ledger."""
        return [entry for entry in self.entries if entry.what == "spent"]

    def charges(self, *, requested: bool = True) -> list[tuple[Plan, int]]:
        """The plans that were spent, each with how often; with those that were requested once more, if wanted."""
        digests = [entry.plan for entry in self.spent] + (self.requested if requested else [])
        return [(account_plan(self.plans[digest]), digests.count(digest)) for digest in dict.fromkeys(digests)]

    def standing(self) -> Standing:
        """What is spent, requested beside it, and left."""
        spent, together = self.bound.told(self.charges(requested=False)), self.bound.told(self.charges())
        limit = self.bound.limit()
        return Standing(
            None if together is None or spent is None else max(0.0, said(together - spent)),
            None if spent is None else said(spent),
            limit,
            0.0 if together is None else max(0.0, -said(together - Fraction(limit))),
        )

    def reached(self, ledger: str) -> State | None:
        """How far a ledger was when what was drawn on it was last published; None where that is not known."""
        if not self._keeps_states:
            return None
        asked = "SELECT entries, hash FROM reached WHERE ledger = ?"
        with guarded(self.path):
            found = self._connection.execute(asked, (ledger,)).fetchone()
        return None if found is None else State(*found)

    def _last(self) -> str:
        return self.hashes[-1] if self.hashes else self._genesis

    @contextmanager
    def _looking(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        yield
        self._connection.execute("COMMIT")

    def _read(self) -> None:
        """Read everything and check it: the file's form, and the chain."""
        try:
            self._take_in()
        except (TypeError, ValueError, AttributeError):  # text that is none, or a value that no account has
            raise unusable(self.path, BROKEN, RESTORE) from None

    def _take_in(self) -> None:
        if self._connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise unusable(self.path, "it is not an account", "name the account's file")
        found = {text for (text,) in self._connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        meta = dict(self._connection.execute("SELECT name, value FROM meta"))
        if (meta.get("format"), meta.get("version")) != (FORMAT, VERSION) or found not in (
            EARLIER,
            EARLIER | {*REACHED},
        ):
            raise unusable(self.path, "it was written by another version", "use the version that wrote it")
        self._keeps_states = found != EARLIER
        try:
            self._bound = Bound.model_validate_json(meta.get("bound", ""))
        except ValidationError:
            raise altered(self.path, "its promise") from None
        self._genesis = hashlib.sha256(canonical_json(meta)).hexdigest()
        self.plans = dict(self._connection.execute("SELECT digest, text FROM plan"))
        known = len(self.hashes)
        rows = self._connection.execute("SELECT * FROM entry WHERE number > ? ORDER BY number", (known,)).fetchall()
        for number, (stored, *fields, digest) in enumerate(rows, known + 1):
            entry = AccountEntry(*fields)
            text = self.plans.get(entry.plan)
            if stored != number or text is None or digest != chained(self._last(), number, entry, text):
                raise altered(self.path, f"entry {number}")
            self.entries.append(entry)
            self.hashes.append(digest)
        if unused := self.plans.keys() - {entry.plan for entry in self.entries}:
            raise altered(self.path, f"a plan that no entry names, {min(unused)[:16]}")


@lru_cache(maxsize=256)
def account_plan(text: str) -> Plan:
    """A plan that an account keeps, as far as privacy needs it."""
    return Plan.model_validate_json(text)
