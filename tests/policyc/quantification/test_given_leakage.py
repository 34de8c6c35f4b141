"""The leakage of a given release equals the papers' reference numbers, is never below the truth, and is rounded up."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.quantification.budgets import Spent, read_budgets
from policyc.quantification.knowledge import Knowledge, Known, of_matrices, of_persons
from policyc.quantification.leakage import ADVERSARIES, quantify, steps_kept
from policyc.quantification.meaning import sure
from policyc_check.errors import KernelError
from policyc_check.steps.chains import Chain

oracles = run_path(str(Path(__file__).parents[2] / "runtime" / "privacy" / "oracles.py"))
REFERENCE, MATRICES = oracles["reference"](), oracles["reference_matrices"]()
UP = 1e-12  # relative: bounds lie above the reference, by a few roundings


def above(found, truth) -> bool:
    """Whether bounds are at least the truth, as far as its digits go, and hardly more."""
    found, truth = np.asarray(found), np.asarray(truth)
    return bool((found >= truth * (1 - 1e-15)).all() and np.allclose(found, truth, rtol=UP, atol=1e-300))


def files(folder, **contents) -> dict[str, Path]:
    """Files of matrices, as CSV."""
    paths = {}
    for name, matrix in contents.items():
        if matrix is not None:
            paths[name] = folder / f"{name}.csv"
            rows = (",".join(Decimal(str(p)).__format__("f") for p in row) for row in matrix)
            paths[name].write_text("\n".join(rows) + "\n")
    return paths


def spent(folder, budgets) -> Spent:
    path = folder / "budgets.csv"
    path.write_text("epsilon\n" + "\n".join(map(str, budgets)) + "\n")
    return read_budgets(path)


def decimals(name):
    """A reference matrix as it is written, in decimals; None for one that is a formula."""
    matrix = REFERENCE["matrices"].get(name)
    return matrix if isinstance(matrix, list) else None


CASES = [c for c in REFERENCE["recursion"] if all(decimals(c[side]) for side in ("backward", "forward"))]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['backward']}-{c['forward']}")
def test_the_papers_recursion(case, tmp_path):
    """BPL, FPL, TPL and windows of CAO17's chains are the reference, from files of decimals to the last digits."""
    told = files(tmp_path, forward=decimals(case["forward"]), backward=decimals(case["backward"]))
    knowledge, _ = of_matrices(told["forward"], told["backward"])
    widths = [int(width) for width in case["window"]]
    found = quantify(spent(tmp_path, case["eps"]), knowledge, widths, (1,))
    assert above(found.backward, case["bpl"])
    assert above(found.forward, case["fpl"])
    assert above(found.total, case["tpl"])
    assert found.window("backward", 1).nats == found.backward.max()
    assert found.window("forward", 1).nats == found.forward.max()
    for width, values in case["window"].items():
        if int(width) < len(case["eps"]):
            assert above(found.window("both", int(width)).nats, max(values))
            assert found.window("both", int(width)).step == int(np.argmax(values))
        else:
            assert above(float(found.spent_in_all), values[0])
    assert found.spent_in_all == sum(map(Decimal, case["eps"]))


@pytest.mark.parametrize("case", [c for c in REFERENCE["supremum"] if decimals(c["matrix"])], ids=str)
def test_the_papers_suprema(case, tmp_path):
    """What a constant budget converges to is Theorem 5's supremum, for each adversary; none is given where none is."""
    if case["matrix"] == "identity2":  # has no law of its own: it is told both ways
        told = files(tmp_path, forward=decimals(case["matrix"]), backward=decimals(case["matrix"]))
    else:
        told = files(tmp_path, forward=[["0.5", "0.5"], ["0.5", "0.5"]], backward=decimals(case["matrix"]))
        if len(decimals(case["matrix"])) == 3:
            told = files(tmp_path, forward=[["0.2", "0.3", "0.5"]] * 3, backward=decimals(case["matrix"]))
    knowledge, _ = of_matrices(told["forward"], told["backward"])
    found = quantify(spent(tmp_path, [case["epsilon"]] * 4), knowledge, (), (1,))
    if case["supremum"] is None:
        assert found.limit("backward") == math.inf
    else:
        assert above(found.limit("backward"), case["supremum"])
        assert found.backward.max() <= found.limit("backward")
    assert found.limit("none") == found.spent.budgets.max()
    assert found.pattern == 1


def test_figure_3(tmp_path):
    """Lap(1 / 0.1) at ten steps: the strongest correlation adds budgets up, none keeps them apart (CAO17, Figure 3).

    TPL of the strongest is T epsilon at every step; BPL of the moderate chain begins 0.1, 0.18, 0.25, 0.30.
    """
    budgets = spent(tmp_path, ["0.1"] * 10)
    rows = {
        "strongest": [["1", "0"], ["0", "1"]],
        "moderate": [["0.8", "0.2"], ["0", "1"]],
        "none": [["0.5", "0.5"]] * 2,
    }
    found = {}
    for name, matrix in rows.items():
        told = files(tmp_path, forward=matrix, backward=matrix)
        found[name] = quantify(budgets, of_matrices(told["forward"], told["backward"])[0], (), (1,))
    assert above(found["strongest"].backward, 0.1 * np.arange(1, 11))
    assert above(found["strongest"].forward, 0.1 * np.arange(10, 0, -1))
    assert above(found["strongest"].total, np.full(10, 1.0))
    assert [round(value, 2) for value in found["moderate"].backward[:4]] == [0.1, 0.18, 0.25, 0.30]
    assert found["moderate"].forward.tolist() == found["moderate"].backward[::-1].tolist()
    assert above(found["none"].total, np.full(10, 0.1))


@pytest.mark.parametrize(("epsilon", "grown"), [("1", 9), pytest.param("0.1", 22, marks=pytest.mark.law)])
def test_figure_6(epsilon, grown, tmp_path):
    """BPL at s = 0.005, n = 50: it grows for 9 and 22 steps to 95 % of its end, and for longer where less is spent."""
    matrix = [[Decimal(str(round(p, 12))) for p in row] for row in MATRICES["smooth_n50_s0.005"].tolist()]
    for row in matrix:  # rows sum to 1
        row[row.index(max(row))] += 1 - sum(row)
    told = files(tmp_path, forward=matrix, backward=matrix)
    knowledge, _ = of_matrices(told["forward"], told["backward"])
    found = quantify(spent(tmp_path, [epsilon] * 100), knowledge, (), (1,))
    assert int(np.argmax(found.backward >= 0.95 * found.backward[-1])) + 1 == grown
    (limit,) = (
        case["supremum"]
        for case in REFERENCE["supremum"]
        if case["matrix"] == "smooth_n50_s0.005" and Decimal(case["epsilon"]) == Decimal(epsilon)
    )
    assert found.limit("backward") == pytest.approx(limit, rel=1e-9)


def test_table_ii(tmp_path):
    """Event, w-event and user level: eps, w eps, T eps without a chain; alpha, Theorem 2, T eps with one (Table II)."""
    told = files(tmp_path, forward=decimals("slide_F"), backward=decimals("slide_B"))
    found = quantify(spent(tmp_path, ["0.1"] * 10), of_matrices(told["forward"], told["backward"])[0], (3, 9), (1,))
    assert above([found.window("none", w).nats for w in (1, 3, 9)], [0.1, 0.3, 0.9])
    assert found.window("both", 3).nats == pytest.approx(
        max(found.backward[t] + 0.1 + found.forward[t + 2] for t in range(8)), rel=1e-12
    )
    assert found.spent_in_all == 1
    assert 0.9 < found.window("both", 9).nats < 1


@st.composite
def release(draw):
    """A chain of two or three states, its start, and a few budgets."""
    n = draw(st.integers(2, 3))
    entry = st.sampled_from([0.0, 1.0]) | st.floats(0.02, 1)
    P = np.array([draw(st.lists(entry, min_size=n, max_size=n).filter(any)) for _ in range(n)])
    start = np.array(draw(st.lists(st.floats(0.05, 1), min_size=n, max_size=n)))
    budgets = draw(st.lists(st.sampled_from(["0", "0.1", "0.5", "1", "2.5"]), min_size=2, max_size=4))
    return P / P.sum(axis=1, keepdims=True), start / start.sum(), [Decimal(b) for b in budgets]


@given(release())
@settings(max_examples=15, deadline=None)
def test_never_below_the_truth(case):
    """No bound is below what randomized response tells, by enumeration of all outputs; the weaker know less."""
    P, start, budgets = case
    floats = [float(b) for b in budgets]
    knowledge = Knowledge((Known(None, Chain(P, initial=start, relative_error=1e-15)),), "drawn")
    found = quantify(Spent.of(budgets, 0, "drawn"), knowledge, range(1, 4))
    backward, total = oracles["exact_total_leakage"](floats, P, start)
    assert (found.backward >= backward - 1e-12).all()
    assert (found.total >= total - 1e-12).all()
    for width in found.widths:
        truth = oracles["exact_window_leakage"](floats, P, start, width)
        assert found.window("both", width).nats >= truth.max() - 1e-12
        weaker = [found.window(a, width).nats for a in ADVERSARIES]
        assert weaker[0] <= min(weaker[1:3]) <= max(weaker[1:3]) <= weaker[3]


def test_a_noise_too_small_is_told():
    """Budgets that are stated a thousandth too small are below the truth: the test above would fail."""
    P, start = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0.5, 0.5])
    knowledge = Knowledge((Known(None, Chain(P, initial=start)),), "drawn")
    stated = [Decimal("0.4995")] * 4
    found = quantify(Spent.of(stated, 0, "drawn"), knowledge, ())
    first = oracles["exact_total_leakage"]([0.5] * 4, P, start)[0][0]
    assert found.backward[0] < first


@given(st.lists(st.decimals(0, 3, places=4), min_size=1, max_size=12), st.integers(1, 14), st.booleans())
def test_sums_are_exact(values, width, endless):
    """What windows spend is the exact sum, rounded up, by fractions; of endless streams around the end."""
    one = Spent.of(values, 0, "drawn", endless=endless)
    around = (values * (width + 1))[: len(values) + width - 1] if endless else values
    size = min(width, len(around))
    truth = [sum(map(Fraction, around[t : t + size])) for t in range(len(around) - size + 1)]
    assert one.exact.largest(width, endless=endless) == max(truth)
    for found, exact in zip(one.sums(width).tolist(), truth, strict=True):
        assert Fraction(found) >= exact > Fraction(math.nextafter(found, -1))


def test_budgets_far_apart_keep_their_digits():
    """Very small and very large budgets are added without loss."""
    one = Spent.of([Decimal("1e-90"), Decimal(10) ** 6, Decimal("1e-90")], 0, "written")
    assert one.exact.largest(3, endless=False) == Decimal(f"1000000.{'0' * 89}2")
    assert one.budgets[0] >= 1e-90


@pytest.mark.parametrize("endless", [True, False])
def test_a_limit_is_never_exceeded(endless, tmp_path):
    """Ten rounds of the pattern stay below what it is said to converge to, and come near."""
    told = files(tmp_path, forward=decimals("slide_F"), backward=decimals("slide_B"))
    knowledge, _ = of_matrices(told["forward"], told["backward"])
    pattern = [Decimal(b) for b in ("0.3", "0.1", "0", "0.2")]
    limits = quantify(Spent.of(pattern * (1 if endless else 2), 0, "written", endless=endless), knowledge, ())
    long = quantify(Spent.of(pattern * 10, 0, "written"), knowledge, ())
    assert limits.pattern == 4
    for adversary in ADVERSARIES:
        assert 0.999 * limits.limit(adversary) <= long.window(adversary, 1).nats <= limits.limit(adversary)


def test_a_start_that_is_not_stationary(tmp_path):
    """Of an endless stream whose law settles, first steps are told one by one, and later ones never exceed the last."""
    told = files(tmp_path, forward=decimals("slide_F"))
    start = Chain(of_matrices(told["forward"], None)[0].known[0].chain.forward, initial=[0.9, 0.05, 0.05])
    steady = of_matrices(told["forward"], None)[0].known[0].chain
    pattern = [Decimal("0.3"), Decimal("0.1")]
    for knowledge in (
        Knowledge((Known("a", start),), "told"),
        Knowledge((Known("b", steady), Known("a", start)), "told"),
    ):
        endless = quantify(Spent.of(pattern, 0, "written", endless=True), knowledge, (3,))
        long = quantify(Spent.of(pattern * 60, 0, "written"), knowledge, (3,))
        assert len(endless.total) == len(endless.budgets) > 2
        steps = len(endless.total)
        assert (long.backward[:steps] <= endless.backward * (1 + 1e-12)).all()
        assert (long.total[:steps] <= endless.total * (1 + 1e-12)).all()
        assert long.total.max() <= endless.window("both", 1).nats <= long.total.max() * 1.01
        assert long.window("both", 3).nats <= endless.window("both", 3).nats
        assert long.limit("both") >= long.total.max()


def test_horizons_are_what_shorter_releases_tell(tmp_path):
    """What would have been told if the release had ended is the leakage of the shorter list, to the last bit."""
    told = files(tmp_path, forward=decimals("slide_F"), backward=decimals("slide_B"))
    knowledge, _ = of_matrices(told["forward"], told["backward"])
    budgets = [Decimal(b) / 100 for b in (3, 20, 0, 7, 15, 2, 30, 1, 9, 11)]
    whole = quantify(Spent.of(budgets, 0, "written"), knowledge, ())
    for steps, largest in whole.horizons.items():
        shorter = quantify(Spent.of(budgets[:steps], 0, "written"), knowledge, ())
        assert largest == {a: shorter.window(a, 1).nats for a in ADVERSARIES}
    for adversary in ADVERSARIES:
        for alpha in (Decimal("0.01"), Decimal("0.25"), Decimal("0.35"), Decimal("9")):
            kept = steps_kept(whole, alpha, adversary)
            told_of = [
                quantify(Spent.of(budgets[:n], 0, "w"), knowledge, ()).window(adversary, 1).nats for n in range(1, 11)
            ]
            assert kept == sum(1 for value in told_of if value <= float(alpha))


def test_the_largest_of_persons(tmp_path):
    """Over personal chains every number is the largest of those of each alone; order and sharing change nothing."""
    rng = np.random.default_rng(7)
    persons = {f"p{i}": rng.dirichlet(np.ones(3), 3).round(4) for i in range(30)}
    for P in persons.values():
        P[:, 0] = (1 - P[:, 1:].sum(axis=1)).round(4)
    persons["twin"] = persons["p3"]
    lines = [f"{who},s{i},s{j},{P[i, j]:.4f}" for who, P in persons.items() for i in range(3) for j in range(3)]
    table = tmp_path / "persons.csv"
    table.write_text("\n".join(["user,from,to,probability", *lines]) + "\n")
    as_json = tmp_path / "persons.json"
    as_json.write_text(
        json.dumps({who: [[round(p, 4) for p in row] for row in P.tolist()] for who, P in persons.items()})
    )
    budgets = Spent.of([Decimal(n % 5) / 10 for n in range(20)], 0, "written")
    found, again = (quantify(budgets, of_persons(path, None), (2, 5)) for path in (table, as_json))
    alone = [quantify(budgets, Knowledge((known,), "one"), (2, 5), (1,)) for known in of_persons(table, None).known]
    for column in ("backward", "forward", "total"):
        largest = np.max([getattr(one, column) for one in alone], axis=0)
        assert (getattr(found, column) == largest).all()
        assert getattr(again, column) == pytest.approx(largest, rel=1e-12)
    for adversary in ADVERSARIES:
        for width in found.widths:
            assert found.window(adversary, width).nats == max(one.window(adversary, width).nats for one in alone)
    by_name = {chain.name: chain for chain in found.chains}
    assert by_name["twin"].windows == by_name["p3"].windows
    assert len(by_name) == 31


@pytest.mark.parametrize("written", ["csv", "json"])
def test_reading_persons_says_how_far_it_is(written, tmp_path, monkeypatch):
    """Thousands of chains take seconds: each is counted, by the name of what they are."""
    told = []
    counted = "policyc.quantification.knowledge.counted"
    monkeypatch.setattr(counted, lambda name, items, total: told.append((name, total)) or iter(items))
    path = tmp_path / f"persons.{written}"
    rows = "".join(f"{who},{i},{j},0.5\n" for who in "abc" for i in "xy" for j in "xy")
    as_json = json.dumps({who: [[0.5, 0.5], [0.5, 0.5]] for who in "abc"})
    path.write_text(f"user,from,to,probability\n{rows}" if written == "csv" else as_json)
    assert [known.name for known in of_persons(path, None).known] == ["a", "b", "c"]
    assert told == [("users", 3)]


def test_a_person_who_is_never_somewhere(tmp_path):
    """A state without a row is one that the person is never in: his chain is of the others alone."""
    table = tmp_path / "persons.csv"
    table.write_text("user,from,to,probability\na,x,x,0.9\na,x,y,0.1\na,y,x,0.2\na,y,y,0.8\na,x,z,0\n")
    (known,) = of_persons(table, ["x", "y", "z"]).known
    assert known.chain.states == 2


def test_one_matrix_is_turned_around(tmp_path):
    """Who knows one matrix alone is taken to know where people end up: the other is its reversal."""
    told = files(tmp_path, forward=decimals("slide_F"))
    knowledge, _ = of_matrices(told["forward"], None)
    chain = knowledge.known[0].chain
    law = chain.marginal(0)
    assert chain.backward * law[:, None] == pytest.approx((chain.forward * law[:, None]).T, rel=1e-12)


@pytest.mark.parametrize("text", [",,\n", '""\n', " , \n\n"])
def test_rows_without_a_value_are_an_empty_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "spent.csv"
    file.write_text(text)
    with pytest.raises(KernelError, match="the file is empty"):
        read_budgets(file)


def test_texts_that_do_not_end_take_time_by_their_length(tmp_path: Path) -> None:
    """A million escaped quotes are read once."""
    file = tmp_path / "spent.json"
    file.write_text('["' + '\\"' * 1_000_000)
    with pytest.raises(KernelError, match="not JSON"):
        read_budgets(file)


def test_what_is_beyond_all_doubt_is_sure() -> None:
    assert sure(3e6) == sure(900) == "100 %"
