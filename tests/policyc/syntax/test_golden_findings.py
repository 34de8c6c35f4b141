"""What people read when a policy cannot be read: plain files, rewritten by `pytest --bless`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.diagnostics import PolicyError, Source
from policyc.diagnostics.pages import all_codes
from policyc.diagnostics.text import render_text
from policyc.syntax import format_policy, parse_policy

CASES = sorted((Path(__file__).parents[2] / "goldens" / "syntax").glob("*.policy"))
FILE_CODES = {"E0101", "E0102", "E0103", "E0104"}  # tested with files in test_read.py


def findings(case: Path) -> PolicyError:
    source = Source(case.name, case.read_text(encoding="utf-8"))
    with pytest.raises(PolicyError) as caught:
        parse_policy(source)
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_golden(case: Path, golden: Callable[[str, str], None]) -> None:
    """The findings of a broken policy are those of the text file beside it."""
    error = findings(case)
    golden(f"syntax/{case.stem}.txt", render_text(error.diagnostics, error.source))


def test_every_syntax_code_has_a_case() -> None:
    """Every page E01 has a golden case that shows its code, and no other code is found."""
    shown = {diagnostic.code for case in CASES for diagnostic in findings(case).diagnostics}
    assert shown | FILE_CODES == {code for code in all_codes() if code[1:3] == "01"}


@pytest.mark.parametrize("code", [c for c in all_codes() if c.startswith("E01") and c not in FILE_CODES])
def test_page_examples(code: str, page_examples: Callable[[str], tuple[str, str]]) -> None:
    """The wrong example of a page has exactly its finding; the right one parses and is in canonical form."""
    wrong, right = page_examples(code)
    with pytest.raises(PolicyError) as caught:
        parse_policy(Source("wrong.policy", wrong))
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [code]
    assert format_policy(parse_policy(Source("right.policy", right))) == right
