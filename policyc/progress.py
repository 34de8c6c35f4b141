"""Long work shows how far it is, on standard error, when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def shown_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error when it is a terminal, else nothing; told (done, total).

    It says how long the rest will take; where nobody knows how much there is to do, as in a search, how long it took
    so far.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with _bar() as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Time(ProgressColumn):
        """The time that is left, or that has passed."""

        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text(_clock(task.elapsed))
            return Text(f"{task.percentage:.0f} %, {_clock(task.time_remaining)} left")

    columns = (TextColumn("{task.description}"), BarColumn(), Time())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _clock(seconds: float | None) -> str:
    """Minutes and seconds."""
    return "-:--" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02}"
