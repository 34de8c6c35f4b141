"""One page of papers' figures drawn anew: a picture of each, what the paper says of it, what is found here, and why.

Every benchmark of a figure gives its part; the page in a folder has the parts of all that were ever written there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from paper_contents import CONTENTS

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520.0, 300.0, 84.0, 26.0, 14.0, 60.0
MOST_POINTS = 400  # of a line: more are not seen
COLORS = 8
STYLE = """
:root { --ink: #1d2129; --dim: #5a6270; --rule: #d5d9e0; --page: #fff; --box: #f5f6f8;
  --c0: #1d2129; --c1: #1f6fb4; --c2: #b8560f; --c3: #2b7d3f; --c4: #8a3fa0; --c5: #a8324a;
  --c6: #6b6f1c; --c7: #2a7f86; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaee; --dim: #a4acb8; --rule: #3a404a; --page: #14171c;
  --box: #1d2128; --c0: #e8eaee; --c1: #6fb3ea; --c2: #f0a060; --c3: #78c98c; --c4: #cf98e0;
  --c5: #f08a9c; --c6: #cdd05a; --c7: #6fd0d8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem; max-width: 72rem; color: var(--ink); background: var(--page);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.5rem 0 .5rem; }
nav { columns: 18rem; } nav a { display: block; color: var(--c1); padding: .15rem 0; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; max-width: 37rem; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 14px system-ui, sans-serif; fill: var(--dim); }
svg path { fill: none; stroke-width: 2; stroke-linejoin: round; } svg .band { stroke: none; opacity: .2; }
svg .rule { stroke: var(--rule); }
.key { display: flex; flex-wrap: wrap; gap: .1rem 1rem; list-style: none; padding: 0; margin: .3rem 0 0;
  font-size: .9rem; } .key svg { display: inline-block; width: 2rem; height: .7rem; margin-right: .35rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; background: var(--box); padding: .8rem;
  border-radius: .4rem; } dt { font-weight: 600; } dd { margin: 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, .words td { text-align: left; } .words td { white-space: normal; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; }
  svg text { font-size: 19px; } }
@media print { section { break-inside: avoid; } }
"""
DASHES = ("", "7 4", "2 3", "10 3 2 3", "5 2", "1 2", "12 4", "4 4 1 4")


@dataclass(frozen=True)
class Panel:
    """One picture.

    Args:
        title: above it.
        lines: (x, y) by name, in order.
        x: what is to the right.
        y: what is upward.
        log: "x", "y", "xy" or nothing: which axes have powers of ten.
        names: of places 0, 1, ... on the x axis, where it has no numbers.
        band: (x, low, high) that is shaded.
        joined: whether points of a line belong after each other.
    """

    title: str
    lines: Mapping[str, Points]
    x: str
    y: str
    log: str = ""
    names: Sequence[str] = ()
    band: Sequence[tuple[float, float, float]] = ()
    joined: bool = True


@dataclass(frozen=True)
class Figure:
    """A paper's figure.

    Args:
        name: such as "CAO17, figure 3".
        paper: what the paper says of it: its value, where it prints one.
        here: what is found.
        why: why the two differ, or that they do not.
        panels: the pictures.
    """

    name: str
    paper: str
    here: str
    why: str
    panels: Sequence[Panel] = field(default=())


def write_part(
    folder: Path, name: str, figure: Figure, about: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> Path:
    """Adds a figure to the page of a folder, or puts it in place of the one of the same name; the page."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    (parts / f"{name}.html").write_text(_section(name, figure, about, heads, rows), encoding="utf-8")
    page = folder / "figures.html"
    page.write_text(_page(sorted(parts.glob("*.html"), key=_place)), encoding="utf-8")
    return page


def _place(path: Path) -> tuple[object, ...]:
    """Figures of a paper by number: 9 before 10."""
    digits = "".join(letter if letter.isdigit() else " " for letter in path.stem.partition("_")[2]).split()
    return path.stem.partition("_")[0], [int(number) for number in digits], path.stem


def _page(parts: Sequence[Path]) -> str:
    sections = [part.read_text(encoding="utf-8") for part in parts]
    links = "".join(
        f'<a href="#{part.stem}">{text.partition("<h2>")[2].partition("</h2>")[0]}</a>'
        for part, text in zip(parts, sections, strict=True)
    )
    links += '<a href="#contents">All figures and tables of the papers</a>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Figures drawn anew</title><style>{STYLE}</style></head><body><h1>Figures of four papers</h1>"
        "<p>Each from free data, or from the series that a paper describes; what it prints beside what is found here. "
        "Methods are as the paper has them where a name does not say otherwise.</p>"
        f"<nav>{links}</nav>{''.join(sections)}{_contents({part.stem for part in parts})}</body></html>\n"
    )


def _contents(there: Set[str]) -> str:
    """All that the papers have, with what is drawn on this page, how to draw the rest, and why some of it is not."""
    rows = []
    for entry in CONTENTS:
        drawn = [f'<a href="#{part}">above</a>' for part in entry.parts if part in there]
        told = escape(entry.reason) or ", ".join(drawn) or f"not yet: <code>-k '{escape(entry.test)}'</code>"
        rows.append(f"<tr><td>{entry.paper}, {entry.name}</td><td>{escape(entry.shows)}</td><td>{told}</td></tr>")
    return (
        '<section id="contents"><h2>All figures and tables of the papers</h2><p>What is not drawn yet, <code>pytest -m '
        "law tests/benchmarks --report DIR</code> adds with the words that stand beside it. What gives a reason is not "
        f'drawn.</p><div class="wide"><table class="words"><tbody>{"".join(rows)}</tbody></table></div></section>'
    )


def _section(name: str, figure: Figure, about: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    said = {"The paper": figure.paper, "Here": figure.here, "Why they differ": figure.why}
    cells = "".join(f"<dt>{what}</dt><dd>{escape(text)}</dd>" for what, text in said.items())
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    panels = "".join(_panel(f"{name}-{number}", panel) for number, panel in enumerate(figure.panels))
    return (
        f'<section id="{name}"><h2>{escape(figure.name)}</h2><div class="panels">{panels}</div><dl>{cells}</dl>'
        f'<details><summary>The numbers</summary><p>{escape(about)}</p><div class="wide"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div></details></section>"
    )


class _Axis:
    """Where values land between two ends of a picture."""

    def __init__(
        self,
        values: Sequence[float],
        ends: tuple[float, float],
        *,
        log: bool,
        names: Sequence[str] = (),
        tight: bool = False,
    ) -> None:
        self._log, self._ends = log, ends
        found = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
        low, high = min(found), max(found)
        if names:
            self.ticks = [(float(place), text) for place, text in enumerate(names)]
            low, high = -0.3, len(names) - 0.7
        elif log:
            self.ticks = _powers(low, high)
            low, high = min(low, self.ticks[0][0]), max(high, self.ticks[-1][0])
        else:
            low = 0.0 if 0 < low < 0.6 * high else low
            self.ticks = _round_numbers(low, high, whole=all(value == round(value) for value in found))
            if tight:
                self.ticks = [tick for tick in self.ticks if tick[0] <= high * (1 + 1e-9)]
            low, high = min(low, self.ticks[0][0]), max(high, self.ticks[-1][0])
        self._low, self._high = self._of(low), self._of(high)

    def _of(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def at(self, value: float) -> float:
        share = (self._of(value) - self._low) / (self._high - self._low or 1.0)
        return round(self._ends[0] + share * (self._ends[1] - self._ends[0]), 1)

    def shows(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self._log)


def _round_numbers(low: float, high: float, *, whole: bool) -> list[tuple[float, str]]:
    span = high - low or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(span / 4))
    step = next(size * times for times in (1, 2, 2.5, 5, 10) if size * times >= span / 4 * (1 - 1e-9))
    step = max(1.0, round(step)) if whole and step < 10 else step
    first = math.floor(low / step + 1e-9)
    count = math.ceil((high - first * step) / step - 1e-9)
    return [(step * (first + n), f"{step * (first + n):,.10g}") for n in range(count + 1)]


def _powers(low: float, high: float) -> list[tuple[float, str]]:
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    every = max(1, -(-(last - first) // 5))
    times = (1, 2, 5) if last - first <= 2 else (1,)
    found = [10.0**power * n for power in range(first, last + 1, every) for n in times]
    inner = [value for value in found if low / 2.6 <= value <= high * 2.6] if len(times) > 1 else found
    return [(value, f"{value:,.10g}" if 1e-3 <= value < 1e5 else f"{value:.0e}") for value in inner or found]


def _panel(name: str, panel: Panel) -> str:
    xs = [x for line in panel.lines.values() for x, _ in line]
    ys = [y for line in panel.lines.values() for _, y in line] + [end for _, *ends in panel.band for end in ends]
    across = _Axis(xs, (LEFT, WIDTH - RIGHT), log="x" in panel.log, names=panel.names, tight=True)
    up = _Axis(ys, (HEIGHT - BOTTOM, TOP), log="y" in panel.log)
    drawn = []
    for value, text in up.ticks:
        y = up.at(value)
        drawn.append(f'<path class="rule" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>')
        drawn.append(f'<text x="{LEFT - 6}" y="{y + 5}" text-anchor="end">{text}</text>')
    for value, text in across.ticks:
        drawn.append(
            f'<text x="{across.at(value)}" y="{HEIGHT - BOTTOM + 22}" text-anchor="middle">{escape(text)}</text>'
        )
    if panel.band:
        kept = panel.band[:: max(1, len(panel.band) // MOST_POINTS)]
        edge = [(x, high) for x, _, high in kept] + [(x, low) for x, low, _ in reversed(kept)]
        path = "L".join(f"{across.at(x)} {up.at(y)}" for x, y in edge)
        drawn.append(f'<path class="band" style="fill: var(--c1)" d="M{path}Z"/>')
    keys = []
    for place, (title, line) in enumerate(panel.lines.items()):
        kept = [(x, y) for x, y in line[:: max(1, len(line) // MOST_POINTS)] if across.shows(x) and up.shows(y)]
        look = f'style="stroke: var(--c{place % COLORS})" stroke-dasharray="{DASHES[place % len(DASHES)]}"'
        if kept and panel.joined:
            path = "L".join(f"{across.at(x)} {up.at(y)}" for x, y in kept)
            drawn.append(f'<path {look} d="M{path}"/>')
        if len(kept) <= 12:
            spots = "".join(
                f'<circle cx="{across.at(x)}" cy="{up.at(y)}" r="3.5" style="fill: var(--c{place % COLORS})"/>'
                for x, y in kept
            )
            drawn.append(spots)
        mark = f'<path {look} d="M0 5H32"/>'
        if not panel.joined:
            mark = f'<circle cx="16" cy="5" r="4.5" style="fill: var(--c{place % COLORS})"/>'
        sign = f'<svg viewBox="0 0 32 10" aria-hidden="true">{mark}</svg>'
        keys.append(f"<li>{sign}{escape(title)}</li>")
    label = f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(panel.x)}</text>'
    beside = (HEIGHT - BOTTOM + TOP) / 2
    turned = f'<text transform="translate(16 {beside}) rotate(-90)" text-anchor="middle">{escape(panel.y)}</text>'
    picture = (
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-labelledby="{name}"><title id="{name}">'
        f"{escape(panel.title)}</title>{''.join(drawn)}{label}{turned}</svg>"
    )
    return (
        f'<figure><figcaption>{escape(panel.title)}</figcaption>{picture}<ul class="key">{"".join(keys)}</ul></figure>'
    )
