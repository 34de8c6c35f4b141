"""What a run keeps of its data when later runs bring only new rows: a private file of the ledger's.

It holds protected data, for the owner alone: what each step counted, which has a file of its own (`taken_steps.py`),
and of events in which steps every user's part was kept (`kept_users.py`). A step is taken in once, before any of its
noise is drawn: so a run that breaks off anywhere finds its data again, and no user is kept in more steps than the
bound, however the stream is cut. Rows of steps that were taken in already are compared with what was taken, and change
nothing.

A run changes a copy, and puts it in the file's place. The ledger is told the SHA-256 of both before, so that a killed
run leaves one of two files that the ledger knows; a file that was altered otherwise is none of them. New steps are
added to their file before that, and are there once the copy says so.
"""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.files import PRIVATE_MODE, draft, is_full, place
from policyc_runtime.ledger_file import overtaken, policy_hash
from policyc_runtime.ledger_private import KEY_BYTES, file_mark, history_file, make_private
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.count_rows import Gaps, MissingCountsError
from policyc_runtime.sources.counts import read_counts
from policyc_runtime.sources.due_steps import due_steps
from policyc_runtime.sources.engines.session import DuckDBSession
from policyc_runtime.sources.events import count_events, load_events, users_of
from policyc_runtime.sources.faults import other_rows, unusable_history
from policyc_runtime.sources.kept_users import KEPT_USERS, KeptUsers
from policyc_runtime.sources.memory import Rows
from policyc_runtime.sources.names import other_names
from policyc_runtime.sources.participation import can_carry_on, measured_releases, sum_columns
from policyc_runtime.sources.step_counts import CountDigests, StepCounts, check_steps
from policyc_runtime.sources.tables import connect, open_table, reading
from policyc_runtime.taken_steps import TAKEN, Taken, TakenSteps

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from duckdb import DuckDBPyConnection

    from policyc_runtime.ledger import Ledger
    from policyc_runtime.plan import Plan

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


COUNTS = "counts"  # what `meta` has where ready counts were taken in


class History:
    """A copy of the file, open until it is closed; nothing is kept without `keep`."""

    def __init__(self, ledger: str | Path, plan: Plan, book: Ledger | None = None) -> None:
        """Open the history of a ledger, begun where there is none.

        Args:
            ledger: the ledger's file.
            plan: whose bound is kept.
            book: the same, opened for a run, which then knows the file; default none, for a history of its own.

        Raises:
            DataError: the plan's bound cannot be kept by going forward.
            LedgerError: the file is of another policy, or not what the ledger says.
        """
        if not can_carry_on(plan):
            raise DataError(
                "E0839",
                "this plan needs all rows of the stream at once",
                because="`keep_sample` chooses of all of a user's steps, those to come as well",
                help="give the whole history from step 0 on, without `--continued`",
            )
        self.path = history_file(ledger)
        self._plan = plan
        self._book = book
        self._found = ("", "") if book is None else book.history
        with ExitStack() as opened:
            self._copy = opened.enter_context(draft(make_private(self.path), PRIVATE_MODE))
            if self.path.exists():
                shutil.copyfile(self.path, self._copy)
            self._known = file_mark(self._copy) if self.path.exists() else ""
            if self._known and book is not None and self._known not in self._found:
                raise unusable_history(self.path, "it was altered, or put back from an older copy", plan)
            self._file = sqlite3.connect(self._copy, isolation_level=None)
            opened.callback(self._file.close)
            opening = self.path
            try:
                self._begin_or_check()
                opening = self.path.with_suffix(".steps")
                self._taken = TakenSteps(ledger, Taken.of_text(self._meta[TAKEN]))
                opened.callback(self._taken.close)
                if not self._taken.are_taken():
                    raise unusable_history(self._taken.path, "it was altered, or put back from an older copy", plan)
            except sqlite3.Error as error:
                if is_full(error) or "locked" in str(error):
                    raise
                raise unusable_history(opening, "it is damaged, or no such file", plan) from None
            self._opened = opened.pop_all()

    def _begin_or_check(self) -> None:
        self._file.execute("PRAGMA journal_mode = OFF")  # a copy that is not finished goes
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute("BEGIN")
        if not self._known:
            for statement in filter(None, map(str.strip, (SCHEMA + KEPT_USERS).split(";"))):
                self._file.execute(statement)
            self._set("policy", policy_hash(self._plan))
            self._set("key", secrets.token_hex(KEY_BYTES))
            self._set(TAKEN, Taken().text)
        self._meta = dict(self._file.execute("SELECT name, value FROM meta").fetchall())
        if self._meta.get("policy") != policy_hash(self._plan):
            raise unusable_history(self.path, "it belongs to another policy", self._plan)
        taken = Taken.of_text(self._meta.get(TAKEN, Taken().text))
        if TAKEN not in self._meta or (taken.steps and not {"names", COUNTS} & self._meta.keys()):
            raise unusable_history(self.path, "an earlier build wrote it, which kept it in another way", self._plan)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    @property
    def steps(self) -> int:
        """How many steps were taken in: 0, 1, ... without gaps."""
        return self._taken.steps

    def read(
        self,
        path: Rows,
        *,
        start: int | None,
        steps: int | None,
        zoned: bool = False,
        simulated: bool = False,
        spill: Path | None = None,
        since: Callable[[int], int] = lambda _: 0,
    ) -> StepCounts:
        """All steps, those of earlier runs and those that the file brings.

        Args:
            path: events, CSV or Parquet; steps that were taken in need not be there again.
            start: the moment of step 0 that was said, or that the ledger fixed.
            steps: through this many steps; default what `due_steps` says.
            zoned: whether the start was said with its zone.
            simulated: whether the events come from a seed.
            spill: a folder for what does not fit into memory.
            since: told how many steps there are, from which one on it is asked what they counted: those before have
                counts of 0, and no digest.

        Raises:
            DataError: the file cannot be used.
            LedgerError: rows of a step that was taken in have changed.
        """
        plan, done = self._plan, self.steps
        known = self._meta.get("start")
        connection = connect(spill)
        try:
            with open_table(connection, path) as table, reading(table.path):
                if COUNTS in self._meta:
                    raise other_rows(table.path, "ready counts", "events")
                _, names = users_of(table, plan)
                if self._meta.get("names", names) != names:
                    raise other_names(table.path, self._meta["names"], names)
                self._set("names", names)
                session = DuckDBSession(connection)
                # a refusal of no new rows, or of none in a listed cell, would tell of whoever is alone in them
                some = replace(table, checked=table.checked or done > 0)
                start = load_events(session, some, plan, start if known is None else int(known))
                calendar = calendar_of(plan, start)
                step = calendar.steps.sql("moment")
                rows = self._rows(connection, step)
                self._check_again(rows, done, table.path)
                total = steps
                if total is None:
                    occupied = np.array(sorted({*rows, *self._taken.with_rows()}), dtype=np.int64)
                    total = due_steps(plan, start, occupied, done, str(path), zoned=zoned, simulated=simulated)
                total = max(done, total)
                check_steps(plan, total, str(path), start)
                carried_on = plan.participation is not None and plan.participation.enforced is not None
                users = KeptUsers(self._file, self._meta["key"])
                if carried_on:
                    users.bring(session, table.path, calendar, done, folds=table.checked)
                first = done == 0 and not table.checked
                asked = range(done, total)
                new = count_events(session, str(path), plan, start, asked, first=first, carried_on=carried_on)
                self._take(new, rows, done)
                if carried_on:
                    users.take(connection, range(done, new.steps))
                    for name in ("participations", "events"):
                        self._set(name, str(int(self._meta.get(name, "0")) + (new.dropped or {}).get(name, 0)))
                users.forget(calendar, new.steps)
        finally:
            connection.close()
        return self.counted(start, steps, since(self.steps if steps is None else steps))

    def read_ready(
        self,
        path: Rows,
        *,
        start: int | None,
        steps: int | None,
        released: int = 0,
        zoned: bool = False,
        gaps: Gaps = "refuse",
        spill: Path | None = None,
        since: Callable[[int], int] = lambda _: 0,
    ) -> StepCounts:
        """The same of ready counts; `released`, `gaps` and `spill` are `at_least`, `gaps` and `spill` of `read_counts`.

        Where nothing was taken in before, these counts are all there is.
        """
        done, known = self.steps, self._meta.get("start")
        if done and COUNTS not in self._meta:
            raise other_rows(path, "events", "ready counts")
        self._set(COUNTS, "")
        start = start if known is None else int(known)
        total = None if steps is None else max(done, steps)
        try:
            new = read_counts(
                path,
                self._plan,
                start=start,
                steps=total,
                at_least=max(done, released),
                zoned=zoned,
                gaps=gaps,
                since=done,
                spill=None if done else spill,
            )
        except MissingCountsError:
            if not self._known and any(self._found):
                raise unusable_history(self.path, "it is not there any more", self._plan) from None
            raise
        assert isinstance(new.digests, CountDigests)
        self._check_again({step: new.digests[step] for step in new.digests.again}, done, path)
        self._take(new, None, done)
        if not done:
            return new
        return self.counted(start, steps, since(self.steps if steps is None else steps))

    def keep(self) -> None:
        """Put what was taken in in the file's place, which the ledger is told before and after.

        Raises:
            LedgerError: E0824, another run took in data since this one looked; nothing is kept.
        """
        if self._book is None:
            self._finish()
            place(self._copy, self.path)
            return
        with self._alone(self._book, self._found):
            changes = (self._known, self._finish())
            self._book.note_history(*changes)
        with self._alone(self._book, changes):
            if not self._taken.are_kept():  # a run that was killed before it told the ledger
                raise overtaken(self._book.path, "took in data")
            place(self._copy, self.path)
            self._book.note_history(changes[1], "")

    def _finish(self) -> str:
        """Put new steps on disk, and let the copy say so; its SHA-256."""
        self._set(TAKEN, self._taken.keep().text)
        self._file.execute("COMMIT")
        return file_mark(self._copy)

    @contextmanager
    def _alone(self, book: Ledger, found: tuple[str, str]) -> Iterator[None]:
        """Alone with the ledger, which knows these histories."""
        with book.transaction():
            if book.history != found:
                raise overtaken(book.path, "took in data")
            yield

    def _rows(self, connection: DuckDBPyConnection, step: str) -> dict[int, str]:
        """One keyed hash of all rows of each step that has any; `step` is SQL for that of a row."""
        values = "".join(f", ':', {name}" for name, _ in sum_columns(self._plan))
        found = connection.execute(
            f"SELECT {step} AS step, count(*), "
            f"sum(md5_number_lower(concat(?, person, ':', moment, ':', code{values}))) FROM event GROUP BY ALL",
            [self._meta["key"]],
        ).fetchall()
        return {int(at): f"{count}:{total}" for at, count, total in found}

    def _check_again(self, rows: dict[int, str], done: int, path: Rows) -> None:
        record = self._plan.participation
        users = "; what users may still do follows from them" if record is not None and record.enforced else ""
        for step in sorted(step for step in rows if step < done):
            if rows[step] != self._taken.rows_of(step):
                raise LedgerError(
                    "E0825",
                    f"the data of step {step} changed after it was taken in",
                    where=str(path),
                    because=f"{done:,} steps were taken in by earlier runs, each of them once{users}",
                    help="leave the rows of these steps out, or give them as they were; if the step was not over when "
                    "it was taken in, run on complete steps only next time: `--steps N`",
                )

    def _take(self, new: StepCounts, rows: dict[int, str] | None, done: int) -> None:
        """Write the new steps, and what tells their `rows`, None for their own digests; `keep` commits them."""
        if not done and new.start is not None:
            self._set("start", str(new.start))
        self._taken.add(new.counts, new.digests, rows)

    def counted(self, start: int | None, steps: int | None, since: int = 0) -> StepCounts:
        """What steps from `since` on counted, those before them 0."""
        until = max(since, self.steps if steps is None else min(steps, self.steps))
        cells = {part.name: len(part.cells) for part in measured_releases(self._plan)}
        counts, digests = self._taken.counted(cells, since, until)
        dropped = None
        if "participations" in self._meta:
            users = KeptUsers(self._file, self._meta["key"]).cut
            dropped = {"users": users, **{name: int(self._meta[name]) for name in ("participations", "events")}}
        return StepCounts(start, counts, digests, dropped)

    def _set(self, name: str, value: str) -> None:
        self._file.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
        if hasattr(self, "_meta"):
            self._meta[name] = value
