"""What given budgets tell through chains: upper bounds by step, window and horizon, for each kind of adversary.

Every number is of `accepted_inheritance`: proposed by the hull, rounded up, and shown by the inequality of the check;
or of `shown_by_pairs`, where the same is said of every pair of states by itself, and that is less.

Source: CAO17 (BPL, FPL and TPL, Theorems 2 and 5)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.inheritance import accepted_inheritance, shown_by_pairs
from policyc.planning.leakage.lags import useful_lags
from policyc.planning.leakage.pairs import MOST_STATES
from policyc.quantification.budgets import Spent
from policyc.quantification.knowledge import Knowledge, Known
from policyc_check.errors import InvalidMatrixError
from policyc_check.rounding import rounded_down
from policyc_check.steps.budgets import LONGEST_PERIOD, all_up
from policyc_check.steps.chains import Chain
from policyc_check.steps.inheritance import GroupLeakage

Floats = NDArray[np.float64]
Adversary = Literal["none", "backward", "forward", "both"]
Progress = Callable[[int, int], None]

ADVERSARIES: tuple[Adversary, ...] = ("none", "backward", "forward", "both")
"""What is known of a chain: nothing, where one was before, where one goes next, or both; weakest first."""

FEW = 20  # chains up to which every horizon, every pattern and pairs of states are computed
LONGEST_LAG = 64  # steps
_PROBE = 1_000  # budgets that are compared first
_PAIRED = 2 * MOST_STATES**4  # states of all chains, to the power of four, up to which pairs take seconds


@dataclass(frozen=True)
class Largest:
    """A leakage in nats, rounded up, and the step it is about, or the first of the steps."""

    nats: float
    step: int


@dataclass(frozen=True)
class ChainLeakage:
    """What is told about those who share a chain, for each adversary.

    Args:
        name: of the group or person.
        windows: by width in steps.
        limits: what a step's leakage never exceeds if the budgets go on; inf for no known bound, None where it is not
            computed.
        lags: of the bounds.
        pairs: the bounds by pairs of states; None where there are none, or too many.
    """

    name: str | None
    windows: Mapping[Adversary, Mapping[int, Largest]]
    limits: Mapping[Adversary, float] | None
    lags: tuple[int, ...]
    pairs: GroupLeakage | None

    def at_step(self, adversary: Adversary) -> Largest:
        """The largest leakage about one step."""
        return self.windows[adversary][1]


@dataclass(frozen=True)
class GivenLeakage:
    """The leakage of a given release.

    Args:
        spent: the budgets.
        knowledge: the chains.
        chains: what is told about those of each, in the same order.
        backward, forward, total: about every step, the largest over chains, nats, rounded up, (T,): BPL, FPL and TPL,
            which are what an adversary learns who knows the chains backward, forward, and both ways. Of an endless
            stream the last period stands for all later ones.
        horizons: the largest about one step if the release had ended after so many steps; empty for many chains.
        pattern: how many budgets repeat in the limits; 0 where every further step is taken to spend the largest.
    """

    spent: Spent
    knowledge: Knowledge
    chains: tuple[ChainLeakage, ...]
    backward: Floats
    forward: Floats
    total: Floats
    horizons: Mapping[int, Mapping[Adversary, float]]
    pattern: int

    @property
    def widths(self) -> tuple[int, ...]:
        """The windows, in steps."""
        return tuple(self.chains[0].windows["none"])

    @property
    def budgets(self) -> Floats:
        """The budget of every step that has a leakage here, nats, rounded up, (T,)."""
        return np.resize(self.spent.budgets, len(self.total))

    @cached_property
    def _largest(self) -> dict[tuple[Adversary, int], Largest]:
        """Over all chains, by adversary and width."""
        return {
            (a, width): max((chain.windows[a][width] for chain in self.chains), key=lambda found: found.nats)
            for a in ADVERSARIES
            for width in self.widths
        }

    def window(self, adversary: Adversary, width: int) -> Largest:
        """The largest leakage about so many steps in a row, over all chains."""
        return self._largest[adversary, width]

    def limit(self, adversary: Adversary) -> float | None:
        """What the leakage about one step never exceeds if the budgets go on, over all chains."""
        limits = [None if chain.limits is None else chain.limits[adversary] for chain in self.chains]
        return None if None in limits else max(limit for limit in limits if limit is not None)

    @cached_property
    def spent_in_all(self) -> Decimal | Fraction | None:
        """All budgets, exact: what all steps of a person together tell at most, whatever is known."""
        return None if self.spent.endless else self.spent.most(len(self.spent.budgets))


def quantify(
    spent: Spent,
    knowledge: Knowledge,
    widths: Iterable[int],
    lags: Sequence[int] | None = None,
    progress: Progress = lambda _done, _total: None,
) -> GivenLeakage:
    """The leakage of a given release.

    Args:
        spent: the budgets.
        knowledge: the chains.
        widths: windows of so many steps; those longer than the stream are left out.
        lags: of the bounds, for all chains; (1,) is the paper's recursion. None: those that tell less, and pairs of
            states, where these take seconds.
        progress: told how many chains are done, of how many.

    Raises:
        KernelError: a chain has no law backward or forward.
    """
    budgets = spent.budgets
    shown = sorted({1, *(w for w in widths if spent.endless or w < len(budgets))})
    within = {width: spent.sums(width) for width in shown}
    pattern = _pattern(spent, len(knowledge.known))
    going_on = budgets[:pattern] if pattern else budgets.max(keepdims=True)
    horizons = _horizons(spent) if len(knowledge.known) <= FEW else ()
    largest: list[Floats] = [budgets, budgets, budgets]
    by_horizon: dict[int, dict[Adversary, float]] = {}
    done: dict[int, ChainLeakage] = {}
    chains = []
    sizes = {id(one.chain): one.chain.states for one in knowledge.known if one.chain is not None}.values()
    paired = lags is None and len(sizes) <= FEW and sum(n**4 for n in sizes) <= _PAIRED
    for number, known in enumerate(knowledge.known):
        if id(known.chain) not in done:
            own = lags or _useful(known, len(knowledge.known), pattern)
            pairs = _by_pairs(budgets, known.chain, endless=spent.endless) if paired else None
            group = _of_group(spent, known.chain, own, pairs)
            largest = [
                np.maximum(*_as_long(so_far, of_chain, len(budgets)))
                for so_far, of_chain in zip(largest, _by_step(group), strict=True)
            ]
            windows = {a: _windows(_as_known(group, a), within, spent.first) for a in ADVERSARIES}
            limits = _limits(going_on, known.chain, own, paired=paired)
            done[id(known.chain)] = ChainLeakage(None, windows, limits, tuple(own), pairs)
            for steps in horizons:
                of_chain = _after(group, known.chain, own, pairs, steps)
                so_far = by_horizon.setdefault(steps, dict(of_chain))
                so_far.update({a: max(so_far[a], of_chain[a]) for a in ADVERSARIES})
        found = done[id(known.chain)]
        chains.append(replace(found, name=known.name))
        progress(number + 1, len(knowledge.known))
    return GivenLeakage(spent, knowledge, tuple(chains), largest[0], largest[1], largest[2], by_horizon, pattern)


def steps_kept(found: GivenLeakage, alpha: Decimal, adversary: Adversary) -> int:
    """For how many steps from the first the leakage about each of them stays within alpha, T for all of them.

    What would have been told if the release had ended there; it only grows with every later step.
    """
    bound, horizon = rounded_down(alpha), len(found.spent.budgets)
    kept = horizon
    seen: set[int] = set()
    for known, chain in zip(found.knowledge.known, found.chains, strict=True):
        if chain.at_step(adversary).nats <= bound or id(known.chain) in seen:
            continue
        seen.add(id(known.chain))
        group = _of_group(found.spent, known.chain, chain.lags, chain.pairs)
        within, beyond, tried = 0, kept + 1, 1
        while within + 1 < beyond:
            tried = min(max(tried, within + 1), beyond - 1)
            if _after(group, known.chain, chain.lags, chain.pairs, tried)[adversary] <= bound:
                within, tried = tried, 2 * tried
            else:
                beyond, tried = tried, (within + tried) // 2
        kept = within
    return kept


def _by_step(group: GroupLeakage) -> tuple[Floats, Floats, Floats]:
    """BPL, FPL and TPL of every step."""
    return all_up(group.before, group.budgets), all_up(group.budgets, group.after), group.windows(1)


def _as_long(a: Floats, b: Floats, period: int) -> tuple[Floats, Floats]:
    """Two rows of an endless stream, of which the last period stands for all later ones, made equally long."""
    longest = max(len(a), len(b))
    long = [np.concatenate([row, np.resize(row[-period:], longest - len(row))]) for row in (a, b)]
    return long[0], long[1]


def _of_group(spent: Spent, chain: Chain | None, lags: Sequence[int], pairs: GroupLeakage | None) -> GroupLeakage:
    """What every step inherits, for who knows the chain both ways."""
    return _least(_accepted(spent.budgets, chain, lags, endless=spent.endless), pairs)


def _by_pairs(budgets: Floats, chain: Chain | None, *, endless: bool) -> GroupLeakage | None:
    """What pairs of states show."""
    if chain is None or not budgets.any():
        return None
    found = shown_by_pairs(chain, budgets, endless=endless)
    return None if found is None else found[1]


def _least(group: GroupLeakage, pairs: GroupLeakage | None) -> GroupLeakage:
    """The smaller of two bounds; what pairs show of a stream holds for its first steps, if it had ended there."""
    if pairs is None or pairs.both is None:
        return group
    steps = len(group.before)
    before, after = np.minimum(group.before, pairs.before[:steps]), np.minimum(group.after, pairs.after[:steps])
    both = np.minimum(all_up(before, after), pairs.both[:steps])
    return GroupLeakage(group.budgets, before, after, group.endless, both=both)


def _accepted(budgets: Floats, chain: Chain | None, lags: Sequence[int], *, endless: bool) -> GroupLeakage:
    if chain is None:
        nothing = np.zeros(len(budgets))
        return GroupLeakage(budgets, nothing, nothing, endless)
    (before, _), (after, _) = accepted_inheritance(budgets, chain, lags, endless=endless)
    return GroupLeakage(np.resize(budgets, len(before)), before, after, endless)


def _as_known(group: GroupLeakage, adversary: Adversary) -> GroupLeakage:
    """The same for an adversary who may know less."""
    nothing = np.zeros(len(group.budgets))
    before = group.before if adversary in {"backward", "both"} else nothing
    after = group.after if adversary in {"forward", "both"} else nothing
    both = group.both if adversary == "both" else None
    return GroupLeakage(group.budgets, before, after, group.endless, both=both)


def _windows(group: GroupLeakage, within: Mapping[int, Floats], first: int) -> dict[int, Largest]:
    """The largest leakage about so many steps in a row: what is spent within, and inherited from both sides."""
    found = {}
    for width, once in within.items():
        spent = np.resize(once, len(group.before)) if group.endless else once
        before, after = group.before[: len(spent)], np.roll(group.after, 1 - width)[: len(spent)]
        if math.inf in (before.max(), after.max()):
            found[width] = Largest(math.inf, first)
            continue
        leakage = all_up(all_up(before, spent), after)
        if width == 1 and group.both is not None:
            leakage = np.minimum(leakage, all_up(group.both, spent))
        found[width] = Largest(float(leakage.max()), first + int(leakage.argmax()))
    return found


def _useful(known: Known, chains: int, pattern: int) -> tuple[int, ...]:
    """Lags that are worth their time, a plan's, and the period; of many chains, whose bounds they only tighten, one.

    Limits go around by whole periods: what is told of these steps is then not said to be more than the limit.
    """
    if known.chain is None or chains > FEW:
        return (1,)
    told = {*known.lags, *([pattern] if 0 < pattern <= LONGEST_LAG else [])}
    with suppress(InvalidMatrixError):  # as in `_limits`
        told.update(useful_lags(known.chain))
    return tuple(sorted({1, *told}))


def _limits(
    pattern: Floats, chain: Chain | None, lags: Sequence[int], *, paired: bool
) -> dict[Adversary, float] | None:
    """What never is exceeded if the pattern repeats for ever; None where the law of a state is not seen to settle.

    Less budget never tells more: what holds if every step spends the largest budget holds for the pattern too.
    """
    if not pattern.any():
        return dict.fromkeys(ADVERSARIES, 0.0)
    if chain is not None and chain.backward_side().settled == math.inf:
        return None
    found = dict.fromkeys(ADVERSARIES, math.inf)
    try:
        for repeated in (pattern, pattern.max(keepdims=True))[: len(pattern)]:
            pairs = _by_pairs(repeated, chain, endless=True) if paired and len(repeated) == 1 else None
            group = _least(_accepted(repeated, chain, lags, endless=True), pairs)
            for a in ADVERSARIES:
                found[a] = min(found[a], _windows(_as_known(group, a), {1: repeated}, 0)[1].nats)
    except InvalidMatrixError:  # the law of a state that fades is lost long after these budgets
        return None
    return found


def _after(
    group: GroupLeakage, chain: Chain | None, lags: Sequence[int], pairs: GroupLeakage | None, steps: int
) -> dict[Adversary, float]:
    """The largest leakage about one step if the release had ended after so many: what comes before stays as it is."""
    budgets, after = group.budgets[:steps], group.after[:steps]
    if chain is not None and steps < len(group.budgets):
        _, (after, _) = accepted_inheritance(budgets, (None, chain.forward_side()), lags, endless=False)
    ended = _least(GroupLeakage(budgets, group.before[:steps], after, False), pairs)
    return {a: _as_known(ended, a).largest(1)[0] for a in ADVERSARIES}


def _pattern(spent: Spent, chains: int) -> int:
    """The shortest stretch that the budgets repeat; all of them where they do not; 0 where that takes too long."""
    budgets = spent.budgets
    if spent.endless:
        return len(budgets)
    longest = LONGEST_PERIOD if chains <= FEW else 1
    for period in range(1, min(longest, len(budgets) // 2) + 1):
        probe = budgets[: period + _PROBE]
        if (probe[period:] == probe[:-period]).all() and (budgets[period:] == budgets[:-period]).all():
            return period
    return len(budgets) if len(budgets) <= longest else 0


def _horizons(spent: Spent) -> tuple[int, ...]:
    """1, 2, 5, 10, ... steps, and all; of long streams powers of ten."""
    if spent.endless:
        return ()
    steps = len(spent.budgets)
    leading = (1, 2, 5) if steps <= LONGEST_PERIOD else (1,)
    powers = range(int(math.log10(steps)) + 1)
    return tuple(sorted({steps, *(n * 10**k for k in powers for n in leading if n * 10**k < steps)}))
