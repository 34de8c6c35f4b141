"""Words that shells complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prompt import policyc

PROGRAMS = str(Path(sys.executable).parent)


def test_there_is_a_script_for_each_shell(tmp_path: Path) -> None:
    """Each asks by the same variable; another shell is refused."""
    for shell in ("bash", "zsh", "fish"):
        done = policyc("completion", shell, cwd=tmp_path)
        assert done.returncode == 0
        assert f"_POLICYC_COMPLETE=complete_{shell}" in done.stdout
        if shutil.which(shell):
            subprocess.run([shell, "-n", "-c", done.stdout], check=True)
    assert policyc("completion", "cmd", cwd=tmp_path).returncode == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_options_and_codes(tmp_path: Path) -> None:
    """The script, read by bash, and asked as bash does when one presses the tabulator."""
    asked = [("ch", "check"), ("check --fi", "--fix"), ("explain E0401", "E0401"), ("account ver", "verify")]
    script = (
        'eval "$(policyc completion bash)"\n'
        'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _policyc_completion policyc; echo "${COMPREPLY[@]}"; }\n'
    )
    script += "".join(f"ask policyc {words}\n" for words, _ in asked)
    environment = {**os.environ, "PATH": os.pathsep.join([PROGRAMS, os.environ["PATH"]])}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [answer for _, answer in asked]
