"""What all tests share: goldens, which `pytest --bless` rewrites, the examples of a page, and the gallery."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GOLDENS = Path(__file__).parent / "goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the golden files from what the code gives now")
    parser.addoption("--full", action="store_true", help="full sizes of audits and papers' tables: minutes")
    parser.addoption(
        "--tables", metavar="DIR", help="benchmarks: write tables as Markdown files there, not to the screen"
    )


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`clock(moment)` sets the clock that steps are over by; until then all data of the tests is long past."""
    from policyc_runtime.sources import due_steps
    from policyc_runtime.sources.moments import moment_of

    def say(moment: str) -> None:
        monkeypatch.setattr(due_steps, "now", lambda: moment_of(moment))

    say("2040-01-01")
    return say


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares a text with the file of that name under tests/goldens, or blesses it."""
    bless = bool(request.config.getoption("--bless"))

    def compare(name: str, text: str) -> None:
        path = GOLDENS / name
        if bless:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden {name}: run pytest --bless and read what it writes"
        assert path.read_text(encoding="utf-8") == text

    return compare


@pytest.fixture
def page_examples() -> Callable[[str], tuple[str, str]]:
    """`page_examples(code)` gives the wrong and the right example of a code's page."""

    def examples(code: str) -> tuple[str, str]:
        from policyc.diagnostics.pages import read_page

        page = read_page(code)
        pattern = r"## Wrong\n\n```(?:policy|console)\n(.*?)```\n\n## Right\n\n```(?:policy|console)\n(.*?)```\n"
        match = re.search(pattern, page, re.DOTALL)
        assert match is not None, f"the page of {code} has no examples"
        return match.group(1), match.group(2)

    return examples


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Whether full sizes are run, which takes minutes, or a small part of them."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def gallery() -> Path:
    """The folder of the shipped policies."""
    return ROOT / "policies"
