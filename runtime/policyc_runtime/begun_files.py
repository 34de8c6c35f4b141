"""Files of a long run that is under way: rows go there as steps are released, so that the run need not know them all.

They lie beside their places, where nobody reads them, and what a killed run left of them goes; the rows are then
written from the ledger, as those of any run.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from policyc_runtime.files import draft, followed
from policyc_runtime.output import header, rows, written
from policyc_runtime.output_place import unwritable

if TYPE_CHECKING:
    from policyc_runtime.published_values import Release


class BegunFiles:
    """Drafts of a run's files, as CSV; gone with this object, or where they were taken and not put in place.

    Args:
        outputs: the files, by name of the release.

    Attributes:
        steps: so many have their rows there.
    """

    def __init__(self, outputs: Mapping[str, Path]) -> None:
        self.steps = 0
        self._outputs = dict(outputs)
        self._drafts: dict[str, tuple[Path, ExitStack]] = {}

    def add(self, release: Release) -> None:
        """Write the rows of a release's steps that are not there yet.

        Raises:
            ReleaseError: E0826, they cannot be written.
        """
        for name, file in self._outputs.items():
            series = release.series[name]
            with written(file, is_release=release.is_release):
                if name not in self._drafts:
                    self._drafts[name] = self._begun(file)
                    self._drafts[name][0].write_text(header(release, series), encoding="utf-8")
                with self._drafts[name][0].open("a", encoding="utf-8", newline="") as handle:
                    handle.writelines(rows(release, series, range(self.steps, release.steps.stop)))
        self.steps = release.steps.stop

    def _begun(self, file: Path) -> tuple[Path, ExitStack]:
        drafts = ExitStack()
        new = drafts.enter_context(draft(followed(file)))
        weakref.finalize(self, drafts.close)
        return new, drafts

    @contextmanager
    def taken(self, name: str, file: Path) -> Iterator[Path]:
        """The draft of a file, by name of its release; once, as it is gone at the end of the block.

        Raises:
            ReleaseError: E0826, it was taken, or begun for another place.
        """
        if name not in self._drafts or self._outputs[name] != file:
            remedy = "run again: the steps are in the ledger, and are written from it"
            raise unwritable(file, "the run wrote its rows to another file, or they were put in place", remedy)
        new, drafts = self._drafts.pop(name)
        with drafts:
            yield new
