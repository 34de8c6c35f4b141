"""Whatever an enforced bound drops is warned about and stands beside the error: told apart by counting all events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit.summary import render_summary
from policyc_runtime.sources import read_events

STEPS = 4
ROOMS = ("a", "b")
POLICY = """policy p "one line"
stream s {{ user u time t cell room in {{"a", "b"}} step 1d horizon 4 steps start "2026-01-01" }}
{releases}
target user_level(epsilon = 4.0, delta = 1e-6, neighbors = add_remove)
participation at_most({bound})
deliver offline
mechanism gaussian()
"""
ENFORCED = "enforced = keep_first"
RELEASES = {
    "count": "release r = count(s)",
    "by cell": "release r = count(s) by room",
    "sum": "release r = sum(s.n, clamp = 0 .. 10)",
    "sum of a count": "release base = count(s)\nrelease r = prefix(base)",
    "count beside a sum": "release r = count(s)\nrelease n = sum(s.n, clamp = 0 .. 10)",
    "sum beside a count": "release other = count(s)\nrelease r = sum(s.n, clamp = 0 .. 10)",
}


def events() -> list[tuple[str, int, int, str, int]]:
    """(user, step, hour, room, n): six users on every day, each with five events in a day."""
    rng = np.random.default_rng(1)
    return [
        (f"u{user}", step, hour, ROOMS[rng.integers(2)], int(rng.integers(1, 10)))
        for user in range(6)
        for step in range(STEPS)
        for hour in range(5)
    ]


def meant(name: str, events_a_step: int) -> float:
    """What a release would be, over all steps and cells, with nothing dropped."""
    rows = events()
    if name.startswith("sum beside") or name == "sum":
        return float(sum(row[4] for row in rows))
    counted = len(rows) if events_a_step > 1 else len({row[:2] for row in rows})
    return float(counted)


@pytest.mark.sampled(4, laws=15)
@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize(
    ("bound", "events_a_step"),
    [
        (f"4 steps, {ENFORCED}", 1),
        (f"4 steps, per_step = 3, {ENFORCED}", 3),
        (f"2 steps, {ENFORCED}", 1),
        (f"2 steps, per_step = 3, {ENFORCED}", 3),
        ("4 steps, per_step = 3, enforced = keep_sample", 3),
        ('4 steps, per_step = 5, assumed = "never more"', 5),
        ('4 steps, assumed = "never more"', 1),
    ],
)
def test_what_misses_events_says_so(name: str, bound: str, events_a_step: int, tmp_path: Path) -> None:
    """Of users who exceed the bound in every way: what lacks some of their events is of kept ones, and nothing else."""
    place = tmp_path / "p.policy"
    place.write_text(POLICY.format(releases=RELEASES[name], bound=bound))
    written = "\n".join(f"{u},2026-01-{1 + step:02}T{hour:02}:00:00,{room},{n}" for u, step, hour, room, n in events())
    (tmp_path / "e.csv").write_text(f"u,t,room,n\n{written}\n")
    compiled = compile_policy(place)
    plan, release = compiled.plan, compiled.plan.release_named("r")
    source = "base" if name == "sum of a count" else "r"
    unit = float(getattr(plan.release_named(source).query, "grid", 1))
    counts = read_events(tmp_path / "e.csv", plan, steps=STEPS).counts[source]
    missing = float(counts.sum()) * unit != meant(name, events_a_step)
    assert plan.drops_from(release) == missing
    (summary,) = [part for part in render_summary(plan, tmp_path).split("\n  release ") if part.startswith("   r:")]
    assert ("kept events" in summary) == missing
    warned = "W0502" in {notice.code for notice in plan.notices}
    assert warned == plan.drops
    assert warned or not missing
