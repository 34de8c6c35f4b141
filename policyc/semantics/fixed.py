"""A policy with every edit that its findings carry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from policyc.diagnostics import Diagnostic, Edit, Source
from policyc.diagnostics.edits import edited, edits_of
from policyc.semantics.checked import findings_in

MOST_ROUNDS = 20  # what stands behind a fault is read once that is put right


@dataclass(frozen=True)
class Change:
    """One edit that was made: of which finding, and of which text."""

    source: Source
    finding: Diagnostic
    edit: Edit

    def __str__(self) -> str:
        """`traffic.policy:3: E0106: `targt` is now `target`."""
        line, _ = self.source.line_and_column(self.edit.span.start)
        old, new = self.source.text[self.edit.span.start : self.edit.span.end], self.edit.replacement
        what = f"`{old}` is now `{new}`" if old.strip() and new else f"`{new}` added" if new else f"`{old}` left out"
        return f"{self.source.name}:{line}: {self.finding.code}: {what}"


def fix_source(source: Source, directory: Path) -> tuple[Source, list[Change]]:
    """The text with every edit of its findings, and of those that show once these are made.

    Args:
        source: a policy.
        directory: its folder; files are looked up in it.

    Returns:
        The text, in which no finding carries an edit, and what was changed, in the order in which it was. The text as
        it was where edits would not come to an end.
    """
    fixed, changes = source, list[Change]()
    for _ in range(MOST_ROUNDS):
        edits = edits_of(findings_in(fixed, directory))
        if not edits:
            return fixed, changes
        changes += [Change(fixed, finding, edit) for finding, edit in edits]
        fixed = Source(source.name, edited(fixed.text, [edit for _, edit in edits]))
    return source, []
