"""Pages for readers of the source name files and functions that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    "policyc/ARCHITECTURE.md": ("policyc", "runtime", "."),
    "policyc/CONTRIBUTING.md": (".",),
    **{
        f"{folder}/DECISIONS.md": ("policyc", "runtime", ".")
        for folder in (
            "policyc/emit",
            "policyc/planning",
            "runtime/policyc_check",
            "runtime/policyc_runtime",
            "runtime/policyc_runtime/estimation",
            "runtime/policyc_runtime/laboratory",
        )
    },
    "runtime/policyc_check/AUDITING.md": ("runtime/policyc_check", "runtime/policyc_runtime", "runtime", "."),
}
FILE = re.compile(r"`([\w./-]+\.(?:py|md|lark|toml)|[\w./-]+/)`")
NAMED = re.compile(r"`([\w./-]+\.py)`: `([\w.]+)`")


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_is_there(page: str) -> None:
    """Relative to the folder that the page is about, or to the whole."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = [name for name in FILE.findall(text) if "NAME" not in name and "CODE" not in name]
    assert len(named) > 10 or page.endswith("DECISIONS.md")
    absent = [name for name in named if not any((ROOT / base / name).exists() for base in PAGES[page])]
    assert not absent


def test_every_function_that_an_auditor_is_sent_to_is_there() -> None:
    """File by file."""
    page = "runtime/policyc_check/AUDITING.md"
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    for file, name in named:
        text = (ROOT / "runtime/policyc_check" / file).read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"(def|class) {part}\b", text), (file, name)
