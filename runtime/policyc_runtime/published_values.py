"""What a run published: values by release, step and cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from policyc_runtime.begun_files import BegunFiles
    from policyc_runtime.ledger_checkpoint import Checkpoint, FoundFile
    from policyc_runtime.released_table import ReleasedTable

NOT_A_RELEASE = "NOT A RELEASE"


@dataclass(frozen=True)
class Series:
    """The values of one release.

    Args:
        name: the release's name.
        column: the cell column, None for one number a step.
        cells: names of the cells, in order.
        noisy: (steps, cells) as drawn, whole numbers wherever the release has no others; 0 where nothing was.
        released: (steps, cells) published values; whole numbers where the policy says so. Both are masked arrays where
            the plan leaves values out, with 0 under the mask: these fields of a file are empty.
        processes: by step, what the estimator took users to move like, as the noisy values speak for it; empty texts
            where it does not ask them.
        skipped: (steps,) whether nothing was drawn at a step; the field `noisy` of a file is empty there.
    """

    name: str
    column: str | None
    cells: tuple[str, ...]
    noisy: NDArray[np.int64] | NDArray[np.float64]
    released: NDArray[np.int64] | NDArray[np.float64]
    skipped: NDArray[np.bool_]
    processes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MadeSeries:
    """The rows of what is made of released values; it has no noise of its own.

    Args:
        name: the release's name.
        column: the cell column, None for one number a row.
        cells: names of the cells, in order.
        released: (rows, cells), masked where a field of a file is empty.
        steps: of how many steps a row is.
        first: at which step the first one begins.
    """

    name: str
    column: str | None
    cells: tuple[str, ...]
    released: np.ma.MaskedArray[Any, Any]
    steps: int
    first: int

    def rows(self, steps: int) -> int:
        """How many rows there are of so many steps."""
        return max(steps - self.first, 0) // self.steps

    @property
    def begins(self) -> range:
        """At which step each row begins."""
        return range(self.first, self.first + self.steps * len(self.released), self.steps)


@dataclass(frozen=True)
class Earlier:
    """What lies in the files of an earlier run, which this one adds to.

    Args:
        steps: how many steps they hold.
        begins: the moment of step 0, ISO; an empty text when nobody said.
        files: as they were found, by name of the release.
    """

    steps: int
    begins: str
    files: dict[str, FoundFile]


@dataclass(frozen=True)
class Release:
    """What a run published: steps 0, 1, ... of every release of a plan, or the last of them.

    Args:
        series: by release name, in the plan's order.
        made: the same of what is made of released values.
        times: the moment each of these steps begins, ISO; empty texts when nobody said.
        is_release: False when the noise, or the events, came from a seed: such values protect nobody.
        before: how many of the steps were not released by this run, but before it, or by another at the same time.
        entries: how many the ledger had when this was read from it.
        head: the hash of the last of them.
        first: the first step that is here; 0 but where a caller asked for new steps only.
        earlier: where those before it lie, and when the first of them began; None where all are here.
        begun: the files that a long run wrote rows to while it was under way; None where it did not.
        ledger: the file of the ledger that this was read from; None where there is none.
        left: what to note beside it once all this is written; None for nothing.
    """

    series: dict[str, Series]
    times: tuple[str, ...]
    is_release: bool
    before: int = 0
    made: dict[str, MadeSeries] = field(default_factory=dict)
    entries: int = 0
    head: str = ""
    first: int = 0
    earlier: Earlier | None = None
    begun: BegunFiles | None = field(default=None, repr=False)
    ledger: Path | None = field(default=None, repr=False)
    left: Checkpoint | None = field(default=None, repr=False)

    @property
    def files(self) -> dict[str, Series | MadeSeries]:
        """Everything that has a file of its own, by name."""
        return {**self.series, **self.made}

    def table(self, name: str | None = None) -> ReleasedTable:
        """One release, by default the only one, as a table that any data frame library takes (Arrow).

        Raises:
            ValueError: there are several and none is named, or none of that name.
        """
        from policyc_runtime.released_table import ReleasedTable  # it writes what this module describes

        return ReleasedTable(self, name)

    @property
    def steps(self) -> range:
        """The released steps that are here."""
        return range(self.first, self.first + len(self.times))

    @property
    def begins(self) -> str:
        """The moment of step 0, ISO; an empty text when nobody said."""
        return self.times[0] if self.earlier is None else self.earlier.begins

    @property
    def name(self) -> str:
        """The name of the only release."""
        return self._only.name

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the only release."""
        return self._only.cells

    @property
    def noisy(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """(steps, cells) noisy values of the only release."""
        return self._only.noisy

    @property
    def released(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """(steps, cells) published values of the only release."""
        return self._only.released

    @property
    def _only(self) -> Series:
        if len(self.series) > 1:
            raise unnamed(self.files)
        (series,) = self.series.values()
        return series


def unnamed(files: Iterable[str]) -> ValueError:
    """The refusal to choose among several releases."""
    names = list(files)
    return ValueError(f'say which release, as in `.table("{names[0]}")` or `.files["{names[0]}"]`: {", ".join(names)}')
