"""The grammar as data: it is found, small, and its reference names every word of it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from policyc.diagnostics import Source
from policyc.syntax import format_policy, parse_policy
from policyc.syntax.format import FIELD_ORDER, ORDER
from policyc.syntax.parse import keywords

README = (Path(__file__).parents[2] / "grammar" / "README.md").read_text(encoding="utf-8")


def test_the_grammar_is_found_in_its_package() -> None:
    """The installed package carries the grammar."""
    assert "start:" in files("policyc_grammar").joinpath("policy.lark").read_text(encoding="utf-8")


def test_the_formatter_knows_every_keyword() -> None:
    """Every statement and every field of the grammar has its place in the canonical order."""
    assert set(ORDER) | set(FIELD_ORDER) | {"in", "levels", "otherwise", "by", "for"} == set(keywords())


def test_the_reference_names_every_keyword() -> None:
    """The language reference explains every keyword of the grammar."""
    assert [word for word in keywords() if f"`{word}" not in README] == []


def test_the_policies_of_the_reference_are_canonical() -> None:
    """Every whole policy in the reference parses and is printed as the formatter prints it."""
    blocks = [block.split("```", 1)[0] for block in README.split("```policy\n")[1:]]
    assert blocks
    for block in blocks:
        assert format_policy(parse_policy(Source("README.md", block))) == block
