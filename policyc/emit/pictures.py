"""Inline SVG pictures of series, and what frames every picture.

Colors are CSS variables, so that a picture follows light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from policyc.emit.dates import date_ticks, month_ticks
from policyc.emit.numbers import sentence_case
from policyc_check.plan.stream import MONTH
from policyc_runtime.sources.moments import moment_of

Array = NDArray[np.float64]
Point = TypeVar("Point", bound=tuple[float, ...])
LARGEST_POINTS = 600
WIDEST_LETTER = 9.0  # width of a letter on a small screen
WIDTH, HEIGHT = 720.0, 270.0
NARROW = 430.0  # of two pictures side by side
LEFT, RIGHT, TOP, BOTTOM = 64.0, 20.0, 16.0, 44.0
TICK_GAP = 8.0  # between a tick's number and the picture
LABEL = 20.0  # what the turned name of the axis takes


def thinned(values: Array, largest: int = LARGEST_POINTS) -> NDArray[np.int64]:
    """Indices of at most `largest` values that keep the shape: ends, and minimum and maximum of every stretch."""
    count = len(values)
    if count <= largest:
        return np.arange(count)
    edges = np.linspace(0, count, (largest - 2) // 2 + 1).astype(np.int64)
    kept = {0, count - 1}
    for start, end in pairwise(edges):
        kept.add(int(start + np.argmin(values[start:end])))
        kept.add(int(start + np.argmax(values[start:end])))
    return np.array(sorted(kept), dtype=np.int64)


@dataclass(frozen=True)
class Frame:
    """Where data coordinates land on the picture."""

    low_x: float
    high_x: float
    high_y: float
    low_y: float = 0.0
    width: float = WIDTH

    def x(self, value: float) -> float:
        """Picture coordinate of a step."""
        span = self.high_x - self.low_x or 1.0
        return LEFT + (value - self.low_x) / span * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Picture coordinate of a height, `low_y` at the bottom."""
        return HEIGHT - BOTTOM - (value - self.low_y) / (self.high_y - self.low_y) * (HEIGHT - TOP - BOTTOM)


def nice_ticks(high: float, wanted: int = 4) -> list[float]:
    """Round numbers from 0 up to at least `high`, about `wanted` of them."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / wanted
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= raw * (1 - 1e-9))
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


def ticks_between(low: float, high: float) -> list[float]:
    """Round numbers from `low` up to at least `high`, about five of them."""
    if low == 0:
        return nice_ticks(high, 5)
    step = nice_ticks(high - low, 5)[1]
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.ceil(high / step - 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:,.10g}"


def coordinate(value: float) -> str:
    """A place or a size in a picture, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def line_picture(picture: dict[str, Any]) -> str:
    """A line for every series of points (step, value), with an optional level (such as alpha) drawn across.

    Heights start at 0, or at the picture's `low`. Steps are marked by their dates where the picture has `dates`. A
    series with `gaps` has no line over steps without a point. A `band` of (step, below, above) lies behind the lines.
    """
    series = [[(float(x), float(y)) for x, y in s["points"]] for s in picture["series"]]
    xs = [x for line in series for x, _ in line]
    level = picture.get("level")
    band = [(float(x), float(below), float(above)) for x, below, above in picture.get("band", ())]
    highest = max([y for line in [*series, [(x, y) for x, _, y in band]] for _, y in line] + _levels(level))
    low = float(picture.get("low", 0))
    frame = Frame(min(xs), max(xs), low + (highest - low) * 1.08 if highest > low else low + 1.0, low)
    ticks = [tick for tick in ticks_between(low, highest) if tick <= frame.high_y]
    marks = _x_marks(frame, picture.get("dates"))
    parts = [*_y_axis(frame, ticks), *_x_axis(frame, marks)]
    parts += [f'<path class="band" d="{_band(frame, piece)}"/>' for piece in _without_gaps(band)]
    if level:
        y = coordinate(frame.y(float(level["value"])))
        parts.append(f'<line class="level" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y}" y2="{y}"/>')
    for index, line in enumerate(series):
        path = _path(frame, line, stepped=picture["stepped"], gaps=picture["series"][index].get("gaps", False))
        parts.append(f'<path class="line s{index}" d="{path}"/>')
        if picture["stepped"]:  # the first and the last budget are often the largest, and one step wide
            parts += [
                f'<circle class="dot s{index}" cx="{coordinate(frame.x(x))}" cy="{coordinate(frame.y(y))}" r="3"/>'
                for x, y in ends(line)
            ]
    return framed_svg(picture, HEIGHT, parts, left=max(_beside(ticks), _overhang(frame, marks)))


def _levels(level: dict[str, Any] | None) -> list[float]:
    return [] if level is None else [float(level["value"])]


def _band(frame: Frame, piece: Sequence[tuple[float, float, float]]) -> str:
    """The outline of an area between two lines: along the upper one, and back along the lower."""
    there = [(x, above) for x, _, above in piece]
    back = [(x, below) for x, below, _ in reversed(piece)]
    return "M" + "L".join(f"{coordinate(frame.x(x))} {coordinate(frame.y(y))}" for x, y in there + back) + "Z"


@dataclass(frozen=True)
class ChoiceFrame:
    """Where a curve over so many choices lies: these evenly spaced, values above 0 by their logarithms.

    Args:
        count: of the choices.
        lowest: value that is drawn.
        highest: value that is drawn.
    """

    count: int
    lowest: float
    highest: float

    @property
    def _frame(self) -> Frame:
        low, high = math.log10(self.lowest / 1.25), math.log10(self.highest * 1.25)
        return Frame(-0.25, self.count - 0.75, high, low, NARROW)

    def x(self, choice: int) -> str:
        """Picture coordinate of a choice."""
        return coordinate(self._frame.x(choice))

    def y(self, value: float) -> str:
        """Picture coordinate of a value, the lowest one of what is below it."""
        return coordinate(self._frame.y(math.log10(max(value, self.lowest))))

    def ticks(self) -> list[float]:
        """Round numbers from the lowest to the highest value, at most six where these lie near each other."""
        powers = range(math.floor(math.log10(self.lowest)) - 1, math.ceil(math.log10(self.highest)) + 2)
        for digits in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 4, 6, 8), (1, 2, 5), (1, 3), (1,)):
            ticks = [digit * 10.0**power for power in powers for digit in digits]
            kept = [tick for tick in ticks if self.lowest / 1.25 <= tick <= self.highest * 1.25]
            if len(kept) <= 6:
                return kept
        return kept[:: -(-len(kept) // 6)]


def choice_picture(picture: dict[str, Any], frame: ChoiceFrame) -> str:
    """A curve over choices that are no scale: `names` below it, `values` (None for a gap), one of them `now`.

    Where they are not `joined`, as choices without an order, there are points alone. Every point is a circle, so that a
    script may move the curve.
    """
    names, values = picture["names"], picture["values"]
    right, parts = NARROW - RIGHT, []
    for tick in frame.ticks():
        y = frame.y(tick)
        parts.append(f'<line class="grid" x1="{LEFT:g}" x2="{right:g}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - TICK_GAP:g}" y="{y}" dy="4">{_number(tick)}</text>')
    for at, name in enumerate(names):
        marked = f'x="{frame.x(at)}" y="{HEIGHT - BOTTOM + 18:g}"'
        parts.append(f'<text class="tick middle" {marked}>{escape(name)}</text>')
    path = ""
    for at, value in enumerate(values):
        if value is not None:
            joined = at and values[at - 1] is not None and picture.get("joined", True)
            path += f"{'L' if joined else 'M'}{frame.x(at)} {frame.y(value)}"
    parts.append(f'<path class="line s0" d="{path}"/>')
    for at, value in enumerate(values):
        kind = "dot now" if at == picture["now"] else "dot"
        place = 'visibility="hidden"' if value is None else f'cy="{frame.y(value)}"'
        parts.append(f'<circle class="{kind}" cx="{frame.x(at)}" {place} r="4"/>')
    return framed_svg(picture, HEIGHT, parts, width=NARROW, left=_beside(frame.ticks()))


def ends(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The first and the last point of a line."""
    return [line[0], line[-1]]


def _path(frame: Frame, line: Sequence[tuple[float, float]], *, stepped: bool, gaps: bool) -> str:
    if gaps:
        return "".join(map(partial(_piece, frame), _without_gaps(line)))
    if len(line) == 1:
        return f"M{coordinate(LEFT)} {coordinate(frame.y(line[0][1]))}H{coordinate(WIDTH - RIGHT)}"
    pieces = [f"M{coordinate(frame.x(line[0][0]))} {coordinate(frame.y(line[0][1]))}"]
    for x, y in line[1:]:
        if stepped:
            pieces.append(f"H{coordinate(frame.x(x))}V{coordinate(frame.y(y))}")
        else:
            pieces.append(f"L{coordinate(frame.x(x))} {coordinate(frame.y(y))}")
    return "".join(pieces)


def _without_gaps(line: Sequence[Point]) -> list[list[Point]]:
    """The stretches of a line whose steps follow each other."""
    pieces: list[list[Point]] = []
    for point in line:
        if not pieces or point[0] - pieces[-1][-1][0] > 1:
            pieces.append([])
        pieces[-1].append(point)
    return pieces


def _piece(frame: Frame, line: Sequence[tuple[float, float]]) -> str:
    """One stretch; a short dash for a single point."""
    if len(line) == 1:
        return f"M{coordinate(frame.x(line[0][0]) - 2)} {coordinate(frame.y(line[0][1]))}h4"
    return "L".join(f"{coordinate(frame.x(x))} {coordinate(frame.y(y))}" for x, y in line).join(["M", ""])


def _y_axis(frame: Frame, ticks: Iterable[float]) -> list[str]:
    parts = []
    for tick in ticks:
        y = frame.y(tick)
        right = frame.width - RIGHT
        parts.append(f'<line class="grid" x1="{LEFT:g}" x2="{right:g}" y1="{coordinate(y)}" y2="{coordinate(y)}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - TICK_GAP:g}" y="{coordinate(y + 4)}">{_number(tick)}</text>')
    return parts


def _beside(ticks: Iterable[float]) -> float:
    """What ticks on a small screen need left of the picture, so that the turned name of the axis stands beside them."""
    widest = WIDEST_LETTER * max((len(_number(tick)) for tick in ticks), default=0)
    return max(0.0, widest + LABEL + TICK_GAP - LEFT)


def _overhang(frame: Frame, marks: Iterable[tuple[float, str]]) -> float:
    """What the name of a mark on a small screen needs left of the picture."""
    return max(WIDEST_LETTER * len(name) / 2 - frame.x(x) for x, name in marks)


def _x_axis(frame: Frame, marks: Iterable[tuple[float, str]]) -> list[str]:
    y = HEIGHT - BOTTOM + 18
    return [f'<text class="tick middle" x="{coordinate(frame.x(x))}" y="{y:g}">{name}</text>' for x, name in marks]


def _x_marks(frame: Frame, dates: dict[str, str] | None) -> list[tuple[float, str]]:
    """Steps and their names."""
    found = [] if dates is None else _dates(frame, dates)
    return found or [(float(step), f"{step:,}") for step in _whole_steps(frame)]


def _whole_steps(frame: Frame) -> list[int]:
    span = frame.high_x - frame.low_x
    whole = {round(t) for t in nice_ticks(span, 5) if t <= span}
    ticks = sorted(t for t in whole if t < 0.93 * span or t == span) or [0]
    if ticks[-1] != span:
        ticks.append(round(span))
    return [round(frame.low_x) + t for t in ticks]


def _dates(frame: Frame, dates: dict[str, str]) -> list[tuple[float, str]]:
    """Dates whose names fit between the picture's edges; none where fewer than two do."""
    start = moment_of(dates["start"]) // 1000
    if dates["step_milliseconds"] == MONTH:
        found = month_ticks(start, frame.low_x, frame.high_x)
    else:
        found = date_ticks(start, int(dates["step_milliseconds"]), frame.low_x, frame.high_x)
    fitting = [(x, name) for x, name in found if frame.x(x) + WIDEST_LETTER * len(name) / 2 <= WIDTH]
    return fitting if len(fitting) > 1 else []


def framed_svg(
    picture: dict[str, Any],
    height: float,
    parts: list[str],
    axis_x: float | None = None,
    width: float = WIDTH,
    left: float = 0.0,
) -> str:
    """The picture, `width` from 0 on, with what it needs left of that."""
    name = escape(picture["id"])
    title, description = escape(picture["title"]), escape(picture["description"])
    if axis_x is None:
        x, y = (LEFT + width - RIGHT) / 2, (TOP + height - BOTTOM) / 2
        base = f"{height - BOTTOM:g}"
        below, beside = escape(sentence_case(picture["x"])), escape(sentence_case(picture["y"]))
        parts = [
            *parts,
            f'<line class="axis" x1="{LEFT:g}" x2="{width - RIGHT:g}" y1="{base}" y2="{base}"/>',
            f'<text class="label middle" x="{x:g}" y="{height - 6:g}">{below}</text>',
            f'<text class="label middle" transform="translate({13 - left:g} {y:g}) rotate(-90)">{beside}</text>',
        ]
    else:
        below = escape(sentence_case(picture["x"]))
        label = f'<text class="label end" x="{WIDTH - RIGHT:g}" y="{height - 8:g}">{below}</text>'
        parts = [*parts, label]
    kind = "lines" if axis_x is None else "bars"
    box = f"{0 - left:g} 0 {width + left:g} {height:g}"
    return (
        f'<svg class="{kind}" viewBox="{box}" role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{title}</title><desc id="{name}-desc">{description}</desc>{"".join(parts)}</svg>'
    )
