"""How much is promised about all of a user, in words: epsilon at a delta, epsilon with nothing left to chance, or rho.

All that tells these promises apart on a certificate is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial

from policyc.emit.blocks import sentences
from policyc.emit.blocks.wording import listed
from policyc.emit.numbers import exact, grouped, likelihood_factor, round_up, sentence_case, shown
from policyc.emit.odds import group_epsilon, probability_beyond
from policyc_check.plan.claims import CurvePoint, Degradation, RhoLeft, UserLevelClaim, UserRhoClaim
from policyc_check.plan.targets import AnyUserPromise, UserLevel, UserRho, UserStepsRho
from policyc_check.rounding import rounded_up
from policyc_check.users.claims import (
    Promise,
    promised_user_level,
    setting_of,
    stream_largest_loss,
    stream_profile,
    stream_rho,
)
from policyc_check.users.composition import LossLaw
from policyc_check.users.profile import PrivacyProfile, pure_profile
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import MeasuredRelease

Stated = AnyUserPromise | UserLevelClaim | UserRhoClaim | Degradation | RhoLeft
Groups = tuple[tuple[int, str], ...]
GROUPS = (2, 4)  # names of one person, or people who act together, for which it is said what they are promised
SOON_CONVOLVED = 10**5  # values of a loss


def amount(stated: AnyUserPromise | UserLevelClaim | UserRhoClaim) -> str:
    """`1.0 nats`, `rho 0.015`, without the delta."""
    if isinstance(stated, UserRho | UserRhoClaim):
        return f"rho {exact(stated.rho)}"
    return f"{exact(stated.epsilon)} nats"


def kind_of(target: AnyUserPromise) -> str:
    """What is promised, as policies name it."""
    return target.kind if target.window is None else "event_level" if target.window == 1 else "w_event"


def at_delta(stated: AnyUserPromise | UserLevelClaim | UserRhoClaim) -> str:
    """` at delta 0.000001`, where there is one."""
    delta = stated.delta if isinstance(stated, UserLevel | UserLevelClaim) else Decimal(0)
    return f" at delta {exact(delta)}" if delta else ""


def number_of(stated: Stated) -> Decimal | None:
    """The number that `amount` tells; None for nothing."""
    return stated.rho if isinstance(stated, UserRho | UserRhoClaim | RhoLeft) else stated.epsilon


def points_words(curve: tuple[CurvePoint, ...]) -> str:
    """`0.72 nats at delta 0.000001 and 0.8 nats at delta 0.0000001`; empty where none is known."""
    known = [f"{shown(point.epsilon)} nats at delta {exact(point.delta)}" for point in curve if point.epsilon]
    return listed(known) if known else ""


def points_of(plan: Plan, index: int) -> str:
    """Those of a claim."""
    claim = plan.claims.user_level[index]
    return points_words(claim.curve) if isinstance(claim, UserRhoClaim) else ""


def left_words(stated: UserLevelClaim | UserRhoClaim | Degradation | RhoLeft) -> str:
    """What is promised to some, rho with the epsilons that it is."""
    number = number_of(stated)
    if number is None:
        return "nothing"
    if not isinstance(stated, UserRhoClaim | RhoLeft):
        return f"{shown(number)} nats"
    words = points_words(stated.curve)
    return f"rho {shown(number)}" + (f" ({words})" if words else "")


def first_point(plan: Plan, index: int) -> tuple[Decimal, Decimal] | None:
    """Epsilon and delta by which a promise is told as odds; delta 0 for none; None where no epsilon is known."""
    claim = plan.claims.user_level[index]
    if isinstance(claim, UserLevelClaim):
        return promised_epsilon(plan, index), claim.delta
    found = claim.curve[0]
    return None if found.epsilon is None else (found.epsilon, found.delta)


def promised_epsilon(plan: Plan, index: int) -> Decimal:
    """Of a target that is about an epsilon."""
    target = promised_user_level(plan)[index]
    assert isinstance(target, UserLevel), "its claim has an epsilon"
    return target.epsilon


def told_curve(plan: Plan, target: Promise) -> PrivacyProfile:
    """The curve from which beliefs and tests are told; of a largest loss that would take long, that of the loss."""
    profile = stream_profile(plan, target).coarse
    if isinstance(target, UserRho | UserStepsRho) or target.delta > 0:
        return profile
    if (
        sum(times * law.log_probabilities.size for law, times in profile.laws if isinstance(law, LossLaw))
        < SOON_CONVOLVED
    ):
        return profile
    return pure_profile(rounded_up(_known(stream_largest_loss(plan, target))))


def beyond(plan: Plan, index: int) -> tuple[str, str]:
    """How probable it is, at most, that a result changes odds by more than the factor that is told; and `limit_words`.

    Of noise that has a largest loss the curve may say more, on its lattice.
    """
    point, target = first_point(plan, index), promised_user_level(plan)[index]
    assert point is not None, "asked where a factor is told"
    limit = stream_largest_loss(plan, target)
    return chance_beyond(partial(stream_profile, plan, target), point[0], limit), limit_words(limit)


def chance_beyond(curve: Callable[[], PrivacyProfile], epsilon: Decimal, limit: Fraction | None) -> str:
    """A bound on the probability of losing more than `epsilon`, nats, rounded up, where no loss is above the limit."""
    if limit is not None and limit <= Fraction(epsilon):
        return "0"
    return round_up(probability_beyond(curve(), float(epsilon)), 2)


def limit_words(limit: Fraction | None) -> str:
    """`, and never by more than 1.00001 nats`; empty without a limit."""
    return "" if limit is None else f", and never by more than {round_up(limit, 6)} nats"


def together(plan: Plan) -> Groups:
    """What so many users who act together are promised, by the first promise.

    Losses of several add up; a rho grows with the square of how many there are (BS16): they may be in the same steps.
    """
    (target, *_) = promised_user_level(plan)
    if isinstance(target, UserRho):
        rho = _known(stream_rho(plan, target))
        return tuple((size, f"rho {shown(size**2 * rho)}") for size in GROUPS)
    if target.delta == 0:
        most = _known(stream_largest_loss(plan, target))
        return tuple((size, f"{shown(size * most)} nats") for size in GROUPS)
    profile, limit = stream_profile(plan, target), stream_largest_loss(plan, target)
    alone = math.inf if limit is None else rounded_up(limit)
    found = [(size, min(group_epsilon(profile, float(target.delta), size), size * alone)) for size in GROUPS]
    return tuple(
        (size, f"{grouped(round_up(epsilon, 3))} nats" if math.isfinite(epsilon) else "nothing")
        for size, epsilon in found
    )


def _known(loss: Fraction | None) -> Fraction:
    assert loss is not None, "verified before"
    return loss


def recomputed(plan: Plan, index: int) -> str:
    """What the noise of all releases together keeps."""
    claim, target = plan.claims.user_level[index], promised_user_level(plan)[index]
    if isinstance(claim, UserRhoClaim):
        points = points_of(plan, index)
        found = f"rho {round_up(_known(stream_rho(plan, target)))}" + (f", which is {points}" if points else "")
    elif claim.delta == 0:
        found = f"{round_up(_known(stream_largest_loss(plan, target)))} nats, with nothing left to chance"
    else:
        found = f"{amount(claim)}{at_delta(claim)}"
    return f"{found}, from the noise of all releases together"


def released_loss(plan: Plan, release: MeasuredRelease) -> str | None:
    """What one release takes of a promise that adds up over releases; None for others."""
    (target, *_) = promised_user_level(plan)
    setting = setting_of(plan, release, target)
    if isinstance(target, UserRho):
        return f"rho {round_up(_known(release.mechanism.rho(setting)))}"
    if target.delta == 0:
        return f"{round_up(_known(release.mechanism.largest_loss(setting)))} nats"
    return None


def amount_told(plan: Plan, index: int) -> str:
    """How much is told at most: `at most 1.0 nats at delta 0.000001`."""
    target = promised_user_level(plan)[index]
    return f"at most {amount(target)}{at_delta(target)}"


def told_of_results(plan: Plan, index: int, other: str) -> str:
    """What that says of sets of results, as sentences."""
    target, point = promised_user_level(plan)[index], first_point(plan, index)
    results, of_period = "", "" if target.per is None else " of the period"
    if target.window is not None:
        of_period = " of that step" if target.window == 1 else " of those steps"
    if point is not None:
        plus = f", plus {exact(point[1])}" if point[1] > 0 else ""
        results = (
            f"any set of results has at most {likelihood_factor(point[0])} times the probability with that user's "
            f"data{of_period} that it has {other}{plus}, and the other way round."
        )
    if isinstance(target, UserRho):
        points = points_of(plan, index)
        told = "Rho is zero-concentrated differential privacy: no more nats than that are told on average"
        return f"{told}, and at most {points}. By the first of these, {results}" if results else f"{told}."
    certain = "Nothing is left to chance. " if target.delta == 0 else ""
    return f"{certain}{sentence_case(results)}"


def in_odds(plan: Plan, index: int, span: str) -> str:
    """What a promise says about odds, and how often it does not."""
    target, point = promised_user_level(plan)[index], first_point(plan, index)
    believed = "Whatever is believed before, and however a user's steps are connected, the odds"
    if target.window is not None:
        believed = f"Whatever is believed before, {sentences.UNCONNECTED}, the odds"
    if point is None:
        return f"{believed} between these two cases have no limit that could be told, over {span}."
    told = f"{believed} between these two cases change by a factor of at most {likelihood_factor(point[0])} over {span}"
    chance, limit = beyond(plan, index) if point[1] else ("0", "")
    if chance == "0":
        return f"{told}. {sentences.NEVER_MORE}"
    return f"{told}. {sentences.MORE.format(chance=chance, limit=limit)} {sentences.WEIGHED}" + (
        " A rho leaves no result out and limits none: rarer ones may change odds by more, and then by ever less likely "
        "amounts."
        if isinstance(target, UserRho) and not limit
        else ""
    )
