"""Inline SVG pictures of bars, one for every entry."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from policyc.emit.pictures import WIDEST_LETTER, WIDTH, coordinate, framed_svg

WIDEST_NAMES = 520.0  # what names leave to bars is the rest
LONGEST_BAR = 4  # times the shortest; a longer one is cut, and marked


def _longest(values: Sequence[str]) -> float:
    """The largest of some values that a bar shows whole: outliers would hide the others."""
    numbers = [float(value) for value in values]
    return min(max(numbers), LONGEST_BAR * min(numbers)) or max(numbers) or 1.0


def some_cut(values: Sequence[str]) -> bool:
    """Whether a bar of these values is cut short, and marked."""
    return any(float(value) > _longest(values) for value in values)


def bar_picture(picture: dict[str, Any]) -> str:
    """A horizontal bar for every entry, its value beside it; the chosen one stands out."""
    bars = picture["bars"]
    row = 30.0
    name_width = min(max(150.0, 16 + WIDEST_LETTER * max(len(bar["name"]) for bar in bars)), WIDEST_NAMES)
    height = 14 + row * len(bars) + 34
    largest = _longest([bar["value"] for bar in bars])
    room = WIDTH - name_width - 100
    parts = []
    for index, bar in enumerate(bars):
        y = 10 + row * index
        cut = float(bar["value"]) > largest
        width = room if cut else max(float(bar["value"]) / largest * room, 1.5)
        kind = "bar chosen" if bar["chosen"] else "bar"
        parts.append(f'<text class="name end" x="{name_width - 10:g}" y="{y + 16:g}">{escape(bar["name"])}</text>')
        size = f'width="{coordinate(width)}" height="18"'
        parts.append(f'<rect class="{kind}" x="{name_width:g}" y="{y + 3:g}" {size} rx="2"/>')
        parts.append(
            f'<text class="value" x="{coordinate(name_width + width + 8)}" y="{y + 16.5:g}">'
            f"{'▸ ' if cut else ''}{escape(bar['value'])}</text>"
        )
    parts.append(f'<line class="axis" x1="{name_width:g}" x2="{name_width:g}" y1="8" y2="{10 + row * len(bars):g}"/>')
    return framed_svg(picture, height, parts, axis_x=name_width)
