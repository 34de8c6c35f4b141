"""Lets the benchmarks import the settings beside them, and writes their tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from report import Figure, write_part


class Table(Protocol):
    """`table(name, about, heads, rows)` writes DIR/name.md where `--tables DIR` is given, and prints it otherwise.

    With `--report DIR` and what a figure is, it goes into the page DIR/figures.html.
    """

    def __call__(
        self,
        name: str,
        about: str,
        heads: Sequence[str],
        rows: Sequence[Sequence[object]],
        figure: Figure | None = None,
    ) -> None: ...


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    """See `Table`."""
    folder, report = request.config.getoption("--tables"), request.config.getoption("--report")

    def write(
        name: str,
        about: str,
        heads: Sequence[str],
        rows: Sequence[Sequence[object]],
        figure: Figure | None = None,
    ) -> None:
        shown = [[_shown(cell) for cell in row] for row in rows]
        if report is not None and figure is not None:
            page = write_part(Path(report), name, figure, about, heads, shown)
            print(f"\n{figure.name}: {page}#{name}")
            return
        lines = [heads, ["---"] * len(heads), *shown]
        text = f"{about}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
        if folder is None:
            print(f"\n{text}")
            return
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.md").write_text(text, encoding="utf-8")

    return write


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:,.3g}" if abs(cell) < 1000 else f"{cell:,.0f}"
    return str(cell)
