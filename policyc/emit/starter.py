"""A policy to start from: compiles as it stands, with a comment at every place that needs a decision."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from policyc.diagnostics import Source
from policyc.semantics.rules.cells import UNWRITTEN_CELLS
from policyc.semantics.rules.correlation import UNWRITTEN_EVIDENCE
from policyc.syntax import format_policy, parse_policy
from policyc_check.errors import KernelError
from policyc_runtime.files import write_text

if TYPE_CHECKING:
    from policyc.emit.event_columns import Span

Promise = Literal["alpha_dpt", "event_level", "w_event", "user_level"]

HIDDEN: dict[Promise, str] = {
    "alpha_dpt": "where one user was at one time, even from who knows how users move",
    "event_level": "one event of one user, where events tell nothing of each other",
    "w_event": "whatever one user does within a day or any other window of steps",
    "user_level": "everything that one user ever does",
}

PROMISES: dict[Promise, str] = {
    "alpha_dpt": """\
# The promise: nobody learns more than alpha nats about where one user was at one time, even knowing how users move.
target alpha_dpt(alpha = 1.0)
""",
    "event_level": """\
# The promise: nobody learns more than epsilon nats about one event of one user. It covers no more than that: where one
# event can be guessed from others, promise `alpha_dpt`; where all that a user does is to be hidden, `user_level`.
target event_level(epsilon = 1.0)
""",
    "w_event": """\
# The promise: nobody learns more than epsilon nats about all that one user does in any window of so many steps.
target w_event(epsilon = 1.0, window = WINDOW)
""",
    "user_level": """\
# The promise: at this delta nobody learns more than epsilon nats about all that one user ever does, not even whether
# the user is there. With `per = 1d` here and below it is about each day by itself, with less noise.
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)

# In how many steps one user counts: here in all of them. With fewer there is less noise, and later events are dropped.
# `policyc explore` shows the errors.
participation at_most(HORIZON, enforced = keep_first)
""",
}
LONGEST = 1000  # steps; a longer span of times has longer steps
DAY = 86_400_000_000
STEPS = {"1h": DAY // 24, "1d": DAY, "1w": 7 * DAY}


@dataclass(frozen=True)
class Starter:
    """What a policy to start from says of the events.

    Args:
        promise: which.
        user: the column with whose event it is.
        time: the column with its moment.
        cell: the column with where it was; None for one number a step, which `alpha_dpt` cannot be about.
        cells: the values of that column; empty where they are still to be written.
        span: of the times, and the file that says it; None for a week of hours.
    """

    promise: Promise = "alpha_dpt"
    user: str = "user_id"
    time: str = "seen_at"
    cell: str | None = "place"
    cells: Sequence[str] = ("north", "south")
    span: Span | None = None

    def text(self, name: str) -> str:
        """The policy, in canonical form."""
        step, horizon, day = self._times()
        window = "24 steps" if step == "1h" else "7 steps" if step == "1d" else "4 steps"
        promise = PROMISES[self.promise].replace("HORIZON", horizon).replace("WINDOW", window)
        by, otherwise = "", self.promise != "user_level"
        place = ['  # cell  COLUMN in {"A", "B"}  # to count by a column: name its cells here, and `by COLUMN` below']
        if self.cell is not None:
            cells = ", ".join(map(_quoted, self.cells or UNWRITTEN_CELLS))
            unwritten = (
                [] if self.cells else ["  # its cells are public knowledge, never read from the data: write them"]
            )
            place = [*unwritten, f"  cell {_column(self.cell)} in {{{cells}}}" + (' otherwise "elsewhere"' * otherwise)]
            by = f" by {_column(self.cell)}"
        public = self.cell is not None and otherwise
        start = [f'  start "{day}"  # the moment of step 0']
        if self.span is not None:
            start[:0] = [
                f"  # Horizon and start lie around the times of {_shown(self.span.file)}, and both are published:",
                "  # write those that you would announce without a look at the data.",
            ]
        lines = [
            "# Say in one line what is published, for the person who signs.",
            f'policy {name} "Users{"" if self.cell is None else " per place"}, {EVERY[step]}"',
            "",
            "stream events {",
            f"  user {_column(self.user)}  # the column that says whose privacy this is about",
            f"  time {_column(self.time)}  # when",
            *place,
            f"  step {step}  # units: ms s min h d w",
            f"  horizon {horizon}  # or: horizon unbounded",
            *(["  population 1_000  # how many users there are; published unprotected"] if public else []),
            *start,
            "}",
            "",
            f"release present = count(events){by}",
            "",
            promise,
            *([self._correlation()] if self.promise == "alpha_dpt" else []),
            "deliver offline  # or: realtime, within(12 steps)",
            "objective mean_squared_error  # or: mean_absolute_error",
            "",
            f"postprocess present {{ {'sum(present) == population, ' if public else ''}present >= 0, "
            "integer(present), }",
        ]
        return format_policy(parse_policy(Source(f"{name}.policy", "\n".join(lines) + "\n")))

    def _times(self) -> tuple[str, str, str]:
        """Step, horizon and start: of what a file spans, in whole days, or in whole months where it is longer."""
        if self.span is None:
            return "1h", "168 steps", "2026-01-01"
        length = self.span.end - self.span.start
        step = next((step for step, long in STEPS.items() if length <= LONGEST * long), "1w")
        return step, f"{-(-length // STEPS[step])} steps", self.span.first_day

    def _correlation(self) -> str:
        """A chain that stays nine times in ten, whatever the cells."""
        states = len(self.cells or UNWRITTEN_CELLS) + 1
        digits = len(str(states)) + 1
        move = round(0.1 / (states - 1), digits) or 10**-digits
        stay = 1 - move * (states - 1)
        rows = (
            "[" + ", ".join(f"{stay if i == j else move:.{digits}f}" for j in range(states)) + "]"
            for i in range(states)
        )
        named = ", ".join([*(self.cells or UNWRITTEN_CELLS), "elsewhere"])
        return f"""\
# How ONE user moves from step to step: row = where now, column = where next ({named if states <= 5 else "as above"}).
# It must come from public knowledge, never from the data that is protected.
correlation markov(forward = [{", ".join(rows)}], initial = stationary, evidence = "{UNWRITTEN_EVIDENCE}")
"""


EVERY = {"1h": "hourly", "1d": "daily", "1w": "weekly"}


def write_starter(name: str, starter: Starter | None = None, directory: Path | None = None) -> Path:
    """Write `NAME.policy` into a directory (the current one by default).

    Raises:
        KernelError: E0808, the name is no name, or the file exists.
        OSError: the system refused; nothing is left behind.
    """
    path = starter_path(name, directory)
    try:
        write_text(path, (starter or Starter()).text(path.stem), first=True)
    except FileExistsError:
        raise _exists(path) from None
    return path


def starter_path(name: str, directory: Path | None = None) -> Path:
    """Where the policy of a name would be written.

    Raises:
        KernelError: E0808, the name is no name, or the file exists.
    """
    stem = name.removesuffix(".policy")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", stem):
        raise KernelError(
            "E0808", "a policy's name is one word of letters, digits and underscores", help="for example: traffic"
        )
    path = (directory or Path()) / f"{stem}.policy"
    if path.exists():
        raise _exists(path)
    return path


def _exists(path: Path) -> KernelError:
    return KernelError("E0808", f"`{path}` exists already", because="it would be lost", help="choose another name")


def _column(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else _quoted(name)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _shown(file: Path) -> str:
    return file.name if file.name.isprintable() else "the file"
