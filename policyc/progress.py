"""Long work shows how far it is, on standard error, when that is a terminal.

Work of several stages, as planning is, says of each by name how much of it is done, and how long its rest takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

Item = TypeVar("Item")
Told = Callable[[int, int], None]


@dataclass
class _Work:
    """What is shown: its name, and it and its stages, of which the last one is seen."""

    label: str
    progress: Progress
    tasks: list[TaskID]

    def see_last(self) -> None:
        """Show the last stage alone."""
        for task in self.tasks:
            self.progress.update(task, visible=task == self.tasks[-1])


_shown: ContextVar[_Work | None] = ContextVar("shown", default=None)
_hidden: ContextVar[bool] = ContextVar("hidden", default=False)


def hide_progress() -> None:
    """Show none of what this process does, which works for another one."""
    _shown.set(None)
    _hidden.set(True)


@contextmanager
def shown_progress(label: str) -> Iterator[Told]:
    """A progress bar on standard error when it is a terminal, else nothing; told (done, total).

    It says how long the rest will take; where nobody knows how much there is to do, as in a search, how long it took
    so far.
    """
    if _hidden.get() or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with _bar() as progress:
        task = progress.add_task(label, total=None, stage=False)
        before = _shown.set(_Work(label, progress, [task]))
        try:
            yield lambda done, total: progress.update(task, completed=done, total=total)
        finally:
            _shown.reset(before)


@contextmanager
def shown_stage(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A stage of the work that is shown, if any is: in its place until the stage ends; told how much is done.

    Args:
        name: what is counted, such as `schedules`.
        total: how many there are, at most.
    """
    if (work := _shown.get()) is None:
        yield lambda _done: None
        return
    task = work.progress.add_task(f"{work.label}: {name}", total=total, stage=True)
    work.tasks.append(task)
    work.see_last()
    try:
        yield lambda done: work.progress.update(task, completed=done)
    finally:
        work.tasks.remove(task)
        work.progress.remove_task(task)
        work.see_last()


def counted(name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
    """The items, as a stage of the work; an item is done when the next one is asked for."""
    with shown_stage(name, total) as done:
        for number, item in enumerate(items):
            done(number)
            yield item


def time_left(done: float, total: float, elapsed: float) -> float | None:
    """Seconds that the rest takes at the pace so far, which falls while one thing takes long; None of nothing done."""
    return elapsed * (total - done) / done if done > 0 else None


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class Time(ProgressColumn):
        """The time that is left, or that has passed."""

        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text(_clock(task.elapsed))
            left = time_left(task.completed, task.total, task.elapsed or 0.0)
            if not task.fields["stage"]:
                return Text(f"{task.percentage:.0f} %, {_clock(max(task.time_remaining or 0.0, left or 0.0))} left")
            done = f"{task.completed:.0f} of {task.total:.0f}"
            return Text(f"{done}, {_clock(task.elapsed)}" if left is None else f"{done}, {_clock(left)} left of these")

    columns = (TextColumn("{task.description}"), BarColumn(), Time())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _clock(seconds: float | None) -> str:
    """Minutes and seconds."""
    return "-:--" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02}"
