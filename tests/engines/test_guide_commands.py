"""The guide's commands for Spark, Postgres and Kafka, each as it stands there, but for where the data lie."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from servers import PASSWORD, Server

from policyc.guide import PAGES, read_page, write_files

pytestmark = pytest.mark.law

PAGE = read_page("running")
COMMANDS = re.findall(r"^policyc .*(?:--engine|kafka://).*$", PAGE, re.MULTILINE)
FILES, TABLE, DATABASE = "hdfs://host/departures", "table:city.departures", "host/city"
TABLED = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.sql.warehouse.dir", "warehouse").getOrCreate()
spark.sql("CREATE DATABASE city")
spark.sql("SET spark.sql.parquet.inferTimestampNTZ.enabled = true")
spark.read.parquet("events").write.saveAsTable("city.departures")
from policyc.cli import main
sys.exit(main())
"""


def shell(command: str, folder: Path) -> str:
    """What a command prints, with this Python's programs first."""
    words = f'export PATH="{Path(sys.executable).parent}:$PATH"; {command}'
    done = subprocess.run(["bash", "-c", words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def commands(part: str) -> list[str]:
    """The commands of the page in which this stands, in its order."""
    return [line for line in COMMANDS if part in line]


def command(part: str) -> str:
    """The one command of the page in which this stands."""
    (found,) = commands(part)
    return found


def prepared(folder: Path, name: str, *parts: str) -> None:
    """A policy of the page, compiled, and the page's commands in which these parts stand."""
    (folder / f"{name}.policy").write_text(re.search(rf"```policy {name}.policy\n(.*?)```", PAGE, re.DOTALL)[1])
    shell(f"policyc compile {name}.policy --quiet", folder)
    for part in parts:
        shell(re.search(rf"^\$ (.*{re.escape(part)}.*)$", PAGE, re.MULTILINE)[1], folder)


@pytest.fixture
def departures(tmp_path: Path) -> Path:
    """A folder in which three weeks were published from the folder of Parquet files."""
    write_files(tmp_path)
    prepared(tmp_path, "departures", "COPY (SELECT", "--input events --steps 21")
    return tmp_path


def says_what_the_page_shows(printed: str) -> None:
    """The fourth week is new: what the engine counted of the other three is to the bit what DuckDB counted."""
    line = re.search(r"^released 28 .*: 7 new, 21 from before$", PAGE, re.MULTILINE)
    assert line is not None
    assert printed.startswith(f"{line[0]}\n")


def test_every_such_command_of_the_guide_is_run_here() -> None:
    """No page has another one."""
    told = [line for page in PAGES for line in read_page(page).splitlines() if line.lstrip("$ ").startswith("policyc ")]
    assert [line for line in told if "--engine" in line or "kafka://" in line] == COMMANDS
    assert [len(commands(part)) for part in (FILES, TABLE, DATABASE, "kafka://host/")] == [1, 1, 1, 2]
    assert len(COMMANDS) == 5


def test_spark_counts_a_folder(departures: Path, spark: None) -> None:
    """Of this machine, in the place of a cluster's."""
    says_what_the_page_shows(shell(command(FILES).replace(FILES, f"file://{departures}/events"), departures))


def test_spark_counts_a_table(departures: Path, spark: None) -> None:
    """Of a catalog that lives as long as the process, so the command runs in the one that made it."""
    (departures / "tabled.py").write_text(TABLED)
    words = command(TABLE).replace("policyc", "python tabled.py", 1)
    says_what_the_page_shows(shell(words, departures))


def test_postgres_counts_a_table(departures: Path, server: Server) -> None:
    """In a database of the page's name."""
    import duckdb
    import psycopg

    address = f"tests:{PASSWORD}@127.0.0.1:{server.port}/city"
    with server.connect() as connection:
        connection.execute("CREATE DATABASE city")
    with duckdb.connect() as files, psycopg.connect(f"postgresql://{address}", autocommit=True) as city:
        rows = files.sql(f"SELECT tailnum, departed_at FROM '{departures}/departures_january.csv.gz'").fetchall()
        city.execute("CREATE TABLE departures (tailnum text, departed_at timestamp)")
        with city.cursor().copy("COPY departures FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    says_what_the_page_shows(shell(command(DATABASE).replace(DATABASE, address), departures))


def test_kafka_goes_from_one_topic_into_another(tmp_path: Path) -> None:
    """Of librdkafka's own cluster: every step is a row in the other topic, once, also when it is started again."""
    kafka = pytest.importorskip("confluent_kafka", reason="needs the extra `kafka`")
    brokers = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
    (broker,) = brokers.list_topics(timeout=10).brokers.values()
    hosts = f"{broker.host}:{broker.port}"
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    brokers.produce("events", json.dumps({"visitor": "ada", "seen_at": now}).encode())
    assert brokers.flush(20) == 0
    prepared(tmp_path, "visits")
    for line in commands("kafka://"):
        shell(line.replace("kafka://host/", f"kafka://{hosts}/"), tmp_path)
    reader = kafka.Consumer({"bootstrap.servers": hosts, "group.id": "test", "log_level": 0})
    reader.assign([kafka.TopicPartition("visitors", 0, 0)])
    rows = [json.loads(message.value()) for message in reader.consume(4, 10) if not message.error()]
    reader.close()
    assert [row["step"] for row in rows] == [0, 1, 2]
