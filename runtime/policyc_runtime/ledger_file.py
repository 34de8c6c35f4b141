"""The file a ledger lives in: its tables, how it is opened, and what is refused about it."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from policyc_check.plan.plan import canonical_json
from policyc_runtime.errors import LedgerError, ReleaseError
from policyc_runtime.files import is_full, is_no_file, journal_file
from policyc_runtime.ledger_private import private_files, steps_file
from policyc_runtime.ledger_seal import pin_file, seal_file
from policyc_runtime.plan import Plan

FORMAT = "policyc-ledger"
VERSION = "3"
APPLICATION = 0x706F6C79
SYSTEM, SEEDED = "system", "simulation"  # where noise comes from: the operating system, or a seed
ON_SIMULATED_EVENTS = "system, on simulated events"
BUSY = "E0824"
BUSY_SECONDS = 10.0

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE head (
  id INTEGER PRIMARY KEY CHECK (id = 1), entries INTEGER NOT NULL, hash TEXT NOT NULL, history TEXT NOT NULL,
  coming_history TEXT NOT NULL);
CREATE TABLE entry (
  number INTEGER PRIMARY KEY, step INTEGER NOT NULL, release TEXT NOT NULL, noisy TEXT NOT NULL,
  published TEXT NOT NULL, data TEXT NOT NULL, epsilon TEXT NOT NULL, scale TEXT NOT NULL,
  process TEXT NOT NULL, known INTEGER NOT NULL, hash TEXT NOT NULL,
  UNIQUE (step, release));
CREATE TRIGGER entry_kept BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END;
CREATE TRIGGER entry_fixed BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER meta_kept BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'nothing is removed'); END;
CREATE TRIGGER meta_fixed BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'nothing is changed'); END;
"""


STATEMENTS = tuple(
    text.replace("\0", ";").strip() for text in SCHEMA.replace("; END", "\0 END").split(";\n") if text.strip()
)
ROOM = "check the directory, its rights and space, and the limit on the size of files (`ulimit -f`), then run again"
RESTORE = "restore the file from a copy; never start a new ledger for steps that were published"


def connect(uri: str) -> sqlite3.Connection:
    """An sqlite connection without implicit transactions."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


@contextmanager
def held_still(path: Path, release: str) -> Iterator[int]:
    """How many steps of a release a ledger has, while nobody adds to it; let go when the process ends, however it does.

    Raises:
        LedgerError: E0824, somebody adds to it; E0820, it cannot be read.
    """
    with guarded(path):
        connection = connect(path.absolute().as_uri() + "?mode=rw")
    try:
        with guarded(path):
            connection.execute("BEGIN IMMEDIATE")
            asked = "SELECT step + 1 FROM entry WHERE release = ? ORDER BY step DESC LIMIT 1"
            found = connection.execute(asked, (release,)).fetchone()
        yield found[0] if found else 0
    finally:
        connection.close()


def recovered(path: Path, folder: str) -> Path:
    """A copy of a ledger whose run was killed while it wrote, with what it had begun undone."""
    copy = Path(folder) / path.name
    journal = journal_file(path)
    if not journal.exists():
        return path
    shutil.copyfile(journal, journal_file(copy))
    shutil.copyfile(path, copy)
    connection = connect(copy.absolute().as_uri() + "?mode=rw")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    finally:
        connection.close()
    return copy


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """The tables are those of a ledger, and the triggers that keep their rows are there; LedgerError otherwise."""
    found = {text for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if found != set(STATEMENTS):
        raise altered(path, "its tables, or the rules that keep their rows")


def policy_hash(plan: Plan) -> str:
    """One hash of the policy file and of all files it refers to."""
    return hashlib.sha256(
        canonical_json([plan.policy.source.sha256, *(file.sha256 for file in plan.policy.files)])
    ).hexdigest()


def check_owner(path: Path, meta: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Nothing when the ledger is of this plan and kind of noise; LedgerError says what differs."""
    other = next((name for name in ("policy", "plan", "generator") if meta.get(name) != expected[name]), None)
    if other == "generator":
        raise LedgerError(
            "E0828",
            "simulated and released steps do not share a ledger",
            where=str(path),
            because=f"it holds noise {_from(meta.get('generator', ''))}; now it would be {_from(expected[other])}",
            help="for events of the other kind compile the policy into another directory: "
            "`policyc compile FILE -o OTHER`",
        )
    if other is not None:
        raise LedgerError(
            "E0821",
            "the ledger belongs to another policy" if other == "policy" else "the ledger belongs to another plan",
            where=str(path),
            because="what it spent was spent under that one; steps released under two plans cost the sum of both",
            help="run the plan it belongs to; a new ledger is right only for a stream of which nothing was published",
        )


def _from(generator: str) -> str:
    """What noise was drawn for, by what a ledger says of its generator."""
    return {SYSTEM: "for real events", ON_SIMULATED_EVENTS: "for simulated events"}.get(generator, "from a seed")


def require_files(path: Path, pin: Path | None = None) -> None:
    """Nothing where a ledger and all that lies beside it are files, or are not there: a pipe is waited for without end.

    Raises:
        LedgerError: E0820, one of them is something else.
    """
    with guarded(path):
        journals = map(journal_file, (path, steps_file(path)))
        for place in (path, seal_file(path), pin or pin_file(path), *journals, *private_files(path)):
            if place is not None and is_no_file(place):
                raise damaged(place, "it is a pipe, a socket or a device, and no file", RESTORE)
        for place in private_files(path):
            if place.is_dir() or (place.is_symlink() and not place.exists()):
                raise damaged(place, "it is a folder, or a link that leads to no file", RESTORE)


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turns sqlite's and the file system's errors into refusals."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise LedgerError(
                BUSY,
                "the ledger is busy",
                where=str(path),
                because=f"another process has held it for more than {BUSY_SECONDS:.0f} seconds",
                help="wait until the other run is done, then run again",
            ) from None
        if "readonly" in text:
            remedy = "run the plan again, with leave to write: an interrupted run is then undone"
            raise damaged(path, "it must be written to, and may not be", remedy) from None
        if is_full(error):
            raise _no_room(path) from None
        raise damaged(path, "it cannot be opened, or written to", ROOM) from None
    except sqlite3.DatabaseError:
        raise damaged(path, "it is not a whole ledger: truncated, or another kind of file", RESTORE) from None
    except OSError as error:
        if is_full(error):
            raise _no_room(path) from None
        beside = f"`{Path(error.filename).name}`" if isinstance(error.filename, str) else "what lies beside it"
        raise damaged(path, f"{beside} cannot be read or written", ROOM) from None


def _no_room(path: Path) -> LedgerError:
    remedy = "make room, then run again: what the ledger held is kept, and no step is released that it does not hold"
    return damaged(path, "the disk is full", remedy)


def overtaken(path: Path, what: str) -> LedgerError:
    """The refusal to go on from what was true before another run did something."""
    return LedgerError(
        BUSY,
        f"another run {what} in the meantime",
        where=str(path),
        because="this run began from what was there before; nothing was drawn",
        help="run again",
    )


def damaged(path: Path, reason: str, remedy: str) -> LedgerError:
    """The refusal of a file that cannot be used."""
    return LedgerError("E0820", "the ledger cannot be used", where=str(path), because=reason, help=remedy)


def altered(path: Path, place: str) -> LedgerError:
    """The refusal of a broken chain."""
    return LedgerError(
        "E0823",
        "the ledger was altered",
        where=f"{path}: {place}",
        because="the hash there does not follow from what stands before it",
        help=RESTORE,
    )


def lost(path: Path, witness: Path) -> LedgerError:
    """The refusal to begin anew where something is left of an earlier run."""
    return LedgerError(
        "E0822",
        "the ledger is lost",
        where=str(path),
        because=f"`{witness}` is left of an earlier run; drawing noise for the same steps again would give them away",
        help="restore the ledger from a copy, or name it with `--ledger` if it lies elsewhere; if another plan made "
        f"`{witness}`, name another output, and mind that both plans together tell more than each promises; only if "
        f"nothing was ever published, move `{witness}` away",
    )


def unpublished(ledger: Path, step: int) -> ReleaseError:
    """The refusal to go on after a step whose noise is spent and whose values could not be made."""
    return ReleaseError(
        "E0830",
        f"no published values could be made for step {step}",
        where=str(ledger),
        because="its noise was drawn and is kept: drawing again would tell more than was promised",
        help="compile a policy with constraints that can always be kept, for the steps to come",
    )
