"""What steps inherit is decided by inequalities on the plan's numbers: whoever found them, and however wrongly."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc import PolicyError, compile_policy
from policyc.planning import assemble, candidates
from policyc.planning.leakage import inheritance, proposals
from policyc.planning.leakage.inheritance import accepted_inheritance, stated_inheritance
from policyc.planning.leakage.loss import LossFunction
from policyc_check.errors import InvalidMatrixError, PlanRejectedError
from policyc_check.plan.claims import Inheritance, InheritedRun
from policyc_check.plan.plan import load_plan
from policyc_check.steps.chains import Chain
from policyc_check.steps.inheritance import audited_leakage, leakage_of_group, require_shown
from policyc_check.verify import verified_claims
from policyc_runtime.plan import Plan


@pytest.fixture(autouse=True)
def recursion_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans whose steps have numbers of their own: pairs of states are tested in `test_pairs.py`."""
    monkeypatch.setattr(candidates, "allocate_by_pairs", lambda *_: None)


CHAIN = [[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.05, 0.25, 0.7]]


def loss(matrix: np.ndarray, leaked: float) -> float:
    """L(leaked) by its definition, over all pairs of rows and all sets of columns."""
    n, most = len(matrix), 0.0
    for q in matrix:
        for d in matrix:
            for members in range(1, 2**n):
                chosen = [bool(members >> j & 1) for j in range(n)]
                high, low = q[chosen].sum(), d[chosen].sum()
                most = max(most, np.log((high * np.expm1(leaked) + 1) / (low * np.expm1(leaked) + 1)))
    return float(most)


def recursion(budgets: list[float], matrix: np.ndarray) -> list[float]:
    """What steps inherit from before by CAO17's recursion, step by step."""
    found = [0.0]
    for epsilon in budgets[:-1]:
        found.append(loss(matrix, found[-1] + epsilon))
    return found


@st.composite
def streams(draw: st.DrawFn) -> tuple[Chain, list[float], tuple[int, ...]]:
    n = draw(st.integers(2, 3))
    rows = [[draw(st.integers(1, 9)) for _ in range(n)] for _ in range(n)]
    matrix = np.array(rows, dtype=float) / np.sum(rows, axis=1, keepdims=True)
    budgets = draw(st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0]), min_size=1, max_size=12))
    return Chain(matrix), budgets, draw(st.sampled_from([(1,), (1, 2), (1, 3)]))


@settings(max_examples=60, deadline=None)
@given(streams())
def test_what_is_accepted_is_at_most_the_papers_recursion(case: tuple[Chain, list[float], tuple[int, ...]]) -> None:
    """Numbers that the check accepts are at least zero, at most the recursion of one lag; and equal it for lag 1."""
    chain, budgets, lags = case
    (before, by), (after, _) = accepted_inheritance(budgets, chain, lags, endless=False)
    exact = recursion(budgets, chain.backward), recursion(budgets[::-1], chain.forward)[::-1]
    if all(budgets):
        assert (before <= np.array(exact[0]) * (1 + 1e-12) + 1e-13).all()
        assert (after <= np.array(exact[1]) * (1 + 1e-12) + 1e-13).all()
    if lags == (1,) and all(budgets):
        assert before == pytest.approx(exact[0], abs=1e-13)
        assert after == pytest.approx(exact[1], abs=1e-13)
    assert set(by.tolist()) <= {0, *range(1, len(budgets))}


def held(runs: tuple[InheritedRun, ...], budgets: list[float], *, endless: bool = False) -> bool:
    chain = Chain(CHAIN)
    stated = Inheritance(
        group=None, before=runs, after=(InheritedRun(nats=(99.0,) * len(budgets), lags=AFTER, repeats=1),)
    )
    try:
        audited_leakage(stated, np.array(budgets), chain.backward_side(), chain.forward_side(), endless=endless)
    except PlanRejectedError:
        return False
    return True


BUDGETS = [0.4, 0.0, 0.3, 0.3, 0.0, 0.0, 0.5]
AFTER = (1, 1, 1, 1, 1, 1, 0)


def test_every_number_below_what_follows_is_refused() -> None:
    """A number lowered by a part in a million, wherever it is above 0, is named; a larger one is nobody's harm."""
    (before, by), _ = accepted_inheritance(BUDGETS, Chain(CHAIN), (1, 2), endless=False)
    assert held((InheritedRun(nats=tuple(before), lags=tuple(by), repeats=1),), BUDGETS)
    for step in range(len(BUDGETS)):
        for factor, fine in ((1 - 1e-6, before[step] == 0), (0.5, before[step] == 0)):
            lower = before.copy()
            lower[step] *= factor
            assert held((InheritedRun(nats=tuple(lower), lags=tuple(by), repeats=1),), BUDGETS) == fine
    last = before.copy()
    last[-1] += 1.0
    assert held((InheritedRun(nats=tuple(last), lags=tuple(by), repeats=1),), BUDGETS)


@pytest.mark.parametrize(
    "lags",
    [
        (0, 0, 1, 1, 1, 1, 1),  # step 1 inherits from step 0
        (0, 1, 1, 0, 1, 1, 1),
        (0, 1, 3, 1, 1, 1, 1),  # before the first step
        (1, 1, 1, 1, 1, 1, 1),
        (0, 1, 1, 1, 1, 1),  # too few
        (0, 1, 1, 1, 1, 1, 1, 1),
    ],
)
def test_lags_that_show_nothing_are_refused(lags: tuple[int, ...]) -> None:
    """No release is left out, and no step looks back before the first, however large the numbers."""
    enough = (9.0,) * len(lags) if lags[1:2] != (0,) and lags.count(0) < 2 else (9.0, 0.0, *(9.0,) * (len(lags) - 2))
    assert not held((InheritedRun(nats=enough, lags=lags, repeats=1),), BUDGETS)


@st.composite
def moving(draw: st.DrawFn) -> tuple[Chain, list[float], tuple[int, ...]]:
    """A chain with a first law, of which states may be impossible, and a pattern that begins with a release."""
    n = draw(st.integers(2, 3))
    rows = [[draw(st.integers(1, 9)) for _ in range(n)] for _ in range(n)]
    first = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n).filter(any))
    pattern = [draw(st.sampled_from([0.1, 0.3])), *draw(st.lists(st.sampled_from([0.0, 0.0, 0.2]), max_size=2))]
    chain = Chain(np.array(rows) / np.sum(rows, axis=1, keepdims=True), initial=np.array(first) / sum(first))
    return chain, pattern, draw(st.sampled_from([(1,), (1, 2)]))


def told_step_by_step(chain: Chain, budgets: list[float]) -> list[float]:
    """What steps inherit from before by CAO17's recursion: each backward matrix by Bayes from the laws of its steps."""
    law, found, leaked, power = chain.marginal(0), [0.0], budgets[0], np.eye(chain.states)
    release = law  # the law of the last released step
    for epsilon in budgets[1:]:
        law, power = law @ chain.forward, power @ chain.forward
        joint = (release[:, None] * power).T
        reached = joint[joint.sum(axis=1) > 0]
        found.append(loss(reached / reached.sum(axis=1, keepdims=True), leaked))
        if epsilon:
            release, leaked, power = law, found[-1] + epsilon, np.eye(chain.states)
    return found


def told_by_outputs(chain: Chain, budgets: list[float]) -> list[float]:
    """What steps inherit from before exactly: all outputs that tell any states from all others, step by step."""
    sets = np.array([[bits >> state & 1 for state in range(chain.states)] for bits in range(2**chain.states)])
    found, seen = [0.0], chain.marginal(0)[None]  # likelihood of outputs and of the state, together
    for step, epsilon in enumerate(budgets[:-1]):
        seen = (seen[:, None, :] * np.exp(epsilon * sets)[None]).reshape(-1, chain.states) @ chain.forward
        law = chain.marginal(step + 1)
        told = np.log(seen[:, law > 0] / law[law > 0])
        found.append(float((told.max(axis=1) - told.min(axis=1)).max()))
    return found


@settings(max_examples=40, deadline=None)
@given(moving())
def test_a_start_that_is_not_stationary_is_bounded_for_ever(case: tuple[Chain, list[float], tuple[int, ...]]) -> None:
    """Numbers of the first rounds and of one that stays bound what all outputs tell, and, with one lag, the recursion.

    That is so at each of 60 steps, and of the first rounds to the last digits.
    """
    chain, pattern, lags = case
    stated, _ = accepted_inheritance(pattern, chain, lags, endless=True)
    period = len(pattern)
    if not np.isfinite(stated[0]).all():
        return
    assert len(stated[0]) % period == 0
    budgets = np.resize(pattern, 60).tolist()
    later = np.resize(stated[0][-period:], max(60 - len(stated[0]), 0) + period)[period:]
    bound = np.concatenate([stated[0], later])[:60]
    exact = told_by_outputs(chain, budgets[:5])
    assert (np.array(exact) <= bound[:5] * (1 + 1e-12) + 1e-13).all()
    if lags == (1,):
        true = np.array(told_step_by_step(chain, budgets))
        assert (true <= bound * (1 + 1e-12) + 1e-13).all()
        first = len(stated[0]) - period  # but for the round that stays
        assert bound[:first] == pytest.approx(true[:first], rel=1e-9, abs=1e-12)


def test_of_a_moving_start_no_number_may_be_lower() -> None:
    """Any number of the first rounds, or of the one that stays; and those of a stationary start show nothing here."""
    chain, pattern = Chain(CHAIN, initial=[0.0, 0.9, 0.1]), [0.4, 0.0]
    before, after = accepted_inheritance(pattern, chain, 1, endless=True)

    def accepted(nats: np.ndarray, by: np.ndarray, of: Chain = chain) -> bool:
        lasting = np.resize(after[0][-2:], len(nats)), np.resize(after[1][-2:], len(nats))
        entry = stated_inheritance(None, (nats, by), lasting)
        try:
            audited_leakage(entry, np.array(pattern), of.backward_side(), of.forward_side(), endless=True)
        except PlanRejectedError:
            return False
        return True

    assert accepted(*before)
    for step in {*range(12), *range(len(before[0]) - 4, len(before[0]))}:
        lower = before[0].copy()
        lower[step] *= 1 - 1e-6
        assert accepted(lower, before[1]) == (before[0][step] == 0), step
    assert not accepted(before[0][:-1], before[1][:-1])  # no whole rounds
    settled, _ = accepted_inheritance(pattern, Chain(CHAIN), 1, endless=True)
    assert accepted(*settled, of=Chain(CHAIN))
    rare = Chain(CHAIN, initial=[0.02, 0.0, 0.98])  # its first steps tell more of the past
    assert not accepted(*settled, of=rare)
    turning = Chain([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], initial=[1.0, 0.0, 0.0])
    assert not accepted(*before, of=turning)


def test_a_state_too_rare_for_floats_is_not_taken_for_impossible() -> None:
    """Its row would be left out, of which most leaks: what is below the smallest number is refused."""
    chain = Chain([[0.5, 0.5, 0.0], [0.0, 0.9, 0.1], [0.0, 0.1, 0.9]], initial=[1.0, 0.0, 0.0])
    assert chain.backward_side().law(900, 1).matrix[0].tolist() == [1.0, 0.0, 0.0]
    assert chain.settled == np.inf
    for step in (1000, 1080, 1500, 5000):
        with pytest.raises(InvalidMatrixError, match="vanishes"):
            chain.backward_side().law(step, 1)


def test_around_a_period_the_same_inequalities_hold() -> None:
    """Of an endless pattern what is accepted is the limit of a long stream; nothing below it, and no lag of 0."""
    pattern = [0.3, 0.0, 0.1]
    chain = Chain(CHAIN)
    before, after = accepted_inheritance(pattern, chain, (1, 3), endless=True)
    long = accepted_inheritance(pattern * 60, chain, (1, 3), endless=False)
    assert before[0] == pytest.approx(long[0][0][90:93], rel=1e-9)
    assert after[0] == pytest.approx(long[1][0][90:93], rel=1e-9)
    stated = stated_inheritance(None, before, after)

    def accepted(entry: Inheritance) -> bool:
        try:
            audited_leakage(entry, np.array(pattern), chain.backward_side(), chain.forward_side(), endless=True)
        except PlanRejectedError:
            return False
        return True

    assert accepted(stated)
    for side in ("before", "after"):
        (run,) = getattr(stated, side)
        for step in range(3):
            nats = [value * (1 - 1e-6) if place == step else value for place, value in enumerate(run.nats)]
            assert not accepted(stated.model_copy(update={side: (run.model_copy(update={"nats": tuple(nats)}),)}))
        none = run.model_copy(update={"nats": (0.0, 0.0, 0.0), "lags": (0, 0, 0)})
        assert not accepted(stated.model_copy(update={side: (none,)}))


def test_a_wrong_search_is_found(gallery: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search forgets a tenth of what passes on, and believes itself: the check of its plan does not."""
    right = proposals.inherited

    def wrong(*arguments: object, **named: object) -> tuple[np.ndarray, np.ndarray]:
        nats, lags = right(*arguments, **named)  # type: ignore[arg-type]
        return 0.9 * nats, lags

    policy = tmp_path / "traffic.policy"
    policy.write_text((gallery / "traffic.policy").read_text(encoding="utf-8"))
    good = compile_policy(policy).plan
    monkeypatch.setattr(proposals, "inherited", wrong)
    monkeypatch.setattr(inheritance, "require_shown", lambda *_, **__: None)
    assemble._accepted.cache_clear()  # what was accepted of the same budgets before is true of them
    with pytest.raises(PolicyError, match="leakage passed on between steps is larger than the plan says"):
        compile_policy(policy)
    monkeypatch.undo()
    assemble._accepted.cache_clear()
    assert all(claim.holds for claim in verified_claims(good))


def test_altered_numbers_of_a_plan_are_refused(gallery: Path, tmp_path: Path) -> None:
    """Each run of a sealed plan: its numbers lowered, its lags made 0, itself dropped or doubled."""
    policy = tmp_path / "traffic.policy"
    policy.write_text((gallery / "traffic.policy").read_text(encoding="utf-8"))
    file = tmp_path / "plan.json"
    file.write_text(compile_policy(policy).plan.to_json())
    plan = load_plan(file)
    assert leakage_of_group(plan, plan.correlation.chains[0]).largest()[0] <= 1
    content = json.loads(plan.to_json())
    altered = 0
    for side in ("before", "after"):
        runs = content["claims"]["inherited"][0][side]
        for index, run in enumerate(runs):
            for change in (
                {**run, "nats": [value * 0.99 for value in run["nats"]]},
                {**run, "lags": [0] * len(run["lags"])},
                {**run, "repeats": run["repeats"] + 1},
                None,
            ):
                other = json.loads(json.dumps(content))
                other["claims"]["inherited"][0][side] = [
                    *runs[:index],
                    *([] if change is None else [change]),
                    *runs[index + 1 :],
                ]
                forged = Plan.model_validate_json(json.dumps(other)).sealed()
                assert not all(claim.holds for claim in verified_claims(forged)), (side, index, change)
                altered += 1
    assert altered >= 16
    for entries in ([], content["claims"]["inherited"] * 2):
        other = {**content, "claims": {**content["claims"], "inherited": entries}}
        assert not all(claim.holds for claim in verified_claims(Plan.model_validate_json(json.dumps(other)).sealed()))


def test_a_chain_told_backward_alone_starts_stationary(gallery: Path, tmp_path: Path) -> None:
    """A sealed plan that gives another start is refused by name: its law of later states is another at every step."""
    told = (gallery / "traffic.policy").read_text(encoding="utf-8").replace("forward  =", "backward =")
    policy = tmp_path / "traffic.policy"
    policy.write_text(told)
    plan = compile_policy(policy).plan
    (record,) = plan.correlation.chains
    assert (record.forward, record.initial) == (None, "stationary")
    assert all(claim.holds for claim in verified_claims(plan))
    for start in ((Decimal("0.9"), Decimal("0.1"), Decimal(0)), (Decimal(1) / 4, Decimal(1) / 4, Decimal(1) / 2)):
        chains = (record.model_copy(update={"initial": start}),)
        forged = plan.model_copy(
            update={"correlation": plan.correlation.model_copy(update={"chains": chains})}
        ).sealed()
        *_, last = verified_claims(forged)
        assert (last.holds, last.where) == (False, "correlation.chains.0")
        assert "a chain needs the matrix forward where the start is given" in last.detail


def test_runs_of_unequal_length_are_refused_before_they_are_written_out() -> None:
    """A plan of a few bytes does not ask for gigabytes."""
    assert not held((InheritedRun(nats=(1.0,), lags=(1,) * 1000, repeats=10_000_000),), BUDGETS)
    assert not held((InheritedRun(nats=(1.0,) * 7, lags=(1,) * 6, repeats=1),), BUDGETS)


def test_an_endless_stream_that_spends_nothing_passes_nothing_on() -> None:
    for chain in (Chain(CHAIN), Chain(CHAIN, initial=[0.2, 0.3, 0.5])):
        before, after = accepted_inheritance(np.zeros(3), chain, 1, endless=True)
        assert before[0].max() == after[0].max() == 0


def test_sums_of_what_floats_lose_are_lost_too() -> None:
    """Three states too rare for floats lead to one: what came before is refused, and not told wrongly."""
    rows = np.zeros((11, 11))
    rows[0, 0] = rows[9, 9] = rows[7, 9] = rows[8, 9] = 1
    rows[1:4, 7] = rows[4:7, 8] = 1
    rows[10, 1:4], rows[10, 4:7] = 1e-13 / 3, 1e-3 / 3
    rows[10, 0] = 1 - rows[10].sum()
    initial = np.zeros(11)
    initial[10], initial[0] = 1e-290, 1
    side = Chain(rows, initial=initial).backward_side()
    for step in (1, 2, 3, 4):
        with pytest.raises(InvalidMatrixError):
            side.law(step, 1)


@pytest.mark.parametrize("lags", [[0, 1, 1, 1, 1], [0, 1, 2, 1, 1]])
@pytest.mark.parametrize("wrong", [-1.0, np.nan])
def test_budgets_that_are_no_numbers_show_nothing(lags: list[int], wrong: float) -> None:
    """Whether or not a sum over them is asked for."""
    side, nats = Chain(CHAIN).backward_side(), np.full(5, 40.0)
    good, bad = np.array([0.1, 0.0, 0.0, 0.2, 0.1]), np.array([0.1, 0.0, 0.0, wrong, 0.1])
    require_shown(nats, np.array(lags), good, side, "before", endless=False)
    with pytest.raises(PlanRejectedError):
        require_shown(nats, np.array(lags), bad, side, "before", endless=False)


@pytest.mark.parametrize("lag", [2, 3])
def test_what_is_spent_between_counts(lag: int) -> None:
    """A step that is bounded from further back inherits all that was spent since, to a billionth."""
    side = Chain(CHAIN).backward_side()
    loss = LossFunction(side.law(lag, lag).matrix)
    budgets, first = np.full(12, 0.01), 10.0 * np.arange(lag)  # what the first steps inherit is stated too large
    budgets[5] = 0.0

    def stated(share: float) -> np.ndarray:
        nats = [*first]
        for t in range(lag, len(budgets)):
            between = float(budgets[t - lag + 1 : t].sum())
            nats.append(share * between + loss(float(budgets[t - lag] + nats[t - lag])) * (1 + 1e-12))
        return np.array(nats)

    lags = np.array([*np.minimum(np.arange(lag), 1), *[lag] * (len(budgets) - lag)])
    require_shown(stated(1 + 1e-9), lags, budgets, side, "before", endless=False)
    for share in (0.0, 0.5, 1 - 1e-6):
        with pytest.raises(PlanRejectedError):
            require_shown(stated(share), lags, budgets, side, "before", endless=False)
