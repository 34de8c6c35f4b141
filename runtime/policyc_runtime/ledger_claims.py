"""What `verify` says about a ledger: whose it is, that it is whole, and that it spent what its plan says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from json import JSONDecoder
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policyc_check.claims import Claim
from policyc_runtime.errors import LedgerError
from policyc_runtime.ledger_checkpoint import read_checkpoint
from policyc_runtime.ledger_entry import Entry
from policyc_runtime.ledger_file import BUSY, ON_SIMULATED_EVENTS, SEEDED, altered, policy_hash
from policyc_runtime.ledger_private import PRIVATE, checkpoint_file, file_mark, history_file, key_file, load_key
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.ledger_seal import OLDER
from policyc_runtime.noisy_values import waiting_steps
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.taken_steps import steps_are_whole

UNREADABLE = (ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


LARGEST_VALUE = 1e300
Entries: TypeAlias = Mapping[str, list[Entry]]
"""By release its entries, by step, with those that still wait."""
Told: TypeAlias = Mapping[str, list[Any]]
"""By release what its entries say, by step: a list of numbers each, or None."""


def ledger_claims(
    plan: Plan, path: str | Path, pin: Path | None = None, released: str | Path | None = None
) -> Iterator[Claim]:
    """One line a claim about the ledger in a file, for `policyc verify`; changes nothing, needs no private file.

    Args:
        plan: verified.
        path: the ledger's file.
        pin: the file by which the plan's directory names its ledger; default as for a run.
        released: a file to compare with the ledger, as `release_claims` does; of one that holds it is read once.
    """
    from policyc_runtime.released_file import release_claims

    try:
        with LedgerReader.open_read_only(path, pin) as ledger:
            held = True
            for claim in claims_of(ledger, plan):
                held &= claim.holds is not False
                yield claim
            if released is not None and held:
                yield from release_claims(plan, ledger, released)
                return
    except LedgerError as error:
        detail = error.message if error.because is None else f"{error.message}: {error.because}"
        yield Claim("the ledger can be read and is unaltered", False, detail, error.where, error.code)
        if error.code == BUSY:
            return  # whoever holds it was waited for once
    except UNREADABLE as error:
        detail = f"an entry has values that no run writes ({type(error).__name__})"
        yield Claim("the ledger can be read and is unaltered", False, detail, str(path), "E0823")
    if released is not None:
        yield from release_claims(plan, path, released)


def require_claims(ledger: LedgerReader, plan: Plan) -> None:
    """Nothing when the ledger belongs to the plan and spends what the plan says.

    Raises:
        LedgerError: the first claim that does not hold.
    """
    try:
        failed = next((claim for claim in claims_of(ledger, plan) if claim.holds is False), None)
    except UNREADABLE:
        raise altered(ledger.path, "an entry whose values no run writes") from None
    if failed is not None:
        raise LedgerError(failed.code, f"{failed.name}: no; {failed.detail}", where=failed.where)


def claims_of(ledger: LedgerReader, plan: Plan) -> Iterator[Claim]:
    """One line a claim about an opened ledger, whose chain is then known to be intact."""
    where = str(ledger.path)
    if not ledger.meta:
        detail = "the run that was to begin it ended before; nothing was drawn, run the plan again"
        yield Claim("the ledger was begun", None, detail, where, "E0820")
        return
    count = f"{ledger.state.entries:,} entries"
    yield Claim("the ledger's chain is unbroken and ends at its head", True, f"{count}, hashes recomputed", where)
    yield from ledger.seals.claims(ledger.meta["ledger"], ledger.state, ledger.sha256)
    noted = read_checkpoint(ledger.path)
    if noted is not None and noted.is_of_more(ledger.meta["ledger"], ledger.state):
        file = str(checkpoint_file(ledger.path))
        yield Claim("the ledger has all that its last run noted", False, OLDER, file, "E0848")
    yield _private_files(ledger)
    same = ledger.meta["plan"] == plan.digest and ledger.meta["policy"] == policy_hash(plan)
    said = f"plan {ledger.meta['plan'][:16]}…"
    if not same and ledger.unspent:
        same, said = True, "nobody's yet: it has no entries, and the next run takes it"
    yield Claim("the ledger is of this plan", same, said, where, "E0821")
    if not same:
        return
    drawn = ledger.meta["generator"]
    name = "noise was drawn from the operating system's cryptographic generator"
    yield Claim(name, drawn != SEEDED, f"the ledger says: {drawn}", where, "E0828")
    if drawn == ON_SIMULATED_EVENTS:
        said = "this is NOT A RELEASE: what it publishes is about nobody"
        yield Claim("the events that were counted were simulated, and the ledger says so", True, said, where)
    names = [release.name for release in plan.releases]
    once = len(ledger.entries) == ledger.steps * len(names)  # first: the last entry may say any step
    if once:
        expected = [(step, name) for step in range(ledger.steps) for name in names]
        once = [(entry.step, entry.release) for entry in ledger.entries] == expected
    yield Claim("every step was released exactly once", once, f"{ledger.steps:,} steps", where, "E0823")
    if once:
        entries = {name: ledger.drawn(name) for name in names}
        noisy = {name: _rows(entry.noisy for entry in found) for name, found in entries.items()}
        published = {name: _rows(e.published for e in ledger.entries if e.release == name) for name in names}
        for entry in ledger.ahead:  # of which those that are released are not among the drawn ones
            _rows([entry.noisy, entry.published])
        if ledger.ahead:
            yield _ahead(ledger, plan)
        yield _spending(ledger, plan)
        records = _records(ledger, plan, entries, noisy)
        yield records
        if records.holds is False:
            return
        yield from _processes(ledger, plan, entries, noisy)
        yield from _published(ledger, plan, noisy, published)


def _rows(texts: Iterable[str]) -> list[Any]:
    """What entries say: a list of finite numbers each, or None; ValueError for what no run writes."""
    rows, read = [], JSONDecoder().raw_decode
    for text in texts:
        row, end = read(text)
        if end != len(text):
            raise ValueError("this is no list that a run writes")
        rows.append(row)
    numbers = list(chain.from_iterable(row for row in rows if row is not None))
    if not {*map(type, numbers)} <= {int, float} or not all(map(LARGEST_VALUE.__gt__, map(abs, numbers))):
        raise ValueError("this is no number that a run writes")
    return rows


def _ahead(ledger: LedgerReader, plan: Plan) -> Claim:
    """Whether noise that was drawn ahead of its values was drawn once, and is what the step was released with."""
    name = "noise that was drawn before its values could be published is what they were made of"
    steps = sorted({entry.step for entry in ledger.ahead})
    waiting = [step for step in steps if step >= ledger.steps]
    fits = waiting == list(range(ledger.steps, ledger.steps + len(waiting))) and len(waiting) <= waiting_steps(plan)
    released = {(entry.step, entry.release): entry for entry in ledger.entries}
    for entry in ledger.ahead:
        found = released.get((entry.step, entry.release), entry)
        if not fits or _drawn(found) != _drawn(entry):
            return Claim(name, False, f"step {entry.step} of `{entry.release}`", str(ledger.path), "E0823")
    return Claim(name, True, f"{len(steps):,} steps compared, {len(waiting)} still wait", str(ledger.path))


def _drawn(entry: Entry) -> Entry:
    """What an entry says of noise, without what was made of it."""
    return entry._replace(published="", process="", known=0)


def _private_files(ledger: LedgerReader) -> Claim:
    """Whether key and history, where they lie beside the ledger, are those that it knows."""
    name = "the private files that lie beside the ledger are its own"
    key, history = key_file(ledger.path), history_file(ledger.path)
    found = [file for file in (key, history) if file.exists()]
    if not found:
        detail = f"there are none in `{PRIVATE}/`: only their owner can compare the data behind the steps"
        return Claim(name, True, detail, str(key.parent))
    try:
        if key in found and ledger.entries:
            load_key(ledger.path, ledger.meta["key"])
        known = history not in found or file_mark(history) in ledger.history
        if not known or not steps_are_whole(ledger.path):
            return Claim(name, False, "the history was altered, or put back from an older copy", str(history), "E0840")
    except LedgerError as error:
        return Claim(name, False, error.message, error.where, error.code)
    except OSError:
        return Claim(name, None, "they cannot be read by whoever verifies", str(key.parent))
    return Claim(name, True, f"{len(found)} compared with the check values in the ledger", str(key.parent))


def _records(ledger: LedgerReader, plan: Plan, entries: Entries, noisy: Told) -> Claim:
    """Whether every record of a stream mechanism is one, and everything derived follows from records."""
    from policyc_runtime.noisy_values import same_as_recorded

    name = "what was drawn is what the plan's mechanisms record, and what is derived follows from it"
    seen = {name: [entry.known for entry in found] for name, found in entries.items()}
    wrong = same_as_recorded(plan, noisy, seen)
    detail = f"{ledger.steps:,} steps read" if wrong is None else f"the entries of `{wrong}` are not"
    return Claim(name, wrong is None, detail, str(ledger.path), "E0823")


def _processes(ledger: LedgerReader, plan: Plan, entries: Entries, told: Told) -> Iterator[Claim]:
    """Whether the processes that estimators used are those that the noisy values speak for, computed again."""
    from policyc_runtime.estimates import described_processes, unexplained_step
    from policyc_runtime.noisy_values import stored_noisy

    for release in plan.releases:
        rows = entries[release.name]
        used = [entry.process for entry in rows]
        asked = release.estimator.asks_noisy_values and plan.one_law
        if not rows or not (asked or any(used)):
            continue
        noisy = stored_noisy(plan, release, told[release.name])
        step = unexplained_step(plan, release, noisy, used)
        name = f"what the users of `{release.name}` were taken to move like is what its noisy values speak for"
        detail = described_processes(used) if step is None else f"at step {step} they speak for something else"
        yield Claim(name, step is None, detail, str(ledger.path), "E0823")


def _published(ledger: LedgerReader, plan: Plan, every: Told, published: Told) -> Iterator[Claim]:
    """Whether the published values are what the plan's estimators make of the noisy ones, computed again."""
    from policyc_runtime.publication import unexplained_value

    then = _Then(plan, ledger, every)
    for release in plan.releases:
        rows = [entry for entry in ledger.entries if entry.release == release.name]
        if not rows:
            continue
        name = f"the published values of `{release.name}` are what its estimator makes of the noisy ones"
        if plan.agrees(release.name):
            name += ", made to agree"
        drawn = every[release.name]
        noisy = partial(then.noisy, release)
        values = published[release.name]
        count = values.index(None) if None in values else len(values)
        shape = (count, len(release.cells))
        kinds = {*map(type, chain.from_iterable(values[:count]))}
        plain = kinds <= ({int} if release.integer else {int, float})
        numbers = np.array(values[:count], dtype=np.float64)
        step: int | None = 0
        if plain and values[count:] == [None] * (len(values) - count) and numbers.size == shape[0] * shape[1]:
            known, used = [entry.known for entry in rows], [entry.process for entry in rows]
            used += used[-1:] * (len(drawn) - len(used))  # of steps that wait: no other step's value asks for it
            step = unexplained_value(plan, release, noisy, len(drawn), numbers.reshape(shape), known, used)
        detail = f"{count:,} steps estimated again" if step is None else f"at step {step} they are not"
        yield Claim(name, step is None, detail, str(ledger.path), "E0823")


class _Then:
    """Noisy values as they were when so many steps had been measured, those of levels that agree made so.

    Args:
        plan: of the ledger.
        ledger: it.
        every: by release, what was drawn at each step.
    """

    def __init__(self, plan: Plan, ledger: LedgerReader, every: Told) -> None:
        self._plan = plan
        self._every = every
        self._entries = {one.name: [e for e in ledger.entries if e.release == one.name] for one in plan.releases}
        self._now: dict[str, NDArray[np.float64]] = {}
        self._agreed: dict[int, dict[str, NDArray[np.float64]]] = {}

    def noisy(self, release: ReleasePlan, measured: int) -> NDArray[np.float64]:
        """Of one release, from the first step on."""
        plan, steps = self._plan, len(self._every[release.name])
        waits = plan.delivery.longest_wait != 0
        if plan.agrees(release.name):  # of noisy values that are made to agree no later one says more
            waits = waits and not all(one.estimator.of_one_step for one in plan.releases if plan.agrees(one.name))
            return self._together(measured if waits else steps, waits=waits)[release.name][:measured]
        return self._stored(release, measured if waits else steps)[:measured]

    def _stored(self, release: ReleasePlan, measured: int) -> NDArray[np.float64]:
        """As they were then; kept of all steps."""
        from policyc_runtime.noisy_values import stored_noisy

        drawn = self._every[release.name]
        if measured < len(drawn):
            return stored_noisy(self._plan, release, drawn[:measured])
        if release.name not in self._now:
            self._now[release.name] = stored_noisy(self._plan, release, drawn)
        return self._now[release.name]

    def _together(self, measured: int, *, waits: bool) -> dict[str, NDArray[np.float64]]:
        """All releases as they were then, from the step on that was published then where values wait for later ones."""
        from policyc_runtime.estimates import agreed

        if measured not in self._agreed:
            entries = next(iter(self._entries.values()))
            first = next((entry.step for entry in entries if entry.known == measured), 0) if waits else 0
            rows = {name: [e.published for e in found[:first]] for name, found in self._entries.items()}
            published = {name: np.array([json.loads(row) for row in found]) for name, found in rows.items()}
            used = {name: [e.process for e in found[first:measured]] for name, found in self._entries.items()}
            noisy = {one.name: self._stored(one, measured) for one in self._plan.releases}
            told = {name: found if any(found) else None for name, found in used.items()}
            self._agreed[measured] = agreed(self._plan, noisy, first, published, told)
        return self._agreed[measured]


def _spending(ledger: LedgerReader, plan: Plan) -> Claim:
    """Whether every entry has the plan's budget and noise scale."""
    name = "every step spent the plan's budget at the plan's noise scale"
    if plan.stream.horizon is not None and ledger.steps > plan.stream.horizon:
        return Claim(name, False, "there are more steps than the horizon", str(ledger.path), "E0823")
    for release in plan.scheduled:  # what others spend is the noise of their mechanism, for the whole stream
        steps = max(entry.step for entry in (*ledger.entries, *ledger.ahead)) + 1 if ledger.entries else 0
        epsilons, scales = release.schedule.epsilons(steps), release.schedule.scales(steps)
        for entry in (*ledger.entries, *ledger.ahead):
            if entry.release == release.name and (entry.epsilon, entry.scale) != (
                str(epsilons[entry.step]),
                str(scales[entry.step]),
            ):
                return Claim(name, False, f"step {entry.step} did not", str(ledger.path), "E0823")
    return Claim(name, True, f"{len(ledger.entries):,} entries compared as exact decimals", str(ledger.path))
