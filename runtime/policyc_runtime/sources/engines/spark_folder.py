"""Parquet files that Spark reads: which ones they are, and the columns of each, by the rules of folders elsewhere.

Spark alone would take one file's columns for those of all, and pass over folders that are no columns, without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from policyc_runtime.sources.folders import checked_files, parquet_files, partition_columns, require_apart
from policyc_runtime.sources.input_table import unreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from policyc_runtime.sources.engines.remote import RemoteTable

STATE = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?modification_time=(\d+);")
AT_ONCE = 8  # ends of files that are read at a time: on a far store each is waited for


class SparkFolder(NamedTuple):
    """Files below a folder.

    Args:
        base: the folder, as Spark says it.
        names: of the files, relative to it, in order.
        uneven: columns that some files have not, or have of another type, and which file says so.
    """

    base: str
    names: Sequence[str]
    uneven: Mapping[str, str]

    def rows(self, spark: SparkSession) -> DataFrame:
        """All of them as one table; names are names, and no patterns."""
        reader = spark.read.option("basePath", self.base).option("__globPaths__", "false")
        return reader.parquet(*(f"{self.base}/{name}" for name in self.names))


def spark_folder(spark: SparkSession, said: RemoteTable, name: str) -> SparkFolder | None:
    """A file or folder as Spark finds it, None where there is none.

    Args:
        spark: what reads it.
        said: how messages say it.
        name: where it is.

    Raises:
        DataError: E0810, as `folders.py` says it.
    """
    jvm: Any = spark._jvm
    settings = spark._jsc.hadoopConfiguration()
    path = jvm.org.apache.hadoop.fs.Path(name)
    system = path.getFileSystem(settings)
    path = path.makeQualified(system.getUri(), system.getWorkingDirectory())
    if not system.exists(path):
        return None
    if system.getFileStatus(path).isFile():
        base, names = path.getParent().toString(), [path.getName()]
    else:
        local = system.getUri().getScheme() == "file"
        base = path.toString()
        names = parquet_files(Path(path.toUri().getPath())) if local else checked_files(said, listed(system, path))
    schemas = list(_schemas(jvm, settings, said, base, names))
    uneven: dict[str, str] = {}
    first = dict(_columns(schemas[0]))
    require_apart(said, first, partition_columns(names[0]))
    for file, schema in zip(names, schemas, strict=True):
        if schema.equals(schemas[0]):
            continue
        columns = dict(_columns(schema))
        require_apart(said, columns, partition_columns(file))
        for column in first.keys() | columns.keys():
            if column not in first or column not in columns:
                lacking = names[0] if column not in first else file
                uneven.setdefault(column, f"`{lacking}` does not have it")
            elif first[column] != columns[column]:
                uneven.setdefault(column, f"in `{file}` it has another type than in `{names[0]}`")
    return SparkFolder(base, names, uneven)


def file_states(spark: SparkSession, table: str) -> dict[str, tuple[str, str] | None]:
    """Of each file that a table's rows are read from how long it is, and when it was written; None where it is gone.

    Args:
        spark: what reads it.
        table: as that knows it; of one that is kept elsewhere than in files nothing is told.
    """
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    settings = spark._jsc.hadoopConfiguration()
    files = {_plain(unquote(file)) for file in spark.table(table).inputFiles()}

    def states(folder: str) -> Iterator[tuple[str, tuple[str, str]]]:
        path = jvm.org.apache.hadoop.fs.Path(folder)
        try:
            found = path.getFileSystem(settings).listStatus(path)
        except Py4JJavaError:
            return
        for one in found:
            if (told := STATE.search(one.toString())) is not None:
                yield _plain(told[1]), (told[2], told[3])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = list(pool.map(lambda folder: dict(states(folder)), {file.rpartition("/")[0] for file in files}))
    known = {file: state for part in parts for file, state in part.items()}
    return {file: known.get(file) for file in files}


def _plain(file: str) -> str:
    """A file's name as both say it."""
    return re.sub("^file:/+", "file:/", file)


def listed(system: Any, folder: Any) -> Iterator[str]:
    """All files below a folder of one of Hadoop's file systems, relative to it."""
    found = system.listFiles(folder, True)
    while found.hasNext():
        yield found.next().getPath().toString()[len(folder.toString()) + 1 :]


def _schemas(jvm: Any, settings: Any, said: RemoteTable, base: str, names: Sequence[str]) -> Iterator[Any]:
    """What each file says of its columns; DataError E0810 for one that is no whole Parquet file."""
    from py4j.protocol import Py4JJavaError

    parquet = jvm.org.apache.parquet.hadoop

    def schema(file: str) -> Any:
        try:
            reader = parquet.ParquetFileReader.open(
                parquet.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(file), settings)
            )
        except Py4JJavaError:
            return None
        try:
            return reader.getFooter().getFileMetaData().getSchema()
        finally:
            reader.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(schema, (f"{base}/{name}" for name in names))
        for name, one in zip(names, found, strict=True):
            if one is None:
                where = str(said) if str(said).endswith(name) else f"{said}/{name}"
                reason = "it is not a whole Parquet file, or may not be read"
                raise unreadable(said, reason, "repair the file, or write it again", where=where)
            yield one


def _columns(schema: Any) -> Iterator[tuple[str, str]]:
    """Each column and its type, without whether it may be missing in a row."""
    for field in schema.getFields():
        yield str(field.getName()), str(field.toString()).partition(" ")[2]
