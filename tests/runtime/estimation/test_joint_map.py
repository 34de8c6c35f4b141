"""The most probable flows against all paths counted one by one, and their predicted error against simulated users."""

from __future__ import annotations

from itertools import pairwise, product
from math import comb

import numpy as np
import pytest
from demands import at_least_zero, demand, demands, total
from numpy.typing import NDArray

from policyc_check.steps.chains import Chain
from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.count_process import CountProcess, marginals
from policyc_runtime.estimation.flows import DAMPING, GAP, Group, Newton, most_probable_flows, tilted_paths
from policyc_runtime.estimation.joint_map import JointMap, _error_ratio, _modes
from policyc_runtime.estimation.posterior import Posterior

Array = NDArray[np.float64]
BASE = np.array([[0.33, 0.33, 0.34], [0.8, 0.1, 0.1], [0.05, 0.9, 0.05]])
RING = np.array([[0.9, 0.1, 0.0], [0.0, 0.7, 0.3], [0.5, 0.0, 0.5]])
START = np.array([0.7, 0.3, 0.0])


def lazy(stay: float, cells: int = 4) -> Array:
    return np.eye(cells) * stay + (1 - np.eye(cells)) * (1 - stay) / (cells - 1)


def noise(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    stop = -np.expm1(-1 / scale)
    return (rng.geometric(stop, shape) - rng.geometric(stop, shape)).astype(np.float64)


def constraints_for(population: int, cells: int = 3, *, integer: bool = True) -> ConstraintSet:
    return demands(total(cells, population), *at_least_zero(cells), cells=cells, integer=integer)


def entropy(part: Array, whole: Array) -> float:
    """Sum of a log(a / b), 0 where a is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(part > 0, part * np.log(part / whole), 0.0).sum())


def problem(seed: int, steps: int = 5) -> tuple[Array, Array, float, Array, Array]:
    rng = np.random.default_rng(seed)
    users = float(rng.integers(3, 300))
    scales = 10 ** rng.uniform(-0.5, 1.5, steps) * (rng.random(steps) < 0.8)
    noisy = users * rng.dirichlet(np.ones(3), (steps, 1)) + rng.laplace(0, 1, (steps, 1, 3)) * scales[:, None, None]
    noisy[scales == 0] = np.nan
    return START, RING, users, np.rint(noisy), scales


@pytest.mark.parametrize("seed", range(12))
def test_no_flows_cost_less(seed: int) -> None:
    """The flows satisfy the chain, and their cost is that of a lower bound summed over all paths: they are least."""
    start, forward, users, noisy, scales = problem(seed)
    best = most_probable_flows([Group(start, forward, users)], noisy, scales)
    counts, flows = best.counts[:, 0], best.flows[:, 0]
    assert flows.sum(axis=2) == pytest.approx(counts[:-1], abs=1e-8)
    assert flows.sum(axis=1) == pytest.approx(counts[1:], abs=1e-8)
    assert counts.sum(axis=1) == pytest.approx(users)
    assert (flows[:, forward == 0] == 0).all()
    seen = scales > 0
    distance = np.abs(counts - noisy[:, 0])[seen] / scales[seen, None]
    cost = entropy(counts[0], users * start) + distance.sum()
    cost += sum(entropy(flows[t], counts[t, :, None] * forward) for t in range(len(flows)))
    prices = best.prices[:, 0]
    assert (np.abs(prices[seen]) * scales[seen, None] <= 1).all()
    assert (prices[~seen] == 0).all()
    mass = 0.0
    for path in product(range(3), repeat=len(counts)):
        way = np.prod([forward[here, there] for here, there in pairwise(path)])
        mass += start[path[0]] * way * np.exp(-sum(prices[t, cell] for t, cell in enumerate(path)))
    bound = -users * np.log(mass) - (prices[seen] * noisy[seen, 0]).sum()
    assert cost == pytest.approx(best.cost[0], rel=1e-9, abs=1e-9)
    assert bound <= cost + 1e-9 * (1 + cost)
    assert cost - bound <= 2 * GAP * (1 + abs(cost))


@pytest.mark.parametrize("seed", range(6))
def test_no_flows_of_several_groups_cost_less(seed: int) -> None:
    """Every group moves by its own chain, and what all cost is that of a bound summed over all paths of each."""
    start, forward, users, noisy, scales = problem(seed)
    groups = [Group(start, forward, 0.3 * users), Group(np.full(3, 1 / 3), BASE, 0.6 * users), Group(start, BASE, 2.0)]
    best = most_probable_flows(groups, noisy, scales)
    seen, prices = scales > 0, best.prices[:, 0]
    assert (np.abs(prices[seen]) * scales[seen, None] <= 1).all()
    bound, cost, together = -(prices[seen] * noisy[seen, 0]).sum(), 0.0, np.zeros((len(noisy), 3))
    for group, path in zip(groups, best.paths, strict=True):
        counts = group.size * path.laws[:, 0]
        flows = counts[:-1, :, None] * path.moves[:, 0]
        assert flows.sum(axis=1) == pytest.approx(counts[1:], abs=1e-8)
        assert counts.sum(axis=1) == pytest.approx(group.size)
        cost += entropy(counts[0], group.size * group.start)
        cost += sum(entropy(flows[t], counts[t, :, None] * group.forward) for t in range(len(flows)))
        together += counts
        mass = 0.0
        for way in product(range(3), repeat=len(counts)):
            chance = group.start[way[0]] * np.prod([group.forward[here, there] for here, there in pairwise(way)])
            mass += chance * np.exp(-sum(prices[t, cell] for t, cell in enumerate(way)))
        bound -= group.size * np.log(mass)
    assert together == pytest.approx(best.counts[:, 0], abs=1e-8)
    assert best.flows.sum(axis=2)[:, 0] == pytest.approx(together[1:], abs=1e-8)
    cost += (np.abs(together - noisy[:, 0])[seen] / scales[seen, None]).sum()
    assert cost == pytest.approx(best.cost[0], rel=1e-9, abs=1e-9)
    assert bound <= cost + 1e-9 * (1 + cost)
    assert cost - bound <= 2 * GAP * (1 + abs(cost))


def test_a_group_in_parts_is_the_group() -> None:
    """Users who move alike cost the same and are as many, in one group or in three."""
    start, forward, users, noisy, scales = problem(3, 12)
    one = most_probable_flows([Group(start, forward, users)], noisy, scales)
    parts = most_probable_flows([Group(start, forward, part * users) for part in (0.2, 0.3, 0.5)], noisy, scales)
    assert parts.cost == pytest.approx(one.cost, rel=2 * GAP)
    assert parts.counts == pytest.approx(one.counts, abs=0.01)


def test_sums_over_groups_are_most_probable_where_all_ways_are_counted() -> None:
    """Of two groups over two steps, the sums to which most ways of whole users lead are within a user, few or many."""
    two, swap = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.1, 0.9], [0.6, 0.4]])
    for users in (30, 150):
        seen = np.array([[0.7 * users, 0.3 * users], [0.4 * users, 0.6 * users]])
        halves = users // 3, users - users // 3
        table = np.array([[1.0]])
        for size, move in zip(halves, (two, swap), strict=True):
            table = convolved(table, ways(size, move))
        grid = np.arange(users + 1)
        noise = 2 * (np.abs(grid[:, None] - seen[0, 0]) + np.abs(grid[None] - seen[1, 0])) / (0.1 * users)
        likeliest = np.unravel_index(np.argmax(np.log(table) - noise), table.shape)
        groups = [Group(np.full(2, 0.5), move, float(size)) for size, move in zip(halves, (two, swap), strict=True)]
        found = most_probable_flows(groups, seen[:, None], np.full(2, 0.1 * users)).counts[:, 0, 0]
        assert found == pytest.approx(likeliest, abs=1.0)


def ways(size: int, move: Array) -> Array:
    """(size + 1, size + 1) probabilities of the first cell's counts at two steps, users beginning evenly."""
    table = np.zeros((size + 1, size + 1))
    for first in range(size + 1):
        begun = comb(size, first) * 0.5**size
        stay = [comb(first, k) * move[0, 0] ** k * move[0, 1] ** (first - k) for k in range(first + 1)]
        rest = size - first
        come = [comb(rest, k) * move[1, 0] ** k * move[1, 1] ** (rest - k) for k in range(rest + 1)]
        table[first] = begun * np.convolve(stay, come)
    return table


def convolved(one: Array, other: Array) -> Array:
    """The law of sums of two independent pairs of counts."""
    table = np.zeros((len(one) + len(other) - 1,) * 2)
    for place, row in np.ndenumerate(one):
        table[place[0] : place[0] + len(other), place[1] : place[1] + len(other)] += row * other
    return table


def test_tilted_paths_are_the_law_of_all_paths() -> None:
    """Marginals and moves by forward-backward are those of all paths weighted one by one."""
    prices = np.random.default_rng(3).normal(0, 2, (4, 1, 3))
    paths = tilted_paths(START, RING, prices)
    marginals, pairs = np.zeros((4, 3)), np.zeros((3, 3, 3))
    for path in product(range(3), repeat=4):
        weight = START[path[0]] * np.prod([RING[here, there] for here, there in pairwise(path)])
        weight *= np.exp(-sum(prices[t, 0, cell] for t, cell in enumerate(path)))
        for t, cell in enumerate(path):
            marginals[t, cell] += weight
            if t:
                pairs[t - 1, path[t - 1], cell] += weight
    assert np.exp(paths.log_mass[0]) == pytest.approx(marginals[0].sum())
    assert paths.laws[:, 0] == pytest.approx(marginals / marginals[0].sum())
    assert paths.laws[:-1, 0, :, None] * paths.moves[:, 0] == pytest.approx(pairs / marginals[0].sum())


def test_a_round_is_solved_where_nothing_pushes_back() -> None:
    """Where prices are far from their bounds, only the damping keeps the curvature from being flat."""
    steps, cells, size = 80, 4, 200.0
    paths = tilted_paths(np.full(cells, 0.25), lazy(0.9), np.zeros((steps, 1, cells)))
    right = np.random.default_rng(3).normal(size=(steps, 1, cells))
    right -= right.mean(axis=2, keepdims=True)
    found = Newton([size], [paths], np.full(right.shape, 1.0 / (DAMPING * size))).solve(right)
    laws, away = paths.laws[:, 0], DAMPING * size * found[:, 0]
    for first in range(steps):  # the covariances of a user's whereabouts at any two steps
        reach = np.eye(cells)
        for last in range(first, steps):
            together = size * laws[first][:, None] * (reach - laws[last])
            away[first] += together @ found[last, 0]
            away[last] += together.T @ found[first, 0] if last > first else 0.0
            reach = reach @ paths.moves[min(last, steps - 2), 0]
    assert np.allclose(away, right[:, 0], atol=1e-5)


def test_noise_without_end_leaves_the_chain_and_noise_without_size_the_values() -> None:
    """Between prior and data: huge scales give what the chain expects, tiny ones counts that the chain allows."""
    chain = Chain(forward=BASE, initial=START)
    true = 100 * marginals(chain, 6)[:, None] + np.array([1.0, -1.0, 0.0])
    true[0] -= np.array([1.0, -1.0, 0.0])
    far = most_probable_flows([Group(START, BASE, 100.0)], true + 50, np.full(6, 1e6))
    assert far.counts[:, 0] == pytest.approx(100 * marginals(chain, 6), abs=0.01)
    near = most_probable_flows([Group(START, BASE, 100.0)], true, np.full(6, 0.05))
    assert near.counts == pytest.approx(true, abs=1e-4)


def test_steps_without_values_are_filled_by_the_chain() -> None:
    """Between two steps that are known well, flows are the most probable ones; with no values at all, the chain's."""
    chain = Chain(forward=BASE, initial=START)
    none = most_probable_flows([Group(START, BASE, 40.0)], np.full((5, 1, 3), np.nan), np.zeros(5))
    assert none.counts[:, 0] == pytest.approx(40 * marginals(chain, 5))
    noisy = np.full((3, 1, 3), np.nan)
    noisy[0], noisy[2] = [40.0, 0.0, 0.0], [0.0, 40.0, 0.0]
    ends = most_probable_flows([Group(np.full(3, 1 / 3), BASE, 40.0)], noisy, np.array([0.01, 0.0, 0.01]))
    bridge = BASE[0] * BASE[:, 1]
    assert ends.counts[1, 0] == pytest.approx(40 * bridge / bridge.sum(), abs=0.01)


@pytest.mark.parametrize("scale", [1e9, 1e3, 1.0, 0.1])
@pytest.mark.parametrize("forward", [np.eye(3), RING, lazy(0.999, 3), BASE], ids=["still", "ring", "lazy", "mixing"])
def test_contradictory_values_are_solved_too(scale: float, forward: Array) -> None:
    """Values far from anything possible still end within the gap, with few users or many."""
    rng = np.random.default_rng(4)
    for users in (1.0, 1e6):
        noisy = rng.normal(0, 10 * users + 1e4, (30, 2, 3))
        assert most_probable_flows([Group(START, forward, users)], noisy, np.full(30, scale)).reached.all()


def test_series_solved_together_are_those_solved_alone() -> None:
    """Streams side by side have nothing to do with each other."""
    start, forward, users, noisy, scales = problem(5, 20)
    other = np.concatenate([noisy, noisy[::-1] + 7], axis=1)
    both = most_probable_flows([Group(start, forward, users)], np.where(np.isnan(other), 3.0, other), scales)
    alone = most_probable_flows([Group(start, forward, users)], noisy, scales)
    assert both.cost[0] == pytest.approx(alone.cost[0], rel=2 * GAP)
    assert both.counts[:, 0] == pytest.approx(alone.counts[:, 0], abs=0.02)


def test_published_values_are_whole_and_keep_the_constraints() -> None:
    """Rounding keeps the sum, and further constraints hold."""
    rng = np.random.default_rng(6)
    chain = Chain(forward=BASE)
    true = CountProcess(50.0, 3, chain).drawn(30, 1, rng)[:, 0]
    noisy = true + noise(4.0, true.shape, rng)
    few = demands(total(3, 50), *at_least_zero(3), demand("x[0] <= 20", {0: 1}, "<=", 20), cells=3, integer=True)
    for constraints in (constraints_for(50), few):
        values = JointMap().estimate_series(noisy, np.full(30, 4.0), 0, chain, constraints, None, None)
        constraints.check(values, None)
        assert np.array_equal(values, np.rint(values))
    later = JointMap().estimate_series(noisy, np.full(30, 4.0), 12, chain, few, None, None)
    assert np.array_equal(later, values[12:])


def test_nobody_is_nowhere() -> None:
    """A population of 0 has counts of 0."""
    values = JointMap().estimate_series(
        np.ones((4, 3)), np.ones(4), 0, Chain(forward=BASE), constraints_for(0), None, None
    )
    assert (values == 0).all()


@pytest.mark.law
@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
@pytest.mark.parametrize(
    ("move", "population", "scale", "every"),
    [(BASE, 200, 8.0, 1), (lazy(0.9), 200, 8.0, 1), (lazy(0.99), 10_000, 8.0, 4), (lazy(0.9), 200, 1.0, 1)],
)
def test_predicted_errors_are_measured(move: Array, population: int, scale: float, every: int, objective: str) -> None:
    """The error said before any data is within 10 % of that of users simulated with other seeds."""
    rng = np.random.default_rng(11)
    cells, chain = len(move), Chain(forward=move)
    scales = np.where(np.arange(150) % every == 0, scale, 0.0)
    predicted = JointMap().predicted_errors(chain, population, scales, None, objective, integer=True)  # type: ignore[arg-type]
    assert predicted is not None
    errors = []
    for _ in range(12):
        true = CountProcess(float(population), cells, chain).drawn(150, 1, rng)[:, 0]
        noisy = np.where(scales[:, None] > 0, true + noise(scale, true.shape, rng), np.nan)
        constraints = constraints_for(population, cells)
        values = JointMap().estimate_series(noisy, scales, 0, chain, constraints, None, None)
        errors.append(np.mean(np.abs(values - true) ** (2 if objective == "mean_squared_error" else 1)))
    margin = 0.1 * predicted.mean() + 2 * np.std(errors) / np.sqrt(len(errors))
    assert np.mean(errors) == pytest.approx(predicted.mean(), abs=margin)


def test_it_says_where_it_does_not_apply() -> None:
    """It needs one chain, cells, a known total, and values that may wait for all steps."""
    constraints = constraints_for(50)
    assert JointMap().reason_against(1, constraints) is None
    assert (
        JointMap().reason_against(2, constraints)
        == "it needs one chain that says how users move, or groups with a `share` each"
    )
    assert JointMap().reason_against(1, demands(*at_least_zero(3), cells=3)) is not None
    assert JointMap().reason_against_delay(None) is None
    assert JointMap().reason_against_delay(0) is not None
    assert JointMap().reason_against_delay(5) is not None
    with pytest.raises(ReleaseError) as caught:
        JointMap().estimate_series(np.ones((2, 3)), np.ones(2), 0, None, constraints, None, None)
    assert caught.value.code == "E0833"


def test_errors_are_predicted_where_the_first_steps_have_no_values() -> None:
    """What is tried of a long stream is its first steps, and the only release may come after them."""
    scales = np.zeros(120)
    scales[110] = 3.0
    found = JointMap().predicted_errors(Chain(forward=RING), 100, scales, None, "mean_squared_error", integer=False)
    assert found is not None
    assert found.argmin() == 110
    assert found[0] == pytest.approx(found[50], rel=0.01)


@pytest.mark.law
@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
@pytest.mark.parametrize(
    ("states", "stay", "every", "scale", "population"),
    [(2, 0.9995, 30, 4.0, 1000), (4, 0.9, 5, 6.0, 4037), (3, 0.99, 10, 6.0, 1000), (4, 0.999, 50, 6.0, 1000)],
)
def test_how_much_more_the_mode_errs_is_what_users_show(
    objective: str, states: int, stay: float, every: int, scale: float, population: int
) -> None:
    """Against the errors themselves, of mode and mean, on 600 streams of other users; slow chains included."""
    rows = np.random.default_rng(5).random((states, states))
    forward = stay * np.eye(states) + (1 - stay) * rows / rows.sum(axis=1, keepdims=True)
    process = CountProcess.of(float(population), Chain(forward=forward, initial="stationary"))
    scales = np.zeros(60)
    scales[every // 2 :: every] = scale
    told = _error_ratio(process, scales, objective, integer=False)
    generator, streams = np.random.default_rng(7), 600
    true = process.drawn(len(scales), streams, generator).astype(float)
    noisy = true + generator.laplace(scale=scale, size=true.shape)
    noisy[scales == 0] = np.nan
    posterior = Posterior(process, scales, None)
    means = np.stack([posterior.means(noisy[:, one]) for one in range(streams)], axis=1)
    power = 2 if objective == "mean_squared_error" else 1
    mode, mean = (
        (np.abs(found - true) ** power).mean(axis=(0, 2)) for found in (_modes(process, noisy, scales), means)
    )
    ratio = mode.mean() / mean.mean()
    stderr = float(np.std(mode - ratio * mean)) / np.sqrt(streams) / mean.mean()
    assert abs(told - ratio) <= 3 * stderr + 0.04, (told, ratio, stderr)
