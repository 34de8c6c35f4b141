"""The commands about a plan's documents, which `cli` takes up; together they are all that prints or exits."""

from __future__ import annotations

import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from policyc.cli.speech import QuietCommand, say, shown_progress

if TYPE_CHECKING:
    from policyc.emit.signatures import Signer
    from policyc_check.claims import Claim

FINDINGS, USAGE = 1, 2
MOST_RUNS = 10_000_000  # hours, and far more than a verification plays again


def register_documents(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command(cls=QuietCommand)(certificate)
    app.command(cls=QuietCommand)(sign)
    app.command()(diff)
    app.command(cls=QuietCommand)(audit)


def certificate(
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="What `policyc compile` wrote.")] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write certificate.pdf too (needs policyc[pdf]).")] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="Write registry.yaml too: a record for the public deployments registry.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Show the JSON Schema of certificate.json.")] = False,
) -> None:
    """Render a certificate again from its plan, and in other forms. The same plan gives the same bytes.

    \b
    policyc certificate fleet.plan
    policyc certificate fleet.plan --pdf
    policyc certificate fleet.plan --registry
    policyc certificate --schema > certificate.schema.json
    """
    if schema:
        from importlib.resources import files

        typer.echo(files("policyc.emit").joinpath("certificate.schema.json").read_text(encoding="utf-8"), nl=False)
        return
    if directory is None:
        raise typer.BadParameter("name a plan directory, or `--schema`")
    from policyc.emit.directory import rewrite_certificate, write_on_demand
    from policyc.emit.on_demand import PDF, REGISTRY

    with shown_progress("rendering"):
        written = rewrite_certificate(directory)
        written += [write_on_demand(directory, name) for name, wanted in ((PDF, pdf), (REGISTRY, registry)) if wanted]
    say("\n".join(map(str, dict.fromkeys(written))))
    if registry:
        say("fill in what a plan cannot know, in a copy: curator, use, region, date, authors")


def sign(
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="What `policyc compile` wrote.")] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Your private ed25519 key, PEM (PKCS8).")
    ] = None,
    new_key: Annotated[
        Path | None, typer.Option("--new-key", metavar="FILE", help="Make a key first; its public half: FILE.pub.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Who you are; it is signed too.")] = None,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="What you sign as.")] = None,
    organisation: Annotated[
        str | None, typer.Option("--organisation", metavar="ORG", help="Whom you sign for.")
    ] = None,
    contact: Annotated[
        str | None, typer.Option("--contact", metavar="WHERE", help="Where you are reached; it is printed.")
    ] = None,
    purpose: Annotated[
        str | None, typer.Option("--purpose", metavar="WORDS", help="What is published for, which you sign for.")
    ] = None,
    date: Annotated[
        str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The day of signing; today in UTC by default.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="You have read the first page: do not show it and ask.")] = False,
) -> None:
    """Sign a certificate: its first page is shown, and you are asked. Several people may sign, one after another.

    What is signed is certificate.json with your words; certificate.dsse.json holds it, and your words and key stand
    on the certificate's first page. Where nobody can be asked, say that it was read, with `--yes`.

    \b
    policyc sign --new-key officer.pem           make a key; give officer.pem.pub to whoever checks
    policyc sign fleet.plan --key officer.pem --name "Ada Bell" --role "privacy officer" --purpose "open data"
    policyc verify fleet.plan --signed-by officer.pem.pub
    """
    if (key is None) == (new_key is None) or (directory is None and new_key is None):
        raise typer.BadParameter("name a plan directory and `--key FILE`, or make a key with `--new-key FILE`")
    if directory is not None and name is None:
        raise typer.BadParameter(
            "say who signs with `--name NAME`; it stands on the certificate, and is signed with it"
        )
    if directory is not None and not (yes or _is_read()):
        raise typer.BadParameter(
            "nobody can be asked here: read the first page of certificate.html, then say so with `--yes`"
        )
    from datetime import UTC, datetime

    from policyc.emit import sign as sign_plan
    from policyc.emit import signatures, signing_keys

    today = datetime.now(UTC).date().isoformat()
    signer = None if name is None else signatures.Signer(name, date or today, role, organisation, contact, purpose)
    if new_key is not None:
        public, made = signing_keys.new_key(new_key)
        say(f"{new_key}: the private key, for your eyes alone; {public}: the public key, {made}")
    if directory is not None and signer is not None:
        file = key or new_key or Path()
        passphrase = partial(typer.prompt, "passphrase", hide_input=True, err=True)
        agrees = partial(_agrees, signer=signer, yes=yes)
        signed = None
        try:
            signed = sign_plan(directory, file, passphrase, signer, agrees, _verified)
        finally:
            if signed is None and new_key is not None:  # nothing is written then, and the key signed nothing
                for made_file in (new_key, public):
                    made_file.unlink(missing_ok=True)
        if signed is None:
            typer.echo("not signed" if new_key is None else "not signed, and the new key is removed", err=True)
            raise typer.Exit(FINDINGS)
        say(f"{directory / signatures.ENVELOPE}: signed by {signer.words}, on {signer.date}, with the key {signed}")


def _verified(directory: Path) -> list[Claim]:
    """What is found before anybody is asked, with its progress."""
    from policyc.emit import verify_directory

    with shown_progress("planning again"):
        return verify_directory(directory)


def _is_read() -> bool:
    """Whether somebody reads what is shown and can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _agrees(page: str, signer: Signer, *, yes: bool) -> bool:
    """Show the first page and ask, unless it is said to be read."""
    if yes:
        return True
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(page))
    console.print()
    return typer.confirm(f"Do you, {signer.words}, sign this on {signer.date}?")


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A plan directory, or a plan.json.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The plan to compare with it.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Say what changed in the promise, the assumptions and the accuracy. Exit 1 when the promise got weaker.

    What cannot be compared counts as weaker, with the reason. Only plan.json is read.

    \b
    policyc diff fleet.plan fleet-2027.plan
    policyc diff old/plan.json fleet.plan --json > changes.json
    """
    from policyc.emit.difference import changes_json, compare_plans, is_weaker, render_changes
    from policyc_check.errors import KernelError
    from policyc_runtime.plan import load_plan
    from policyc_runtime.refusal import require_sealed

    plans = []
    for path in (old, new):
        try:
            plan = load_plan(path)
            require_sealed(plan)
        except KernelError as error:
            from policyc.diagnostics.text import render_kernel_error

            typer.echo(render_kernel_error(error, color=False), err=True)
            raise typer.Exit(USAGE) from None  # 1 would say that the promise got weaker
        plans.append(plan)
    changes = compare_plans(*plans)
    if as_json:
        typer.echo(json.dumps(changes_json(changes), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(render_changes(changes)))
    if is_weaker(changes):
        raise typer.Exit(FINDINGS)


def _number(said: float) -> float:
    """What is said; `nan` is within every range."""
    if math.isnan(said):
        raise typer.BadParameter("nan is no number")
    return said


def audit(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What `policyc compile` wrote.")],
    runs: Annotated[
        int, typer.Option("--runs", min=2, max=MOST_RUNS, help="Runs on each of the two streams.")
    ] = 20_000,
    confidence: Annotated[
        float, typer.Option("--confidence", min=0.5, max=0.999999, help="Of all bounds.", callback=_number)
    ] = 0.99,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: the record.")] = False,
) -> None:
    """Attack the plan's own noise: run it on two neighboring streams and try to tell them apart.

    The lower bound of epsilon that follows must stay below the claim; exit 1 when it does not. The record goes to
    audit.json and into the certificate's pages, dated. Such runs can find mistakes; `policyc verify` proves.

    \b
    policyc audit fleet.plan
    policyc audit fleet.plan --runs 100000 --json
    """
    from datetime import UTC, datetime
    from decimal import Decimal

    from policyc.emit.beside import Added, audit_words
    from policyc.emit.directory import rewrite_certificate
    from policyc_runtime.laboratory.empirical import AUDIT
    from policyc_runtime.laboratory.empirical import audit as audit_plan
    from policyc_runtime.plan import load_plan

    plan = load_plan(directory)
    today = datetime.now(UTC).date().isoformat()
    with shown_progress("auditing") as progress:
        record = audit_plan(plan, today, runs, Decimal(repr(confidence)), progress=progress)
    rewrite_certificate(directory, Added(audit=record))
    if as_json:
        typer.echo(record.render(), nl=False)
    else:
        words: Any = audit_words(record)
        say(words["sentence"])
        for attack in words["attacks"]:
            say(f"\n  {attack['secret']}\n    by        {attack['statistic']}")
            say(f"    claimed   at most {attack['claimed']}\n    proven    at least {attack['proven']}")
            say(f"    control   {attack['control']}")
        say(f"\n{directory / AUDIT}: the record; the certificate's pages show it")
    if (refuted := record.refuted) is not None:
        typer.echo(f"error[E0842]: an attack proves more than is claimed about {refuted.secret}", err=True)
        raise typer.Exit(FINDINGS)
