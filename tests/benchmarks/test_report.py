"""The page of figures: whole by itself, in order, with what is found beside what a paper says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from paper_contents import CONTENTS
from report import Figure, Panel, write_part

OPEN = {"meta", "circle", "path"}  # without an end, or closed at once


class Balanced(HTMLParser):
    """Whether every element ends where it should."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in OPEN:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in OPEN:
            assert self.inside.pop() == tag


def drawn(folder: Path, name: str, **panel: object) -> str:
    told = {"title": "a < b", "lines": {"one": [(1, 1.0), (2, 4.0)], "two": [(1, 2.0)]}, "x": "step", "y": "nats"}
    figure = Figure(f"Figure of {name}", "It says 4.", "4 & more.", "Chance.", [Panel(**{**told, **panel})])
    return write_part(folder, name, figure, "About.", ["a", "b"], [["1", "2"]]).read_text(encoding="utf-8")


def test_a_page_has_all_figures_that_were_drawn_in_order(tmp_path: Path) -> None:
    """The ninth before the tenth; one that is drawn again takes the place of the old one."""
    for name in ("zkl22_figure10", "zkl22_figure9", "cao17_figure3", "zkl22_figure9"):
        text = drawn(tmp_path, name)
    assert re.findall(r'<section id="(\w+)">', text) == ["cao17_figure3", "zkl22_figure9", "zkl22_figure10", "contents"]
    assert 'CAO17, figure 3</td><td>leakage over time</td><td><a href="#cao17_figure3">' in text
    assert "CAO17, figure 5</td><td>seconds for one value</td><td>not yet: <code>-k 'test_runtime'" in text
    assert "http" not in text
    assert "<script" not in text
    assert "4 &amp; more." in text
    assert "a &lt; b" in text
    Balanced().feed(text)


@pytest.mark.parametrize("log", ["", "x", "y", "xy"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 3e5])
def test_points_lie_within_the_picture(log: str, scale: float, tmp_path: Path) -> None:
    """On straight axes and on those of powers; what these cannot show is left out."""
    rng = np.random.default_rng(1)
    points = [(float(x), float(y)) for x, y in scale * rng.random((50, 2))] + [(scale, 0.0), (scale, float("nan"))]
    text = drawn(tmp_path, "one_1", lines={"all": points}, log=log)
    path = max(re.findall(r'<path style="[^"]*" stroke-dasharray="" d="M([^"]*)"', text), key=len)
    places = np.array([[float(number) for number in point.split()] for point in path.split("L")])
    assert len(places) == 50 + ("y" not in log)
    assert (places >= 0).all()
    assert (places <= [520, 300]).all()


def test_larger_is_higher_and_further(tmp_path: Path) -> None:
    """Of places with names as well."""
    for panel in ({}, {"names": ("a", "b", "c")}, {"log": "xy"}):
        text = drawn(tmp_path, "one_1", lines={"one": [(1, 1.0), (2, 4.0)]}, **panel)
        (left, low), (right, high) = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)
        assert float(left) < float(right)
        assert float(low) > float(high)


def test_every_figure_of_the_papers_is_drawn_or_has_a_reason() -> None:
    """All numbers that the papers give their figures are there, and each names a test that exists."""
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    there: dict[str, set[int]] = {}
    for entry in CONTENTS:
        assert bool(entry.test) == bool(entry.parts) != bool(entry.reason)
        names = re.findall(r"test_\w+", entry.test)
        assert bool(names) == bool(entry.test)
        assert all(f"def {name}" in tests for name in names)
        if entry.name.startswith("figure"):
            first, *last = map(int, re.findall(r"\d+", entry.name))
            there.setdefault(entry.paper, set()).update(range(first, (last or [first])[0] + 1))
    figures = {"CAO17": 8, "CAO23": 6, "KOGA22": 2, "ZKL22": 19}
    assert there == {paper: set(range(1, last + 1)) for paper, last in figures.items()}
