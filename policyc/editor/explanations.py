"""What is shown where one points: the pages of findings, or what can be written with a word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from policyc.diagnostics import Diagnostic, Source, Span
from policyc.diagnostics.pages import read_page
from policyc.semantics.calls import Parameter
from policyc.semantics.signatures import offer_of, signatures, words_of

STATEMENTS = {
    "policy": "its name, and its purpose in one line for the auditor",
    "stream": "whose events there are, when and where, how long a step is and how many there are",
    "release": "what is published at every step",
    "target": "what is promised",
    "participation": "in how many steps and cells one user can take part",
    "correlation": "how one user moves, as the adversary knows it",
    "signal": "how the released numbers move; for accuracy alone",
    "deliver": "when values are published: at once, some steps later, or at the end",
    "objective": "which error is made small",
    "budget": "how the promise is divided between steps or releases",
    "mechanism": "which noise is added",
    "estimate": "what is made of noisy values",
    "postprocess": "what published values obey, and which are left out",
}
FIELDS = {
    "user": "the column that says whose event it is",
    "time": "the column that says when",
    "cell": "the column that says where, and every value of it",
    "step": "how long a step is: one value is published for each",
    "horizon": "how many steps there are, or `unbounded`",
    "population": "the public number of users",
    "start": "when the first step begins",
    "clock": "the zone whose days and months the steps are",
    "dataset": "the account that this policy shares with others on the same users",
}
CONNECTIVES = {
    "in": "every cell there is: a set, or a file",
    "levels": "what cells belong to: further columns of the file",
    "otherwise": "where a user is who is in none of the cells",
    "by": "the cell, or a level, that a release is split by",
    "for": "the group of users that this is about",
}
WORDS = {**STATEMENTS, **FIELDS, **CONNECTIVES}


def explanation(source: Source, offset: int, findings: Sequence[Diagnostic]) -> tuple[str, Span] | None:
    """What is said about a place, in Markdown, and of which part of the text.

    Args:
        source: the text.
        offset: the place.
        findings: those of the text; their pages are shown, as by `policyc explain`, before anything else.
    """
    here = [one for one in findings if one.span.start <= offset <= max(one.span.end, one.span.start + 1)]
    if here:
        narrow = min(one.span.end - one.span.start for one in here)
        shown = [one for one in here if one.span.end - one.span.start == narrow]
        pages = [read_page(code) for code in dict.fromkeys(one.code for one in shown)]
        return "\n\n---\n\n".join(pages), shown[0].span
    for match in re.finditer(r"[A-Za-z_]\w*", source.text):
        if match.start() <= offset <= match.end():
            said = _of_word(source.text, match)
            return None if said is None else (said, Span(*match.span()))
    return None


def signature(name: str, parameters: Sequence[Parameter]) -> str:
    """A call with all its parameters: `at_most(5 steps)`; those in brackets may be left out."""
    shown = []
    for one in parameters:
        words = words_of(one)
        written = f"{one.name} = {' | '.join(words)}" if len(words) > 1 else one.example or f"{one.name} = ..."
        shown.append(written if one.required else f"[{written}]")
    return f"{name}({', '.join(shown)})" if shown else name


def _of_word(text: str, match: re.Match[str]) -> str | None:
    word = match.group()
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    if "#" in line or line.count('"') % 2:
        return None
    first = re.match(r"\s*([a-z]+)\b", line + word)
    keyword = first.group(1) if first else ""
    known = signatures().get(keyword, {})
    if word in known:
        offer = offer_of(keyword, word)
        says = f"\n\n{offer.says}" if offer is not None else ""
        return f"```policy\n{keyword} {signature(word, known[word])}\n```{says}"
    return f"`{word}`: {WORDS[word]}" if word in WORDS and (not line.strip() or word in CONNECTIVES) else None
