"""`map_model.py` on what a run wrote: every policy of the gallery, and every estimate that the model gives again."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import prompt
import pytest

from policyc import compile_policy
from policyc.emit.map_model import render_map_model
from policyc_runtime.output import write_release
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release

GALLERY = ("bikeshare", "checkins", "departures", "fleet", "speeds", "traffic", "wards")
LONG = re.compile(r"\d+\.\d{6,}(e-?\d+)?")  # another machine's last digits
STEPS = 16
EVENTS = {
    "speeds": (("plate", "seen_at", "speed"), "2026-03-02T00:{0:02}:30"),
    "departures": (("tailnum", "departed_at"), "2013-01-{1:02}T12:00:00"),
}


def shorter(text: str, steps: int) -> str:
    """A policy over fewer steps."""
    text = re.sub(r"horizon(\s+)[\d_]+ steps", rf"horizon\g<1>{steps} steps", text)
    return re.sub(r"at_most\((\d+) steps", lambda found: f"at_most({min(int(found[1]), steps)} steps", text)


def cells_of(name: str) -> list[str]:
    return {
        "fleet": ["EWR", "JFK", "LGA", "away"],
        "traffic": ["A1", "A2", "B7"],
        "wards": ["emergency", "surgery", "recovery", "not here"],
    }.get(name, [""])


def write_counts(path: Path, name: str, seed: int) -> None:
    """Counts of every step: users spread over the cells, or a slow wave."""
    rng, cells = np.random.default_rng(seed), cells_of(name)
    shares, users = {
        "fleet": ([0.06, 0.06, 0.05, 0.83], 4037),
        "traffic": ([0.4, 0.37, 0.23], 200),
        "wards": ([0.0002, 0.0003, 0.0015, 0.998], 50_000),
    }.get(name, ([1.0], 0))
    rows = rng.multinomial(users, shares, STEPS)
    if not users:
        rows = np.rint(400 + 60 * np.sin(np.arange(STEPS)[:, None] / 4) + rng.normal(0, 9, (STEPS, 1))).astype(int)
    column = {"fleet": ["origin"], "traffic": ["segment"], "wards": ["ward"]}.get(name, [])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", *column, "count"])
        for step, row in enumerate(rows.tolist()):
            writer.writerows([step, *([cell] if column else []), value] for cell, value in zip(cells, row, strict=True))


def write_events(path: Path, name: str, seed: int) -> None:
    """Some dozens of users in every step, each in one."""
    rng = np.random.default_rng(seed)
    columns, moment = EVENTS[name]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for step in range(STEPS):
            for user in range(int(rng.integers(40, 70))):
                row = [f"{step}-{user}", moment.format(step, step + 1), int(rng.integers(60, 120))]
                writer.writerow(row[: len(columns)])


def policyc(*words: object, cwd: Path) -> None:
    done = prompt.policyc(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr


def ran(folder: Path, name: str, text: str, seed: int = 1, suffix: str = "csv") -> Path:
    """A policy compiled and run, through the command line; the file that the run was told to write."""
    (folder / f"{name}.policy").write_text(shorter(text, STEPS))
    policyc("compile", f"{name}.policy", cwd=folder)
    data, ready = folder / "data.csv", name not in EVENTS
    (write_counts if ready else write_events)(data, name, seed)
    wanted = ["--counts"] if ready else []
    output = folder / f"out.{suffix}"
    policyc("run", f"{name}.plan", "--input", data, "--output", output, "--steps", STEPS, *wanted, cwd=folder)
    return output


def model(folder: Path, name: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"{name}.plan/map_model.py", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def folder(gallery: Path, tmp_path: Path) -> Path:
    shutil.copy(gallery / "fleet_transitions.csv", tmp_path)
    return tmp_path


@pytest.mark.sampled(0, laws=3)
@pytest.mark.parametrize("name", GALLERY)
def test_models_of_the_gallery_run_on_what_runs_write(
    name: str, folder: Path, gallery: Path, golden: Callable[[str, str], None]
) -> None:
    """Each has its likelihood, prior and constraints, says how far it is from the run, and keeps the constraints."""
    text = (gallery / f"{name}.policy").read_text(encoding="utf-8")
    output = ran(folder, name, text.replace("rate = 0.1", "rate = 0.9"))  # so that a step is measured in any run
    plan = compile_policy(folder / f"{name}.policy").plan
    emitted = (folder / f"{name}.plan" / "map_model.py").read_text(encoding="utf-8")
    assert emitted == render_map_model(plan)
    golden(f"models/{name}.py.txt", LONG.sub("…", emitted))
    for part in plan.releases:
        published = output if len(plan.releases) == 1 else folder / f"out-{part.name}.csv"
        done = model(folder, name, published.name, "optimum.csv")
        assert (done.returncode, done.stderr) == (0, "")
        assert re.match(rf"{part.name}: {STEPS} steps, least cost \S+ \((highs|pounce)", done.stdout)
        before, after = table(published), table(folder / "optimum.csv")
        assert [{**row, "released": ""} for row in after] == [{**row, "released": ""} for row in before]
        values = np.array([float(row["released"]) for row in after]).reshape(STEPS, -1)
        assert part.constraint_set.violation(values, None) < 1e-6
        assert np.isfinite(values).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "estimate"),
    [
        ("traffic", "map(prior = uniform)"),
        ("traffic", "map(prior = frequency)"),
        ("traffic", "joint_map()"),
        ("fleet", "map(prior = initial)"),
        ("fleet", "joint_map()"),
        ("fleet", "mle()"),
    ],
)
def test_models_give_the_runs_values(name: str, estimate: str, folder: Path, gallery: Path) -> None:
    """Of `map`, `joint_map` and `mle`, the optimum is what the run published: files are equal, for several seeds."""
    text = shorter((gallery / f"{name}.policy").read_text(encoding="utf-8"), STEPS)
    (folder / f"{name}.policy").write_text(f"{text}\nbudget uniform()\nestimate {estimate}\n")
    plan = compile_policy(folder / f"{name}.policy").plan
    module = ModuleType("map_model")
    exec(compile(render_map_model(plan), "map_model.py", "exec"), module.__dict__)
    column, cells, _, optimum = module.RELEASES[plan.releases[0].name]
    for seed in (1, 2, 3):
        write_counts(folder / "data.csv", name, seed)
        out = folder / f"out-{seed}.csv"
        randomness = SimulationRandomness(seed)
        data = folder / "data.csv"
        released = release(
            plan, data, folder / f"{seed}.ledger", counts=True, steps=STEPS, randomness=randomness, pin=None
        )
        write_release(released, out)
        columns, rows = module.read_rows(str(out))
        noisy = module.noisy_of(str(out), columns, rows, cells, column)
        values, _, _ = optimum(noisy)
        published = {t: {row[column]: int(row["released"]) for row in rows if int(row["step"]) == t} for t in noisy}
        for t in [t for t in noisy if values[t] != published[t]]:  # a tie, or wrong
            assert not estimate.startswith("joint_map")
            costs = [cost_of_step(module, t, noisy[t], row) for row in (values[t], published[t])]
            assert costs[0] == pytest.approx(costs[1], abs=1e-9)
            assert sum(values[t].values()) == sum(published[t].values())


def cost_of_step(module: ModuleType, t: int, noisy: dict[str, float], values: dict[str, int]) -> float:
    """The emitted cost of whole numbers at one step, with a prior that is the same at every step, or flat."""
    told: list[dict[str, float]] = [{"scale": module.scale(t, module.SCALES)} for _ in module.CELLS]
    if hasattr(module, "laws"):
        first = getattr(module, "FIRST_LAW", None)
        assert first is not None, "ties are expected of even priors only"
        told = [
            {**one, "probability": p} for one, p in zip(told, module.laws(t + 1, first, module.FORWARD)[t], strict=True)
        ]
    cells = zip(module.CELLS, told, strict=True)
    return float(sum(module.minus_log(values[cell], noisy[cell], **more) for cell, more in cells))


@pytest.mark.law
def test_parquet_gaps_and_simulated_values_are_read(folder: Path, gallery: Path) -> None:
    """What a run wrote as Parquet, with steps that were not measured; a column that marks simulated values stays."""
    text = (
        (gallery / "checkins.policy")
        .read_text(encoding="utf-8")
        .replace("rate = 0.1", "rate = 0.5, sampling = fixed_size")
    )
    ran(folder, "checkins", text, suffix="parquet")
    done = model(folder, "checkins", "out.parquet", "optimum.csv")
    assert (done.returncode, done.stderr) == (0, "")
    rows = table(folder / "optimum.csv")
    assert len(rows) == STEPS
    assert any(not row["noisy"] for row in rows)
    with (folder / "marked.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "simulated"])
        writer.writeheader()
        writer.writerows({**row, "simulated": "NOT A RELEASE"} for row in rows)
    assert model(folder, "checkins", "marked.csv", "again.csv").returncode == 0
    assert {row["simulated"] for row in table(folder / "again.csv")} == {"NOT A RELEASE"}
    assert model(folder, "checkins", "out.parquet", "optimum.parquet").returncode == 0
    assert model(folder, "checkins", "optimum.parquet").returncode == 0


@pytest.mark.law
def test_where_nothing_was_measured_no_value_is_called_probable(folder: Path, gallery: Path) -> None:
    """A run whose sample missed every step leaves nothing to solve: said so, and nothing written."""
    text = (gallery / "checkins.policy").read_text(encoding="utf-8")
    output = ran(folder, "checkins", text)
    rows = table(output)
    with output.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "noisy": ""} for row in rows)
    done = model(folder, "checkins", "out.csv", "optimum.csv")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "nothing was measured" in done.stderr
    assert not (folder / "optimum.csv").exists()


@pytest.mark.law
def test_what_is_missing_is_said_without_a_traceback(
    folder: Path, gallery: Path, some: Callable[[Iterable[Any], int], list[Any]]
) -> None:
    """No solver, no Pyomo, another file, no file, an unknown solver, an unknown option: a message each."""
    text = (gallery / "traffic.policy").read_text(encoding="utf-8")
    ran(folder, "traffic", f"{text}\nbudget uniform()\nestimate map(prior = initial)\n")
    program = "import sys, runpy\nfor name in {}: sys.modules[name] = None\nsys.argv = ['map_model.py', 'out.csv']\n"
    program += "runpy.run_path('traffic.plan/map_model.py', run_name='__main__')"
    absences = [(["highspy"], "pip install highspy"), (["pyomo"], "pip install pyomo highspy pyomo-pounce")]
    for absent, remedy in some(absences, 1):
        done = subprocess.run(
            [sys.executable, "-c", program.format(absent)], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert remedy in done.stderr
        assert "Traceback" not in done.stderr
    (folder / "other.csv").write_text("step,noisy\n0,1\n")
    (folder / "part.csv").write_text("".join((folder / "out.csv").read_text().splitlines(keepends=True)[:-1]))
    (folder / "words.csv").write_text((folder / "out.csv").read_text().replace("0,", "zero,", 1))
    calls: list[tuple[list[str], int, str]] = [
        (["other.csv"], 1, "no column segment"),
        (["part.csv"], 1, "every cell of this plan at every step"),
        (["words.csv"], 1, "no number"),
        (["absent.csv"], 1, "absent.csv cannot be read: No such file"),
        (["absent.parquet"], 1, "absent.parquet cannot be read"),
        (["out.csv", "--solver", "nosuch"], 1, "install nosuch"),
        (["out.csv", "--mean", "3"], 2, "unrecognized arguments"),
        (["--help"], 0, "what `policyc run` wrote"),
        (["out.csv", "--solver", "highs"], 0, ""),
    ]
    for words, code, said in some(calls, 2):
        done = model(folder, "traffic", *words)
        assert done.returncode == code, done.stderr
        assert said in done.stderr + done.stdout
        assert "Traceback" not in done.stderr


@pytest.mark.law
def test_parameters_of_a_signal_can_be_given(folder: Path, gallery: Path) -> None:
    """Learned ones give way to those that are passed: a signal that hardly moves makes the series flat."""
    text = (gallery / "departures.policy").read_text(encoding="utf-8")
    rows = table(ran(folder, "departures", text))
    with (folder / "out.csv").open("w", newline="") as file:  # whatever noise was drawn: values that move a lot
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "noisy": str(round(5000 + 4000 * np.sin(step / 2)))} for step, row in enumerate(rows))
    assert model(folder, "departures", "out.csv", "learned.csv").returncode == 0
    given = ["--sd", 0.001, "--seasonal-sd", 0, "--autocorrelation", 0.5]
    assert model(folder, "departures", "out.csv", "given.csv", *given).returncode == 0
    learned, given_values = (
        [float(row["released"]) for row in table(folder / f"{n}.csv")] for n in ("learned", "given")
    )
    assert np.ptp(given_values) <= 1 < np.ptp(learned)
