"""What the check refuses: one exception a kind, each with a code, a reason and a remedy.

No message may contain raw data, noise, seeds or keys: a place (file, row, column, step) is named instead.
"""

from __future__ import annotations


class KernelError(Exception):
    """A refusal of the kernel, ready to be shown: what is wrong, in which place, what follows for privacy, what to do.

    `code` is `E08` and two digits, and has a page; `message` is one line, lower-case, no full stop, no Python names.
    """

    def __init__(
        self, code: str, message: str, *, where: str | None = None, because: str | None = None, help: str | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.where, self.because, self.help = where, because, help
        for mark, text in (("--> ", where), ("= because: ", because), ("= help: ", help)):  # told in a traceback, too
            if text:
                self.add_note(f"  {mark}{text}")


class PlanFormatError(KernelError):
    """A plan file that cannot be read: missing, truncated, of another version, with unknown fields."""


class PlanRejectedError(KernelError):
    """A plan whose claims do not hold, or that was altered after it was compiled."""


class InvalidMatrixError(KernelError, ValueError):
    """A transition matrix that is not row-stochastic, or not square."""
