"""Mechanisms that publish when counts have moved: no window spends more than is said, and nothing is drawn twice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from stream_settings import documented

from policyc_check.errors import KernelError
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms import WindowMechanism, still_error, window_mechanism_kinds
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.sources_cited import SOURCES

KINDS = sorted(window_mechanism_kinds())


def make(name: str, window: int = 4, epsilon: str = "1", sensitivity: int = 2) -> WindowMechanism:
    return window_mechanism_kinds()[name].model_validate(
        {"name": name, "window": window, "epsilon": epsilon, "l1_sensitivity": sensitivity, "still_error": 32}
    )


def setting(cells: int, window: int = 4) -> Setting:
    return Setting(Participation(window), replaced=True, cells=cells)


def pmf(value: int, scale: Fraction) -> float:
    """Pr(noise = value) of discrete Laplace noise."""
    ratio = math.exp(-1 / float(scale))
    return (1 - ratio) / (1 + ratio) * ratio ** abs(value)


def log_likelihood(rule: WindowMechanism, counts: Sequence[Sequence[int]], records: Sequence[tuple[int, ...]]) -> float:
    """Of records, given counts: literally, from the law of the noise and what was published before."""
    cells = len(counts[0])
    paid = rule.paid(setting(cells, rule.window), records)
    last: Sequence[int] = [0] * cells
    total = 0.0
    for row, record, units in zip(counts, records, paid, strict=True):
        distance = sum(abs(a - b) for a, b in zip(row, last, strict=True))
        total += math.log(pmf(record[0] - distance, rule.distance_scale()))
        if units:
            scale = Fraction(rule.l1_sensitivity) / (units * rule.unit())
            total += sum(math.log(pmf(o - c, scale)) for o, c in zip(record[1:], row, strict=True))
            last = record[1:]
    return total


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_no_decisions_overspend_a_window(name: str, window: int) -> None:
    """Over every sequence of decisions, no run of steps spends more than `spent` says, and one window all of it."""
    rule = make(name, window)
    steps = 11
    worst = dict.fromkeys(range(1, steps + 1), Fraction(0))
    for decisions in itertools.product((False, True), repeat=steps):
        paid: list[int] = []
        for publish in decisions:
            paid.append(rule.next_units(paid) if publish else 0)
        spent = [units * rule.unit() + Fraction(rule.epsilon) / (2 * window) for units in paid]
        sums = [Fraction(0), *itertools.accumulate(spent)]
        for width in worst:
            worst[width] = max(worst[width], *(b - a for a, b in zip(sums, sums[width:], strict=False)))
    assert all(worst[width] <= rule.spent(width) for width in worst)
    assert rule.spent(window) <= Fraction(rule.epsilon)
    assert worst[1] == rule.spent(1)
    assert worst[window] >= Fraction(3, 4) * Fraction(rule.epsilon)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KINDS)
def test_a_rule_that_overspends_draws_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run holds what a publication takes against `spent`: of one step, and of a window."""
    rule, counts = make(name, 4), np.full((4, 1), 10**6)
    most = int(rule.largest_part * Fraction(rule.epsilon) / rule.unit())
    for units in (most + 1, -1):
        monkeypatch.setattr(type(rule), "next_units", lambda self, paid, units=units: units)
        with pytest.raises(AssertionError):
            rule.measure(setting(1), counts, (), SimulationRandomness(1))
    monkeypatch.setattr(type(rule), "next_units", lambda self, paid: most)
    assert rule.free_units([0, 0, 0]) == most
    with pytest.raises(AssertionError):
        rule.free_units([0, most, most])
    assert rule.free_units([most, most, 0, 0, 0]) == most


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("cells", [1, 3])
def test_likelihoods_of_neighbors_differ_by_what_windows_spend(name: str, cells: int) -> None:
    """On real runs: for one user's values replaced in any window, no result is likelier by more than epsilon.

    Worst-case replacements are searched at every step of the window; a mechanism with half the noise breaks the bound.
    """
    rng = np.random.default_rng(3)
    rule = make(name, 3, "2", 2 if cells > 1 else 1)
    broken = rule.model_copy(update={"epsilon": 3 * rule.epsilon})
    largest = {False: 0.0, True: 0.0}
    for seed in range(12):
        counts = rng.integers(0, 60, size=(9, cells))
        for wrong, drawn in ((False, rule), (True, broken)):
            records = drawn.measure(setting(cells, 3), counts, (), SimulationRandomness(seed))
            for start in range(7):
                changed = counts.copy()
                for t in range(start, start + 3):
                    changed[t] = worst_neighbor(drawn, counts, changed, records, t, cells)
                ratio = log_likelihood(drawn, counts.tolist(), records)
                ratio -= log_likelihood(drawn, changed.tolist(), records)
                largest[wrong] = max(largest[wrong], abs(ratio))
    assert largest[False] <= float(rule.epsilon) * (1 + 1e-9)
    assert largest[True] > float(rule.epsilon)


def worst_neighbor(rule, counts, changed, records, step, cells):
    """Of one user's possible values at a step, the one that makes the records least likely."""
    moves = [[d] for d in (-1, 1)] if cells == 1 else [
        [(c == b) - (c == a) for c in range(cells)] for a, b in itertools.permutations(range(cells), 2)
    ]  # fmt: skip

    def likelihood(move):
        tried = changed.copy()
        tried[step] = counts[step] + move
        return log_likelihood(rule, tried.tolist(), records)

    return counts[step] + min(moves, key=likelihood)


@pytest.mark.parametrize("name", KINDS)
def test_runs_in_pieces_are_one_run(name: str) -> None:
    """Records of a run that is interrupted anywhere are those of one in a single piece; none is drawn again."""
    counts = np.random.default_rng(1).integers(0, 500, size=(30, 3))
    rule, where = make(name), setting(3)
    whole = rule.measure(where, counts, (), SimulationRandomness(5))
    randomness = SimulationRandomness(5)
    pieces: list[tuple[int, ...]] = []
    for stop in (1, 2, 9, 10, 30):
        pieces += rule.measure(where, counts[:stop], pieces, randomness)
    assert pieces == whole
    assert rule.measure(where, counts, whole, SimulationRandomness(6)) == []


@pytest.mark.parametrize("name", KINDS)
def test_values_come_from_records_alone(name: str) -> None:
    """What is published follows from records, and stays what it was when later records come."""
    counts = np.array([[200, 100, 50]] * 12 + [[50, 100, 200]] * 12)
    rule, where = make(name, 6, "5"), setting(3, 6)
    records = rule.measure(where, counts, (), SimulationRandomness(2))
    values = rule.values(where, records)
    for stop in range(len(records) + 1):
        assert (rule.values(where, records[:stop]) == values[:stop]).all()
    published = [step for step, record in enumerate(records) if len(record) > 1]
    assert 2 <= len(published) < len(records)
    assert np.abs(values[-1] - counts[-1]).max() < 40
    for step, record in enumerate(records):
        if len(record) > 1:
            assert values[step].tolist() == list(record[1:])
        elif step:
            assert (values[step] == values[step - 1]).all()


@pytest.mark.parametrize("name", KINDS)
def test_other_records_are_refused(name: str) -> None:
    """A record that publishes where the rule does not, or the other way round, is none of this mechanism."""
    rule, where = make(name), setting(2)
    for records in ([(0, 5, 5)], [(10_000,)], [()], [(10_000, 5)]):
        with pytest.raises(ValueError, match="no record"):
            rule.values(where, records)


@pytest.mark.law
@pytest.mark.parametrize("name", KINDS)
def test_the_noise_is_that_of_the_budget(name: str) -> None:
    """Distances and first publications vary as much as their scales say: 0.95 times the noise would not do."""
    rule, where = make(name, 4, "0.5"), setting(1)
    counts = np.full((1, 1), 100_000)
    records = [rule.measure(where, counts, (), SimulationRandomness(seed))[0] for seed in range(2000)]
    units = rule.next_units([])
    for noise, scale in (
        ([record[0] - 100_000 for record in records], rule.distance_scale()),
        ([record[1] - 100_000 for record in records], Fraction(rule.l1_sensitivity) / (units * rule.unit())),
    ):
        measured = float(np.mean(np.abs(noise))) / float(scale)
        assert 0.94 < measured < 1.06


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("budget", ["0.1", "0.5416666666666667", "3"])
def test_a_step_never_spends_more_than_its_budget(name: str, budget: str) -> None:
    """The epsilon that follows from a step's largest budget is rounded down, in exact fractions."""
    made = make(name, 12).with_step_budget(Decimal(budget))
    assert made.spent(1) <= Fraction(Decimal(budget)) < made.spent(1) * (1 + Fraction(1, 10**13))


@pytest.mark.law
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("steps", [12, pytest.param(150, marks=pytest.mark.law)])
def test_what_is_predicted_for_still_counts_is_what_comes(name: str, steps: int) -> None:
    """While counts stand still, runs have the predicted mean error over all their steps, the first ones among them."""
    where = setting(3, 6)
    counts = np.full((steps, 3), 1_000_000)
    rule = make(name, 6, "0.5")
    runs = [rule.values(where, rule.measure(where, counts, (), SimulationRandomness(seed))) for seed in range(100)]
    away = np.array(runs) - 1_000_000
    for objective, sizes in (("mean_squared_error", away**2.0), ("mean_absolute_error", np.abs(away))):
        known = rule.model_copy(update={"still_error": still_error(name, 6, 3, steps, objective)})
        stated = known.variances(where, 1)[0]
        if objective == "mean_absolute_error":
            stated = np.sqrt(stated / 2)  # of Laplace noise
        means = sizes.mean(axis=(1, 2))
        assert abs(means.mean() - stated) < 0.04 * stated + 4 * means.std() / 10


@pytest.mark.parametrize("name", KINDS)
def test_noise_that_does_not_fit_is_refused(name: str) -> None:
    """A window too long for its epsilon is refused when it is planned, before any data."""
    with pytest.raises(KernelError, match="out of range"):
        make(name, 1000).with_step_budget(Decimal("1e-15"))


@pytest.mark.parametrize("name", KINDS)
def test_sources_are_cited(name: str) -> None:
    """The paper is named in the documentation, with a key that is known."""
    assert "KELLARIS14" in (documented(type(make(name))) or "")
    assert "KELLARIS14" in SOURCES
