from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest

from policyc.planning.leakage.lags import useful_lags
from policyc.planning.leakage.loss import LossFunction
from policyc.semantics.chains import closed_classes, states_that_never_meet, stationary_law, supports, transposed
from policyc_check.steps.chains import Chain

COMMENTS = {
    "# 11 is for the clinic only\ntarget event_level(epsilon = 11)": [],
    "# epsilon 11.0, since this is\n# for the clinic only\ntarget event_level(epsilon = 11)": [],
    "target event_level(epsilon = 11) # 11: for the clinic only": [],
    "target event_level(epsilon = # for the clinic only, 11\n 11)": [],
    "# what is promised\ntarget event_level(epsilon = 11)": ["W0302"],
    "# 1 is better\ntarget event_level(epsilon = 11)": ["W0302"],
    "# 11, for the clinic only\n\ntarget event_level(epsilon = 11)": ["W0302"],
    "target event_level(epsilon = 11)\n# 11 is something else": ["W0302"],
    "target event_level(epsilon = 10)": [],
}


def codes(found):
    return [finding.code for finding in found]


def decimals(matrix):
    return tuple(tuple(Decimal(repr(float(x))) for x in row) for row in matrix)


@pytest.mark.parametrize("target", COMMENTS)
def test_a_comment_beside_a_large_epsilon_silences_the_warning(findings, count_policy, target):
    """It names the number, directly before, inside or after on the line; anything else gives no reason for it."""
    assert codes(findings(count_policy.replace("target event_level(epsilon = 1.0)", target))[1]) == COMMENTS[target]


def test_cells_that_cover_everybody_need_no_otherwise(findings, rooms_policy):
    """The statement is that the published counts add up to the population, with coefficient 1 for every cell."""
    closed = rooms_policy.replace(' otherwise "away"', "").replace(
        "[[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]]", "[[0.8, 0.2], [0.3, 0.7]]"
    )
    assert codes(findings(closed)[1]) == ["E0304"]
    assert not findings(closed + "postprocess r { sum(r) == population }")[1]
    assert codes(findings(closed + "postprocess r { sum(r) <= population }")[1]) == ["E0304"]
    assert codes(findings(closed + 'postprocess r { r["a"] + 2 * r["b"] == population }')[1]) == ["E0304"]
    uncorrelated = closed[: closed.index("correlation")] + 'correlation none(evidence = "e")'
    assert not findings(uncorrelated)[1]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(" for a", " for b", 0), (" for a", " for a", 1), ("", " for b", 1), (" for a", "", 1), ("", "", 1)],
)
@pytest.mark.parametrize("alone", [False, True])
def test_one_correlation_a_group(findings, rooms_policy, first, second, expected, alone):
    """Two correlations stand beside each other only for two groups, chains or not."""
    chain = rooms_policy[rooms_policy.index("correlation") :].rstrip()
    other = 'correlation none(evidence = "e")' if alone else chain
    text = rooms_policy.rstrip() + first + "\n" + other + second + "\n"
    assert codes(findings(text)[1]) == ["E0410"] * expected


def test_the_reversal_of_a_chain_is_accepted(findings, rooms_policy):
    """A backward matrix computed by Bayes' rule is accepted, one that is off by 1e-3 is not, whatever the start."""
    forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]]
    backward = np.array(Chain(forward=forward).backward)
    written = lambda m: "[" + ", ".join("[" + ", ".join(f"{x:.12f}" for x in row) + "]" for row in m) + "]"  # noqa: E731
    text = rooms_policy.replace("initial", "backward = {}, initial")
    assert not findings(text.replace("{}", written(backward)))[1]
    backward[0] += [1e-3, -1e-3, 0]
    for start in ("initial = stationary, ", ""):
        contradicting = text.replace("{}", written(backward)).replace("initial = stationary,", start)
        assert codes(findings(contradicting)[1]) == ["E0413"]


def test_a_backward_matrix_alone_needs_a_stationary_start(findings, rooms_policy):
    """From another start no single matrix says where users were, with `forward` or without."""
    alone = rooms_policy.replace("forward", "backward")
    assert not findings(alone)[1]
    (found,) = findings(alone.replace("initial = stationary", "initial = [0.2, 0.3, 0.5]"))[1]
    assert found.code == "E0412"
    assert "write `forward` in its place" in found.help


def test_a_sparse_chain_that_mixes_holds_for_ever(findings, rooms_policy):
    """Rows without a common state are no obstacle when they have one some steps later (lags)."""
    text = rooms_policy.replace("288 steps", "unbounded") + "deliver realtime\n"
    sparse = "[[0.5, 0.5, 0], [0, 0, 1], [1, 0, 0]]"
    ring = "[[0, 1, 0], [0, 0, 1], [1, 0, 0]]"
    matrix = "[[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]]"
    assert not findings(text.replace(matrix, sparse))[1]
    assert codes(findings(text.replace(matrix, ring))[1]) == ["E0701"]
    assert not findings(text.replace(matrix, ring).replace("unbounded", "288 steps"))[1]


def test_what_is_not_planned_yet_is_refused_once(findings, rooms_policy):
    """All that cannot be planned yet is one finding."""
    users = "target user_level(epsilon = 3, delta = 0, neighbors = replace)\n"
    bound = 'participation at_most(288 steps, per_step = 2, assumed = "so it is")\n'
    _, found = findings(f"{rooms_policy}{users}{bound}mechanism dft(noise = laplace)\ndeliver offline\n")
    assert [code for code in codes(found) if code.startswith("E")] == ["E0702"]
    found = [finding for finding in found if finding.code == "E0702"]
    for missing in ("several events", "mechanism `dft`"):
        assert missing in found[0].message


@pytest.mark.parametrize("mechanism", ["gaussian()", "binomial()", "toeplitz()", "subsample(rate = 0.5)"])
def test_noise_without_a_largest_factor_keeps_no_chain(mechanism, findings, rooms_policy):
    """Under alpha-DP_T such noise is refused for good, with the reason, and not as something to come."""
    _, found = findings(rooms_policy + f"mechanism {mechanism}\ndeliver offline\n")
    assert codes(found) == ["E0313"]
    assert "largest factor" in found[0].because


def test_a_chain_that_no_promise_uses_is_refused(findings, rooms_policy):
    """Event-level and w-event promises alone take steps as independent, and a declared chain contradicts that."""
    for target in ("event_level(epsilon = 1)", "w_event(epsilon = 1, window = 3 steps)"):
        assert codes(findings(rooms_policy.replace("alpha_dpt(alpha = 1.0)", target))[1]) == ["E0309"]
    both = rooms_policy + "target w_event(epsilon = 1, window = 3 steps)\n"
    assert not findings(both)[1]


def sparse_chains(count, size=4):
    rng = np.random.default_rng(7)
    for _ in range(count):
        matrix = rng.random((size, size)) * (rng.random((size, size)) < 0.4)
        for row in matrix:
            if not row.any():
                row[rng.integers(size)] = 1
        yield matrix / matrix.sum(axis=1, keepdims=True)


def test_stationary_laws_are_stationary_and_unique_ones_only():
    """A law is given exactly when the eigenvalue 1 is simple, and the chain leaves it as it is."""
    for matrix in sparse_chains(300):
        exact = decimals(matrix)
        law = stationary_law(exact)
        simple = np.sum(np.abs(np.linalg.eigvals(matrix) - 1) < 1e-9) == 1
        assert (law is not None) == simple
        assert (len(closed_classes(supports(exact))) == 1) == simple
        if law is not None:
            np.testing.assert_allclose(np.array(law) @ matrix, law, atol=1e-12)


def test_states_never_meet_exactly_when_the_kernel_finds_no_supremum():
    """The pattern of zeros decides what the kernel's mathematics decides, at every lag it uses."""
    seen = set()
    for matrix in sparse_chains(120):
        rows = supports(decimals(matrix))
        classes = closed_classes(rows)
        if len(classes) != 1 or classes[0] != 2 ** len(rows) - 1:
            continue
        chain = Chain(forward=matrix)
        meets = states_that_never_meet(rows) is None and states_that_never_meet(transposed(rows, classes[0])) is None
        finite = all(
            any(np.isfinite(LossFunction(np.linalg.matrix_power(side, k)).supremum(k * 1e-3)) for k in range(1, 65))
            for side in (chain.forward, chain.backward)
        )
        assert meets == finite
        assert not meets or max(useful_lags(chain)) >= 1
        seen.add(meets)
    assert seen == {True, False}


def test_a_sum_without_a_bound_is_told_what_it_drops(findings, count_policy):
    """Every step counts, but of a user's values in a step the run keeps one: a sum lacks the others, a count none."""
    target = "user_level(epsilon = 1, delta = 1e-6, neighbors = replace)"
    text = count_policy.replace("event_level(epsilon = 1.0)", target)
    text = text.replace("step 5min", 'start "2026-01-01" step 5min')
    assert codes(findings(text)[1]) == ["W0501"]
    found = findings(text.replace("count(s)", "sum(s.n, clamp = -1 .. 3)"))[1]
    assert codes(found) == ["W0501", "W0502"]
    assert "wrong" in found[1].because
    told = re.search(r"`(participation at_most\(.*?\))`", found[1].help)
    assert told is not None
    summed = text.replace("count(s)", "sum(s.n, clamp = -1 .. 3)")
    assert codes(findings(f"{summed}{told[1]}\n")[1]) == ["W0502"]  # as it still enforces
    assumed = told[1].replace("enforced = keep_first", 'assumed = "why nobody exceeds it"')
    assert "in place of `enforced = keep_first`, on which the promise then rests" in found[1].help
    assert codes(findings(f"{summed}{assumed}\n")[1]) == []


def test_what_is_said_of_sums_elsewhere_is_of_sums(findings, rooms_policy):
    """E0314: of a count by who is counted, of a sum by what is summed."""
    text = rooms_policy.split("target")[0] + (
        "target user_level(epsilon = 1, delta = 1e-6, neighbors = add_remove)\n"
        'participation at_most(2 steps, assumed = "x")\n'
    )
    counted = findings(text)[1]
    summed = findings(text.replace("count(s)", "sum(s.n, clamp = 0 .. 3)"))[1]
    assert codes(counted) == codes(summed) == ["W0503", "E0314"]
    assert "follows from the other cells" in counted[1].message
    assert "has no sum" in summed[1].message
    assert "only events in a cell are summed" in summed[1].help
    assert "users" not in summed[1].message + summed[1].help
