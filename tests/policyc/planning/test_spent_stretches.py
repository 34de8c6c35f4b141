"""What bounds for stretches of steps leave is spent: plans leak what they promise, by all outputs, and no more.

Constant budgets of a stream with a horizon, whose ends inherit from one side alone and whose middle from less of each.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.planning import pairwise
from policyc.planning.leakage.inheritance import shown_by_pairs
from policyc.planning.pairwise import allocate_by_pairs
from policyc.planning.promise import Promise
from policyc.planning.schedules import Allocation, Group, ScheduleError, allocate_quantified, allocate_uniform, expand
from policyc_check.steps.chains import Chain
from policyc_check.verify import verified_claims

SMALL = {
    "ring": [[0.8, 0.2, 0.0], [0.0, 0.8, 0.2], [0.2, 0.0, 0.8]],
    "line": [[0.6, 0.4, 0.0], [0.3, 0.4, 0.3], [0.0, 0.4, 0.6]],
    "round": [[0.1, 0.9, 0.0], [0.0, 0.1, 0.9], [0.9, 0.0, 0.1]],
}
POLICY = """policy visits "visitors by place"
stream visits {{
  user person
  time at
  cell place in {{"a", "b"}} otherwise "away"
  step 1h
  horizon {steps} steps
  population 40
  start "2026-01-01"
}}
release there = count(visits) by place
target alpha_dpt(alpha = 1.0)
correlation markov(forward = {rows}, initial = stationary, evidence = "x")
estimate mle
deliver offline
"""


def schedules(name: str, chain: Chain, alpha: float, steps: int) -> tuple[Allocation, Allocation | None]:
    """As a plan spends it, and as it would without bounds for stretches of steps."""
    group, by_recursion = Group(None, chain), {"uniform": allocate_uniform, "quantified": allocate_quantified}[name]
    known, promise = None, Promise(((alpha, 1),))
    with suppress(ScheduleError):
        known = by_recursion(alpha, steps, [group]) if steps < 100 else None  # else minutes
    found = allocate_by_pairs(name, promise, steps, [group], known) or known
    assert found is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairwise, "_for_stretches", lambda *_: None)
        return found, allocate_by_pairs(name, promise, steps, [group], known) or known


def variance(allocation: Allocation) -> float:
    """Of noise, a step, but for a factor."""
    return float((1 / expand(allocation.runs) ** 2).mean())


def leaked(chain: Chain, budgets: np.ndarray) -> float:
    """The leakage of the step about which most leaks, over all pairs of states and all outputs of every other step."""
    n = chain.states
    corners = np.array([cells for cells in product((0.0, 1.0), repeat=n) if 0 < sum(cells) < n])

    def passed(order: np.ndarray, law: np.ndarray) -> list[np.ndarray]:
        seen, found = np.ones((1, n)), [np.zeros((n, n))]
        for epsilon in order[:-1]:
            seen = np.unique((seen[:, None, :] * np.exp(epsilon * corners)).reshape(-1, n) @ law.T, axis=0)
            found.append((np.log(seen)[:, :, None] - np.log(seen)[:, None, :]).max(axis=0))
        return found

    before, after = passed(budgets, chain.backward), passed(budgets[::-1], chain.forward)[::-1]
    both = [(b + a + epsilon * (1 - np.eye(n))).max() for b, a, epsilon in zip(before, after, budgets, strict=True)]
    return float(max(both))


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("name", ["uniform", pytest.param("quantified", marks=pytest.mark.law)])
def test_outputs_tell_what_is_promised_and_no_more(kind: str, name: str) -> None:
    """Of six steps, for every pair of states; not a thousandth more may be spent; less noise than without stretches."""
    chain = Chain(SMALL[kind])
    for alpha in (0.5, 2.0):
        found, before = schedules(name, chain, alpha, 6)
        budgets = expand(found.runs)
        assert alpha * (1 - 1e-6) < leaked(chain, budgets) <= alpha < leaked(chain, budgets * 1.001)
        assert found.leakage <= alpha
        assert before is None or variance(found) < 0.97 * variance(before)


def test_a_plan_spends_it(tmp_path: Path) -> None:
    """Through `compile`, as the check recomputes it from the plan alone; all outputs tell as much."""
    path = tmp_path / "visits.policy"
    path.write_text(POLICY.format(steps=6, rows=SMALL["ring"]))
    plan = compile_policy(path).plan
    assert all(claim.holds for claim in verified_claims(plan))
    assert 0.999 < float(plan.claims.total_leakage or 0) <= 1
    (entry,) = plan.claims.inherited
    assert entry.pairs is not None
    segments = plan.releases[0].schedule.segments  # type: ignore[union-attr]
    budgets = np.concatenate([np.tile(np.array(s.epsilons, dtype=float), s.repeats or 1) for s in segments])
    assert len(budgets) == 6
    assert 0.999 < leaked(Chain(SMALL["ring"]), budgets) <= 1


@pytest.mark.parametrize(("steps", "name"), [(3, "uniform"), (40, "uniform"), (40, "quantified")])
def test_no_group_of_users_leaks_more(steps: int, name: str) -> None:
    """One that forgets at once, and one that hardly does: budgets are those of the slower one."""
    groups = [Group("fast", Chain(np.full((3, 3), 1 / 3))), Group("slow", Chain(SMALL["ring"]))]
    found = allocate_by_pairs(name, Promise(((1.0, 1),)), steps, groups, None)
    assert found is not None
    for group in groups:
        shown = shown_by_pairs(group.chain, expand(found.runs), endless=False)
        assert shown is not None
        assert shown[1].largest()[0] <= 1


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize(("n", "steps", "stay"), [(5, 40, 0.9), (3, 300, 0.99)])
def test_chains_that_forget_slowly(n: int, steps: int, stay: float) -> None:
    """What the check shows is at least .97 of what is promised; never more noise than without stretches."""
    chain = Chain(stay * np.eye(n) + (1 - stay) * np.random.default_rng(n).dirichlet(np.ones(n), n))
    for alpha, name in product((0.2, 3.0) if steps < 100 else (1.0,), ("uniform", "quantified")):
        found, before = schedules(name, chain, alpha, steps)
        shown = shown_by_pairs(chain, expand(found.runs), endless=False)
        assert shown is not None
        assert 0.97 * alpha < shown[1].largest()[0] <= alpha
        assert before is None or variance(found) <= variance(before)
