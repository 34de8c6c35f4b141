"""What total leakage may come to: one limit for steps, or several for windows of steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """Leakage about any `window` steps in a row is at most `nats`, for every pair of `limits` and every group."""

    limits: tuple[tuple[float, int], ...]

    @classmethod
    def of(cls, promised: float | Promise, horizon: int | None) -> Promise:
        """A promise about single steps from its nats; no window is longer than the horizon."""
        limits: Iterable[tuple[float, int]] = promised.limits if isinstance(promised, Promise) else [(promised, 1)]
        return cls(tuple((nats, min(window, horizon or window)) for nats, window in limits))

    @property
    def nats(self) -> float:
        """The smallest limit, which every single step keeps."""
        return min(nats for nats, _ in self.limits)

    def scaled(self, factor: float) -> Promise:
        """The same windows with less."""
        return Promise(tuple((nats * factor, window) for nats, window in self.limits))
