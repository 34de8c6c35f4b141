"""What can be said about a policy's characters before its grammar: literals, brackets, comments.

The scan finds everything that is no word of the language, reports it, and puts something harmless of the same length in
its place, so that the parser sees only text it can read and every other finding of the same policy is still found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from policyc.diagnostics import Diagnostic, Edit, Source, Span
from policyc.syntax.numerals import CALCULATED, plain
from policyc.syntax.tree import Comment

MAX_DEPTH = 50
MAX_DIGITS = 400
MAX_FINDINGS = 50

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}

LEXEME = re.compile(
    rf"""
      (?P<comment>\#[^\n]*)
    | (?P<string>"(?:\\.|[^"\\\n])*")
    | (?P<open_string>"[^\n]*)
    | (?P<quoted>'[^'\n]*'|[“”„«‘’‚][^“”»‘’\n]*[“”»‘’])
    | (?P<remark>//[^\n]*|--(?!-?[\w(])[^\n]*)
    | (?P<moment>[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}T[0-9][0-9:.]*Z?)
    | (?P<calculated>{CALCULATED})
    | (?P<number>(?:[0-9]|\.[0-9])(?:\w|\.(?=[0-9])|(?<=[eE])[+-](?=[0-9]))*)
    | (?P<joined>[^\W\d]\w*(?:[/\\$@&?~][^\W\d]\w*)+)
    | (?P<word>[^\W\d]\w*)
    | (?P<bracket>[()\[\]{{}}])
    | (?P<operator>==|<=|>=|!=|<>|=<|=>|\.\.|[<>≤≥≠=+\-*,.])
    | (?P<blank>[ \t\r\n]+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
NUMBER = re.compile(r"[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?(?:[eE]([+-]?[0-9]+))?")
DURATION = re.compile(r"([0-9]+(?:_[0-9]+)*)([A-Za-z]+)")
# Control characters, and characters that change how the rest of a line is shown: an auditor must see what is there.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\xa0\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)


@dataclass
class Scan:
    """The characters of one policy, gone through once.

    Args:
        repaired: the text with every reported lexeme replaced by a harmless one; same length.
        masked: `repaired` with comments and the insides of strings blanked: what is left is structure.
        brackets: offset and character of every bracket.
        comments: every comment, in order.
        findings: what was reported.
        too_deep: whether brackets nest deeper than `MAX_DEPTH`; such a text is not parsed.
        has_words: whether anything but blanks and comments was found.
        remarks: where text begins that was reported as a comment of another language, and left out to its line's end.
    """

    repaired: str = ""
    masked: str = ""
    brackets: list[tuple[int, str]] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    findings: list[Diagnostic] = field(default_factory=list)
    too_deep: bool = False
    has_words: bool = False
    remarks: list[int] = field(default_factory=list)

    def open_brackets(self, start: int, end: int) -> list[tuple[int, str]]:
        """The brackets opened and not closed between two offsets."""
        stack: list[tuple[int, str]] = []
        for offset, character in self.brackets:
            if offset < start:
                continue
            if offset >= end:
                break
            if character in OPENERS:
                stack.append((offset, character))
            elif stack and stack[-1][1] == CLOSERS[character]:
                stack.pop()
        return stack


def scan_policy(source: Source) -> Scan:
    """Goes through the characters of a policy once; never fails."""
    result = Scan()
    repaired: list[str] = []
    masked: list[str] = []
    depth = 0
    own_line = True
    text = _without_invisible(source.text, result)
    for match in LEXEME.finditer(text):
        kind, lexeme, span = str(match.lastgroup), match.group(), Span(*match.span())
        if kind == "comment":
            trimmed = lexeme.rstrip()
            result.comments.append(Comment(Span(span.start, span.start + len(trimmed)), trimmed, own_line))
        elif kind != "blank":
            result.has_words = True
        if kind == "remark":
            result.remarks.append(span.start)
        if kind == "bracket":
            result.brackets.append((span.start, lexeme))
            depth = depth + 1 if lexeme in OPENERS else max(0, depth - 1)
            if depth > MAX_DEPTH and not result.too_deep:
                result.too_deep = True
                result.findings.append(too_deep(span))
        replacement = lexeme
        if (finding := _check(kind, lexeme, span)) is not None:
            if kind == "number" and text[max(0, span.start - 1) : span.start].isalnum():
                finding = replace(finding, edit=None)  # `steps.5`: who knows
            if len(result.findings) < MAX_FINDINGS:
                result.findings.append(finding)
            replacement = _replacement(kind, lexeme)
        repaired.append(replacement)
        masked.append(_masked(kind, replacement))
        own_line = "\n" in lexeme or (own_line and kind == "blank")
    result.repaired, result.masked = "".join(repaired), "".join(masked)
    return result


def _without_invisible(text: str, result: Scan) -> str:
    """Reports characters that cannot be seen and puts spaces in their place."""
    found = list(INVISIBLE.finditer(text))[:MAX_FINDINGS]
    words = LEXEME.finditer(text) if found else ()
    quoted = [match.span() for match in words if match.lastgroup in {"string", "open_string", "quoted"}]
    for match in found:
        apart = not any(start <= match.start() < end for start, end in quoted)  # in a string it is part of a name
        edit = Edit(Span(*match.span()), " " if match.group().isspace() else "") if apart else None
        result.findings.append(
            Diagnostic(
                "E0115",
                f"invisible character U+{ord(match.group()):04X}",
                Span(*match.span()),
                because="a policy must read the same to everybody who signs it",
                help="delete it, or write a plain space",
                edit=edit,
            )
        )
    return INVISIBLE.sub(" ", text)


def _check(kind: str, lexeme: str, span: Span) -> Diagnostic | None:
    """The finding about one lexeme, if there is one."""
    if kind == "string":
        return next(_check_escapes(lexeme, span), None)
    if kind == "open_string":
        closed = _close_string(lexeme)
        return Diagnostic(
            "E0112",
            "this string is not closed on its line",
            Span(span.start, span.start + len(closed.rstrip())),
            help='end it with `"`; write `\\"` for a quote inside it',
        )
    if kind in {"number", "calculated"}:
        return _check_number(lexeme, span)
    if kind == "joined" or (kind == "word" and not lexeme.isascii()):
        return no_name(lexeme, span, "write it in quotes if it is a column, a group or a cell")
    if kind in {"quoted", "remark", "moment", "other"}:
        return _unknown_character(kind, lexeme, span)
    return None


def no_name(text: str, span: Span, remedy: str, name: str | None = None) -> Diagnostic:
    """The finding about something that stands where a name does, and has other characters; `name` is what is meant."""
    edit = None if name is None else Edit(span, name)
    because = "names are made of the letters a to z, digits and _, so that no two of them look alike"
    return Diagnostic("E0114", f"`{_shown(text)}` is not a name", span, because=because, help=remedy, edit=edit)


def no_number(text: str, span: Span, *, whole: bool = False) -> Diagnostic:
    """The finding about a numeral of another notation; `whole` where only a whole number can stand."""
    meant = [number for number in plain(text) if not (whole and "." in number)]
    remedy = "write numbers as `12_000`, `0.05` or `1e-6`, and durations as `5min`"
    edit = None
    if text.startswith("."):
        edit = Edit(span, f"0{text}") if re.fullmatch(r"\.[0-9]+", text) else None
        remedy = f"write a digit before the point: `0{_shown(text)}`"
    elif re.fullmatch(r"[0-9_]+[.,][0-9_]+[A-Za-z]+", text):
        remedy = "a duration is a whole number of a smaller unit, such as `90min` for one and a half hours"
    elif re.fullmatch(r"[0-9]{1,4}([./])[0-9]{1,2}\1[0-9]{1,4}", text):
        remedy = 'write a date in quotes, the year first: `"2013-01-31"`'
    elif whole and not meant:
        remedy = "write a whole number, such as `12_000`"
    elif meant:
        edit = Edit(span, meant[0]) if len(meant) == 1 else None
        remedy = "write " + " or ".join(f"`{number}`" for number in meant)
    return Diagnostic("E0117", f"`{_shown(text)}` is not a number", span, help=remedy, edit=edit)


def unquoted_moment(text: str, span: Span) -> Diagnostic:
    """The finding about a date, or a date and time, without quotes."""
    return Diagnostic(
        "E0114", "a date stands in double quotes", span, help=f'write `"{_shown(text)}"`', edit=Edit(span, f'"{text}"')
    )


def _check_escapes(lexeme: str, span: Span) -> Iterator[Diagnostic]:
    for match in re.finditer(r"\\(.)", lexeme):
        if match.group(1) not in '"\\':
            yield Diagnostic(
                "E0113",
                f"unknown escape `{match.group()}` in a string",
                Span(span.start + match.start(), span.start + match.end()),
                help='only `\\"` and `\\\\` are escapes; in the name of a file write `/`',
            )


def _check_number(lexeme: str, span: Span) -> Diagnostic | None:
    if duration := DURATION.fullmatch(lexeme):
        digits, exponent = duration.group(1), 0
    elif number := NUMBER.fullmatch(lexeme):
        written = number.group(1) or "0"
        digits, exponent = re.split("[eE]", lexeme)[0], int(written) if len(written) < MAX_DIGITS else MAX_DIGITS + 1
    else:
        return no_number(lexeme, span)
    if sum(c.isdigit() for c in digits) > MAX_DIGITS or abs(exponent) > MAX_DIGITS:
        return Diagnostic(
            "E0118",
            "this number is too long",
            span,
            note=f"more than {MAX_DIGITS} digits",
            because="numbers are kept exactly, digit by digit",
            help=f"use at most {MAX_DIGITS} digits, and exponents between -{MAX_DIGITS} and {MAX_DIGITS}",
        )
    return None


def _unknown_character(kind: str, lexeme: str, span: Span) -> Diagnostic:
    if kind == "quoted":
        inside = lexeme[1:-1]
        edit = None if '"' in inside or "\\" in inside else Edit(span, f'"{inside}"')
        remedy = f'write `"{_shown(inside)}"`'
        return Diagnostic("E0114", "strings stand in double quotes", span, help=remedy, edit=edit)
    if kind == "moment":
        return unquoted_moment(lexeme, span)
    if kind == "remark":
        marker = Span(span.start, span.start + 2)
        message, remedy = f"unexpected `{lexeme[:2]}`", "comments start with `#`"
        return Diagnostic("E0114", message, marker, help=remedy, edit=Edit(marker, "#"))
    remedy = {
        ";": "leave it out: every statement starts with its keyword",
        ":": "leave it out after a field's name; in parentheses write `=`",
        "/": "multiply by a decimal instead, such as `0.5 * a`",
        "%": "write a decimal instead, such as `0.05`",
        "^": "there are no powers; write a number as `1e-6`",
        "'": 'strings stand in double quotes: `"A1"`',
    }.get(lexeme, "leave it out, or put it into a string")
    edit = Edit(span, "") if lexeme == ";" else None
    return Diagnostic("E0114", f"unexpected `{lexeme}`", span, help=remedy, edit=edit)


def _replacement(kind: str, lexeme: str) -> str:
    """Something harmless of the same length for a reported lexeme."""
    if kind == "open_string":
        closed = _close_string(lexeme)
        return (
            '"' + closed[1:-1].replace("\\", "x").replace('"', "x") + '"' + lexeme[len(closed) :] if closed[1:] else " "
        )
    if kind in {"string", "quoted", "moment"}:
        return '"' + re.sub(r'[\\"]', "x", lexeme[1:-1]) + '"'
    if kind in {"number", "calculated"}:
        return "1" + " " * (len(lexeme) - 1)
    if kind in {"word", "joined"}:
        return re.sub(r"[^A-Za-z0-9_]", "x", lexeme)
    return "=" if lexeme == ":" else " " * len(lexeme)


def _masked(kind: str, replacement: str) -> str:
    """What is left of a lexeme when only structure counts."""
    if kind == "comment":
        return " " * len(replacement)
    if kind in {"string", "open_string", "quoted", "moment"}:
        return re.sub(r'[^"](?=.*")', " ", replacement)
    return replacement


def _close_string(lexeme: str) -> str:
    """The part of an unclosed string that was probably meant: without the punctuation that ends the line."""
    return re.sub(r"[\s,)\]}{]*$", "", lexeme)


def _shown(lexeme: str) -> str:
    return lexeme if len(lexeme) <= 40 else lexeme[:39] + "…"


def too_deep(span: Span) -> Diagnostic:
    """The finding about a bracket, or a product, that is nested too deeply."""
    return Diagnostic(
        "E0119",
        f"nested more than {MAX_DEPTH} deep",
        span,
        help='a matrix needs two brackets; put a large one into a file: `file("matrix.csv")`',
    )
