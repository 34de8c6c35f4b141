"""Users in none of the cells where all of a user is promised: who is counted, with how much noise, and when not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from policyc import PolicyError, compile_policy
from policyc.cli import app
from policyc.emit import verify_directory
from policyc_check.errors import PlanRejectedError
from policyc_check.plan.targets import NeighboringRelation
from policyc_check.users.claims import setting_of
from policyc_check.verify import verified_claims
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import verify
from policyc_runtime.sources.events import read_events

STEPS = 6
AWAY = ' otherwise "away"'
ROOMS = """policy rooms "Rooms"
stream seen {{
  user person time at cell room in {{{cells}}}{away} step 1d horizon {steps} steps start "2026-01-01" {users}
}}
release n = {release} by room
target user_level({promise}, neighbors = {neighbors})
participation {bound}
{more}
"""
PLAIN = {
    "cells": '"A", "B"',
    "away": AWAY,
    "steps": STEPS,
    "users": "population 9",
    "release": "count(seen)",
    "promise": "epsilon = 1.0, delta = 1e-5",
    "neighbors": "replace",
    "bound": 'at_most(2 steps, assumed = "cards")',
    "more": "",
}


def written(folder: Path, **changed: object) -> Path:
    path = folder / "rooms.policy"
    path.write_text(ROOMS.format(**{**PLAIN, **changed}))
    return path


def planned(folder: Path, **changed: object) -> Plan:
    return compile_policy(written(folder, **changed)).plan


def refused(folder: Path, **changed: object) -> list[tuple[str, str]]:
    """Code and remedy of each error."""
    with pytest.raises(PolicyError) as found:
        planned(folder, **changed)
    return [(d.code, d.help) for d in found.value.diagnostics if d.code.startswith("E")]


def test_who_is_in_no_cell_is_all_others(tmp_path: Path) -> None:
    """Unlisted rooms, days without an event, days beyond the bound, and people who never come."""
    plan = planned(tmp_path, bound="at_most(2 steps, enforced = keep_first)")
    rows = ["one,2026-01-01,A", "one,2026-01-02,street", "one,2026-01-04,B", "two,2026-01-01,B", "two,2026-01-03,A"]
    (tmp_path / "seen.csv").write_text("\n".join(["person,at,room", *rows]) + "\n")
    counts = read_events(tmp_path / "seen.csv", plan, steps=4).counts["n"]
    assert counts.tolist() == [[1, 1, 7], [0, 0, 9], [1, 0, 8], [0, 0, 9]]


def courses() -> Iterator[tuple[int, ...]]:
    """Where a user is on each of the first three days, on two of them at most in a place with a name."""
    places = range(4)  # nowhere, A, B, a street
    yield from (days for days in product(places, repeat=3) if sum(map(bool, days)) <= 2)


@pytest.mark.law
@pytest.mark.parametrize("bound", [1, 2])
def test_no_two_users_move_more_than_noise_hides_through_the_run_s_own_counting(bound: int, tmp_path: Path) -> None:
    """All that a user may do in three days, dropped beyond the bound: as far apart as the check takes it."""
    plan = planned(tmp_path, steps=3, bound=f"at_most({bound} steps, enforced = keep_first)")
    found = []
    for course in courses():
        rows = [f"one,2026-01-0{day + 1},{['', 'A', 'B', 'street'][at]}" for day, at in enumerate(course) if at]
        (tmp_path / "seen.csv").write_text("\n".join(["person,at,room", "other,2026-01-02,B", *rows]) + "\n")
        found.append(read_events(tmp_path / "seen.csv", plan, steps=3).counts["n"].ravel())
    everybody = np.array(found)
    most = max(int(((everybody - one) ** 2).sum(axis=1).max()) for one in everybody)
    setting = setting_of(plan, plan.measured[0], plan.targets[0])  # type: ignore[arg-type]
    assert most == setting.changes * setting.shift**2 == 2 * min(2 * bound, 3)


@pytest.mark.parametrize("bound", [1, 2, 5, 6])
def test_noise_is_that_of_two_users_in_all_steps_of_either(bound: int, tmp_path: Path) -> None:
    """Beside counts without `otherwise`: as many times the variance as two users are in more steps than one."""
    said = {"bound": f'at_most({bound} steps, assumed = "x")', "more": "mechanism gaussian()"}
    more = variance(planned(tmp_path, **said)) / variance(planned(tmp_path, away="", **said))
    assert more == pytest.approx(min(2 * bound, STEPS) / bound, rel=0.01)


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_of_a_period_noise_is_that_of_two_users_in_its_steps(bound: int, tmp_path: Path) -> None:
    """Who is replaced in three days differs there alone; the check refuses one part in a hundred less."""
    said = {
        "promise": "epsilon = 1.0, delta = 1e-5, per = 3d",
        "bound": f'at_most({bound} steps, per = 3d, assumed = "x")',
        "more": "mechanism gaussian()",
    }
    plan = planned(tmp_path, **said)
    assert variance(plan) / variance(planned(tmp_path, away="", **said)) == pytest.approx(
        min(2 * bound, 3) / bound, rel=0.01
    )
    verify(plan)
    (part,) = plan.measured
    less = part.model_copy(update={"mechanism": part.mechanism.with_noise(0.99)})
    with pytest.raises(PlanRejectedError):
        verify(plan.model_copy(update={"releases": (less,)}).sealed())


@pytest.mark.law
def test_a_period_is_bounded_by_itself_through_the_run_s_own_counting(tmp_path: Path) -> None:
    """What a user does in the first two of four days is replaced by anything else there: no other day differs."""
    plan = planned(
        tmp_path,
        steps=4,
        promise="epsilon = 1.0, delta = 1e-5, per = 2d",
        bound="at_most(1 steps, per = 2d, enforced = keep_first)",
    )
    found = []
    for course in product(range(4), repeat=2):
        rows = [
            f"one,2026-01-0{day + 1},{['', 'A', 'B', 'street'][at]}" for day, at in enumerate((*course, 1, 2)) if at
        ]
        (tmp_path / "seen.csv").write_text("\n".join(["person,at,room", "other,2026-01-02,B", *rows]) + "\n")
        found.append(read_events(tmp_path / "seen.csv", plan, steps=4).counts["n"])
    everybody = np.array(found)
    assert (everybody[:, 2:] == everybody[0, 2:]).all()
    most = max(int(((everybody - one) ** 2).sum(axis=(1, 2)).max()) for one in everybody)
    setting = setting_of(plan, plan.measured[0], plan.targets[0])  # type: ignore[arg-type]
    assert most == setting.changes * setting.shift**2 == 4


def variance(plan: Plan) -> float:
    """Of the noise of a value."""
    return float(plan.measured[0].mechanism.stddev) ** 2  # type: ignore[attr-defined]


def test_what_follows_from_the_cells_errs_no_more_than_what_is_measured(tmp_path: Path) -> None:
    """What E0314 says: K cells with variance v, and what they leave, against K + 1 with 2 v that add up."""
    cells = 5
    said = {
        "cells": ", ".join(f'"{n}"' for n in range(cells)),
        "bound": 'at_most(1 steps, assumed = "x")',
        "more": "mechanism gaussian()",
    }
    alone = variance(planned(tmp_path, away="", neighbors="add_remove", **said))
    measured = variance(planned(tmp_path, **said)) / 2  # of one user; replaced, noise hides another one as well
    assert measured == pytest.approx(2 * alone, rel=0.01)
    add_up = np.eye(cells + 1) - np.full((cells + 1, cells + 1), 1 / (cells + 1))
    follows = np.vstack([np.eye(cells), -np.ones(cells)])
    assert alone * np.trace(follows @ follows.T) == pytest.approx(2 * cells * alone)
    assert measured * np.trace(add_up) == pytest.approx(2 * cells * alone, rel=0.01)


@pytest.mark.parametrize("promise", [PLAIN["promise"], "epsilon = 1.0, delta = 0", "rho = 0.05"])
def test_a_plan_with_less_noise_is_refused(promise: str, tmp_path: Path) -> None:
    """By one in a hundred; with the noise of users who are in no cell for nothing; and for users added or removed."""
    plan, alone = planned(tmp_path, promise=promise), planned(tmp_path, promise=promise, away="")
    verify(plan)
    (part,) = plan.measured
    for mechanism in (part.mechanism.with_noise(0.99), alone.measured[0].mechanism):
        releases = (part.model_copy(update={"mechanism": mechanism}),)
        with pytest.raises(PlanRejectedError):
            verify(plan.model_copy(update={"releases": releases}).sealed())
    added = {"relation": NeighboringRelation.ADD_OR_REMOVE_ONE}
    (claim,) = plan.claims.user_level
    claims = plan.claims.model_copy(update={"user_level": (claim.model_copy(update=added),)})
    targets = (plan.targets[0].model_copy(update=added),)
    for less in (1, 0.5):  # half the noise would be that of one user without `otherwise`
        releases = (part.model_copy(update={"mechanism": part.mechanism.with_noise(less)}),)
        update = {"targets": targets, "claims": claims, "releases": releases}
        altered = plan.model_copy(update=update).sealed()
        assert all(claim.holds for claim in verified_claims(altered)) == (less == 1)


def test_a_run_is_verified_and_errs_as_stated(tmp_path: Path) -> None:
    """Compiled, run on events of its own, verified to the byte; simulated errors are those of the noise."""
    compiled = compile_policy(written(tmp_path, users="population 500", more="estimate none()"))
    directory, out = compiled.save(tmp_path / "plan"), tmp_path / "out.csv"
    rows = [f"u{user},2026-01-0{1 + (user + n) % STEPS},{'AB'[user % 2]}" for user in range(60) for n in range(2)]
    (tmp_path / "seen.csv").write_text("\n".join(["person,at,room", *rows]) + "\n")
    done = ["run", directory, "--input", tmp_path / "seen.csv", "--output", out, "--steps", STEPS]
    assert CliRunner().invoke(app, list(map(str, done))).exit_code == 0
    assert len(out.read_text().splitlines()) == 1 + 3 * STEPS
    assert all(claim.holds is not False for claim in verify_directory(directory))
    plan = compiled.plan
    found = simulate(plan, 500, 60, (), steps=STEPS)
    error = found.errors[0]
    assert error.mean_squared_error == pytest.approx(variance(plan), rel=0.15)


@pytest.mark.parametrize(
    ("changed", "code", "remedy"),
    [
        ({"neighbors": "add_remove"}, "E0314", "less all that is released"),
        ({"release": "sum(seen.spent, clamp = 0 .. 5)"}, "E0314", "one cell more"),
        ({"bound": 'at_most(2 steps, per_step = 2, assumed = "x")'}, "E0314", "once in a step"),
        ({"bound": 'at_most(2 steps, cells_per_step = 2, assumed = "x")'}, "E0314", "once in a step"),
        ({"release": "count(seen, cells_per_step = 2)"}, "E0314", "once in a step"),
        ({"users": ""}, "E0308", "population"),
        (
            {"promise": "epsilon = 1, delta = 0, per = 6h", "bound": 'at_most(1 steps, per = 6h, assumed = "x")'},
            "E0314",
            "once in a step",
        ),
    ],
)
def test_where_it_is_no_number_or_follows_it_is_refused(
    changed: dict[str, str], code: str, remedy: str, tmp_path: Path
) -> None:
    """With what to write; without `otherwise` all but the one about a population compile."""
    ((found, said),) = refused(tmp_path, **changed)
    assert (found, remedy in said) == (code, True)
    assert planned(tmp_path, away="", **changed).measured
