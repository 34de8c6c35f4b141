"""Counts a table of a Postgres database where it lies: `postgresql://host/database?table=schema.name`.

Everything is asked in one transaction, which sees one state of the table, makes temporary tables alone, and is rolled
back. Rows of foreign tables are copied first, as each query reads those anew. Messages name host, database and table;
what the server says may quote rows, and the address a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from policyc_runtime.errors import DataError
from policyc_runtime.sources.engines.dialect import Dialect, Postgres
from policyc_runtime.sources.engines.remote import RemoteTable, refused
from policyc_runtime.sources.input_table import InputTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from policyc_runtime.sources.engines.session import Session

FORM = "postgresql://host/database?table=schema.name"
HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?")  # and its port
SCHEMES = ("postgresql", "postgres")
OLDEST = 140_000  # from 14 on the parts of a moment are exact decimals
PATIENCE = 30  # seconds for a server to answer, and for others to let go of the table
ENCODING = "UTF8"
TYPES = {  # of Postgres, as DuckDB calls them
    "text": "VARCHAR",
    "character varying": "VARCHAR",
    "character": "VARCHAR",
    "uuid": "UUID",
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMP WITH TIME ZONE",
    "numeric": "DECIMAL",
    "real": "FLOAT",
    "double precision": "DOUBLE",
}
REASONS = {  # by the first letters of what the standard says of errors: why, and what helps
    "42501": (
        "the role may not read the whole table, or not all of its rows, or not make temporary tables",
        "grant it SELECT on the table, or on a view of some columns (with row-level security, BYPASSRLS), and "
        "TEMPORARY on the database",
    ),
    "22": ("a value is out of the range of its type", "make a view without such rows, and name that"),
    "53": ("the server has no room or memory left", "make room, and run again"),
    "25006": (
        "it takes no temporary tables: it is a replica, or the role may only read",
        "name the primary server, or let the role write (`default_transaction_read_only = off`)",
    ),
    "55P03": ("another session has held a lock on the table for half a minute", "run again when that is done"),
    "57014": ("the query was cancelled, by a limit of time or by somebody", "raise `statement_timeout` for the role"),
    "55000": ("it is a materialized view that was never filled", "`REFRESH MATERIALIZED VIEW` it, and run again"),
    "25P03": ("the server ends sessions that wait", "raise `idle_in_transaction_session_timeout` for the role"),
    "57": ("the server was shut down", "run again when it is there"),
    "08": ("the connection was lost", "run again when the server is there"),
    "40": ("the server gave the query up", "run again"),
}

FOREIGN = """
WITH RECURSIVE below(oid) AS (
  SELECT %s::oid UNION SELECT found.oid FROM below CROSS JOIN LATERAL (
    SELECT d.refobjid AS oid FROM pg_catalog.pg_rewrite AS r JOIN pg_catalog.pg_depend AS d ON d.objid = r.oid
      WHERE d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
      AND r.ev_class = below.oid
    UNION ALL SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = below.oid) AS found)
SELECT bool_or(c.relkind = 'f') FROM below JOIN pg_catalog.pg_class AS c ON c.oid = below.oid
"""  # whether rows of another server, or of a file, stand in a table, its partitions, or what a view is of


@dataclass(frozen=True)
class PostgresTable(RemoteTable):
    """A table of a database.

    Args:
        address: of the database, as libpq takes it; it may hold a password.
        table: its name, with its schema if any, as it was said.
        shown: where it is, without user and password.
    """

    address: str = field(repr=False)
    table: str
    shown: str

    def __str__(self) -> str:
        return self.shown

    @classmethod
    def named(cls, text: str) -> PostgresTable:
        """The table that a text names; DataError E0869 where it names none."""
        try:
            parts = urlsplit(text)
            query = parse_qsl(parts.query, keep_blank_values=True)
        except ValueError:
            parts, query = urlsplit(""), []
        if "@" in parts.path + parts.query + parts.fragment or parts.netloc.count("@") > 1:
            raise refused(
                "this address of a Postgres database can be read in two ways",
                "--input",
                "an `@` stands where none can be, which is so where a password has a `/`, `?`, `#` or `@`",
                "write them `%2F`, `%3F`, `%23` and `%40`; a password is better kept in `~/.pgpass` or PGPASSWORD",
            )
        tables = [value for name, value in query if name == "table"]
        host = parts.netloc.rpartition("@")[2]
        signs = set(parts.path + "".join(tables)) & set(";=?")
        apart = all(HOST.fullmatch(one) for one in host.split(",")) and not signs
        named = len(tables) == 1 and all(tables[0].split("."))
        if parts.scheme not in SCHEMES or not named or not apart or "\0" in text or not _is_text(text):
            # it is not shown: of what is no address nobody knows where its password stands
            raise refused(
                "this is no table of a Postgres database",
                "--input",
                "`--engine postgres` reads one table, named by the address of its database",
                f"write it as `{FORM}`; a password is better kept in `~/.pgpass` or PGPASSWORD",
            )
        rest = "&".join(pair for pair in parts.query.split("&") if unquote(pair.partition("=")[0]) != "table")
        address = f"postgresql://{parts.netloc}{parts.path}?{rest}"  # libpq takes a `+` for itself
        return cls(address, tables[0], f"postgresql://{host}{parts.path}?table={tables[0]}")

    @contextmanager
    def open(self) -> Iterator[tuple[Session, InputTable]]:
        """Its columns, and a session that sees one state of its rows; DataError E0869 for what goes wrong."""
        connection = self._connected()
        import psycopg

        try:
            with connection.cursor():
                yield PostgresSession(connection), self._described(connection)
        except psycopg.Error as error:
            raise self._refusal(error, broken=connection.broken) from None
        finally:
            with suppress(psycopg.Error):  # a lost connection is rolled back by the server
                connection.rollback()
            connection.close()

    def _connected(self) -> psycopg.Connection[Any]:
        try:
            import psycopg
        except ImportError:
            raise refused(
                "the driver of Postgres is not installed",
                "--engine postgres",
                "it is an extra, as most runs read files",
                "install it: `pip install 'policyc[postgres]'`",
            ) from None
        try:
            connection = psycopg.connect(self.address, connect_timeout=PATIENCE, client_encoding="utf8")
        except (psycopg.ProgrammingError, UnicodeError):
            raise refused(
                "this is no address of a Postgres database",
                self.shown,
                "the library of Postgres cannot read it",
                f"write it as `{FORM}`, with `%40` for an `@` in a name or password",
            ) from None
        except psycopg.Error as error:
            raise self._no_connection(error) from None
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        if connection.info.server_version < OLDEST:
            connection.close()
            raise refused(
                "the server is too old",
                self.shown,
                "moments are exact in Postgres 14 and later",
                "use a later server, or write the table to a Parquet file",
            )
        if connection.info.parameter_status("server_encoding") != ENCODING:
            connection.close()
            raise refused(
                "the database is not in UTF-8",
                self.shown,
                "its server would cut names byte by byte, or has no letter for what is a blank",
                "copy the table into a database with `ENCODING 'UTF8'`, or write it to a Parquet file",
            )
        return connection

    def _no_connection(self, error: psycopg.Error) -> DataError:
        """Why nobody was let in, as far as it can be said without what the server said."""
        text = re.sub('"[^"]*"', '""', str(error))  # what is quoted is the address's own
        if "could not translate host name" in text:
            because, remedy = "there is no such host", "check its name"
        elif "invalid" in text:
            because, remedy = "the address has a value that Postgres does not take", "check its port and its options"
        elif "SSL" in text or "certificate" in text or "sslmode" in text:
            because = "its SSL and the address's do not fit: the server has none, or another certificate is asked for"
            remedy = (
                "compare `sslmode` and `sslrootcert` of the address, and PGSSL... in the environment, with the server's"
            )
        elif "service" in text:
            because, remedy = (
                "no service of that name is defined",
                "see `~/.pg_service.conf`, or write host and database",
            )
        elif "password" in text:
            because, remedy = "it was given no password, or a wrong one", "give it in `~/.pgpass` or PGPASSWORD"
        elif "does not exist" in text:
            because, remedy = "it has no such database or role", "compare the address with the server's"
        elif "FATAL" in text:
            because, remedy = "it refused the connection", "ask who runs it whether this role may connect from here"
        else:
            because, remedy = "nothing answers there", "check host and port, and whether the server runs"
        return refused("the database cannot be reached", self.shown, because, remedy)

    def _refusal(self, error: psycopg.Error, *, broken: bool) -> DataError:
        state = "08" if broken and not (error.sqlstate or "").startswith("57") else error.sqlstate or ""
        known = (REASONS[state[:length]] for length in (5, 2) if state[:length] in REASONS)
        said = f"it says {state}" if state else "it says no more"
        because, remedy = next(known, (said, "look that up in the server's log, which also has the query"))
        return refused("the database did not count", self.shown, f"{because}; nothing was drawn", remedy)

    def _described(self, connection: psycopg.Connection[Any]) -> InputTable:
        """Which columns it has."""
        dialect = Postgres()
        schema, dot, name = self.table.rpartition(".")
        said = dialect.name(schema) + dot + dialect.name(name) if dot else dialect.name(name)
        _locked(connection, said)
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute("SET LOCAL standard_conforming_strings = on")
        connection.execute("SET LOCAL datestyle = 'ISO, YMD'")  # what is no text is told apart as a file says it
        connection.execute("SET LOCAL quote_all_identifiers = off")  # names of types are looked up
        connection.execute("SET LOCAL row_security = off")  # an error in place of rows that are left out in silence
        found = connection.execute(
            "SELECT s.nspname, c.relname, c.oid::bigint FROM pg_catalog.pg_class AS c "
            "JOIN pg_catalog.pg_namespace AS s ON s.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass(%s)",
            [said],
        ).fetchone()
        if found is None:
            raise refused(
                "there is no such table",
                self.shown,
                "names are taken as they are written, capitals included",
                "check the name, and say the schema: `table=public.events`",
            )
        columns = connection.execute(
            "SELECT a.attname, CASE WHEN t.typtype = 'e' THEN 'text' ELSE pg_catalog.format_type(a.atttypid, NULL) END "
            "FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid "
            "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [found[2]],
        ).fetchall()
        ((moving,),) = connection.execute(FOREIGN, [found[2]]).fetchall()
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")  # no table or function of others is meant
        types = {str(column): TYPES.get(kind, str(kind)) for column, kind in columns}
        source = f"{dialect.name(found[0])}.{dialect.name(found[1])}"
        return InputTable(self, source, {name: dialect.name(name) for name in types}, types, moving=bool(moving))


def _is_text(text: str) -> bool:
    """Whether a name that was given to the program is text: bytes that are none stand in it as half characters."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def _locked(connection: psycopg.Connection[Any], said: str) -> None:
    """From here on nobody alters or empties the table, which its rows of an earlier moment would not outlast.

    It is locked before the transaction chooses that moment. What is no table or view, as one of another server, cannot
    be, and is copied; what is not there is told by what is asked next. Who may read some columns alone may not lock it.
    """
    import psycopg

    try:
        connection.execute(f"SET LOCAL lock_timeout = '{PATIENCE}s'")
        connection.execute(f"LOCK TABLE {said} IN ACCESS SHARE MODE")
    except (
        psycopg.errors.WrongObjectType,
        psycopg.errors.UndefinedTable,
        psycopg.errors.InvalidSchemaName,
    ):
        connection.rollback()


class PostgresSession:
    """One transaction."""

    dialect: Dialect = Postgres()

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def create(self, name: str, query: str) -> None:
        """A temporary table, dropped when the transaction ends; one of that name may be asked for the last time."""
        self._connection.execute(f"CREATE TEMPORARY TABLE made ON COMMIT DROP AS {query}")
        self._connection.execute(f"DROP TABLE IF EXISTS pg_temp.{name}")
        self._connection.execute(f"ALTER TABLE pg_temp.made RENAME TO {name}")
        self._connection.execute(f"ANALYZE pg_temp.{name}")

    def view(self, name: str, query: str) -> None:
        """A temporary view, rolled back with the transaction."""
        self._connection.execute(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {query}")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """All at once; whole numbers as such."""
        rows = self._connection.execute(query).fetchall()
        return [tuple(int(value) if isinstance(value, Decimal) else value for value in row) for row in rows]

    def codes(self, column: str, names: Sequence[str]) -> tuple[str, str]:
        """Joined with a temporary table that is copied into."""
        self._connection.execute("CREATE TEMPORARY TABLE listed_cell (name text, place integer) ON COMMIT DROP")
        with self._connection.cursor() as cursor, cursor.copy("COPY listed_cell FROM STDIN") as copy:
            for place, name in enumerate(names):
                copy.write_row((name, place))
        return "listed_cell.place", f" LEFT JOIN listed_cell ON {column} = listed_cell.name"
