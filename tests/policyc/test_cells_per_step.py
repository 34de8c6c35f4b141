"""Users who count in several cells of a step, from the policy to the audit."""

from __future__ import annotations

import numpy as np
import pytest
from walk import walked

from policyc import compile_policy
from policyc_runtime.refusal import verify
from policyc_runtime.sources import read_events

POLICY = """policy pages "Pages that are read, and the first of them"
stream views {
  user device
  time at
  cell page in {"A", "B", "C", "D"}
  step 1h
  horizon 6 steps
  start "2026-01-01"
}
release read = count(views) by page
release first = count(views, cells_per_step = 1) by page
release devices = count(views)
release seconds = sum(views.seconds, clamp = 0 .. 60) by page
target user_level(epsilon = 1.0, delta = 1e-7, neighbors = NEIGHBORS)
participation at_most(2 steps, cells_per_step = 3, enforced = keep_first)
mechanism gaussian()
estimate none()
deliver realtime
"""
ROWS = (  # of device a in the first hour: five pages, one of them twice; then once, and in a third hour
    "a,00:05,C,10", "a,00:07,A,20", "a,00:09,A,50", "a,00:11,D,99", "a,00:13,B,1", "b,00:02,B,7",
    "a,01:00,B,5", "a,02:00,B,5", "b,02:30,D,8",
)  # fmt: skip


def compiled(folder, neighbors="add_remove"):
    (folder / "pages.policy").write_text(POLICY.replace("NEIGHBORS", neighbors))
    return compile_policy(folder / "pages.policy")


def test_the_first_cells_count_once_each(tmp_path):
    """Three pages of an hour count, each once and with its first value; where one counts it is the first page."""
    plan = compiled(tmp_path).plan
    path = tmp_path / "e.csv"
    lines = [f"{who},2026-01-01T{at}:00,{page},{s}" for who, at, page, s in (row.split(",") for row in ROWS)]
    path.write_text("\n".join(["device,at,page,seconds", *lines]) + "\n")
    found = read_events(path, plan, steps=3)
    assert found.counts["read"].tolist() == [[1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert found.counts["first"].tolist() == [[0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert found.counts["devices"].tolist() == [[2], [1], [1]]
    grid = float(plan.release_named("seconds").query.grid)
    assert (found.counts["seconds"] * grid).tolist() == [[20, 7, 10, 60], [0, 5, 0, 0], [0, 0, 0, 8]]
    assert found.dropped == {"users": 1, "participations": 1, "events": 3}


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_noise_is_for_as_many_values(neighbors, tmp_path):
    """All releases together: mu squared is the sum over releases of changed values over variance, as of one release."""
    others = ("release first", "release read", "release seconds")
    text = "\n".join(line for line in POLICY.splitlines() if not line.startswith(others))
    text = text.replace("cells_per_step = 3, ", "").replace("NEIGHBORS", "add_remove")
    (tmp_path / "one.policy").write_text(text + "\n")
    one = 2 / float(compile_policy(tmp_path / "one.policy").plan.releases[0].mechanism.stddev) ** 2
    plan = compiled(tmp_path, neighbors).plan
    users = 1 if neighbors == "add_remove" else 2  # in steps of their own
    values = {"read": 3, "first": 1, "devices": 1, "seconds": 3 * 6000**2}
    square = sum(
        users * 2 * number / float(plan.release_named(name).mechanism.stddev) ** 2 for name, number in values.items()
    )
    assert square == pytest.approx(one, rel=2e-3)


def test_a_plan_with_more_cells_than_its_noise_is_for_is_refused(tmp_path):
    """Of a release that hides three cells, said to be about four; and with one percent less noise."""
    plan = compiled(tmp_path).plan
    read, *others = plan.releases
    more = read.model_copy(update={"query": read.query.model_copy(update={"cells_per_step": 4})})
    less = read.model_copy(
        update={"mechanism": read.mechanism.model_copy(update={"stddev": read.mechanism.stddev * 99 / 100})}
    )
    for altered in (more, less):
        with pytest.raises(Exception, match="plan refused"):
            verify(plan.model_copy(update={"releases": (altered, *others)}).sealed())


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_it_is_simulated_run_and_verified(neighbors, tmp_path):
    """From the command line: events of its own lose nothing, two runs, an audit that proves no more than is claimed."""
    plan = walked(tmp_path, POLICY.replace("NEIGHBORS", neighbors), 6)
    counted = read_events(tmp_path / "e.csv", plan, steps=6)
    assert np.array_equal(counted.counts["read"].sum(axis=1), 3 * counted.counts["devices"][:, 0])
    page = (tmp_path / "p.plan" / "certificate.md").read_text()
    assert "That is up to 3 cells of each of `read` and `seconds`. It is up to 1 cell of `first`." in page
