"""The commands about a plan's documents, which `cli` takes up; together they are all that prints or exits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PlanDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="What `policyc compile` wrote.")]


def register_documents(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(sign)


def sign(
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="What `policyc compile` wrote.")] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Your private ed25519 key, PEM (PKCS8).")
    ] = None,
    new_key: Annotated[
        Path | None, typer.Option("--new-key", metavar="FILE", help="Make a key first; its public half: FILE.pub.")
    ] = None,
) -> None:
    """Sign a certificate after reading it: certificate.dsse.json, and your key on its first page.

    \b
    policyc sign --new-key officer.pem           make a key; give officer.pem.pub to whoever checks
    policyc sign fleet.plan --key officer.pem    sign; several people may
    policyc verify fleet.plan --signed-by officer.pem.pub
    """
    if (key is None) == (new_key is None) or (directory is None and new_key is None):
        raise typer.BadParameter("name a plan directory and `--key FILE`, or make a key with `--new-key FILE`")
    from policyc.emit import sign as sign_plan
    from policyc.emit import signatures

    if new_key is not None:
        public, made = signatures.new_key(new_key)
        typer.echo(f"{new_key}: the private key, for your eyes alone; {public}: the public key, {made}")
    if directory is not None:
        signer = sign_plan(
            directory, key or new_key or Path(), lambda: str(typer.prompt("passphrase", hide_input=True, err=True))
        )
        typer.echo(f"{directory / signatures.ENVELOPE}: signed by {signer}")
