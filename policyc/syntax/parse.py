"""Text to tree: the only module that runs the parser.

After a finding the parser goes on, with the text repaired where the intention is clear, and at the next statement where
it is not: all findings of a policy are shown at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from lark import Lark, Token, UnexpectedInput, UnexpectedToken
from lark import Tree as RawTree

from policyc.diagnostics import Diagnostic, PolicyError, Source, Span
from policyc.syntax.build import TreeBuilder
from policyc.syntax.faults import explain
from policyc.syntax.place import accepts, locate
from policyc.syntax.scan import MAX_FINDINGS, Scan, scan_policy
from policyc.syntax.tree import Statement, Tree

STATEMENT_TERMINALS = ("POLICY", "STREAM", "RELEASE", "SETTING", "CORRELATION", "POSTPROCESS")
WORD_TERMINALS = (*STATEMENT_TERMINALS, "FIELD", "CELL", "IN", "LEVELS", "OTHERWISE", "BY", "FOR")
LANGUAGES = {"{": "JSON", "[": "JSON", "<": "XML or HTML"}  # by what their files begin with, and no policy does


def parse_policy(source: Source) -> Tree:
    """Reads the text of a policy.

    Args:
        source: the text and the name it is shown under.

    Returns:
        The tree, with every span and comment of the text.

    Raises:
        PolicyError: with every finding of the syntax (codes E01), in source order.
    """
    scan = scan_policy(source)
    if not scan.has_words:
        scan.findings.append(
            Diagnostic(
                "E0105",
                "this policy says nothing",
                Span(0, 0),
                because="nothing would be promised to anybody",
                help='start with `policy NAME "one line for the auditor"`, or run `policyc init NAME`',
            )
        )
    if other := LANGUAGES.get(source.text.lstrip()[:1]):
        raise PolicyError(source, [_of_another_language(source.text, other)])
    if scan.too_deep or not scan.has_words:
        raise PolicyError(source, scan.findings)
    statements, findings = _parse_segments(scan)
    if findings or scan.findings:
        raise PolicyError(source, [*scan.findings, *findings][: 2 * MAX_FINDINGS])
    return Tree(source, statements, tuple(scan.comments))


def _of_another_language(text: str, language: str) -> Diagnostic:
    at = len(text) - len(text.lstrip())
    return Diagnostic(
        "E0108",
        f"expected a statement, found `{text[at]}`",
        Span(at, at + 1),
        because=f"a file that begins so is {language}, and no policy",
        help='a policy begins with `policy NAME "one line for the auditor"`; `policyc init NAME` writes one',
    )


def readable_statements(source: Source) -> tuple[Statement, ...]:
    """The statements that can be read of a text with faults, in source order; of one without, all of them."""
    scan = scan_policy(source)
    return () if scan.too_deep or not scan.has_words else _parse_segments(scan)[0]


def _parse_segments(scan: Scan) -> tuple[tuple[Statement, ...], list[Diagnostic]]:
    """The statements of a policy, and all findings about what is wrong with it."""
    builder = TreeBuilder()
    statements: list[Statement] = []
    findings: list[Diagnostic] = []
    start = 0
    while len(findings) < MAX_FINDINGS:
        segment = _Segment(scan, start)
        raw, stopped = segment.parse()
        findings += segment.findings
        statements += builder.statements(_statements_of(raw))
        if start == 0 and raw is not None and not findings:
            break
        if stopped is None or (restart := _next_statement(scan, stopped, start)) is None:
            break
        start = restart
    return tuple(statements), findings + builder.findings


class _Segment:
    """One run of the parser: from a statement to the end, or to a fault that cannot be repaired."""

    def __init__(self, scan: Scan, start: int) -> None:
        self.scan = scan
        self.start = start
        self.findings: list[Diagnostic] = []

    def parse(self) -> tuple[RawTree[Token] | None, int | None]:
        """What could be read, and where reading stopped (None at the end)."""
        text = " " * self.start + self.scan.repaired[self.start :]
        try:
            return _parser().parse(text, on_error=self._on_error), None
        except UnexpectedInput as error:
            stopped = (
                len(text) if isinstance(error, UnexpectedToken) and error.token.type == "$END" else error.pos_in_stream
            )
            return _complete_statements(error), stopped

    def _on_error(self, error: UnexpectedInput) -> bool:
        """Notes a fault; true when the parser can go on after a repair."""
        if not isinstance(error, UnexpectedToken):
            return False
        place = locate(error, self.scan, keywords(), self.start)
        fault = explain(place)
        broken_from = _broken_from(error)
        known = any(broken_from <= finding.span.start <= place.offset for finding in self.scan.findings)
        text = self.scan.repaired
        seen = len(text) - len(text[place.offset :].lstrip())  # what is missing may stand in what was left out
        known = known or any(broken_from <= start < seen for start in self.scan.remarks)
        if fault.repair is not None or not known:
            self.findings.append(fault.diagnostic)
        if fault.repair is None or len(self.findings) >= MAX_FINDINGS or not error.interactive_parser:
            return False
        for token in fault.repair:
            error.interactive_parser.feed_token(token)
        return True


def _statements_of(raw: RawTree[Token] | None) -> list[RawTree[Token]]:
    return [child for child in raw.children if isinstance(child, RawTree)] if raw is not None else []


def _complete_statements(error: UnexpectedInput) -> RawTree[Token] | None:
    """The statements before the one that is broken."""
    interactive = error.interactive_parser
    if interactive is None:
        return None
    if "$END" in accepts(error):
        raw: RawTree[Token] = interactive.feed_token(Token("$END", ""))
        return raw
    stack = interactive.parser_state.value_stack
    first = stack[0] if stack else None
    return first if isinstance(first, RawTree) and str(first.data).startswith("__start") else None


def _broken_from(error: UnexpectedInput) -> int:
    """Where the statement that is broken begins."""
    interactive = error.interactive_parser
    for value in interactive.parser_state.value_stack if interactive else ():
        if isinstance(value, Token):
            return int(value.start_pos or 0)
    return int(error.pos_in_stream or 0)


def _next_statement(scan: Scan, offset: int, start: int) -> int | None:
    """Where the first statement begins that stands at or after an offset, and after `start`."""
    line = scan.masked.rfind("\n", 0, offset) + 1
    for match in _statement_pattern().finditer(scan.masked, line):
        if match.start(1) >= offset and match.start(1) > start:
            return match.start(1)
    return None


@cache
def _statement_pattern() -> re.Pattern[str]:
    words = "|".join(word for word, terminal in keywords().items() if terminal in STATEMENT_TERMINALS)
    return re.compile(rf"(?m)(?:^|[)}}])[ \t]*\b({words})\b[ \t]+[A-Za-z_\"]")


@cache
def _parser() -> Lark:
    grammar = files("policyc_grammar").joinpath("policy.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=False)


@cache
def keywords() -> Mapping[str, str]:
    """Every keyword of the language and the terminal of the grammar it belongs to."""
    return {
        word: terminal
        for terminal in WORD_TERMINALS
        for word in re.findall(r"[a-z]{2,}", _parser().get_terminal(terminal).pattern.value)
    }
