"""What the parser could not read, said in the words of the language, and how to go on after it.

Every function looks at one kind of fault. The first that recognises it gives the finding and, where the intention is
clear, the tokens that repair the text, so that the rest of the policy is checked in the same pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from lark import Token

from policyc.diagnostics import Diagnostic, Edit, Label, Span
from policyc.syntax.numerals import numeral_around, range_around, whole_steps
from policyc.syntax.place import Fault, Place
from policyc.syntax.scan import CLOSERS, OPENERS, no_name, no_number, unquoted_moment
from policyc.syntax.spelling import UNITS_IN_WORDS, nearest, respelt

DATE = re.compile(r"\b\d{4}-\d\d?-\d\d?\b")
VALUE = {"NAME", "STRING", "NUMBER", "LSQB"}
PHRASES = {"NAME": "a name", "STRING": "a quoted text", "NUMBER": "a number", "COMPARE": "`==`, `<=` or `>=`"}
SIGNS = {
    "LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]",
    "COMMA": ",", "EQUAL": "=", "DOT": ".", "STAR": "*", "PLUS": "+", "MINUS": "-",
}  # fmt: skip
CONDITIONS = {"where", "when", "having"}
COLUMNS = {"user", "time", "cell", "by", "for"}
NAMES_OF_SIGNS = {sign: name for name, sign in SIGNS.items()}


def explain(place: Place) -> Fault:
    """The finding about a place where the parser stopped."""
    for recognise in (
        _date,
        _condition,
        _by_inside,
        _range,
        _numeral,
        _hyphen,
        _unclosed,
        _stray_closer,
        _equals,
        _unit,
        _no_parenthesis,
        _delay,
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
    after = place.scan.masked[place.span.end : place.span.end + 80]
    is_statement = keyword and place.starts_line and re.match(r"[ \t]+[\w\"]", after)
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
        out = Edit(place.span, "")
        diagnostic = Diagnostic("E0110", f"`{place.found}` closes nothing", place.span, help="leave it out", edit=out)
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
        edit = Edit(place.span, "==")
        diagnostic = Diagnostic("E0116", "a constraint compares with `==`", place.span, help="write `==`", edit=edit)
        return Fault(diagnostic, repair=(meant,))
    if place.found == "=" and place.scan.masked[: place.offset].endswith("="):  # the first `=` was read as one
        span = Span(place.offset - 1, place.span.end)
        finding = Diagnostic("E0116", "a value is given with `=`", span, help="write `=`", edit=Edit(span, "="))
        return Fault(finding, repair=())
    word = place.previous_word
    if place.found == "=" and word in place.keywords:  # `user = x`, `target = alpha_dpt(...)`
        remedy = "leave it out: only parameters in parentheses have one"
        out = Edit(place.span, "")
        finding = Diagnostic("E0116", f"`{word}` is written without `=`", place.span, help=remedy, edit=out)
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


def _numeral(place: Place) -> Fault | None:
    """`population 1,000`, `horizon 1 000 steps`: a number in pieces, where one of a list can not stand."""
    if place.opener is not None and place.opener[1] == "[":
        return None
    around = numeral_around(place.scan.masked, place.offset)
    return None if around is None else Fault(no_number(around[1], around[0], whole="FIELD" in place.accepted))


def _hyphen(place: Place) -> Fault | None:
    """`user-level(...)`, `user ticket-id`: two words joined by a sign that names do not have."""
    first = re.search(r"[A-Za-z_]\w*\Z", place.scan.masked[: place.offset])
    rest = re.match(r"(?:-\w+)+", place.scan.masked[place.offset : place.offset + 80])
    if place.found != "-" or first is None or rest is None:
        return None
    name = first.group() + rest.group()
    keyword = re.search(r"([a-z]+)(?:\s+|\s*=\s*)\Z", place.scan.masked[max(0, first.start() - 40) : first.start()])
    before = keyword.group(1) if keyword else ""
    meant = name.replace("-", "" if before == "deliver" else "_")
    remedy = f"write `{meant}`"
    if before in COLUMNS:
        meant = f'"{name}"'
        remedy = f'write `"{name}"`: a column with such a name stands in quotes'
    sure = before in COLUMNS or place.keywords.get(before) == "SETTING"  # elsewhere it may be a column as well
    span = Span(first.start(), place.offset + rest.end())
    return Fault(no_name(name, span, remedy, meant if sure else None))


def _unit(place: Place) -> Fault | None:
    """A misspelt `steps`, or a unit that stands apart from its number."""
    written = re.search(
        r"(?<![\w.-])-?[0-9][\w.]*\Z", place.scan.masked[max(0, place.previous_end - 80) : place.previous_end]
    )
    same_line = "\n" not in place.scan.masked[place.previous_end : place.offset]
    if not (place.is_word and written and same_line):
        return None
    number = written.group()
    finding, edit = f"unexpected `{place.found}` after a number", None
    if (short := UNITS_IN_WORDS.get(place.found.removesuffix("s"))) is not None:
        word = "30d" if short in ("mo", "y") else f"{number}{short}"
        remedy = f"a duration is one word: `{word}`; a horizon counts steps: `365 steps`"
        return Fault(Diagnostic("E0122", f"`{number} {place.found}` is no duration", place.span, help=remedy))
    if nearest(place.found, ["steps"]):
        if not number.isdigit():
            try:
                value = Decimal(number)
            except ArithmeticError:
                return None  # a word that begins with a digit is no numeral
            finding, remedy = f"`{number}` is no number of steps", whole_steps(value)
        else:
            remedy = f"did you mean `{number} steps`?"
            edit = Edit(place.span, "steps")
    elif place.found in {"ms", "s", "min", "h", "d", "w"}:
        remedy = f"did you mean `{number}{place.found}`?"
        whole = Span(place.previous_end - len(number), place.span.end)
        edit = Edit(whole, f"{number}{place.found}") if number.isdigit() else None
    elif "FIELD" in place.accepted and place.ends_line:
        remedy = f"leave it out: write `{number}`"
    else:
        return None
    return Fault(Diagnostic("E0122", finding, place.span, help=remedy, edit=edit), repair=())


def _range(place: Place) -> Fault | None:
    """`clamp = 0-130`, `clamp = 0 to 130`."""
    found = range_around(place.scan.masked, place.offset)
    if found is None:
        return None
    span, written, meant = found
    finding = Diagnostic(
        "E0108", f"`{written}` is no range", span, help=f"did you mean `{meant}`?", edit=Edit(span, meant)
    )
    return Fault(finding)


def _no_parenthesis(place: Place) -> Fault | None:
    """`alpha_dpt alpha = 1.0)`."""
    names_value = re.match(r"[ \t]*=", place.scan.masked[place.span.end : place.span.end + 80])
    if not (place.is_word and names_value and place.accepted >= {"$END", "LPAR"}):
        return None
    message = f"`(` is missing before `{place.found}`"
    remedy = f"write `{place.previous_word}({place.found} = ...)`"
    return Fault(Diagnostic("E0108", message, place.span, help=remedy))


def _delay(place: Place) -> Fault | None:
    """`deliver within 5 steps`, `deliver in 5 steps`."""
    before = place.scan.masked[max(0, place.previous_end - 80) : place.previous_end]
    if not re.search(r"\bdeliver\s+(?:within|in|after)\Z", before) or not place.found[:1].isdigit():
        return None
    remedy = f"write `deliver within({place.found} steps)`"
    written = re.match(r"[0-9_]+[ \t]+steps?\b", place.scan.masked[place.offset : place.offset + 80])
    edit = None
    if written is not None and before.endswith("within"):
        edit = Edit(Span(place.previous_end, place.offset + written.end()), f"({written.group()})")
    return Fault(Diagnostic("E0108", "a delay stands in parentheses", place.span, help=remedy, edit=edit))


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
    elif begins_field and terminal not in {"LEVELS", "OTHERWISE"}:
        code, what, those = "E0107", "field of a stream", "the fields of a stream are"
    else:
        code, what, those = "E0122", "word", "expected"
    message, remedy = f"unknown {what} `{place.found}`", f"did you mean `{guess}`?"
    if guess is None:
        listed = ", ".join(w for w in words if w not in {"by", "for", "levels", "otherwise"})
        remedy = f"{those} {listed}"
    if guess is None and misplaced in {"FIELD", "CELL"}:
        message, remedy = (
            f"`{place.found}` is a field of a stream",
            "write it between the braces of `stream NAME { ... }`",
        )
    repair = (Token.new_borrow_pos(terminal, guess, place.token),) if guess else None
    edit = Edit(place.span, guess) if guess and respelt(place.found, words) else None
    return Fault(Diagnostic(code, message, place.span, help=remedy, edit=edit), repair)


def _comma(place: Place) -> Fault | None:
    """Two things side by side that a comma should part; a comma where none belongs."""
    if place.found == "," and place.accepted & {"FIELD", "$END"}:
        remedy = "leave it out: statements and fields start with their keyword"
        out = Edit(place.span, "")
        return Fault(Diagnostic("E0111", "unexpected `,`", place.span, help=remedy, edit=out), repair=())
    begins_item = place.is_word or re.match(r'[\d"\[{(]', place.found)
    if "COMMA" not in place.accepted or not begins_item:
        return None
    end = place.previous_end
    numbers = place.found[:1].isdigit() and place.previous_word[:1].isdigit()  # `1 000` may be one of them
    return Fault(
        Diagnostic(
            "E0111",
            f"a comma is missing before `{place.found}`",
            place.span,
            help="write `,` after what stands before it",
            labels=(Label(Span(end - 1, end), "after this"),) if place.starts_line else (),
            edit=None if numbers else Edit(Span(end, end), ","),
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
    opener = place.accepted & {"LBRACE", "LPAR", "LSQB"}
    if place.found in ("{", "(", "[") and len(opener) == 1 and not place.accepted & VALUE:
        expected = f"`{SIGNS[min(opener)]}`"
        remedy = f"write {expected} in place of it"
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
