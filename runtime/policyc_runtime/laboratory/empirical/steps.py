"""Attacks on mechanisms whose steps have budgets: where was one user, at one step or throughout a window?

The attacker knows all other users, who stay where they are, and moves the one user as the plan's chain does. The score
is the likelihood ratio of everything that is published around the event, computed exactly from the stated noise by
passing messages along the chain: no other score does better (Neyman and Pearson). The event lies where the claim is
tightest: at the step with the most leakage, or the largest budget, between the two places that differ most.

Mechanisms that publish when counts have moved are attacked where they may spend most: after a window in which nothing
had to be published, when counts jump.

Source: NP33, CAO17
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.targets import (
    AlphaDPT,
    AnyUserSteps,
    EventLevel,
    Target,
    UserSteps,
    UserStepsRho,
    WEvent,
    window_of,
)
from policyc_check.steps.budgets import total_budgets
from policyc_check.steps.chains import reversal
from policyc_check.steps.inheritance import leakage_of_group
from policyc_check.steps.users import differing_steps
from policyc_check.users.setting import Setting
from policyc_runtime.ancestors import counted_by
from policyc_runtime.laboratory.empirical.attack import Attack, Played, Progress
from policyc_runtime.laboratory.empirical.proof import Scores
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.noisy_values import measured
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, ReleasePlan, Scheduled
from policyc_runtime.randomness import WORD_BITS, Randomness

Whole = NDArray[np.int64]

REACH = 16  # steps around the event that are looked at: what lies farther away tells next to nothing
JUMP = 10**6  # users who come at once
AT_ONCE = 1000  # runs that are held in memory
MOST_STEPS = 64  # in which all events of a user are attacked
RARE = Decimal("1e-6")  # a delta at which it is tried whether a rho is kept
ENDLESS_EVENT = 64  # an event of an endless stream: late enough for a pattern to have repeated
PROVING = 600.0  # runs over epsilon squared that tell a budget from twice that budget
MOST_RUNS = 400_000
SMALLEST = 1e-300


@dataclass(frozen=True)
class _Scene:
    """An event of one user at steps `start` to `end`, in a stretch `first` to `last`; at `places[0]` or `places[1]`."""

    plan: Plan
    start: int
    end: int
    first: int
    last: int
    places: tuple[int, int]
    record: ChainRecord | None
    jump: int = 0

    def play(self, runs: int, factor: float, randomness: Randomness, progress: Progress) -> Played:
        """Log likelihood ratios of runs in which the user is at the one place, and at the other."""
        sides: list[list[Scores]] = [[], []]
        for begun in range(0, runs, AT_ONCE):
            size = min(AT_ONCE, runs - begun)
            for side, place in enumerate(self.places):
                states = self._walks(place, size, randomness)
                seen = sum(self._seen(part, states, factor, randomness) for part in self.plan.scheduled)
                sides[side].append(np.round(self._ratio(np.asarray(seen)), 9))  # sums of few values: ties stay ties
                progress(size)
        return np.concatenate(sides[0]), np.concatenate(sides[1])

    def _walks(self, place: int, runs: int, randomness: Randomness) -> Whole:
        """Where the user is, (runs, steps): at the place during the event, before and after it as the chain says."""
        states = np.full((runs, self.last - self.first + 1), place)
        if self.record is None:
            return states
        for step in range(self.start - 1, self.first - 1, -1):
            law = self._before(step + 1)
            states[:, step - self.first] = _moved(law, states[:, step + 1 - self.first], randomness)
        for step in range(self.end + 1, self.last + 1):
            law = self.record.chain().forward
            states[:, step - self.first] = _moved(law, states[:, step - 1 - self.first], randomness)
        return states

    def _before(self, step: int) -> Scores:
        """The law of the state before `step` given the state there, (states, states)."""
        assert self.record is not None, "asked for streams with a chain only"
        chain = self.record.chain()
        if self.record.backward is not None or chain.is_stationary_start:
            return chain.backward
        return reversal(chain.forward, chain.marginal(step - 1), chain.marginal(step))

    def _seen(self, part: Scheduled, states: Whole, factor: float, randomness: Randomness) -> Scores:
        """How likely what is published is for the user in each state, (runs, steps, states), as logarithms."""
        each = contributions(self.plan, part)
        if isinstance(part, AdaptiveRelease):
            return self._window_seen(part, part.mechanism, each, states, factor, randomness)
        scales = part.schedule.scales(self.last + 1)[self.first :]
        found = np.zeros((*states.shape, len(each)))
        for step, scale in enumerate(scales):
            if scale > 0:
                used = [scale * Decimal(factor)] * len(states)
                noisy = part.mechanism.add_noise(each[states[:, step]], used, randomness)
                found[:, step] = part.mechanism.log_likelihood(noisy[:, None] - each, scale)
        return found

    def _window_seen(
        self,
        part: ReleasePlan,
        mechanism: WindowMechanism,
        each: Whole,
        states: Whole,
        factor: float,
        randomness: Randomness,
    ) -> Scores:
        own = measured(self.plan, part)
        assert own is not None, "it gives records away"
        setting: Setting = own[1]
        drawn = mechanism.model_copy(update={"epsilon": mechanism.epsilon / Decimal(factor)})
        # One cell jumps and all others fall, as far below 0: then the move of one user shows in distances as well, and
        # the noise has to hide it whatever the counts are.
        cells = np.where(each[self.places[0]] > 0, JUMP, -JUMP)
        others = np.where(np.arange(self.last + 1) >= self.jump, 1, 0)[:, None] * cells
        rows = [drawn.measure(setting, each[walk] + others, (), randomness) for walk in states]
        possible = each[None] + others[:, None]
        return np.array([mechanism.log_likelihoods(row, possible) for row in rows])

    def _ratio(self, seen: Scores) -> Scores:
        """The log likelihood ratio of the two places, (runs,)."""
        one, other = self.places
        start, end = self.start - self.first, self.end - self.first
        within = seen[:, start : end + 1].sum(axis=1)
        ratio = within[:, one] - within[:, other]
        if self.record is None:
            return np.asarray(ratio)
        message = np.zeros((len(seen), seen.shape[2]))
        for step in range(start):
            message = _passed(message + seen[:, step], self._before(self.first + step + 1))
        ratio += message[:, one] - message[:, other]
        message = np.zeros_like(message)
        for step in range(seen.shape[1] - 1, end, -1):
            message = _passed(message + seen[:, step], self.record.chain().forward)
        return np.asarray(ratio + message[:, one] - message[:, other])


def _moved(law: Scores, states: Whole, randomness: Randomness) -> Whole:
    """One step of many users by the rows of a law."""
    uniform = randomness.words(len(states)).astype(np.float64) * 2.0**-WORD_BITS
    edges = np.cumsum(law, axis=1)[states]
    return np.asarray(np.minimum((uniform[:, None] >= edges).sum(axis=1), law.shape[1] - 1))


def _passed(message: Scores, law: Scores) -> Scores:
    """The log of sum_y law[x, y] exp(message[y]) for every row of messages, (runs, states)."""
    highest = message.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.maximum(np.exp(message - highest) @ law.T, SMALLEST)) + highest)


def contributions(plan: Plan, part: ReleasePlan) -> Whole:
    """What one user in each state adds to a release, (states, cells); without cells the states are absent, present."""
    if plan.stream.cell is None:
        return np.array([[0], [1]])
    states = np.eye(len(plan.stream.cell.states), dtype=np.int64)
    return np.asarray(counted_by(plan.stream.cell, part.query.by, states))


def attacks_on_steps(plan: Plan) -> list[Attack]:
    """The largest budget of a step, and every promise about a step or a window that is more than that."""
    budgets = total_budgets(plan, plan.stream.horizon or ENDLESS_EVENT + 1)
    adaptive = [part.mechanism for part in plan.scheduled if isinstance(part, AdaptiveRelease)]
    waits = max(_dearest(mechanism, len(budgets)) for mechanism in adaptive) if adaptive else None
    step = int(np.argmax(budgets)) if waits is None else min(waits, len(budgets) - 1)
    names = plan.stream.cell.states if plan.stream.cell else ("absent", "present")
    single = _Scene(plan, step, step, 0 if adaptive else step, step, _places(plan, None), None, step)
    epsilon = sum((part.schedule.epsilons(step + 1)[step] for part in plan.scheduled), Decimal(0))
    attacks = [
        Attack(
            "step",
            f"{_either(single, names)} at step {step}, all other steps being known",
            "the likelihood ratio of what is published at that step",
            epsilon,
            Decimal(0),
            single.play,
            0 if adaptive else int(min(PROVING / float(epsilon) ** 2, MOST_RUNS)),
        )
    ]
    wide = [target for target in plan.targets if not isinstance(target, EventLevel)]
    return attacks + [
        _promise(plan, target, step if adaptive else None, names)
        for target in wide
        if isinstance(target, AnyUserSteps) or window_of(target) > 1 or plan.correlation.chains
    ]


def _dearest(mechanism: WindowMechanism, steps: int) -> int:
    """The step, of the first so many, at which most can be paid, if nothing had to be published before."""
    return max(range(min(mechanism.window, steps)), key=lambda step: (mechanism.next_units([0] * step), -step))


def _either(scene: _Scene, names: tuple[str, ...]) -> str:
    one, other = scene.places
    return f"whether one user is at `{names[one]}` or `{names[other]}`"


def _promise(plan: Plan, target: Target, jump: int | None, names: tuple[str, ...]) -> Attack:
    assert isinstance(target, AlphaDPT | WEvent | AnyUserSteps), "other promises have attacks of their own"
    horizon = plan.stream.horizon
    wide = min(differing_steps(target, horizon), MOST_STEPS) if isinstance(target, AnyUserSteps) else window_of(target)
    width = min(wide, horizon or wide)
    record, start = _tightest(plan, target, width)
    start = start if jump is None else max(0, jump - width + 1)
    end = start + width - 1
    reach = REACH if record is not None else 0
    last = end + reach if horizon is None else min(horizon - 1, end + reach)
    first = 0 if jump is not None else max(0, start - reach)
    scene = _Scene(plan, start, end, first, last, _places(plan, record), record, jump or 0)
    where = f"at step {start}" if width == 1 else f"throughout steps {start} to {end}"
    known = "the user moving as the chain says before and after" if record else "all other steps being known"
    return Attack(
        "promise",
        f"{_either(scene, names)} {where}, {known}",
        f"the likelihood ratio of what is published at steps {scene.first} to {scene.last}",
        *_promised(target),
        scene.play,
    )


def _promised(target: AlphaDPT | WEvent | AnyUserSteps) -> tuple[Decimal, Decimal]:
    """Epsilon and delta; of a rho, what it is at a delta by the usual conversion (BS16)."""
    if isinstance(target, UserStepsRho):
        return target.rho + 2 * (target.rho * -RARE.ln()).sqrt(), RARE
    nats = target.alpha if isinstance(target, AlphaDPT) else target.epsilon
    return nats, target.delta if isinstance(target, UserSteps) else Decimal(0)


def _tightest(plan: Plan, target: AlphaDPT | WEvent | AnyUserSteps, width: int) -> tuple[ChainRecord | None, int]:
    """The chain, and the first step of the event of `width` steps, about which most is told."""
    if isinstance(target, AlphaDPT) and plan.correlation.chains:
        groups = [(leakage_of_group(plan, record, target.window), record) for record in plan.correlation.chains]
        (_, step), group, record = max(
            ((group.largest(target.window), group, record) for group, record in groups), key=lambda one: one[0][0]
        )
        return record, ENDLESS_EVENT if group.endless else step
    budgets = total_budgets(plan, plan.stream.horizon or ENDLESS_EVENT + 2 * width)
    sums = np.convolve(budgets, np.ones(min(width, len(budgets))), mode="valid")
    return None, int(np.argmax(sums))


def _places(plan: Plan, record: ChainRecord | None) -> tuple[int, int]:
    """Two places of one user that differ in every release, and most in where the user comes from and goes."""
    states = 2 if plan.stream.cell is None else len(plan.stream.cell.states)
    shown = [contributions(plan, part) for part in plan.releases]
    score = np.zeros((states, states))
    for each in shown:
        score += 10.0 * (each[:, None] != each[None]).any(axis=2)
    if record is not None:
        for law in (record.chain().forward, record.chain().backward):
            score += np.abs(law[:, None] - law[None]).sum(axis=2) / 2
    one, other = max(permutations(range(states), 2), key=lambda pair: score[pair])
    return one, other
