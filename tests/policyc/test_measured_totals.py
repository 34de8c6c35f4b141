"""Running totals and windows that are measured by themselves: planned, verified, run, or made of counts instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_check.errors import KernelError
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.noisy_values import same_as_recorded
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import verify
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims

POLICY = """
policy visits "visitors"
stream seen {{
  user person
  time at
  step 1h
  horizon {horizon} steps
  start "2026-01-01"
}}
release there = count(seen)
release so_far = {total}
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = {neighbors})
participation at_most(4 steps, spacing = 6 steps, enforced = keep_first)
deliver {deliver}
objective {objective}
mechanism {mechanism}
"""

Make = Callable[..., Plan]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def plan_of(**changes: object) -> Plan:
        words = {
            "horizon": 48,
            "total": "prefix(there)",
            "neighbors": "add_remove",
            "deliver": "realtime",
            "objective": "mean_squared_error",
            "mechanism": "auto",
        }
        path = tmp_path / "visits.policy"
        path.write_text(POLICY.format(**(words | changes)))
        return compile_policy(path).plan

    return plan_of


def events(directory: Path, rows: list[tuple[str, int]], name: str = "events.csv") -> Path:
    path = directory / name
    lines = [f"{who},2026-01-{1 + hour // 24:02}T{hour % 24:02}:30:00" for who, hour in rows]
    path.write_text("\n".join(["person,at", *lines]) + "\n")
    return path


@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
def test_a_long_running_total_is_measured_by_itself(make: Make, objective: str) -> None:
    """Under `auto` a total of many steps takes its share of the promise, and all that was considered is listed."""
    plan = make(horizon=240, objective=objective)
    part = plan.release_named("so_far")
    assert part.mechanism.name == "toeplitz"
    reasons = {row.mechanism: row.reason for row in part.candidates}
    assert reasons["toeplitz"] == "lowest predicted error"
    assert "all releases together would have" in reasons["derived"]
    assert reasons["binary_tree"].endswith("the one chosen")
    assert "not totals" in reasons["gaussian"]
    squared = objective == "mean_squared_error"
    there = plan.release_named("there").predicted.published
    derived = there * (120.5 if squared else np.sqrt(np.arange(1, 241)).mean())
    assert part.predicted.published < derived / (4 if squared else 2)


def test_a_short_window_is_made_of_the_counts(make: Make) -> None:
    """Where noise hardly adds up, a share of the promise is worth more to the counts."""
    part = make(total="window(there, 2 steps)").release_named("so_far")
    assert part.mechanism.name == "derived"
    assert {row.mechanism for row in part.candidates} >= {"derived", "toeplitz", "binary_tree"}


@pytest.mark.parametrize("mechanism", ["toeplitz", "binary_tree"])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("total", ["prefix(there)", "window(there, 5 steps)"])
def test_a_billionth_less_noise_is_refused(make: Make, mechanism: str, neighbors: str, total: str) -> None:
    """A plan that names the mechanism verifies; with 1e-9 less noise, or larger coefficients, it does not."""
    plan = make(mechanism=f"{mechanism}()", neighbors=neighbors, total=total)
    verify(plan)
    assert {part.mechanism.name for part in plan.releases} == {mechanism}
    lowered = json.loads(plan.to_json())
    for part in lowered["releases"]:
        part["mechanism"]["stddev"] = str(Decimal(part["mechanism"]["stddev"]) * (1 - Decimal("1e-9")))
    altered = [lowered]
    if mechanism == "toeplitz":
        altered.append(json.loads(plan.to_json()))
        inner = altered[1]["releases"][1]["mechanism"]
        if inner["band"] is None:
            inner["exponent"] = str(min(Decimal(1), Decimal(inner["exponent"]) + Decimal("0.1")))
            inner["decay"] = "1"
        else:
            inner["band"] = [inner["band"][0]] * len(inner["band"])
    for content in altered:
        with pytest.raises(KernelError, match="delta recomputed"):
            verify(Plan.model_validate_json(json.dumps(content)).sealed())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", ["toeplitz", "binary_tree"])
@pytest.mark.parametrize("deliver", ["realtime", "offline"])
def test_a_run_verifies_and_continues(make: Make, tmp_path: Path, mechanism: str, deliver: str) -> None:
    """Totals are near the truth, what was released in real time stays, and ledger and file verify."""
    plan = make(mechanism=f"{mechanism}()", deliver=deliver)
    rows = [(f"p{number}", hour) for number in range(300) for hour in range(number % 7, 48, 14)]
    out = tmp_path / "out.csv"
    early = None
    if deliver == "realtime":
        first = events(tmp_path, [row for row in rows if row[1] < 20], "first.csv")
        early = release(plan, first, tmp_path / "l", output=out, steps=20, pin=None)
        write_release(early, out)
    done = release(plan, events(tmp_path, rows), tmp_path / "l", output=out, steps=48, pin=None)
    write_release(done, out)
    if early is not None:
        assert (done.series["so_far"].noisy[: len(early.steps)] == early.series["so_far"].noisy).all()
    truth = np.cumsum(np.bincount([hour for _, hour in rows], minlength=48))
    spread = np.sqrt(plan.release_named("so_far").predicted.published)
    assert np.abs(done.series["so_far"].noisy[:, 0] - truth).max() < 8 * spread
    claims = [*ledger_claims(plan, tmp_path / "l"), *release_claims(plan, tmp_path / "l", out)]
    assert all(claim.holds for claim in claims)


def test_what_is_made_of_totals_measured_offline_verifies_in_pieces(make: Make, tmp_path: Path) -> None:
    """Later records change earlier totals: what is made of them is held to those of its time, and to no other."""
    total = "prefix(there)\nrelease last = window(so_far, 4 steps)"
    plan = make(mechanism="binary_tree()", deliver="offline", total=total)
    rows = [(f"p{number}", hour) for number in range(300) for hour in range(number % 7, 48, 14)]
    ledger, out = tmp_path / "l", tmp_path / "out.csv"
    for steps in (20, 48):
        write_release(release(plan, events(tmp_path, rows), ledger, output=out, steps=steps, pin=None), out)
    claims = [*ledger_claims(plan, ledger), *release_claims(plan, ledger, out)]
    assert all(claim.holds for claim in claims)
    with LedgerReader.open_read_only(ledger) as book:
        entries = {part.name: book.drawn(part.name) for part in plan.releases}
    stored = {name: [json.loads(entry.noisy) for entry in drawn] for name, drawn in entries.items()}
    seen = {name: [entry.known for entry in drawn] for name, drawn in entries.items()}
    assert same_as_recorded(plan, stored, seen) is None
    stored["last"][19][0] += 0.5
    assert same_as_recorded(plan, stored, seen) == "last"
