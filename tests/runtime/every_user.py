"""What one user can move in what a mechanism adds noise to: the mechanism's own `measure`, and all users there are.

`measured` runs `measure` with the samplers replaced, so that records are what noise would be added to; each column is
one cell's series. Neighbors' differences are then searched through completely: a user takes part in at most k steps, b
apart, with at most so many events in each, every event in a cell with a value; replacing one is a difference of two.
What a column moves is added up over cells, so the search is a maximum over columns and a (max, +) product over cells.

`least_delta` is the delta that the noise leaves for one such difference, from its law alone and rounded *down*: above
the stated one it is a broken promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime import samplers
from policyc_runtime.mechanisms import StreamMechanism
from policyc_runtime.randomness import SimulationRandomness

LAWS = {"discrete_gaussian": "gaussian", "discrete_laplace": "laplace", "symmetric_binomial": "binomial"}
LATTICE = 1 << 12  # losses are told apart to so small a part of all that can be lost
FINE = 1e5  # units to a scale, from which noise is as good as continuous
SMALLEST_MASS = 1e-30
TRANSFORMED = 1e-12  # roundings of Fourier transforms

Series = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """The noise of one number: its law, and its parameter as the sampler is given it."""

    law: str
    parameter: float

    @property
    def size(self) -> float:
        """The standard deviation; the scale of Laplace noise."""
        return {"gaussian": math.sqrt, "laplace": float, "binomial": lambda half: math.sqrt(half / 2)}[self.law](
            self.parameter
        )


@dataclass(frozen=True)
class Query:
    """A count (no clamp), or a sum of values between two ends."""

    clamp: tuple[int, int] | None = None

    @property
    def values(self) -> tuple[int, ...]:
        """What one event may add."""
        return (1,) if self.clamp is None else tuple(range(self.clamp[0], self.clamp[1] + 1))

    def reach(self, events: int) -> tuple[int, ...]:
        """What at most so many events may add to one cell, 0 included."""
        found = {0}
        for _ in range(events):
            found |= {known + value for known in found for value in self.values}
        return tuple(sorted(found))


def setting_for(
    query: Query,
    *,
    steps: int | None,
    bound: int,
    spacing: int,
    per_step: int,
    cells: int,
    replaced: bool,
    in_a_row: bool = False,
    **more: Any,
) -> Setting:
    """The setting of a policy that releases this; neighbors may differ in `bound` steps in a row alone."""
    low, high = query.clamp or (0, 1)
    return Setting(
        participation=Participation(bound, steps, spacing, bound if in_a_row else None),
        contribution=per_step * max(abs(low), abs(high)),
        per_step=per_step,
        replaced=replaced,
        signed=low < 0 < high,
        cells=cells,
        **more,
    )


@contextmanager
def noise_replaced(draw: Callable[[str, float, int], Series]) -> Iterator[None]:
    """Within it, every sampler gives what `draw(law, parameter, count)` says."""
    kept = {name: getattr(samplers, name) for name in LAWS}
    for name, law in LAWS.items():

        def sampler(parameter: Any, count: int, _: object, law: str = law) -> Series:
            return draw(law, float(parameter), count)

        setattr(samplers, name, sampler)
    try:
        yield
    finally:
        for name, sampler in kept.items():
            setattr(samplers, name, sampler)


def measured(mechanism: StreamMechanism, setting: Setting, columns: Series) -> Series:
    """What `measure` adds noise to, (numbers, columns), where every column is a cell of (steps, columns) raw values."""
    wide = replace(setting, cells=columns.shape[1])
    with noise_replaced(lambda _law, _parameter, count: np.zeros(count, dtype=np.int64)):
        records = mechanism.measure(wide, columns, (), SimulationRandomness(0))
    rows = [row for record in records for row in np.array(record, dtype=object).reshape(-1, columns.shape[1])]
    return np.array(rows, dtype=object).reshape(len(rows), columns.shape[1]).astype(np.int64)


def noises(mechanism: StreamMechanism, setting: Setting, steps: int) -> list[Noise]:
    """The noise of every number of one cell: each is drawn as its place in the list of all that were drawn."""
    drawn: list[Noise] = []

    def numbered(law: str, parameter: float, count: int) -> Series:
        drawn.extend([Noise(law, parameter)] * count)
        return np.arange(len(drawn) - count, len(drawn))

    with noise_replaced(numbered):
        records = mechanism.measure(
            replace(setting, cells=1), np.zeros((steps, 1), dtype=np.int64), (), SimulationRandomness(0)
        )
    return [drawn[number] for record in records for number in record]


def supports(steps: int, bound: int, spacing: int) -> list[frozenset[int]]:
    """The sets of steps that one user may take part in, but for those inside another."""
    allowed = [
        frozenset(chosen)
        for size in range(1, bound + 1)
        for chosen in combinations(range(steps), size)
        if all(b - a >= spacing for a, b in pairwise(chosen))
    ]
    return [one for one in allowed if not any(one < other for other in allowed)]


@dataclass(frozen=True)
class Everyone:
    """All differences between neighbors of one release, for a stream of so many steps."""

    query: Query
    setting: Setting
    steps: int

    @property
    def per_step(self) -> int:
        """Events of one user in a step."""
        assert self.setting.per_step is not None, "made by setting_for"
        return self.setting.per_step

    @cached_property
    def states(self) -> list[tuple[int, int]]:
        """Events of the one user and of the other (who is not there unless users are replaced) in one step and cell."""
        others = range(self.per_step + 1 if self.setting.replaced else 1)
        return [(mine, other) for mine in range(self.per_step + 1) for other in others]

    @cached_property
    def reached(self) -> list[tuple[int, ...]]:
        """What a step of a cell may change by, for every state."""
        return [
            tuple(sorted({a - b for a in self.query.reach(mine) for b in self.query.reach(other)}))
            for mine, other in self.states
        ]

    @cached_property
    def values(self) -> list[int]:
        """All of them."""
        return sorted({value for reached in self.reached for value in reached})

    @cached_property
    def columns(self) -> Series:
        """Every series by which one cell may change, (steps, columns)."""
        return np.array(list(product(self.values, repeat=self.steps)), dtype=np.int64).T

    def most(self, states: Floats) -> Floats:
        """The largest of a function of columns, (columns,), for every state of all steps, flat."""
        tensor = states.reshape((len(self.values),) * self.steps)
        place = {value: index for index, value in enumerate(self.values)}
        for axis in range(self.steps):
            parts = [tensor.take([place[v] for v in reached], axis=axis).max(axis=axis) for reached in self.reached]
            tensor = np.stack(parts, axis=axis)
        return tensor.ravel()

    @cached_property
    def splits(self) -> tuple[Series, Series, Series]:
        """Flat states of one cell, of the others, and of all together, for every way to divide events."""
        index = {state: place for place, state in enumerate(self.states)}
        pairs = [
            (index[one], index[other], index[one[0] + other[0], one[1] + other[1]])
            for one in self.states
            for other in self.states
            if (one[0] + other[0], one[1] + other[1]) in index
        ]
        sides = []
        for side in range(3):
            flat = np.zeros(1, dtype=np.int64)
            for _ in range(self.steps):
                step = np.array([pair[side] for pair in pairs])
                flat = (flat[:, None] * len(self.states) + step[None, :]).ravel()
            sides.append(flat)
        return sides[0], sides[1], sides[2]

    @cached_property
    def finals(self) -> Series:
        """The flat states of all cells together in which neighbors take as much part as they may."""
        participation = self.setting.participation
        allowed = supports(self.steps, participation.participation_bound, participation.spacing)
        if (width := participation.window) is not None:
            allowed = [frozenset(range(first, first + width)) for first in range(self.steps - width + 1)]
        index = {state: place for place, state in enumerate(self.states)}
        found = set()
        for mine in allowed:
            others = [mine] if participation.window else allowed
            for other in others if self.setting.replaced else [frozenset()]:
                flat = 0
                for step in range(self.steps):
                    state = (self.per_step * (step in mine), self.per_step * (step in other))
                    flat = flat * len(self.states) + index[state]
                found.add(flat)
        return np.array(sorted(found), dtype=np.int64)

    def worst(self, function: Floats) -> Series:
        """The columns of the neighbors for whom a function of columns, added up over cells, is largest, (cells,)."""
        one, other, both = self.splits if self.setting.cells > 1 else (np.zeros(0, dtype=np.int64),) * 3
        single = self.most(function)
        tables = [single]
        for _ in range(self.setting.cells - 1):
            table = np.full(single.size, -np.inf)
            np.maximum.at(table, both, single[one] + tables[-1][other])
            tables.append(table)
        state = int(self.finals[np.argmax(tables[-1][self.finals])])
        chosen = []
        for table in reversed(tables[:-1]):
            ways = np.flatnonzero(both == state)
            way = ways[np.argmax(single[one[ways]] + table[other[ways]])]
            chosen.append(self._column(function, int(one[way])))
            state = int(other[way])
        return np.array([*chosen, self._column(function, state)])

    def _column(self, function: Floats, state: int) -> int:
        """The column of a flat state with the largest value of a function."""
        places = np.unravel_index(state, (len(self.states),) * self.steps)
        allowed = reduce(
            np.logical_and,
            [np.isin(self.columns[step], self.reached[place]) for step, place in enumerate(places)],
        )
        inside = np.flatnonzero(allowed)
        return int(inside[np.argmax(function[inside])])


@dataclass(frozen=True)
class Worst:
    """One difference between neighbors: how far it moves which noisy numbers."""

    moves: tuple[tuple[Noise, int], ...]
    user: str

    @property
    def pure_loss(self) -> float:
        """In units of the noise's size, L1."""
        return sum(abs(move) / noise.size for noise, move in self.moves)


def worst_users(
    mechanism: StreamMechanism, query: Query, setting: Setting, steps: int, bases: Sequence[int]
) -> list[Worst]:
    """The neighbors who move most in L1, and those who move most in L2, relative to the noise of every number.

    `bases`: what everybody else may add up to.
    """
    everyone = Everyone(query, setting, steps)
    drawn = noises(mechanism, setting, steps)
    columns = everyone.columns
    moved = np.zeros((len(drawn), columns.shape[1]), dtype=np.int64)
    for base in bases:
        around = measured(mechanism, setting, np.hstack([columns, np.zeros((steps, 1), dtype=np.int64)]) + base)
        moved = np.maximum(moved, np.abs(around[:, :-1] - around[:, -1:]))
    relative = moved / np.array([noise.size for noise in drawn])[:, None]
    found = []
    for function in (relative.sum(axis=0), (relative**2).sum(axis=0)):
        chosen = everyone.worst(function)
        moves = [(noise, int(move)) for column in chosen for noise, move in zip(drawn, moved[:, column], strict=True)]
        user = "; ".join(str(columns[:, column].tolist()) for column in chosen)
        found.append(Worst(tuple(sorted((m for m in moves if m[1]), key=str)), user))
    return found


ORDERS = (1.001, 1.5, 3.0, 10.0, 60.0)  # of the divergences that a rho bounds


def least_rho(moves: Sequence[tuple[Noise, int]]) -> float:
    """The rho that hides these moves at least: divergences of some orders by the laws of noise alone, rounded down."""
    return max(sum(_divergence(noise, move, order) for noise, move in moves) / order for order in ORDERS)


@lru_cache(maxsize=2048)
def _divergence(noise: Noise, move: int, order: float) -> float:
    """The Renyi divergence of that order of the noise of one number from itself moved, to a part in a million."""
    if noise.size > 1000 and noise.law == "gaussian":  # as continuous noise
        return order * move**2 / (2 * noise.parameter) * (1 - 1e-6)
    if noise.size > FINE:  # log E exp((order - 1) loss) of continuous Laplace noise
        a, c = order, move / noise.size
        terms = a / (2 * a - 1) * math.exp((a - 1) * c) + (a - 1) / (2 * a - 1) * math.exp(-a * c)
        return math.log(terms) / (a - 1) * (1 - 1e-4)
    reach = math.ceil(12 * order * (noise.size + 1)) + 2 * order * move
    x = np.arange(-math.ceil(reach), math.ceil(reach) + 1)
    log = _log_law(noise, x)
    log -= math.log(math.fsum(np.exp(log)))
    here, there = log[:-move], log[move:]
    exponents = order * here + (1 - order) * there
    top = float(exponents.max())
    found = top + math.log(math.fsum(np.exp(exponents - top)))
    return found / (order - 1) * (1 - 1e-6) - 1e-12


def least_delta(moves: Sequence[tuple[Noise, int]], epsilon: float) -> float:
    """The delta at `epsilon` that hides these moves at least, by the laws of noise alone, rounded down."""
    if not moves:
        return 0.0
    if all(noise.law == "gaussian" and noise.size > 1000 for noise, _ in moves):  # as continuous noise, to 1e-6
        mu = math.sqrt(sum((move / noise.size) ** 2 for noise, move in moves))
        return gaussian_delta(epsilon, mu) * (1 - 1e-5)
    step = max(sum(abs(move) / noise.size for noise, move in moves), epsilon) / LATTICE
    law, first, lost = np.ones(1), 0, 0.0
    for noise, move in moves:
        more, begin, infinite = _losses(noise, move, step)
        law, first = fftconvolve(law, more), first + begin
        lost = 1 - (1 - lost) * (1 - infinite)
    losses = step * (first + np.arange(law.size))
    above = losses > epsilon
    return (float((law[above] * -np.expm1(epsilon - losses[above])).sum()) + lost) * (1 - 1e-9) - TRANSFORMED


@lru_cache(maxsize=256)
def _losses(noise: Noise, move: int, step: float) -> tuple[Floats, int, float]:
    """Probabilities of losses of one moved number, rounded down to multiples of a step; and of infinite ones."""
    if noise.law == "laplace" and noise.size > FINE:  # as continuous noise: Pr(loss >= x) = 1 - exp((x - most) / 2) / 2
        most = move / noise.size
        places = np.arange(math.floor(-most / step), math.floor(most / step) + 1)
        reaching = np.where(places * step <= -most, 1.0, 1 - 0.5 * np.exp((places * step - most) / 2))
        return (reaching - np.append(reaching[1:], 0.0)) * (1 - 1e-4), int(places[0]), 0.0
    reach = math.ceil(40 * noise.size) + move
    x = np.arange(-reach, reach + 1)
    log = _log_law(noise, x)
    log -= math.log(math.fsum(np.exp(log)))
    here, there = log[: -move or None], log[move:]
    usual = here > math.log(SMALLEST_MASS)
    known = usual & np.isfinite(there)
    places = np.floor((here[known] - there[known]) / step).astype(np.int64)
    first = int(places.min())
    return np.bincount(places - first, np.exp(here[known])), first, float(np.exp(here[usual & ~known]).sum())


def _log_law(noise: Noise, x: Series) -> Floats:
    if noise.law == "gaussian":
        return -(x.astype(np.float64) ** 2) / (2 * noise.parameter)
    if noise.law == "laplace":
        return -np.abs(x) / noise.parameter
    half = int(noise.parameter)
    logs = [math.lgamma(half + n + 1) + math.lgamma(half - n + 1) if abs(n) <= half else math.inf for n in x.tolist()]
    return -np.array(logs) + 2 * math.lgamma(half + 1)
