"""What every number in a certificate's sentences is held against: a number computed another way than the page's.

`PATTERNS` maps the words around numbers to a check. A number that stands in no such words has no check, and is a fault.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from scipy.stats import norm

from policyc.offers import calibrate
from policyc.offers.calibration import l2_sensitivity
from policyc.planning.leakage.witness import found_attack
from policyc_check.mechanisms import Derived
from policyc_check.plan.stream import MONTH, ParticipationRecord, longest
from policyc_check.plan.targets import AlphaDPT, NeighboringRelation, UserLevel, UserRho, UserSteps, UserStepsRho
from policyc_check.records import MOST_COINS
from policyc_check.steps.chains import Chain
from policyc_check.users.claims import composed, promised_user_level, setting_of, stream_profile, unit_of
from policyc_runtime.estimation import flows, safeguard
from policyc_runtime.estimation.count_process import CountProcess
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.noisy_values import noise_stddevs
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.witness import Witness, witnesses_of

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:[eE]-?\d+)?(?!\w)")
QUOTED = re.compile(r"`[^`]*`|“[^”]*”")
MILLISECONDS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000, "millisecond": 1}
N = r"(\d[\d,]*(?:\.\d+)?(?:[eE]-?\d+)?)"
SPAN = rf"{N} steps? \({N} (month|day|hour|minute|second|millisecond)s?\)"
POINTS = rf"{N} nats at delta {N}, {N} nats at delta {N} and {N} nats at delta {N}"
UNITS = MILLISECONDS | {MONTH: longest(MONTH)}
HOURS = r"(\d[\d,]*(?:/\d+)?)"
LENGTH = rf"{N} (month|day|hour|minute|second|millisecond)s?"
NAMES_OF_THINGS = {  # strings that are names, words of the policy, machine values, or citations (`test_sources.py`)
    "sha256", "plan_digest", "compiler", "evidence", "states", "values", "purpose", "parameters", "sources", "points",
    "id", "claims", "user_level_claims", "constraints", "kind", "text", "policy",
}  # fmt: skip
NAMES_OF_CANDIDATES = {
    ("candidates", "name"), ("candidates", "schedule"), ("candidates", "mechanism"), ("candidates", "estimator"),
    ("bars", "name"),
}  # fmt: skip
FORMULAS = [  # arithmetic in what a mechanism or estimator says of itself
    r"/ \(2 stddev\^2\)", r"exp\(-x\^2", r"\(1 - \w+", r"\(t-1\)", r"AR\(1\)", r"1 / rate", r"coins / [24]",
    r"d \+ 1 steps", r"at delta 0;", r"delta, 0 included", r"weight(?:ed)? (?:by w < )?1", r"t = 1, 2", r"w = 1,",
    r"decay 1 it", r"w < 1", r"exponent are 0", r"step 0 ", r"Theorem [56]\.1",
]  # fmt: skip


def sentences(value: Any, path: tuple[str, ...] = (), parent: Any = None) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Every text with words and a number in it: where it stands, the text, and the record that it stands in."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in NAMES_OF_THINGS and (*path[-1:], key) not in NAMES_OF_CANDIDATES:
                yield from sentences(item, (*path, key), value)
    elif isinstance(value, list):
        for item in value:
            yield from sentences(item, path, item if isinstance(item, dict) else parent)
    elif isinstance(value, str) and re.search("[A-Za-z]{2}", value) and NUMBER.search(QUOTED.sub("", value)):
        yield path, value, parent


def number(text: str) -> float:
    return float(text.replace(",", ""))


@dataclass(frozen=True)
class Told:
    """One sentence of a certificate, and the plan that it tells of."""

    plan: Plan
    content: Any
    path: tuple[str, ...]
    parent: Any
    text: str

    @cached_property
    def user_level(self) -> UserLevel | UserRho:
        return promised_user_level(self.plan)[0]

    @property
    def epsilons(self) -> list[float]:
        """What is promised, nats, one a target; of a rho what its curve is at the largest delta that is told."""
        return [float(self.point(t)[0]) for t in self.plan.targets]

    def point(self, target: Any) -> tuple[Decimal, Decimal]:
        """Epsilon, or alpha, and delta, by which a promise is told."""
        if isinstance(target, UserRho):
            found = self.plan.claims.user_level[0].curve[0]
            return found.epsilon, found.delta
        if isinstance(target, UserStepsRho):
            budgets, delta = costliest(self, target), Decimal("1e-6")
            curve = curve_of_told(self, target)
            points = np.linspace(0, sum(budgets), 4001).tolist()
            return Decimal(points[bisect_left(points, True, key=lambda e: curve(e) <= delta)]), delta
        nats = target.alpha if isinstance(target, AlphaDPT) else target.epsilon
        return nats, getattr(target, "delta", None) or Decimal(0)

    @cached_property
    def budgets(self) -> list[Fraction]:
        """Budget of every step, all releases together, added up from the plan's segments; a stretch of endless ones."""
        steps = self.plan.stream.horizon or 1_000
        total = [Fraction(0)] * steps
        for release in self.plan.releases:
            one = [
                epsilon
                for segment in release.schedule.segments
                for _ in range(segment.repeats or -(-steps // len(segment.epsilons)))
                for epsilon in segment.epsilons
            ]
            total = [a + Fraction(b) for a, b in zip(total, one, strict=False)]
        return total


@cache
def delta_at(plan: Plan, target: UserLevel | UserRho, epsilon: float, bound: int | None = None) -> float:
    """Delta of everything that is published, at `epsilon`, for users who take part so often."""
    return stream_profile(plan, target, bound).coarse.delta(epsilon)


def beside_steps(plan: Plan) -> list[UserSteps | UserStepsRho]:
    return [target for target in plan.targets if isinstance(target, UserSteps | UserStepsRho)]


def costliest(told: Told, target: UserSteps | UserStepsRho) -> list[float]:
    """The budgets of the costliest steps in which neighbors differ, from the plan's segments."""
    most = target.bound * (2 if target.relation is NeighboringRelation.REPLACE_ONE else 1)
    found = list(map(float, told.budgets))
    if target.window is not None:  # rank by rank, the largest of all stretches
        stretches = [sorted(found[at : at + target.window]) for at in range(len(found) - target.window + 1)]
        found = list(map(max, zip(*stretches, strict=True)))
    return sorted(found)[-most:]


def responses(budgets: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Losses of randomised response, step after step, each rounded down to 1e-4, and their probabilities."""
    sizes = [int(budget * 1e4) for budget in budgets]
    law = np.ones(1)
    for size, budget in zip(sizes, budgets, strict=True):
        wider = np.zeros(law.size + 2 * size)
        truth = math.exp(budget) / (1 + math.exp(budget))
        wider[2 * size :] += truth * law
        wider[: law.size] += (1 - truth) * law
        law = wider
    return (np.arange(law.size) - sum(sizes)) * 1e-4, law


def rho_at(told: Told, nats: str, delta: str) -> None:
    """What a rho of steps is at a delta: the least epsilon that the costliest steps keep, hardly more."""
    (target,) = beside_steps(told.plan)
    curve = curve_of_told(told, target)
    assert curve(number(nats)) <= number(delta) <= curve(number(nats) * 0.998), nats


def costliest_together(told: Told, nats: str, steps: str) -> None:
    """What the costliest steps spend, and in how many neighbors differ."""
    found = [costliest(told, target) for target in beside_steps(told.plan)]
    assert any(len(budgets) == number(steps) for budgets in found)
    up(number(nats), next(sum(budgets) for budgets in found if len(budgets) == number(steps)), 6)


def left_to_chance(told: Told, delta: str, nats: str, steps: str, lost: str) -> None:
    """What the costliest steps leave to chance at the promised epsilon, and what they spend."""
    costliest_together(told, lost, steps)
    (target,) = (t for t in beside_steps(told.plan) if float(told.point(t)[0]) == number(nats))
    true = curve_of_told(told, target)(number(nats))
    assert true <= number(delta) <= min(float(target.delta), true * 1.1), (delta, true)


def curve_of_told(told: Told, target: Any) -> Callable[[float], float]:
    if not isinstance(target, UserSteps | UserStepsRho):
        return curve_of(told.plan, target)
    losses, law = responses(costliest(told, target))
    return lambda epsilon: float(law @ np.maximum(0.0, -np.expm1(epsilon - np.maximum(losses, epsilon))))


def curve_of(plan: Plan, target: UserLevel, bound: int | None = None) -> Callable[[float], float]:
    return lambda epsilon: delta_at(plan, target, epsilon, bound)


def up(found: float, true: float, digits: int) -> None:
    """A number is the true one rounded up to so many digits."""
    assert true * (1 - 1e-9) <= found <= true * (1 + 10 ** (1 - digits)) + 1e-300, (found, true)


def near(found: float, true: float, relative: float = 0.006) -> None:
    assert math.isclose(found, true, rel_tol=relative), (found, true)


def said(told: Told, steps: str, size: str, unit: str) -> None:
    """A time span: the plan's horizon, and as long as that many steps are."""
    assert number(steps) == told.plan.stream.horizon
    assert number(size) * UNITS[unit] == number(steps) * told.plan.stream.step_milliseconds


def one_step(told: Told, size: str, unit: str) -> None:
    assert number(size) * UNITS[unit] == told.plan.stream.step_milliseconds


def common(told: Told, found: str) -> None:
    """What several runs of a still stream are off by on average, which own noise hardly adds to."""
    (release,) = (release for release in told.plan.measured if release.name == told.parent["release"])
    setting = setting_of(told.plan, release, told.user_level)
    eta, part = float(release.mechanism.common_stddev), float(release.mechanism.part)
    near(number(found), eta * part * setting.contribution * float(unit_of(told.plan, release)))


def milliseconds(hours: str) -> str:
    """Of whole hours or a fraction of some."""
    return str(Fraction(hours.replace(",", "")) * 3_600_000)


def of_period(told: Told, size: str, unit: str) -> None:
    """The length of the periods that the promise is about."""
    beside = [target.per for target in beside_steps(told.plan) if target.per is not None]
    assert number(size) * UNITS[unit] in map(longest, beside or [told.user_level.per])


def lengths_of_periods(told: Told) -> set[int]:
    """How many steps periods of a clock have, counted one by one, but the last, which the horizon may cut."""
    if told.plan.stream.clock is None:
        return set()
    calendar = calendar_of(told.plan, told.plan.stream.clock.changes[0][0] * 1_000_000)
    return set(np.bincount(calendar.period_of(np.arange(told.plan.stream.horizon)))[:-1].tolist())


def block_steps(told: Told, steps: str) -> None:
    """No fewer steps are touched in as few blocks by the longest period, wherever it begins."""
    longest_period, said_steps = max(lengths_of_periods(told)), int(number(steps))

    def touched(block: int) -> int:
        return max(len({step // block for step in range(n, n + longest_period)}) for n in range(block))

    assert all(touched(fewer) > touched(said_steps) for fewer in range(1, said_steps))
    assert any(one.mechanism.model_dump().get("common_steps") == said_steps for one in told.plan.measured)


def period_steps(told: Told, steps: str) -> None:
    """The same in steps, the most in any that are counted one by one; a whole stream has one."""
    if told.plan.stream.clock is not None:
        assert number(steps) == max(lengths_of_periods(told))
        return
    length = told.plan.stream.step_milliseconds
    assert number(steps) == (told.plan.stream.horizon if told.user_level.per is None else told.user_level.per / length)


def month_of_periods(told: Told, periods: str, epsilon: str, delta: str) -> None:
    """As many as 31 days have, and what the noise keeps of so many."""
    assert number(periods) * longest(told.user_level.per) == longest(MONTH)
    bound = int(number(periods)) * told.plan.participation.bound
    assert delta_at(told.plan, told.user_level, number(epsilon), bound) <= number(delta)


def changes_of_clock(told: Told, changes: str, until: str) -> None:
    """Counted hour by hour, to the end of the last step, by the rules of the zone."""
    clock = told.plan.stream.clock
    zone = ZoneInfo(clock.zone)
    hours = range(clock.changes[0][0], clock.end, 3600)
    offsets = [datetime.fromtimestamp(moment, zone).utcoffset() for moment in hours]
    assert number(changes) == sum(one != other for one, other in pairwise(offsets))
    assert until == datetime.fromtimestamp(clock.end, zone).date().isoformat()


def so_many_periods(told: Told, periods: str) -> None:
    """As many as are full of the steps that stand beside, of a user who takes part as often as may be."""
    assert number(periods) * told.plan.participation.bound == number(told.parent["steps"])


def so_many_in_a_row(told: Told, steps: str) -> None:
    """As many as stand beside: those of the promise, or twice or four times as many, or all."""
    window = promised_user_level(told.plan)[0].window
    of_all = told.plan.stream.horizon or 16 * window
    assert number(steps) in {window, min(2 * window, of_all), min(4 * window, of_all), of_all}
    assert number(steps) == number(told.parent["steps"])


def without_dropping(told: Told, steps: str, whole: str, stated: str) -> None:
    """The noise of the plan, and the least of three mechanisms for as many steps as there are."""
    (release,) = told.plan.measured
    horizon, target = int(number(steps)), told.user_level
    period_steps(told, steps)
    of_all = ParticipationRecord(bound=horizon, per_step=1, spacing=1, enforced="keep_first", assumed=None)
    assert told.plan.participation.per_step == told.plan.participation.spacing == 1
    setting = setting_of(told.plan.model_copy(update={"participation": of_all}), release, target)
    factor = float(unit_of(told.plan, release))
    squared = told.plan.objective == "mean_squared_error"

    def typical(variances: Any) -> float:
        return factor * (math.sqrt(variances.mean()) if squared else math.sqrt(2 / math.pi) * np.sqrt(variances).mean())

    tried = [calibrate(name, setting, target.epsilon, target.delta) for name in ("common_noise", "gaussian")]
    near(number(whole), min(typical(one.variances(setting, horizon)) for one in tried))
    own = setting_of(told.plan, release, target)
    near(number(stated), typical(release.mechanism.variances(own, horizon)))


def sparse(told: Told, values: str) -> None:
    """Steps that a user may be in, beside all values."""
    plan = told.plan
    least = min(len(release.cells) for release in plan.releases)
    assert plan.participation.bound * number(values) < plan.stream.horizon * least


def shared_anew(told: Told, part: str, users: str, steps: str) -> None:
    """As the mechanism of some release says, for every period of the promise, or for blocks of steps."""
    (block_steps if len(lengths_of_periods(told)) > 1 else period_steps)(told, steps)
    shared(told, part, users)


def shared(told: Told, part: str, users: str) -> None:
    """As the mechanism of some release says."""
    fields = [release.mechanism.model_dump() for release in told.plan.measured]
    sizes = [(one["part"], one["common_stddev"]) for one in fields if "common_stddev" in one]
    assert any(
        math.isclose(number(part), float(p), rel_tol=0.006) and math.isclose(number(users), float(e), rel_tol=0.006)
        for p, e in sizes
    )


def factor(told: Told, found: str) -> None:
    """A factor of likelihoods is exp of what the promise, or some promise, says."""
    own = [float(told.parent["value"])] if told.parent.get("unit") == "nats" else told.epsilons
    assert any(math.exp(e) <= number(found) <= math.exp(e) * 1.01 for e in own)


def promised(told: Told, found: str) -> None:
    assert number(found) in told.epsilons


def delta(told: Told, found: str) -> None:
    deltas = {told.point(target)[1] for target in told.plan.targets}
    rho = any(isinstance(target, UserRho | UserStepsRho) for target in told.plan.targets)
    assert Decimal(found) in (deltas | {Decimal("1e-7"), Decimal("1e-10")} if rho else deltas)


def beyond(told: Told, found: str) -> None:
    """Pr(|loss| > epsilon), from how steeply the curve falls: Pr(loss > e) = delta(e) - delta'(e)."""
    truths = []
    for target in promised_user_level(told.plan):
        e = float(told.point(target)[0])
        h = 1e-3 * e
        curve = curve_of(told.plan, target)
        truths.append(curve(e) + (curve(e - h) - curve(e + h)) / (2 * h))
    for target in beside_steps(told.plan):
        losses, law = responses(costliest(told, target))
        truths.append(float(law[np.abs(losses) > float(told.point(target)[0])].sum()))
    assert any(true * 0.97 <= number(found) <= 8 * true for true in truths), (found, truths)


def never_more(told: Told, nats: str) -> None:
    """The most that plain noise, or the budgets of the costliest steps, tell; with a hair less, delta is not 0."""
    sums = [sum(costliest(told, target)) for target in beside_steps(told.plan) if not told.plan.measured]
    largest = [*sums, lost(told, rho=False)] if told.plan.measured else sums
    assert any(true * (1 - 1e-9) <= number(nats) <= true * (1 + 1e-5) for true in largest), (nats, largest)
    for target in promised_user_level(told.plan):
        assert number(nats) > float(told.point(target)[0])


def several(told: Told, nats: str, size: str) -> None:
    """For names in the same steps: the curve of noise that has to hide as many times as much; other steps hide more."""
    m = int(size)
    if told.point(told.user_level)[1] == 0:
        up(number(nats), m * lost(told), 6)
        return
    settings = [
        (release, setting_of(told.plan, release, told.user_level))
        for release in told.plan.releases
        if not isinstance(release.mechanism, Derived)
    ]
    times = composed(
        release.mechanism.profile(type(one)(**{**one.__dict__, "contribution": m * one.contribution}))  # type: ignore[union-attr]
        for release, one in settings
    )
    found = times.coarse.delta(number(nats))  # noise for the same steps hides no more than the bound for any
    assert found <= float(told.user_level.delta) * (1 + 1e-3), (nats, found)
    largest = min(m * float(told.user_level.epsilon) * 2 + 1, 1e9)
    assert number(nats) <= largest, (nats, largest)


def more_steps(told: Told, nats: str, steps: str) -> None:
    """The least epsilon for so many steps: at it delta is kept, a hundredth below it is not."""
    if told.point(told.user_level)[1] == 0:
        up(number(nats), lost(told, int(number(steps))), 6)
        return
    curve = curve_of(told.plan, told.user_level, int(number(steps)))
    allowed = float(told.user_level.delta)
    assert curve(number(nats)) <= allowed < curve(0.99 * number(nats))


def threshold(told: Told, found: str) -> None:
    assert any(number(found) == float(rule.below) for part in told.plan.releases for rule in part.suppressions)


def uncertain(told: Told, error: str, chance: str) -> None:
    rules = [rule for part in told.plan.releases for rule in part.suppressions if rule.kind == "error_above"]
    percents = {(float(rule.error * (100 if rule.relative else 1)), float(100 * rule.chance)) for rule in rules}
    assert (number(error), number(chance)) in percents


def certain(told: Told, *found: str | None) -> None:
    """Sizes of values whose error is so large a part of them, in standard deviations of a normal law."""
    (part,) = told.plan.releases
    (rule,) = (rule for rule in part.suppressions if rule.kind == "error_above" and rule.relative)
    quantile = -float(norm.ppf(float(rule.chance) / 2))
    stddevs = noise_stddevs(told.plan, part, 1) if promised_user_level(told.plan) else np.sqrt(part.errors(48))
    sizes = [number(text) for text in found if text]
    for size, stddev in zip(sizes, sorted({float(stddevs.min()), float(stddevs.max())}), strict=True):
        assert math.isclose(size, quantile * stddev / float(rule.error), rel_tol=0.04)


def least_error(told: Told, found: str) -> None:
    """Of all steps, by a normal law."""
    (part,) = told.plan.releases
    (rule,) = (rule for rule in part.suppressions if rule.kind == "error_above" and not rule.relative)
    stddev = noise_stddevs(told.plan, part, told.plan.expected_steps).min()
    assert math.isclose(number(found), -float(norm.ppf(float(rule.chance) / 2)) * stddev, rel_tol=0.04)


def certain_steps(told: Told, shown: str, others: str) -> None:
    assert number(shown) + number(others) == told.plan.expected_steps


def seldom(told: Told, found: str) -> None:
    assert "shown" in told.parent
    assert number(found) == 1e-12


def tails(told: Told, *found: str) -> None:
    """A sum of both columns that is 1, at the steps with the least noise and with the most."""
    both = [
        [number(text.removeprefix("less than ")) for text in told.parent[name].split(" to ")]
        for name in ("shown", "left_out")
    ]
    assert all(abs(one + other - 1) < 0.006 for one, other in zip(both[0], reversed(both[1]), strict=True))


def lost(told: Told, steps: int | None = None, *, rho: bool = True) -> float:
    """What plain noise lets one user lose in so many steps: c k / b at most, or c^2 k / (2 s^2) as a rho."""
    total = 0.0
    for release in told.plan.measured:
        setting = setting_of(told.plan, release, told.user_level)
        size, k = release.mechanism.noise_size, steps or setting.participation.steps
        if isinstance(release.mechanism, WindowMechanism):  # of half of it each step has as much, of the other a window
            part = isinstance(told.parent, dict) and "in one period" in str(told.parent.get("unit_of_privacy"))
            halves = {"budget_absorption": 1.0, "budget_distribution": 0.5}
            windows = halves[release.mechanism.name] if part else -(-k // release.mechanism.window)
            k = ((1 if part else k) / release.mechanism.window + windows) / 2
        squared = k * setting.contribution**2 / (2 * size**2)
        twice = 2 if setting.replaced and (setting.signed or setting.cells > 1) else 1  # in one cell, or in two
        total += squared if rho and isinstance(told.user_level, UserRho) else twice * k * setting.contribution / size
    return total


def promised_rho(told: Told, found: str) -> None:
    """The promise, or what was recomputed, or what a release takes of it."""
    if users := beside_steps(told.plan):
        (target,) = users
        assert isinstance(target, UserStepsRho)
        half = sum(budget**2 for budget in costliest(told, target)) / 2
        assert Decimal(found) == target.rho or math.isclose(number(found), half, rel_tol=1e-5)
        return
    assert Decimal(found) == told.user_level.rho or math.isclose(number(found), lost(told), rel_tol=1e-5)


def left_of_rho(told: Told, rho: str, *rest: str) -> None:
    """Rho of so many steps, and epsilons of the curve of Gaussian noise of that rho."""
    *numbers, steps = rest
    taken = int(steps) if steps else int(told.parent["steps"])
    up(number(rho), lost(told, taken), 6)
    curve_points(told, number(rho), *numbers)


def curve_points(told: Told, rho: float, *numbers: str) -> None:
    """Of a rho, by the formula of continuous Gaussian noise; half a hundredth less is too little."""
    for nats, failing in zip(numbers[::2], numbers[1::2], strict=True):
        mu, e = math.sqrt(2 * rho), number(nats)

        def failed(e: float, mu: float = mu) -> float:
            return float(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu))

        assert failed(e) <= number(failing) * 1.01
        assert failed(0.995 * e) > number(failing)
    assert len(numbers) == 6


def rho_of_several(told: Told, rho: str, size: str) -> None:
    up(number(rho), int(size) ** 2 * lost(told), 6)


def all_budgets(told: Told, found: str) -> None:
    """The budgets of all steps, or what the rule of a mechanism lets as many windows as there are spend."""
    if promised_user_level(told.plan):  # all steps of the stream, beside a promise about some in a row
        more_steps(told, found, str(told.plan.stream.horizon))
        return
    whole = float(sum(told.budgets))
    rules = [release.mechanism for release in told.plan.releases if isinstance(release, AdaptiveRelease)]
    if rules:  # a window after the other, each with all of what the rule divides
        whole = min(whole, sum(-(-len(told.budgets) // rule.window) * float(rule.epsilon) for rule in rules))
    up(number(found), whole, 6)


def takes_part(told: Told, found: str) -> None:
    if users := beside_steps(told.plan):
        windows = {target.window for target in promised_user_level(told.plan)}
        assert number(found) in {target.bound for target in users} | (windows if " each" in told.text else set())
        return
    assert told.plan.participation is not None
    bound, window = told.plan.participation.bound, told.user_level.window or 1
    assert number(found) in (bound, bound * window)


def period_of_user(told: Told, steps: str, count: str | None = None, unit: str | None = None) -> None:
    """How many steps the period has of a promise beside those about steps, and how long that is; else it is a step."""
    assert [number(steps)] == ([target.window for target in beside_steps(told.plan)] or [1])
    if count is not None and unit is not None:
        steps_in_a_row(told, steps, count, unit)


def part_of_a_step(told: Told, bound: str, length: str) -> None:
    """One step, of which the period of a promise beside is a part."""
    assert bound == "1"
    assert number(length) in {target.per for target in beside_steps(told.plan)}
    assert told.plan.stream.step_milliseconds % number(length) == 0


def steps_in_a_row(told: Told, steps: str, count: str, unit: str) -> None:
    """So many as a promise is about, and how long they are."""
    assert number(steps) in {target.window for target in told.plan.targets if hasattr(target, "window")}
    assert number(count) * UNITS[unit] == number(steps) * told.plan.stream.step_milliseconds


def spacing(told: Told, found: str) -> None:
    assert told.plan.participation is not None
    assert number(found) == told.plan.participation.spacing


def per_step(told: Told, found: str) -> None:
    assert told.plan.participation is not None
    assert number(found) == told.plan.participation.per_step


def belief(told: Told, before: str, word: str, after: str) -> None:
    """Sure: randomised response with that loss. Right: the likelier of two answers, by the curve at the prior odds."""
    p, e = number(before) / 100, float(told.point(target_of(told))[0])
    if word == "sure":
        up(number(after) / 100, p * math.exp(e) / (p * math.exp(e) + 1 - p), 3)
        return
    rare, target = min(p, 1 - p), target_of(told)
    curve = curve_of_told(told, target)
    up(number(after) / 100, 1 - rare + rare * curve(math.log((1 - rare) / rare)), 3)


def power_of_test(told: Told, rate: str, power: str) -> None:
    """The largest power of a test, from every place of the curve."""
    x, found, e = number(rate) / 100, number(power) / 100, float(told.point(target_of(told))[0])
    target = target_of(told)  # of steps, budgets leave nothing to chance, whatever delta is promised
    chance = isinstance(target, UserLevel | UserRho | UserStepsRho) or (isinstance(target, UserSteps) and target.delta)
    if not chance:
        up(found, min(1.0, math.exp(e) * x, 1 - math.exp(-e) * (1 - x)), 3)
        return
    curve = curve_of_told(told, target_of(told))
    places = [(s, curve(s)) for s in np.linspace(0, 3 * e, 31)]
    least = min(min(math.exp(s) * x + d, 1 - math.exp(-s) * (1 - x - d)) for s, d in places)
    assert least * 0.97 <= found <= least * 1.3 + 1e-3, (found, least)


def told_promise(told: Told) -> Any:
    return next(p for p in told.content["promises"] if p["id"] == told.parent["promise"])


def target_of(told: Told) -> Any:
    return told.plan.targets[int(told.parent["promise"][1:]) - 1]


def release_told(told: Told) -> Any:
    return told.plan.release_named(told.parent.get("release") or release_name(told))


def typical(which: str) -> Callable[[Told, str], None]:
    """An expected error in the unit of the values."""

    def check(told: Told, found: str) -> None:
        error = getattr(release_told(told).predicted, which)
        near(number(found), math.sqrt(error) if told.plan.objective == "mean_squared_error" else error)

    return check


def population(told: Told, found: str) -> None:
    assert number(found) == told.plan.stream.population


def states(told: Told, found: str) -> None:
    assert told.plan.stream.cell is not None
    assert number(found) == len({*told.plan.stream.cell.cells, told.plan.stream.cell.otherwise} - {None})


def clamps(told: Told, low: str, high: str) -> None:
    assert (number(low), number(high)) in {
        (float(r.query.low), float(r.query.high)) for r in told.plan.releases if hasattr(r.query, "low")
    }


def window_row(told: Told, steps: str) -> None:
    """A row of bounds: what a window of so many steps spends, added up anew, and never more for who knows the chain."""
    row, width = told.parent, int(number(steps))
    sums = [float(sum(told.budgets[t : t + width])) for t in range(len(told.budgets) - width + 1)]
    if any(
        isinstance(release, AdaptiveRelease) for release in told.plan.releases
    ):  # its rule may keep windows below their caps
        assert float(row["independent"]) <= max(sums) * (1 + 1e-5)
    else:
        up(float(row["independent"]), max(sums), 6)
    if row["chain"] and row["chain"] != "no limit":
        assert float(row["chain"]) >= max(sums) * (1 - 1e-9)


def largest_loss(P: Any, alpha: float) -> float:
    """Algorithm 1 of CAO17 without its cleverness: over all pairs of rows, all sets of states by falling ratio."""
    worst = 0.0
    for q in P:
        for d in P:
            order = np.argsort(-(q + 1e-300) / (d + 1e-300))
            above, below = np.cumsum(q[order]), np.cumsum(d[order])
            gain = math.expm1(alpha)
            worst = max(worst, float(np.max(np.log1p(above * gain) - np.log1p(below * gain))))
    return worst


def leaked(budgets: list[float], P: Any, lags: tuple[int, ...]) -> list[float]:
    """Leakage of every step by itself and the steps before, through the chain's powers, the least bound of all lags."""
    powers = {lag: np.linalg.matrix_power(P, lag) for lag in lags}
    found: list[float] = []
    for t, own in enumerate(budgets):
        bounds = [sum(budgets[:t])]
        bounds += [sum(budgets[t - k + 1 : t]) + largest_loss(powers[k], found[t - k]) for k in lags if k <= t]
        found.append(own + min(bounds))
    return found


def largest_leakage(record: Any, budgets: list[float], forward: Any = None, backward: Any = None) -> float:
    """The largest total leakage of a chain that starts settled."""
    chain = record.chain()
    before = leaked(budgets, chain.backward if backward is None else backward, record.lags)
    after = leaked(budgets[::-1], chain.forward if forward is None else forward, record.lags)[::-1]
    return max(b + a - own for b, a, own in zip(before, after, budgets, strict=True))


def settled(told: Told) -> bool:
    chains = told.plan.correlation.chains
    windows = {getattr(target, "window", 1) for target in told.plan.targets if isinstance(target, AlphaDPT)}
    return (
        told.plan.stream.horizon is not None
        and windows <= {1}
        and all(record.chain().is_stationary_start for record in chains)
    )


def between(told: Told, budgets: list[float], found: float, below: float, above: float) -> None:
    """The recursion pair of rows by pair of rows; or between an attack and it, where pairs of states are accounted."""
    chains = told.plan.correlation.chains
    true = max([largest_leakage(record, budgets) for record in chains] or [max(budgets)])
    least = true
    if any(entry.pairs for entry in told.plan.claims.inherited):
        steps = sorted({0, len(budgets) // 2, len(budgets) - 1})
        attacks = [found_attack(record.chain(), budgets, steps) for record in chains]
        least = max(attack.nats for attack in attacks if attack)
    assert least * (1 - below) <= found <= true * (1 + above) + 1e-9, (found, least, true)


def growth(told: Told, steps: str) -> None:
    """Leakage if the stream ended so soon, by the recursion of CAO17 pair by pair."""
    budgets = [float(b) for b in told.budgets[: int(number(steps))]]
    if settled(told) and len(budgets) <= 400:
        between(told, budgets, float(told.parent["total_leakage"]), 1e-5, 1e-5)


def tolerated(told: Told, found: str) -> None:
    """No chain within that distance leaks more: some are tried."""
    if told.path[-1] == "lost":  # what a release takes of a promise that adds up, here the only one
        up(number(found), lost(told), 6)
        return
    budgets, rho = [float(b) for b in told.budgets[:200]], float(told.parent["rho"])
    assert number(found) <= float(sum(told.budgets)) * (1 + 1e-5)
    if not settled(told):
        return
    for record in told.plan.correlation.chains:
        chain = record.chain()
        for state in range(chain.forward.shape[0]):
            away = [(1 - rho) * P + rho * np.eye(len(P))[state] for P in (chain.forward, chain.backward)]
            if any(entry.pairs for entry in told.plan.claims.inherited):  # no more than attacks reach is shown of them
                attack = found_attack(Chain(*away), budgets, [0, len(budgets) // 2, len(budgets) - 1])
                assert attack is not None
                assert attack.nats <= number(found) * (1 + 1e-9)
            else:
                assert largest_leakage(record, budgets, *away) <= number(found) * (1 + 1e-9)


def lags(told: Told, found: str) -> None:
    assert tuple(map(int, found.split(", "))) == told.plan.correlation.chains[0].lags or any(
        tuple(map(int, found.split(", "))) == record.lags for record in told.plan.correlation.chains
    )


def compared(kind: str) -> Callable[[Told, str], None]:
    """How much worse a candidate is than the chosen one, from the errors of both."""

    def check(told: Told, found: str) -> None:
        rows = next(c for c in told.content["choice"] if told.parent in c["candidates"])["candidates"]
        best = next(number(row["predicted_error"]) for row in rows if row["chosen"])
        ratio = number(told.parent["predicted_error"]) / best
        stated = {"%": 1 + number(found) / 100, "less": 1 - number(found) / 100, "times": number(found)}
        near(stated[kind], ratio, 0.03)

    return check


def likelier(told: Told, times: str, percent: str) -> None:
    """The start that the running code gives the declared candidate before any value; Ville's bound over all others."""
    count = len(told.parent["candidates"])
    near(number(times), (count - 1) / (number(percent) / 100), 0.01)
    process = CountProcess(100.0, 2, None)
    logs = safeguard.evidence([process] * count, np.zeros((3, 2)), np.zeros(3))
    near(number(times), math.exp(logs[0, 0] - logs[1, 0]), 0.01)


def smoothing(told: Told, found: str) -> None:
    assert number(found) in safeguard.SMOOTHINGS


def dispersion(told: Told, found: str) -> None:
    assert number(found) in safeguard.DISPERSIONS


def window(told: Told, steps: str) -> None:
    assert number(steps) in {getattr(target, "window", None) or 1 for target in told.plan.targets}


def hidden(told: Told, contribution: str, l2: str, in_a_row: str = "1") -> None:
    """What one user moves, from its bounds: by so much in each of k steps, twice as many where users are replaced."""
    release = release_told(told)
    setting = setting_of(told.plan, release, told.user_level)
    record = told.plan.participation
    assert record is not None
    query = release.query if hasattr(release.query, "grid") or release.query.kind == "count" else None
    if query is not None:
        sizes = [1.0]
        if hasattr(query, "grid"):
            sizes = [abs(float(query.low)) / float(query.grid), abs(float(query.high)) / float(query.grid)]
        assert number(contribution) == math.ceil(max(sizes) - 1e-9) * record.per_step
    steps = min(record.bound, -(-(told.plan.stream.horizon or 10**9) // record.spacing))
    steps *= int(number(in_a_row))
    assert int(number(in_a_row)) == (told.user_level.window or 1)
    one = number(contribution) * math.sqrt(steps)
    assert one * 0.99 <= number(l2) <= 2.01 * one
    near(number(l2), l2_sensitivity(setting))


def hidden_in_one_step(told: Told, l2: str, steps: str) -> None:
    """All events of a user in one step, in another cell in their place."""
    assert steps == "1"
    assert told.plan.participation is not None
    near(number(l2), told.plan.participation.per_step * math.sqrt(2))


def stretch(told: Told, first: str, last: str | None = None, every: str | None = None) -> None:
    """The steps of a row of budgets have the budget of that row."""
    path = told.path
    assert path[0] == "mechanisms"
    release = next(r for r in told.plan.releases if told.parent in stretches(told, r.name))
    start, end = int(number(first)), int(number(last or first))
    steps = range(start, end + 1, int(every or 1))
    budgets = release.schedule.epsilons(end + 1)
    assert {Fraction(Decimal(budgets[t])) for t in (steps[0], steps[len(steps) // 2], steps[-1])} == {
        Fraction(Decimal(told.parent["epsilon"]))
    }


def onward(told: Told, first: str, every: str | None = None) -> None:
    stretch(told, first, str(int(number(first)) + 3 * int(every or 1)), every)


def stretches(told: Told, name: str) -> Any:
    return next(m for m in told.content["mechanisms"] if m["release"] == name)["stretches"]


def parameter(told: Told, found: str) -> None:
    """A number in the name of a schedule, mechanism, estimator or signal stands in the policy's choice or the plan."""
    dumped = str(told.plan.model_dump(mode="json", exclude={"candidates"}))
    assert re.search(rf"(?<![\w.]){re.escape(found)}(?![\w.])", dumped), found


def simulated(told: Told, users: str, low: str, high: str) -> None:
    assert told.plan.participation is not None
    assert number(low) == 1
    most = told.plan.participation.bound * (2 if told.plan.participation.enforced else 1)  # more than count, to be seen
    assert number(high) <= min(most, told.plan.stream.horizon or 10**9)
    assert number(users) >= 1


def first_steps(told: Told, found: str) -> None:
    shown = max(len(series["points"]) for series in told.parent["series"])
    assert shown <= number(found) <= (told.plan.stream.horizon or 10**9)


def a_claim(check: Callable[[Told], float], digits: int = 15) -> Callable[[Told, str], None]:
    def held(told: Told, found: str) -> None:
        up(number(found), check(told), digits)

    return held


def exactly(value: Callable[[Told], float]) -> Callable[..., None]:
    """All numbers are this one."""

    def check(told: Told, *found: str) -> None:
        assert {number(one) for one in found} == {float(value(told))}

    return check


def total(told: Told, found: str, alpha: str) -> None:
    """Leakage that was recomputed, by the recursion of CAO17 pair by pair."""
    assert number(found) <= number(alpha)
    promised(told, alpha)
    largest(told, found)


def largest(told: Told, found: str) -> None:
    if settled(told) and len(told.budgets) <= 400:
        between(told, [float(b) for b in told.budgets], number(found), 1e-9, 1e-3)


def followed(plan: Plan, attack: Witness) -> float:
    """What counts that an attack names tell by the law of the noise itself, in one walk from their first step on."""
    (record,) = (record for record in plan.correlation.chains if record.group == attack.group)
    chain, likely = record.chain(), [set(run.cells) for run in attack.outputs for _ in range(run.steps)]
    split = [r for r in plan.releases if r.query.by]  # all others are the same for every state
    scales = [r.schedule.scales(attack.first + len(likely))[attack.first :] for r in split]
    joint, moved = chain.marginal(attack.first), np.eye(chain.states)
    for t, cells in enumerate(likely):
        high = np.isin(np.arange(chain.states), list(cells))  # these counts are one above those of all others
        noise = [np.exp(-np.abs(high - moved).sum(axis=1) / float(row[t])) for row in scales if row[t]]
        joint = joint * np.prod(noise, axis=0)
        joint = np.diag(joint) if t == attack.step - attack.first else joint
        joint = joint / joint.max() @ (chain.forward if t < len(likely) - 1 else moved)
    seen = (joint.sum(axis=1) / chain.marginal(attack.step))[list(attack.states)]
    return float(np.log(seen[0] / seen[1]))


def attacked(told: Told, nats: str, *steps: str) -> None:
    """The attack that comes nearest to a promise."""
    attack = max(witnesses_of(told.plan), key=lambda witness: witness.nats)
    last = attack.first + sum(run.steps for run in attack.outputs) - 1
    assert [number(step) for step in steps] == [attack.first, *([last] if len(steps) > 2 else []), attack.step]
    true = followed(told.plan, attack)
    assert true * (1 - 1e-5) <= number(nats) <= true * (1 + 1e-9)


def claimed_attack(told: Told, step: str, nats: str) -> None:
    attacks = [w for w in witnesses_of(told.plan) if (w.step, w.nats) == (number(step), Decimal(nats))]
    assert any(number(nats) <= followed(told.plan, attack) * (1 + 1e-9) for attack in attacks)


def sensitivity(told: Told, found: str) -> None:
    """Replacing one user's value moves one count down and another up, or a sum by the whole clamp."""
    release = next(r for r in told.plan.releases if f"`{r.name}`" in told.text)
    assert Decimal(found) == release.l1_sensitivity
    if promised_user_level(told.plan):
        return
    query = release.query
    one = 1 if not hasattr(query, "low") else query.high - query.low
    if hasattr(query, "low") and told.plan.stream.cell is None:
        assert Decimal(found) >= one
    elif query.kind == "count":
        assert Decimal(found) == (2 if query.by is not None else 1)


def holds_nothing(told: Told, *found: str) -> None:
    """Words of a formula or of arithmetic, the same in every certificate."""
    del told, found


def reached(told: Told, found: str) -> None:
    """What was recomputed is not above what is promised."""
    assert number(found) <= float(told.parent["value"])


def windowed(told: Told, found: str, steps: str) -> None:
    """Never less than what a window of so many steps spends, unless a mechanism's rule keeps it below the caps."""
    sums = [float(sum(told.budgets[t : t + int(number(steps))])) for t in range(len(told.budgets) - int(steps) + 1)]
    assert max(sums) * (1 - 1e-9) <= number(found) or isinstance(told.plan.releases[0], AdaptiveRelease)
    assert number(found) <= max(told.epsilons)


def users_row(told: Told, size: str, names: str) -> None:
    assert size == names
    if isinstance(told.user_level, UserRho):
        rho_of_several(told, told.parent["any"], size)
        return
    several(told, told.parent["any"].split(", delta")[0], size)


def steps_row(told: Told, steps: str) -> None:
    nats = told.parent["any"].split(", delta")[0]
    if isinstance(told.user_level, UserRho):
        up(number(nats.split(" (")[0]), lost(told, int(number(steps))), 6)
        return
    if number(steps) == told.plan.participation.bound:  # type: ignore[union-attr]
        promised(told, nats)
    else:
        more_steps(told, nats, steps)


def a_window(told: Told, steps: str) -> None:
    if told.path[-2:] == ("rows", "words"):
        window_row(told, steps)
    else:
        window(told, steps)


def window_lasts(told: Told, size: str, unit: str) -> None:
    lengths = {(getattr(t, "window", None) or 1) * told.plan.stream.step_milliseconds for t in told.plan.targets}
    assert number(size) * UNITS[unit] in lengths


def from_to(told: Told, low: str, high: str) -> None:
    if told.path[-1] == "steps":
        stretch(told, low, high)
    else:
        spread(told, low, high)


def spread(told: Told, low: str, high: str) -> None:
    """The least and the largest noise of a step, from how far simulated noisy values are from simulated true ones."""
    from policyc_runtime.laboratory.simulation import simulate

    name = told.parent["release"]
    result = simulate(told.plan, 1, 1, [])
    noise = result.example.series[name].noisy[:, 0] - result.truth[name][: len(result.example.series[name].noisy), 0]
    found = float(np.nanstd(noise.astype(float)))
    assert 0.6 * number(low) <= found, (low, found)
    drops = told.plan.participation is not None and told.plan.participation.enforced is not None
    if not drops and release_told(told).mechanism.name not in {"dft", "fast", "filter_subsample"}:  # err by more
        assert found <= 1.6 * number(high), (found, high)


def largest_budget(told: Told, found: str) -> None:
    up(number(found), float(max(told.budgets)), 12)


def changes(told: Told, found: str) -> None:
    """By how much one user moves a step: so many counts as events count, or the larger end of the clamp."""
    from policyc_check.users.claims import source_release

    name = re.findall("`([^`]*)`", told.text)[0]
    query = source_release(told.plan, told.plan.release_named(name)).query
    size = max(abs(query.low), abs(query.high)) if query.kind == "sum" else 1
    assert Decimal(found) == size * told.plan.participation.per_step  # type: ignore[union-attr]


def grid(told: Told, events: str, low: str, high: str, unit: str) -> None:
    per_step(told, events)
    clamps(told, low, high)
    steps = max(abs(number(low)), abs(number(high))) / number(unit)
    assert 1_000 <= steps <= 10_000
    assert math.log10(number(unit)).is_integer()


def start(told: Told, found: str) -> None:
    assert told.plan.stream.start == found


def last_steps(told: Told, found: str) -> None:
    assert number(found) in {getattr(release.query, "steps", None) for release in told.plan.releases}


def delay(told: Told, found: str) -> None:
    assert number(found) == told.plan.delivery.delay


def coins(told: Told, needed: str, most: str) -> None:
    assert number(most) == MOST_COINS < number(needed)


def bounded(told: Told, found: str) -> None:
    """A lower bound on an error: of what is published on average, or of its best or worst step."""
    if told.path[-2:] == ("expected_error", "typical"):
        least_and_most(told, found)
        return
    if told.path[-1] == "typical":
        typical("published")(told, found)
        return
    release = told.plan.release_named(release_name(told))
    assert any(
        math.isclose(number(found), e, rel_tol=0.006) for e in [release.predicted.published, *errors_of(release)]
    )


def errors_of(release: Any) -> list[float]:
    """Of its steps."""
    if release.schedule is not None:
        return [error for segment in release.schedule.segments for error in segment.expected_errors]
    return [run.error for run in release.expected_errors]


def least_and_most(told: Told, least: str, most: str | None = None) -> None:
    """The typical errors of the best and of the worst step."""
    errors = errors_of(told.plan.release_named(release_name(told)))
    power = 0.5 if told.plan.objective == "mean_squared_error" else 1.0
    near(number(least), min(errors) ** power)
    near(number(most or least), max(errors) ** power)


def release_name(told: Told) -> str:
    """Of the release whose block a row or an error stands in."""
    for block in told.content[told.path[0]]:
        if told.parent in (block, block.get("expected_error")) or told.parent in block.get("rows", ()):
            return str(block["release"])
    raise StopIteration


def power(told: Told, nats: str, found: str) -> None:
    del told
    near(number(found), math.exp(number(nats)), 0.01)


def nobody(told: Told, found: str) -> None:
    """Said of all budgets together, where they allow more."""
    assert math.log(number(found)) < float(sum(told.budgets))


def whole(told: Told, steps: str) -> None:
    assert number(steps) == told.plan.stream.horizon


def with_noise(told: Told, steps: str) -> None:
    """So many steps of some release have a budget."""
    counts = [
        sum((segment.repeats or 0) * sum(e > 0 for e in segment.epsilons) for segment in release.schedule.segments)
        for release in told.plan.releases
        if release.schedule is not None
    ]
    assert number(steps) in counts


def missed_by_chance(told: Told, percent: str) -> None:
    """The standard error that the plan states, as a share of the error; told where it is above a part in a hundred."""
    shares = [
        float(Fraction(part.predicted.stderr) / Fraction(part.predicted.published) * 100)
        for part in told.plan.releases
        if part.predicted.stderr is not None
    ]
    assert any(math.isclose(number(percent), share, rel_tol=0.05) and share > 1 for share in shares)


def simulated_steps(told: Told, steps: str) -> None:
    """All steps were simulated, or the first hundred of more."""
    assert number(steps) == min(told.plan.stream.horizon or 100, 100)


def any_typical(told: Told, found: str) -> None:
    """An error that a notice names is one of those that are expected."""
    errors = [e for r in told.plan.releases for e in (r.predicted.published, r.predicted.prior_alone) if e is not None]
    squared = told.plan.objective == "mean_squared_error"
    assert any(math.isclose(number(found), math.sqrt(e) if squared else e, rel_tol=0.006) for e in errors)


def share(told: Told, percent: str, values: str) -> None:
    shares = [100 * float(release.share) for release in told.plan.releases]
    assert math.isclose(sum(shares), 100, rel_tol=1e-6)
    assert any(
        math.isclose(number(percent), one, rel_tol=0.006) and number(values) == len(release.cells)
        for one, release in zip(shares, told.plan.releases, strict=True)
    )


def claimed_share(told: Told, percent: str) -> None:
    name = re.findall("`([^`]*)`", told.text)[0]
    near(number(percent), 100 * float(told.plan.release_named(name).share or 0), 1e-6)


def groups(told: Told, found: str) -> None:
    assert number(found) == len(told.plan.correlation.chains)


def points(told: Told, found: str) -> None:
    from policyc.planning.prediction import FEW_POINTS, POINTS

    del told
    assert number(found) in (POINTS, FEW_POINTS, 4096)


def double_precision(told: Told, bits: str) -> None:
    del told
    assert int(bits) == np.finfo(np.float64).bits


def solver(told: Told, gap: str, rounds: str) -> None:
    del told
    assert (float(gap), int(rounds)) == (flows.GAP, flows.ROUNDS)


def growth_row(told: Told, steps: str) -> None:
    assert told.path[:2] == ("correlation", "growth")
    growth(told, steps)


M = rf"(-?{N[1:]}"  # with a sign
PATTERNS: list[tuple[str, Callable[..., None]]] = [
    # spans of time
    (rf"(?:horizon of|for) {SPAN}", said),
    (rf"(?:one step of|step,|Every|every) {LENGTH}(?: each)?(?!-)", one_step),
    (rf"in a row \({LENGTH}\)", window_lasts),
    (rf"first {N} steps", first_steps),
    (rf"one draw of typically {N}", common),
    (
        rf"all {N} steps(?: of a period)? would drop nothing, with (?:less|hardly more) noise: {N} [^:]*? beside {N}$",
        without_dropping,
    ),
    (rf"fewer than 1 of {N} values", sparse),
    (rf"common_noise\({N} of {N} users\)", shared),
    (rf"common_noise\({N} of {N} users, anew every {N} steps\)", shared_anew),
    (rf"a period of {N} steps", period_steps),
    (rf"a block of {N} steps", block_steps),
    (rf"in one period of {LENGTH}", of_period),
    (rf"does in a month, {N} periods, {N} nats at delta {N} is promised", month_of_periods),
    (rf"with {N} changes? until (\d{{4}}-\d\d-\d\d)", changes_of_clock),
    (rf"in one period of {HOURS} h\b", lambda told, size: of_period(told, milliseconds(size), "millisecond")),
    (rf"all of {N} periods? in which a user takes part", so_many_periods),
    (rf"^all of {N} steps? in a row$", so_many_in_a_row),
    (
        rf"(?:any|what happens within|about|user at|user in|over windows of) {N} steps(?: in a row)?"
        "(?! together| of a period)",
        a_window,
    ),
    (rf"in {N} steps in a row \({LENGTH}\) of one user", lambda told, steps, *_: a_window(told, steps)),
    (rf"the promise is for {N} steps? at a time", a_window),
    (rf"takes part in at most {N} steps of a period of {N} step", lambda told, *both: assert_in(both, ("1",))),
    (rf"largest sum of {N} budgets in a row, all", window),
    (rf"over the last {N} steps", last_steps),
    (rf"at most {N} steps? after", delay),
    # promises
    (rf"at most {N} nats(?= about|, and nothing)", promised),
    (rf"the delta of {N} is not used", delta),
    (rf"at most {N} nats(?= at delta)", promised),
    (rf"rho {N}(?! for|\d|\.\d| \()", promised_rho),
    (rf"rho {N} for {N} (?:names?|users?)", rho_of_several),
    (rf"(?:rho |^){N} \({POINTS}\)(?: at {N} steps?)?", left_of_rho),
    (rf"[rR]ho.{{0,110}}?(?:most|is) {POINTS}", lambda told, *found: curve_points(told, lost(told), *found)),
    (rf"^{N} nats, with nothing", lambda told, found: up(number(found), lost(told), 6)),
    (rf"exp\({N}\)", promised),
    (rf"promised, {N} nats|promised {N}\)", lambda told, *found: promised(told, *filter(None, found))),
    (rf"factor of (?:at most )?{N}", factor),
    (rf"more than {N} times as likely", factor),
    (rf"at most {N} times the probability", factor),
    (rf"(?:at delta|plus|delta,|, delta) {N}(?!;| included)", delta),
    (rf"[wW]ith a probability of at most {N}", beyond),
    (rf"never by more than {N} nats", never_more),
    (rf"{N} nats for {N} (?:names?|users?)", several),
    (rf"{N} nats at {N} steps?", more_steps),
    (
        rf"(?:at most|remains|remains m times|at most m times) {N} nats (?=for (?:all events|one user)|over)",
        all_budgets,
    ),
    (rf"remains {N} nats at delta {N} for all events", lambda told, found, _: all_budgets(told, found)),
    (rf"(?:in|only) at most {N} steps?", takes_part),
    (
        rf"^{N} each$|only {N} of these count|[sS]teps of one user beyond {N}",
        lambda told, *f: takes_part(told, *filter(None, f)),
    ),
    (rf"more than {N} of {N} steps", lambda told, bound, steps: (takes_part(told, bound), period_steps(told, steps))),
    (
        rf"(?:at least|these,|less than) {N} steps? apart|twice within {N} steps",
        lambda t, *f: spacing(t, *filter(None, f)),
    ),
    (
        rf"only {N} of these, {N} steps apart",
        lambda told, bound, apart: (takes_part(told, bound), spacing(told, apart)),
    ),
    (rf"at most {N} times in (?:each|a step)", per_step),
    (rf"who is {N} % (sure|right) before is at most {N} % (?:sure|right) after", belief),
    (rf"Who is {N} % (sure) of it before is at most {N} % sure after", belief),
    (
        rf"A guess that is right in {N} % of cases before is right in at most {N} % after",
        lambda told, before, after: belief(told, before, "right", after),
    ),
    (rf"^{N} nats, sum of the {N} largest budgets", costliest_together),
    (
        rf"half of the squares of the {N} largest budgets, {N} nats in all",
        lambda told, steps, nats: costliest_together(told, nats, steps),
    ),
    (rf"tells at most rho {N}, which is {N} nats at delta {N}, about all", lambda told, rho, *at: rho_at(told, *at)),
    (rf"^a delta of {N} at {N} nats, from the {N} largest budgets, {N} nats in all", left_to_chance),
    (rf"^{N} nats, sum of the largest budgets at each of {N} ranks", costliest_together),
    (
        rf"half of the squares of the largest budgets at each of {N} ranks of any .*, {N} nats in all",
        lambda told, steps, nats: costliest_together(told, nats, steps),
    ),
    (
        rf"^a delta of {N} at {N} nats, from the largest budgets at each of {N} ranks of any .*, {N} nats in all",
        left_to_chance,
    ),
    (rf"one period of {N} steps \({LENGTH}\)", period_of_user),
    (rf"any {N} steps in a row \({LENGTH}\)(?:, |: neighbors)", steps_in_a_row),
    (
        rf"in (?:at most )?{N} steps of a period of {HOURS} h\b",
        lambda told, bound, size: part_of_a_step(told, bound, milliseconds(size)),
    ),
    (
        rf"in (?:at most )?{N} steps of a period of {N}\b(?! h\b|/)",
        lambda told, bound, steps: (takes_part(told, bound), period_of_user(told, steps)),
    ),
    (rf"all of {N} steps of one period in which", takes_part),
    (rf"^at most {N} steps(?: of one period of [^,]*)?, for the promise about all events of a user", takes_part),
    (rf"all events of one user in {N} steps together leak", takes_part),
    (rf"wrong on {N} % of others is right on at most {N} %", power_of_test),
    (rf"prior belief of {N} or {N} %", lambda told, *found: assert_in(found, ("10", "50"))),
    # what was recomputed
    (rf"^{N} nats(?: at delta|, largest)", reached),
    (rf"^{N} nats, largest total leakage", largest),
    (rf"^an attack on step {N}(?: of group .*)? that reaches {N} nats is known$", claimed_attack),
    (rf"attack that reaches {N} nats is known: there are noisy values of steps {N} to {N} .* at step {N};", attacked),
    (rf"attack that reaches {N} nats is known: there are noisy values of step {N} .* at step {N};", attacked),
    (rf"^{N} nats, largest budget of one step", largest_budget),
    (rf"^{N} nats, largest leakage about {N} steps", windowed),
    (rf"^{N} nats, largest sum of {N} budgets", windowed),
    (rf"changes\s+in a step by at most {N}", changes),
    (rf"L1 sensitivity of\s+is {N}", sensitivity),
    (rf"total leakage.* never exceeds {N} nats \(promised {N}\)", total),
    (rf"leakage is the budget of one step, at most {N} nats", largest_budget),
    (rf"no step spends more than {N} nats", largest_budget),
    (rf"sum of all budgets is at most {N} nats", all_budgets),
    (
        rf"{N} steps in a row(?: never exceeds| spend at most| leak what they spend, at most) {N} nats",
        lambda t, n, x: windowed(t, x, n),
    ),
    (rf"one event is promised {N} nats", promised),
    (rf"takes at most {N} % of every", claimed_share),
    (rf"leak at most {N} nats, and nothing", promised),
    (
        rf"rho {N}, which is {N} nats at delta {N}, {N} nats at delta {N}, {N} nats at delta {N}",
        lambda told, rho, *found: (promised_rho(told, rho), curve_points(told, lost(told), *found)),
    ),
    (rf"leak at most {N} nats at delta {N}", lambda told, nats, d: (promised(told, nats), delta(told, d))),
    # numbers published as they are
    (rf"[tT]he population, {N}", population),
    (rf"list of {N} values", states),
    (rf"(?:are cut to,|every value cut to) {M} to {M}", clamps),
    (rf"adds at most {N} values? between {M} and {M} in a step, rounded to multiples of {N}", grid),
    (r"stream starts, ([\d:T+-]+)", start),
    # correlation, and bounds that follow
    (r"powers ((?:\d+(?:, )?)+)", lambda told, found: lags(told, found.rstrip(", "))),
    (rf"^{N} nats(?:, the sum of all budgets)?$", tolerated),
    (rf"^{N} steps?$", growth_row),
    (rf"^all of {N} steps? in which", steps_row),
    (rf"^all of {N} users who act together, or of one with {N} names$", users_row),
    (rf"^{N}, delta {N}$", lambda told, _, found: delta(told, found)),
    # choice and accuracy
    (rf"{N} times at {N} nats", lambda told, found, nats: power(told, nats, found)),
    (rf"Above {N} nats \({N} times\)", power),
    (rf"protects nobody: odds may change more than {N} times over", nobody),
    (rf": {N} steps of {LENGTH} each", lambda told, steps, *rest: (one_step(told, *rest), whole(told, steps))),
    (rf"of one user at most {N} in a step", per_step),
    (rf"Only {N} of {N} steps", lambda told, some, every: (with_noise(told, some), whole(told, every))),
    (rf"with a season of {N} steps on top", parameter),
    (rf"[eE]vents of one user beyond {N} in a step", per_step),
    (rf"have more than {N} events? in a step", per_step),
    (rf"the first {N} events of a step", per_step),
    (rf"events in a step the first {N} count", per_step),
    (rf"only .*(?:and|count:?) {N} events? in a step count", per_step),
    (rf"^{N} % more error than the one chosen", compared("%")),
    (rf"^{N} % less error than the one chosen", compared("less")),
    (rf"^{N} times the error of the (?:one chosen|best)", compared("times")),
    (rf"^All releases together would have {N} times", lambda told, found: near(max(1.0, number(found)), number(found))),
    (rf"would need {N} coins a value, and at most {N} are thrown", coins),
    (rf"published value is expected to be off by about {N}", typical("published")),
    (rf"off by at least about {N}", typical("published")),
    (rf"^(?:before constraints )?at least {N}$", bounded),
    (rf"^(?:before constraints )?at least {N} to {N}$", least_and_most),
    (
        rf"noisy value alone(?:, at the [^,]*(?:released|measured),)? is off by about {N}",
        typical("without_postprocessing"),
    ),
    (rf"alone, at the {N} steps? that (?:is|are) released", with_noise),
    (rf"the error has a standard error of {N} %", missed_by_chance),
    (rf"^Simulated users of the declared chains? over {N} steps", simulated_steps),
    (rf"noisy value is expected to be off by about {N}", typical("published")),
    (rf"without any data is off by about {N}", typical("prior_alone")),
    (rf"\({N} users\)", any_typical),
    (rf"alpha {N} protects", promised),
    (rf"{N} (?:evenly spread )?points", points),
    (rf"{N} % to\s+\({N} values? a step\)", share),
    # what one user moves, and noise
    (rf"at most {N} units? in a step, {N} in L2 norm over all steps", hidden),
    (rf"at most {N} units? in a step, {N} in L2 norm over {N} steps?", hidden),
    (rf"and {N} in L2 norm over {N} step$", hidden_in_one_step),
    (rf"^all of one period of {LENGTH} within a step", of_period),
    (rf"^{N} to {N}, every {N} steps$", stretch),
    (rf"^{N} on, every {N} steps$", onward),
    (
        rf"^(?:less than )?{N} to {N}$",
        lambda told, *found: (
            least_and_most if told.path[-1] == "typical" else tails if "shown" in told.parent else from_to
        )(told, *found),
    ),
    (rf"^{N} on$", onward),
    (
        rf"\((?:weight|rate =|every =|period =) {N}|\({N} samples|(?:mean|stddev|autocorrelation) = {N}",
        lambda told, *f: parameter(told, next(filter(None, f))),
    ),
    # post-processing
    (rf"{N} times likelier, which happens to users who move as declared in at most {N} %", likelier),
    (rf"smoothed by {N}", smoothing),
    (rf"counts {N} times as dispersed", dispersion),
    (rf"within {N} of the least \(or after {N} rounds\)", solver),
    (rf"{N}-bit floating point", double_precision),
    (rf"values below {N}", threshold),
    (rf"error is above {N}(?: % of the value)? with a probability of more than {N} %", uncertain),
    (rf"of a size of at least {N}(?: to {N})?", certain),
    (rf"that is kept with this `?\s*`? is {N}", least_error),
    (rf"all values of {N} steps? are shown, and none of the other {N}:", certain_steps),
    (rf"^less than {N}$", seldom),
    # simulated examples
    (rf"{N} users, each in {N} to {N} steps", simulated),
    (rf"{N} users, each in every step", lambda told, users: simulated(told, users, "1", "1")),
    (rf"only {N} events? in a step count", per_step),
    (rf"among {N} groups", groups),
    (rf"from step {N}", parameter),
    *((formula, holds_nothing) for formula in FORMULAS),
]


def assert_in(found: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    assert set(found) <= set(allowed)
