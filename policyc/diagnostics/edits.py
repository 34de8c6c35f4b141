"""Edits of findings, made: the text with all of them, from the first to the last."""

from __future__ import annotations

from collections.abc import Iterable

from policyc.diagnostics.diagnostic import Diagnostic, Edit


def edits_of(findings: Iterable[Diagnostic]) -> list[tuple[Diagnostic, Edit]]:
    """The findings that carry an edit, in the order of the text; of edits that overlap the first."""
    carried = [(finding, finding.edit) for finding in findings if finding.edit is not None]
    apart: list[tuple[Diagnostic, Edit]] = []
    for finding, edit in sorted(carried, key=lambda pair: pair[1].span):
        if not apart or edit.span.start > apart[-1][1].span.end:
            apart.append((finding, edit))
    return apart


def edited(text: str, edits: Iterable[Edit]) -> str:
    """A text with edits that do not overlap."""
    for edit in sorted(edits, key=lambda one: one.span, reverse=True):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text
