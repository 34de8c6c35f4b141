"""Long runs of repeating budgets are followed until leakage settles; the largest leakage is the same to the bit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from policyc.planning import pairwise, schedules
from policyc.planning.leakage import one_side, pairs, settled_runs
from policyc.planning.leakage.losses import losses_of
from policyc.planning.leakage.recursion import both_sides, largest_of
from policyc.planning.leakage.settled_runs import largest_leakage
from policyc.planning.promise import Promise
from policyc.planning.schedules import Group, Run, allocate_quantified, allocate_uniform, expand, spare
from policyc_check.steps.chains import Chain

NEARLY = [[0.7, 0.1, 0.15, 0.05], [0.01, 0.82, 0.02, 0.15], [0.13, 0.04, 0.71, 0.12], [0.02, 0.12, 0.04, 0.82]]
PARTED = [[0.5, 0.5, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]]  # nothing fades: leakage grows to the end


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> int:
    """Few steps, so that the whole streams are short enough to follow."""
    monkeypatch.setattr(one_side, "_PATIENCE", 250)
    monkeypatch.setattr(settled_runs, "KEPT", 300)
    return settled_runs.KEPT


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lags", [(1,), (1, 2, 5)])
@pytest.mark.parametrize("initial", ["stationary", (0.7, 0.1, 0.1, 0.1)])
@pytest.mark.parametrize("width", [1, 7])
def test_a_shorter_run_leaks_as_much(
    lags: tuple[int, ...], initial: str | tuple[float, ...], width: int, kept: int
) -> None:
    """Runs with ends of their own, with steps between releases, and one after the other, of many lengths."""
    chain = Chain(forward=NEARLY, initial=initial if isinstance(initial, str) else np.array(initial))
    group, promise = Group(None, chain, lags), Promise(((1.0, width),))
    laws = chain.backward_side(), chain.forward_side()
    for more in (1, 4, 5):
        runs = [Run(0.0, more), Run(0.2, 4_500, 3), Run(0.1, 4_001 + more), Run(0.4, 1)]
        budgets = expand(runs)
        whole = largest_of(budgets, both_sides(budgets, *laws, lags, width), width)
        assert spare(runs, promise, [group]) == 1.0 - whole
        assert largest_leakage(budgets, *laws, width, lags) == whole
        for audit in (True, False):
            told = schedules._leakage(runs, [group], width, 2.0, audit=audit)
            settled_runs.KEPT = len(budgets)
            assert told == schedules._leakage(runs, [group], width, 2.0, audit=audit)
            settled_runs.KEPT = kept
        patterns = [(run.pattern, (run.steps or 0) // run.period) for run in runs]
        late = SimpleNamespace(settled=5_000, settles={})
        steps, _ = settled_runs.along(patterns, 10, [late], lambda e: both_sides(e, *laws, lags))
        assert len(steps) == len(budgets)  # the law might not have settled
        steps, _ = settled_runs.along(patterns, 10, losses_of(chain), lambda e: both_sides(e, *laws, lags))
        assert len(steps) < len(budgets)


def test_as_few_steps_stand_for_a_run_as_settle() -> None:
    """Of a million, those of the shorter stretch where leakage fades soon, and of the longer one where it does not."""
    found = {}
    for stay in (0.7, 0.997):
        chain = Chain(forward=[[stay, 1 - stay], [1 - stay, stay]])
        sides = losses_of(chain)
        budgets, leaked = settled_runs.along([((1e-3,), 10**6)], 1, sides, lambda e, sides=sides: both_sides(e, *sides))
        long = np.full(20_000, 1e-3)
        assert largest_of(budgets, leaked, 1) == largest_of(long, both_sides(long, *sides), 1)
        found[stay] = len(budgets)
    assert found[0.7] < 2 * settled_runs.KEPT < found[0.997] < 8 * settled_runs.KEPT


@pytest.mark.parametrize("forward", [PARTED, [[0.9999, 0.0001], [0.0001, 0.9999]]])
def test_leakage_that_does_not_settle_is_that_of_all_steps(forward: list[list[float]], kept: int) -> None:
    """It grows with every step, or settles later than is looked at: nothing is left out."""
    assert 8 * kept < 4_000
    chain = Chain(forward=forward, initial=np.full(len(forward), 1 / len(forward)))
    sides = losses_of(chain)
    budgets, found = settled_runs.along([((1e-4,), 4_000)], 1, sides, lambda e: both_sides(e, *sides, ahead=True))
    assert len(budgets) == 4_000
    assert largest_of(budgets, found, 1) == largest_leakage(budgets, *sides, 1)


def test_budgets_are_those_of_all_steps(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules of a stream that is cut are, to the bit, those of the whole one."""
    group = Group(None, Chain(forward=NEARLY))
    short = [allocate(1.0, 4_000, [group]) for allocate in (allocate_uniform, allocate_quantified)]
    monkeypatch.setattr(settled_runs, "KEPT", 4_000)
    assert 8 * kept < 4_000
    assert short == [allocate(1.0, 4_000, [group]) for allocate in (allocate_uniform, allocate_quantified)]


def test_outputs_of_more_steps_than_are_followed_are_those_of_any_number() -> None:
    """Bounds by pairs over a long stream are searched once for all lengths beyond which nothing is followed."""
    chain = Chain(forward=NEARLY)
    pairs._largest.cache_clear()
    found = pairs.largest_budget(chain, 1.0, 10**6)
    ever = pairs.largest_budget(chain, 1.0, None)
    assert found is not None
    assert ever is not None
    assert pairs._largest.cache_info().misses == 1
    assert found.epsilon == ever.epsilon == pairs.largest_budget(chain, 1.0, 5_000).epsilon
    assert (found.before == ever.before).all()


@pytest.mark.parametrize("steps", [None, 30])
@pytest.mark.parametrize("seed", range(2))
def test_budgets_by_pairs_are_found_from_what_the_recursion_keeps(
    seed: int, steps: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as from next to nothing on; and none are looked for where nothing is known of that."""
    asked = []
    inherited = pairs.inherited
    monkeypatch.setattr(pairs, "inherited", lambda *args, **kind: asked.append(1) or inherited(*args, **kind))
    moves = np.random.default_rng(seed).dirichlet(np.ones(4), size=4)
    found = {}
    for near in (True, False):
        if not near:
            monkeypatch.setattr(pairs, "_kept_by_recursion", lambda *_: 0.0)
        for stay in (0.7, 0.99):
            asked.clear()
            pairs._largest.cache_clear()
            chain = Chain(forward=stay * np.eye(4) + (1 - stay) * moves)
            best = pairs.largest_budget(chain, 1.0, steps)
            found[near, stay] = 0.0 if best is None else best.epsilon, len(asked)
    pairs._largest.cache_clear()
    assert found[True, 0.7][0] == pytest.approx(found[False, 0.7][0], rel=4e-9)
    if steps is not None:
        assert found[True, 0.99][0] == pytest.approx(found[False, 0.99][0], rel=4e-9)
    elif found[True, 0.99][0] == 0:  # outputs of more steps tell than are followed
        assert 2 <= found[True, 0.99][1] <= found[False, 0.99][1]
        sides = losses_of(Chain(forward=0.99 * np.eye(4) + 0.01 * moves))
        least = found[False, 0.99][0]
        assert least + sum(side.loss(1, 1).supremum(least) - least for side in sides) < 1.0


@pytest.mark.parametrize("horizon", [2_002, 5_000])
def test_what_pairs_show_of_a_long_stream_needs_a_few_of_its_steps(horizon: int) -> None:
    """The ends and the largest budget between are all that is looked at."""
    chain = Chain(forward=NEARLY)
    side = pairs.largest_budget(chain, 1.0)
    assert side is not None
    runs = [Run(side.epsilon * 1.01, 1), Run(side.epsilon, horizon - 2), Run(side.epsilon * 1.01, 1)]
    few = np.array([runs[0].epsilon, *[side.epsilon] * 3, runs[-1].epsilon])
    found = pairwise.shown_by_pairs(chain, few, endless=False, horizon=horizon)
    whole = pairwise.shown_by_pairs(chain, expand(runs), endless=False)
    assert found is not None
    assert whole is not None
    assert found[0] == whole[0]
    assert found[1].largest()[0] == whole[1].largest()[0]
