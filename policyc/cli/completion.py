"""Completion in shells: the script that asks, and its answers."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Any

import typer

ASKED = "_POLICYC_COMPLETE"
"""The environment variable by which a shell's script asks."""


class Shell(StrEnum):
    """Shells that complete words."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register_completion(app: typer.Typer) -> None:
    """Add the command, and the answers where a shell asks."""
    app.command()(completion)
    if ASKED in os.environ:
        _shells().completion_init()


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print the script by which a shell completes commands, options and the codes of findings.

    \b
    policyc completion bash > ~/.local/share/bash-completion/completions/policyc
    policyc completion zsh > ~/.zfunc/_policyc
    policyc completion fish > ~/.config/fish/completions/policyc.fish
    """
    typer.echo(_shells().get_completion_script(prog_name="policyc", complete_var=ASKED, shell=shell.value))


def _shells() -> Any:
    """What typer knows of shells; it exports none of it."""
    from importlib import import_module

    return import_module("typer.completion")


def codes(begun: str) -> list[str]:
    """The codes of findings that begin so."""
    from policyc.diagnostics.pages import all_codes

    return [code for code in all_codes() if code.startswith(begun)]
