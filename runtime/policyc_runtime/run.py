"""What one call of `release` does to the steps that are there: draw, estimate and remember, block by block.

Values are estimated in the same transaction that draws their noise; noise whose values could not be made is kept, as a
second draw would tell more than promised.
"""

from __future__ import annotations

import json
import math
import mmap
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from policyc_check.users.claims import source_release
from policyc_runtime.carried import goes_on, left_at, looks_back, noisy_from, process_before
from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.estimates import agreed, processes_used, published_values
from policyc_runtime.ledger import PIECE, Ledger
from policyc_runtime.ledger_entry import Entry
from policyc_runtime.ledger_file import overtaken, unpublished
from policyc_runtime.mechanisms.mechanism import StepRecord
from policyc_runtime.noisy_values import (
    derived_after,
    made_together,
    measured,
    publishable_steps,
    ready_steps,
    waiting_steps,
)
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import BudgetedRelease, DerivedRelease, Recorded, ReleasePlan, Scheduled
from policyc_runtime.randomness import Randomness
from policyc_runtime.sources import StepCounts
from policyc_runtime.sources.participation import can_carry_on
from policyc_runtime.sources.stored_counts import StoredCounts

_NOTHING = "null"


class Run:
    """Values of all steps so far, first those that the ledger had, from the first one on that was read.

    Args:
        plan: verified.
        raw: what every step counts.
        book: the ledger, open.
        randomness: where noise comes from.

    Attributes:
        steps: how many there are.
        done: how many of them are released.
        new: of these those that this run released: others may run at the same time.
    """

    def __init__(self, plan: Plan, raw: StepCounts, book: Ledger, randomness: Randomness) -> None:
        self.steps = raw.steps
        self.done = book.first
        self.new = 0  # of them those that this call released: others may run at the same time
        self._plan = plan
        self._raw = raw
        self._book = book
        self._randomness = randomness
        self._ready = _ready(plan, raw.steps, book.steps)
        self._end = min(max(publishable_steps(plan, self._ready), book.steps), raw.steps)
        self._taken = 0  # entries of the ledger that are in the arrays below
        self._drawn = book.first  # how many steps have noise, some of them ahead of their values
        self._processes: dict[str, Sequence[str]] = {}  # of the block that is being released, from its first step on
        self._known = 0  # steps whose noisy values the estimators of this block see
        self._records: dict[str, list[StepRecord]] = {part.name: [] for part in plan.releases}
        # nobody touches the rows of steps before the first, or before noise is drawn for them
        self._noisy = {part.name: _zeros((raw.steps, len(part.cells))) for part in plan.releases}
        self._published = {name: _zeros(noisy.shape) for name, noisy in self._noisy.items()}

    def advance(self, steps: int) -> bool:
        """Release up to this many more steps in one transaction; True when all are done."""
        failure: Exception | None = None
        with self._book.transaction():
            self._take_stored()
            block = self._next_block(steps)
            if block:
                drawn = range(self._drawn, self._lead(block))
                for part in self._plan.releases:
                    self._draw(part, drawn)
                self._drawn = max(self._drawn, drawn.stop)
                try:
                    self._estimate(block)
                except Exception as error:
                    # The noise is kept although nothing can be published: a second draw would tell more than promised.
                    failure = error
                    self._drop(block)
                later = range(max(block.stop, drawn.start), drawn.stop)
                waiting = (entry._replace(published="null", process="") for entry in self._entries(later))
                self._book.append(self._entries(block), self._raw.start, waiting)
                self._taken = self._book.state.entries
        if failure is not None:
            raise failure
        self.done += len(block)
        self.new += len(block)
        return self.done >= self._end

    def let_go(self, first: int) -> None:
        """Know no more of released steps before `first`; of a plan that `goes_on` nothing else needs them."""
        known = slice(first, self.done)
        for arrays in (self._noisy, self._published):
            for name, values in arrays.items():
                arrays[name] = _zeros(values.shape)
                arrays[name][known] = values[known]
        self._records = {name: records[first - self._book.first :] for name, records in self._records.items()}
        self._book.let_go(first, left_at(self._plan, self._book, first))

    def _take_stored(self) -> None:
        """Take over the steps that the ledger has; refuse when their data changed."""
        if self._book.start is not None and self._book.start != self._raw.start:
            raise overtaken(self._book.path, "fixed the start of the stream")
        waiting = [entry for entry in self._book.ahead if self._book.steps <= entry.step < self._raw.steps]
        first = self._book.first
        stored = self._book.released(self._taken)
        for entry in chain((entry for entry in stored if entry.step < self._raw.steps), waiting):
            if entry.data != self._book.fingerprint(entry.step, self._raw.digests[entry.step]):
                gone = not self._raw.digests[entry.step]
                raise changed(self._book.path, entry.step, gone, carries_on=can_carry_on(self._plan))
            drawn = json.loads(entry.noisy)
            if not isinstance(self._plan.release_named(entry.release), Recorded):
                self._noisy[entry.release][entry.step] = np.nan if drawn is None else drawn
            elif entry.step == first + len(self._records[entry.release]):
                self._records[entry.release].append(tuple(drawn))
            self._drawn = max(self._drawn, entry.step + 1)
            if entry.step >= self._book.steps:
                continue
            published = json.loads(entry.published)
            if published is None:
                raise unpublished(self._book.path, entry.step)
            self._published[entry.release][entry.step] = published
            self.done = entry.step + 1
        self._taken = self._book.state.entries

    def _next_block(self, steps: int) -> range:
        if made_together(self._plan):
            return range(self.done, self._end)
        stop = ready_steps(self._plan, min(self.done + steps, self._end))
        return range(self.done, stop if stop > self.done else self._end)

    def _lead(self, block: range) -> int:
        """Through which step noise is needed: values of the block's last step may use that of later ones."""
        return max(ready_steps(self._plan, min(block.stop + waiting_steps(self._plan), self._ready)), block.stop)

    def _draw(self, part: ReleasePlan, block: range) -> None:
        """Noisy values of new steps; steps without a budget are not even looked at."""
        if not block:
            return
        if not isinstance(part, BudgetedRelease):
            self._noisy[part.name][self._book.first : block.stop] = self._measure(part, block)
            return
        scales = part.schedule.scales(np.arange(block.start, block.stop))
        drawn = [step for step, scale in zip(block, scales, strict=True) if scale > 0]
        raw = self._raw.counts[part.name][block.start : block.stop][np.array(drawn, dtype=np.intp) - block.start]
        noisy = part.mechanism.add_noise(raw, [scale for scale in scales if scale > 0], self._randomness)
        self._noisy[part.name][block.start : block.stop] = np.nan
        self._noisy[part.name][drawn] = noisy

    def _measure(self, part: ReleasePlan, block: range) -> NDArray[np.float64]:
        """Noisy values of all steps that are there, for a release that is measured, or made of another."""
        first = self._book.first
        if isinstance(part, DerivedRelease):
            left = self._book.left.get(part.name, ())
            return derived_after(part, left, self._noisy[part.query.of][first : block.stop])[0]
        assert isinstance(part, Recorded), "the only kind that is left"
        found = measured(self._plan, part)
        assert found is not None, "all others give away records"
        mechanism, setting = found
        records = self._records[part.name]
        counts = self._raw.counts[source_release(self._plan, part).name]
        if isinstance(counts, StoredCounts):  # of which those are read that are looked at
            assert goes_on(self._plan), "else all are needed, and held"
            begin = looks_back(self._plan, block.start, block.stop)
            raw = np.zeros((block.stop, counts.cells), dtype=np.int64)
            raw[begin:] = counts[begin : block.stop]
        else:
            raw = counts[: block.stop]
        records += mechanism.measure(setting, raw, [()] * first + records, self._randomness)
        return noisy_from(self._plan, part, self._book, records)

    def _estimate(self, block: range) -> None:
        """Published values of new steps, from the noisy ones through those that they may use."""
        plan, first = self._plan, block.start
        noisy = {name: values[: self._lead(block)] for name, values in self._noisy.items()}
        self._known = self._lead(block)
        used = {
            part.name: processes_used(plan, part, noisy[part.name], first, process_before(self._book, part.name, first))
            for part in plan.releases
        }
        made = agreed(plan, noisy, first, self._published, used)
        for part in plan.releases:
            published = self._published[part.name]
            values = published_values(plan, part, made[part.name], published[:first], used[part.name])
            published[first : block.stop] = values[: len(block)]
            self._processes[part.name] = used[part.name] or []

    def _drop(self, block: range) -> None:
        for published in self._published.values():
            published[block.start : block.stop] = np.nan

    def _entries(self, steps: range) -> Iterator[Entry]:
        """The entries of some steps, those of each step together; few are held at a time."""
        for begin in range(steps.start, steps.stop, PIECE):
            piece = range(begin, min(begin + PIECE, steps.stop))
            digests = self._raw.digests[piece.start : piece.stop]
            data = [self._book.fingerprint(step, digest) for step, digest in zip(piece, digests, strict=True)]
            columns = [self._entries_of(part, piece, data) for part in self._plan.releases]
            yield from (entry for row in zip(*columns, strict=True) for entry in row)

    def _entries_of(self, part: ReleasePlan, steps: range, data: list[str]) -> list[Entry]:
        rows = slice(steps.start, steps.stop)
        noisy, published = self._noisy[part.name][rows], self._published[part.name][rows]
        if isinstance(part, Recorded):
            first = self._book.first
            records = self._records[part.name][steps.start - first : steps.stop - first]
            drawn = [json.dumps(record) for record in records]
        else:
            drawn = _texts(noisy, whole=not isinstance(part, DerivedRelease))
        epsilons, scales = ([""] * len(steps),) * 2
        if isinstance(part, Scheduled):
            at = np.arange(steps.start, steps.stop)
            epsilons, scales = (list(map(str, of(at))) for of in (part.schedule.epsilons, part.schedule.scales))
        values, processes = _texts(published, whole=part.integer), self._processes.get(part.name, ())
        told = processes[steps.start - self.done : steps.stop - self.done]
        used = ["" if text == _NOTHING else process for text, process in zip_longest(values, told, fillvalue="")]
        columns = zip(steps, drawn, values, data, epsilons, scales, used, strict=True)
        return [Entry(t, part.name, z, y, d, e, s, p, self._known) for t, z, y, d, e, s, p in columns]


def _zeros(shape: tuple[int, int]) -> NDArray[np.float64]:
    """Zeros of which those rows alone take memory that are written: a heap would fill what it had given back before."""
    size = math.prod(shape)
    room = max(size, 1) * 8
    try:
        if sys.platform == "win32":
            pages = mmap.mmap(-1, room)
        else:
            pages = mmap.mmap(-1, room, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:  # as other arrays are refused
        raise MemoryError(f"{size:,} numbers do not fit into memory") from error
    return np.frombuffer(pages, count=size).reshape(shape)


def _texts(values: NDArray[np.float64], *, whole: bool) -> list[str]:
    """Each row as JSON, of whole numbers or not; null where there is none."""
    missing = np.asarray(np.isnan(values).any(axis=1)).tolist()
    if whole:
        values = np.rint(np.nan_to_num(values)).astype(np.int64)  # noise and counts fit
    rows = zip(values.tolist(), missing, strict=True)
    # of lists of numbers Python's text is JSON's
    return [_NOTHING if gap else str(row) for row, gap in rows]


def changed(ledger: Path, step: int, gone: bool, *, carries_on: bool = False) -> LedgerError:
    """The refusal of other data for a released step; `gone` when it has none now, and might be known from before."""
    return LedgerError(
        "E0825",
        f"the input has no rows for step {step} any more"
        if gone
        else f"the data of step {step} changed after it was released",
        where=str(ledger),
        because="releasing the step again would cost its budget a second time",
        help="run once with the whole history from step 0 on and `--continued`; later ones may then bring new rows only"
        if gone and carries_on
        else "give the whole history from step 0 on"
        if gone
        else "run on the data as it was; corrections can only reach steps that are not released yet; if the step was "
        "not over when it was released, release only complete steps next time: `--steps N`",
    )


def _ready(plan: Plan, steps: int, done: int) -> int:
    """How many steps can have noise now; `done` are released.

    Raises:
        DataError: nothing can be released, because a mechanism or an estimator waits for more.
    """
    ready = ready_steps(plan, steps)
    if publishable_steps(plan, ready) > 0 or done > 0 or steps == 0:
        return ready
    wait = waiting_steps(plan)
    if ready > 0:
        raise DataError(
            "E0835",
            f"nothing can be released of {steps:,} steps yet",
            because=f"values may use those of {wait:,} later steps, and wait for them until the stream ends",
            help=f"run again when more than {wait:,} steps are over",
        )
    raise DataError(
        "E0835",
        f"nothing can be released of {steps:,} steps yet",
        because="the plan's mechanism measures several steps together, or the whole stream at its end",
        help="run again when more steps are over; when the stream is, say so: `--steps` and its horizon",
    )
