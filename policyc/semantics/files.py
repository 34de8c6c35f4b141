"""Files that a policy names: found beside it, read whole, hashed."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath, PureWindowsPath

from policyc.semantics.policy import PolicyFile
from policyc.semantics.scope import Scope
from policyc.syntax.tree import Call, Text
from policyc_check.files import read_ordinary

LARGEST_FILE = 64 * 2**20


def file_name(scope: Scope, call: Call) -> str | None:
    """The path in `file("cells.csv")`, relative and inside the policy's folder."""
    arguments = call.arguments
    if len(arguments) != 1 or arguments[0].name is not None or not isinstance(arguments[0].value, Text):
        scope.refuse(
            "E0208", "`file` needs the name of one file, in quotes", call.span, hint='write `file("transitions.csv")`'
        )
        return None
    name = arguments[0].value.value
    outside = PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or "\\" in name or "\0" in name
    if outside or ".." in PurePosixPath(name).parts:
        scope.refuse(
            "E0213",
            "a policy names files in its own folder only",
            call.span,
            because="the policy, its files and their hashes travel together; a path that leaves the folder means "
            "something else on another machine",
            hint='copy the file beside the policy and name it, such as `file("transitions.csv")`',
        )
        return None
    return name


def read_bytes(scope: Scope, call: Call, most: int = LARGEST_FILE) -> tuple[str, bytes] | None:
    """Name and content of the file that a `file(...)` call names, of at most so many bytes; its hash is recorded."""
    name = file_name(scope, call)
    if name is None:
        return None
    path = scope.directory / name
    problem = _unreadable(path, scope.directory, most)
    content = b""
    if problem is None:
        try:
            content = read_ordinary(path, most)
        except OSError as error:
            problem = f"cannot be read ({(error.strerror or 'no reason given').lower()})", "check who may read it"
    if problem is None and not content.strip():
        problem = "is empty", "write into it what the policy takes from it"
    if problem is not None:
        reason, remedy = problem
        hint = remedy or _nearby(path, name)
        scope.refuse("E0212", f"file `{name[:80]}` {reason}", call.span, hint=hint)
        return None
    scope.files[name] = PolicyFile(name, hashlib.sha256(content).hexdigest())
    return name, content


def read_text(scope: Scope, call: Call, most: int = LARGEST_FILE) -> str | None:
    """The file's text: UTF-8, a byte order mark dropped."""
    read = read_bytes(scope, call, most)
    return None if read is None else decode(scope, call, *read)


def decode(scope: Scope, call: Call, name: str, content: bytes) -> str | None:
    """Content as text, or a finding that it is none."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        scope.refuse(
            "E0212", f"file `{name}` is not UTF-8 text (line {line})", call.span, hint="save it as plain UTF-8 text"
        )
        return None


def _unreadable(path: Path, directory: Path, most: int) -> tuple[str, str | None] | None:
    """Why a file cannot be used, and what to do, or None. A link that leads out of the folder counts as leaving it."""
    inside = "copy the file itself into the policy's folder"
    ordinary = "write what it gives into a file beside the policy, and name that"
    small = "take out of it what the policy does not need"
    try:
        facts = (
            (path.exists(), ("does not exist", None)),
            (not path.is_dir(), ("is a folder", "name a file in it")),
            (path.is_file(), ("is not an ordinary file", ordinary)),
            (path.resolve().is_relative_to(directory.resolve()), ("is a link that leaves the policy's folder", inside)),
            (not path.is_file() or path.stat().st_size <= most, (f"is larger than {most // 2**20} MiB", small)),
        )
    except (OSError, RuntimeError, ValueError):
        return "cannot be looked up", "name a file that lies beside the policy"
    return next((problem for fine, problem in facts if not fine), None)


def _nearby(path: Path, name: str) -> str:
    """A help line for a file that is not there: one of a similar name in the same folder, if any."""
    import difflib

    try:
        present = [p.name for p in path.parent.iterdir() if p.is_file()][:1000]
    except (OSError, ValueError):
        present = []
    near = difflib.get_close_matches(PurePosixPath(name).name, [p for p in present if p != path.name], n=1)
    return f"did you mean `{near[0]}`?" if near else "files are looked for in the policy's own folder"
