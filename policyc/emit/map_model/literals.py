"""Values of a plan as Python that a person reads."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LINE_LENGTH = 120


def literal(text: str | None) -> str:
    """A Python literal with double quotes."""
    return "None" if text is None else json.dumps(text, ensure_ascii=False)


def comment(text: str) -> str:
    """Policy text that can stand in a comment or a docstring."""
    return " ".join(text.split()).replace("\\", "/").replace('"""', "'''")


def number(value: Decimal) -> str:
    """A Python number: whole where it is."""
    return str(int(value)) if value == value.to_integral_value() else repr(float(value))


def listed(name: str, items: Sequence[str]) -> list[str]:
    """`name = [...]` on one line, or over as many as it takes."""
    return sequence(items, f"{name} = ", "")


def sequence(items: Sequence[str], before: str, after: str) -> list[str]:
    """A list literal on one line, or on lines that are filled where that is too long."""
    line = f"{before}[{', '.join(items)}]{after}"
    if len(line) <= LINE_LENGTH:
        return [line]
    indent = " " * (len(before) - len(before.lstrip()))
    lines, now = [f"{before}["], ""
    for item in items:
        if now and len(indent) + 4 + len(now) + len(item) + 2 > LINE_LENGTH:
            lines.append(f"{indent}    {now}")
            now = ""
        now += f"{' ' if now else ''}{item},"
    return [*lines, f"{indent}    {now}", f"{indent}]{after}"]
