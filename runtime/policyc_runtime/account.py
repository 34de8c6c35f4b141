"""The account of a data set: what several plans on the same users may tell together. An append-only sqlite file.

A plan keeps its own promise, and knows nothing of others; what they tell adds up. A compilation **requests** what its
plan will tell; the first run of a plan **spends** it, once for every ledger, before any noise is drawn. Nothing is
entered that would take all plans together beyond the account's promise, however many ask at once: whoever enters
something is alone with the file. An entry carries the SHA-256 of the one before it and of its own content, and plans
are kept whole, so that anybody can add up again what they tell, without data.

An older copy of the file is found by each run of a plan whose spending is not in it. Whoever rewrites account and all
ledgers consistently is not found.
"""

from __future__ import annotations

import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from policyc_check.plan.plan import Plan
from policyc_runtime.account_bound import Bound
from policyc_runtime.account_entry import AccountEntry, chained
from policyc_runtime.account_file import (
    ALTERED,
    APPLICATION,
    FORMAT,
    REACH,
    REACHED,
    RESTORE,
    STATEMENTS,
    UNUSABLE,
    VERSION,
    begin_alone,
    connect,
    guarded,
    unusable,
)
from policyc_runtime.account_reader import AccountReader, account_plan
from policyc_runtime.errors import AccountError
from policyc_runtime.files import is_no_file, journal_file
from policyc_runtime.ledger_file import recovered
from policyc_runtime.ledger_seal import State


class Account(AccountReader):
    """An open account that things are entered in, or are not; use it in a `with` statement."""

    @classmethod
    def create(cls, path: str | Path, bound: Bound) -> None:
        """Begin the account of a data set; AccountError where there is a file already."""
        file = Path(path)
        file.touch()
        if file.stat().st_size > 0:  # an empty one is left where this was killed before
            there = "there is a file already"
            raise unusable(file, there, "name another file; one data set has one account")
        account = cls(file, connect(file, "rw"))
        with account, guarded(file), account._alone():
            for statement in (*STATEMENTS, *REACHED):
                account._connection.execute(statement)
            account._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            told = {"format": FORMAT, "version": VERSION, "account": secrets.token_hex(16)}
            told["bound"] = bound.model_dump_json()
            account._connection.executemany("INSERT INTO meta VALUES (?, ?)", list(told.items()))

    @classmethod
    def open(cls, path: str | Path, *, to_write: bool = True) -> Account:
        """Open an account and check it.

        Args:
            path: the file.
            to_write: whether something is to be entered; else the file is not changed.

        Raises:
            AccountError: missing, damaged, altered or busy.
        """
        file = Path(path)
        if not file.is_file() or file.stat().st_size == 0:
            remedy = "name the account's file, or restore it from a copy; where no plan was ever entered, begin one: "
            remedy += "`policyc account new FILE --dataset NAME --promise ...`"
            raise unusable(file, "there is no account here", remedy)
        if is_no_file(journal := journal_file(file)):
            raise unusable(journal, "it is a pipe, a socket or a device, and no file", "move it away, then run again")
        with guarded(file), tempfile.TemporaryDirectory() as folder:
            if to_write:
                return cls._looked_at(file, connect(file, "rw"))
            try:
                return cls._looked_at(file, connect(file, "ro"))
            except AccountError as error:  # what a killed run began has to be undone, by who may write
                if error.code != UNUSABLE or (copy := recovered(file, folder)) == file:
                    raise
                return cls._looked_at(file, connect(copy, "ro"))

    @classmethod
    def _looked_at(cls, path: Path, connection: sqlite3.Connection) -> Account:
        """An account as a connection has it, which may be to a copy of the one at a path."""
        account = cls(path, connection)
        try:
            with guarded(path), account._looking():
                account._read()
        except BaseException:
            connection.close()
            raise
        return account

    def request(self, plan: Plan) -> None:
        """Enter what a compiled plan will tell; nothing where it is there already.

        Raises:
            AccountError: it does not fit into the account, or would take it beyond its promise.
        """
        with guarded(self.path), self._alone():
            if plan.digest not in self.requested and all(entry.plan != plan.digest for entry in self.spent):
                self._enter(AccountEntry("requested", plan.digest, "", _now()), plan)

    def spend(self, plan: Plan, ledger: str, *, begun: bool) -> None:
        """Enter that a plan is run on a ledger; nothing where it is there already.

        Args:
            plan: what is run.
            ledger: the name of its ledger, which no other ledger has.
            begun: whether the ledger has entries, so that what it spends must be here.

        Raises:
            AccountError: this is an older copy of the account, or there is nothing left.
        """
        with guarded(self.path), self._alone():
            if any((entry.plan, entry.ledger) == (plan.digest, ledger) for entry in self.spent):
                return
            if begun:
                raise AccountError(
                    ALTERED,
                    "the account does not know of what this plan has released",
                    where=str(self.path),
                    because="the plan's ledger has steps whose noise was entered in an account before it was drawn; "
                    "this is an older copy of it, or another one",
                    help=f"name the account of the plan's first run; else {RESTORE}",
                )
            self._enter(AccountEntry("spent", plan.digest, ledger, _now()), plan)

    def reach(self, ledger: str, state: State, holds: Callable[[State], bool]) -> bool:
        """Keep how far a ledger is, before what was drawn on it is published.

        Args:
            ledger: its name.
            state: its own.
            holds: whether it was in a state once, as it has the entries of it.

        Returns:
            False where it never was in the state that is kept: a copy of it has gone another way. Nothing is kept then.
        """
        with guarded(self.path), self._alone():
            last = self.reached(ledger)
            if last is not None and not holds(last):
                return False
            if last != state:
                for statement in () if self._keeps_states else REACHED:
                    self._connection.execute(statement)
                self._connection.execute(REACH, (ledger, *state))
        return True

    def withdraw(self, digest: str) -> str:
        """Take back a request of which nothing was run; its plan's digest.

        Args:
            digest: the first digits of that, or the name of the plan's policy.

        Raises:
            AccountError: there is no such request, or several.
        """
        with guarded(self.path), self._alone():
            found = self._named(digest, self.requested)
            if len(found) != 1:
                spent = self._named(digest, {entry.plan for entry in self.spent})
                raise AccountError(
                    "E0895",
                    "several requests are named so" if found else "there is no such request",
                    where=str(self.path),
                    because="what was drawn cannot be taken back" if spent and not found else None,
                    help="`policyc account show FILE` lists requests; name one by the first digits of its digest",
                )
            self._append(AccountEntry("withdrawn", found[0], "", _now()))
        return found[0]

    def _named(self, digest: str, plans: Iterable[str]) -> list[str]:
        """Which of these plans have a digest that begins so, or else a policy of this name, or a directory named so."""
        listed, name = list(plans), digest.rstrip("/").removesuffix(".plan")
        found = [one for one in listed if digest and one.startswith(digest.lower())]
        return found or [one for one in listed if account_plan(self.plans[one]).policy.name == name]

    def reason_against(self, plan: Plan) -> str | None:
        """Why a plan cannot be added up with those of this account, or None."""
        spent = [entry.plan for entry in self.spent]  # this plan as well: on another ledger it may begin otherwise
        counted = [*spent, *(digest for digest in self.requested if digest != plan.digest)]
        first = next((entry.plan for entry in self.entries if entry.plan in counted), None)
        return self.bound.reason_against(plan, None if first is None else account_plan(self.plans[first]))

    def _enter(self, entry: AccountEntry, plan: Plan) -> None:
        """Add an entry if everything together stays within the promise."""
        reason = self.reason_against(plan)
        if reason is not None:
            raise AccountError(
                "E0893",
                "this plan cannot be added up with the others of its account",
                where=str(self.path),
                because=reason,
                help=f"name the account of data set `{plan.stream.dataset}`"
                if plan.stream.dataset not in {None, self.bound.dataset}
                else "keep one account for each kind of promise, and write policies on one data set alike",
            )
        taken = entry.what == "spent" and plan.digest in self.requested  # it is counted already
        charges = [*self.charges(), *([] if taken else [(plan, 1)])]
        if not self.bound.keeps(charges):
            before, alone, together = self.standing(), self.bound.spent([(plan, 1)]), self.bound.spent(charges)
            raise AccountError(
                "E0894",
                f"data set `{self.bound.dataset}` has not so much left",
                where=str(self.path),
                because=f"the plan tells {_amount(alone)}; of {self.bound.limit()} {_amount(before.spent)} are spent "
                f"and {_amount(before.requested)} requested. Whoever sees all releases learns what they tell together, "
                f"which would be {_amount(together)} {self.bound.unit()}",
                help="promise less in the policy, withdraw requests that will not be run (`policyc account show` lists "
                "them), or leave the data alone until its users are others",
            )
        if plan.digest not in self.plans:
            self.plans[plan.digest] = plan.to_json()
            self._connection.execute("INSERT INTO plan VALUES (?, ?)", (plan.digest, self.plans[plan.digest]))
        self._append(entry)

    def _append(self, entry: AccountEntry) -> None:
        number = len(self.entries) + 1
        self.hashes.append(chained(self._last(), number, entry, self.plans.get(entry.plan, "")))
        self.entries.append(entry)
        self._connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", (number, *entry, self.hashes[-1]))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else enters anything meanwhile; on disk when it ends, and nothing of it after an error."""
        self._connection.execute("PRAGMA synchronous = EXTRA")
        begin_alone(self._connection)
        try:
            if self._genesis:
                self._read()
            known = len(self.hashes)
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if len(self.hashes) > known:
                del self.entries[known:], self.hashes[known:]
            raise
        self._connection.execute("COMMIT")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _amount(value: float | None) -> str:
    return "more than can be said" if value is None else f"{value:.6g}"
