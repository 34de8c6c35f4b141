"""A release under another name, everywhere that it is named."""

from __future__ import annotations

import re

from policyc.diagnostics import Edit, PolicyError, Source, Span
from policyc.editor.names import places_of, release_at
from policyc.syntax import parse_policy, tree


class Refused(Exception):  # noqa: N818  what an editor shows, no fault of the program
    """Why a release is not renamed."""


def renamed_at(source: Source, offset: int) -> tuple[str, Span]:
    """The release that would be renamed at a place, and where its name stands there.

    Raises:
        Refused: there is none, or the text has faults, so that some places would be missed.
    """
    found = release_at(_statements(source), offset)
    if found is None:
        raise Refused("only releases are renamed: here is none")
    return found


def rename(source: Source, offset: int, name: str) -> list[Edit]:
    """The edits that give the release at a place another name.

    Raises:
        Refused: as above, or the name is none, or taken.
    """
    statements = _statements(source)
    release, _ = renamed_at(source, offset)
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        raise Refused("a name is made of the letters a to z, digits and _, and begins with no digit")
    streams = [one.name.text for one in statements if isinstance(one, tree.Stream)]
    others = [one.name.text for one in statements if isinstance(one, tree.Release) and one.name.text != release]
    taken = next((one for one in (*streams, *others, "population") if one.casefold() == name.casefold()), None)
    if taken is not None:
        raise Refused(f"the name {taken} is taken")
    return [Edit(span, name) for span in places_of(statements, release)]


def _statements(source: Source) -> tuple[tree.Statement, ...]:
    try:
        return parse_policy(source).statements
    except PolicyError as error:
        line, _ = source.line_and_column(error.diagnostics[0].span.start)
        raise Refused(f"line {line} cannot be read: put it right first") from None
