"""Checks in a real browser: collected where a Chromium is found; else the summary of a test run says so.

No package index has one that runs everywhere, so they are a command of their own:
`CHROMIUM=/path pytest -m law tests/browser`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
FOUND = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)

collect_ignore_glob = [] if FOUND else ["test_*.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say whether the browser checks ran."""
    if FOUND is None:
        terminalreporter.write_line("tests/browser: not collected, no Chromium here (CHROMIUM=/path pytest)")


@pytest.fixture
def browse(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`browse(*arguments)` starts the browser, which ends when it has loaded what they name."""
    assert FOUND is not None, "collected only where there is one"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command = [FOUND, *flags, f"--user-data-dir={tmp_path / 'profile'}"]
    return lambda *arguments: subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
