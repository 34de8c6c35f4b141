"""The reference page: statements and the grammar, budgets, mechanisms and estimators of the offers, every finding."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from policyc.diagnostics.pages import all_codes
from policyc.diagnostics.pages import read_page as read_finding
from policyc.editor.explanations import CONNECTIVES, FIELDS, STATEMENTS
from policyc.offers.reference import reference as offers_reference

KINDS = {"E": "error", "W": "warning"}


def reference() -> str:
    """All that a policy can name, and every finding, as Markdown."""
    rows = "".join(f"| `{code}` | {KINDS[code[0]]} | {_title(code)} |\n" for code in all_codes())
    grammar = files("policyc_grammar").joinpath("policy.lark").read_text(encoding="utf-8")
    return (
        "# Reference\n\n"
        "`policyc guide language` explains each statement, with examples. Here is all that there is, in short.\n\n"
        f"{_words('statement', STATEMENTS)}\n"
        f"{_words('field of a stream', FIELDS)}\n"
        f"{_words('word in a statement', CONNECTIVES)}\n"
        "## Budgets, mechanisms and estimators\n\n"
        "What a policy may name. `auto`, or none, leaves the choice to the "
        "compiler, which shows what it compared.\n\n"
        f"{offers_reference()}\n"
        f"## Grammar\n\nWhat the compiler reads policies by, in the notation of Lark.\n\n```lark\n{grammar}```\n\n"
        "## Findings\n\n"
        "`policyc explain CODE` is the long form of each: why it is refused, a failing and a corrected example.\n\n"
        f"| code | kind | what it says |\n| --- | --- | --- |\n{rows}"
    )


def _words(head: str, words: Mapping[str, str]) -> str:
    return f"| {head} | what it says |\n| --- | --- |\n" + "".join(f"| `{w}` | {s} |\n" for w, s in words.items())


def _title(code: str) -> str:
    """The title of a finding's page, after its code."""
    first = read_finding(code).splitlines()[0]
    return first.partition(": ")[2].replace("|", "\\|")
