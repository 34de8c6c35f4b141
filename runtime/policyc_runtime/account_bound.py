"""The promise that all plans on one data set keep together, and what some of them tell, by the check's own sums.

About all events of a user the curves of all noise are composed; exact losses and rho are added. About single steps, and
windows of steps, budgets are added: whatever users do, releases of one step by several plans cost the sum, where all
have the same steps. What leaks through a chain is no sum over plans, since all of them see the same moves: such a plan
is held to its budgets alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Annotated, NamedTuple

from pydantic import Field

from policyc_check.plan.plan import Plan
from policyc_check.plan.stream import DAY, MONTH, Length
from policyc_check.plan.targets import EventLevel, UserLevel, UserRho, WEvent, window_of
from policyc_check.records import Name, Record
from policyc_check.rounding import rounded_down
from policyc_check.steps.budgets import window_budget
from policyc_check.users.claims import promised_user_level, setting_of, stream_largest_loss, stream_profile, stream_rho
from policyc_check.users.profile import PrivacyProfile, SumLoss

NATS = 1e-6  # relative width at which a spent epsilon is found

Charges = Iterable[tuple[Plan, int]]
"""Plans, and how often the noise of each is drawn."""


class Bound(Record):
    """What an account holds its plans to, and of which data set they are."""

    dataset: Name
    promise: Annotated[EventLevel | WEvent | UserLevel | UserRho, Field(discriminator="kind")]

    def described(self) -> str:
        """The promise in words."""
        promise = self.promise
        if isinstance(promise, UserLevel | UserRho):
            unit = "all events of a user" + ("" if promise.per is None else f" in one period of {_length(promise.per)}")
            if isinstance(promise, UserRho):
                return f"{unit}: rho {promise.rho}, {_relation(promise)}"
            failing = f" at delta {promise.delta}" if promise.delta else ", and nothing is left to chance"
            return f"{unit}: {promise.epsilon} nats{failing}, {_relation(promise)}"
        wide = window_of(promise)
        return f"one user in {'one step' if wide == 1 else f'any {wide:,} steps in a row'}: {promise.epsilon} nats"

    def limit(self) -> Decimal:
        """The most that may be spent: nats, or rho."""
        return self.promise.rho if isinstance(self.promise, UserRho) else self.promise.epsilon

    @property
    def _of_moments(self) -> bool:
        """Whether the promise is about what happens in a step, window or period, and not about all events of a user."""
        return not isinstance(self.promise, UserLevel | UserRho) or self.promise.per is not None

    def unit(self) -> str:
        """What the limit and all that is spent of it are counted in."""
        if isinstance(self.promise, UserRho):
            return "rho"
        return f"nats at delta {self.promise.delta}" if self.composes else "nats"

    @property
    def composes(self) -> bool:
        """Whether what plans tell together is found from all their noise, and not added."""
        return isinstance(self.promise, UserLevel) and self.promise.delta > 0

    def reason_against(self, plan: Plan, first: Plan | None) -> str | None:
        """Why a plan's promise cannot be added up with those of this account, or None; `first` is one that is in it."""
        return next(self._reasons_against(plan, first), None)

    def _reasons_against(self, plan: Plan, first: Plan | None) -> Iterator[str]:
        stream, promise = plan.stream, self.promise
        if stream.dataset != self.dataset:
            said = "no data set" if stream.dataset is None else f"data set `{stream.dataset}`"
            yield f"the plan names {said}, and the account is that of `{self.dataset}`"
        if first is not None and first.stream.user_column != stream.user_column:
            yield (
                f"its users are those of column `{stream.user_column}`, and those of the account's first plan "
                f"`{first.stream.user_column}`: nobody can tell that they are the same"
            )
        if first is not None and self._of_moments and first.stream.time_column != stream.time_column:
            yield (
                f"its steps are told by column `{stream.time_column}`, and those of the account's first plan by "
                f"`{first.stream.time_column}`: what is one step or period by one may touch several by the other"
            )
        users = promised_user_level(plan)
        if any(target.window is not None for target in users):
            yield "its promise is about steps in a row without budgets of their own, which nobody can add to others"
        if isinstance(promise, UserLevel | UserRho):
            if not users:
                yield "its noise is paid for by budgets of steps, and the account's is about all events of a user"
            if {target.per for target in users} != {promise.per}:
                yield "its promise and the account's are not about the same periods"
            if first is not None and promise.per is not None:
                yield from _reasons_against_periods(plan, first, promise.per)
            yield from self._reasons_against_noise(plan, promise)
        elif users:
            yield "its promise is about all events of a user, and the account's about single steps"
        elif first is not None and not _same_steps(plan, first):
            begins = "no `start`" if first.stream.start is None else f'`start "{first.stream.start}"`'
            yield (
                "its steps are not those of the account's first plan, both with a `start` in the policy: a step of one "
                "may touch several of the other, which together tell more than the sum. That one has "
                f"`step {first.stream.step_text}` and {begins}"
            )

    def _reasons_against_noise(self, plan: Plan, promise: UserLevel | UserRho) -> Iterator[str]:
        """Why the noise of a plan keeps no promise of this kind."""
        if isinstance(promise, UserLevel) and promise.delta > 0:
            for part in plan.measured:
                setting = setting_of(plan, part, promise)
                reason = part.mechanism.reason_against_promise(setting, promise.delta)
                yield from [] if reason is None else [reason]
        elif self._loss(plan) is None:
            yield f"no {'rho' if isinstance(promise, UserRho) else 'limit'} is known of what its noise can tell"

    def keeps(self, charges: Charges) -> bool:
        """Whether some plans together stay within the promise."""
        promise, listed = self.promise, list(charges)
        if not listed:
            return True
        if isinstance(promise, UserLevel) and promise.delta > 0:
            failing = self._profile(listed).delta(rounded_down(promise.epsilon))
            return Fraction(failing) <= Fraction(promise.delta)
        lost = self._sum(listed)
        return lost is not None and lost <= Fraction(self.limit())

    def spent(self, charges: Charges) -> float | None:
        """What some plans tell together, as `said` rounds: nats (at the account's delta), or rho; None for no limit."""
        told = self.told(charges)
        return None if told is None else said(told)

    def told(self, charges: Charges) -> Fraction | None:
        """The same, not rounded where it is a sum."""
        promise, listed = self.promise, list(charges)
        if listed and isinstance(promise, UserLevel) and promise.delta > 0:
            found = _epsilon_at(self._profile(listed), float(promise.delta))
            return None if found is None else Fraction(found)
        return self._sum(listed)

    def _sum(self, charges: Charges) -> Fraction | None:
        losses = [(self._loss(plan), times) for plan, times in charges]
        if any(loss is None for loss, _ in losses):
            return None
        return sum((loss * times for loss, times in losses if loss is not None), Fraction(0))

    def _loss(self, plan: Plan) -> Fraction | None:
        promise = self.promise
        if isinstance(promise, UserRho):
            return stream_rho(plan, promise)
        if isinstance(promise, UserLevel):
            return stream_largest_loss(plan, promise)
        return window_budget(plan, window_of(promise))

    def _profile(self, charges: Charges) -> PrivacyProfile:
        assert isinstance(self.promise, UserLevel), "others are added"
        promise = self.promise
        parts = (repeated(stream_profile(plan, promise), times) for plan, times in charges)
        return reduce(PrivacyProfile.compose, parts)


def said(value: Fraction) -> float:
    """A number rounded up as it is read: its shortest decimal text is no less, and decimals are what they were."""
    near = float(value)
    return near if Fraction(repr(near)) >= value else math.nextafter(near, math.inf)


class Standing(NamedTuple):
    """What stands in an account: nats or rho, as `said` rounds; None for no limit. `left` is rounded down."""

    requested: float | None
    spent: float | None
    limit: Decimal
    left: float


def repeated(profile: PrivacyProfile, times: int) -> PrivacyProfile:
    """What so many independent draws of the same noise lose together."""
    if times == 1:
        return profile
    squares = [profile.mu**2, *(loss.mu**2 for loss in profile.losses if loss.mu is not None)]
    mu = math.sqrt(times * math.fsum(squares)) * (1 + 8 * 2.0**-53) if any(squares) else 0.0
    others = [loss for loss in profile.losses if loss.mu is None]
    losses = tuple(SumLoss(tuple((law, times * count) for law, count in loss.laws)) for loss in others)
    return PrivacyProfile(mu, losses, profile.fineness)


def _epsilon_at(profile: PrivacyProfile, delta: float) -> float | None:
    """The least epsilon whose delta is no larger, from above; None where none is found."""
    high = 1.0
    while profile.delta(high) > delta:
        high *= 2
        if high > 1e4:
            return None
    low = 0.0
    while high - low > NATS * high:
        middle = (low + high) / 2
        low, high = (middle, high) if profile.delta(middle) > delta else (low, middle)
    return high


def _same_steps(plan: Plan, other: Plan) -> bool:
    a, b = plan.stream, other.stream
    zones = [None if stream.clock is None else stream.clock.zone for stream in (a, b)]
    return a.start is not None and (a.start, a.step_text, zones[0]) == (b.start, b.step_text, zones[1])


def _reasons_against_periods(plan: Plan, other: Plan, per: Length) -> Iterator[str]:
    """Why the periods of two plans are not the same ones."""
    zones = {None if one.stream.clock is None else one.stream.clock.zone for one in (plan, other)}
    if len(zones) > 1:
        yield "its days are those of another clock than the account's first plan has"
    starts = [one.stream.start or "" for one in (plan, other)]
    if starts[0] == starts[1] or per == MONTH:
        return
    begins = [datetime.fromisoformat(start) for start in starts]
    if zones != {None}:  # a clock's `start` is a date: days are counted, whatever hours they have
        begins = [begin.replace(tzinfo=None) for begin in begins]
        per = per if per >= DAY or DAY % per else DAY
    zoned = len({begin.tzinfo is None for begin in begins})
    if zoned > 1 or (begins[0] - begins[1]) % timedelta(milliseconds=per):
        yield (
            "its periods begin at other moments than those of the account's first plan, so that one touches two of them"
        )


def _relation(promise: UserLevel | UserRho) -> str:
    return "one user more or less" if promise.relation == "add_or_remove_one" else "one user for another"


def _length(per: Length) -> str:
    if per == MONTH:
        return "a month"
    units: Mapping[str, int] = {"week": 7 * DAY, "day": DAY, "hour": DAY // 24, "minute": 60_000, "second": 1000}
    unit = next((name for name, size in units.items() if per % size == 0), "")
    count = per // units[unit] if unit else per
    return f"{count:,} {unit or 'millisecond'}{'' if count == 1 else 's'}"
