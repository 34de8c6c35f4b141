"""In which steps every user's part was kept, for runs that are given new events alone: tables of a private file.

Users are told by a keyed hash of what their names say (`names.py`), with one of the name where it is written in another
way. Whatever was kept in periods that are over is forgotten.
"""
# ruff: noqa: S608  SQL is put together from whole numbers only

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.sources.calendar import Calendar
from policyc_runtime.sources.engines.session import DuckDBSession
from policyc_runtime.sources.faults import first_row
from policyc_runtime.sources.memory import Place
from policyc_runtime.sources.names import written_twice

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KEPT_USERS = """
CREATE TABLE kept (person TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (person, step)) WITHOUT ROWID;
CREATE TABLE cut (person TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE written (person TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
"""


class KeptUsers:
    """The tables of `KEPT_USERS` in a file.

    Args:
        file: open, in a transaction.
        key: of the hashes.
    """

    def __init__(self, file: sqlite3.Connection, key: str) -> None:
        self._file, self._key = file, key

    @property
    def cut(self) -> int:
        """How many users had a part that was not counted."""
        return int(self._file.execute("SELECT count(*) FROM cut").fetchone()[0])

    def bring(self, session: DuckDBSession, path: Place, calendar: Calendar, done: int, *, folds: bool) -> None:
        """The table `before` of steps in which users of new rows were kept already.

        `folds`: whoever read the rows takes all ways to write a name for one user, as names of no later row can be
        mended, and a refusal would tell that this user came.

        Raises:
            DataError: a user's name is written in another way than in an earlier run.
        """
        connection = session.connection
        people = connection.execute(
            f"SELECT id, md5(concat($1, folded)), md5(concat($1, name)) FROM person WHERE last >= {done}",
            [self._key],
        ).fetchall()
        self._file.execute("CREATE TEMP TABLE asked (id INTEGER PRIMARY KEY, person TEXT NOT NULL, name TEXT NOT NULL)")
        self._file.executemany("INSERT INTO asked VALUES (?, ?, ?)", people)
        others = self._file.execute(
            "SELECT id FROM asked LEFT JOIN written USING (person) WHERE asked.name <> coalesce(written.name, person) "
            "AND EXISTS (SELECT 1 FROM kept WHERE kept.person = asked.person)"
        ).fetchall()
        if others and not folds:
            row = first_row(session, [user for (user,) in others])
            raise written_twice(path, row, "in an earlier run")
        found = self._file.execute("SELECT id, step FROM asked JOIN kept USING (person)").fetchall()
        ids, steps = np.array(found, dtype=np.int64).reshape(-1, 2).T
        connection.register("kept_before", {"id": ids, "period": calendar.period_of(steps), "step": steps})
        session.create("before", "SELECT * FROM kept_before")
        connection.unregister("kept_before")

    def take(self, connection: DuckDBPyConnection, steps: range) -> None:
        """Write in which of the new steps users were kept, as the tables of the events say."""
        key, within = [self._key], f"step >= {steps.start} AND step < {steps.stop}"
        kept = connection.execute(
            f"SELECT DISTINCT md5(concat(?, folded)), step FROM kept JOIN person USING (id) WHERE {within}", key
        ).fetchall()
        self._file.executemany("INSERT INTO kept VALUES (?, ?)", kept)
        written = connection.execute(
            "SELECT DISTINCT md5(concat($1, folded)), md5(concat($1, name)) FROM kept JOIN person USING (id) "
            f"WHERE {within} AND folded <> name",
            key,
        ).fetchall()
        self._file.executemany("INSERT OR IGNORE INTO written VALUES (?, ?)", written)
        cut = connection.execute("SELECT md5(concat(?, folded)) FROM cut JOIN person USING (id)", key).fetchall()
        self._file.executemany("INSERT OR IGNORE INTO cut VALUES (?)", cut)

    def forget(self, calendar: Calendar, steps: int) -> None:
        """Whatever was kept in periods that are over after so many steps: no later one depends on it."""
        if calendar.periods is not None:
            self._file.execute("DELETE FROM kept WHERE step < ?", (calendar.going_on(steps),))
            self._file.execute("DELETE FROM written WHERE person NOT IN (SELECT person FROM kept)")
