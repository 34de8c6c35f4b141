"""Which code makes a certificate: a hash of the installed packages, since many builds may say the same version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGES = ("policyc", "policyc_check", "policyc_grammar", "policyc_runtime")
SUFFIXES = (
    ".css",
    ".ipynb",
    ".jinja",
    ".js",
    ".json",
    ".lark",
    ".md",
    ".py",
    ".svg",
)  # compiled files differ from machine to machine


@cache
def installed_code() -> str:
    """SHA-256, hexadecimal, of what `sha256sum` prints for the packages' files, sorted by name.

    The names are as in a wheel (`policyc/emit/pdf.py`), so a published wheel that is unpacked has the same hash.
    """
    return code_of((name, files(name)) for name in PACKAGES)


def code_of(packages: Iterator[tuple[str, Traversable]]) -> str:
    """The hash of packages, each with its name; some 20 ms for the three of policyc."""
    found = sorted((name, file) for package, root in packages for name, file in _files(root, package))
    listing = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n" for name, file in found)
    return hashlib.sha256(listing.encode()).hexdigest()


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    """Every file of a package that says what it does, by its name in a wheel."""
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _files(entry, path)
        elif entry.name.endswith(SUFFIXES):
            yield path, entry
