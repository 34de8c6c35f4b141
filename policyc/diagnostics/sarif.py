"""Findings as SARIF 2.1.0, the format code-review tools read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from policyc.diagnostics.diagnostic import Diagnostic
from policyc.diagnostics.json_output import position
from policyc.diagnostics.pages import page_title, read_page
from policyc.diagnostics.source import Source, Span

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render_sarif(results: Iterable[tuple[Source, Iterable[Diagnostic]]], version: str, pages: str | None = None) -> str:
    """One run over several policies.

    Args:
        results: each policy with its findings.
        version: the compiler's version.
        pages: where the pages of the findings are shown, `{code}` standing for a code; each rule then links to its own.

    Returns:
        A SARIF 2.1.0 log; the rules are the pages of the codes that were found.
    """
    found = [(source, diagnostic) for source, diagnostics in results for diagnostic in diagnostics]
    codes = sorted({diagnostic.code for _, diagnostic in found})
    driver = {"name": "policyc", "version": version, "rules": [_rule(code, pages) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(source, diagnostic, codes.index(diagnostic.code)) for source, diagnostic in found],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str, pages: str | None) -> dict[str, Any]:
    page = read_page(code)
    link = {} if pages is None else {"helpUri": pages.replace("{code}", code)}
    return {
        "id": code,
        "shortDescription": {"text": page_title(code)},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": "warning" if code.startswith("W") else "error"},
        **link,
    }


def _result(source: Source, diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    remarks = (("because", diagnostic.because), ("help", diagnostic.help))
    message = "\n".join([diagnostic.message, *(f"{word}: {text}" for word, text in remarks if text)])
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": diagnostic.severity.value,
        "message": {"text": message},
        "locations": [_location(source, diagnostic.span)],
    }
    if diagnostic.labels:
        result["relatedLocations"] = [
            {"id": i, **_location(source, label.span), "message": {"text": label.text}}
            for i, label in enumerate(diagnostic.labels)
        ]
    if diagnostic.edit is not None:
        replacement = {
            "deletedRegion": _region(source, diagnostic.edit.span),
            "insertedContent": {"text": diagnostic.edit.replacement},
        }
        change = {"artifactLocation": {"uri": quote(source.name)}, "replacements": [replacement]}
        result["fixes"] = [{"description": {"text": diagnostic.help or ""}, "artifactChanges": [change]}]
    return result


def _location(source: Source, span: Span) -> dict[str, Any]:
    region = _region(source, span)
    return {"physicalLocation": {"artifactLocation": {"uri": quote(source.name)}, "region": region}}


def _region(source: Source, span: Span) -> dict[str, int]:
    place = position(span, source)
    return {
        "startLine": place["line"],
        "startColumn": place["column"],
        "endLine": place["end_line"],
        "endColumn": place["end_column"],
    }
