"""The way of a plan through the command line, as whoever ships counts goes it."""

from __future__ import annotations

from pathlib import Path

from prompt import policyc

from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.sources.events import read_events


def walked(folder: Path, text: str, steps: int) -> Plan:
    """Compile, simulate events of its own, of which nothing may be lost, run in two pieces, verify and audit.

    Args:
        folder: an empty one; `p.policy`, `p.plan`, `e.csv` and the releases `o.csv` are left in it.
        text: the policy.
        steps: how many are run.

    Returns:
        The plan.
    """
    (folder / "p.policy").write_text(text)
    made = ["compile", "p.policy", "-o", "p.plan"], ["simulate", "p.plan", "--steps", steps, "--events", "e.csv"]
    run = ["run", "p.plan", "--input", "e.csv", "--output", "o.csv", "--steps"]
    for words in (*made, [*run, steps // 2], [*run, steps], ["verify", "p.plan"], ["audit", "p.plan", "--runs", 300]):
        done = policyc(*words, cwd=folder)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    plan = load_plan(folder / "p.plan")
    assert read_events(folder / "e.csv", plan, steps=steps).dropped == {"users": 0, "participations": 0, "events": 0}
    return plan
