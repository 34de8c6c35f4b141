"""Findings as text for people: the source line, the place underlined, the reason, the remedy."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from policyc.diagnostics.diagnostic import Diagnostic, Severity
from policyc.diagnostics.source import Source, Span

if TYPE_CHECKING:  # the kernel's package is not needed to show an error
    from policyc_check.errors import KernelError

MAX_WIDTH = 140
TAB = "    "
HIDDEN = re.compile(
    "[^\\S ]|[\x00-\x1f\x7f-\xa0\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)
COLORS = {"error": "1;31", "warning": "1;33", "place": "1;34", "bold": "1"}


def wants_color() -> bool:
    """Whether standard error shows colors: it is a terminal, and nobody asked for none (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def render_text(diagnostics: Iterable[Diagnostic], source: Source, color: bool = False) -> str:
    """All findings about one policy, in the order given, and a last line that counts them.

    Args:
        diagnostics: findings of one source.
        source: the text their spans point into.
        color: whether to write the colors of a terminal.

    Returns:
        The text, ending with a newline; empty without findings.
    """
    found = list(diagnostics)
    if not found:
        return ""
    paint = _painter(color)
    blocks = [_block(diagnostic, source, paint) for diagnostic in found]
    return "\n\n".join([*blocks, count_findings(found)]) + "\n"


def count_findings(diagnostics: Iterable[Diagnostic]) -> str:
    """`2 errors, 1 warning`; `no findings` when there are none."""
    severities = [diagnostic.severity for diagnostic in diagnostics]
    counts = [(severities.count(severity), severity.value) for severity in Severity]
    return ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts if n) or "no findings"


def render_kernel_error(error: KernelError, color: bool = False) -> str:
    """A refusal of the kernel, in the shape of a finding, with its place in words."""
    paint = _painter(color)
    lines = [_headline("error", error.code, visible(error.message), paint)]
    if error.where:
        lines.append(f"  {paint('-->', 'place')} {visible(error.where)}")
    lines += _remarks(visible(error.because or ""), visible(error.help or ""), "  ", paint)
    return "\n".join(lines) + "\n"


def visible(text: str) -> str:
    """Text on one line: what a terminal would obey, or could not show, is written as an escape."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


class _painter:  # noqa: N801  used like a function
    """Writes the colors of a terminal, or nothing."""

    def __init__(self, color: bool) -> None:
        self.color = color

    def __call__(self, text: str, name: str) -> str:
        return f"\x1b[{COLORS[name]}m{text}\x1b[0m" if self.color else text


def _headline(severity: str, code: str, message: str, paint: _painter) -> str:
    return paint(f"{severity}[{code}]", severity) + paint(f": {message}", "bold")


def _remarks(because: str | None, remedy: str | None, margin: str, paint: _painter) -> list[str]:
    mark = paint("=", "place")
    return [f"{margin} {mark} {word}: {text}" for word, text in (("because", because), ("help", remedy)) if text]


def _block(diagnostic: Diagnostic, source: Source, paint: _painter) -> str:
    """One finding."""
    lines = [_headline(diagnostic.severity.value, diagnostic.code, diagnostic.message, paint)]
    if not source.text:  # the file could not be read, or is empty: there is no line to show
        lines.append(f"  {paint('-->', 'place')} {source.name}")
        return "\n".join(lines + _remarks(diagnostic.because, diagnostic.help, "  ", paint))
    line, column = source.line_and_column(diagnostic.span.start)
    marks = [(line, 0, diagnostic.span, "^", diagnostic.note)]
    marks += [
        (source.line_and_column(label.span.start)[0], 1, label.span, "-", label.text) for label in diagnostic.labels
    ]
    margin = " " * len(str(max(mark[0] for mark in marks)))
    lines.append(f"{margin}{paint('-->', 'place')} {source.name}:{line}:{column}")
    shown = 0
    # the finding itself first, then what explains it from top to bottom; what shares its line stays with it
    for number, _, span, sign, note in sorted(
        marks, key=lambda mark: (mark[0] != line, mark[0], mark[1], mark[2].start)
    ):
        text, underline = _underlined(source, span, number, sign, note)
        if number != shown:
            lines.append(f"{paint(str(number).rjust(len(margin)) + ' |', 'place')} {text}".rstrip())
            shown = number
        style = diagnostic.severity.value if sign == "^" else "place"
        indent = len(underline) - len(underline.lstrip(" "))
        lines.append(f"{margin} {paint('|', 'place')} {underline[:indent]}{paint(underline[indent:], style)}")
    return "\n".join(lines + _remarks(diagnostic.because, diagnostic.help, margin, paint))


def _underlined(source: Source, span: Span, line: int, sign: str, note: str | None) -> tuple[str, str]:
    """A line of the source as shown, and what stands under it. A span over several lines is shown by its first."""
    text = source.line_text(line)
    start = min(source.line_and_column(span.start)[1] - 1, len(text))
    end = min(start + span.end - span.start, len(text))
    before, marked, after = (_visible(part) for part in (text[:start], text[start:end], text[end:]))
    if _width(before + marked + after) > MAX_WIDTH:
        before = before if len(before) <= MAX_WIDTH // 3 else "…" + before[-MAX_WIDTH // 3 :]
        marked = marked if len(marked) <= MAX_WIDTH // 3 else marked[: MAX_WIDTH // 3] + "…"
        after = after if len(after) <= MAX_WIDTH // 3 else after[: MAX_WIDTH // 3] + "…"
    carets = sign * max(1, _width(marked))
    return before + marked + after, " " * _width(before) + carets + (f" {note}" if note else "")


def _visible(text: str) -> str:
    """Text as it can be shown: tabs of one width, nothing that moves the cursor or turns the line around."""
    return HIDDEN.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    return TAB if match.group() == "\t" else "�"


def _width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
