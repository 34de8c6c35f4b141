"""One finding, and the error that carries several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from policyc.diagnostics.source import Source, Span


class Severity(StrEnum):
    """An error stops the compilation; a warning is recorded in the plan."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Label:
    """A second place that explains a finding."""

    span: Span
    text: str


@dataclass(frozen=True)
class Edit:
    """What puts a finding right where one thing alone can be meant: what stands at `span` gives way to `replacement`.

    It spells a word, writes a sign, or writes the same number as this language does. It never decides: not between two
    readings, and not what is promised.
    """

    span: Span
    replacement: str


@dataclass(frozen=True)
class Diagnostic:
    """One finding about a policy.

    Args:
        code: `E0401` or `W0302`; it has a page in `pages/`.
        message: one line, lower-case start, no full stop, no Python names; input in backticks.
        span: where; underlined in the source.
        note: what the underlined place is, in a few words (shown after the carets).
        because: what the consequence for privacy would be.
        help: what to write instead.
        labels: further places that explain it.
        edit: what puts it right, where that is mechanical.
    """

    code: str
    message: str
    span: Span
    note: str | None = None
    because: str | None = None
    help: str | None = None
    labels: tuple[Label, ...] = field(default=())
    edit: Edit | None = None

    @property
    def severity(self) -> Severity:
        """Error or warning, read off the code's first letter."""
        return Severity.WARNING if self.code.startswith("W") else Severity.ERROR


class PolicyError(Exception):
    """A policy with at least one error; carries every finding of the pass that stopped, in source order.

    Args:
        source: the policy's text.
        diagnostics: all findings, warnings included.
    """

    def __init__(self, source: Source, diagnostics: Iterable[Diagnostic]) -> None:
        self.source = source
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: (d.span.start, d.span.end, d.code)))
        errors = [d for d in self.diagnostics if d.severity is Severity.ERROR]
        first = errors[0] if errors else self.diagnostics[0]
        line, column = source.line_and_column(first.span.start)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{source.name}:{line}:{column}: {first.code}: {first.message}{more}")
        for name, said in (("because", first.because), ("help", first.help)):
            if said:
                self.add_note(f"  = {name}: {said}")
