"""Findings as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from policyc.diagnostics.diagnostic import Diagnostic
from policyc.diagnostics.source import Source, Span


def render_json(diagnostics: Iterable[Diagnostic], source: Source) -> str:
    """A JSON list with one object a finding."""
    return json.dumps(json_records(diagnostics, source), indent=2, ensure_ascii=False) + "\n"


def json_records(diagnostics: Iterable[Diagnostic], source: Source) -> list[dict[str, Any]]:
    """The objects that `render_json` writes; lines and columns start at 1, ends are exclusive."""
    return [
        {
            "code": diagnostic.code,
            "severity": diagnostic.severity.value,
            "message": diagnostic.message,
            "file": source.name,
            **position(diagnostic.span, source),
            "note": diagnostic.note,
            "because": diagnostic.because,
            "help": diagnostic.help,
            "edit": None
            if diagnostic.edit is None
            else {"replacement": diagnostic.edit.replacement, **position(diagnostic.edit.span, source)},
            "labels": [{"message": label.text, **position(label.span, source)} for label in diagnostic.labels],
        }
        for diagnostic in diagnostics
    ]


def position(span: Span, source: Source) -> dict[str, int]:
    """A span as lines and columns."""
    line, column = source.line_and_column(span.start)
    end_line, end_column = source.line_and_column(max(span.start, span.end))
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}
