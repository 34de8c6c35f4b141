"""Lets the benchmarks import the settings beside them, and writes their tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Callable[[str, str, Sequence[str], Sequence[Sequence[object]]], None]:
    """`table(name, about, heads, rows)` writes DIR/name.md where `--tables DIR` is given, and prints it otherwise."""
    folder = request.config.getoption("--tables")

    def write(name: str, about: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        lines = [heads, ["---"] * len(heads), *([_shown(cell) for cell in row] for row in rows)]
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
