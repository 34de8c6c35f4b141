"""Days and months of a clock: which lengths it has, and what has not the same number of steps in all of them."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.lengths import DAY, MONTH, Clock, Length
from policyc.semantics.policy import Policy
from policyc.semantics.reading import written
from policyc.semantics.targets import UserLevelTarget

SHORTER = tuple(60_000 * minutes for minutes in (60, 30, 15, 10, 5, 1))  # milliseconds
SHORTEST_MONTH, LONGEST_MONTH = 28 * DAY, 31 * DAY


def check_clock(policy: Policy) -> Iterator[Diagnostic]:
    """Whether steps and periods are lengths of the clock, and what is taken for a day or month that is none."""
    stream = policy.stream
    users = [target for target in policy.targets if isinstance(target, UserLevelTarget)]
    lengths: list[tuple[str, Length | None, Span]] = [("step", stream.step, stream.span)]
    lengths += [("per", target.per, target.span) for target in users]
    for what, length, span in lengths:
        if length == MONTH and stream.clock is None:
            yield Diagnostic(
                "E0238",
                f"`{what}` is a month, and the stream has no clock",
                span,
                because="a month begins when a clock says so, in every zone at another moment",
                help='add `clock "UTC"` to the stream, or the zone whose months are meant: `clock "Europe/Berlin"`',
            )
        elif isinstance(length, int) and stream.clock is not None and not _fits(length, stream.clock):
            yield _unfit(what, length, span, stream.clock)
    yield from _not_always(policy)


def _fits(length: int, clock: Clock) -> bool:
    return length % DAY == 0 if length > DAY else length == DAY or clock.holds_whole(length)


def _unfit(what: str, length: int, span: Span, clock: Clock) -> Diagnostic:
    if length > DAY:
        reason, instead = f"`{written(length)}` is not a whole number of days", (DAY, 7 * DAY)
    else:
        reason = f"not every day of {clock.zone} is made of whole pieces of `{written(length)}`"
        instead = (next((one for one in SHORTER if one <= length and clock.holds_whole(one)), DAY), DAY)
    options = " or ".join(f"`{written(one)}`" for one in sorted(set(instead)))
    put = "; some days of it are shorter or longer than 24h" if len(clock.changes) > 1 else ""
    return Diagnostic(
        "E0238",
        f"`{what}` is no length of the clock: {reason}",
        span,
        because=f"what one user does in one day would lie in parts of steps{put}",
        help=f"write {options}; or leave `clock` out, which makes every day one of 24h from `start` on",
        labels=(Label(clock.span, "the clock"),),
    )


def _not_always(policy: Policy) -> Iterator[Diagnostic]:
    """W0709: numbers of steps that are a usual day or month, and that not every one has."""
    stream, bound, clock = policy.stream, policy.participation, policy.stream.clock
    step, most, per = stream.step_milliseconds, policy.longest_part or 0, policy.period
    if clock is None or stream.step == MONTH:
        return
    usual = most if per is None else _usual(per) // step
    if bound is not None and per is not None and bound.assumed is not None and usual <= bound.steps < most:
        yield _warning(
            policy, per, bound.span,
            f"some have {most}, and noise is made for users who take part in {bound.steps} of these",
            f'write `at_most({most} steps, per = {written(per)}, assumed = "...")`, unless nobody is in all of them',
        )  # fmt: skip
    if step >= DAY or len(clock.changes) == 1:
        return
    for words, steps, span in _counts_of_steps(policy):
        if steps * step % DAY == 0:
            yield _warning(
                policy, steps * step, span,
                f"{words} is {steps} steps, which begin at another hour of the day after every change of the clock",
                f"write `step 1d` for values of days; else keep in mind that {words} moves by what the clock does",
            )  # fmt: skip


def _usual(per: Length) -> int:
    """The milliseconds of a period that has as little as is usual."""
    return SHORTEST_MONTH if per == MONTH else per


def _counts_of_steps(policy: Policy) -> Iterator[tuple[str, int, Span]]:
    """Numbers of steps that a policy may mean days by, with what they are of."""
    period = None if policy.signal is None else policy.signal.arguments.get("period")
    if policy.signal is not None and isinstance(period, int):
        yield "the season", period, policy.signal.span
    for release in policy.releases:
        if release.width is not None:
            yield f"the window of `{release.name}`", release.width, release.span
    for made in policy.made:
        if made.width is not None:
            yield f"the window of `{made.name}`", made.width, made.span
        if made.kind == "total":
            yield f"the block of `{made.name}`", made.steps, made.span
        if made.baseline is not None and made.baseline.every > 1:
            yield f"the distance of values in `{made.name}`", made.baseline.every, made.span


def _warning(policy: Policy, length: Length, span: Span, because: str, help: str) -> Diagnostic:
    clock = policy.stream.clock
    assert clock is not None, "asked under a clock only"
    piece = "month" if length == MONTH else "day" if length == DAY else "stretch of days"
    return Diagnostic(
        "W0709",
        f"not every {piece} of {clock.zone} has the same number of steps",
        span,
        because=because,
        help=help,
        labels=(Label(clock.span, "the clock"),),
    )
