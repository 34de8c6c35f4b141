"""A plan says what its policy says: dressed with the text of another promise it is found, whatever was resealed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from policyc import compile_policy
from policyc.diagnostics import Diagnostic
from policyc.emit import require_unchanged, verify_directory
from policyc.emit.directory import save
from policyc.emit.stored_files import sha256
from policyc.pipeline import Compilation
from policyc.planning.declaration import RELEASED, WHOLE, differences
from policyc.semantics.checked import check_file
from policyc_check.errors import PlanRejectedError
from policyc_runtime.plan import FileRecord, Plan

STEPS = """
policy traffic "vehicles per segment"
stream passages {
  user vehicle
  time seen_at
  cell segment in {"A", "B"} otherwise "away"
  step 5min
  horizon 6 steps
  start "2026-01-01"
  population 200
}
release occupancy = count(passages) by segment
release all = count(passages)
target alpha_dpt(alpha = 1.0)
target w_event(epsilon = 3.0, window = 3 steps)
correlation markov(
  forward = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]],
  initial = [0.2, 0.2, 0.6], evidence = "public counts")
deliver within(2 steps)
objective mean_absolute_error
postprocess occupancy {
  sum(occupancy) == population, occupancy >= 0, integer(occupancy), suppress(occupancy, below = 20)
}
"""
USERS = """
policy wards "stays and costs"
stream stays {
  user patient
  time at
  cell ward in {"A", "B"}
  step 1d
  horizon 8 steps
  start "2026-01-01"
}
release present = count(stays) by ward
release cost = sum(stays.cost, clamp = 0 .. 4)
release total = prefix(present)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = replace)
participation at_most(2 steps, per_step = 2, spacing = 2 steps, enforced = keep_first)
correlation none(evidence = "one stay a patient")
mechanism gaussian()
postprocess present { present >= 0, present["A"] - previous(present["A"]) <= 40, suppress(present, below = 3.5) }
postprocess total { suppress(total, where = present) }
"""


def compiled(folder: Path, text: str) -> Compilation:
    folder.mkdir(exist_ok=True)
    (folder / "p.policy").write_text(text)
    return compile_policy(folder / "p.policy")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, item in items:
            yield from leaves(item, (*path, key))


def others(value: Any) -> list[Any]:
    """Values that may stand in the place of another."""
    if value is None:
        return ["x", 1, "1"]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, None]
    return ["2", f"{value}x", None, "away", "replace_one", "add_or_remove_one", "keep_first", "==", ">=", "offline"]


def replaced(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def checked_warnings(made: Compilation) -> list[Diagnostic]:
    """What is warned of before anything is planned."""
    return list(check_file(made.path)[3])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compilation]:
    folder = tmp_path_factory.mktemp("policies")
    return {text: compiled(folder / name, text) for name, text in (("steps", STEPS), ("users", USERS))}


@pytest.fixture(params=[STEPS, USERS], ids=["steps", "users"])
def made(request: pytest.FixtureRequest, both: dict[str, Compilation]) -> Compilation:
    return both[request.param]


def test_a_plan_does_not_differ_from_its_policy(made: Compilation) -> None:
    """What was compiled is what is resolved again."""
    assert list(differences(made.policy, checked_warnings(made), made.plan)) == []


def test_every_field_that_bears_on_privacy_is_compared(
    made: Compilation, some: Callable[[Iterable[Any], int], list[Any]]
) -> None:
    """Each leaf of targets, stream, chains, participation and releases, altered in a resealed plan, is named."""
    content = json.loads(made.plan.to_json())
    places = [path for path, _ in leaves(content) if path[0] in WHOLE]
    places += [path for path, _ in leaves(content["releases"], ("releases",)) if path[2] in RELEASED]
    places = [path for path in places if "lags" not in path and path[0] != "digest"]
    assert len(places) > 60
    tried, places = 0, some(places, 30)
    for path in places:
        value = content
        for key in path:
            value = value[key]
        for other in others(value):
            try:
                plan = Plan.model_validate_json(json.dumps(replaced(content, path, other))).sealed()
            except ValueError:
                continue  # no plan could say that
            if plan.model_copy(update={"digest": made.plan.digest}) == made.plan:
                continue
            tried += 1
            found = next(differences(made.policy, checked_warnings(made), plan), None)
            assert found is not None, (path, other)
    assert tried > len(places)


def test_a_warning_taken_out_of_a_plan_is_missed(tmp_path: Path) -> None:
    """What the compiler warned of stands in the plan, which the certificate repeats."""
    made = compiled(tmp_path / "own", STEPS.replace("alpha = 1.0", "alpha = 20.0"))
    warned = checked_warnings(made)
    assert warned
    assert list(differences(made.policy, warned, made.plan)) == []
    plan = made.plan.model_copy(update={"notices": made.plan.notices[1:]}).sealed()
    assert next(differences(made.policy, warned, plan)).place.startswith("notices")


@pytest.mark.law
def test_a_program_beside_the_model_is_found(tmp_path: Path) -> None:
    """Python looks for what a program imports beside that program first."""
    folder = compiled(tmp_path, STEPS).save(tmp_path / "p.plan")
    assert all(claim.holds for claim in verify_directory(folder))
    (folder / "csv.py").write_text("print('run')\n")
    failed = [claim for claim in verify_directory(folder) if claim.holds is False]
    assert [claim.where for claim in failed] == [str(folder / "csv.py")]
    (folder / "csv.py").unlink()
    (folder / "pyomo").mkdir()
    (folder / "pyomo" / "__init__.py").touch()
    assert [claim.where for claim in verify_directory(folder) if claim.holds is False] == [str(folder / "pyomo")]


def dressed(plan: Plan, text: str) -> Plan:
    """A plan with the hash of another policy's text, resealed."""
    source = FileRecord(name="p.policy", sha256=sha256(text.encode()))
    return plan.model_copy(update={"policy": plan.policy.model_copy(update={"source": source})}).sealed()


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        (STEPS.replace("alpha = 1.0", "alpha = 0.5"), ("0.5", "1.0"), "targets.0.alpha"),
        (STEPS.replace("0.5, 0.3, 0.2", "0.4, 0.4, 0.2"), ("0.4", "0.5"), "correlation.chains.0.forward.0.0"),
        (STEPS.replace("public counts", "a census"), ("a census", "public counts"), "correlation.chains.0.evidence"),
        (STEPS.replace("population 200", "population 300"), ("300", "200"), "stream.population"),
        (USERS.replace("neighbors = replace", "neighbors = add_remove"), ("add", "replace"), "targets.0.relation"),
        (USERS.replace("at_most(2 steps", "at_most(3 steps"), ("3", "2"), "participation.bound"),
        (USERS.replace("0 .. 4", "0 .. 3"), ("3", "4"), "releases.1.query.high"),
        (USERS.replace("gaussian()", "laplace()"), ("laplace", "gaussian"), "releases.0.mechanism"),
    ],
    ids=["alpha", "chain", "evidence", "population", "neighbors", "bound", "clamp", "mechanism"],
)
def test_a_plan_dressed_with_another_policy_is_found(
    text: str, said: tuple[str, str], place: str, both: dict[str, Compilation], tmp_path: Path
) -> None:
    """No hash is wrong, and `run` says where the plan differs from the policy, and what either says."""
    plan = both[USERS if "stays" in text else STEPS].plan
    other = dressed(plan, text)
    (tmp_path / "p.policy").write_text(text)
    with pytest.raises(PlanRejectedError, match="not of its policy") as refused:
        require_unchanged(tmp_path, other)
    assert refused.value.code == "E0855"
    assert (refused.value.where or "").endswith(place)
    assert all(word in (refused.value.because or "") for word in said)


def test_such_a_plan_has_one_claim_that_fails(both: dict[str, Compilation], tmp_path: Path) -> None:
    """Pages, model and hashes of an alpha of 1 under the text of 0.5 are all in order; `verify` finds the promise."""
    text = STEPS.replace("alpha = 1.0", "alpha = 0.5")
    directory = save(tmp_path / "dressed.plan", dressed(both[STEPS].plan, text), text, {})
    failed = [claim for claim in verify_directory(directory) if claim.holds is False]
    assert [(claim.code, claim.name) for claim in failed] == [
        ("E0855", "the plan promises and assumes what its policy says")
    ]
