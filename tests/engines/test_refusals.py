"""What a database or a cluster does wrong is one message, without rows and passwords, and nothing is begun."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from plans import make_plan
from servers import PASSWORD

from policyc_runtime.errors import DataError
from policyc_runtime.release import release
from policyc_runtime.sources import read_events
from policyc_runtime.sources.engines.postgres import PostgresSession, PostgresTable
from policyc_runtime.sources.engines.remote import remote_table
from policyc_runtime.sources.engines.spark import SparkTable

PLAN = make_plan(start="2013-01-01")
SECRET = "N0SECRET"


def refused(engine: str, named: str) -> DataError:
    with pytest.raises(DataError) as caught:
        read_events(remote_table(engine, named), PLAN, steps=1)
    text = f"{caught.value} {caught.value.where} {caught.value.because} {caught.value.help}"
    assert SECRET not in text
    assert PASSWORD not in text
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.parametrize(
    "named",
    ["", "events", "mysql://h/d?table=t", "postgresql://h/d", "postgresql://h/d?table=", "postgresql://h/d?table=a.",
     "postgresql://h/d?table=a&table=b", "postgresql://[h/d?table=a"],
)  # fmt: skip
def test_names_of_no_table_of_postgres(named):
    assert refused("postgres", named).code == "E0869"


@pytest.mark.parametrize("named", ["", "table:", "a*", "x[1]", "{a,b}", "events.csv", "events.csv.gz"])
def test_names_of_no_table_of_spark(named):
    assert refused("spark", named).code == "E0869"


def test_what_is_shown_of_an_address_has_no_password():
    """Neither the one before the host nor one among the options."""
    table = PostgresTable.named(f"postgresql://me:{SECRET}@h:5/d?table=s.t&password={SECRET}&sslmode=require")
    assert str(table) == "postgresql://h:5/d?table=s.t"
    assert SECRET not in repr(table)
    assert "sslmode=require" in table.address
    assert "table" not in table.address


@pytest.mark.parametrize("sign", ["/", "?", "#", "@", "/?#", "@/", "?x=1&y="])
def test_a_password_with_a_sign_of_addresses_is_never_shown(sign):
    """It would end the part before the host, and be told for what lies there."""
    for named in (f"u:pa{sign}{SECRET}@h/d?table=t", f"u:{SECRET}{sign}pa@h/d?table=t", f"h/d?table=t&user=u@{SECRET}"):
        error = refused("postgres", f"postgresql://{named}")
        assert "read in two ways" in str(error) or "no table of" in str(error)
    for address in ("postgresql", "s3a"):
        with pytest.raises(DataError) as caught:
            read_events(f"{address}://u:{SECRET}{sign}pa@h/x.parquet", PLAN, steps=1)
        assert SECRET not in f"{caught.value}{caught.value.where}{caught.value.because}{caught.value.help}"
    assert str(SparkTable(f"s3a://u:{SECRET}{sign}pa@h/x.parquet")) == "s3a://h/x.parquet"


@pytest.mark.parametrize(
    "named",
    [
        f"h:5/d;password={SECRET}?table=t", f"h/d?table=t;password={SECRET}", f"h/d?table=t?password={SECRET}",
        f"me:{SECRET}/h:5/d?table=t", "h/d?table=\udcff", "u:\udcff@h/d?table=t",
    ],
)  # fmt: skip
def test_a_password_that_stands_elsewhere_is_never_shown(named):
    """As other drivers write it, or with another sign before the host."""
    assert "no table of" in str(refused("postgres", f"postgresql://{named}"))


@pytest.mark.parametrize(
    "named",
    [
        f"jdbc:postgresql://h/d?user=u&password={SECRET}", f"jdbc:sqlserver://h;user=u;password={SECRET}",
        f"postgresql://h/d;password={SECRET}", f"host=h user=u password={SECRET} dbname=d",
        f"host=h PASSWORD = '{SECRET} more' dbname=d", f"/no/such/folder;pwd={SECRET}",
        f"host=h password='it\\'s {SECRET}' dbname=x", f'dsn password="ab {SECRET}"', f"Server=h;Pwd={{ab;{SECRET}}}",
        f"https://h/x#apikey={SECRET}", f"AccountName=x;AccountKey={SECRET}==",
    ],
)  # fmt: skip
def test_a_password_of_another_form_is_never_shown(named):
    """Whichever engine is given an address that is another one's."""
    for open_ in (
        lambda: read_events(named, PLAN, steps=1),
        lambda: PostgresTable.named(named),
        lambda: SparkTable.named(named),
    ):
        try:
            shown = str(open_())
        except DataError as error:
            shown = f"{error}{error.where}{error.because}{error.help}"
        assert SECRET not in shown


@pytest.mark.parametrize(
    "named", [f" https://u:{SECRET}@h/x", f"//u:{SECRET}@h/db", f"postgresql:u:{SECRET}@h", f"http_x://u:{SECRET}@h/d"]
)
def test_a_password_before_a_host_is_never_shown(named):
    """Also where what stands before it is no address."""
    with pytest.raises(DataError) as caught:
        read_events(named, PLAN, steps=1)
    assert SECRET not in f"{caught.value}{caught.value.where}{caught.value.because}{caught.value.help}"


def test_a_folder_that_is_there_is_named_whatever_it_is_called(tmp_path):
    """A column of tokens is a column: which file is meant is said."""
    folder = tmp_path / "token=abc" / "u:x@h"
    folder.mkdir(parents=True)
    (folder / "x.txt").touch()
    with pytest.raises(DataError) as caught:
        read_events(tmp_path, PLAN, steps=1)
    assert caught.value.where == str(folder / "x.txt")
    assert str(SparkTable.named("/in/token=abc/passenger=1/x.parquet")) == "/in/token=.../passenger=.../x.parquet"


def test_an_address_of_a_socket_has_no_host():
    table = PostgresTable.named("postgresql:///d?host=/run/socket&port=5&table=t")
    assert table.address == "postgresql:///d?host=/run/socket&port=5"


def test_what_libpq_is_told_stands_as_it_was_written():
    """It takes a `+` for itself, and a blank is `%20`."""
    conninfo = pytest.importorskip("psycopg.conninfo")
    written = "user=a%20b&password=s%20e%2Bc+r&t%61ble=t&options=-c%20geqo%3Doff"
    told = conninfo.conninfo_to_dict(PostgresTable.named(f"postgresql://h/d?{written}").address)
    assert (told["user"], told["password"], told["options"]) == ("a b", "s e+c+r", "-c geqo=off")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ('could not translate host name "nohost.invalid" to address: Name or service not known', "no such host"),
        ('connection to server at "db.service.consul", port 5432 failed: Connection refused', "nothing answers"),
        ('FATAL:  database "password_service" does not exist', "no such database or role"),
        ('FATAL:  password authentication failed for user "service"', "no password, or a wrong one"),
        ('definition of service "here" not found', "no service of that name"),
    ],
)  # fmt: skip
def test_names_in_what_postgres_says_decide_nothing(told, said):
    psycopg = pytest.importorskip("psycopg")
    table = PostgresTable.named("postgresql://h/d?table=t")
    assert said in str(table._no_connection(psycopg.OperationalError(told)).because)


def test_what_is_shown_of_a_store_has_no_key():
    assert str(SparkTable(f"s3a://me:{SECRET}@b/x")) == "s3a://b/x"
    assert str(SparkTable(f"s3a://me:pa/{SECRET}@b/x")) == "s3a://b/x"
    assert str(SparkTable("abfss://container@account/x")) == "abfss://container@account/x"


def test_a_server_that_is_not_there():
    pytest.importorskip("psycopg", reason="Postgres needs the extra `postgres`")
    assert "nothing answers" in str(refused("postgres", f"postgresql://u:{SECRET}@127.0.0.1:1/d?table=t").because)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("localhost:1/%ff?table=t", "cannot read it"),
        ("localhost:1/d?table=t&no_such=1", "cannot read it"),
        ("localhost:1/d?table=t&sslmode=bogus", "does not take"),
        ("localhost:99999/d?table=t", "does not take"),
    ],
)
def test_addresses_that_nobody_can_mean(named, said):
    pytest.importorskip("psycopg", reason="Postgres needs the extra `postgres`")
    assert said in str(refused("postgres", f"postgresql://u:{SECRET}@{named}").because)


@pytest.mark.parametrize(("engine", "module"), [("postgres", "psycopg"), ("spark", "pyspark")])
def test_an_extra_that_is_missing_is_named(engine, module, monkeypatch):
    for name in (module, "pyspark.java_gateway", "pyspark.errors", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    found = refused(engine, "postgresql://h/d?table=t" if engine == "postgres" else "table:t")
    assert f"policyc[{engine}]" in str(found.help)


def test_no_java(monkeypatch, tmp_path):
    pytest.importorskip("pyspark", reason="Spark needs the extra `spark`")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "Java" in str(refused("spark", "table:t"))


def test_ready_counts_and_continued_runs_stay_on_this_machine(tmp_path):
    """Neither a ledger nor a session is begun."""
    for options in ({"counts": True}, {"continued": True}):
        with pytest.raises(DataError) as caught:
            release(PLAN, "table:t", tmp_path / "book", engine="spark", pin=None, **options)
        assert caught.value.code == "E0869"
    with pytest.raises(DataError):
        release(PLAN, {"parked": [[1]]}, tmp_path / "book", engine="spark", pin=None)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def seen(server):
    """`seen(columns, *rows)`: a table of these, by its address."""

    def make(columns: str, *rows: str, name: str = "seen") -> str:
        with server.connect() as held:
            held.execute(f'DROP TABLE IF EXISTS "{name}" CASCADE')
            held.execute(f'CREATE TABLE "{name}" ({columns})')
            for row in rows:
                held.execute(f'INSERT INTO "{name}" VALUES ({row})')
        return server.url(name)

    return make


@contextmanager
def role_setting(server, name: str, value: str) -> Iterator[None]:
    """What every connection of the role begins with."""
    with server.connect() as held:
        held.execute(f"ALTER ROLE tests SET {name} = {value}")
    try:
        yield
    finally:
        with server.connect() as held:
            held.execute(f"ALTER ROLE tests RESET {name}")


COLUMNS = "tailnum text, departed_at timestamp, origin text"
ROW = "'a', '2013-01-01 08:00', 'EWR'"


@pytest.mark.law
@pytest.mark.parametrize(
    ("columns", "row", "code", "says"),
    [
        ("tailnum text, origin text", "'a', 'EWR'", "E0811", "departed_at"),
        ("tailnum float8, departed_at date, origin text", "1, '2013-01-01', 'EWR'", "E0867", "tailnum"),
        ("tailnum text, departed_at text, origin text", f"'{SECRET}', '2013-01-01', 'EWR'", "E0812", "moments"),
        ("tailnum text, departed_at date, origin json", "'a', '2013-01-01', '{}'", "E0867", "origin"),
        (COLUMNS, f"'{SECRET}', NULL, 'EWR'", "E0812", "empty"),
        (COLUMNS, f"'{SECRET}', 'infinity', 'EWR'", "E0812", "empty"),
        (COLUMNS, f"'{SECRET}', '4000-01-01 BC', 'EWR'", "E0812", "year 1"),
        (COLUMNS, f"'{SECRET}', '20000-01-01', 'EWR'", "E0812", "year 9999"),
        (COLUMNS, "NULL, '2013-01-01', 'EWR'", "E0813", "user"),
        (COLUMNS, f"'{SECRET}', '2012-12-31', 'EWR'", "E0815", "before"),
        (COLUMNS, f"'{SECRET}', '2016-12-31', 'EWR'", "E0815", "beyond"),
        (COLUMNS, f"'{SECRET}', '2013-01-01', 'ewr'", "E0814", "no value"),
        (COLUMNS, None, "E0816", "no rows"),
    ],
)
def test_rows_and_columns_that_cannot_be_used(columns, row, code, says, seen):
    """As of a file, where the table stands in place of a line."""
    found = refused("postgres", seen(columns, *(() if row is None else (row,))))
    assert (found.code, says in str(found)) == (code, True)
    assert "table=seen" in str(found.where)


@pytest.mark.law
def test_names_that_say_the_same(seen):
    assert refused("postgres", seen(COLUMNS, ROW.replace("a", "7"), ROW.replace("a", "007"))).code == "E0867"
    for blank in ("\v", "\x85", "\u200b", "\u3000", "\ufeff"):
        assert refused("postgres", seen(COLUMNS, ROW.replace("a", blank))).code == "E0813"
        assert refused("postgres", seen(COLUMNS, ROW, ROW.replace("a", f"a{blank}"))).code == "E0867"


@pytest.mark.law
def test_what_a_server_refuses(server, seen, tmp_path):
    """Password, database, table, rights; and no ledger is begun."""
    good = seen(COLUMNS, ROW)
    assert read_events(remote_table("postgres", good), PLAN, steps=1).counts["parked"].tolist() == [[1, 0, 0, 19]]
    assert "password" in str(refused("postgres", server.url("seen", password=SECRET)).because)
    assert "no such database" in str(refused("postgres", server.url("seen", database="none")).because)
    assert "no such table" in str(refused("postgres", server.url("Seen")))
    assert "no such table" in str(refused("postgres", server.url("other.seen")))
    with server.connect() as held:
        held.execute("DROP ROLE IF EXISTS nobody_here")
        held.execute(f"CREATE ROLE nobody_here LOGIN PASSWORD '{PASSWORD}'")
    found = refused("postgres", server.url("seen", role="nobody_here"))
    assert "may not read" in str(found.because)
    with server.connect() as held:  # who sees some of the rows counts too few
        held.execute("GRANT SELECT ON seen TO nobody_here")
        held.execute("GRANT TEMPORARY ON DATABASE postgres TO nobody_here")
        held.execute("ALTER TABLE seen ENABLE ROW LEVEL SECURITY")
    found = refused("postgres", server.url("seen", role="nobody_here"))
    assert "not all of its rows" in str(found.because)
    with pytest.raises(DataError):
        release(PLAN, server.url("none"), tmp_path / "book", engine="postgres", pin=None, steps=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.law
def test_a_server_that_does_not_suit(server, seen, monkeypatch):
    """Its SSL, a service, its letters, a role that may only read, a lock: each has a remedy of its own."""
    import psycopg

    from policyc_runtime.sources.engines import postgres

    good = seen(COLUMNS, ROW)
    for option in ("sslmode=require", "sslmode=verify-full", "sslmode=verify-full&sslrootcert=/none.crt"):
        assert "SSL" in str(refused("postgres", f"{good}&{option}").because), option
    assert "no service" in str(refused("postgres", f"{good}&service=nope").because)
    with server.connect() as held:
        held.execute("DROP DATABASE IF EXISTS latin")
        held.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        held.execute("DROP ROLE IF EXISTS reading_only")
        held.execute(f"CREATE ROLE reading_only LOGIN PASSWORD '{PASSWORD}'")
        held.execute("ALTER ROLE reading_only SET default_transaction_read_only = on")
        held.execute("GRANT SELECT ON seen TO reading_only")
    assert "not in UTF-8" in str(refused("postgres", server.url("seen", database="latin")))
    assert "no temporary tables" in str(refused("postgres", server.url("seen", role="reading_only")).because)
    monkeypatch.setattr(postgres, "PATIENCE", 2)
    with psycopg.connect(server.url("seen").partition("?")[0]) as held:
        held.execute("LOCK TABLE seen IN ACCESS EXCLUSIVE MODE")
        assert "another session has held a lock" in str(refused("postgres", good).because)


@pytest.mark.law
def test_who_may_read_some_columns_cannot_hold_the_table_still(server, seen):
    """Nor its partitions, whose rows of an earlier moment are gone when they are emptied; through a view, they may."""
    seen(COLUMNS, ROW)
    with server.connect() as held:
        held.execute("DROP VIEW IF EXISTS some_columns")
        held.execute("DROP ROLE IF EXISTS of_columns")
        held.execute(f"CREATE ROLE of_columns LOGIN PASSWORD '{PASSWORD}'")
        held.execute("GRANT SELECT (tailnum, departed_at, origin) ON seen TO of_columns")
        held.execute("GRANT TEMPORARY ON DATABASE postgres TO of_columns")
        held.execute("CREATE VIEW some_columns AS SELECT tailnum, departed_at, origin FROM seen")
        held.execute("GRANT SELECT ON some_columns TO of_columns")
    assert "a view of some columns" in str(refused("postgres", server.url("seen", role="of_columns")).help)
    table = remote_table("postgres", server.url("some_columns", role="of_columns"))
    assert read_events(table, PLAN, steps=1).counts["parked"].tolist() == [[1, 0, 0, 19]]


@pytest.mark.law
@pytest.mark.parametrize("through", ["itself", "a view", "a partition"])
def test_a_foreign_table_is_read_once(through, server, monkeypatch):
    """Each query would read its file anew: users of one state would be counted among the rows of another."""
    file = server.folder / "far.csv"
    row = "{},2013-01-01 08:00:00,{}\n".format
    file.write_text(row("a", "EWR") + row("b", "EWR"))
    file.chmod(0o666)
    with server.connect() as held:
        held.execute("DROP TABLE IF EXISTS parts CASCADE")
        held.execute("CREATE EXTENSION IF NOT EXISTS file_fdw")
        held.execute("DROP SERVER IF EXISTS files CASCADE")
        held.execute("CREATE SERVER files FOREIGN DATA WRAPPER file_fdw")
        held.execute(f"CREATE FOREIGN TABLE far ({COLUMNS}) SERVER files OPTIONS (filename '{file}', format 'csv')")
        held.execute("CREATE VIEW nearer AS SELECT * FROM far")
        held.execute("CREATE VIEW near AS SELECT * FROM nearer")
        held.execute(f"CREATE TABLE parts ({COLUMNS}) PARTITION BY LIST (tailnum)")
        if through == "a partition":
            held.execute("ALTER TABLE parts ATTACH PARTITION far DEFAULT")
    rows, asked = PostgresSession.rows, []

    def changing(self, query):
        asked.append(query)
        file.write_text(row("b", "JFK") + row("c", "JFK") + row("d", "JFK"))
        return rows(self, query)

    monkeypatch.setattr(PostgresSession, "rows", changing)
    name = {"itself": "far", "a view": "near", "a partition": "parts"}[through]
    found = read_events(remote_table("postgres", server.url(name)), PLAN, steps=1)
    assert found.counts["parked"].tolist() == [[2, 0, 0, 18]]
    assert asked


@pytest.mark.law
def test_settings_of_a_role_do_not_tell_types_otherwise(server, seen):
    """Names of types in quotes, that is."""
    address = seen(COLUMNS, ROW)
    with role_setting(server, "quote_all_identifiers", "on"):
        found = read_events(remote_table("postgres", address), PLAN, steps=1)
    assert found.counts["parked"].tolist() == [[1, 0, 0, 19]]


@pytest.mark.law
def test_cells_that_are_dates_are_said_as_in_a_file(server, seen, tmp_path):
    """However the role's settings would say them."""
    columns = "tailnum text, departed_at timestamp, origin date"
    cells = ("2013-01-02", "2013-02-01", "2013-03-04")
    plan = make_plan(start="2013-01-01", cells=cells)
    address = seen(columns, "'a', '2013-01-01 08:00:00', '2013-02-01'")
    with role_setting(server, "datestyle", "'German'"):
        found = read_events(remote_table("postgres", address), plan, steps=1)
    assert found.counts["parked"].ravel().tolist()[:3] == [0, 1, 0]


@pytest.mark.law
def test_a_table_that_shadows_ours_is_read_as_it_is(seen):
    """The user's own `event`, `person` and function `md5` are not taken for the tables of a run."""
    address = seen(COLUMNS, ROW, name="event")
    seen("person text", "'x'", name="person")
    assert read_events(remote_table("postgres", address), PLAN, steps=1).counts["parked"].tolist() == [[1, 0, 0, 19]]


@pytest.mark.law
@pytest.mark.parametrize("at", ["person", "kept"])
def test_a_connection_that_is_lost_in_the_middle(at, server, seen, monkeypatch):
    """Ended by somebody while it counts: one message, and nothing of it stays on the server."""
    address = seen(COLUMNS, ROW)
    rows, asked = PostgresSession.rows, []

    def ended(self, query):
        asked.append(query)
        if len(asked) == (1 if at == "person" else 2):
            with server.connect() as held:
                held.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in%'")
        return rows(self, query)

    monkeypatch.setattr(PostgresSession, "rows", ended)
    found = refused("postgres", address)
    assert found.code == "E0869"
    assert "nothing was drawn" in str(found.because)
    with server.connect() as held:
        assert held.execute("SELECT count(*) FROM pg_class WHERE relpersistence = 't'").fetchone() == (0,)


@pytest.mark.law
@pytest.mark.parametrize("change", ["TRUNCATE seen", "ALTER TABLE seen ALTER COLUMN origin TYPE varchar(3)"])
def test_a_table_stays_as_it_is_while_it_is_counted(change, server, seen):
    """Whoever would alter or empty it waits from before its columns are asked for."""
    import psycopg

    address = seen(COLUMNS, ROW)
    with remote_table("postgres", address).open() as (session, table), server.connect() as held:
        held.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            held.execute(change)
        assert session.rows(f"SELECT count(*) FROM {table.source}") == [(1,)]


@pytest.mark.law
def test_a_view_is_counted_that_nobody_can_lock(server, seen):
    """A materialized view is read as a table is."""
    seen(COLUMNS, ROW)
    with server.connect() as held:
        held.execute("CREATE MATERIALIZED VIEW seen_once AS SELECT * FROM seen")
    found = read_events(remote_table("postgres", server.url("seen_once")), PLAN, steps=1)
    assert found.counts["parked"].tolist() == [[1, 0, 0, 19]]


@pytest.mark.law
@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_server_that_is_stopped_in_the_middle_of_a_query(how, own_server, tmp_path, monkeypatch):
    """Shut down, or as by a failure of its machine: one message, nothing is drawn, and it counts when it is back."""
    with own_server.connect() as held:
        held.execute(f"CREATE TABLE seen ({COLUMNS})")
        held.execute(f"INSERT INTO seen VALUES ({ROW})")
    create, stopping = PostgresSession.create, threading.Timer(0.3, own_server.stop, [how])

    def slow(self, name, query):
        stopping.start()
        self.rows("SELECT 1 FROM pg_sleep(30)")
        create(self, name, query)

    monkeypatch.setattr(PostgresSession, "create", slow)
    with pytest.raises(DataError) as caught:
        release(PLAN, own_server.url("seen"), tmp_path / "book", engine="postgres", pin=None, steps=1)
    assert (caught.value.code, "nothing was drawn" in str(caught.value.because)) == ("E0869", True)
    assert PASSWORD not in f"{caught.value} {caught.value.because}"
    monkeypatch.undo()
    stopping.join()  # a server that starts while it is being stopped is stopped, too
    own_server.start()
    done = release(PLAN, own_server.url("seen"), tmp_path / "book", engine="postgres", pin=None, steps=1)
    assert (done.before, len(done.times)) == (0, 1)


@pytest.mark.law
def test_a_run_on_postgres_is_a_release(server, seen, tmp_path):
    """Twice the same values; a table that changed is refused, as a file is."""
    address = seen(COLUMNS, ROW)
    release(PLAN, address, tmp_path / "book", engine="postgres", pin=None, steps=1)
    again = release(PLAN, address, tmp_path / "book", engine="postgres", pin=None, steps=1)
    assert again.before == 1
    with server.connect() as held:
        held.execute(f"INSERT INTO seen VALUES ({ROW.replace('a', 'b')})")
    with pytest.raises(Exception, match="changed"):
        release(PLAN, address, tmp_path / "book", engine="postgres", pin=None, steps=1)


@pytest.mark.law
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # py4j's
def test_what_spark_refuses(spark, tmp_path):
    """No folder, no table, no Parquet file, half a file; a folder of partitions is one table."""
    import duckdb

    assert "no such file" in str(refused("spark", str(tmp_path / "none")).because)
    assert "no such table" in str(refused("spark", "table:none").because)
    (tmp_path / "empty").mkdir()
    assert refused("spark", str(tmp_path / "empty")).code == "E0810"
    folder = tmp_path / "in" / "origin=J%46K"
    folder.mkdir(parents=True)
    file = folder / "x.parquet"
    duckdb.sql("SELECT 'a' AS tailnum, TIMESTAMP '2013-01-01 08:00:00' AS departed_at").write_parquet(str(file))
    known = read_events(tmp_path / "in", PLAN, steps=1)
    found = read_events(SparkTable(str(tmp_path / "in")), PLAN, steps=1)
    assert found.counts["parked"].tolist() == known.counts["parked"].tolist() == [[0, 1, 0, 19]]
    assert found.digests == known.digests
    shutil.copy(file, folder / "y.parquet")
    (folder / "y.parquet").write_bytes(file.read_bytes()[:-9])
    assert refused("spark", str(tmp_path / "in")).where == str(folder / "y.parquet")


@pytest.mark.law
def test_spark_says_nothing_on_the_screen(spark, tmp_path):
    """What it logs may quote rows: a run that fails writes one message, to standard error."""
    code = (
        "from policyc_runtime.sources.engines.spark import SparkTable\n"
        "try:\n    SparkTable('table:none').open().__enter__()\n"
        "except Exception as error:\n    print(type(error).__name__)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("DataError\n", "")
