"""The pictures of the guide: they are what the compiler says, and each says what the table under it says."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from policyc.emit.pictures import ChoiceFrame
from policyc.guide import pictures as drawing
from policyc.guide import read_page

GUIDE = Path(drawing.__file__).parent
NAMES = ["promise", *drawing.CHOICES]
SHOWN = re.compile(r"!\[[^]]+\]\((\w+)\.svg\)\n\n((?:\|.*\n)+)")


def table(name: str) -> tuple[str, list[list[str]]]:
    """The table under a picture: its text, and the cells of its rows."""
    text = dict(SHOWN.findall(read_page("promises")))[name]
    return text, [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def test_every_picture_stands_on_the_page_once() -> None:
    """In the order of the page's questions, and no file of a picture beside them."""
    assert [name for name, _ in SHOWN.findall(read_page("promises"))] == NAMES
    assert sorted(path.stem for path in GUIDE.glob("*.svg")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_says_what_its_table_says(name: str) -> None:
    """A point for each row, as high as the row's number, above the row's name; nothing comes from elsewhere."""
    svg = (GUIDE / f"{name}.svg").read_text(encoding="utf-8")
    _, rows = table(name)
    shown = re.findall(r'<circle class="dot(?: now)?" cx="([0-9.]+)" cy="([0-9.]+)"', svg)
    names = re.findall(r'<text class="tick middle" x="([0-9.]+)"[^>]*>([^<]*)<', svg)
    assert [name for _, name in names] == [row[0] for row in rows]
    assert [x for x, _ in names] == [x for x, _ in shown]
    errors = [float(row[-1].replace(",", "")) for row in rows]
    frame = ChoiceFrame(len(rows), min(errors), max(errors))
    for (_, y), error in zip(shown, errors, strict=True):
        assert abs(float(y) - float(frame.y(error))) < 1  # the table's three digits, a hundredth of a decade
    assert svg.count('class="dot now"') == 1
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in svg


def test_what_one_step_costs_is_the_least_laplace_noise_at_most() -> None:
    """By a formula: a day of a user is one count, which Laplace noise of scale 1 hides at 1 nat."""
    ratio = math.exp(-1)
    exact = math.sqrt(2 * ratio) / (1 - ratio)
    for name, first in (("period", "1d"), ("bound", "1")):
        row = table(name)[1][0]
        assert row[0] == first
        assert 0.99 * exact <= float(row[-1]) <= 1.005 * exact


@pytest.mark.law
def test_pictures_are_what_the_compiler_says(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Planned again: every file, and every row of the page. `--bless` writes them."""
    found = drawing.pictures(tmp_path)
    assert list(found) == NAMES
    page = GUIDE / "promises.md"
    for name, picture in found.items():
        if request.config.getoption("--bless"):
            (GUIDE / f"{name}.svg").write_text(picture.svg, encoding="utf-8")
            page.write_text(page.read_text(encoding="utf-8").replace(table(name)[0], picture.table), encoding="utf-8")
        assert table(name)[0] == picture.table
        assert (GUIDE / f"{name}.svg").read_text(encoding="utf-8") == picture.svg
