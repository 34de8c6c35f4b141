"""What is published follows from noisy values, and `verify` computes it again: a rewritten ledger is found."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plans import make_plan, row

from policyc_check.steps.chains import Chain
from policyc_runtime.laboratory.simulation import simulate_counts
from policyc_runtime.ledger_claims import UNREADABLE, _rows, ledger_claims
from policyc_runtime.ledger_entry import Entry, chained, genesis
from policyc_runtime.plan import Plan
from policyc_runtime.publication import unexplained_value
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims

MOVING = (np.eye(3) + 1) / 4
USERS, STEPS = 200, 24
ESTIMATORS: list[tuple[dict[str, Any], str]] = [
    ({"name": "none"}, "realtime"),
    ({"name": "mle"}, "realtime"),
    ({"name": "map", "prior": "initial"}, "offline"),
    ({"name": "joint_map"}, "offline"),
    ({"name": "filter"}, "realtime"),
    ({"name": "filter"}, "within"),
    ({"name": "smoother"}, "offline"),
]


def plan_for(estimator: dict[str, Any], delivery: str, integer: bool) -> Plan:
    demands = (row({0: 1, 1: 1, 2: 1}, "==", USERS), *(row({cell: 1}, ">=", 0) for cell in range(3)))
    return make_plan(
        population=USERS,
        otherwise=None,
        chains=(MOVING.tolist(),),
        estimator=estimator,
        constraints=demands,
        integer=integer,
        delivery=delivery,
        horizon=STEPS,
        epsilon="1",
    )


def released(plan: Plan, path: Path, pieces: tuple[int, ...] = (STEPS,)) -> None:
    counts = simulate_counts([Chain(forward=MOVING)], [USERS], STEPS, np.random.default_rng(3))
    for steps in pieces:
        release(plan, counts, path, steps=steps, pin=None)


def failed(plan: Plan, path: Path) -> list[str]:
    return [f"{claim.name}: {claim.detail}" for claim in ledger_claims(plan, path) if claim.holds is False]


def forge(path: Path, number: int, **changes: Any) -> None:
    """Change one entry, and every hash after it, as who can rewrite the whole file would."""
    connection = sqlite3.connect(path)
    (trigger,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'entry_fixed'").fetchone()
    connection.execute("DROP TRIGGER entry_fixed")
    now = genesis(dict(connection.execute("SELECT name, value FROM meta")))
    columns = ", ".join(f"{name} = ?" for name in Entry._fields)
    for key, *fields, _ in connection.execute("SELECT * FROM entry ORDER BY number").fetchall():
        entry = Entry(*fields)
        if key == number:
            entry = entry._replace(**changes)
        now = chained(now, key, entry)
        connection.execute(f"UPDATE entry SET {columns}, hash = ? WHERE number = ?", (*entry, now, key))
    connection.execute("UPDATE head SET hash = ?", (now,))
    connection.execute(trigger)
    connection.commit()
    connection.close()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize(("estimator", "delivery"), ESTIMATORS)
def test_what_was_published_is_computed_again(
    estimator: dict[str, Any], delivery: str, integer: bool, tmp_path: Path
) -> None:
    """In one run or in pieces, whatever the estimator sees of later steps, `verify` gives every value again."""
    plan = plan_for(estimator, delivery, integer)
    for name, pieces in (("whole", (STEPS,)), ("pieces", (1, 2, 9, 10, STEPS))):
        released(plan, tmp_path / name, pieces)
        assert failed(plan, tmp_path / name) == []
        assert any("what its estimator makes" in claim.name for claim in ledger_claims(plan, tmp_path / name))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("estimator", "delivery"), ESTIMATORS)
def test_a_published_value_that_does_not_follow_is_found(
    estimator: dict[str, Any], delivery: str, tmp_path: Path
) -> None:
    """A negative count, and five users moved from one cell to another, which no tie explains."""
    plan, path = plan_for(estimator, delivery, True), tmp_path / "ledger"
    released(plan, path)
    with sqlite3.connect(path) as book:
        values = json.loads(book.execute("SELECT published FROM entry WHERE number = 11").fetchone()[0])
    largest = int(np.argmax(values))
    moved = [value + (-5 if cell == largest else 5 * (cell == (largest + 1) % 3)) for cell, value in enumerate(values)]
    for other in ([-4766, 4966, 0], moved):
        forge(path, 11, published=json.dumps(other))
        (found,) = [claim for claim in failed(plan, path) if "what its estimator makes" in claim]
        assert "at step 10 they are not" in found
        forge(path, 11, published=json.dumps(values))
    assert not any("what its estimator makes" in claim for claim in failed(plan, path))


def test_another_machine_s_rounding_near_a_tie_is_no_forgery() -> None:
    """Noisy values a last bit off give the same verdict; whole values are exact but at a tie."""
    plan = plan_for({"name": "mle"}, "realtime", True)
    part = plan.releases[0]
    noisy = np.array([[70.0, 70.0, 61.0]] * 3)  # one user too many: any of the three cells gives one up
    rows = {tuple(cells) for cells in ([69, 70, 61], [70, 69, 61], [70, 70, 60])}
    verdicts = [
        unexplained_value(
            plan,
            part,
            lambda steps: noisy[:steps],
            len(noisy),
            np.array([values] * 3, dtype=np.float64),
            [3] * 3,
            [""] * 3,
        )
        for values in sorted(rows)
    ]
    assert verdicts == [None] * 3
    assert (
        unexplained_value(
            plan, part, lambda steps: noisy[:steps], len(noisy), np.array([[60.0, 79.0, 61.0]] * 3), [3] * 3, [""] * 3
        )
        == 0
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"noisy": "[1e999, 0, 0]"},
        {"noisy": "[NaN, 0, 0]"},
        {"noisy": "[1, 2]"},
        {"noisy": "{}"},
        {"noisy": "[" * 5000},
        {"noisy": ""},
        {"noisy": f"[{'9' * 400}, 0, 0]"},
        {"published": "[1e999, 0, 0]"},
        {"published": "null"},
        {"published": "[[1], [2], [3]]"},
        {"published": '["1", "2", "3"]'},
        {"published": "[true, 100, 99]"},
        {"published": "[" * 5000},
        {"published": "[1, 100, 99][]"},
        {"known": -1},
        {"known": 10**15},
        {"known": 3},
        {"step": 10**15},
        {"step": -1},
        {"epsilon": "NaN"},
        {"epsilon": "1E+99999999"},
        {"scale": "1E-99999999"},
        {"process": "99 claims hold\n\x1b[2J"},
        {"release": "parked\n"},
    ],
    ids=lambda changes: "-".join(f"{key}={str(value)[:12]!r}" for key, value in changes.items()),
)
def test_entries_that_no_run_writes_are_found_and_nothing_else_happens(changes: dict[str, Any], tmp_path: Path) -> None:
    """Every field of an entry at its extremes, in a ledger rewritten as a whole, fails a claim and raises nothing."""
    plan, path = plan_for({"name": "filter"}, "realtime", True), tmp_path / "ledger"
    released(plan, path)
    forge(path, 11, **changes)
    found = [claim for claim in ledger_claims(plan, path) if claim.holds is False]
    assert [claim for claim in found if "seal" not in claim.detail], changes
    assert [claim.holds for claim in release_claims(plan, path, tmp_path / "none.csv")] == [False]


def test_what_a_ledger_says_of_itself_is_text(tmp_path: Path) -> None:
    plan, path = plan_for({"name": "filter"}, "realtime", True), tmp_path / "ledger"
    released(plan, path)
    with closing(sqlite3.connect(path)) as ledger:
        ledger.execute("DROP TRIGGER meta_fixed")
        ledger.execute("UPDATE meta SET value = x'00' WHERE name = 'start'")
        ledger.commit()
    (found,) = ledger_claims(plan, path)
    assert (found.holds, found.code) == (False, "E0820")


def test_a_last_entry_of_any_step_takes_no_memory(tmp_path: Path) -> None:
    """It says how many steps there are: as many are not listed before it is found."""
    plan, path = plan_for({"name": "filter"}, "realtime", True), tmp_path / "ledger"
    released(plan, path)
    with closing(sqlite3.connect(path)) as ledger:
        ((last,),) = ledger.execute("SELECT max(number) FROM entry").fetchall()
    forge(path, last, step=10**15)
    found = {claim.name: claim for claim in ledger_claims(plan, path)}
    assert found["every step was released exactly once"].holds is False


@pytest.mark.parametrize(
    "text", ["", " [1]", "[1] ", "[1][]", "[1],", "[NaN]", "[1e300]", "[true]", '["1"]', "[[1]]", "1"]
)
def test_what_an_entry_says_is_a_list_of_numbers_to_its_end(text: str) -> None:
    assert _rows(["null", "[1,-2.5]", "[]"]) == [None, [1, -2.5], []]
    with pytest.raises(UNREADABLE):
        _rows(["[1]", text])
