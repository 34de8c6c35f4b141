"""What every source gives: counts a step for every release, and a digest of the data behind each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.moments import FIRST_MOMENT, LAST_MOMENT, iso_moment, last_moment
from policyc_runtime.sources.stored_counts import Counts, pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_HORIZON = 10_000_000


@dataclass(frozen=True, repr=False)
class StepCounts:
    """Raw counts, steps from 0 without gaps. Never shown: it has no readable form.

    Args:
        start: the moment of step 0, microseconds since 1970; None when nobody said.
        counts: for each release, (steps, cells), cells in the plan's order, >= 0.
        dropped: how many users, participations and events a participation bound cut, for a private log; None without
            an enforced one.
        digests: what the counts of each step came from, one text a step; raw, so they leave this process only keyed.
    """

    start: int | None
    counts: Mapping[str, Counts]
    digests: Sequence[str]
    dropped: dict[str, int] | None = None

    @property
    def steps(self) -> int:
        """How many steps."""
        return len(self.digests)


class CountDigests(Sequence[str]):
    """What the counts of steps are, as a text that is made when it is asked for: a long stream has many.

    Args:
        arrays: counts of each release, (steps, cells).
        since: of steps before this one nothing is told, but for
        again: these.
    """

    def __init__(self, arrays: list[Counts], since: int, again: frozenset[int]) -> None:
        self._arrays, self._since, self._again = arrays, since, again

    @property
    def again(self) -> list[int]:
        """The steps before `since` of which something is told, rising."""
        return sorted(int(step) for step in self._again if step < min(self._since, len(self)))

    def __len__(self) -> int:
        return len(self._arrays[0])

    @overload
    def __getitem__(self, step: int) -> str: ...
    @overload
    def __getitem__(self, step: slice) -> list[str]: ...
    def __getitem__(self, step: int | slice) -> str | list[str]:
        if not isinstance(step, slice):
            at = range(len(self))[step]
            return self[at : at + 1][0]
        steps = range(len(self))[step]
        told = zip(*(_rows(array[step].tolist()) for array in self._arrays), strict=True)
        return ["" if self._silent(at) else "|".join(("counts", *row)) for at, row in zip(steps, told, strict=True)]

    def _silent(self, step: int) -> bool:
        return step < self._since and step not in self._again


def _rows(counts: list[list[int]]) -> list[str]:
    """The numbers of each row with commas between them: of a list of lists Python's text is that but for brackets."""
    return str(counts)[2:-2].replace(" ", "").split("],[") if counts else []


def every_user_in_a_cell(plan: Plan, release: ReleasePlan) -> bool:
    """Whether cells of a step have to add up to the population: the public total is exact, and nothing is left over."""
    cell = plan.stream.cell
    listed = release.query.by is not None and cell is not None and cell.otherwise is None
    return listed and plan.stream.population is not None and plan.participation is None


def check_population(plan: Plan, release: ReleasePlan, counts: Counts, where: str, first: int = 0) -> None:
    """Nothing when the counts of every step from the `first` on fit the declared population.

    Raises:
        DataError: names the first step that does not.
    """
    if plan.stream.population is not None:
        for begin, piece in pieces(counts, first):
            _check_sums(plan, release, piece.sum(axis=1), plan.stream.population, where, begin)


def _check_sums(
    plan: Plan, release: ReleasePlan, sums: NDArray[np.int64], population: int, where: str, first: int
) -> None:
    cell = plan.stream.cell
    if release.query.by is not None and cell is not None and cell.otherwise is not None:
        unequal = np.flatnonzero(sums != population)
        if unequal.size:
            raise DataError(
                "E0817",
                f"the counts of step {first + unequal[0]} do not add up to the population",
                where=where,
                because=f"the policy states it as exact, and everybody is in one cell or `{cell.otherwise}`",
                help=f"correct the counts of the step, `{cell.otherwise}` included, or `population` in the policy",
            )
        return
    too_many = np.flatnonzero(sums > population)
    if too_many.size:
        raise DataError(
            "E0817",
            f"there are more users at step {first + too_many[0]} than the population",
            where=where,
            because="the policy states the population as a public number",
            help="correct `population` in the policy, or the data of the step",
        )
    too_few = np.flatnonzero(sums < population)
    if release.query.by is not None and too_few.size:
        raise DataError(
            "E0817",
            f"some users are in no cell at step {first + too_few[0]}",
            where=where,
            because="without `otherwise` every user of the population is in exactly one cell at each step",
            help='add `otherwise "elsewhere"` to the cell in the policy, or the missing users to the step',
        )


def check_request(plan: Plan, steps: int | None, released: int = 0) -> None:
    """Nothing when the plan has the steps that were asked for, and no more are released already.

    Raises:
        DataError: it has fewer, or more are.
    """
    if steps is not None and steps < released:
        raise DataError(
            "E0886",
            f"{steps:,} steps were asked for, and {released:,} are released already",
            where=f"--steps {steps}",
            because="the output would lose the others, which are in the ledger and were paid for",
            help=f"leave `--steps` out, or ask for {released} or more; who needs fewer cuts the released file",
        )
    horizon = plan.stream.horizon or LARGEST_HORIZON
    if steps is not None and steps > horizon:
        raise DataError(
            "E0815",
            f"{steps:,} steps were asked for, and the plan has {horizon:,} steps",
            where=f"--steps {steps}",
            because="there is noise for the steps of the horizon alone",
            help=f"ask for at most {horizon:,}, or give the policy a longer horizon and compile again",
        )


def check_steps(plan: Plan, steps: int, where: str, start: int | None = None) -> None:
    """Nothing when this many steps fit the horizon, and the calendar from `start` (microseconds since 1970) on.

    Raises:
        DataError: they do not.
    """
    horizon = plan.stream.horizon or LARGEST_HORIZON
    if steps > horizon:
        raise DataError(
            "E0815",
            f"step {horizon} lies beyond the horizon",
            where=where,
            because=f"the plan has noise for {horizon:,} steps, counted from 0",
            help="give the policy a longer horizon and compile again, or leave the later steps out",
        )
    if start is None:
        return
    end = int(calendar_of(plan, start).steps.begin(np.array([steps]))[0])
    if plan.stream.clock is not None and last_moment(plan) < end <= LAST_MOMENT:
        raise DataError(
            "E0815",
            f"{steps:,} steps reach beyond what the plan knows of the clock of {plan.stream.clock.zone}",
            where=where,
            because=f"it knows it until {iso_moment(last_moment(plan), plan)}; later days are nobody's yet",
            help="release fewer steps: `--steps N`; later ones need a plan that is compiled anew",
        )
    if not (start >= FIRST_MOMENT and end <= LAST_MOMENT):
        raise DataError(
            "E0812",
            "the steps reach before the year 1 or beyond the year 9999",
            where=where,
            because="no calendar of a release has such dates",
            help="correct the start of the stream, or release fewer steps",
        )
