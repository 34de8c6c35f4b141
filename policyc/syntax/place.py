"""Where the parser stopped, with all that tells what was meant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lark import Token, UnexpectedInput, UnexpectedToken

from policyc.diagnostics import Diagnostic, Span
from policyc.syntax.scan import Scan

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LEXEME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*|[0-9][\w.]*|"[^"]*"|==|<=|>=|!=|<>|=<|=>|\.\.|.', re.DOTALL)


@dataclass(frozen=True)
class Fault:
    """A finding, and the tokens that take the place of what was found (None: give the statement up)."""

    diagnostic: Diagnostic
    repair: tuple[Token, ...] | None = None


@dataclass(frozen=True)
class Place:
    """Where the parser stopped, with all that tells what was meant.

    Args:
        scan: the characters of the policy.
        keywords: every keyword, and the terminal it belongs to.
        segment: where the parser started.
        token: what it could not read.
        offset: where that begins; the end of the text when the text ended too early.
        found: its text; empty at the end.
        accepted: the terminals that could have stood here.
    """

    scan: Scan
    keywords: Mapping[str, str]
    segment: int
    token: Token
    offset: int
    found: str
    accepted: frozenset[str]

    @property
    def span(self) -> Span:
        """The text that was found."""
        return Span(self.offset, self.offset + len(self.found))

    @property
    def previous_end(self) -> int:
        """Where the last thing before it ends."""
        return len(self.scan.masked[: self.offset].rstrip())

    @property
    def previous_word(self) -> str:
        """The last word or number before it, if it is one."""
        match = re.search(r"\w+\Z", self.scan.masked[max(0, self.previous_end - 80) : self.previous_end])
        return match.group() if match else ""

    @property
    def starts_line(self) -> bool:
        """Whether nothing stands before it on its line."""
        return self.scan.masked[: self.offset].rsplit("\n", 1)[-1].strip() == ""

    @property
    def ends_line(self) -> bool:
        """Whether nothing stands behind it on its line."""
        return self.scan.masked[self.span.end :].split("\n", 1)[0].strip() == ""

    @property
    def opener(self) -> tuple[int, str] | None:
        """The innermost bracket that is open here."""
        stack = self.scan.open_brackets(self.segment, self.offset)
        return stack[-1] if stack else None

    @property
    def is_word(self) -> bool:
        """Whether a word was found."""
        return WORD.fullmatch(self.found) is not None

    def words(self) -> list[str]:
        """The keywords that could have stood here."""
        return [word for word, terminal in self.keywords.items() if terminal in self.accepted]


def locate(error: UnexpectedToken, scan: Scan, keywords: Mapping[str, str], segment: int) -> Place:
    """Collects what is known about the place where the parser stopped."""
    at_end = error.token.type == "$END"
    offset = len(scan.masked.rstrip()) if at_end else int(error.token.start_pos or 0)
    match = None if at_end else LEXEME.match(scan.repaired, offset)
    return Place(scan, keywords, segment, error.token, offset, match.group() if match else "", accepts(error))


def accepts(error: UnexpectedInput) -> frozenset[str]:
    """The terminals that could have stood where the parser stopped."""
    if error.interactive_parser is None:
        return frozenset()
    return frozenset(error.interactive_parser.accepts())  # type: ignore[no-untyped-call]  # lark leaves it so
