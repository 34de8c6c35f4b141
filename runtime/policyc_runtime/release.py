"""A plan and data make a release: count, draw noise, estimate, remember, publish; each step once, in that order.

What leaves this module was on disk in the ledger before. Values are estimated in the same transaction that draws their
noise. Where a constraint couples steps, or the estimator looks ahead, `offline` delivery takes all new steps together.
At a step without budget nothing is drawn: the ledger says null, and the estimator fills it from the steps around it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policyc_check.errors import KernelError
from policyc_check.users.claims import source_release
from policyc_runtime.errors import DataError, LedgerError, ReleaseError
from policyc_runtime.estimates import processes_used, published_values
from policyc_runtime.ledger import Entry, Ledger
from policyc_runtime.ledger_file import ON_SIMULATED_EVENTS, SEEDED, SYSTEM, guarded, overtaken
from policyc_runtime.ledger_private import write_dropped
from policyc_runtime.ledger_seal import PIN
from policyc_runtime.mechanisms.mechanism import StepRecord
from policyc_runtime.noisy_values import (
    derived_values,
    measured,
    noisy_values,
    publishable_steps,
    ready_steps,
    waiting_steps,
)
from policyc_runtime.output import Release, output_paths, require_own
from policyc_runtime.plan import (
    BudgetedRelease,
    DerivedRelease,
    MeasuredRelease,
    Plan,
    Recorded,
    ReleasePlan,
    Scheduled,
)
from policyc_runtime.randomness import Randomness, SystemRandomness
from policyc_runtime.refusal import verify
from policyc_runtime.released_file import require_stored, stored_release
from policyc_runtime.sources import StepCounts, counts_of_array, read_counts, read_events
from policyc_runtime.sources.moments import agreed_start, says_zone
from policyc_runtime.sources.participation import can_carry_on
from policyc_runtime.sources.step_counts import check_request
from policyc_runtime.sources.tables import require_here, says_simulated

STEPS_A_TRANSACTION = 4096

Data: TypeAlias = str | Path | NDArray[Any] | Mapping[str, NDArray[Any]]
Progress: TypeAlias = Callable[[int, int], None]


def release(
    plan: Plan,
    events_or_counts: Data,
    ledger: str | Path,
    *,
    counts: bool = False,
    continued: bool = False,
    start: str | None = None,
    steps: int | None = None,
    output: str | Path | None = None,
    pin: Path | EllipsisType | None = ...,
    progress: Progress | None = None,
    randomness: Randomness | None = None,
    steps_a_transaction: int = STEPS_A_TRANSACTION,
) -> Release:
    """Release every step of the data that was not released yet, and return all of them.

    Args:
        plan: verified first.
        events_or_counts: a CSV or Parquet file of events; or counts in memory, (steps, cells), or one array a release.
        ledger: the sqlite file that remembers; begun when there is none.
        counts: the file holds ready counts instead of events.
        continued: the file has new rows only; what is needed of earlier ones is in a private file beside the ledger.
        start: the moment of step 0, ISO, where the plan does not say it; fixed by the first run, which must say it of
            events unless the plan does.
        steps: the first this many. Default: all that are over by the clock, of ready counts as far as they go; never by
            itself a long stretch without events.
        output: where the caller will write; checked before anything is spent. An earlier release there without a
            ledger is a sign of a lost ledger; any other file is not written over.
        pin: the file by which the plan's directory names its one ledger, so that no run draws the same steps on
            another. Default: `ledger.pin` in the directory that the plan was loaded from. A plan that was not must be
            given one file for all its runs, or None: the caller then sees to it that it has one ledger.
        progress: called with (steps done, steps in all).
        randomness: where noise comes from; default the operating system's generator.
        steps_a_transaction: how many steps are committed together, >= 1.

    Raises:
        PlanRejectedError: the plan does not keep its promise.
        DataError: the data does not fit the plan.
        LedgerError: the ledger is lost, altered, an older copy, busy, of another plan, or the plan has another one;
            nobody says which one it has; data of a released step changed.
        ReleaseError: the output cannot be written, or no values satisfy the constraints.
    """
    verify(plan)
    for part in plan.releases:
        if isinstance(part, MeasuredRelease):
            skips = part.mechanism.leaves_gaps
        else:
            skips = isinstance(part, Scheduled) and any(0 in segment.scales for segment in part.schedule.segments)
        if skips and not part.estimator.fills:
            raise KernelError(
                "E0829",
                f"the schedule of `{part.name}` leaves steps without a release",
                because=f"`{part.estimator.described()}` looks at every step on its own and cannot fill them",
                help="use `filter` or `smoother`, or a schedule that releases every step",
            )
    _check_data(events_or_counts)
    pinned = _own_pin(plan, ledger) if isinstance(pin, EllipsisType) else pin
    source = randomness or SystemRandomness()
    simulated = isinstance(events_or_counts, str | Path) and says_simulated(events_or_counts)
    outputs = {} if output is None else output_paths(_names(plan), output)
    for part in plan.releases:
        if outputs:
            require_own(outputs[part.name], part.query.by, simulated=simulated or not source.is_release)
    drawn = SEEDED if not source.is_release else ON_SIMULATED_EVENTS if simulated else SYSTEM
    with Ledger.open(ledger, plan, generator=drawn, outputs=outputs.values(), pin=pinned) as book:
        _check_outputs(plan, book, outputs)
        begins = agreed_start(plan, start, book.start)
        zoned = says_zone(start or plan.stream.start)
        if continued:
            raw = _carried_on(plan, events_or_counts, counts, begins, steps, zoned, book, simulated)
        else:
            raw = _read(plan, events_or_counts, counts, begins, steps, zoned, book, simulated)
        if raw.dropped is not None:
            with guarded(book.path):
                write_dropped(book.path, raw.steps, raw.dropped)
        run = _Run(plan, raw, book, source)
        while not run.advance(steps_a_transaction):
            if progress is not None:
                progress(run.done, raw.steps)
        if progress is not None:
            progress(raw.steps, raw.steps)
        done = stored_release(plan, book, raw.steps)
        return replace(done, before=len(done.times) - run.new)


def _own_pin(plan: Plan, ledger: str | Path) -> Path:
    """The pin in the directory that a plan was loaded from."""
    if plan.pin is None:
        raise LedgerError(
            "E0868",
            "nobody says which ledger is this plan's",
            where=str(ledger),
            because=f"it was not loaded from a directory, whose `{PIN}` names its one ledger; on a second ledger the "
            "same steps would be drawn again, and both together tell more than promised",
            help="save the plan and load it: `load_plan(compilation.save())`; or say `pin=Path(...)`, one file for all "
            "runs of this plan; or `pin=None`, if you see to it that it has one ledger",
        )
    return plan.pin


def _check_data(data: Data) -> None:
    """Nothing where there is a file, or counts in memory; so that no ledger is begun for anything else."""
    if isinstance(data, str | Path):
        require_here(data)
    elif not isinstance(data, np.ndarray | Mapping | Sequence):
        raise DataError(
            "E0818",
            f"a {type(data).__name__} is neither a file nor counts",
            where="events_or_counts",
            because="events are read from a file; counts in memory are an array (steps, cells), or one a release",
            help="write the events to a CSV or Parquet file and give its name",
        )


def _read(
    plan: Plan,
    data: Data,
    counts: bool,
    start: int | None,
    steps: int | None,
    zoned: bool,
    book: Ledger,
    simulated: bool,
) -> StepCounts:
    check_request(plan, steps, book.steps)
    if not isinstance(data, str | Path):
        return counts_of_array(data, plan, start=start, steps=steps, at_least=book.steps, zoned=zoned)
    if counts:
        return read_counts(data, plan, start=start, steps=steps, at_least=book.steps, zoned=zoned)
    return read_events(data, plan, start=start, steps=steps, at_least=book.steps, zoned=zoned, simulated=simulated)


def _carried_on(
    plan: Plan,
    data: Data,
    counts: bool,
    start: int | None,
    steps: int | None,
    zoned: bool,
    book: Ledger,
    simulated: bool,
) -> StepCounts:
    """New rows, after those that earlier runs took in; kept only where they fit to what was released."""
    from policyc_runtime.sources.history import History

    check_request(plan, steps, book.steps)
    if counts or not isinstance(data, str | Path):
        raise DataError(
            "E0839",
            "only a file of events can be carried on",
            because="counts do not say whose they are, so nobody's bound could be kept over several runs",
            help="give the whole history from step 0 on, without `--continued`",
        )
    with guarded(book.path), History(book.path, plan, book) as history:
        raw = history.read(data, start=start, steps=steps, zoned=zoned, simulated=simulated)
        for entry in (*book.entries, *book.ahead):
            if entry.step >= history.steps:
                raise _changed(book.path, entry.step, gone=True, carries_on=True)
            if entry.step < raw.steps and entry.data != book.fingerprint(entry.step, raw.digests[entry.step]):
                raise _changed(book.path, entry.step, gone=not raw.digests[entry.step], carries_on=True)
        history.keep()
    return raw


def _check_outputs(plan: Plan, book: Ledger, outputs: Mapping[str, Path]) -> None:
    """Nothing when what is published already is in the ledger: an older copy of a ledger would draw it again."""
    with book.transaction():
        for name, file in outputs.items():
            if file.exists():
                stored = stored_release(plan, book, book.steps)
                require_stored(stored.series[name], stored.times, file, marked=not stored.is_release)


class _Run:
    """The state of one call of `release`: values of all steps so far, first those the ledger had."""

    def __init__(self, plan: Plan, raw: StepCounts, book: Ledger, randomness: Randomness) -> None:
        self.done = 0
        self.new = 0  # of them those that this call released: others may run at the same time
        self._plan = plan
        self._raw = raw
        self._book = book
        self._randomness = randomness
        self._ready = _ready(plan, raw.steps, book.steps)
        self._end = min(max(publishable_steps(plan, self._ready), book.steps), raw.steps)
        self._drawn = 0  # how many steps have noise, some of them ahead of their values
        self._epsilons = {part.name: part.schedule.epsilons(raw.steps) for part in plan.scheduled}
        self._scales = {part.name: part.schedule.scales(raw.steps) for part in plan.scheduled}
        self._processes: dict[str, dict[int, str]] = {}  # of the block that is being released
        self._known = 0  # steps whose noisy values the estimators of this block see
        self._records: dict[str, list[StepRecord]] = {part.name: [] for part in plan.releases}
        shapes = {part.name: (raw.steps, len(part.cells)) for part in plan.releases}
        self._noisy = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        self._published = {name: np.zeros(shape) for name, shape in shapes.items()}

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
                    for part in self._plan.releases:
                        self._estimate(part, block)
                except Exception as error:
                    # The noise is kept although nothing can be published: a second draw would tell more than promised.
                    failure = error
                    self._drop(block)
                entries = [self._entry(part, step) for step in block for part in self._plan.releases]
                ahead = [
                    self._entry(part, step)._replace(published="null", process="")
                    for step in drawn
                    if step >= block.stop
                    for part in self._plan.releases
                ]
                self._book.append(entries, self._raw.start, ahead)
        if failure is not None:
            raise failure
        self.done += len(block)
        self.new += len(block)
        return self.done >= self._end

    def _take_stored(self) -> None:
        """Take over the steps that the ledger has; refuse when their data changed."""
        if self._book.start is not None and self._book.start != self._raw.start:
            raise overtaken(self._book.path, "fixed the start of the stream")
        releases = len(self._plan.releases)
        waiting = [entry for entry in self._book.ahead if self._book.steps <= entry.step < self._raw.steps]
        for entry in [*self._book.entries[self.done * releases : self._raw.steps * releases], *waiting]:
            if entry.data != self._book.fingerprint(entry.step, self._raw.digests[entry.step]):
                gone = not self._raw.digests[entry.step]
                raise _changed(self._book.path, entry.step, gone, carries_on=can_carry_on(self._plan))
            drawn = json.loads(entry.noisy)
            if not isinstance(self._plan.release_named(entry.release), Recorded):
                self._noisy[entry.release][entry.step] = np.nan if drawn is None else drawn
            elif entry.step == len(self._records[entry.release]):
                self._records[entry.release].append(tuple(drawn))
            self._drawn = max(self._drawn, entry.step + 1)
            if entry.step >= self._book.steps:
                continue
            published = json.loads(entry.published)
            if published is None:
                raise _unpublished(self._book.path, entry.step)
            self._published[entry.release][entry.step] = published
            self.done = entry.step + 1

    def _next_block(self, steps: int) -> range:
        wait = self._plan.delivery.longest_wait
        together = any(
            part.estimator.looks_ahead(wait) or any(row.previous for row in part.constraints)
            for part in self._plan.releases
        )
        if together and self._plan.delivery.kind == "offline":
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
            self._noisy[part.name][: block.stop] = self._measure(part, block)
            return
        scales = self._scales[part.name]
        drawn = [step for step in block if scales[step] > 0]
        raw = self._raw.counts[part.name][drawn]
        self._noisy[part.name][drawn] = part.mechanism.add_noise(raw, [scales[t] for t in drawn], self._randomness)

    def _measure(self, part: ReleasePlan, block: range) -> NDArray[np.float64]:
        """Noisy values of all steps so far, for a release that is measured, or made of another."""
        if isinstance(part, DerivedRelease):
            return derived_values(part, self._noisy[part.query.of][: block.stop])
        found = measured(self._plan, part)
        assert found is not None, "all others give away records"
        mechanism, setting = found
        records = self._records[part.name]
        raw = self._raw.counts[source_release(self._plan, part).name][: block.stop]
        records += mechanism.measure(setting, raw, records, self._randomness)
        return noisy_values(self._plan, part, records)

    def _estimate(self, part: ReleasePlan, block: range) -> None:
        """Published values of new steps, from the noisy ones."""
        published = self._published[part.name]
        noisy = self._noisy[part.name][: self._lead(block)]
        self._known = len(noisy)
        used = processes_used(self._plan, part, noisy, block.start)
        values = published_values(self._plan, part, noisy, published[: block.start], used)
        published[block.start : block.stop] = values[: len(block)]
        self._processes[part.name] = dict(zip(block, used or [], strict=False))

    def _drop(self, block: range) -> None:
        for published in self._published.values():
            published[block.start : block.stop] = np.nan

    def _entry(self, part: ReleasePlan, step: int) -> Entry:
        noisy, published = self._noisy[part.name][step], self._published[part.name][step]
        values = [round(value) for value in published.tolist()] if part.integer and _given(published) else published
        if isinstance(part, Recorded):
            drawn: object = self._records[part.name][step]
        elif isinstance(part, DerivedRelease):
            drawn = noisy.tolist() if _given(noisy) else None
        else:
            drawn = [round(value) for value in noisy.tolist()] if _given(noisy) else None
        return Entry(
            step=step,
            release=part.name,
            noisy=json.dumps(drawn),
            published=json.dumps(list(values) if _given(published) else None),
            data=self._book.fingerprint(step, self._raw.digests[step]),
            epsilon=str(self._epsilons[part.name][step]) if isinstance(part, Scheduled) else "",
            scale=str(self._scales[part.name][step]) if isinstance(part, Scheduled) else "",
            process=self._processes[part.name].get(step, "") if _given(published) else "",
            known=self._known,
        )


def _given(values: NDArray[np.float64]) -> bool:
    return not np.isnan(values).any()


def _unpublished(ledger: Path, step: int) -> ReleaseError:
    """The refusal to go on after a step whose noise is spent and whose values could not be made."""
    return ReleaseError(
        "E0830",
        f"no published values could be made for step {step}",
        where=str(ledger),
        because="its noise was drawn and is kept: drawing again would tell more than was promised",
        help="compile a policy with constraints that can always be kept, for the steps to come",
    )


def _changed(ledger: Path, step: int, gone: bool, *, carries_on: bool = False) -> LedgerError:
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


def _names(plan: Plan) -> list[str]:
    return [part.name for part in plan.releases]
