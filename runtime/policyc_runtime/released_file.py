"""What the ledger says was released, and whether a file says the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policyc_check.claims import Claim
from policyc_check.errors import KernelError
from policyc_runtime.carried import noisy_from
from policyc_runtime.errors import DataError, LedgerError, ReleaseError
from policyc_runtime.ledger_claims import UNREADABLE, require_claims
from policyc_runtime.ledger_file import SYSTEM, unpublished
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.made_file import made_series, require_made
from policyc_runtime.noisy_values import stored_noisy, whole_values
from policyc_runtime.output import same_as_written
from policyc_runtime.output_place import output_paths
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import Recorded, ReleasePlan
from policyc_runtime.published_values import MadeSeries, Release, Series
from policyc_runtime.release_rows import read_release
from policyc_runtime.sources.moments import moment_of, step_times
from policyc_runtime.sources.simulated import says_simulated
from policyc_runtime.sources.tables import place_of, require_here
from policyc_runtime.suppression import suppressed_values, suppresses

WRITTEN_AGAIN = "move the file away and run again: steps that the ledger holds are written from it"
Values: TypeAlias = NDArray[np.int64] | NDArray[np.float64]


def stored_release(plan: Plan, book: LedgerReader, steps: int) -> Release:
    """The first steps of a ledger, as far as they were read, as a release; what is published comes from there alone."""
    steps = min(steps, book.steps)  # the last ones may wait for others
    found = {part.name: _Stored(plan, part, book, steps - book.first) for part in plan.releases}
    noisy = {name: stored.noisy for name, stored in found.items()}
    published = {name: stored.published for name, stored in found.items()}
    series = {
        name: replace(one, processes=tuple(found[name].processes))
        for name, one in as_written(plan, noisy, published).items()
    }
    return Release(
        series,
        step_times(plan, book.start, steps, book.first),
        book.meta["generator"] == SYSTEM,
        made=made_series(plan, series),
        entries=book.state.entries,
        head=book.state.hash,
        first=book.first,
        ledger=book.path.absolute(),
    )


class _Stored:
    """What a ledger says of one release's first steps, as numbers: piece by piece, as texts take ten times the room."""

    def __init__(self, plan: Plan, part: ReleasePlan, book: LedgerReader, steps: int) -> None:
        self.processes: list[str] = []
        published: list[NDArray[Any]] = [np.empty((0, len(part.cells)), np.int64 if part.integer else np.float64)]
        drawn: list[NDArray[Any]] = [np.empty((0, len(part.cells)))]
        records: list[list[int] | None] = []  # of a mechanism whose noisy values are made of all of them
        for piece in book.values.get(part.name, ()):
            taken = slice(steps - len(self.processes))
            if taken.stop <= 0:
                break
            values = json.loads(f"[{piece.published}]")[taken]
            if None in values:
                raise unpublished(book.path, book.first + len(self.processes) + values.index(None))
            published.append(np.array(values, published[0].dtype).reshape(len(values), len(part.cells)))
            noisy = json.loads(f"[{piece.noisy}]")[taken]
            if isinstance(part, Recorded):
                records += noisy
            else:
                drawn.append(stored_noisy(plan, part, noisy))
            self.processes += piece.processes[taken]
        self.published: Values = np.concatenate(published)
        if isinstance(part, Recorded):
            drawn = [noisy_from(plan, part, book, [tuple(record or ()) for record in records])]
        self.noisy: Values = np.concatenate(drawn)


def as_written(plan: Plan, noisy: Mapping[str, Values], published: Mapping[str, Values]) -> dict[str, Series]:
    """Values of every release as files have them.

    Args:
        plan: whose releases they are.
        noisy: (steps, cells) by release, NaN where nothing was drawn.
        published: (steps, cells) by release, before any are left out.
    """
    suppressing = {part.name for part in plan.releases if suppresses(plan, part)}
    left_out = suppressed_values(plan, published) if suppressing else {}
    found = {}
    for part in plan.releases:
        drawn = _numbers(np.asarray(np.nan_to_num(noisy[part.name]), np.float64), whole=whole_values(plan, part))
        released = _numbers(published[part.name], whole=part.integer)
        if part.name in suppressing:
            gaps = left_out[part.name]
            drawn, released = (np.ma.MaskedArray(np.where(gaps, 0, values), gaps) for values in (drawn, released))
        skipped = np.array(np.isnan(noisy[part.name]).any(axis=1), dtype=np.bool_)
        found[part.name] = Series(part.name, part.query.by, part.cells, drawn, released, skipped)
    return found


def _numbers(values: Values, *, whole: bool) -> Values:
    return np.rint(values).astype(np.int64) if whole and values.dtype.kind == "f" else values


class Compared(NamedTuple):
    """How many steps every file has, 0, 1, ..., how many the ledger has, and whether the files' bytes were compared."""

    steps: int
    known: int
    to_the_byte: bool


def verify_release(plan: Plan, ledger: str | Path | LedgerReader, path: str | Path) -> Compared:
    """Compare a release file with the ledger; with several releases, the path that was given to the run.

    Of an opened ledger it is known that it is the plan's, and spends what that says.

    Raises:
        LedgerError: the ledger cannot be used, or is of another plan.
        ReleaseError: the file has no rows, or is a simulation, or a value differs; names the first row.
    """
    require_here(path)
    with nullcontext(ledger) if isinstance(ledger, LedgerReader) else LedgerReader.open_read_only(ledger) as book:
        if book is not ledger:
            require_claims(book, plan)
        if not book.meta:
            raise LedgerError(
                "E0820", "there is no ledger here", where=str(book.path), help="name the ledger of the run"
            )
        stored = stored_release(plan, book, book.steps)
    files = output_paths(stored.files, path, problem="no run writes values to such a file")
    marked = not stored.is_release
    compared = [require_stored(stored.files[name], stored.times, file, marked) for name, file in files.items()]
    same = [
        same_as_written(stored, stored.files[name], file, steps)
        for (name, file), steps in zip(files.items(), compared, strict=True)
    ]
    for file, written in zip(files.values(), same, strict=True):
        if written is False:
            raise ReleaseError(
                "E0827",
                "the released values are the ledger's, but the file is not written as a run writes it",
                where=str(file),
                because="another spelling of the same values is an altered file all the same",
                help=WRITTEN_AGAIN,
            )
    if 0 in compared:
        raise ReleaseError(
            "E0827",
            "there are no released values to compare",
            where=str(list(files.values())[compared.index(0)]),
            because="a file without rows says nothing about the ledger",
            help="name the file that `policyc run` wrote",
        )
    return Compared(min(compared), len(stored.steps), None not in same)


def require_stored(series: Series | MadeSeries, times: tuple[str, ...], file: Path, marked: bool) -> int:
    """How many steps a file has, all of them as in the ledger; `marked` when that says that they are simulated."""
    try:
        return _steps_as_stored(series, times, file, marked)
    except DataError as error:
        if error.code == "E0811":
            raise ReleaseError(
                "E0827",
                "no run wrote this file",
                where=str(file),
                because=error.message.partition(",")[0],
                help="name the file that `policyc run` wrote",
            ) from None
        if error.code != "E0810" or not file.is_file():
            raise
        raise ReleaseError(
            "E0827",
            "the output cannot be read",
            where=error.where,
            because=f"{error.because}; it was cut off while it was copied, say, or altered",
            help=WRITTEN_AGAIN,
        ) from None


def _steps_as_stored(series: Series | MadeSeries, times: tuple[str, ...], file: Path, marked: bool) -> int:
    if isinstance(series, MadeSeries):
        _require_mark(marked, file, simulated=says_simulated(file))
        return require_made(series, times, file)
    found = read_release(file, series.column, whole=series.noisy.dtype.kind == "i")
    _require_mark(marked, file, simulated=found.simulated)
    rows, cells = len(found.steps), len(series.cells)
    known = series.noisy.size
    size = min(rows, known)
    moments = [moment_of(time) for time in times]
    left_out = np.ma.getmaskarray(series.released).ravel()[:size]
    wrong = (
        (found.steps[:size] != np.arange(size) // cells)
        | (found.times[:size] != np.repeat(moments, cells)[:size])
        | (found.noisy[:size] != np.ma.getdata(series.noisy).ravel()[:size])
        | (found.skipped[:size] != (np.repeat(series.skipped, cells)[:size] | left_out))
        | (found.released[:size] != np.ma.getdata(series.released).ravel()[:size])
        | (found.left_out[:size] != left_out)
        | (np.array(found.cells[:size]) != np.array(series.cells * (size // cells + 1))[:size])
    )
    row = int(np.argmax(wrong)) if wrong.any() else size
    if wrong.any() or rows > known or rows % cells:
        step, cell = divmod(row, cells)
        which = f", cell `{series.cells[cell]}`" if series.column is not None else ""
        raise ReleaseError(
            "E0827",
            f"the file and the ledger differ from step {step}{which} on",
            where=f"{place_of(file, row)}, step {step}{which}",
            because="either the file was altered, or the ledger is an older copy, or of another run",
            help="if the file has steps that the ledger has not, restore the newest ledger: a run now would draw "
            "them again; else move the file away and run again: steps that the ledger holds are written from it",
        )
    return rows // cells


def _require_mark(marked: bool, file: Path, *, simulated: bool) -> None:
    """Nothing where a file says of itself what the ledger says: that it is simulated, or is not."""
    if marked and not simulated:
        raise ReleaseError(
            "E0828",
            "the file does not say that its events were simulated",
            where=str(file),
            because="the ledger says so, and whoever reads the file would take it for a release",
            help=WRITTEN_AGAIN,
        )
    if simulated and not marked:
        raise ReleaseError(
            "E0828",
            "these values are simulated, not released",
            where=str(file),
            because="their noise came from a seed, which anybody can draw again",
            help="publish what `policyc run` wrote",
        )


def release_claims(plan: Plan, ledger: str | Path | LedgerReader, path: str | Path) -> Iterator[Claim]:
    """One line about a release file, for `policyc verify`; arguments as of `verify_release`."""
    name = "the released values are exactly the ledger's"
    try:
        compared, known, to_the_byte = verify_release(plan, ledger, path)
    except KernelError as error:
        detail = "; ".join(filter(None, (error.message, error.because, error.help)))
        yield Claim(name, False, detail, error.where, error.code)
    except UNREADABLE as error:
        detail = f"the ledger has values that no run writes ({type(error).__name__})"
        where = str(ledger.path if isinstance(ledger, LedgerReader) else ledger)
        yield Claim(name, False, detail, where, "E0823")
    else:
        whole = f"every row of {known:,} steps compared"
        part = f"steps 0 to {compared - 1:,} of {known:,} compared"
        yield Claim(name, True, whole if compared == known else part, str(path))
        detail = "written again and compared" if to_the_byte else "another version of duckdb wrote it"
        yield Claim("the file is to the byte as a run writes it", to_the_byte or None, detail, str(path))
