"""From a file to the text of a policy; what is no text is refused here."""

from __future__ import annotations

import errno
import hashlib
from os import PathLike
from pathlib import Path

from policyc.diagnostics import Diagnostic, PolicyError, Source, Span
from policyc_check.files import read_ordinary

MAX_BYTES = 1 << 20
DATA_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet")


def read_source(path: str | PathLike[str]) -> Source:
    """Reads a policy file: UTF-8, with or without byte order mark, any line ends.

    Args:
        path: the file.

    Returns:
        Its text, named by the path as given, or by the file's name alone when the path is absolute, so that nothing
        made from it names a machine.

    Raises:
        PolicyError: with one finding: no such file, not readable, data, too large, not text, not UTF-8.
    """
    file = Path(path)
    source = Source(file.name if file.is_absolute() else file.as_posix(), "")
    try:
        if file.is_dir():
            raise PolicyError(source, [_finding("E0101", "this is a directory", "name a policy file in it")])
        if file.name.lower().endswith(DATA_SUFFIXES) and file.exists():  # findings would show its rows
            remedy = "name a policy; `policyc run DIR --input FILE` reads data"
            raise PolicyError(source, [_finding("E0102", "this is data, not a policy", remedy)])
        data = read_ordinary(file, MAX_BYTES)
    except FileNotFoundError:
        remedy = "check the path, or run `policyc init NAME` for a new policy"
        raise PolicyError(source, [_finding("E0101", "there is no such file", remedy)]) from None
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        if number == errno.EFBIG:
            raise _too_large(source) from None
        reason = getattr(error, "strerror", None) or "the path is not valid"
        remedy = "check the path and its permissions"
        if number == errno.EINVAL:
            remedy = "name an ordinary file; what a program writes is put into one first (`fmt -` reads standard input)"
        raise PolicyError(source, [_finding("E0101", f"the file cannot be read: {reason.lower()}", remedy)]) from None
    return _decode(source.name, data)


def source_of(name: str, text: str) -> Source:
    """A text that stands in an editor, under the name of its file.

    Raises:
        PolicyError: it is too large.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _too_large(Source(name, ""))
    return Source(name, text.replace("\r\n", "\n").replace("\r", "\n"))


def _too_large(source: Source) -> PolicyError:
    remedy = 'a policy is one page; put large matrices into files: `file("matrix.csv")`'
    return PolicyError(source, [_finding("E0104", "the file is larger than 1 MiB", remedy)])


def _decode(name: str, data: bytes) -> Source:
    """The text of a file's bytes."""
    if 0 in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        message = f"this is not text: {_place(data, data.index(0))} is NUL, the character U+0000"
        remedy = "delete it where this is a policy; else name a text file"
        raise PolicyError(Source(name, ""), [_finding("E0102", message, remedy)])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"this is not UTF-8: {_place(data, error.start)} is 0x{data[error.start]:02x}"
        raise PolicyError(Source(name, ""), [_finding("E0103", message, "save the file as UTF-8")]) from None
    return Source(name, text.replace("\r\n", "\n").replace("\r", "\n"), hashlib.sha256(data).hexdigest())


def _place(data: bytes, index: int) -> str:
    line, column = data.count(b"\n", 0, index) + 1, index - data.rfind(b"\n", 0, index)
    return f"byte {column} of line {line}"


def _finding(code: str, message: str, remedy: str) -> Diagnostic:
    return Diagnostic(code, message, Span(0, 0), help=remedy)
