"""Where released values may be written: a file of their own, which is none of anybody else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from policyc_runtime.errors import DataError, ReleaseError
from policyc_runtime.files import followed, journal_file
from policyc_runtime.ledger_private import key_file
from policyc_runtime.ledger_seal import pin_file, seal_file
from policyc_runtime.sources.tables import connect, open_table, require_here

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan

OUTPUT_SUFFIXES = (".csv", ".parquet")
OUTPUT, UNWRITABLE = "E0826", "the output cannot be written"
LONGER_DRAFT = len("..01234567.new.parquet")  # than the name of the file that it is for


def output_paths(
    names: Iterable[str], path: str | Path, suffixes: tuple[str, ...] = OUTPUT_SUFFIXES, problem: str = UNWRITABLE
) -> dict[str, Path]:
    """Where each release is written: the path itself, or with several releases one file each, named after them.

    Args:
        names: of what is written.
        path: what the run was given.
        suffixes: of files that can be written.
        problem: what is said of another path.

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
        reason, remedy = f"its suffix is none of {', '.join(suffixes)}", "name a CSV or Parquet file"
        raise ReleaseError(OUTPUT, problem, where=str(file), because=reason, help=remedy)
    if not file.parent.is_dir() or file.is_dir():
        reason, remedy = (
            "there is no such directory, or it is one itself",
            "check the name, and make the directory first",
        )
        raise ReleaseError(OUTPUT, problem, where=str(file), because=reason, help=remedy)
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
    if not os.access(path, os.R_OK):
        raise ReleaseError(
            OUTPUT,
            "this file exists and may not be read",
            where=str(path),
            because="whether it is a release of this plan cannot be seen, and nothing else is written over",
            help="let it be read, or choose another name for the output",
        )
    connection = connect()
    try:
        with open_table(connection, path, names_only=True) as table:
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


def require_beside(places: Iterable[Path], ledger: Path, pin: Path | None) -> None:
    """Nothing when files can be written without taking the place of a ledger, or of what is kept with it.

    Raises:
        ReleaseError: one of them is the ledger, its seal, pin or journal, or lies among its private files.
    """
    private = key_file(ledger).parent.resolve()
    own = {
        file.resolve() for file in (ledger, seal_file(ledger), pin or pin_file(ledger), journal_file(ledger)) if file
    }
    for place in places:
        target = followed(place).resolve()
        if target in own or target.parent == private:
            raise unwritable(place, "the ledger is kept there, with its seal, its pin and `private/`", "name another")


def require_writable(path: Path) -> None:
    """Nothing when a file can be made there, or where a link there leads; ReleaseError says why not."""
    try:
        target = followed(path)
    except OSError as error:
        raise unwritable(path, str(error.strerror), "name another place for the output") from None
    folder = target.parent
    if not folder.is_dir():
        raise unwritable(path, "it is a link into a directory that does not exist", "make the directory first")
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = "give yourself leave to write there, or name another place for the output"
        raise unwritable(path, "its directory may not be written to", remedy)
    longest = os.pathconf(folder, "PC_NAME_MAX")
    if len(os.fsencode(target.name)) + LONGER_DRAFT > longest:
        remedy = f"choose one of at most {longest - LONGER_DRAFT} bytes: it is longer while it is written"
        raise unwritable(path, "its name is too long", remedy)


def unwritable(file: Path, reason: str, remedy: str) -> ReleaseError:
    """The error of an output that cannot be written, and why."""
    return ReleaseError(OUTPUT, UNWRITABLE, where=str(file), because=reason, help=remedy)
