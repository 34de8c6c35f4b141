"""What changed in what a promise rests on: chains, participation, what must stay true, what is public."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.emit.blocks.assumptions import assumptions
from policyc.emit.blocks.user_level import user_level_assumptions
from policyc.emit.difference.change import Change, Effect
from policyc.emit.numbers import counted
from policyc_check.plan.correlation import ChainRecord, IndependentGroup
from policyc_check.plan.stream import ParticipationRecord
from policyc_check.plan.targets import AlphaDPT
from policyc_check.users.claims import promised_user_level
from policyc_runtime.plan import Plan

Known = ChainRecord | IndependentGroup
COMPARED_ELSEWHERE = {"correlation", "participation", "participation_beside", "public_numbers", "one_ledger"}


def compare_assumptions(old: Plan, new: Plan) -> Iterator[Change]:
    """Everything that must stay true, and every number that is public."""
    yield from _chains(old, new)
    yield from _participation(old, new)
    yield from _assumptions(old, new)
    yield from _unprotected(old, new)
    yield from _account(old, new)


def _chains(old: Plan, new: Plan) -> Iterator[Change]:
    if not any(isinstance(target, AlphaDPT) for target in old.targets):
        return
    before, after = _of_groups(old), _of_groups(new)
    yield from _shares(before, after)
    yield from _amounts(before, after)
    for group in (*before, *(group for group in after if group not in before)):
        what = f"how users{f' of group {group}' if group else ''} move"
        was, now = before.get(group), after.get(group)
        if was is not None and now is None:
            reason = "an adversary who knows this is no longer considered"
            yield Change("assumptions", what, _kind(was), None, Effect.WEAKER, reason)
        elif was is None and now is not None:
            # A chain beside a promise that assumed independence considers one adversary more.
            yield Change("assumptions", what, None, _kind(now), Effect.STRONGER, "one more adversary is considered")
        elif was is None or now is None:
            continue
        elif _movement(was) != _movement(now):
            reason = "the promise holds against another adversary; the two cannot be compared"
            other = "another chain" if _kind(was) == _kind(now) else _kind(now)
            yield Change("assumptions", what, _kind(was), other, Effect.WEAKER, reason)
        elif was.evidence != now.evidence:
            same = "the chain is" if isinstance(now, ChainRecord) else "the statement is"
            reason = f"{same} the same; read whether the evidence still carries it"
            yield Change("assumptions", f"evidence for {what}", was.evidence, now.evidence, Effect.NEITHER, reason)


def _shares(before: dict[str | None, Known], after: dict[str | None, Known]) -> Iterator[Change]:
    """How large groups are: a public number, by which nobody is protected."""
    for group, now in after.items():
        was = before.get(group)
        old, new = (
            str(known.share) if isinstance(known, ChainRecord) and known.share else None for known in (was, now)
        )
        if was is None or old == new:
            continue
        effect, reason = Effect.NEITHER, "another public number"
        if old is None:
            effect, reason = Effect.WEAKER, "one more number of the data is published unprotected"
        elif new is None:
            effect, reason = Effect.STRONGER, "one number less is published unprotected"
        yield Change("assumptions", f"the share of group {group}", old, new, effect, reason)


def _amounts(before: dict[str | None, Known], after: dict[str | None, Known]) -> Iterator[Change]:
    """What is assumed of amounts that are summed."""
    for group, now in after.items():
        was = before.get(group)
        if not isinstance(was, ChainRecord) or not isinstance(now, ChainRecord) or was.amounts == now.amounts:
            continue
        what = f"what amounts{f' of group {group}' if group else ''} depend on"
        if now.amounts:
            yield Change("assumptions", what, None, "the cell alone", Effect.WEAKER, "something more must stay true")
        else:
            yield Change("assumptions", what, "the cell alone", None, Effect.STRONGER, "it need no longer be true")


def _of_groups(plan: Plan) -> dict[str | None, Known]:
    """What is said of each group; where nobody has a chain, everybody's steps are taken as independent."""
    known: list[Known] = [*plan.correlation.chains, *(plan.correlation.independent if plan.correlation.chains else ())]
    return {record.group: record for record in known}


def _kind(record: Known) -> str:
    return "a chain" if isinstance(record, ChainRecord) else "independent steps"


def _movement(record: Known) -> object:
    return (record.forward, record.backward, record.initial) if isinstance(record, ChainRecord) else None


def _participation(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = old.participation, new.participation
    if before is None or after is None or before == after:
        return  # a user-level promise has a bound; where it was dropped or is new, so is the promise
    effect, reason = _enforcement(before, after)
    yield Change("assumptions", "participation", _bound(before), _bound(after), effect, reason)


def _enforcement(before: ParticipationRecord, after: ParticipationRecord) -> tuple[Effect, str]:
    if before.enforced and after.enforced:
        if before.enforced != after.enforced:
            return Effect.WEAKER, "other events are kept; the two ways cannot be compared"
        return Effect.NEITHER, "it is enforced, so the promise covers everybody; other events are dropped"
    if before.enforced:
        return Effect.WEAKER, "the bound was enforced and is now only assumed"
    if after.enforced:
        return Effect.STRONGER, "the bound was assumed and is now enforced"
    return _assumed(before, after)


def _assumed(before: ParticipationRecord, after: ParticipationRecord) -> tuple[Effect, str]:
    if _limits(before) == _limits(after):
        return Effect.NEITHER, "the bound is the same; read whether the reason still carries it"
    if after.bound < before.bound or after.per_step < before.per_step or after.spacing > before.spacing:
        return Effect.WEAKER, "more is assumed of users than before"
    return Effect.STRONGER, "less is assumed of users than before"


def _limits(record: ParticipationRecord) -> tuple[int, int, int]:
    return record.bound, record.per_step, record.spacing


def _bound(record: ParticipationRecord) -> str:
    how = record.enforced or f"assumed: {record.assumed}"
    words = f"at most {counted(record.bound, 'step')}, {record.per_step} a step, spacing {record.spacing}"
    return f"{words}, {how}"


def _assumptions(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = _statements(old), _statements(new)
    for key in (*before, *(key for key in after if key not in before)):
        was, now = before.get(key), after.get(key)
        if was is None:
            reason = "something more must stay true"
            yield Change("assumptions", key, None, now, Effect.WEAKER, reason)
        elif now is None:
            yield Change("assumptions", key, was, None, Effect.STRONGER, "it need no longer be true")
        elif was != now and key not in COMPARED_ELSEWHERE:
            yield Change("assumptions", key, was, now, Effect.WEAKER, "something else must stay true")


def _statements(plan: Plan) -> dict[str, str]:
    entries = user_level_assumptions(plan) if promised_user_level(plan) else assumptions(plan)
    return {str(entry["id"]): str(entry["statement"]) for entry in entries if isinstance(entry, dict)}


def _unprotected(old: Plan, new: Plan) -> Iterator[Change]:
    rows = [
        ("the population", _number(old.stream.population), _number(new.stream.population), None),
        ("the start", old.stream.start, new.stream.start, "what the first run is told"),
    ]
    for what, was, now, taken in rows:
        if was == now:
            continue
        if was is None and not taken:
            effect, reason = Effect.WEAKER, "one more number of the data is published unprotected"
        elif now is None and not taken:
            effect, reason = Effect.STRONGER, "one number less is published unprotected"
        else:
            effect, reason = Effect.NEITHER, "another public number"
        yield Change("assumptions", what, was or taken, now or taken, effect, reason)


def _account(old: Plan, new: Plan) -> Iterator[Change]:
    was, now = old.stream.dataset, new.stream.dataset
    if was != now:
        effect = Effect.STRONGER if was is None else Effect.WEAKER
        reason = (
            "other plans on the same users are held together with it" if was is None else "another account, or none"
        )
        yield Change("assumptions", "the data set whose account it shares", was, now, effect, reason)


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"
