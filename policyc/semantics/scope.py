"""What a resolution carries along: the text, the folder, the findings so far and the files read."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from policyc.diagnostics import Diagnostic, Edit, Source, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.lengths import Clock
from policyc.semantics.policy import PolicyFile
from policyc.syntax.spelling import respelt
from policyc.syntax.tree import Name, Text

_QUOTED_WIDTH = 40


def one_of(words: Iterable[str]) -> str:
    """`a`, `b` or `c`, for help lines.

    >>> one_of(["auto", "laplace"])
    '`auto` or `laplace`'
    """
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def suggest(word: str, known: Iterable[str]) -> str:
    """A help line for a word that is not known: the nearest known one, or all of them.

    >>> suggest("laplce", ["auto", "laplace"])
    'did you mean `laplace`?'
    """
    options = list(known)
    near = difflib.get_close_matches(word.lower(), options, n=1, cutoff=0.6) or difflib.get_close_matches(
        word, options, n=1, cutoff=0.6
    )
    if near:
        return f"did you mean `{near[0]}`?"
    return f"write {one_of(options[:12])}" if options else "there is nothing it could name"


def spelt(written: Name | Text, known: Iterable[str]) -> Edit | None:
    """The edit of a misspelt word, where one known word alone is near, and is that of the help line."""
    word = written.text if isinstance(written, Name) else written.value
    options = list(known)
    meant = respelt(word, options)
    if meant is None or suggest(word, options) != f"did you mean `{meant}`?":
        return None
    quoted = isinstance(written, Text) or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", meant) is None
    return Edit(written.span, json.dumps(meant, ensure_ascii=False) if quoted else meant)


class Scope:
    """Collects findings while a tree is resolved.

    Args:
        source: the policy's text.
        directory: the policy's folder; files are looked up in it.
        known_clock: that of a plan, whose table counts where the policy is held against it.
    """

    def __init__(self, source: Source, directory: Path, known_clock: Clock | None = None) -> None:
        self.source = source
        self.directory = directory
        self.known_clock = known_clock
        self.findings: list[Diagnostic] = []
        self.files: dict[str, PolicyFile] = {}
        self.broken = False
        self.step_milliseconds: int | None = None
        self.population_misread = False  # it is said, and was reported as no number of users

    def quote(self, span: Span) -> str:
        """The words of the policy at a span, on one line, shortened.

        Numbers are shown as written and never formatted: a number of a million digits must not stop a message.
        """
        words = " ".join(self.source.text[span.start : min(span.end, span.start + 4 * _QUOTED_WIDTH)].split())
        return words if len(words) <= _QUOTED_WIDTH else words[: _QUOTED_WIDTH - 3] + "..."

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        note: str | None = None,
        because: str | None = None,
        hint: str | None = None,
        labels: tuple[Label, ...] = (),
        edit: Edit | None = None,
    ) -> None:
        """Adds a finding; what it is about can still be checked further."""
        self.findings.append(
            Diagnostic(code, message, span, note=note, because=because, help=hint, labels=labels, edit=edit)
        )

    def refuse(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        note: str | None = None,
        because: str | None = None,
        hint: str | None = None,
        labels: tuple[Label, ...] = (),
        edit: Edit | None = None,
    ) -> None:
        """Adds a finding about something that has no meaning: no checked policy can be made."""
        self.broken = True
        self.report(code, message, span, note=note, because=because, hint=hint, labels=labels, edit=edit)
