"""Noise that keeps several promises: found for one of them, it is made larger until it keeps all others as well.

More noise never tells more, so a promise that was kept stays so. For which promise noise is found first decides between
mechanisms; all are tried, and the plan with the least error is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from policyc.diagnostics import PolicyError
from policyc.offers import AtDelta, Goal, LargestLoss
from policyc.offers.calibration import least_near, log_excess
from policyc.offers.offer import MechanismOffer, Options
from policyc_check.rounding import rounded_down
from policyc_check.users.claims import composed
from policyc_check.users.noise import added
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms import StreamMechanism

Planned = TypeVar("Planned")
Beside = Sequence[tuple[Setting, Goal]]
"""What else has to be kept: what one user may change, and the promise."""
Parts = Sequence[tuple[StreamMechanism, Setting]]
"""The mechanisms of a plan, and what one user may change in each."""


def least_of_all(found: Sequence[Callable[[], Planned]], error: Callable[[Planned], float]) -> Planned:
    """Of what is planned for each promise first that with the least error.

    Raises:
        PolicyError: nothing keeps all promises, whichever comes first.
    """
    plans, faults = [], []
    for planned in found:
        try:
            plans.append(planned())
        except PolicyError as fault:
            faults.append(fault)
    if not plans:
        raise faults[0]
    return plans[0] if len(plans) == 1 else min(plans, key=error)


def options_for(offer: MechanismOffer, goals: Sequence[Goal], options: Options) -> Options | None:
    """The options of a mechanism with which its noise can keep all of some promises; None for none."""
    for goal in goals:
        found = offer.keeping(goal, options)
        if found is None:
            return None
        options = found
    return options


def keeping_beside(mechanism: StreamMechanism, beside: Beside) -> StreamMechanism | None:
    """A mechanism with as much more noise as further promises take; None where its noise keeps one of them never."""
    for setting, goal in beside:
        if _reason(mechanism, setting, goal):
            return None
        (mechanism,) = keeping(goal, [(mechanism, setting)])
    return mechanism


def _reason(mechanism: StreamMechanism, setting: Setting, goal: Goal) -> bool:
    if isinstance(goal, AtDelta):
        return mechanism.reason_against_promise(setting, goal.delta) is not None
    return goal.lost(mechanism, setting) is None


def keeping(goal: Goal, parts: Parts) -> list[StreamMechanism]:
    """The mechanisms, as they are where they keep a promise together, else all with as much more noise as it takes."""
    if isinstance(goal, AtDelta):
        kept = together(parts).delta(rounded_down(goal.epsilon)) <= rounded_down(goal.delta)
        return [mechanism for mechanism, _ in parts] if kept else within(goal, parts)
    limit, found = Fraction(goal.limit), list(parts)
    while (lost := added(goal.lost(*part) for part in found)) is not None and lost > limit:
        factor = float(lost / limit) ** (1 / goal.power) * (1 + 1e-10)
        found = [(mechanism.with_noise(factor), setting) for mechanism, setting in found]
    return [mechanism for mechanism, _ in found]


def within(goal: AtDelta, parts: Parts) -> list[StreamMechanism]:
    """The mechanisms with the least noise, larger or smaller in all alike, whose curves together keep a goal."""
    epsilon, delta = rounded_down(goal.epsilon), rounded_down(goal.delta)

    def noisier(factor: float) -> list[tuple[StreamMechanism, Setting]]:
        return [(mechanism.with_noise(factor), setting) for mechanism, setting in parts]

    near = least_near(lambda factor: log_excess(together(noisier(factor)).coarse.delta(epsilon), delta), 1.0, 1e-6)
    high = least_near(lambda factor: log_excess(together(noisier(factor)).delta(epsilon), delta), near, 1e-11)
    return [mechanism for mechanism, _ in noisier(high)]


def together(parts: Parts) -> PrivacyProfile:
    """What mechanisms tell together."""
    return composed(mechanism.profile(setting) for mechanism, setting in parts)


def reason_not_beside(kind: type[StreamMechanism], beside: Beside) -> str | None:
    """Why a mechanism does not apply under further promises, or None."""
    for setting, goal in beside:
        reason = kind.reason_not_here(setting)
        if reason is None and not isinstance(goal, LargestLoss):
            reason = kind.reason_not_composed(setting)
        if reason is not None:
            return reason
    return None
