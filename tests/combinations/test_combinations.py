"""Whatever a policy combines: it is refused with a finding that fits, or it compiles, runs, runs again and verifies."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from zlib import crc32

import pytest
from combination import CONSTRAINTS, STEPS, USERS, Combination, checked, refusals, write_files

from policyc.cli import app
from policyc.cli.exit import guarded
from policyc.pipeline import declared_signal
from policyc_check.errors import KernelError
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.laboratory.streams import DROPPING
from policyc_runtime.noisy_values import publishable_steps
from policyc_runtime.plan import Plan, load_plan

FEW = 5
FEW_STREAMS, MANY_STREAMS = 12, 120  # many where few are not as predicted: standard errors of few are rough


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    """`command(...)` runs policyc in this process: its exit code, and what it says of findings."""

    def run(*arguments: object) -> tuple[int, str]:
        code = guarded(lambda: app([str(argument) for argument in arguments], standalone_mode=True))
        return code, capsys.readouterr().err

    return run


def published(folder: Path) -> dict[str, list[list[float]]]:
    """By file, the released values of every row: of a step, or of steps that something is made of."""
    found: dict[str, list[list[float]]] = {}
    for path in sorted(folder.glob("out*.csv")):
        steps: dict[int, list[float]] = {}
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                steps.setdefault(int(row["step"]), []).append(float(row["released"] or "nan"))
                assert row["released"] or not row.get("noisy")  # what is left out is so in both fields
        assert list(steps) == list(range(len(steps))) or "noisy" not in row
        found[path.stem] = list(steps.values())
    return found


def require_demands(combination: Combination, values: list[list[float]]) -> None:
    """The values of `r` keep the policy's constraints, exactly where they are whole."""
    demands = CONSTRAINTS[combination.constraint]
    below = next((float(text.split("=")[1].strip(" )")) for text in demands if "below" in text), -math.inf)
    for step, row in enumerate(values):
        shown = [value for value in row if not math.isnan(value)]
        assert below == -math.inf or all(value >= below for value in shown)
        if "r >= 0" in demands:
            assert all(value >= 0 for value in shown)
        if "integer(r)" in demands:
            assert all(value.is_integer() for value in shown)
        if combination.constraint == "total":
            assert sum(row) == USERS
        if combination.constraint == "steady" and step:
            assert all(now - before <= 8 + 1e-9 for now, before in zip(row, values[step - 1], strict=True))


def missed(plan: Plan, policy: Path, streams: int) -> list[str]:
    """Releases whose simulated error is not what the plan says, by more than 5 % and four standard errors.

    Where a plan says a lower bound, errors may be above it; where it says the error of noisy values, nothing is said of
    published ones. Without a chain and a population or a signal there is nothing to simulate.
    """
    try:
        found = simulate(plan, streams, streams, (), steps=plan.expected_steps, signal=declared_signal(policy, plan))
    except KernelError as error:
        assert error.code == "E0819"
        return []
    away = []
    made = {one.name: one.predicted for one in plan.made}
    shown = not any(part.suppressions for part in (*plan.releases, *plan.made))
    for error in found.errors:
        predicted = made[error.release] if error.release in made else plan.release_named(error.release).predicted
        if predicted is None or (error.release in made and (plan.drops or not shown)):  # found are those of all, shown
            continue
        mean, stderr = error.mean_squared_error, error.mean_squared_error_stderr
        if plan.objective == "mean_absolute_error":
            mean, stderr = error.mean_absolute_error, error.mean_absolute_error_stderr
        low, high = predicted.published, predicted.published
        dropped = [one for one in found.errors if (one.release, one.estimator) == (error.release, DROPPING)]
        for one in dropped:  # stated is the error of kept events, simulated that of all
            squared = plan.objective == "mean_squared_error"
            high += one.mean_squared_error if squared else one.mean_absolute_error
            stderr = math.hypot(stderr, one.mean_squared_error_stderr if squared else one.mean_absolute_error_stderr)
        distance = mean - min(max(mean, low), high)
        if not error.chosen or predicted.kind in ("noise", "unconstrained"):
            continue
        if predicted.kind == "at_least" and distance > 0:
            continue
        if abs(distance) > 0.05 * high + 4 * math.hypot(stderr, predicted.stderr or 0.0):
            away.append(f"{error.release}: {predicted.kind} {predicted.published:.4g}, found {mean:.4g} ± {stderr:.2g}")
    return away


def test_a_combination_is_refused_or_runs(combination: Combination, command, full, tmp_path):
    """`check` refuses what the table says, planning at most that; everything else is run, run again, and verified.

    A run of the first steps may find that nothing can be released yet (E0835). No value is missing or infinite, the
    constraints hold, a third run publishes the same values as the second, and errors of simulated streams are as the
    plan says (of whole streams, which take long to simulate, and of three out of four others, with `--full`). Of an
    endless stream the last steps wait.
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
    plan = load_plan(tmp_path / "plan")
    assert all(0 < release.predicted.published < math.inf for release in plan.releases)
    long = combination.user_level or combination.release == "levels along two ways"
    if full or not (long or crc32(combination.named().encode()) % 4):
        endless = plan.stream.horizon is None  # of which one stream says as much
        away = missed(plan, tmp_path / "combined.policy", FEW_STREAMS // 2 if endless else FEW_STREAMS)
        assert not (away and missed(plan, tmp_path / "combined.policy", MANY_STREAMS // (4 if endless else 1))), away
    run = ("run", tmp_path / "plan", "--input", events, "--output", tmp_path / "out.csv", "--steps")
    code, said = command(*run, FEW)
    assert code == 0 or (code == 1 and "error[E0835]" in said), said
    code, said = command(*run, STEPS)
    assert code == 0, said
    values = published(tmp_path)
    assert values
    made = {f"out-{one.name}": one for one in plan.made}
    for name, rows in values.items():
        steps = publishable_steps(plan, STEPS)
        assert len(rows) == (max(steps - made[name].first, 0) // made[name].steps if name in made else steps)
        gaps = "suppress" in combination.policy() or name in made  # of totals of `r` as well; of small denominators
        assert all(math.isfinite(value) or gaps for row in rows for value in row)
        if name in ("out", "out-r"):
            require_demands(combination, rows)
    assert command(*run, STEPS)[0] == 0
    assert repr(published(tmp_path)) == repr(values)
    code, said = command("verify", tmp_path / "plan", "--release", tmp_path / "out.csv")
    assert code == 0, said
