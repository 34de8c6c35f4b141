"""Leakage accounted for pairs of states: between what attacks reach and what the recursion says, whoever states it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.pipeline import Compilation, compile_policy
from policyc.planning.leakage import best_outputs, pairs
from policyc.planning.leakage.inheritance import audited_total_leakage
from policyc.planning.leakage.losses import losses_of
from policyc.planning.leakage.pairs import Settled, inherited, largest_budget, settled
from policyc.planning.leakage.recursion import supremum
from policyc.planning.leakage.stretches import followed
from policyc.planning.leakage.witness import found_attack
from policyc_check.errors import PlanRejectedError
from policyc_check.plan.claims import Inheritance, PairBounds
from policyc_check.steps.chains import Chain
from policyc_check.steps.inheritance import GroupLeakage, audited_leakage, leakage_of_group
from policyc_check.steps.pairs import inherited_by_pairs
from policyc_check.verify import verified_claims
from policyc_runtime.plan import Plan
from policyc_runtime.witness import witnesses_of

SPARSE = [[0.7, 0.3, 0.0, 0.0], [0.1, 0.6, 0.3, 0.0], [0.0, 0.2, 0.5, 0.3], [0.2, 0.0, 0.2, 0.6]]


def held(chain: Chain, found: Settled, budgets: list[float], *, endless: bool = False, **sides: Any) -> GroupLeakage:
    before, after = found.stated
    pairs = sides.get("before", before), sides.get("after", after)
    entry = Inheritance(group=None, before=(), after=(), pairs=pairs)
    array = np.array(budgets)
    return audited_leakage(entry, array, chain.backward_side(), chain.forward_side(), endless=endless)


def exact(chain: Chain, budgets: list[float], laws: list[list[np.ndarray]] | None = None) -> list[float]:
    """The leakage of every step, over all pairs of states and all sets of cells of every other step.

    With `laws`, those backward and forward, each of all steps but one, in the order in which leakage is passed on.
    """
    n, steps = chain.states, len(budgets)
    backward, forward = laws or ([chain.backward] * (steps - 1), [chain.forward] * (steps - 1))
    corners = np.array([cells for cells in product((0.0, 1.0), repeat=n) if 0 < sum(cells) < n])

    def sides(laws: list[np.ndarray], order: list[float]) -> list[np.ndarray]:
        """The largest log ratio of every pair at each step, by all outputs of the steps before it."""
        seen, found = np.ones((1, n)), [np.zeros((n, n))]
        for epsilon, law in zip(order[:-1], laws, strict=True):
            seen = np.unique((seen[:, None, :] * np.exp(epsilon * corners)).reshape(-1, n) @ law.T, axis=0)
            found.append((np.log(seen)[:, :, None] - np.log(seen)[:, None, :]).max(axis=0))
        return found

    before, after = sides(backward, budgets), sides(forward, budgets[::-1])[::-1]
    return [float((before[t] + after[t] + budgets[t] * (1 - np.eye(n))).max()) for t in range(steps)]


@st.composite
def chains(draw: st.DrawFn, most: int = 3) -> Chain:
    n = draw(st.integers(2, most))
    rows = [[draw(st.sampled_from([0, 1, 2, 9, 40])) for _ in range(n)] for _ in range(n)]
    matrix = np.array(rows, dtype=float) + np.eye(n) + np.roll(np.eye(n), 1, axis=1)
    return Chain(matrix / matrix.sum(axis=1, keepdims=True), relative_error=1.2e-16)


@settings(max_examples=30, deadline=None)
@given(chains(), st.sampled_from([0.05, 0.3, 1.0]), st.sampled_from([0.0, 0.7]), st.integers(0, 5))
def test_every_pair_s_bound_is_reached(chain: Chain, epsilon: float, first: float, steps: int) -> None:
    """By one of all sets of cells of so many earlier steps: no more, no less; and the check takes a hair more alone."""
    steps = min(steps, 5 if chain.states == 2 else 3)
    found = inherited(chain.backward, epsilon, first, steps)
    budgets = [max(first, epsilon), *[epsilon] * steps][: steps + 1]
    true = max_ratios(chain.backward, budgets[:steps])
    assert found == pytest.approx(true, rel=1e-10, abs=1e-13)
    if steps:
        for factor, shown in ((1 + 1e-9, True), (1 - 1e-6, False)):
            entry = PairBounds(nats=tuple((found * factor + (1e-13 if shown else 0.0)).ravel().tolist()))
            if found.max() > 0:
                assert accepted(entry, budgets, chain) is shown


def max_ratios(law: np.ndarray, budgets: list[float]) -> np.ndarray:
    """The largest log ratio of every pair after steps with these budgets, over all sets of cells, and longer streams.

    A stream that ends sooner began with the first budget later.
    """
    n = len(law)
    corners = np.array([cells for cells in product((0.0, 1.0), repeat=n) if 0 < sum(cells) < n])
    most = np.zeros((n, n))
    for begun in range(len(budgets)):
        seen = np.ones((1, n))
        for epsilon in [budgets[0], *budgets[begun + 1 :]]:
            seen = np.unique((seen[:, None, :] * np.exp(epsilon * corners)).reshape(-1, n) @ law.T, axis=0)
        most = np.maximum(most, (np.log(seen)[:, :, None] - np.log(seen)[:, None, :]).max(axis=0))
    return most


def accepted(entry: PairBounds, budgets: list[float], chain: Chain) -> bool:
    try:
        inherited_by_pairs(entry, np.array(budgets), chain.backward_side(), "before", len(budgets) - 1)
    except PlanRejectedError:
        return False
    return True


@settings(max_examples=20, deadline=None)
@given(chains(), st.sampled_from([0.05, 0.3, 1.0]), st.data())
def test_what_is_shown_lies_between_the_truth_and_the_recursion(
    chain: Chain, epsilon: float, data: st.DataObject
) -> None:
    """Of the stated budgets and of all that are smaller, steps without a release too: exact over all outputs."""
    found = settled(chain, epsilon)
    if found is None:
        return
    steps = data.draw(st.integers(1, 6 if chain.states == 2 else 4))
    budgets = data.draw(st.lists(st.sampled_from([0.0, epsilon / 3, epsilon]), min_size=steps, max_size=steps))
    shown = held(chain, found, budgets).windows(1)
    assert (shown >= np.array(exact(chain, budgets)) - 1e-12).all()
    long = [epsilon] * 200
    recursion = sum(supremum(epsilon, side) for side in losses_of(chain)) - epsilon
    assert held(chain, found, long).largest()[0] <= recursion * (1 + 1e-6) + 1e-6
    assert held(chain, found, [epsilon], endless=True).largest()[0] == held(chain, found, long).largest()[0]


def held_as(chain: Chain, pairs: tuple[PairBounds, PairBounds], budgets: list[float]) -> GroupLeakage:
    entry, sides = (
        Inheritance(group=None, before=(), after=(), pairs=pairs),
        (chain.backward_side(), chain.forward_side()),
    )
    return audited_leakage(entry, np.array(budgets), *sides, endless=False)


@settings(max_examples=25, deadline=None)
@given(chains(), st.sampled_from([0.05, 0.3, 1.0]), st.sampled_from([0.0, 0.7]), st.sampled_from([0.0, 1.5]))
def test_what_stretches_of_steps_show_is_never_less_than_the_truth(
    chain: Chain, epsilon: float, first: float, last: float
) -> None:
    """Of every step, exact over all outputs; the largest is reached; no number of any stretch can be made smaller."""
    steps = 6 if chain.states == 2 else 4
    ends = max(first, epsilon), max(last, epsilon)
    budgets = [ends[0], *[epsilon] * (steps - 2), ends[1]]
    truth = np.array(exact(chain, budgets))
    along = followed(chain, (ends[0], epsilon, ends[1]), steps - 1)
    assert along is not None
    assert along.leakage.max() == pytest.approx(truth.max(), rel=1e-9)
    assert (along.leakage <= truth + 1e-12).all()
    stated = along.stated()
    if stated is None:
        return
    shown = held_as(chain, stated, budgets).windows(1)
    assert (shown >= truth - 1e-12).all()
    if max(ends) <= 5 * epsilon:  # the looser, the more is spent at the ends: 30 times as much is seen to be 6 % loose
        assert shown.max() <= truth.max() * (1 + 1e-6 if chain.states == 2 else 1.05)
    alike = settled(chain, epsilon, ends, steps - 1)
    assert alike is None or shown.max() <= held(chain, alike, budgets).largest()[0] * (1 + 1e-9)
    for side in (0, 1):
        nats, until = stated[side].nats, stated[side].until
        for place in np.flatnonzero(np.array(nats) > 1e-6):
            fewer = (*nats[:place], nats[place] * (1 - 1e-5), *nats[place + 1 :])
            with pytest.raises(PlanRejectedError):
                held_as(chain, replaced(stated, side, fewer, until), budgets)


def replaced(
    stated: tuple[PairBounds, PairBounds], side: int, nats: tuple[float, ...], until: tuple[int, ...]
) -> tuple[PairBounds, PairBounds]:
    other = PairBounds(nats=nats, until=until)
    return (other, stated[1]) if side == 0 else (stated[0], other)


def test_stretches_are_those_of_the_stream() -> None:
    """Other numbers of steps, not rising, one too few, too many; matrices in another order; an endless stream."""
    chain, budgets = Chain([[0.9, 0.1], [0.2, 0.8]]), [0.2] * 12
    along = followed(chain, (0.2, 0.2, 0.2), 11)
    assert along is not None
    stated = along.stated()
    assert stated is not None
    nats, until = stated[0].nats, stated[0].until
    assert held_as(chain, stated, budgets).largest()[0] == pytest.approx(along.leakage.max(), rel=1e-6)
    assert len(until) > 2
    assert until[-1] == 11
    others = [
        (*until[:-2], until[-1]),
        (*until, 12),
        (*until[:-1], 12),
        (*until[:-1], 10),
        (*until[:-2], until[-1], until[-1]),
        (*until[:-2], until[-1], until[-2]),
        (until[-1], *until[1:]),
        tuple(step + 1 for step in until[:-1]) + until[-1:],
        (),
    ]
    for other in others:
        with pytest.raises(PlanRejectedError):
            held_as(chain, replaced(stated, 0, nats, other), budgets)
    with pytest.raises(PlanRejectedError):
        held_as(chain, replaced(stated, 0, (*nats[-4:], *nats[4:-4], *nats[:4]), until), budgets)
    for longer in ([0.2] * 13, [0.2] * 11):
        with pytest.raises(PlanRejectedError):
            held_as(chain, stated, longer)
    entry = Inheritance(group=None, before=(), after=(), pairs=stated)
    with pytest.raises(PlanRejectedError):
        audited_leakage(entry, np.array([0.2]), chain.backward_side(), chain.forward_side(), endless=True)


@settings(max_examples=12, deadline=None)
@given(chains(), st.sampled_from([0.01, 0.1, 0.3]), st.sampled_from([0.05, 0.5]), st.integers(0, 2**32 - 1))
def test_rows_known_roughly(chain: Chain, rho: float, epsilon: float, seed: int) -> None:
    """Whatever rows are within rho, others at every step and both ways: exact over all outputs, larger ends too."""
    ends = (epsilon, 3 * epsilon)
    found = settled(chain, epsilon, ends, rho=rho)
    if found is None:
        return
    bound = found.largest(epsilon, *ends)
    rng, n = np.random.default_rng(seed), chain.states
    budgets = [ends[0], *[epsilon] * (4 if n == 2 else 2), ends[1]]
    for _ in range(20):
        laws = [[moved(law, rho, rng) for _ in budgets[1:]] for law in (chain.backward, chain.forward)]
        assert max(exact(chain, budgets, laws)) <= bound + 1e-12


def moved(law: np.ndarray, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Rows at a total variation of rho, or as far as their entries last: from one state to another."""
    found = law.copy()
    for row in found:
        giver, taker = rng.choice(len(law), 2, replace=False)
        share = min(rho, row[giver])
        row[giver] -= share
        row[taker] += share
    return found


@pytest.mark.parametrize("rho", [0.001, 0.01, 0.05])
def test_of_two_states_known_roughly_the_bound_is_reached(rho: float) -> None:
    """By rows that lie as far apart as they may, at every step: to six digits, where the recursion says the same."""
    chain = Chain([[0.8, 0.2], [0.2, 0.8]])
    worst = Chain([[0.8 + rho, 0.2 - rho], [0.2 - rho, 0.8 + rho]])
    found = settled(chain, 0.05, rho=rho)
    assert found is not None
    attack = found_attack(worst, np.full(4001, 0.05), [2000])
    assert attack is not None
    assert attack.nats == pytest.approx(found.largest(0.05, 0.0, 0.0), rel=1e-6)
    recursion = sum(supremum(0.05, side) for side in losses_of(chain, rho)) - 0.05
    assert recursion == pytest.approx(found.largest(0.05, 0.0, 0.0), rel=1e-6)


@pytest.mark.law
@settings(max_examples=30, deadline=None)
@given(chains(2))
def test_of_two_states_the_bound_is_reached(chain: Chain) -> None:
    """To six digits, after so many steps that no more are felt."""
    found = largest_budget(chain, 1.0)
    assert found is not None
    budgets = np.full(4001, found.epsilon)
    attack = found_attack(chain, budgets, [2000])
    assert attack is not None
    assert attack.nats == pytest.approx(1.0, rel=1e-6)
    assert held(chain, found, budgets.tolist()).largest()[0] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("side", ["before", "after"])
def test_no_number_can_be_made_smaller(side: str) -> None:
    """A bound lowered by a part in a hundred thousand, one too few, larger budgets, other laws."""
    chain = Chain(SPARSE)
    found = largest_budget(chain, 1.0)
    assert found is not None
    budgets = [found.epsilon] * 9
    assert held(chain, found, budgets).largest()[0] == pytest.approx(1.0, abs=1e-6)
    stated = found.stated[("before", "after").index(side)]

    def refused(**fields: tuple[float, ...]) -> None:
        with pytest.raises((PlanRejectedError, ValueError)):
            held(chain, found, budgets, endless=True, **{side: PairBounds(**{**dict(stated), **fields})})

    for place, nats in enumerate(stated.nats):
        if nats:
            refused(nats=(*stated.nats[:place], nats * (1 - 1e-5), *stated.nats[place + 1 :]))
    refused(nats=stated.nats[:-1])
    for more in ([*budgets[:4], found.epsilon * 1.001, *budgets[5:]], [1.0, *budgets], [*budgets, 1.0]):
        with pytest.raises(PlanRejectedError):
            held(chain, found, more, endless=True)
    for other in (Chain(SPARSE[::-1]), Chain(SPARSE, initial=[0.25] * 4)):
        with pytest.raises(PlanRejectedError):
            held(other, found, budgets, endless=True)


def test_bounds_of_a_few_steps_are_none_of_a_long_stream(gallery: Path, tmp_path: Path) -> None:
    """Traffic, 288 steps alike: what holds of the few steps that the check looks at does not hold of all of them."""
    text = (gallery / "traffic.policy").read_text(encoding="utf-8")
    (tmp_path / "traffic.policy").write_text(f"{text}\nbudget uniform()\n", encoding="utf-8")
    plan = compile_policy(tmp_path / "traffic.policy").plan
    (record,) = plan.correlation.chains
    (segment,) = plan.releases[0].schedule.segments  # type: ignore[union-attr]

    def altered(steps: int) -> Plan:
        found = settled(record.chain(), float(segment.epsilons[0]), steps=steps)
        assert found is not None
        content = plan.model_dump(mode="json")
        content["claims"]["inherited"][0]["pairs"] = [side.model_dump(mode="json") for side in found.stated]
        return Plan.model_validate(content).sealed()

    assert all(claim.holds for claim in verified_claims(altered(287)))
    for steps in (1, 2, 3, 5, 8):
        assert not all(claim.holds for claim in verified_claims(altered(steps)))


def test_a_plan_spends_what_pairs_leave(compiled_gallery: Callable[[str], Compilation]) -> None:
    """Wards: its own budgets are shown by pairs alone, nearly all is reached, and nothing more may be spent."""
    plan = compiled_gallery("wards").plan
    assert all(claim.holds for claim in verified_claims(plan))
    (entry,) = (entry for entry in plan.claims.inherited if entry.pairs)
    (record,) = (record for record in plan.correlation.chains if record.group == entry.group)
    bound = leakage_of_group(plan, record).largest()[0]
    budget = float(plan.releases[0].schedule.segments[0].epsilons[0])  # type: ignore[union-attr]
    assert audited_total_leakage(np.full(200, budget), record.chain(), record.lags).max() > 0.8
    assert 0.79 < bound <= 0.8
    (witness,) = (witness for witness in witnesses_of(plan) if witness.group == entry.group)
    assert bound / float(witness.nats) < 1 + 1e-8
    assert not all(claim.holds for claim in verified_claims(more(plan)))


def more(plan: Plan) -> Plan:
    """A thousandth more of every budget, and as much less noise."""
    content = plan.model_dump(mode="json")
    for release in content["releases"]:
        for segment in release["schedule"]["segments"]:
            segment["epsilons"] = [str(float(e) * 1.001) for e in segment["epsilons"]]
            segment["scales"] = [str(float(s) / 1.0009) for s in segment["scales"]]
    for name in ("largest_budget", "budget_sum"):
        if content["claims"][name]:
            content["claims"][name] = str(float(content["claims"][name]) * 1.01)
    return Plan.model_validate(content).sealed()


def test_wards_of_before(compiled_gallery: Callable[[str], Compilation]) -> None:
    """The budgets that the recursion allows leak at most 0.51 of what it says is 0.8."""
    plan = compiled_gallery("wards").plan
    record = next(
        r for r in plan.correlation.chains if any(e.pairs for e in plan.claims.inherited if e.group == r.group)
    )
    chain = record.chain()
    low, high = 0.0, 0.1
    for _ in range(40):
        middle = (low + high) / 2
        leaked = audited_total_leakage(np.full(400, middle), chain).max()
        low, high = (middle, high) if leaked <= 0.8 else (low, middle)
    found = settled(chain, low)
    assert found is not None
    assert held(chain, found, [low], endless=True).largest()[0] <= 0.51


def test_ratios_are_found_in_few_rounds_from_wherever_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain that forgets slowly, where best outputs for a ratio reach half of what is missing to the next."""
    law = np.full((4, 4), 0.02) + 0.92 * np.eye(4)
    rounds, told = [], pairs.told
    monkeypatch.setattr(pairs, "told", lambda *given: rounds.append(1) or told(*given))
    below = inherited(law, 0.1)
    assert len(rounds) <= 25
    above = inherited(law, 0.1, near=below + 0.3)
    assert np.allclose(below, above, rtol=1e-11, atol=0)
    assert np.allclose(inherited(law, 0.1, near=below), below, rtol=1e-12, atol=0)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    states=st.integers(2, 7),
    stay=st.sampled_from([0.0, 0.5, 0.9, 0.99]),
    epsilon=st.sampled_from([0.01, 0.1, 0.4]),
    more=st.sampled_from([0.0, 0.3, 2.0]),
    steps=st.sampled_from([1, 5, 40, 333, None]),
)
def test_steps_taken_together_tell_what_they_tell_one_by_one(
    seed: int, states: int, stay: float, epsilon: float, more: float, steps: int | None
) -> None:
    """The same numbers where no steps are taken together; of a larger first budget those of fewer steps as well."""
    rows = np.random.default_rng(seed).gamma(0.7, size=(states, states)) + 1e-3
    law = stay * np.eye(states) + (1 - stay) * rows / rows.sum(axis=1, keepdims=True)
    first = epsilon + more if more else 0.0
    found = inherited(law, epsilon, first, steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_outputs, "_ALIKE", 10**9)
        plain = inherited(law, epsilon, first, steps)
    assert np.allclose(found, plain, rtol=1e-10, atol=0)


WIDE = [[0.64, 0.24, 0.11, 0.01], [0.05, 0.53, 0.3, 0.12], [0.53, 0.09, 0.25, 0.13], [0.26, 0.21, 0.31, 0.22]]


@pytest.mark.parametrize(
    ("moves", "alpha"), [([[0.3, 0.7], [0.69, 0.31]], 1.0), (WIDE, 0.5), (WIDE, 8e-5), ([[0.9, 0.1], [0.2, 0.8]], 4.0)]
)
def test_the_largest_budget_spends_what_is_promised_and_no_more(moves: list[list[float]], alpha: float) -> None:
    """Also where the first try is near it already, of which only rough numbers were looked at."""
    found = largest_budget(Chain(forward=moves), alpha)
    assert found is not None
    assert alpha * (1 - 1e-8) <= found.largest(found.epsilon, 0.0, 0.0) <= alpha * (1 + 1e-9)


@pytest.mark.law
@pytest.mark.parametrize("seed", range(4))
def test_largest_budgets_spend_what_is_promised_and_no_more(seed: int) -> None:
    """Of some 400 chains of few digits, whose first tries are near their largest budgets."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        states, alpha = int(rng.integers(2, 5)), float(rng.choice([0.01, 0.1, 0.5, 1.0, 4.0]))
        moves = np.round(rng.dirichlet(np.ones(states) * rng.choice([0.5, 1.0, 5.0]), states), 2) + 0.01
        found = largest_budget(Chain(forward=moves / moves.sum(axis=1, keepdims=True)), alpha)
        if found is not None:
            assert alpha * (1 - 1e-7) <= found.largest(found.epsilon, 0.0, 0.0) <= alpha * (1 + 1e-8), (moves, alpha)
