"""Whatever a policy combines: it is refused with a finding that fits, or it compiles, runs, runs again and verifies."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest
from combination import CONSTRAINTS, STEPS, USERS, Combination, checked, refusals, write_files

from policyc.cli import _guarded, app
from policyc_runtime.plan import load_plan

FEW = 5


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    """`command(...)` runs policyc in this process: its exit code, and what it says of findings."""

    def run(*arguments: object) -> tuple[int, str]:
        code = _guarded(lambda: app([str(argument) for argument in arguments], standalone_mode=True))
        return code, capsys.readouterr().err

    return run


def published(folder: Path) -> dict[str, list[list[float]]]:
    """By file, the released values of every step."""
    found: dict[str, list[list[float]]] = {}
    for path in sorted(folder.glob("out*.csv")):
        steps: dict[int, list[float]] = {}
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                steps.setdefault(int(row["step"]), []).append(float(row["released"]))
        assert list(steps) == list(range(len(steps)))
        found[path.stem] = list(steps.values())
    return found


def require_demands(combination: Combination, values: list[list[float]]) -> None:
    """The values of `r` keep the policy's constraints, exactly where they are whole."""
    demands = CONSTRAINTS[combination.constraint]
    for step, row in enumerate(values):
        if "r >= 0" in demands:
            assert min(row) >= 0
        if "integer(r)" in demands:
            assert all(value.is_integer() for value in row)
        if combination.constraint == "total":
            assert sum(row) == USERS
        if combination.constraint == "steady" and step:
            assert all(now - before <= 8 + 1e-9 for now, before in zip(row, values[step - 1], strict=True))


def test_a_combination_is_refused_or_runs(combination: Combination, command, tmp_path):
    """`check` refuses what the table says, planning at most that; everything else is run, run again, and verified.

    A run of the first steps may find that nothing can be released yet (E0835). No value is missing or infinite, the
    constraints hold, and a third run publishes the same bytes as the second.
    """
    events = write_files(combination, tmp_path)
    code, said = command("compile", tmp_path / "combined.policy", "-o", tmp_path / "plan")
    found = set(re.findall(r"^error\[(E\d+)\]", said, re.M))
    if code:
        assert (code, bool(found)) == (1, True), said
        assert found <= refusals(combination), said
        assert "help:" in said
        return
    assert not checked(combination)
    for release in load_plan(tmp_path / "plan").releases:
        assert math.isfinite(release.predicted.published)
        assert release.predicted.published > 0
    run = ("run", tmp_path / "plan", "--input", events, "--output", tmp_path / "out.csv", "--steps")
    code, said = command(*run, FEW)
    assert code == 0 or (code == 1 and "error[E0835]" in said), said
    code, said = command(*run, STEPS)
    assert code == 0, said
    values = published(tmp_path)
    assert values
    for name, rows in values.items():
        assert len(rows) == STEPS
        assert all(math.isfinite(value) for row in rows for value in row)
        if name in ("out", "out-r"):
            require_demands(combination, rows)
    assert command(*run, STEPS)[0] == 0
    assert published(tmp_path) == values
    code, said = command("verify", tmp_path / "plan", "--release", tmp_path / "out.csv")
    assert code == 0, said
