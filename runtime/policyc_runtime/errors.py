"""What a run refuses, beside what the check does."""

from __future__ import annotations

from policyc_check.errors import KernelError


class RunError(KernelError):
    """A refusal that says its place, its reason and its remedy in a traceback, too."""

    def __init__(self, code: str, message: str, **told: str | None) -> None:
        super().__init__(code, message, **told)
        for mark, text in (("--> ", self.where), ("= because: ", self.because), ("= help: ", self.help)):
            if text:
                self.add_note(f"  {mark}{text}")


class DataError(RunError):
    """Events or counts that do not fit the plan."""


class LedgerError(RunError):
    """A ledger that is missing, altered, truncated, busy, or of another plan."""


class ReleaseError(RunError):
    """Released values that cannot be made, or that do not match the ledger."""


class AccountError(RunError):
    """An account of a data set that is missing, altered, busy, or has not so much left."""
