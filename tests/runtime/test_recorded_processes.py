"""What users were taken to move like is recorded with every step, and can be computed again from the ledger."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plans import make_plan, row

from policyc_check.claims import Claim
from policyc_check.steps.chains import Chain
from policyc_runtime.estimates import described_processes
from policyc_runtime.laboratory.simulation import simulate_counts
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.ledger_entry import Entry, chained, genesis
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release

STAYING = (np.eye(3) + 0.01) / 1.03
RANDOM = (np.eye(3) + 1) / 4
USERS = 200


def plan_for(estimator: str, delivery: str) -> Plan:
    demands = (row({0: 1, 1: 1, 2: 1}, "==", USERS), *(row({cell: 1}, ">=", 0) for cell in range(3)))
    return make_plan(
        population=USERS,
        otherwise=None,
        chains=(STAYING.tolist(),),
        estimator={"name": estimator},
        constraints=demands,
        delivery=delivery,
        horizon=60,
        epsilon="1",
    )


def counts_of(move: NDArray[np.float64]) -> NDArray[np.int64]:
    return simulate_counts([Chain(forward=move)], [USERS], 60, np.random.default_rng(3))


def claim_of(plan: Plan, path: Path) -> Claim:
    (claim,) = [claim for claim in ledger_claims(plan, path) if "move like" in claim.name]
    return claim


def forge(path: Path, number: int, process: str) -> None:
    """Change one entry's process, and every hash after it, as who can rewrite the whole file would."""
    connection = sqlite3.connect(path)
    (trigger,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'entry_fixed'").fetchone()
    connection.execute("DROP TRIGGER entry_fixed")
    now = genesis(dict(connection.execute("SELECT name, value FROM meta")))
    for key, *fields, _ in connection.execute("SELECT * FROM entry ORDER BY number").fetchall():
        entry = Entry(*fields)
        if key == number:
            entry = entry._replace(process=process)
        now = chained(now, key, entry)
        connection.execute("UPDATE entry SET process = ?, hash = ? WHERE number = ?", (entry.process, now, key))
    connection.execute("UPDATE head SET hash = ?", (now,))
    connection.execute(trigger)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(("estimator", "delivery"), [("filter", "realtime"), ("smoother", "offline")])
def test_the_process_used_is_recorded_and_recomputed(estimator: str, delivery: str, tmp_path: Path) -> None:
    """Users who do not stay as declared: the ledger names another process, and verification finds the same."""
    plan, counts, path = plan_for(estimator, delivery), counts_of(RANDOM), tmp_path / "ledger"
    randomness = SimulationRandomness(1)
    for steps in (1, 2, 30, 60):
        done = release(plan, counts, path, steps=steps, randomness=randomness, pin=None)
    used = done.series["parked"].processes
    assert len(used) == 60
    assert used[-1] not in ("", "declared chain")
    claim = claim_of(plan, path)
    assert claim.holds
    assert claim.detail == described_processes(used)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("estimator", "delivery"), [("filter", "realtime"), ("smoother", "offline")])
@pytest.mark.parametrize("process", ["no chain", "declared chain, counts 64 times as dispersed", "a guess"])
def test_a_forged_process_is_found(estimator: str, delivery: str, process: str, tmp_path: Path) -> None:
    """A ledger rewritten as a whole, with another process at one step, does not follow from its noisy values."""
    plan, path = plan_for(estimator, delivery), tmp_path / "ledger"
    release(plan, counts_of(STAYING), path, randomness=SimulationRandomness(2), pin=None)  # noise that leaves no doubt
    assert claim_of(plan, path).detail == "declared chain at steps 0 to 59"
    forge(path, 60, process)
    claim = claim_of(plan, path)
    assert claim.holds is False
    assert "step 59" in claim.detail


def test_nothing_is_recorded_where_nothing_is_asked(tmp_path: Path) -> None:
    """Estimators that believe what is declared leave the field empty, and a ledger that fills it is refused."""
    plan, path = plan_for("mle", "realtime"), tmp_path / "ledger"
    assert set(release(plan, counts_of(STAYING), path, pin=None).series["parked"].processes) == {""}
    assert not [claim for claim in ledger_claims(plan, path) if "move like" in claim.name]
    forge(path, 3, "declared chain")
    assert claim_of(plan, path).holds is False


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (["a"] * 3, "a at steps 0 to 2"),
        (["", "a", "b", "b"], "a at step 1; b at steps 2 to 3"),
        (["a", "b"] * 2 + ["a"], "a at 3 steps; b at 2 steps"),
        ([], ""),
    ],
)
def test_processes_in_words(used: Any, words: str) -> None:
    """Stretches while they are few, numbers of steps when the process changes often."""
    assert described_processes(used) == words
    assert described_processes(["a"] * 3, 18) == "a at steps 18 to 20"
