"""Names of columns, cells and releases: can everybody read them, and has a plan room for them?

Names in the policy's text were looked at when it was read; cells may come from a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath, PureWindowsPath

from policyc.diagnostics import Diagnostic, Span
from policyc.semantics.policy import Policy
from policyc.syntax.scan import INVISIBLE

LONGEST_NAME = 1000
LINE_END = re.compile(r"[\t\n\r]")


def check_names(policy: Policy) -> Iterator[Diagnostic]:
    """Names that are too long, or have characters that cannot be seen."""
    stream = policy.stream
    named = [(policy.name, "the policy's name", Span(0, 1))]
    named.append((PurePath(policy.source.name).name, "the file's name", Span(0, 1)))
    named += [(name, "a name in the stream", stream.span) for name in (stream.name, stream.user, stream.time)]
    named += [(release.name, "a release's name", release.span) for release in policy.releases]
    named += [(made.name, "a release's name", made.span) for made in policy.made]
    named += [(release.column or "", "a column's name", release.span) for release in policy.releases]
    named += [(known.group or "", "a group's name", known.span) for known in policy.correlations]
    if PureWindowsPath(named[1][0]).name != named[1][0]:
        yield Diagnostic(
            "E0115",
            "the file's name leads elsewhere on another system",
            Span(0, 1),
            because="a plan keeps its policy beside it, under the same name",
            help="rename the file: letters, digits, `_`, `-` and dots",
        )
    cell = stream.cell
    if cell is not None:
        named += [(name, "a cell", cell.span) for name in cell.states]
        named += [(name, "a name of a level", cell.span) for level in cell.levels for name in level.names]
        columns = [cell.column, *(level.column for level in cell.levels)]
        named += [(column, "a column's name", cell.span) for column in columns]
    for name, what, span in named:
        if len(name) > LONGEST_NAME:
            message = f"{what} has {len(name):,} characters, and must have at most {LONGEST_NAME:,}"
            yield Diagnostic("E0209", message, span, help="choose a shorter one")
        if (found := INVISIBLE.search(name) or LINE_END.search(name)) is not None:
            yield Diagnostic(
                "E0115",
                f"{what} has the invisible character U+{ord(found.group()):04X}",
                span,
                because="a policy must read the same to everybody who signs it",
                help="delete it, or write a plain space",
            )
