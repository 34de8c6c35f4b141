"""The command that editors start."""

from __future__ import annotations

from typing import Annotated

import typer


def register_editor(app: typer.Typer) -> None:
    """Add it to the command line."""
    app.command()(lsp)


def lsp(
    stdio: Annotated[  # noqa: ARG001  there is no other way
        bool, typer.Option("--stdio", help="As editors say it: over standard input and output.", show_default=False)
    ] = True,
) -> None:
    """Serve an editor: findings while typing, completion, explanations. It speaks the Language Server Protocol.

    Editors start it; it writes no file.

    \b
    policyc lsp
    """
    from importlib.util import find_spec

    if find_spec("pygls") is None:
        from policyc_check.errors import KernelError

        message = "the language server needs a library that is not installed"
        raise KernelError("E0871", message, help="pip install 'policyc[editor]'")
    from policyc.editor.server import serve

    serve()
