"""What a promise means: what an attacker can come to believe, and how well a test for one user's data can do.

Every number is an upper bound, rounded up, over the whole time span of its promise.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal

from policyc.emit.blocks.user_limits import told_curve
from policyc.emit.blocks.user_steps import steps_curve
from policyc.emit.blocks.wording import Json, JsonValue, event, in_period, span, user
from policyc.emit.numbers import exact, plain, round_up
from policyc_check.plan.targets import (
    AlphaDPT,
    AnyUserPromise,
    AnyUserSteps,
    EventLevel,
    Target,
    UserPromise,
    UserRho,
    UserSteps,
    UserStepsRho,
    WEvent,
    adds_or_removes,
    window_of,
)
from policyc_check.users.profile import PrivacyProfile
from policyc_runtime.plan import Plan

PRIORS = (Decimal("0.1"), Decimal("0.5"))
FALSE_POSITIVES = (Decimal("0.01"), Decimal("0.05"))
CURVE_POINTS = 8
EXACT = Context(prec=40)


def meaning(plan: Plan) -> list[JsonValue]:
    """Block L: one entry a promise."""
    return [_meaning(plan, target, index) for index, target in enumerate(plan.targets, start=1)]


def _meaning(plan: Plan, target: Target, index: int) -> Json:
    about = (
        f"all events of {user(plan)}{in_period(plan, target)} together"
        if isinstance(target, UserPromise | AnyUserSteps)
        else event(plan, window_of(target))
    )
    guess = "right"
    if isinstance(target, UserPromise):
        rows = _exact_curve(told_curve(plan, target), _usual(target))
    elif isinstance(target, UserStepsRho) or (isinstance(target, UserSteps) and target.delta):
        rows = _exact_curve(steps_curve(plan, target), _usual(target))
    else:
        rows, guess = _pure(target), "sure"
    return {
        "promise": f"P{index}",
        "unit_of_privacy": about,
        "time_scope": span(plan),
        "sentence": f"About {about}, from everything that is published over {span(plan)}: "
        + "; ".join(
            f"who is {_percent(row[0])} % {guess} before is at most {row[1]} % {guess} after" for row in rows[0]
        )
        + "; "
        + "; ".join(f"a test that is wrong on {_percent(x)} % of others is right on at most {y} %" for x, y in rows[1])
        + ".",
        "at_even_odds": _even(rows[0][PRIORS.index(Decimal("0.5"))][1], guess),
        "beliefs": [{"before": f"{_percent(before)} %", "after": f"{after} %"} for before, after in rows[0]],
        "tests": [{"false_positives": f"{_percent(x)} %", "power": f"{y} %"} for x, y in rows[1]],
        "method": _method(target, measured=bool(plan.measured)),
    }


def _even(after: str, guess: str) -> str:
    """The one number that everybody understands."""
    if guess == "right":
        return f"A guess that is right in 50 % of cases before is right in at most {after} % after."
    return f"Who is 50 % sure of it before is at most {after} % sure after."


def _method(target: Target, *, measured: bool) -> str:
    if isinstance(target, UserSteps) and target.delta == 0:
        return f"Whatever the adversary knows of how steps of a user depend on each other: {_odds(target)}"
    if isinstance(target, AnyUserSteps):
        return (
            "Beliefs are how often the best guess whether the events are those of the user, or of the neighbor, is "
            "right, after a prior belief of 10 or 50 % in one of them; both follow from "
            f"{'the noise' if measured else 'the budgets'} of all steps in which neighbors differ."
        )
    if isinstance(target, UserPromise) and target.window is not None:
        added = adds_or_removes(target)
        which = "whether these events are in the data" if added else "between two courses of these events"
        return (
            f"Beliefs are how often the best guess {which}, all else being known, is right, after a prior belief of 10 "
            "or 50 % in one of the two; both follow from the exact privacy curve of all noise together."
        )
    if isinstance(target, UserPromise):
        return (
            "Beliefs are how often the best guess whether the user is in the data is right, after a prior belief of 10 "
            "or 50 % that the user is; both follow from the exact privacy curve of all noise together."
        )
    knows = "the stated chain" if isinstance(target, AlphaDPT) else "that steps are independent"
    return f"For an adversary who believes {knows}: {_odds(target)}"


def _odds(target: AlphaDPT | EventLevel | WEvent | UserSteps) -> str:
    return f"odds change by at most exp({exact(_loss(target))})."


Rows = tuple[list[tuple[Decimal, str]], list[tuple[Decimal, str]]]


def _loss(target: AlphaDPT | EventLevel | WEvent | UserSteps) -> Decimal:
    return target.alpha if isinstance(target, AlphaDPT) else target.epsilon


def posterior_bound(prior: Decimal, loss: Decimal) -> Decimal:
    """The largest posterior probability of a value that had a prior, when odds change by at most exp(loss)."""
    weighed = EXACT.multiply(prior, EXACT.exp(loss))
    return EXACT.divide(weighed, EXACT.add(weighed, 1 - prior))


def pure_power(false_positives: Decimal, loss: Decimal) -> Decimal:
    """The largest power of a test at that rate of false positives, when odds change by at most exp(loss)."""
    many = EXACT.multiply(EXACT.exp(loss), false_positives)
    few = EXACT.subtract(Decimal(1), EXACT.multiply(EXACT.exp(-loss), 1 - false_positives))
    return min(many, few, Decimal(1))


def _pure(target: AlphaDPT | EventLevel | WEvent | UserSteps) -> Rows:
    loss = _loss(target)
    return (
        [(prior, _up(posterior_bound(prior, loss))) for prior in PRIORS],
        [(rate, _up(pure_power(rate, loss))) for rate in FALSE_POSITIVES],
    )


def _exact_curve(profile: PrivacyProfile, usual: float) -> Rows:
    """Beliefs and tests from delta at a few epsilons: each is a bound, the smallest counts. `usual` is seldom lost."""
    curve = [(0.0, profile.delta(0.0)), *((e, profile.delta(e)) for e in _grid(2 * usual))]
    beliefs = []
    for prior in PRIORS:
        beliefs.append((max(prior, 1 - prior), _up(Decimal(best_guess(profile, prior)))))
    tests = []
    for rate in FALSE_POSITIVES:
        x = float(rate)
        bounds = [math.exp(min(e, 700.0)) * x + d for e, d in curve] + [
            1 - math.exp(-e) * max(0.0, 1 - x - d) for e, d in curve
        ]
        tests.append((rate, _up(Decimal(min(1.0, *(bound * (1 + 1e-12) for bound in bounds))))))
    return beliefs, tests


def _usual(target: AnyUserPromise | AnyUserSteps) -> float:
    """Nats that are seldom lost."""
    if isinstance(target, UserRho | UserStepsRho):
        return 4 * math.sqrt(target.rho) + float(target.rho)
    return float(target.epsilon)


def best_guess(profile: PrivacyProfile, prior: Decimal) -> float:
    """How often the best guess about something of this prior probability, in (0, 1/2], can be right, rounded up."""
    odds = math.log(float((1 - prior) / prior))
    right = float(1 - prior) + float(prior) * profile.delta(math.nextafter(odds, 0.0) if odds else 0.0)
    # Rounding of these few operations is far below the last digit shown, which is rounded up.
    return min(1.0, right * (1 + 1e-12))


def _grid(largest: float) -> list[float]:
    return [largest * point / CURVE_POINTS for point in range(1, CURVE_POINTS + 1)]


def _percent(value: Decimal) -> str:
    return plain(100 * value)


def _up(value: Decimal) -> str:
    """A probability as percent, rounded up to three digits."""
    return round_up(min(Decimal(100), 100 * value), 3)


def posterior_picture(plan: Plan) -> Json | None:
    """What can be believed after against before, for the first promise that bounds odds; None when there is none."""
    targets = [target for target in plan.targets if not isinstance(target, UserPromise | AnyUserSteps)]
    if not targets:
        return None
    target = targets[0]
    priors = [Decimal(percent) / 100 for percent in range(0, 101, 2)]
    after: list[JsonValue] = [[_percent(prior), _up(posterior_bound(prior, _loss(target)))] for prior in priors]
    before: list[JsonValue] = [[_percent(prior), _percent(prior)] for prior in priors]
    return {
        "id": "posterior",
        "title": "What an attacker can come to believe",
        "description": f"Largest posterior against prior probability of a value, in percent, about "
        f"{event(plan, window_of(target))}, over {span(plan)}.",
        "x": "believed before, %",
        "y": "believed after at most, %",
        "stepped": False,
        "level": None,
        "series": [{"name": "after", "points": after}, {"name": "before", "points": before}],
    }


def user_posterior_picture(plan: Plan) -> Json:
    """How often the best guess about a user can be right after, against before, for the strictest promise."""
    target = min((target for target in plan.targets if isinstance(target, UserPromise)), key=_usual)
    profile = told_curve(plan, target)
    after: list[JsonValue] = []
    for sure in range(50, 101, 5):
        rare = Decimal(100 - sure) / 100
        guessed = 1.0 if rare == 0 else best_guess(profile, rare)
        after.append([str(sure), _up(Decimal(guessed))])
    return {
        "id": "posterior",
        "title": "What an attacker can come to believe",
        "description": f"How often the best guess about all events of {user(plan)}{in_period(plan, target)} can be "
        "right after, against before, "
        f"in percent, over {span(plan)}.",
        "x": "best guess right before, %",
        "y": "right after at most, %",
        "stepped": False,
        "level": None,
        "low": "40",
        "series": [
            {"name": "after", "points": after},
            {"name": "before", "points": [[str(sure), str(sure)] for sure in range(50, 101, 5)]},
        ],
    }
