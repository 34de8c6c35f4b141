"""What a run refuses, beside what the check does."""

from __future__ import annotations

from policyc_check.errors import KernelError


class DataError(KernelError):
    """Events or counts that do not fit the plan."""


class LedgerError(KernelError):
    """A ledger that is missing, altered, truncated, busy, or of another plan."""


class ReleaseError(KernelError):
    """Released values that cannot be made, or that do not match the ledger."""


class AccountError(KernelError):
    """An account of a data set that is missing, altered, busy, or has not so much left."""
