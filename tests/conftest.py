"""What all tests share: the two parts of a run, goldens, which `pytest --bless` rewrites, examples, and the gallery."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from policyc.pipeline import Compilation

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one worker a core: threads of two would wait for each other

sys.path.insert(0, str(Path(__file__).parent))  # for what tests and benchmarks share

ROOT = Path(__file__).parent.parent
GOLDENS = Path(__file__).parent / "goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the golden files from what the code gives now")
    parser.addoption("--full", action="store_true", help="all tests, at full sizes of audits and papers' tables")
    parser.addoption(
        "--tables", metavar="DIR", help="benchmarks: write tables as Markdown files there, not to the screen"
    )
    parser.addoption("--report", metavar="DIR", help="benchmarks: draw papers' figures into the page DIR/figures.html")


def pytest_configure(config: pytest.Config) -> None:
    """Full sizes and goldens are of all tests, laws as well, where the command line does not say which."""
    if (config.getoption("--full") or config.getoption("--bless")) and config.option.markexpr == "not law":
        config.option.markexpr = ""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config))


class _Failures:
    """Names a failure when it happens: laws take half an hour, and who stops them early wants to know what failed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", "").partition("\n")[0]
            terminal.write_line(f" {report.nodeid} ({report.when}) {crash}"[:300])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that is marked `sampled(n)`, n parameters spread evenly are always run; the others are laws.

    `sampled(n, laws=m)`: m of them spread evenly are laws, and what is left is run with `--full`.
    """
    parameters: dict[tuple[pytest.Item | pytest.Collector | None, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            parameters.setdefault((item.parent, item.name.partition("[")[0]), []).append(item)
    for found in parameters.values():
        mark = found[0].get_closest_marker("sampled")
        assert mark is not None
        (few,), laws = mark.args, mark.kwargs.get("laws", len(found))
        kept, rest = ({number * len(found) // count for number in range(count)} for count in (few, laws))
        for place, item in enumerate(found):
            if place not in kept:
                item.add_marker("law")
                if place not in rest and not config.getoption("--full"):
                    item.add_marker(pytest.mark.skip(reason="some of its kind are run: with --full"))


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


@pytest.fixture(params=["some", pytest.param("all", marks=pytest.mark.law)])
def some(request: pytest.FixtureRequest) -> Callable[[Iterable[Any], int], list[Any]]:
    """`some(things, n)`: n of them, spread evenly; all of them in the test's other run, which is a law."""

    def chosen(things: Iterable[Any], few: int) -> list[Any]:
        every = list(things)
        if request.param == "all" or len(every) <= few:
            return every
        return [every[number * len(every) // few] for number in range(few)]

    return chosen


@pytest.fixture(scope="session")
def gallery() -> Path:
    """The folder of the shipped policies."""
    return ROOT / "policies"


@pytest.fixture(scope="session")
def compiled_gallery(gallery: Path) -> Callable[[str], Compilation]:
    """`compiled_gallery(name)`: a shipped policy, compiled once for all tests that read its plan."""
    from policyc import compile_policy

    return cache(lambda name: compile_policy(gallery / f"{name}.policy"))
