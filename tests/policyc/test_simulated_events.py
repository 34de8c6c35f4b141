"""Events drawn as a policy declares them: accepted by `run`, and marked in everything that is made of them."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import prompt
import pytest

from policyc import compile_policy
from policyc.pipeline import Compilation, declared_signal
from policyc_check.errors import KernelError
from policyc_runtime.errors import LedgerError
from policyc_runtime.laboratory.events import write_events
from policyc_runtime.plan import Plan
from policyc_runtime.release import release
from policyc_runtime.sources import read_events

GALLERY = ("fleet", "bikeshare", "checkins", "departures", "speeds", "traffic", "wards")


def policyc(folder: Path, *words: str, code: int = 0) -> str:
    done = prompt.policyc(*words, cwd=folder)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.law
@pytest.mark.parametrize("name", GALLERY)
def test_every_policy_of_the_gallery_runs_on_events_of_its_own(name: str, gallery: Path, tmp_path: Path) -> None:
    """Compile, draw events, run, run again, verify: by the command line, and every file says that it is no release."""
    suffix = "parquet" if name == "speeds" else "csv"
    policyc(tmp_path, "compile", str(gallery / f"{name}.policy"), "-o", "plan")
    said = policyc(tmp_path, "simulate", "plan", "--events", f"events.{suffix}", "--seed", "3")
    assert "NOT A RELEASE" in said
    run = ("run", "plan", "--input", f"events.{suffix}", "--output", f"out.{suffix}")
    assert "NOT A RELEASE" in policyc(tmp_path, *run)
    assert ": 0 new" in policyc(tmp_path, *run)
    for file in tmp_path.glob(f"out*.{suffix}"):
        marks = duckdb.sql(f"SELECT DISTINCT simulated FROM '{file}'").fetchall()
        assert marks == [("NOT A RELEASE",)]
    assert "were simulated" in policyc(tmp_path, "verify", "plan", "--release", f"out.{suffix}")


@pytest.mark.law
def test_simulated_and_real_events_do_not_share_a_ledger(
    compiled_gallery: Callable[[str], Compilation], tmp_path: Path
) -> None:
    """Either way round, with the remedy; an output of simulated events is no place for a release."""
    plan = compiled_gallery("traffic").plan
    drawn, real = tmp_path / "drawn.csv", tmp_path / "real.csv"
    write_events(plan, 1, drawn, steps=6)
    real.write_text("\n".join(line.rsplit(",", 1)[0] for line in drawn.read_text().splitlines()) + "\n")
    for first, second in ((drawn, real), (real, drawn)):
        book = tmp_path / f"l{first.stem}"
        assert release(plan, first, book, steps=4, pin=None).is_release is (first == real)
        with pytest.raises(LedgerError, match="do not share a ledger") as refused:
            release(plan, second, book, steps=5, pin=None)
        assert refused.value.code == "E0828"
        assert "policyc compile" in str(refused.value.help)


def fleet(compiled_gallery: Callable[[str], Compilation]) -> Plan:
    return compiled_gallery("fleet").plan


@pytest.mark.law
def test_users_move_along_the_declared_chain(compiled_gallery: Callable[[str], Compilation], tmp_path: Path) -> None:
    """Frequencies of 40 steps of 4,037 users are the chain's, within six standard errors; who is away has no event."""
    plan = fleet(compiled_gallery)
    write_events(plan, 5, tmp_path / "e.csv", steps=40)
    cells = {name: index for index, name in enumerate(plan.stream.cell.states)}
    states = np.full((40, plan.stream.population), len(cells) - 1)
    with (tmp_path / "e.csv").open() as handle:
        for row in csv.DictReader(handle):
            user, day = (
                int(row["tailnum"].split("-")[1]),
                np.datetime64(row["departed_at"]) - np.datetime64(plan.stream.start),
            )
            states[day.astype("timedelta64[D]").astype(int), user] = cells[row["origin"]]
    forward = plan.correlation.chains[0].chain().forward
    moves = np.zeros_like(forward)
    np.add.at(moves, (states[:-1].ravel(), states[1:].ravel()), 1)
    totals = moves.sum(axis=1, keepdims=True)
    assert (np.abs(moves / totals - forward) < 6 * np.sqrt(forward * (1 - forward) / totals)).all()


def test_one_seed_draws_one_file(compiled_gallery: Callable[[str], Compilation], tmp_path: Path) -> None:
    """The same seed gives the same bytes, another one another file."""
    plan = fleet(compiled_gallery)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_events(plan, seed, tmp_path / f"{name}.csv", steps=5)
    a, b, c = ((tmp_path / f"{name}.csv").read_bytes() for name in "abc")
    assert a == b != c


USER_LEVEL = """
policy visits "visitors"
stream seen {{
  user person
  time at
  step 1h
  horizon {horizon} steps
  start "2026-01-01"
}}
release spent = {query}
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most({bound} steps, spacing = {spacing} steps, enforced = keep_first)
{signal}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("query", ["count(seen)", "sum(seen.money, clamp = 0 .. 20)"])
@pytest.mark.parametrize("signal", ["", "declared"])
@pytest.mark.parametrize("spacing", [1, 4])
def test_nobody_takes_part_more_often_than_the_bound_allows(
    query: str, signal: str, spacing: int, tmp_path: Path
) -> None:
    """Nothing is dropped by the run, values are within the clamp, and counts move as the signal says."""
    declared = (
        "signal seasonal_ar1(period = 24 steps, mean = 900, seasonal_sd = 120, residual_sd = 40, autocorrelation = 0.4"
    )
    text = USER_LEVEL.format(
        horizon=240,
        query=query,
        bound=5,
        spacing=spacing,
        signal=f'{declared}, evidence = "e")' if signal else "",
    )
    (tmp_path / "v.policy").write_text(text)
    plan = compile_policy(tmp_path / "v.policy").plan
    process = declared_signal(tmp_path / "v.policy", plan)
    write_events(plan, 2, tmp_path / "e.csv", signal=process)
    found = read_events(tmp_path / "e.csv", plan, steps=240)
    assert found.dropped == {"users": 0, "participations": 0, "events": 0}
    with (tmp_path / "e.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert max(Counter(row["person"] for row in rows).values()) <= 5
    if "money" in query:
        assert all(0 <= float(row["money"]) <= 20 for row in rows)
    if signal:
        values = found.counts["spent"][:, 0] * (0.01 if "money" in query else 1)
        assert abs(values.mean() - 900) < 60
        assert 60 < values.std() < 250


def test_what_cannot_be_drawn_is_refused(compiled_gallery: Callable[[str], Compilation], tmp_path: Path) -> None:
    """Too many events, steps beyond the horizon, another suffix: nothing is written."""
    plan = compiled_gallery("wards").plan
    for steps, name in ((100_000, "e.csv"), (5, "e.txt")):
        with pytest.raises(KernelError):
            write_events(plan, 1, tmp_path / name, steps=steps)
    with pytest.raises(KernelError):
        write_events(fleet(compiled_gallery), 1, tmp_path / "e.csv", steps=366)
    assert not list(tmp_path.iterdir())
