"""What the parser could not read, said in the words of the language, and how to go on after it.

Every function looks at one kind of fault. The first that recognises it gives the finding and, where the intention is
clear, the tokens that repair the text, so that the rest of the policy is checked in the same pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lark import Token, UnexpectedInput, UnexpectedToken

from policyc.diagnostics import Diagnostic, Label, Span
from policyc.syntax.scan import CLOSERS, OPENERS, Scan, unquoted_moment
from policyc.syntax.spelling import nearest

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DATE = re.compile(r"\b\d{4}-\d\d?-\d\d?\b")
LEXEME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*|[0-9][\w.]*|"[^"]*"|==|<=|>=|!=|<>|=<|=>|\.\.|.', re.DOTALL)
VALUE = {"NAME", "STRING", "NUMBER", "LSQB"}
PHRASES = {"NAME": "a name", "STRING": "a quoted text", "NUMBER": "a number", "COMPARE": "`==`, `<=` or `>=`"}
SIGNS = {
    "LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]",
    "COMMA": ",", "EQUAL": "=", "DOT": ".", "STAR": "*", "PLUS": "+", "MINUS": "-",
}  # fmt: skip
CONDITIONS = {"where", "when", "having"}
UNITS = {"second", "minute", "hour", "day", "week", "month", "year"}
NAMES_OF_SIGNS = {sign: name for name, sign in SIGNS.items()}


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


def explain(place: Place) -> Fault:
    """The finding about a place where the parser stopped."""
    for recognise in (
        _date,
        _condition,
        _by_inside,
        _unclosed,
        _stray_closer,
        _equals,
        _unit,
        _no_parenthesis,
        _misspelt,
        _comma,
        _second_comparison,
    ):
        if fault := recognise(place):
            return fault
    return _unexpected(place)


def _unclosed(place: Place) -> Fault | None:
    """A bracket that something else shows to be open still: the end, a keyword of a statement, an `=`."""
    if place.opener is None:
        return None
    offset, opener = place.opener
    closer = NAMES_OF_SIGNS[OPENERS[opener]]
    keyword = place.is_word and place.keywords.get(place.found) is not None
    is_statement = (
        keyword
        and place.starts_line
        and re.match(r"[ \t]+[\w\"]", place.scan.masked[place.span.end : place.span.end + 80])
    )
    shows = (
        place.found == ""
        or is_statement
        or (keyword and closer in place.accepted and not place.accepted & {"FIELD"})
        or (place.found == "=" and opener == "[")
        or (place.found in CLOSERS and place.found != OPENERS[opener] and closer in place.accepted)
    )
    if not shows:
        return None
    what = f"`{place.found}` comes before its end" if place.found else "the policy ends before it does"
    labels = (Label(place.span, what),) if place.found else ()
    return Fault(
        Diagnostic(
            "E0109",
            f"`{opener}` is never closed",
            Span(offset, offset + 1),
            note=None if place.found else what,
            help=f"write the missing `{OPENERS[opener]}`",
            labels=labels,
        )
    )


def _condition(place: Place) -> Fault | None:
    """`count(x where ...)`: a query of another language."""
    if place.found not in CONDITIONS or place.accepted & {"FIELD"}:
        return None
    remedy = "give the run a file that has only the rows that count, or make the condition a column and the `cell`"
    return Fault(Diagnostic("E0122", f"a policy has no `{place.found}`", place.span, help=remedy))


def _by_inside(place: Place) -> Fault | None:
    """`prefix(count(x) by y)`: a release within a release."""
    within = place.opener is not None and place.opener[1] == "("
    if place.found != "by" or not within or place.scan.masked[place.previous_end - 1] != ")":
        return None
    remedy = "give each release its own line, and name it: `release totals = prefix(my_release) by CELL`"
    return Fault(Diagnostic("E0122", "`by` stands behind a release, not within one", place.span, help=remedy))


def _stray_closer(place: Place) -> Fault | None:
    """A closing bracket without an open one, or of another kind."""
    if place.found not in CLOSERS or (place.opener is not None and place.opener[1] == CLOSERS[place.found]):
        return None
    if place.opener is None:
        diagnostic = Diagnostic("E0110", f"`{place.found}` closes nothing", place.span, help="leave it out")
        return Fault(diagnostic, repair=() if "$END" in place.accepted else None)
    offset, opener = place.opener
    return Fault(
        Diagnostic(
            "E0110",
            f"`{place.found}` closes nothing here: `{opener}` is open",
            place.span,
            help=f"write `{OPENERS[opener]}` first, or leave it out",
            labels=(Label(Span(offset, offset + 1), "opened here"),),
        )
    )


def _equals(place: Place) -> Fault | None:
    """`=` where two things are compared, `==` where a value is given."""
    if place.found == "=" and "COMPARE" in place.accepted:
        meant = Token.new_borrow_pos("COMPARE", "==", place.token)
        diagnostic = Diagnostic("E0116", "a constraint compares with `==`", place.span, help="write `==`")
        return Fault(diagnostic, repair=(meant,))
    if place.found == "=" and place.scan.masked[: place.offset].endswith("="):  # the first `=` was read as one
        span = Span(place.offset - 1, place.span.end)
        return Fault(Diagnostic("E0116", "a value is given with `=`", span, help="write `=`"), repair=())
    word = place.previous_word
    if place.found == "=" and word in place.keywords:  # `user = x`, `target = alpha_dpt(...)`
        remedy = "leave it out: only parameters in parentheses have one"
        finding = Diagnostic("E0116", f"`{word}` is written without `=`", place.span, help=remedy)
        return Fault(finding, repair=())
    return None


def _date(place: Place) -> Fault | None:
    """`start 2024-03-01`: a moment without its quotes."""
    line = place.scan.masked.rfind("\n", 0, place.offset) + 1
    end = place.scan.masked.find("\n", place.offset)
    for match in DATE.finditer(place.scan.masked, line, end if end >= 0 else len(place.scan.masked)):
        if match.start() <= place.offset < match.end():
            return Fault(unquoted_moment(match.group(), Span(*match.span())))
    return None


def _unit(place: Place) -> Fault | None:
    """A misspelt `steps`, or a unit that stands apart from its number."""
    number = place.previous_word
    same_line = "\n" not in place.scan.masked[place.previous_end : place.offset]
    if not (place.is_word and number.isdigit() and same_line):
        return None
    if nearest(place.found, ["steps"]):
        meant = f"{number} steps"
    elif place.found in {"ms", "s", "min", "h", "d", "w"}:
        meant = f"{number}{place.found}"
    elif place.found.removesuffix("s") in UNITS:
        remedy = "a horizon counts steps: `365 steps`; a duration is one word: `5min`, `1h`, `1d` or `2w`"
        return Fault(Diagnostic("E0122", f"`{number} {place.found}` is no duration", place.span, help=remedy))
    else:
        return None
    finding = Diagnostic(
        "E0122", f"unexpected `{place.found}` after a number", place.span, help=f"did you mean `{meant}`?"
    )
    return Fault(finding, repair=())


def _no_parenthesis(place: Place) -> Fault | None:
    """`alpha_dpt alpha = 1.0)`."""
    names_value = re.match(r"[ \t]*=", place.scan.masked[place.span.end : place.span.end + 80])
    if not (place.is_word and names_value and place.accepted >= {"$END", "LPAR"}):
        return None
    message = f"`(` is missing before `{place.found}`"
    remedy = f"write `{place.previous_word}({place.found} = ...)`"
    return Fault(Diagnostic("E0108", message, place.span, help=remedy))


def _misspelt(place: Place) -> Fault | None:
    """A word where only a keyword can stand."""
    words = place.words()
    if not place.is_word or not words:
        return None
    begins_statement, begins_field = "$END" in place.accepted, "FIELD" in place.accepted
    guess = nearest(place.found, words)
    if guess is None and not (begins_statement or begins_field):
        return None
    terminal = place.keywords[guess] if guess else ""
    misplaced = place.keywords.get(place.found)
    if begins_statement and (guess is None or terminal not in {"BY", "FOR"}):
        code, what, those = "E0106", "statement", "statements start with"
    elif begins_field and terminal != "OTHERWISE":
        code, what, those = "E0107", "field of a stream", "the fields of a stream are"
    else:
        code, what, those = "E0122", "word", "expected"
    message, remedy = f"unknown {what} `{place.found}`", f"did you mean `{guess}`?"
    if guess is None:
        listed = ", ".join(w for w in words if w not in {"by", "for", "otherwise"})
        remedy = f"{those} {listed}"
    if guess is None and misplaced in {"FIELD", "CELL"}:
        message, remedy = (
            f"`{place.found}` is a field of a stream",
            "write it between the braces of `stream NAME { ... }`",
        )
    repair = (Token.new_borrow_pos(terminal, guess, place.token),) if guess else None
    return Fault(Diagnostic(code, message, place.span, help=remedy), repair)


def _comma(place: Place) -> Fault | None:
    """Two things side by side that a comma should part; a comma where none belongs."""
    if place.found == "," and place.accepted & {"FIELD", "$END"}:
        remedy = "leave it out: statements and fields start with their keyword"
        return Fault(Diagnostic("E0111", "unexpected `,`", place.span, help=remedy), repair=())
    begins_item = place.is_word or re.match(r'[\d"\[{(]', place.found)
    if "COMMA" not in place.accepted or not begins_item:
        return None
    end = place.previous_end
    return Fault(
        Diagnostic(
            "E0111",
            f"a comma is missing before `{place.found}`",
            place.span,
            help="write `,` after what stands before it",
            labels=(Label(Span(end - 1, end), "after this"),) if place.starts_line else (),
        )
    )


def _second_comparison(place: Place) -> Fault | None:
    """`0 <= a <= 5`."""
    if place.token.type != "COMPARE" or place.opener is None or place.opener[1] != "{":
        return None
    remedy = "write two constraints with a comma between them: `NAME >= 0, NAME <= 150`"
    return Fault(Diagnostic("E0121", "a constraint has one comparison", place.span, help=remedy))


def _unexpected(place: Place) -> Fault:
    """Anything else: what was expected, and what was found."""
    expected = describe(place.accepted, place.keywords)
    if not place.found:
        span = Span(max(0, place.offset - 1), place.offset)
        return Fault(
            Diagnostic("E0108", f"the policy ends where {expected} should follow", span, help=f"write {expected}")
        )
    remedy = "leave it out, or write a value before it" if place.found == "," else f"write {expected} before it"
    return Fault(Diagnostic("E0108", f"expected {expected}, found `{place.found}`", place.span, help=remedy))


def describe(accepted: frozenset[str], keywords: Mapping[str, str]) -> str:
    """A set of terminals in words: "`=`", "a value", "a name or a quoted text"."""
    if "$END" in accepted:
        return "a statement"
    words: list[str] = []
    left = set(accepted)
    if left >= VALUE:
        words.append("a value")
        left -= VALUE | {"MINUS", "STEPS", "DURATION", "LBRACE"}
    if "FIELD" in left:
        words.append("a field of the stream")
        left -= {"FIELD", "CELL"}
    words += [f"`{word}`" for word, terminal in keywords.items() if terminal in left]
    words += [phrase for terminal, phrase in PHRASES.items() if terminal in left]
    words += [f"`{sign}`" for terminal, sign in SIGNS.items() if terminal in left - {"PLUS", "MINUS", "STAR", "DOT"}]
    if not words:
        return "something else"
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
