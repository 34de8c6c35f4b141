"""What a bound drops: in words, or as a share where a public statistic says in how many steps users are."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from policyc.emit.numbers import about
from policyc.exploration.axes import Axis
from policyc.exploration.points import Exploration, Setting
from policyc.quantification.files import Foreign
from policyc.semantics.policy import Policy

CODE = "E0900"
REMEDY = "write a first line `steps,users`, and below it in how many steps so many users are: `3,1200`"


@dataclass(frozen=True)
class TakenPart:
    """In how many steps (of the stream, or of a period) users take part, as a public statistic says.

    Args:
        source: the file's name.
        users: how many there are, or what part of all, by their number of steps.
    """

    source: str
    users: dict[int, Decimal]

    def dropped(self, bound: int) -> str:
        """Which part of all steps of all users lies beyond a bound, in percent."""
        whole = sum(steps * users for steps, users in self.users.items())
        beyond = sum(max(0, steps - bound) * users for steps, users in self.users.items())
        return f"{about(float(100 * beyond / whole))} %"


def read_taken_part(path: Path) -> TakenPart:
    """The statistic of a CSV file with columns `steps` and `users`.

    Raises:
        ForeignFileError: E0900, it is no such file.
    """
    foreign = Foreign(path, CODE, REMEDY)
    rows = foreign.rows()
    _, head = next(rows)
    if head != ["steps", "users"]:
        raise foreign.refused("the first line does not name the columns `steps` and `users`", "line 1")
    users: dict[int, Decimal] = {}
    for line, row in rows:
        place = f"line {line}"
        if len(row) != 2:
            raise foreign.refused("a row does not have two numbers", place)
        steps, number = (foreign.number(text, place) for text in row)
        if steps != int(steps) or steps < 1 or number < 0:
            raise foreign.refused("steps are whole numbers from 1, and users no less than 0", place)
        if int(steps) in users:
            raise foreign.refused(f"{int(steps):,} steps stand there twice", place)
        users[int(steps)] = number
    if not any(users.values()):
        raise foreign.refused("it says of no user in how many steps that is")
    return TakenPart(path.name, users)


def bound_axis(found: Exploration) -> Axis | None:
    """The axis of the bound, where it is altered."""
    return next((axis for axis in found.axes if axis.kind == "bound"), None)


def dropped_share(found: Exploration, setting: Setting, statistic: TakenPart | None) -> str | None:
    """What a setting drops, where it is known: the statistic is of the declared steps and periods."""
    if statistic is None or found.policy.participation is None or found.policy.participation.enforced is None:
        return None
    bound = found.policy.participation.steps
    for axis, at in zip(found.axes, setting, strict=True):
        if axis.kind in {"step", "period"} and at != axis.declared:
            return None
        if axis.kind == "bound":
            bound = int(axis.values[at] or 0)
    return statistic.dropped(bound)


def dropping_words(policy: Policy, statistic: TakenPart | None) -> str | None:
    """What is lost by a smaller bound, of a policy that has one."""
    bound = policy.participation
    if bound is None:
        return None
    if bound.assumed is not None:
        return (
            "The bound is assumed: a smaller one drops nothing, and promises less to whoever is in more steps. "
            "Take one that holds."
        )
    kept = "a sample of the steps" if bound.enforced == "keep_sample" else "the first steps"
    words = (
        f"The bound is enforced: of whoever is in more steps {kept} are kept and the others are dropped, so that "
        "values are too low by an amount that is in no error here. "
    )
    if statistic is None:
        return words + (
            "How much that is only the data say, and they are protected. If it is publicly known in how many steps "
            "users are, `--steps-per-user FILE` shows it."
        )
    return words + f"What is dropped, of all steps that users are in, is what {statistic.source} says."
