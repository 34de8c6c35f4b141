"""Released values as files: written whole or not at all, and read back exactly."""
# ruff: noqa: S608  SQL is put together from quoted names only

from __future__ import annotations

import csv
import errno
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from policyc_runtime.errors import DataError, ReleaseError
from policyc_runtime.files import draft, followed, is_full, place
from policyc_runtime.sources.tables import connect, open_table, opened, place_of, quoted, reading, require_here

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.plan import Plan

OUTPUT_SUFFIXES = (".csv", ".parquet")
NOT_A_RELEASE = "NOT A RELEASE"
WRITER = "policyc_writer"
OUTPUT, UNWRITABLE = "E0826", "the output cannot be written"
LONGER_DRAFT = len("..01234567.new.parquet")  # than the name of the file that it is for


@dataclass(frozen=True)
class Series:
    """The values of one release.

    Args:
        name: the release's name.
        column: the cell column, None for one number a step.
        cells: names of the cells, in order.
        noisy: (steps, cells) as drawn, whole numbers wherever the release has no others; 0 where nothing was.
        released: (steps, cells) published values; whole numbers where the policy says so. Both are masked arrays where
            the plan leaves values out, with 0 under the mask: these fields of a file are empty.
        processes: by step, what the estimator took users to move like, as the noisy values speak for it; empty texts
            where it does not ask them.
        skipped: (steps,) whether nothing was drawn at a step; the field `noisy` of a file is empty there.
    """

    name: str
    column: str | None
    cells: tuple[str, ...]
    noisy: NDArray[np.int64] | NDArray[np.float64]
    released: NDArray[np.int64] | NDArray[np.float64]
    skipped: NDArray[np.bool_]
    processes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MadeSeries:
    """The rows of what is made of released values; it has no noise of its own.

    Args:
        name: the release's name.
        column: the cell column, None for one number a row.
        cells: names of the cells, in order.
        released: (rows, cells), masked where a field of a file is empty.
        steps: of how many steps a row is.
        first: at which step the first one begins.
    """

    name: str
    column: str | None
    cells: tuple[str, ...]
    released: np.ma.MaskedArray[Any, Any]
    steps: int
    first: int

    def rows(self, steps: int) -> int:
        """How many rows there are of so many steps."""
        return max(steps - self.first, 0) // self.steps

    @property
    def begins(self) -> range:
        """At which step each row begins."""
        return range(self.first, self.first + self.steps * len(self.released), self.steps)


@dataclass(frozen=True)
class Release:
    """What a run published: steps 0, 1, ... of every release of a plan.

    Args:
        series: by release name, in the plan's order.
        made: the same of what is made of released values.
        times: the moment each step begins, ISO; empty texts when nobody said.
        is_release: False when the noise, or the events, came from a seed: such values protect nobody.
        before: how many of the steps were not released by this run, but before it, or by another at the same time.
    """

    series: dict[str, Series]
    times: tuple[str, ...]
    is_release: bool
    before: int = 0
    made: dict[str, MadeSeries] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, Series | MadeSeries]:
        """Everything that has a file of its own, by name."""
        return {**self.series, **self.made}

    @property
    def steps(self) -> range:
        """The released steps."""
        return range(len(self.times))

    @property
    def name(self) -> str:
        """The name of the only release."""
        return self._only.name

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the only release."""
        return self._only.cells

    @property
    def noisy(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """(steps, cells) noisy values of the only release."""
        return self._only.noisy

    @property
    def released(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """(steps, cells) published values of the only release."""
        return self._only.released

    @property
    def _only(self) -> Series:
        (series,) = self.series.values()
        return series


def output_paths(
    names: Iterable[str], path: str | Path, suffixes: tuple[str, ...] = OUTPUT_SUFFIXES
) -> dict[str, Path]:
    """Where each release is written: the path itself, or with several releases one file each, named after them.

    Raises:
        ReleaseError: an unknown suffix, or no such directory.
    """
    try:
        require_here(path)
    except DataError as error:
        remedy = "name a file on this machine; what it holds can be copied there afterwards"
        reason = "it is a URL, and nothing is written to another place than this machine"
        raise ReleaseError(OUTPUT, UNWRITABLE, where=error.where, because=reason, help=remedy) from None
    file = Path(path)
    if not file.name.lower().endswith(suffixes):
        raise _unwritable(file, f"its suffix is none of {', '.join(suffixes)}", "name a CSV or Parquet file")
    if not file.parent.is_dir() or file.is_dir():
        raise _unwritable(file, "there is no such directory, or it is one itself", "make the directory first")
    names = list(names)
    if len(names) == 1:
        return {names[0]: file}
    return {name: file.with_name(f"{file.stem}-{name}{file.suffix}") for name in names}


def own_outputs(plan: Plan, path: str | Path, *, simulated: bool = False) -> dict[str, Path]:
    """Where everything of a plan that has a file is written, by name, where it may be.

    Raises:
        ReleaseError: as `output_paths` and `require_own` say.
    """
    made = {one.name: one.query.by for one in plan.made}
    columns = {**{one.name: one.query.by for one in plan.releases}, **made}
    paths = output_paths(columns, path)
    for name, file in paths.items():
        require_own(file, columns[name], simulated=simulated, made=name in made)
    return paths


def require_own(path: Path, column: str | None, *, simulated: bool = False, made: bool = False) -> None:
    """Nothing when a file can be written there, and none is there or one with the columns of this release.

    Args:
        path: where a release will be written.
        column: the cell column, None without cells.
        simulated: whether the one that is there has to say that it is simulated, or must not.
        made: whether it is made of released values, and has no noisy ones.

    Raises:
        ReleaseError: its directory may not be written to, or another file is there, which is not written over.
    """
    require_writable(path)
    if not path.exists():
        return
    connection = connect()
    try:
        with open_table(connection, path) as table:
            found = set(table.columns)
    except DataError:
        found = set()
    finally:
        connection.close()
    wanted = {"step", "time", "released", *(() if column is None else (column,)), *(() if made else ("noisy",))}
    if not wanted <= found or (made and "noisy" in found) or ("simulated" in found) != simulated:
        raise ReleaseError(
            OUTPUT,
            "this file exists and is no release of this plan",
            where=str(path),
            because=f"a {'simulation' if simulated else 'run'} writes over its own releases only",
            help="choose another name for the output",
        )


def require_writable(path: Path) -> None:
    """Nothing when a file can be made there, or where a link there leads; ReleaseError says why not."""
    try:
        target = followed(path)
    except OSError as error:
        raise _unwritable(path, str(error.strerror), "name another place for the output") from None
    folder = target.parent
    if not folder.is_dir():
        raise _unwritable(path, "it is a link into a directory that does not exist", "make the directory first")
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = "give yourself leave to write there, or name another place for the output"
        raise _unwritable(path, "its directory may not be written to", remedy)
    longest = os.pathconf(folder, "PC_NAME_MAX")
    if len(os.fsencode(target.name)) + LONGER_DRAFT > longest:
        remedy = f"choose one of at most {longest - LONGER_DRAFT} bytes: it is longer while it is written"
        raise _unwritable(path, "its name is too long", remedy)


def write_release(release: Release, path: str | Path) -> list[Path]:
    """Write a release as CSV or Parquet, by suffix; a reader sees the old file or the new one, never half of one.

    Args:
        release: what to write.
        path: the file; with several releases the stem of their names, as `output_paths` says.

    Returns:
        The files, in the order of the releases.

    Raises:
        ReleaseError: it cannot be written.
    """
    written = []
    for name, file in output_paths(release.files, path).items():
        series = release.files[name]
        try:
            target = followed(file)
            with draft(target) as new:
                _write_csv(release, series, new, len(release.steps))
                place(_as_parquet(release, series, new) if file.suffix.lower() == ".parquet" else new, target)
        except OSError as error:
            if is_full(error):
                kept = ": the steps are in the ledger, and are written from it" if release.is_release else ""
                raise _unwritable(file, "the disk is full", f"make room, then run again{kept}") from None
            raise _unwritable(file, "the system refused", "check the directory and its rights") from None
        written.append(file)
    return written


def _columns(release: Release, series: Series | MadeSeries) -> dict[str, str]:
    """Names and duckdb types of the columns of a file."""
    columns = {"step": "BIGINT", "time": "TIMESTAMP"}
    if series.column is not None:
        columns[series.column] = "VARCHAR"
    if isinstance(series, Series):
        columns["noisy"] = "BIGINT" if series.noisy.dtype.kind == "i" else "DOUBLE"
    columns |= {"released": "BIGINT" if series.released.dtype.kind == "i" else "DOUBLE"}
    return columns if release.is_release else columns | {"simulated": "VARCHAR"}


def same_as_written(release: Release, series: Series | MadeSeries, file: Path, steps: int) -> bool | None:
    """Whether a file is, to the byte, what a run writes for its first `steps` steps.

    None for a Parquet file of another version of duckdb: it has its own way to write the same values.
    """
    with tempfile.TemporaryDirectory() as folder:
        expected = Path(folder) / "expected"
        _write_csv(release, series, expected, steps)
        if file.suffix.lower() == ".parquet":
            if (writer := _writer(file)) != _own_writer() and writer is not None:
                return None
            expected = _as_parquet(release, series, expected)
        return expected.read_bytes() == file.read_bytes()


def _own_writer() -> str:
    """What a Parquet file of this version of duckdb says of its maker."""
    import duckdb

    return f"duckdb {duckdb.__version__}"


def _writer(file: Path) -> str | None:
    """Which duckdb wrote a Parquet file of ours, by what it says in two places; None where these do not agree."""
    connection = connect()
    try:
        with reading(file), file.open("rb") as handle:
            place = quoted(opened(handle.fileno()))
            ((made,),) = connection.execute(f"SELECT created_by FROM parquet_file_metadata({place})").fetchall()
            said = connection.execute(
                f"SELECT value FROM parquet_kv_metadata({place}) WHERE key = {quoted(WRITER)}"
            ).fetchall()
    except DataError:
        return None
    finally:
        connection.close()
    name = said[0][0].decode("utf-8", "replace") if len(said) == 1 else ""
    return name if name.startswith("duckdb ") and f"v{name.removeprefix('duckdb ')} " in f"{made} " else None


def _write_csv(release: Release, series: Series | MadeSeries, file: Path, steps: int) -> None:
    mark = () if release.is_release else (NOT_A_RELEASE,)
    with file.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(_columns(release, series))
        if isinstance(series, MadeSeries):
            count = series.rows(steps)
            for step, values in zip(series.begins[:count], series.released[:count].tolist(), strict=True):
                for cell, published in zip(series.cells, values, strict=True):  # None where there is none
                    place = (step, release.times[step]) if series.column is None else (step, release.times[step], cell)
                    writer.writerow((*place, published, *mark))
            return
        skipped = series.skipped.tolist()
        rows = zip(series.noisy[:steps].tolist(), series.released[:steps].tolist(), strict=True)
        for step, (noisy, released) in enumerate(rows):
            time = release.times[step]
            for cell, drawn, published in zip(series.cells, noisy, released, strict=True):
                place = (step, time) if series.column is None else (step, time, cell)
                writer.writerow((*place, "" if skipped[step] else drawn, published, *mark))


def _as_parquet(release: Release, series: Series | MadeSeries, file: Path) -> Path:
    """The same as Parquet, in a file beside; OSError when the system refuses."""
    import duckdb

    columns = _columns(release, series)
    layout = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in columns.items())
    beside = file.with_name(file.name + ".parquet")
    connection = connect()
    try:
        with file.open("rb") as text, beside.open("wb") as table:
            connection.execute("SET threads = 1")  # the same values have the same bytes
            connection.execute(
                f"COPY (FROM read_csv({quoted(opened(text.fileno()))}, auto_detect = false, header = true, "
                f"delim = ',', quote = '\"', escape = '\"', hive_partitioning = false, columns = {{{layout}}})) "
                f"TO {quoted(opened(table.fileno()))} (FORMAT parquet, USE_TMP_FILE false, "
                f"KV_METADATA {{{WRITER}: {quoted(_own_writer())}}})"
            )
    except duckdb.Error as error:  # it read what was written just now
        raise (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if is_full(error) else OSError()) from None
    finally:
        connection.close()
    return beside


@dataclass(frozen=True)
class ReadRelease:
    """A release file as it stands: one row a step and cell.

    Args:
        steps: (rows,).
        times: (rows,) microseconds since 1970; -1 where there is none.
        cells: the cell of each row, "" without cells.
        noisy: (rows,); 0 where the field is empty.
        skipped: (rows,) whether it is.
        released: (rows,); 0 where the field is empty.
        left_out: (rows,) whether it is.
        simulated: whether it says that it is not a release.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    cells: list[str]
    noisy: NDArray[np.int64]
    skipped: NDArray[np.bool_]
    released: NDArray[np.float64]
    left_out: NDArray[np.bool_]
    simulated: bool


def read_release(path: str | Path, column: str | None, *, whole: bool = True) -> ReadRelease:
    """Read what `write_release` wrote.

    Args:
        path: the file.
        column: the cell column, None without cells.
        whole: whether noisy values are whole numbers.

    Raises:
        DataError: not readable, or a column is missing.
        ReleaseError: a value is not a number.
    """
    connection = connect()
    try:
        with open_table(connection, path) as table, reading(table.path):
            cell = "''" if column is None else table.column(column, "cell", ("step", "noisy", "released"))
            step, time, noisy, released = (
                table.column(name, f"column of {name} values", ("step", "noisy", "released"))
                for name in ("step", "time", "noisy", "released")
            )
            kind = "BIGINT" if whole else "DOUBLE"
            found = connection.execute(
                f"SELECT TRY_CAST({step} AS BIGINT) AS step, coalesce(epoch_us(TRY_CAST({time} AS TIMESTAMP)), -1) "
                f"AS time, {cell}::VARCHAR AS cell, CASE WHEN "
                f"coalesce({noisy}::VARCHAR, '') = '' THEN 0 ELSE TRY_CAST({noisy} AS {kind}) END AS noisy, "
                f"coalesce({noisy}::VARCHAR, '') = '' AS skipped, "
                f"CASE WHEN coalesce({released}::VARCHAR, '') = '' THEN 0 ELSE TRY_CAST({released} AS DOUBLE) END "
                f"AS released, coalesce({released}::VARCHAR, '') = '' AS left_out FROM {table.source}"
            ).fetchnumpy()
            table.require_all(len(found["step"]))
    finally:
        connection.close()
    for name, values in found.items():
        if np.ma.is_masked(values):
            row = int(np.argmax(np.ma.getmaskarray(values)))
            raise ReleaseError(
                "E0827",
                f"the value in column `{name}` cannot be read",
                where=place_of(path, row),
                help="compare the file that `policyc run` wrote, as it was written",
            )
    columns = {name: np.ma.getdata(values) for name, values in found.items()}
    return ReadRelease(
        steps=columns["step"],
        times=columns["time"],
        cells=columns["cell"].tolist(),
        noisy=columns["noisy"],
        skipped=columns["skipped"],
        released=columns["released"],
        left_out=columns["left_out"],
        simulated="simulated" in table.types,
    )


def _unwritable(file: Path, reason: str, remedy: str) -> ReleaseError:
    return ReleaseError(OUTPUT, UNWRITABLE, where=str(file), because=reason, help=remedy)
