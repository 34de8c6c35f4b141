"""Counts a table or Parquet files on a Spark cluster, or on this machine where none is configured.

Which cluster, and how much of it, is said as Spark has it: `SPARK_CONF_DIR/spark-defaults.conf`, `PYSPARK_SUBMIT_ARGS`,
`spark-submit`, or a session that the caller has. Only numbers for steps and cells come back. What Spark logs may quote
rows, so a Spark that is started here logs nothing, and messages have its conditions alone.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policyc_runtime.errors import DataError
from policyc_runtime.sources.engines.dialect import Dialect, Spark
from policyc_runtime.sources.engines.remote import RemoteTable, refused
from policyc_runtime.sources.engines.spark_folder import SparkFolder, file_states, spark_folder
from policyc_runtime.sources.input_table import OPTIONS, InputTable, changed_meanwhile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from policyc_runtime.sources.engines.session import Session

TABLE = "table:"
PATTERNS = set("*?[]{}\\")
SOURCE = "input_rows"
MOST_PARTS = 2**16
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.enabled": "true",  # what does not fit is an error, not a null
    "spark.sql.caseSensitive": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # folders' names are text, as DuckDB has them
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
QUIET = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}
LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
TYPES = {  # of Spark, as DuckDB calls them
    "string": "VARCHAR",
    "varchar": "VARCHAR",
    "char": "VARCHAR",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "decimal": "DECIMAL",
    "float": "FLOAT",
    "double": "DOUBLE",
}
DECLARED = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark keeps the type that a table's column was declared with
OTHERS = ("jdbc:", "postgresql:", "postgres:")
REASONS = {
    "PARQUET_TYPE_ILLEGAL": (
        "a file has a type that Spark cannot read, as moments in nanoseconds are",
        "write them in microseconds, or count the files here: leave `--engine` out",
    ),
    "TABLE_OR_VIEW_NOT_FOUND": ("there is no such table", "check the name, and say its catalog and schema"),
    "PATH_NOT_FOUND": ("there is no such file or folder", "check the name; a table is named `table:schema.name`"),
}


@dataclass(frozen=True)
class SparkTable(RemoteTable):
    """A table, or a Parquet file or folder."""

    name: str

    def __str__(self) -> str:
        scheme, slashes, rest = self.name.partition("//")
        keys, _, place = rest.rpartition("@")  # the way of old to give keys of a store, which have a `/` as well
        return OPTIONS.sub(r"\1=...", f"{scheme}{slashes}{place}" if ":" in keys else self.name)

    @classmethod
    def named(cls, text: str) -> SparkTable:
        """The table or place that a text names; DataError E0869 where Spark would take it for a pattern."""
        bad = bool(PATTERNS & set(text)) or text in {"", TABLE} or text.lower().endswith((".csv", ".csv.gz"))
        bad = bad or text.lower().startswith(OTHERS)  # which is not shown
        if bad or (
            "@" in text.partition("://")[2].partition("/")[0] and not text.startswith(("s3", "abfs", "wasb", "gs"))
        ):
            raise refused(
                "Spark reads Parquet files, folders and tables, each by its name",
                "--input",
                "the name has a character of patterns, or names another kind of file",
                "write `--input FOLDER`, `--input hdfs://host/folder` or `--input table:schema.name`",
            )
        return cls(text)

    @contextmanager
    def open(self) -> Iterator[tuple[Session, InputTable]]:
        """Its columns, and a session of its own; DataError E0869 for what goes wrong."""
        warnings.filterwarnings("ignore", module=r"pyspark\.")  # about pandas, which nothing here uses
        spark = started().newSession()
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        session = SparkSessionOfOneRun(spark)
        try:
            for name, value in SETTINGS.items():
                spark.conf.set(name, value)
            table = self.name.startswith(TABLE)
            folder = None if table else self._folder(spark)
            rows = spark.table(self.name.removeprefix(TABLE)) if folder is None else folder.rows(spark)
            rows.createOrReplaceTempView(SOURCE)
            uneven = {} if folder is None else folder.uneven
            types = {**dict.fromkeys(uneven, ""), **{name: _type_of(kind) for name, kind in rows.dtypes}}
            columns = {name: session.dialect.name(name) for name in types if name not in uneven}
            columns |= {name: f"rtrim({columns[name]})" for name in _padded(rows) & columns.keys()}
            with silent():
                before = file_states(spark, SOURCE)
                try:
                    yield session, InputTable(self, SOURCE, columns, types, uneven=uneven)
                except (PySparkException, Py4JError):
                    self._require_same(spark, before)
                    raise
                self._require_same(spark, before)
        except PySparkException as error:
            raise self._refusal(error.getCondition()) from None
        except (Py4JError, ConnectionError, EOFError):
            raise self._refusal(None) from None
        finally:
            session.forget()

    def _require_same(self, spark: SparkSession, before: dict[str, tuple[str, str] | None]) -> None:
        """Nothing while the files are those that were read: every query reads them anew."""
        if file_states(spark, SOURCE) != before:
            raise changed_meanwhile(self)

    def _folder(self, spark: SparkSession) -> SparkFolder:
        from py4j.protocol import Py4JJavaError

        try:
            found = spark_folder(spark, self, self.name)
        except Py4JJavaError:
            raise refused(
                "Spark did not count",
                str(self),
                "its file system cannot be reached, or lets nobody read; nothing was drawn",
                "see that its driver is there (`spark.jars.packages`), and its keys in Spark's own configuration",
            ) from None
        if found is None:
            raise self._refusal("PATH_NOT_FOUND")
        return found

    def _refusal(self, condition: str | None) -> DataError:
        because, remedy = "the cluster was lost, or a task failed on it", "see the cluster's own log, and run again"
        if condition is not None:
            because, remedy = REASONS.get(condition.partition(".")[0], (f"it says {condition}", remedy))
        return refused("Spark did not count", str(self), f"{because}; nothing was drawn", remedy)


@contextmanager
def silent() -> Iterator[None]:
    """Pyspark itself logs what a query failed at, value and all, with a handler of its own; not meanwhile."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    were = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, were, strict=True):
            logger.disabled = was


def _padded(rows: DataFrame) -> set[str]:
    """Columns whose texts end with blanks that mean nothing, as the standard has it of `char(n)`."""
    return {
        field.name
        for field in rows.schema
        if str(field.metadata.get(DECLARED, field.dataType.simpleString())).startswith("char")
    }


def _type_of(kind: str) -> str:
    word = kind.partition("(")[0].partition(" ")[0]
    return TYPES.get(word, kind)


def started() -> SparkSession:
    """The session that there is, or one of a Spark that is started, which logs nothing.

    Raises:
        DataError: E0869, there is no pyspark, no Java, or it does not start.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError:
        raise refused(
            "Spark is not installed",
            "--engine spark",
            "it is an extra, as most runs read files",
            "install it: `pip install 'policyc[spark]'`; it needs Java 17",
        ) from None
    from py4j.protocol import Py4JError

    try:
        active = SparkSession.getActiveSession()
    except (Py4JError, ConnectionError, EOFError):
        raise refused(
            "the Spark of this process has ended",
            "--engine spark",
            "its Java was stopped while Python went on, and pyspark does not begin a second one; nothing was drawn",
            "run again in a new process",
        ) from None
    if active is not None:
        return active
    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").exists() if home else shutil.which("java")):
        raise refused(
            "there is no Java on this machine",
            "--engine spark" if home is None else "JAVA_HOME",
            "Spark runs in Java, also where the cluster is elsewhere",
            "install Java 17, and name its folder in JAVA_HOME",
        )
    try:
        conf = SparkConf()
        for name, value in QUIET.items():
            conf.set(name, value)
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        gateway = SparkContext._gateway or launch_gateway(conf, popen_kwargs=silent)
        context = SparkContext._active_spark_context or SparkContext(conf=conf, gateway=gateway)
        logging.getLogger().addFilter(_not_of_py4j)
        context._accumulatorServer.handle_error = lambda *_: None  # else it writes how a lost Java was lost
        return SparkSession(context)
    except (PySparkException, Py4JError, OSError, RuntimeError):
        raise refused(
            "Spark did not start",
            "--engine spark",
            "Java, the configuration, or the cluster that it names refused",
            "try `spark-submit --version`, and what SPARK_CONF_DIR and PYSPARK_SUBMIT_ARGS say",
        ) from None


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether something else than the connection to Java logs: what it logs of a lost one is told by a refusal."""
    return "py4j" not in Path(record.pathname).parts


class SparkSessionOfOneRun:
    """Temporary views; rows that are computed once are kept, and others read anew for every query."""

    dialect: Dialect = Spark()

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._made: set[str] = set()

    def create(self, name: str, query: str) -> None:
        """A view of rows that stay with the executors; where one of these is lost, the run ends."""
        rows = self._spark.sql(query).coalesce(MOST_PARTS)  # else a union of them asks for columns that are gone
        rows.localCheckpoint().createOrReplaceTempView(name)
        self._made.add(name)

    def view(self, name: str, query: str) -> None:
        """A view of rows that are read whenever they are asked for."""
        self._spark.sql(query).createOrReplaceTempView(name)
        self._made.add(name)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """All at once; whole numbers as such."""
        rows = self._spark.sql(query).collect()
        return [tuple(int(value) if isinstance(value, Decimal) else value for value in row) for row in rows]

    def codes(self, column: str, names: Sequence[str]) -> tuple[str, str]:
        """Joined with a view of literal rows."""
        pairs = [(name, place) for place, name in enumerate(names)]
        self._spark.createDataFrame(pairs, "name STRING, place INT").createOrReplaceTempView("listed_cell")
        self._made.add("listed_cell")
        return "listed_cell.place", f" LEFT JOIN listed_cell ON {column} = listed_cell.name"

    def forget(self) -> None:
        """Drop the views; what is lost already is dropped."""
        from py4j.protocol import Py4JError

        for name in (*self._made, SOURCE):
            try:
                self._spark.catalog.dropTempView(name)
            except (Py4JError, ConnectionError, EOFError):
                return
