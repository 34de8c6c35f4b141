"""Attacks on mechanisms that account for the whole stream: is a user in it, who takes part as often as is allowed?

All other users add a constant. The user stays in a cell, or goes through all of them from step to step or from event to
event: whichever moves most of what is measured. The score is the better of two on the first half of the runs: linear in
the numbers of all records, with the weights that separate the two streams best (Fisher's discriminant), or the
likelihood ratio of Laplace noise. The spread is that of the first half of the runs, the difference that of paired runs
with the same simulated noise, which leaves little but the user in it. Two events of that score are counted: at the
promised delta, where few runs prove little, and at a delta where the stated noise allows an event that is seen often.
The second holds the stated noise against its own privacy curve, from which the promise was computed.

Source: FISHER36
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from policyc_check.errors import KernelError
from policyc_check.plan.claims import UserClaim, UserRhoClaim
from policyc_check.plan.targets import AnyUserSteps, NeighboringRelation, UserLevel, UserSteps
from policyc_check.users.claims import Promise, composed, own_bound, promised_user_level, setting_of
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.setting import Setting
from policyc_runtime.laboratory.empirical.attack import Attack, Played, Progress
from policyc_runtime.laboratory.empirical.proof import Scores
from policyc_runtime.mechanisms import StreamMechanism
from policyc_runtime.mechanisms.mechanism import StepRecord
from policyc_runtime.noisy_values import measured
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.randomness import Randomness, SimulationRandomness

Whole = NDArray[np.int64]
Walk = tuple[int, int]
"""By how many cells a user goes on from one step to the next, and from one event of a step to the next."""

LONGEST = 64  # steps that are attacked, where a mechanism does not need all of them
OTHERS = 20  # units of all other users in a step
SEEN = 0.02  # a delta at which 20,000 runs prove something
MOST_WEIGHTS = 600  # numbers of a run whose covariance is fitted; beyond, they are taken as uncorrelated
EVERY = 250  # runs between two reports
WALKS = 50  # pairs of runs that a walk is judged by
ALIKE = 0.8  # so few runs do not tell walks apart: of those that move about as much, the simplest is taken
PAIRS = 200  # runs with the same noise on both streams
STATISTIC = (
    "the better of Fisher's discriminant and Laplace noise's likelihood ratio, of all that the mechanism gives away"
)


class _Scene:
    """Two neighboring streams, as long as they have to be."""

    def __init__(self, plan: Plan, target: Promise) -> None:
        self.parts = plan.measured
        self._plan, self._target = plan, target
        bound = setting_of(plan, self.parts[0], target).participation.steps
        own = target.bound if isinstance(target, AnyUserSteps) else own_bound(plan) * (target.window or 1)
        bound = min(bound, own)  # where who is absent counts, neighbors differ in steps of either
        endings = [(self._last(count) + 1, count) for count in range(bound, 0, -1)]
        steps, self.participations = next(pair for pair in endings if pair[0] <= LONGEST or pair[1] == 1)
        found = next((length for length in range(steps, steps + 1024) if self._ready(length)), None)
        if found is None:
            steps, self.participations = endings[0]
            found = plan.stream.horizon
        if found is None or not self._ready(found):
            raise KernelError(
                "E0841",
                "this plan cannot be audited by runs",
                because="its mechanism gives nothing away for any number of steps that could be tried",
                help="`policyc verify` recomputes its promise from the stated noise",
            )
        self.steps = found

    def _setting(self, part: ReleasePlan, count: int) -> Setting:
        return setting_of(self._plan, part, self._target, count)

    def _last(self, count: int) -> int:
        return max(self._setting(part, count).earliest_changes[-1] for part in self.parts)

    def _own(self, part: ReleasePlan) -> tuple[StreamMechanism, Setting]:
        found = measured(self._plan, part)
        assert found is not None, "these releases are measured"
        mechanism, setting = found
        assert isinstance(mechanism, StreamMechanism), "of promises about a user"
        return mechanism, replace(setting, replaced=self._target.relation is NeighboringRelation.REPLACE_ONE)

    def _ready(self, steps: int) -> bool:
        return all(mechanism.ready(setting, steps) == steps for mechanism, setting in map(self._own, self.parts))

    def profile(self) -> PrivacyProfile:
        """What the stated noise allows an attacker to tell about a user who takes part as often as is attacked."""
        return composed(self._own(part)[0].profile(self._setting(part, self.participations)) for part in self.parts)

    @cached_property
    def _walk(self) -> Walk:
        """The walk of the user who moves most of what is measured, L1 times L2, in units of every number's noise."""
        cells = max(len(part.cells) for part in self.parts)
        events = self._setting(self.parts[0], self.participations).per_step or 1
        walks = [(0, 0)] if cells == 1 else [(0, 0), (1, 0)] if events == 1 else [(0, 0), (1, 0), (0, 1), (events, 1)]

        def moved(walk: Walk) -> float:
            relative = [np.zeros(0)]
            for part in self.parts:
                mine, other = _tables(self._rows(part, walk, WALKS, 1, SimulationRandomness, lambda _: None))
                relative.append(np.abs((mine - other).mean(axis=0)) / (mine.std(axis=0) + 1e-6))
            numbers = np.concatenate(relative)
            return float(numbers.sum() * np.sqrt(numbers @ numbers))

        found = [moved(walk) for walk in walks] if len(walks) > 1 else [0.0]
        return next(walk for walk, most in zip(walks, found, strict=True) if most >= ALIKE * max(found))

    def _raw(self, part: ReleasePlan, walk: Walk) -> tuple[Whole, Whole]:
        setting = self._setting(part, self.participations)
        mine, other = (np.full((self.steps, setting.cells), OTHERS, dtype=np.int64) for _ in range(2))
        events = setting.per_step or 1
        each, first = (
            setting.contribution // events,
            [setting.participation.spacing * n for n in range(self.participations)],
        )
        for (turn, step), event in product(enumerate(first), range(events)):
            cell = (walk[0] * turn + walk[1] * event) % setting.cells
            at_once = setting.replaced and not setting.signed and setting.cells > 1  # both users, in different cells
            own = min(setting.spread, -(-setting.cells // 2)) if at_once else setting.spread
            places = (cell + np.arange(own)) % setting.cells
            mine[step, places] += each
            if setting.replaced and setting.signed:
                other[step, places] -= each
            elif at_once:
                first_other = setting.cells // 2 if own == 1 else own
                places = (cell + first_other + np.arange(min(setting.spread, setting.cells - own))) % setting.cells
                other[step, places] += each
        if setting.replaced and not setting.signed and setting.cells == 1:
            second = [step for step in setting.earliest_changes if step not in set(first)]
            other[second, 0] += setting.contribution
        return mine, other

    def play(self, runs: int, factor: float, randomness: Randomness, progress: Progress) -> Played:
        """Scores of runs with the user's data, and with the neighbor's."""
        tables = []
        for part in self.parts:
            drawn = self._rows(part, self._walk, runs, factor, lambda _: randomness, progress)
            paired = self._rows(part, self._walk, PAIRS, 1, SimulationRandomness, lambda _: None)
            tables.append(_tables([*drawn, *paired]))
        mine, other, paired_mine, paired_other = (np.hstack(blocks) for blocks in zip(*tables, strict=True))
        difference = (paired_mine - paired_other).mean(axis=0)
        first = slice(runs // 2)
        scores = (
            (rows @ fisher(mine[first], other[first], difference) for rows in (mine, other)),
            laplace_ratios(mine, other, difference, first),
        )
        one, two = max((tuple(pair) for pair in scores), key=lambda pair: _apart(pair[0][first], pair[1][first]))
        return one, two

    def _rows(
        self,
        part: ReleasePlan,
        walk: Walk,
        runs: int,
        factor: float,
        source: Callable[[int], Randomness],
        progress: Progress,
    ) -> list[list[list[StepRecord]]]:
        """The records of many runs on both streams; `source` gives the generator of a run."""
        mechanism, setting = self._own(part)
        mechanism = mechanism if factor == 1 else mechanism.with_noise(factor)
        sides: list[list[list[StepRecord]]] = []
        for raw in self._raw(part, walk):
            rows: list[list[StepRecord]] = []
            for turn in range(runs):
                rows.append(mechanism.measure(setting, raw, (), source(turn)))
                if turn % EVERY == EVERY - 1 and part is self.parts[0]:
                    progress(EVERY)
            sides.append(rows)
        return sides


def _tables(sides: list[list[list[StepRecord]]]) -> list[Scores]:
    """The numbers of all records of every run, (runs, numbers), for each side; OTHERS where a record is shorter."""
    width = max(len(record) for rows in sides for row in rows for record in row)
    return [
        np.array([[n for r in row for n in (*r, *[OTHERS] * (width - len(r)))] for row in rows], dtype=np.float64)
        for rows in sides
    ]


def fisher(mine: Scores, other: Scores, difference: Scores) -> Scores:
    """The weights, (numbers,), that separate two samples, (runs, numbers) each, best, if both are equally spread."""
    if mine.shape[1] > MOST_WEIGHTS:
        return np.asarray(difference / (mine.var(axis=0) + other.var(axis=0) + 1e-6))
    spread = np.cov(np.vstack([mine - mine.mean(axis=0), other - other.mean(axis=0)]).T)
    return np.asarray(np.linalg.solve(np.atleast_2d(spread) + 1e-6 * np.eye(len(difference)), difference))


def laplace_ratios(mine: Scores, other: Scores, difference: Scores, known: slice) -> Played:
    """The likelihood ratios of independent Laplace noise, (runs,) each, with its size and middle as in `known` rows."""
    middle = other[known].mean(axis=0)
    spread = mine[known].std(axis=0) + other[known].std(axis=0) + 1e-6
    one, two = ((np.abs(rows - middle) - np.abs(rows - middle - difference)) / spread for rows in (mine, other))
    return one.sum(axis=1), two.sum(axis=1)


def _apart(mine: Scores, other: Scores) -> float:
    """How far two samples of scores are apart, in standard deviations."""
    return float((mine.mean() - other.mean()) / np.sqrt(mine.var() + other.var() + 1e-12))


def attacks_on_streams(plan: Plan) -> list[Attack]:
    """The stated noise against its own curve, and every promise about all events of a user."""
    attacks: list[Attack] = []
    for target, claim in zip(promised_user_level(plan), plan.claims.user_level, strict=True):
        attacks += _attacks(plan, target, list(_claimed(target, claim)))
    for beside in plan.targets:
        if isinstance(beside, AnyUserSteps):
            attacks += _attacks(plan, beside, list(_claimed(beside, None)))
    return attacks


def _claimed(target: Promise, claim: UserClaim | None) -> Iterator[tuple[Decimal, Decimal]]:
    """Epsilon and delta of a promise; of a rho those of its curve at the largest delta, where most is proven."""
    if isinstance(target, UserLevel | UserSteps):
        yield target.epsilon, target.delta
    elif isinstance(claim, UserRhoClaim) and (point := claim.curve[0]).epsilon is not None:
        yield point.epsilon, point.delta


def _attacks(plan: Plan, target: Promise, claimed: list[tuple[Decimal, Decimal]]) -> list[Attack]:
    scene = _Scene(plan, target)

    kept: dict[tuple[int, float, Randomness], Played] = {}

    def play(runs: int, factor: float, randomness: Randomness, progress: Progress) -> Played:
        # the same runs serve every claim: each is a bound of its own, whatever the others found
        key = runs, factor, randomness
        if key in kept:
            progress(2 * runs)
        else:
            kept[key] = scene.play(runs, factor, randomness, progress)
        return kept[key]

    epsilon, delta = seen_often(scene.profile(), max((e for e, _ in claimed), default=Decimal(1)))
    neighbor = "another user in their place" if target.relation is NeighboringRelation.REPLACE_ONE else "nobody"
    secret = f"whether it is one user, in {scene.participations} of the first {scene.steps} steps, or {neighbor}"
    return [
        Attack("noise", secret, f"{STATISTIC}, held against the curve of the noise", epsilon, delta, play),
        *(Attack("promise", secret, f"{STATISTIC}", e, d, play) for e, d in claimed),
    ]


def seen_often(profile: PrivacyProfile, promised: Decimal) -> tuple[Decimal, Decimal]:
    """A point of a privacy curve, its delta rounded up, whose delta is large enough for runs to prove something."""
    tried = [promised * part / 8 for part in range(8, 0, -1)]
    epsilon = next((e for e in tried if profile.delta(float(e)) >= SEEN), Decimal(0))
    rounded = Context(prec=6, rounding=ROUND_CEILING)
    return epsilon, rounded.create_decimal(Decimal(profile.delta(float(epsilon))))
