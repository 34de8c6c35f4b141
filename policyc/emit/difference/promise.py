"""What changed in the promise itself: targets, unit, time, and what remains when an assumption fails."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from hashlib import sha256

from policyc.emit.blocks.user_limits import kind_of, number_of
from policyc.emit.blocks.wording import relation_of
from policyc.emit.difference.change import Change, Effect
from policyc.emit.numbers import counted, duration, exact
from policyc_check.plan.claims import UserLevelClaim, UserRhoClaim
from policyc_check.plan.stream import DAY, MONTH, CellRecord, StreamRecord
from policyc_check.plan.targets import (
    AlphaDPT,
    AnyUserSteps,
    EventLevel,
    Target,
    UserLevel,
    UserPromise,
    UserRho,
    UserSteps,
    UserStepsRho,
    WEvent,
    adds_or_removes,
    window_of,
)
from policyc_runtime.plan import Plan
from policyc_runtime.sources.calendar import step_of


def compare_promises(old: Plan, new: Plan) -> Iterator[Change]:
    """Targets, unit, horizon and implied bounds."""
    yield from _targets(old, new)
    yield from _unit(old, new)
    yield from _implied(old, new)


def _numbers(target: Target) -> tuple[Decimal, Decimal]:
    """Epsilon, alpha or rho, and delta."""
    if isinstance(target, AlphaDPT):
        return target.alpha, Decimal(0)
    if isinstance(target, UserRho | UserStepsRho):
        return target.rho, Decimal(0)
    return target.epsilon, target.delta or Decimal(0)


def _is_rho(target: Target) -> bool:
    return isinstance(target, UserRho | UserStepsRho)


def _kind(target: Target) -> str:
    """What a promise is about, whatever its number: those of one kind stand for each other."""
    if isinstance(target, UserPromise):
        return "user_level" if target.window is None else kind_of(target)
    return "user_level beside steps" if isinstance(target, AnyUserSteps) else target.kind


def _target_words(target: Target) -> str:
    number, delta = _numbers(target)
    words = [f"rho {exact(number)}" if _is_rho(target) else f"{exact(number)} nats"]
    if isinstance(target, UserPromise):
        words += [*([f"delta {exact(delta)}"] if isinstance(target, UserLevel) else []), target.relation.value]
        if target.per is not None:
            words.append(f"one period of {duration(target.per)}")
    if isinstance(target, AnyUserSteps):
        words += [f"delta {exact(delta)}"] if isinstance(target, UserSteps) else []
        words += [target.relation.value, f"at most {counted(target.bound, 'step')}"]
        length = "" if target.window is None else counted(target.window, "step")
        length = length if target.per is None else duration(target.per)
        words += [f"one period of {length}"] if length else []
    if isinstance(target, EventLevel | WEvent):
        words += [f"delta {exact(delta)}"] if delta else []
        words += [relation_of(target).value] if adds_or_removes(target) else []
    if _window(target) > 1:
        words.append(f"any {_window(target):,} steps in a row")
    return ", ".join(words)


def _implies(new: Target, old: Target) -> bool:
    """Whether who keeps the new target keeps the old one, steps and users being the same."""
    if _kind(new) != _kind(old) or relation_of(new) != relation_of(old) or not _covers(new, old):
        return False
    if _fewer(new, old):
        return False
    if _is_rho(old) and not _is_rho(new):  # a largest loss is a rho, half of its square (BS16)
        (number, delta), (rho, _) = _numbers(new), _numbers(old)
        return delta == 0 and number**2 <= 2 * rho
    if _is_rho(new) != _is_rho(old):
        return False
    (number, delta), (before, delta_before) = _numbers(new), _numbers(old)
    return number <= before and delta <= delta_before and _window(new) >= _window(old)


def _window(target: Target) -> int:
    """The steps in a row that a target covers together; 1 for one that is not about windows."""
    return target.window or 1 if isinstance(target, UserPromise) else window_of(target)


def _covers(new: Target, old: Target) -> bool:
    """Whether all events of the old unit, a user or a period of one, are in one new unit.

    Beside promises about steps, other events of a step may count without those of one part of it; where units are
    replaced by others, larger ones cover that.
    """
    if isinstance(new, AnyUserSteps) and isinstance(old, AnyUserSteps) and new.per != old.per:
        part = isinstance(old.per, int) and (new.per is None or (isinstance(new.per, int) and new.per % old.per == 0))
        return part and not adds_or_removes(new)
    if not (isinstance(new, UserPromise) and isinstance(old, UserPromise)) or new.per is None:
        return True
    if old.per is None or new.per == MONTH or old.per == MONTH:  # noqa: PLR1714  so that mypy sees it
        return new.per == old.per or (isinstance(old.per, int) and DAY % old.per == 0)  # a month is made of days
    return new.per % old.per == 0


def _fewer(new: Target, old: Target) -> bool:
    """Whether the new promise is about users in fewer steps."""
    if not (isinstance(old, AnyUserSteps) and isinstance(new, AnyUserSteps)):
        return False
    shorter = new.window is not None and (old.window is None or new.window < old.window)
    return shorter or new.bound < old.bound


def _targets(old: Plan, new: Plan) -> Iterator[Change]:
    for target in old.targets:
        same = [other for other in new.targets if _kind(other) == _kind(target)]
        kept = next((other for other in same if _implies(other, target)), None)
        if kept is None:
            words = _target_words(same[0]) if same else None
            yield Change("promise", _kind(target), _target_words(target), words, Effect.WEAKER, _loss(target, same))
        elif _target_words(kept) != _target_words(target):
            reason = "who keeps the new one keeps the old one"
            yield Change("promise", _kind(target), _target_words(target), _target_words(kept), Effect.STRONGER, reason)
    for target in new.targets:
        if all(_kind(other) != _kind(target) for other in old.targets):
            yield Change("promise", _kind(target), None, _target_words(target), Effect.STRONGER, "one more promise")


def _loss(old: Target, same: list[Target]) -> str:
    if not same:
        return "a promise was dropped; no other kind of promise is taken for it"
    new = same[0]
    if _is_rho(new) != _is_rho(old):
        return "an epsilon and a rho are other measures of what is told, and cannot be compared"
    (number, delta), (before, delta_before) = _numbers(new), _numbers(old)
    reasons = [
        (number > before, "a larger number promises less"),
        (delta > delta_before, "a larger delta promises less"),
        (_window(new) < _window(old), "fewer steps are covered together"),
        (relation_of(new) != relation_of(old), "other data sets are compared"),
        (not _covers(new, old) or _fewer(new, old), "less of a user is covered together"),
    ]
    return "; ".join(words for holds, words in reasons if holds) or "the promises cannot be compared"


def _unit(old: Plan, new: Plan) -> Iterator[Change]:
    before, after = old.stream, new.stream
    rows: list[tuple[str, str | None, str | None, str]] = [
        ("who is one user", before.user_column, after.user_column, "other persons or things are protected"),
        (
            "the step",
            duration(step_of(before)),
            duration(step_of(after)),
            "one event is now another stretch of time",
        ),
        ("the cells", _cells(old), _cells(new), "other values of an event are hard to tell apart, and published"),
        ("the column of time", before.time_column, after.time_column, "steps are told from something else"),
    ]
    if before.start != after.start and any(map(_has_periods, new.targets)):
        rows.append(("when periods begin", before.start, after.start, "other events are covered together"))
    if before.clock != after.clock:
        rows.append(("the clock", _clock(before), _clock(after), "days and months begin at other moments"))
    for what, was, now, reason in rows:
        if was != now:
            yield Change("promise", what, was, now, Effect.WEAKER, f"{reason}; the two cannot be compared")
    if before.horizon != after.horizon:
        yield Change(
            "promise", "the horizon", _horizon(before.horizon), _horizon(after.horizon), Effect.WEAKER, _span(old, new)
        )


def _has_periods(target: Target) -> bool:
    """Whether a promise is about periods, which begin with the stream."""
    if isinstance(target, AnyUserSteps):
        return target.window is not None
    return isinstance(target, UserPromise) and target.per is not None


def _clock(stream: StreamRecord) -> str | None:
    """The clock with the digest of its changes, which are those of the rules when the plan was compiled."""
    if stream.clock is None:
        return None
    digest = sha256(stream.clock.model_dump_json(include={"changes", "end"}).encode()).hexdigest()
    return f"{stream.clock.zone} (changes: sha256 {digest[:16]}…)"


def _cells(plan: Plan) -> str | None:
    cell = plan.stream.cell
    if cell is None:
        return None
    names = ", ".join(cell.cells[:5]) + (f" and {len(cell.cells) - 5:,} more" if len(cell.cells) > 5 else "")
    absent = f", otherwise {cell.otherwise}" if cell.otherwise is not None else ""
    digest = sha256("\n".join(cell.cells).encode()).hexdigest()
    same = f" (sha256 {digest[:16]}…)" if len(cell.cells) > 5 else ""
    return f"{cell.column} in {names}{same}{_levels(cell)}{absent}"


def _levels(cell: CellRecord) -> str:
    """The levels, each with a hash of what belongs to what."""
    found = []
    for level in cell.levels:
        content = "\n".join((*level.cells, *map(str, level.of)))
        found.append(
            f"{level.column} ({len(level.cells):,} values, sha256 {sha256(content.encode()).hexdigest()[:16]}…)"
        )
    return f" in levels {', '.join(found)}" if found else ""


def _horizon(steps: int | None) -> str:
    return "unbounded" if steps is None else counted(steps, "step")


def _span(old: Plan, new: Plan) -> str:
    longer = new.stream.horizon is None or (old.stream.horizon or 0) < new.stream.horizon
    if old.stream.horizon is not None and longer:
        return "more is published of every user under the same numbers"
    return "the same numbers cover less time, and a plan that follows adds to them"


def _implied(old: Plan, new: Plan) -> Iterator[Change]:
    """What the certificate promises besides: against any correlation, about single steps, beyond the bound."""
    rows: list[tuple[str, Decimal | None, Decimal | None]] = [
        ("all events of a user, whatever their correlation", old.claims.budget_sum, new.claims.budget_sum),
        ("one event of a user, steps taken as independent", old.claims.largest_budget, new.claims.largest_budget),
    ]
    yield from _changed(rows, "{} nats")
    for of in (UserLevelClaim, UserRhoClaim):
        left, after = _beyond(old, of), _beyond(new, of)
        row = " in a row" if any(isinstance(target, UserPromise) and target.window for target in new.targets) else ""
        for key in (key for key in left if key in after):
            what = f"a user beyond the bound, in {counted(key[0], 'step')}{row}"
            yield from _changed([(what, left[key], after[key])], "{} nats" if of is UserLevelClaim else "rho {}")


def _beyond(plan: Plan, of: type[UserLevelClaim | UserRhoClaim]) -> dict[tuple[int, Decimal | None], Decimal | None]:
    """What is left to users beyond the bound, by steps and delta (None of a rho)."""
    claims = [claim for claim in plan.claims.user_level if isinstance(claim, of)]
    return {
        (point.participation, getattr(claim, "delta", None)): number_of(point)
        for claim in claims
        for point in claim.beyond
    }


def _changed(rows: list[tuple[str, Decimal | None, Decimal | None]], unit: str) -> Iterator[Change]:
    for what, was, now in rows:
        if was != now:
            weaker = now is None or (was is not None and now > was)
            effect, reason = (
                (Effect.WEAKER, "what remains when an assumption fails is less")
                if weaker
                else (Effect.STRONGER, "what remains when an assumption fails is more")
            )
            before, after = (None if value is None else unit.format(exact(value)) for value in (was, now))
            yield Change("promise", what, before, after, effect, reason)
