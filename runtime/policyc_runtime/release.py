"""A plan and data make a release: count, draw noise, estimate, remember, publish; each step once, in that order.

What leaves this module was on disk in the ledger before. Values are estimated in the same transaction that draws their
noise. Where a constraint couples steps, or the estimator looks ahead, `offline` delivery takes all new steps together.
At a step without budget nothing is drawn: the ledger says null, and the estimator fills it from the steps around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import EllipsisType
from typing import TypeAlias

from policyc_check.errors import KernelError
from policyc_runtime import carried
from policyc_runtime.account_of_run import reach, require_simulated, spend
from policyc_runtime.begun_files import BegunFiles
from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.follow.lock import not_followed
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_checkpoint import Checkpoint, FoundFile, read_checkpoint, way_to
from policyc_runtime.ledger_file import ON_SIMULATED_EVENTS, SEEDED, SYSTEM, guarded
from policyc_runtime.ledger_private import spill_folder, write_dropped
from policyc_runtime.ledger_seal import PIN
from policyc_runtime.output_place import own_outputs
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import MeasuredRelease, Scheduled
from policyc_runtime.published_values import Earlier, Release
from policyc_runtime.randomness import Randomness, SystemRandomness
from policyc_runtime.refusal import verify
from policyc_runtime.released_file import require_stored, stored_release
from policyc_runtime.run import Run, changed
from policyc_runtime.sources import StepCounts, counts_of_array, read_counts, read_events
from policyc_runtime.sources.count_rows import Gaps
from policyc_runtime.sources.counts import require_counts_suffice
from policyc_runtime.sources.engines.remote import Engine
from policyc_runtime.sources.given_data import Data, Held, check_choices, check_data, held, remote_of
from policyc_runtime.sources.memory import CheckedRows, Rows
from policyc_runtime.sources.moments import agreed_start, says_zone, step_times
from policyc_runtime.sources.simulated import says_simulated
from policyc_runtime.sources.step_counts import check_request
from policyc_runtime.taken_steps import taken_in

STEPS_A_TRANSACTION = 4096
LONGEST_KNOWN = 2**15  # steps that a long run knows beside those that it returns, before it lets them go

Progress: TypeAlias = Callable[[int, int], None]


def release(
    plan: Plan,
    events_or_counts: Data,
    ledger: str | Path,
    *,
    counts: bool = False,
    continued: bool = False,
    gaps: Gaps = "refuse",
    engine: Engine = "duckdb",
    start: str | None = None,
    steps: int | None = None,
    output: str | Path | None = None,
    pin: Path | EllipsisType | None = ...,
    account: str | Path | None = None,
    progress: Progress | None = None,
    randomness: Randomness | None = None,
    steps_a_transaction: int = STEPS_A_TRANSACTION,
    latest: int | None = None,
) -> Release:
    """Release every step of the data that was not released yet, and return all of them.

    Args:
        plan: verified first.
        events_or_counts: a CSV or Parquet file of events; or a table in memory, as polars, pandas, pyarrow and duckdb
            have them (anything with `__arrow_c_stream__`); or counts as an array, (steps, cells), or one a release.
        ledger: the sqlite file that remembers; begun when there is none.
        counts: the file or table holds ready counts instead of events.
        continued: the file has new rows only; what is needed of earlier ones is in a private file beside the ledger.
        gaps: of ready counts, what a step or cell without a row (or masked) means: it is `refuse`d, or `zero`.
        engine: what counts events where they lie: duckdb on this machine; spark and postgres count what a text names,
            `hdfs://host/folder`, `table:schema.name`, or `postgresql://host/database?table=schema.name`.
        start: the moment of step 0, ISO, where the plan does not say it; fixed by the first run, which must say it of
            events unless the plan does.
        steps: the first this many, >= 1. Default: all that are over by the clock, of ready counts as far as they go;
            never by itself a long stretch without events.
        output: where the caller will write; checked before anything is spent. An earlier release there without a
            ledger is a sign of a lost ledger; any other file is not written over.
        pin: the file by which the plan's directory names its one ledger, so that no run draws the same steps on
            another. Default: `ledger.pin` in the directory that the plan was loaded from. A plan that was not must be
            given one file for all its runs, or None: the caller then sees to it that it has one ledger.
        account: of the plan's data set, where it names one; what the plan tells is entered there before noise is drawn.
        progress: called with (steps done, steps in all).
        randomness: where noise comes from; default the operating system's generator.
        steps_a_transaction: how many steps are committed together, >= 1.
        latest: return no more than so many earlier steps (>= 1) beside the new ones, or than the last run did, which
            `write_release` adds to `output`, if there is one, where that is all that is needed: `continued`, CSV, no
            value made of earlier ones but as `carried.py` says, and ledger and output as the last run left them. Of a
            long run of such a plan so few of its own steps are returned, too. Default: all.

    Raises:
        PlanRejectedError: the plan does not keep its promise.
        DataError: the data does not fit the plan.
        LedgerError: the ledger is lost, altered, an older copy, busy, followed, of another plan, or the plan has
            another one; nobody says which one it has; data of a released step changed.
        AccountError: the account of the data set is not named, or has not so much left.
        ReleaseError: the output cannot be written, or no values satisfy the constraints.
        ValueError, TypeError: `plan`, `gaps`, `engine`, `start` or `steps` is none of what they may be.
    """
    check_choices(plan, events_or_counts, gaps, engine, start, steps, counts=counts)
    verify(plan)
    _require_filled(plan)
    remote = remote_of(events_or_counts, engine, counts=counts, continued=continued)
    if remote is None:
        check_data(events_or_counts)
    pinned = _own_pin(plan, ledger) if isinstance(pin, EllipsisType) else pin and Path(pin)
    source = randomness or SystemRandomness()
    with ExitStack() as stack:
        if not isinstance(events_or_counts, CheckedRows):  # which `follow` has taken in
            stack.enter_context(not_followed(Path(ledger)))
        data = remote or stack.enter_context(held(events_or_counts))
        simulated = isinstance(data, Rows) and says_simulated(data)
        outputs = {} if output is None else own_outputs(plan, output, simulated=simulated or not source.is_release)
        drawn = SEEDED if not source.is_release else ON_SIMULATED_EVENTS if simulated else SYSTEM
        require_simulated(plan, drawn, data)
        checkpoint = read_checkpoint(ledger)
        left_as_is = _as_left(checkpoint, ledger, outputs)
        goes = latest is not None and continued and carried.goes_on(plan)
        found = left_as_is if goes and _knows_all_steps(checkpoint, ledger) else None
        book = stack.enter_context(
            Ledger.open(
                ledger,
                plan,
                generator=drawn,
                outputs=outputs.values(),
                pin=pinned,
                checkpoint=checkpoint,
                latest=None if found is None else latest,
            )
        )
        shown = book.steps if book.first else 0  # steps that the outputs are known to hold
        if checkpoint is None or left_as_is is None or checkpoint.sha256 != book.sha256:
            _check_outputs(plan, book, outputs)
        begins = agreed_start(plan, start, book.start)
        zoned = says_zone(start or plan.stream.start) or plan.stream.clock is not None
        with guarded(book.path):
            folder = stack.enter_context(spill_folder(book.path))
        spill = folder if not counts or carried.looks_at_few(plan) else None
        kept = latest if outputs and not book.first and carried.lets_go(plan) else None
        read = _carried_on if continued else _read
        raw = read(plan, data, counts, begins, steps, zoned, book, simulated, gaps, spill)
        if raw.dropped is not None:
            with guarded(book.path):
                write_dropped(book.path, raw.steps, raw.dropped)
        spend(plan, account, book, drawn, data)
        run = Run(plan, raw, book, source)
        begun = _advanced(plan, book, run, steps_a_transaction, outputs, kept, progress)
        steps, new = raw.steps, run.new
        del raw, run  # of a long stream they are large, and what is published comes from the ledger
        book.seal()
        reach(account if drawn == SYSTEM else None, book)
        if begun is None and latest is not None and outputs and not book.first and steps >= book.steps:
            begun = _begun(plan, book, outputs, carried.first_kept(plan, book, latest))
        done = stored_release(plan, book, steps)
        if begun is not None:
            shown = begun.steps
            begun.add(done)
        return replace(
            done,
            before=done.steps.stop - new,
            earlier=Earlier(shown, step_times(plan, book.start, 1)[0], found or {}) if shown else None,
            begun=begun,
            left=_left(plan, book, latest) if done.steps.stop == book.steps and book.sha256 else None,
        )


def _advanced(
    plan: Plan,
    book: Ledger,
    run: Run,
    steps_a_transaction: int,
    outputs: Mapping[str, Path],
    latest: int | None,
    progress: Progress | None,
) -> BegunFiles | None:
    """Release all steps; where the `latest` alone are asked for, rows of a long run's earlier ones go to disk."""
    begun = None
    while not run.advance(steps_a_transaction):
        if progress is not None:
            progress(run.done, run.steps)
        if latest is not None and run.done - book.first >= latest + LONGEST_KNOWN:
            first = min(run.done - latest, carried.first_needed(plan, book, run.done))
            if first - book.first >= LONGEST_KNOWN // 2:
                begun = begun or BegunFiles(outputs)
                begun.add(stored_release(plan, book, run.done))
                run.let_go(first)
    if progress is not None:
        progress(run.steps, run.steps)
    return begun


def _begun(plan: Plan, book: Ledger, outputs: Mapping[str, Path], steps: int) -> BegunFiles | None:
    """Files with the rows of the first so many steps, which the ledger lets go; None where they are few or need others.

    Numbers and moments of all steps at once would be the most that a run holds.
    """
    if steps < LONGEST_KNOWN or not carried.rows_are_apart(plan):
        return None
    begun, piece = BegunFiles(outputs), max(1, LONGEST_KNOWN // 2)
    for stop in chain(range(piece, steps, piece), [steps]):
        begun.add(stored_release(plan, book, stop))
        book.let_go(stop, {})
    return begun


def _left(plan: Plan, book: Ledger, latest: int | None) -> Checkpoint:
    """What to note of a ledger, so that the next run may begin as many steps before its own as this one."""
    first = carried.first_kept(plan, book, latest or 1)
    return book.checkpoint(first, carried.left_at(plan, book, first))


def _as_left(
    checkpoint: Checkpoint | None, ledger: str | Path, outputs: Mapping[str, Path]
) -> dict[str, FoundFile] | None:
    """The outputs, where all are CSV files and as the last run left them; None else."""
    if checkpoint is None or not all(file.suffix.lower() == ".csv" and file.exists() for file in outputs.values()):
        return None
    found = {name: FoundFile(file, checkpoint.outputs.get(way_to(file, ledger))) for name, file in outputs.items()}
    return found if all(one.content is not None for one in found.values()) else None


def _knows_all_steps(checkpoint: Checkpoint | None, ledger: str | Path) -> bool:
    """Whether new rows may go on from what earlier runs took in: it may be gone, or a run had the whole history."""
    return checkpoint is not None and taken_in(ledger).steps >= checkpoint.steps


def _require_filled(plan: Plan) -> None:
    """Nothing when every step has a value: KernelError where an estimator cannot fill those without a release."""
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


def _read(
    plan: Plan,
    data: Held,
    counts: bool,
    start: int | None,
    steps: int | None,
    zoned: bool,
    book: Ledger,
    simulated: bool,
    gaps: Gaps,
    spill: Path | None,
) -> StepCounts:
    check_request(plan, steps, book.steps)
    if not isinstance(data, Rows):
        return counts_of_array(data, plan, start=start, steps=steps, at_least=book.steps, zoned=zoned, gaps=gaps)
    if counts:
        return read_counts(
            data, plan, start=start, steps=steps, at_least=book.steps, zoned=zoned, gaps=gaps, spill=spill
        )
    return read_events(
        data, plan, start=start, steps=steps, at_least=book.steps, zoned=zoned, simulated=simulated, spill=spill
    )


def _carried_on(
    plan: Plan,
    data: Held,
    counts: bool,
    start: int | None,
    steps: int | None,
    zoned: bool,
    book: Ledger,
    simulated: bool,
    gaps: Gaps,
    spill: Path | None,
) -> StepCounts:
    """New rows, after those that earlier runs took in; kept only where they fit to what was released."""
    from policyc_runtime.sources.history import History

    check_request(plan, steps, book.steps)
    if not isinstance(data, Rows):
        raise DataError(
            "E0839",
            "counts in an array cannot be carried on",
            because="its first row is step 0, so it does not say which steps are new",
            help="give a table or file with a column `step`, or the whole history, without `--continued`",
        )
    if counts:
        require_counts_suffice(plan, str(data))

    def since(stop: int) -> int:
        return min(book.first, carried.looks_back(plan, book.steps, stop)) if book.first else 0

    with guarded(book.path), History(book.path, plan, book) as history:
        if book.first and history.steps < book.steps:  # entries that were not read cannot be compared
            raise changed(book.path, history.steps, gone=True, carries_on=True)
        if counts:
            raw = history.read_ready(
                data, start=start, steps=steps, released=book.steps, zoned=zoned, gaps=gaps, spill=spill, since=since
            )
        else:
            raw = history.read(
                data, start=start, steps=steps, zoned=zoned, simulated=simulated, spill=spill, since=since
            )
        taken = history.steps
        for entry in chain(book.released(), book.ahead):
            if entry.step >= taken:
                raise changed(book.path, entry.step, gone=True, carries_on=True)
            if entry.step < raw.steps and entry.data != book.fingerprint(entry.step, raw.digests[entry.step]):
                raise changed(book.path, entry.step, gone=not raw.digests[entry.step], carries_on=True)
        history.keep()
    return raw


def _check_outputs(plan: Plan, book: Ledger, outputs: Mapping[str, Path]) -> None:
    """Nothing when what is published already is in the ledger: an older copy of a ledger would draw it again."""
    with book.transaction():
        for name, file in outputs.items():
            if file.exists():
                stored = stored_release(plan, book, book.steps)
                require_stored(stored.files[name], stored.times, file, marked=not stored.is_release)
