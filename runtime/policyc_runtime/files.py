"""Writing files whole, and reading those of a directory.

What is written goes beside the target first and is then renamed, so that a reader sees the old file or the new one.
Whoever writes a draft holds a lock on it, so that a draft without one is what a killed run left, and goes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from policyc_check.files import read_ordinary

PRIVATE_MODE = 0o600
PIECE = 2**30  # bytes that the system is asked to copy at a time


def read_inside(path: Path, directory: Path) -> bytes:
    """The bytes of an ordinary file that lies in a directory, whatever links there are on the way.

    Raises:
        OSError: it cannot be read, is no such file, or lies elsewhere; its `strerror` says why.
    """
    try:
        outside = not path.resolve().is_relative_to(directory.resolve())
    except RuntimeError:
        raise OSError(errno.ELOOP, "it is a link to itself", str(path)) from None
    if outside:
        raise OSError(errno.EINVAL, "it is a link that leaves the directory", str(path))
    return read_ordinary(path)


def followed(path: Path) -> Path:
    """The file that a name means which somebody chose, wherever links lead: it is written, and the links stay.

    Raises:
        OSError: it is a link to itself; its `strerror` says so.
    """
    try:
        return path.resolve() if path.is_symlink() else path
    except RuntimeError:
        raise OSError(errno.ELOOP, "it is a link to itself", str(path)) from None


def journal_file(database: Path) -> Path:
    """Where sqlite keeps what a transaction may have to undo."""
    return Path(f"{database}-journal")


def is_no_file(path: Path) -> bool:
    """Whether a pipe, a socket or a device is there: whoever opens it may wait without end."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def draft(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """A new file beside another, gone at the end of the block unless `place` put it there.

    Args:
        path: the file that the draft is for; what killed runs left beside it goes first.
        mode: the rights of the draft, before the process's own mask.

    Raises:
        OSError: the system refused.
    """
    clear_drafts(path)
    with speaking_of(path):
        handle, new = _begun(path, mode)
        try:
            yield new
        finally:
            _remove(new)
            os.close(handle)


@contextmanager
def speaking_of(path: Path) -> Iterator[None]:
    """Errors of the system, which say nothing or name a draft of its own, name the file that its user knows."""
    try:
        yield
    except OSError as error:
        said = error.filename
        if said is None or any(part.startswith(f".{path.name}.") for part in Path(os.fsdecode(said)).parts):
            error.filename = str(path)
        raise


def place(new: Path, path: Path, *, first: bool = False) -> os.stat_result:
    """Put a draft in its place, on disk when this returns, or raise OSError and leave the place as it was.

    FileExistsError where `first` and the place is taken, whoever was a moment earlier. What is told of it is returned,
    as soon as it is there.
    """
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    if first:
        os.link(new, path)
    else:
        new.replace(path)
    told = path.stat()
    sync_directory(path.parent)
    return told


def copy(file: Path, new: Path) -> None:
    """Fill a draft with what a file holds, without moving it where the file system can share it.

    Raises:
        OSError: the system refused.
    """
    with file.open("rb") as source, new.open("rb+") as target:
        copied = 0
        with suppress(AttributeError, OSError):  # not every system does it, nor between all file systems
            while moved := os.copy_file_range(source.fileno(), target.fileno(), PIECE):
                copied += moved
        whole = copied == os.fstat(source.fileno()).st_size
    if not whole:
        shutil.copyfile(file, new)


def clear_drafts(path: Path) -> None:
    """Take away what killed runs left beside a file; drafts of runs that live stay."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+\.new")
    with suppress(OSError):
        for left in [file for file in path.parent.iterdir() if pattern.fullmatch(file.name)]:
            with left.open("rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(left)


@contextmanager
def scratch(path: Path, kind: str = "spill") -> Iterator[Path]:
    """A folder beside a file or folder, for what does not fit into memory, say; gone at the end of the block.

    Args:
        path: what it is for; what killed runs left beside it goes first.
        kind: how the folder's name ends.

    Raises:
        OSError: the system refused.
    """
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+\.{kind}")
    for left in [folder for folder in path.parent.iterdir() if pattern.fullmatch(folder.name)]:
        if (handle := _locked(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(handle)
    while True:  # begun again if it was taken for a killed run's before it was locked
        folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}.{kind}")
        folder.mkdir(mode=0o700)
        handle = _locked(folder)
        if folder.exists():
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def write_new(path: Path, content: bytes) -> None:
    """A file that nobody looks at yet, on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _locked(folder: Path) -> int | None:
    """The open folder, locked; None where another process has it, or it is gone."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def write_bytes(path: Path, content: bytes, mode: int | None = None, *, first: bool = False) -> None:
    """Replace a file's content at once, keeping its permissions.

    Args:
        path: the file.
        content: what it will hold.
        mode: the permissions of a file that is private, whatever they were.
        first: there must be no such file yet.

    Raises:
        OSError: the system refused; the old file is as it was. FileExistsError: there is one, though none may be.
    """
    with draft(path, mode or 0o666) as new:
        _fill(new, content, path if mode is None else None)
        place(new, path, first=first)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Replace files of one directory, none before all that is new lies on disk beside them.

    Raises:
        OSError: the system refused; where it has no room every file is as it was.
    """
    with ExitStack() as drafts:
        made = {path: drafts.enter_context(draft(path)) for path in contents}
        for path, new in made.items():
            with speaking_of(path):
                _fill(new, contents[path], path)
        for path, new in made.items():
            with speaking_of(path):
                place(new, path)


def write_text(path: Path, text: str, *, first: bool = False) -> None:
    """The same for text, as UTF-8."""
    write_bytes(path, text.encode("utf-8"), first=first)


def is_full(error: Exception) -> bool:
    """Whether an error of the system, of sqlite or of duckdb says that a disk has no room left."""
    text = str(error)
    no_room = {errno.ENOSPC, errno.EDQUOT}
    return (
        getattr(error, "errno", None) in no_room
        or "disk is full" in text
        or any(os.strerror(number) in text for number in no_room)
    )


def sync_directory(directory: Path) -> None:
    """What was renamed or made in a directory is on disk when this returns."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _begun(path: Path, mode: int) -> tuple[int, Path]:
    """A new draft and the open file that holds its lock; begun again if it was taken for a killed run's before that."""
    while True:
        new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
        handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        with suppress(OSError):  # where files cannot be locked nobody can clear drafts either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if new.exists():
            return handle, new
        os.close(handle)


def _fill(new: Path, content: bytes, like: Path | None) -> None:
    """Give a draft its content, on disk when this returns, and the rights of the file that it replaces, if any."""
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if like is not None and like.exists():
        new.chmod(like.stat().st_mode & 0o777)


def _remove(new: Path) -> None:
    """A draft, and what was made of it under a longer name."""
    for file in [file for file in new.parent.iterdir() if file.name.startswith(new.name)]:
        file.unlink(missing_ok=True)
