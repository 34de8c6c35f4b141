"""The commands about policies that plan nothing, which `cli` takes up."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policyc.cli.completion import codes
from policyc.cli.speech import QuietCommand, say
from policyc.version import __version__

if TYPE_CHECKING:
    from policyc.diagnostics import Diagnostic, Source

FINDINGS, USAGE = 1, 2


class FindingFormat(StrEnum):
    """How findings are shown."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def register_policies(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (check, fmt):
        app.command(cls=QuietCommand)(command)
    app.command()(explain)


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Policies.")],
    form: Annotated[FindingFormat, typer.Option("--format", help="text, json or sarif.")] = FindingFormat.TEXT,
    fix: Annotated[
        bool, typer.Option("--fix", help="First rewrite what can only mean one thing: spelling, signs, quotes.")
    ] = False,
    help_uri: Annotated[
        str | None,
        typer.Option("--help-uri", metavar="URL", help="SARIF: where `policyc explain {code}` is shown, as a link."),
    ] = None,
) -> None:
    """Show all findings of policies, without planning.

    \b
    policyc check traffic.policy
    policyc check traffic.policy --fix
    policyc check policies/*.policy --format sarif > findings.sarif
    """
    from policyc.diagnostics import PolicyError
    from policyc.semantics.checked import check_file

    if help_uri is not None and "{code}" not in help_uri:
        raise typer.BadParameter("write {code} where a finding's code stands", param_hint="--help-uri")
    results: list[tuple[Source, tuple[Diagnostic, ...]]] = []
    failed = False
    for file in files:
        if fix:
            _fix(file)
        try:
            source, _, _, findings = check_file(file)
        except PolicyError as error:
            source, findings, failed = error.source, error.diagnostics, True
        results.append((source, findings))
    if form is FindingFormat.TEXT:
        for source, findings in results:
            show_findings(findings, source)
            if not findings:
                say(f"{source.name}: no findings")
    elif form is FindingFormat.JSON:
        import json

        from policyc.diagnostics.json_output import json_records

        records = [record for source, findings in results for record in json_records(findings, source)]
        typer.echo(json.dumps(records, indent=2, ensure_ascii=False))
    else:
        from policyc.diagnostics.sarif import render_sarif

        typer.echo(render_sarif(results, __version__, help_uri))
    if failed:
        raise typer.Exit(FINDINGS)


def _fix(file: Path) -> None:
    """Rewrite a policy with the edits that its findings carry, and say them; line ends stay as they are."""
    from policyc.diagnostics import PolicyError
    from policyc.semantics.fixed import fix_source
    from policyc.syntax import read_source
    from policyc_runtime.files import followed, write_text

    try:
        source = read_source(file)
    except PolicyError:
        return  # no text to change: what is wrong with the file is shown with all findings
    fixed, changes = fix_source(source, file.parent)
    if changes:
        ends = "\r\n" if b"\r\n" in file.read_bytes() else "\n"
        write_text(followed(file), fixed.text.replace("\n", ends))
    for change in changes:
        typer.echo(str(change), err=True)


def fmt(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Policies; `-` reads standard input.")],
    only_check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if a file would change.")] = False,
) -> None:
    """Rewrite policies in the canonical order and spacing. Comments are kept.

    \b
    policyc fmt traffic.policy
    policyc fmt policies/*.policy --check
    """
    from policyc.diagnostics import Source
    from policyc.syntax import format_policy, parse_policy, read_source
    from policyc_runtime.files import followed, write_text

    changed = False
    for file in files:
        if str(file) == "-":
            typer.echo(format_policy(parse_policy(Source("standard input", sys.stdin.read()))), nl=False)
            continue
        formatted = format_policy(parse_policy(read_source(file)))
        if file.read_bytes() == formatted.encode("utf-8"):
            continue
        changed = True
        if only_check:
            typer.echo(f"{file}: would be rewritten")
        else:
            write_text(followed(file), formatted)
            say(f"{file}: rewritten")
    if changed and only_check:
        raise typer.Exit(FINDINGS)


def explain(
    code: Annotated[str, typer.Argument(metavar="CODE", help="Such as E0401.", autocompletion=codes)],
) -> None:
    """Explain a finding: why it is refused, an example that shows it, and the corrected one.

    \b
    policyc explain E0401
    """
    from policyc.diagnostics.pages import all_codes, read_page

    wanted = code.strip().upper()
    codes = all_codes()
    if wanted not in codes:
        from difflib import get_close_matches

        begun = [one for one in codes if len(wanted) > 1 and one.startswith(wanted)]
        near = begun or get_close_matches(wanted, codes, n=3, cutoff=0.8)  # digits that differ are another finding
        hint = f"; did you mean {', '.join(near)}?" if near else ": codes stand in brackets, as in `error[E0401]`"
        typer.echo(f"error: there is no finding {wanted[:20]}{hint}", err=True)
        raise typer.Exit(USAGE)
    typer.echo(read_page(wanted), nl=False)


def show_findings(findings: tuple[Diagnostic, ...], source: Source) -> None:
    """Print findings of a policy, with their places, to standard error."""
    if findings:
        from policyc.diagnostics.text import render_text, wants_color

        typer.echo(render_text(findings, source, color=wants_color()), err=True)
