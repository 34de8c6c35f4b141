"""The guide, in the terminal."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from policyc.cli.speech import say
from policyc.guide import DEPLOYMENTS, PAGES, read_page, write_files

Page = StrEnum("Page", {name.upper(): name for name in PAGES})  # type: ignore[misc]  # made of the pages
Deployment = StrEnum("Deployment", {name.upper(): name for name in DEPLOYMENTS})  # type: ignore[misc]  # of the names


def guide(
    page: Annotated[
        Page | None, typer.Argument(metavar="[PAGE]", help="One of the pages; without it they are listed.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--files", metavar="DIR", help="Write the events that the pages use, and a notebook."),
    ] = None,
    deployment: Annotated[
        Deployment | None,
        typer.Option(
            "--deployment",
            metavar="NAME",
            help="With --files: one of the cookbook's policies, and what makes its events.",
        ),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            "--site", metavar="DIR", help="Build all pages, with search, into a new directory (needs policyc[site])."
        ),
    ] = None,
) -> None:
    """Read the guide: a tutorial, promises, events, certificates, running, auditing, a cookbook, limits, reference.

    \b
    policyc guide
    policyc guide tutorial
    policyc guide --files .              events to follow it with, and a notebook for Python
    policyc guide --files . --deployment editors
    policyc guide --site guide           open guide/index.html; it needs no server and no network
    """
    if deployment is not None and directory is None:
        raise typer.BadParameter("--deployment says what to write; say where to: --files DIR")
    if site is not None:
        if page is not None or directory is not None:
            raise typer.BadParameter("--site builds all pages, and nothing beside it: leave the rest out")
        from policyc.guide.site import write_site

        try:
            pages = write_site(site)
        except FileExistsError as error:
            raise typer.BadParameter(f"{error}: name a new directory, or remove this one first") from None
        say(f"{site / 'index.html'}: the first of {pages} pages")
        return
    if directory is not None:
        if not directory.is_dir():
            raise typer.BadParameter(f"there is no directory {directory}: make it first")
        try:
            names = write_files(directory, deployment and deployment.value)
        except FileExistsError as error:
            raise typer.BadParameter(f"{error}; move it away, or name another directory") from None
        say("\n".join(names))
        return
    if page is None:
        width = max(map(len, PAGES))
        say("\n".join(f"policyc guide {name:<{width}}  {about}" for name, about in PAGES.items()))
        return
    text = read_page(page.value)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console()
        with console.pager(styles=True):
            console.print(Markdown(text))
    else:
        typer.echo(text, nl=False)
