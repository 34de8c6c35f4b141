"""A command line in the process of the tests, which has loaded everything already."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest

from policyc.cli import main


def policyc(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What `policyc WORDS` does in a folder, through the function that the installed command calls."""
    arguments = ["policyc", *map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as line, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        line.chdir(cwd)
        line.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as left:
            main()
    assert isinstance(left.value.code, int)
    return subprocess.CompletedProcess(arguments, left.value.code, out.getvalue(), err.getvalue())
