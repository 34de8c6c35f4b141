"""A plan that was altered, or whose noise is too small, is refused by the kernel."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from policyc import compile_policy
from policyc.planning import candidates
from policyc_check.errors import KernelError, PlanFormatError, PlanRejectedError
from policyc_check.verify import verified_claims
from policyc_runtime.consistency import consistency_claims
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.refusal import verify

POLICY = """
policy traffic "vehicles per segment"
stream passages {
  user vehicle
  time seen_at
  cell segment in {"A", "B"} otherwise "away"
  step 5min
  horizon 40 steps
  start "2026-01-01"
  population 200
}
release occupancy = count(passages) by segment
target alpha_dpt(alpha = 1.0)
correlation markov(
  forward = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]],
  initial = stationary, evidence = "public counts")
deliver offline
objective mean_squared_error
budget quantified()
postprocess occupancy { sum(occupancy) == population, occupancy >= 0, integer(occupancy) }
"""

TWO_STATES = POLICY.replace('"A", "B"', '"A"').replace("[[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]]", "FORWARD")


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Plan:
    path = tmp_path_factory.mktemp("policy") / "traffic.policy"
    path.write_text(POLICY)
    with pytest.MonkeyPatch.context() as patch:  # pairs of states leave the ends of `quantified` some room
        patch.setattr(candidates, "allocate_by_pairs", lambda *_: None)
        return compile_policy(path).plan


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def altered(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if value is None:
        return 1
    try:
        return str(Decimal(value) * Decimal("1.000000001") + Decimal("1e-30"))
    except ArithmeticError:
        return value + "x"


def replaced(content, path, value):
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def resealed(content) -> Plan:
    return Plan.model_validate_json(json.dumps(content)).sealed()


def test_the_compiled_plan_is_accepted_and_reads_back_exactly(plan, tmp_path):
    """A compiled plan verifies, and plan.json reads back as the same plan."""
    verify(plan)
    (tmp_path / "plan.json").write_text(plan.to_json())
    assert load_plan(tmp_path) == plan
    assert all(claim.holds for claim in verified_claims(plan))


def test_every_single_altered_field_is_refused(plan, tmp_path):
    """Each leaf of plan.json, altered alone, is refused by load_plan or verify."""
    content = json.loads(plan.to_json())
    for path, value in leaves(content):
        file: Path = tmp_path / "plan.json"
        file.write_text(json.dumps(replaced(content, path, altered(value))))
        with pytest.raises(KernelError):
            verify(load_plan(file))


def test_every_removed_or_added_field_is_refused(plan, tmp_path):
    """A field taken out, or a field nobody knows, is refused."""
    content = json.loads(plan.to_json())
    for key in content:
        missing = {k: v for k, v in content.items() if k != key}
        (tmp_path / "plan.json").write_text(json.dumps(missing))
        with pytest.raises(KernelError):
            verify(load_plan(tmp_path))
    (tmp_path / "plan.json").write_text(json.dumps({**content, "surprise": 1}))
    with pytest.raises(KernelError, match="understands"):
        load_plan(tmp_path)


def segments(content):
    return content["releases"][0]["schedule"]["segments"]


def test_a_noise_scale_smaller_by_a_billionth_is_refused_even_when_resealed(plan):
    """Noise that is too small for its budget is refused by exact fractions, whoever sealed the plan."""
    content = json.loads(plan.to_json())
    for index in range(len(segments(content))):
        worse = json.loads(plan.to_json())
        scale = Decimal(segments(worse)[index]["scales"][0])
        segments(worse)[index]["scales"] = [str(scale * Decimal("0.999999999"))]
        with pytest.raises(PlanRejectedError, match="too small"):
            verify(resealed(worse))


def test_a_budget_larger_by_a_billionth_is_refused_even_when_resealed(plan):
    """`quantified` spends its whole promise: any budget raised by 1e-9 breaks it."""
    mechanism = plan.releases[0].mechanism
    content = json.loads(plan.to_json())
    for index in range(len(segments(content))):
        worse = json.loads(plan.to_json())
        epsilon = Decimal(segments(worse)[index]["epsilons"][0]) * Decimal("1.000000001")
        segments(worse)[index].update(epsilons=[str(epsilon)], scales=[str(mechanism.calibrate(epsilon))])
        worse["claims"].update(budget_sum="1000", largest_budget="1000")
        with pytest.raises(PlanRejectedError, match="total leakage|leakage passed on between"):
            verify(resealed(worse))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("targets", 0, "alpha"), "0.999999999"),
        (("releases", 0, "l1_sensitivity"), "1.999999999"),
        (("releases", 0, "mechanism", "l1_sensitivity"), "1"),
        (("stream", "horizon"), 41),
        (("claims", "total_leakage"), "0.99"),
        (("claims", "total_leakage"), "1.000000001"),
        (("claims", "budget_sum"), "1"),
        (("claims", "largest_budget"), "0.1"),
        (("correlation", "chains", 0, "forward", 0, 0), "0.501"),
        (("correlation", "chains", 0, "forward", 2), ["0", "0", "1"]),
        (("releases", 0, "cells", 2), "nowhere"),
        (("releases", 0, "constraints", 0, "current", 0, 0), 7),
    ],
)
def test_a_claim_that_does_not_hold_is_refused_even_when_resealed(plan, path, value):
    """The kernel recomputes: a resealed plan with one false claim is refused."""
    with pytest.raises(KernelError):
        verify(resealed(replaced(json.loads(plan.to_json()), path, value)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\x00\xff\xfe",
        b"[]",
        b"null",
        b'{"format": "policyc-plan"}',
        b'{"format": "policyc-plan", "version": 2}',
    ],
)
def test_a_file_that_is_no_plan_is_refused_with_one_message(tmp_path, content):
    """Empty, truncated, binary and foreign files are refused with code E0802."""
    (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(KernelError) as refused:
        load_plan(tmp_path)
    assert refused.value.code == "E0802"
    assert refused.value.help


def test_a_traceback_says_the_place_and_the_remedy(plan, tmp_path):
    """Of a plan that is not there, and of one that does not hold: in Python nobody else shows them."""
    with pytest.raises(PlanFormatError) as missing:
        load_plan(tmp_path / "nope")
    place, remedy = missing.value.__notes__
    assert (place, remedy) == (f"  --> {missing.value.where}", f"  = help: {missing.value.help}")
    assert str(tmp_path / "nope") in place
    with pytest.raises(PlanRejectedError) as rejected:
        verify(plan.model_copy(update={"digest": "0" * 64}))
    assert f"  = help: {rejected.value.help}" in rejected.value.__notes__


def test_a_truncated_plan_is_refused(plan, tmp_path):
    """Cut anywhere, plan.json is refused."""
    text = plan.to_json()
    for length in range(0, len(text) - 1, max(1, len(text) // 60)):
        (tmp_path / "plan.json").write_text(text[:length])
        with pytest.raises(KernelError):
            load_plan(tmp_path)


def compiled(tmp_path, text) -> dict:
    (tmp_path / "p.policy").write_text(text)
    return json.loads(compile_policy(tmp_path / "p.policy").plan.to_json())


def test_every_groups_chain_is_checked(tmp_path):
    """A resealed plan whose second group moves more strictly than was accounted is refused."""
    start = POLICY.index("correlation")
    chain = POLICY[start : POLICY.index("deliver")].strip()
    two = POLICY.replace(chain, f"{chain} for commuters\n{chain} for residents")
    content = compiled(tmp_path, two)
    assert len(content["correlation"]["chains"]) == 2
    verify(resealed(content))
    for index in range(2):
        stricter = [["0.98", "0.01", "0.01"], ["0.01", "0.98", "0.01"], ["0.01", "0.01", "0.98"]]
        path = ("correlation", "chains", index, "forward")
        with pytest.raises(PlanRejectedError, match="total leakage|leakage passed on between"):
            verify(resealed(replaced(content, path, stricter)))


def test_the_budgets_of_all_releases_add_up(plan):
    """A second release under the same promise is refused: its budgets count too."""
    content = json.loads(plan.to_json())
    twice = [content["releases"][0], {**content["releases"][0], "name": "again"}]
    content["claims"].update(budget_sum="1000", largest_budget="1000")
    with pytest.raises(PlanRejectedError, match="total leakage|leakage passed on between"):
        verify(resealed(replaced(content, ("releases",), twice)))


def test_the_strictest_of_several_targets_counts(plan):
    """A stricter target of the same kind added beside the other is refused."""
    content = json.loads(plan.to_json())
    both = [*content["targets"], {"kind": "alpha_dpt", "alpha": "0.5"}]
    with pytest.raises(PlanRejectedError):
        verify(resealed(replaced(content, ("targets",), both)))


def test_an_event_level_promise_is_checked(tmp_path):
    """A resealed event-level plan that promises less than its budgets spend is refused."""
    text = POLICY[: POLICY.index("correlation")].replace("alpha_dpt(alpha = 1.0)", "event_level(epsilon = 1.0)")
    content = compiled(tmp_path, text)
    verify(resealed(content))
    with pytest.raises(PlanRejectedError):
        verify(resealed(replaced(content, ("targets", 0, "epsilon"), "0.999999999")))


def test_an_endless_promise_is_checked(tmp_path):
    """A resealed endless plan with a chain that leaks more than was accounted is refused."""
    text = POLICY.replace("horizon 40 steps", "horizon unbounded").replace("budget quantified()", "budget bounded()")
    content = compiled(tmp_path, text.replace("deliver offline", "deliver realtime"))
    verify(resealed(content))
    stricter = [["0.98", "0.01", "0.01"], ["0.01", "0.98", "0.01"], ["0.01", "0.01", "0.98"]]
    with pytest.raises(PlanRejectedError):
        verify(resealed(replaced(content, ("correlation", "chains", 0, "forward"), stricter)))


def test_backward_beside_a_start_that_is_not_stationary_is_refused(plan):
    """Such a pair contradicts itself, and could claim less leakage than there is."""
    chain = json.loads(plan.to_json())["correlation"]["chains"][0]
    chain.update(backward=chain["forward"], initial=["0.2", "0.3", "0.5"])
    altered = resealed(replaced(json.loads(plan.to_json()), ("correlation", "chains", 0), chain))
    with pytest.raises(PlanRejectedError, match="larger than the plan says"):
        verify(altered)  # what leaks is computed from `forward`
    (claim,) = consistency_claims(altered)
    assert "contradicts" in claim.detail


def test_backward_that_is_not_the_reversal_of_forward_is_refused(tmp_path):
    """A plan of an earlier version for both of them leaks more of users who move as `forward` says."""
    backward = [["0.9", "0.1"], ["0.1", "0.9"]]
    text = TWO_STATES.replace("FORWARD", "[[0.5, 0.5], [0.25, 0.75]]")
    content = compiled(tmp_path, text)
    for initial in ("stationary", None):
        chain = {**content["correlation"]["chains"][0], "backward": backward, "initial": initial}
        with pytest.raises(PlanRejectedError, match="compile again") as refused:
            verify(resealed(replaced(content, ("correlation", "chains", 0), chain)))
        assert refused.value.code == "E0844"


def test_a_backward_matrix_changes_no_budget(tmp_path):
    """Beside `forward` it is compared and no more: with its roundings the plan leaks what it leaks without it."""
    text = TWO_STATES.replace("FORWARD", "[[0.5, 0.5], [0.25, 0.75]]")
    stated = text.replace("initial", "backward = [[0.5000004, 0.4999996], [0.2500003, 0.7499997]], initial")
    assert compiled(tmp_path, text)["claims"] == compiled(tmp_path, stated)["claims"]


def test_probabilities_that_vanish_are_refused(plan):
    """A positive probability that floating point would take for impossible is refused."""
    rows = [["1", "1e-200", "0"], ["0.2", "0.6", "0.2"], ["0.1", "0.1", "0.8"]]
    with pytest.raises(PlanRejectedError, match="below 1e-100"):
        verify(resealed(replaced(json.loads(plan.to_json()), ("correlation", "chains", 0, "forward"), rows)))
