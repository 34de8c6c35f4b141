"""Released values as files, written whole or not at all; the same values have the same bytes."""
# ruff: noqa: S608  SQL is put together from quoted names only

from __future__ import annotations

import csv
import errno
import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from policyc_runtime.errors import DataError
from policyc_runtime.file_identity import Identity, settled
from policyc_runtime.files import copy, draft, followed, is_full, place
from policyc_runtime.ledger_checkpoint import Content, FoundFile, way_to, write_checkpoint
from policyc_runtime.ledger_file import held_still
from policyc_runtime.output_place import output_paths, unwritable
from policyc_runtime.published_values import NOT_A_RELEASE, Earlier, MadeSeries, Release, Series
from policyc_runtime.sources.moments import says_zone
from policyc_runtime.sources.tables import connect, opened, quoted, reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

WRITER = "policyc_writer"
PIECE = 4096  # steps whose numbers become texts at a time


def write_release(release: Release, path: str | Path) -> list[Path]:
    """Write a release as CSV or Parquet, by suffix; a reader sees the old file or the new one, never half of one.

    Args:
        release: what to write.
        path: the file; with several releases the stem of their names, as `output_paths` says.

    Returns:
        The files, in the order of the releases.

    Raises:
        ReleaseError: it cannot be written; or another run released more steps, which a file that is there would lose.
        LedgerError: E0824, another run adds to the ledger, and took too long.
    """
    with drafted_release(release, path) as drafts, _none_lost(release, drafts):
        placed = put_in_place(drafts)
    note_left(release, placed)
    return [draft.file for draft in placed]


def note_left(release: Release, drafts: Sequence[Draft]) -> None:
    """Note beside the ledger what a run left, once its files are in their places."""
    ledger, checkpoint = release.ledger, release.left
    if ledger is None or checkpoint is None:
        return
    with suppress(OSError):  # the next run then reads everything
        files = {ledger: checkpoint.identity, **{followed(draft.file): draft.content.identity for draft in drafts}}
        sure = settled({file: Identity.of_text(told) for file, told in files.items() if told})
        told = {file: told if file in sure else "" for file, told in files.items()}
        outputs = {
            way_to(draft.file, ledger): draft.content._replace(identity=told[followed(draft.file)]) for draft in drafts
        }
        write_checkpoint(ledger, checkpoint._replace(identity=told[ledger], outputs=outputs))


class Draft(NamedTuple):
    """A new file beside its place, the file that it is for, and what it holds."""

    new: Path
    file: Path
    content: Content


@contextmanager
def drafted_release(release: Release, path: str | Path) -> Iterator[list[Draft]]:
    """The same files beside their places, gone at the end of the block unless they were put there.

    Raises:
        ReleaseError: they cannot be written; or another run wrote to one that new steps are to be added to.
    """
    with ExitStack() as drafts:
        made = []
        for name, file in output_paths(release.files, path).items():
            series = release.files[name]
            with written(file, is_release=release.is_release):
                if release.begun is not None:
                    new = drafts.enter_context(release.begun.taken(name, file))
                else:
                    new = drafts.enter_context(draft(followed(file)))
                    if release.earlier is not None and isinstance(series, Series):
                        made.append(Draft(new, file, _added_to(release.earlier, release, series, new, file)))
                        continue
                    write_rows(release, series, new, release.steps.stop)
                new = _as_parquet(release, series, new) if file.suffix.lower() == ".parquet" else new
                made.append(Draft(new, file, _content(new)))
        yield made


def _content(new: Path, earlier: FoundFile | None = None) -> Content:
    """What a draft holds, on disk when this returns; it begins with all of an earlier file, if there is one."""
    with new.open("rb") as file:
        os.fsync(file.fileno())
        before = Identity.of(os.fstat(file.fileno()))
        known = () if earlier is None else (earlier.content, earlier.identity.size)
        content = Content.of(file, *known)
        return content._replace(identity=before.text)


def _added_to(earlier: Earlier, release: Release, series: Series, new: Path, file: Path) -> Content:
    """Write a file as an earlier run left it, and the rows of new steps; what it holds then."""
    found = earlier.files.get(series.name)
    if found is None:
        raise unwritable(file, "the run looked at no file to which new steps are added", "say `output` in the run")
    copy(followed(file), new)
    if not found.is_still(file):
        kept = "run again: the steps are in the ledger, and are written from it"
        raise unwritable(file, "somebody wrote to it while this run was under way", kept)
    more = "".join(rows(release, series, range(earlier.steps, release.steps.stop))).encode()
    with new.open("ab") as handle:
        handle.write(more)
    return _content(new, found)


def put_in_place(drafts: Sequence[Draft]) -> list[Draft]:
    """Let readers see the new files, and know what they are told by there; ReleaseError where the system refuses."""
    placed = []
    for new, file, content in drafts:
        with written(file):
            before = Identity.of(new.stat())
            there = Identity.of(place(new, followed(file)))
        same = before.text == content.identity and there._replace(changed=before.changed) == before
        told = there.text if same else ""  # to rename a file changes the moment of its change, and nothing else
        placed.append(Draft(new, file, content._replace(identity=told)))
    return placed


@contextmanager
def steps_held(release: Release) -> Iterator[int]:
    """How many steps are released by now, while nobody adds to them; without a ledger, as many as there are here.

    Raises:
        LedgerError: E0824, another run adds to the ledger, and took too long.
    """
    if release.ledger is None or not release.ledger.exists():
        yield release.steps.stop
        return
    with held_still(release.ledger, next(iter(release.series))) as steps:
        yield steps


@contextmanager
def _none_lost(release: Release, drafts: Sequence[Draft]) -> Iterator[None]:
    """No run adds to the ledger meanwhile, and none that did may have written steps over which this would write.

    A run writes what is in the ledger already, so that whoever finds no more steps there writes over no more.
    """
    with steps_held(release) as steps:
        there = next((draft.file for draft in drafts if draft.file.exists()), None)
        if there is not None and steps > release.steps.stop:
            reason = "other runs have released more steps than these, and a file that is there may have them"
            raise unwritable(
                there, reason, "run again for all of them: they are in the ledger, and are written from it"
            )
        yield


@contextmanager
def written(file: Path, *, is_release: bool = True) -> Iterator[None]:
    """Turns errors of the system into refusals."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            kept = ": the steps are in the ledger, and are written from it" if is_release else ""
            raise unwritable(file, "the disk is full", f"make room, then run again{kept}") from None
        raise unwritable(file, "the system refused", "check the directory and its rights") from None


def file_columns(release: Release, series: Series | MadeSeries) -> dict[str, str]:
    """Names and duckdb types of the columns of a file."""
    columns = {"step": "BIGINT", "time": "TIMESTAMPTZ" if any(map(says_zone, release.times[:1])) else "TIMESTAMP"}
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
        write_rows(release, series, expected, steps)
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


def write_rows(release: Release, series: Series | MadeSeries, file: Path, steps: int) -> None:
    """The first `steps` steps of one release as CSV, in a file that is nobody's yet."""
    with file.open("w", encoding="utf-8", newline="") as handle:
        handle.write(header(release, series))
        if isinstance(series, Series):
            handle.writelines(rows(release, series, range(release.first, steps)))
            return
        mark = () if release.is_release else (NOT_A_RELEASE,)
        count = series.rows(steps)
        for step, values in zip(series.begins[:count], series.released[:count].tolist(), strict=True):
            for cell, published in zip(series.cells, values, strict=True):  # None where there is none
                place = (step, release.times[step]) if series.column is None else (step, release.times[step], cell)
                handle.write(_line((*place, published, *mark)))


def header(release: Release, series: Series | MadeSeries) -> str:
    """The first line of a file."""
    return _line(file_columns(release, series))


def _line(fields: Iterable[object]) -> str:
    """One row of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def rows(release: Release, series: Series, steps: range) -> Iterator[str]:
    """The rows of some steps, a text a piece of them."""
    cells = [""] if series.column is None else [_line([cell])[:-1] + "," for cell in series.cells]
    end = "\n" if release.is_release else f",{NOT_A_RELEASE}\n"
    for start in range(steps.start, steps.stop, PIECE):
        piece = range(start, min(start + PIECE, steps.stop))
        here = slice(piece.start - release.first, piece.stop - release.first)
        begins = [f"{step},{time}," for step, time in zip(piece, release.times[here], strict=True)]
        places = chain.from_iterable(repeat(begin, len(cells)) for begin in begins)
        drawn, released = _fields(series.noisy[here], series.skipped[here]), _fields(series.released[here])
        rows = zip(places, cycle(cells), drawn, released, strict=False)
        yield "".join([f"{place}{cell}{z},{y}{end}" for place, cell, z, y in rows])


def _fields(values: NDArray[Any], without: NDArray[np.bool_] | None = None) -> list[Any]:
    """Numbers whose text is that of a field, row by row; an empty text where there are none, or in rows `without`."""
    gaps = np.ma.getmaskarray(values)
    gaps = gaps if without is None else gaps | without[:, None]
    fields: list[Any] = np.ma.getdata(values).ravel().tolist()
    for index in np.flatnonzero(gaps).tolist():
        fields[index] = ""
    return fields


def _as_parquet(release: Release, series: Series | MadeSeries, file: Path) -> Path:
    """The same as Parquet, in a file beside; OSError when the system refuses."""
    import duckdb

    columns = file_columns(release, series)
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
