"""Whatever a plan predicts, considered or warns of is planned again: what was invented or changed is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from policyc import compile_policy
from policyc.cli import app
from policyc.emit import sign, signing_keys, verify_directory
from policyc.emit.audit import verify_directory as verify_files
from policyc.emit.blocks import operation
from policyc.emit.directory import save
from policyc.emit.printed_numbers import same_text
from policyc.emit.second_plan import NAME, _kind, _tied, planned_again, planned_differences
from policyc.emit.signatures import Signer
from policyc.pipeline import Compilation
from policyc_check.errors import KernelError
from policyc_runtime.plan import Notice, Plan
from policyc_runtime.refusal import plan_claims

STREAM = """policy traffic "vehicles per segment"
stream passages {
  user vehicle
  time seen_at
  cell segment in {"A", "B"} otherwise "away"
  step 1d
  horizon 6 steps
  start "2026-01-01"
  population 200
}
"""
CHAIN = """correlation markov(
  forward = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]], initial = [0.2, 0.2, 0.6], evidence = "public")
"""
USERS = STREAM.replace('  cell segment in {"A", "B"} otherwise "away"\n', "").replace("6 steps", "40 steps")
PROMISE = """target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, enforced = keep_first)
deliver offline
"""
POLICIES = {
    "shared": STREAM
    + "release occupancy = count(passages) by segment\nrelease all = count(passages)\n"
    + "target alpha_dpt(alpha = 0.01)\n"
    + CHAIN
    + "deliver realtime\nestimate none()\n",
    "simulated": USERS
    + PROMISE
    + "release present = count(passages)\nmechanism filter_subsample(rate = 0.5)\n"
    + 'signal ar1(mean = 120, sd = 10, autocorrelation = 0.8, evidence = "a census")\n',
    "signal": USERS
    + PROMISE
    + "release present = count(passages)\nmechanism gaussian()\n"
    + 'signal ar1(mean = 120, sd = 10, autocorrelation = 0.8, evidence = "a census")\n',
    "totals": USERS + PROMISE + "release present = count(passages)\nrelease total = prefix(present)\n",
}
PLANNED = ("signal", "sharing", "notices", "predicted", "candidates", "expected_errors", "schedule", "estimator")


def compiled(folder: Path, text: str) -> Compilation:
    folder.mkdir(exist_ok=True)
    (folder / "p.policy").write_text(text)
    return compile_policy(folder / "p.policy")


@pytest.fixture(scope="module")
def all_made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compilation]:
    folder = tmp_path_factory.mktemp("planned")
    return {name: compiled(folder / name, text) for name, text in POLICIES.items()}


@pytest.fixture(params=POLICIES)
def made(request: pytest.FixtureRequest, all_made: dict[str, Compilation]) -> Compilation:
    return all_made[request.param]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, item in items:
            yield from leaves(item, (*path, key))


def others(value: Any) -> list[Any]:
    """Values of a forger: none is what another machine would have."""
    if value is None:
        return ["x", 1.0]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 1.5 + 1, value * 0.5 - 1, None, 1e-300]
    numbers = re.sub("[0-9]+", lambda found: f"9{found[0]}", value)
    return [f"{value} or better", "", None, *([numbers] if numbers != value else [])]


def replaced(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def read(content: Any) -> Plan | None:
    try:
        return Plan.model_validate_json(json.dumps(content)).sealed()
    except ValueError:
        return None  # no plan could say that


def noticed(plan: Plan, anew: Plan) -> bool:
    """Whether an altered plan is refused by the kernel, which looks first, or differs."""
    return any(claim.holds is False for claim in plan_claims(plan)) or any(planned_differences(plan, anew))


@pytest.mark.law
def test_a_plan_is_what_its_policy_gives(made: Compilation) -> None:
    """Planned twice, a policy gives the same plan."""
    assert list(planned_differences(made.plan, compile_policy(made.path).plan)) == []


@pytest.mark.law
def test_every_prediction_reason_and_warning_is_compared(
    made: Compilation, some: Callable[[Iterable[Any], int], list[Any]]
) -> None:
    """Each leaf of what only planning gives, altered in a resealed plan, is named at its place."""
    content = json.loads(made.plan.to_json())
    places = [place for place, _ in leaves(content) if any(name in place for name in PLANNED)]
    assert {"predicted", "candidates"} <= {name for place in places for name in place if name in PLANNED}
    tried, places = 0, some(places, 10)
    for place in places:
        value = content
        for key in place:
            value = value[key]
        for other in others(value):
            plan = read(replaced(content, place, other))
            if plan is None or plan.digest == made.plan.digest:
                continue
            tried += 1
            assert noticed(plan, made.plan), (place, other)
    assert tried > len(places)


@pytest.mark.law
def test_these_policies_have_something_of_everything(all_made: dict[str, Compilation]) -> None:
    """Sharing, a standard error, a signal, warnings and expected errors are among what is altered above."""
    plans = {name: made.plan for name, made in all_made.items()}
    assert plans["shared"].sharing
    assert plans["shared"].notices
    assert plans["simulated"].releases[0].predicted.stderr
    assert plans["signal"].signal
    assert plans["totals"].releases[1].expected_errors


def test_lists_that_are_longer_or_shorter_are_found(made: Compilation) -> None:
    """A candidate or a warning that was added, taken out or doubled differs."""
    content = json.loads(made.plan.to_json())
    for place in (("notices",), ("releases", 0, "candidates"), ("releases", 0, "expected_errors")):
        value = content
        for key in place:
            value = value[key]
        entry = value[0] if value else {"code": "W0702", "message": "nothing at all"}
        for other in ([*value, entry], [entry, *value], value[1:] if value else [entry]):
            plan = read(replaced(content, place, other))
            if plan is not None and plan.digest != made.plan.digest:
                assert noticed(plan, made.plan), (place, len(other))


def test_what_another_machine_rounds_is_no_forgery(made: Compilation) -> None:
    """Numbers that are 0.2 % off, or as far as a standard error, and equal candidates in another order, hold."""
    content = json.loads(made.plan.to_json())
    for release in content["releases"]:
        predicted = release["predicted"]
        predicted["published"] += max(0.002 * predicted["published"], predicted["stderr"] or 0.0)
        predicted["without_postprocessing"] *= 0.998
        first, *rest = release["candidates"]
        release["candidates"] = [*rest, first]
        for candidate in release["candidates"]:
            if candidate["predicted_error"] is not None:
                candidate["predicted_error"] *= 1.002
    plan = read(content)
    assert plan is not None
    assert list(planned_differences(plan, made.plan)) == []


def test_sparse_schedules_may_be_told_in_any_order(tmp_path: Path) -> None:
    """Those of earlier builds began with a release every three steps."""
    (tmp_path / "x.policy").write_text(
        STREAM.replace("6 steps", "40 steps")
        + "release occupancy = count(passages) by segment\ntarget alpha_dpt(alpha = 0.5)\n"
        + CHAIN
        + "deliver offline\npostprocess occupancy { sum(occupancy) == population }\n"
    )
    made = compile_policy(tmp_path / "x.policy")
    content = json.loads(made.plan.to_json())
    (release,) = content["releases"]
    places = [at for at, one in enumerate(release["candidates"]) if one["schedule"].startswith("sparse")]
    assert len(places) > 2
    release["candidates"] = release["candidates"][::-1]
    plan = read(content)
    assert plan is not None
    assert list(planned_differences(plan, made.plan)) == []
    one = release["candidates"][-1 - places[0]]
    one["predicted_error"] *= 1.1
    plan = read(content)
    assert plan is not None
    assert len(list(planned_differences(plan, made.plan))) == 1


def test_numbers_in_names_are_numbers_however_they_are_written() -> None:
    names = {"schedule": "sparse(every = 1,440 steps)", "mechanism": "x(120, 3)", "estimator": "e(mean = 1e-3)"}
    assert _kind(names)[1] == [1440.0, 120.0, 3.0, 0.001]


def test_all_claims_are_of_one_plan(made: Compilation, tmp_path: Path) -> None:
    """However the directory changes while it is verified: an invented error, put back before it is planned again."""
    directory = made.save(tmp_path / "x.plan")
    content = json.loads(made.plan.to_json())
    content["releases"][0]["predicted"]["published"] *= 0.5
    forged = read(content)
    assert forged is not None
    assert all(claim.holds for claim in verify_directory(directory, made.plan))
    assert any(claim.holds is False for claim in verify_directory(directory, forged))
    assert any(claim.holds is False and claim.name == NAME for claim in [planned_again(directory, forged)])


@pytest.mark.parametrize(
    ("given", "found", "same"),
    [
        ("27 % more error than the one chosen", "28 % more error than the one chosen", True),
        ("27 % more error than the one chosen", "30 % more error than the one chosen", False),
        ("0.5 % more error", "0.51 % more error", True),
        ("17.8 times the error", "17.9 times the error", True),
        ("17.8 times the error", "18.8 times the error", False),
        ("2 times the error", "3 times the error", False),
        ("12 steps", "13 steps", False),
        ("1,024 points", "2,024 points", False),
        ("0.5", "0.504", True),
        ("0.5", "0.52", False),
        ("1E-12", "2E-12", False),
        ("1e999", "1e998", False),
        ("1E-500", "1E-400", False),
        ("at most 1e999 users", "at most 1e998 users", False),
        ("5 users", "5 cells", False),
        ("5 users", "5 users 5", False),
        ("5 users", "", False),
    ],
)
def test_texts_are_the_same_but_for_rounded_numbers(given: str, found: str, same: bool) -> None:
    """A percentage is compared as what it adds to, a printed number by its last digit, and words by their letters."""
    assert same_text(found, given, 0.01) is same
    assert same_text(given, found, 0.01) is same


def forged(plan: Plan, name: str) -> Plan:
    """A plan with something invented, resealed."""
    release = plan.releases[0]
    predicted = release.predicted.model_copy(update={"published": release.predicted.published / 10})
    reason = release.candidates[-1].model_copy(update={"reason": "9 times the error of the one chosen"})
    first: dict[str, Any] = {
        "predicted": {"predicted": predicted},
        "reason": {"candidates": (*release.candidates[:-1], reason)},
        "candidate": {"candidates": release.candidates[:1]},
    }.get(name, {})
    whole: dict[str, Any] = {
        "sharing": {"sharing": f"{plan.sharing}; every cell is the most accurate"},
        "notice": {"notices": ()},
        "more notices": {"notices": (*plan.notices, Notice(code="W0702", message="all is well"))},
    }.get(name, {"releases": (release.model_copy(update=first), *plan.releases[1:])})
    return plan.model_copy(update=whole).sealed()


def saved(made: Compilation, plan: Plan, directory: Path) -> Path:
    return save(directory, plan, made.path.read_bytes(), {})


@pytest.mark.law
@pytest.mark.parametrize("name", ["predicted", "reason", "candidate", "sharing", "notice", "more notices"])
def test_pages_of_what_was_invented_do_not_verify(name: str, all_made: dict[str, Compilation], tmp_path: Path) -> None:
    """Digest, pages, model and steps all follow from the forged plan; one claim fails, and it is not signed."""
    made = all_made["shared"]
    directory = saved(made, forged(made.plan, name), tmp_path / "p.plan")
    failed = [claim for claim in verify_directory(directory) if claim.holds is False]
    assert [claim.code for claim in failed] == ["E0855"]
    place = {"sharing": "sharing", "notice": "notices", "more notices": "notices"}.get(name, "releases.0.")
    assert place in (failed[0].where or "")
    signing_keys.new_key(tmp_path / "officer")
    with pytest.raises(KernelError) as refused:
        sign(directory, tmp_path / "officer", str, Signer("Ada Bell", "2026-11-21"))
    assert refused.value.code == "E0874"


@pytest.mark.law
@pytest.mark.parametrize("maker", ["version", "code"])
def test_what_other_code_planned_is_not_called_forged(
    maker: str, all_made: dict[str, Compilation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version, or other code of this one, may plan otherwise: not checked, and what to do is said."""
    made = all_made["shared"]
    plan = forged(made.plan, "predicted")
    if maker == "version":
        plan = plan.model_copy(update={"compiler": "policyc 0.0.1"}).sealed()
    with monkeypatch.context() as other:
        if maker == "code":
            other.setattr(operation, "installed_code", lambda: "ab" * 32)
        directory = saved(made, plan, tmp_path / "p.plan")
    claims = verify_directory(directory)
    assert [claim.name for claim in claims if claim.holds is not True] == [NAME]
    (told,) = [claim for claim in claims if claim.holds is None]
    assert "compile the policy again" in told.detail
    result = CliRunner().invoke(app, ["verify", str(directory)])
    assert (result.exit_code, "E0856" in result.stderr) == (1, True)
    assert CliRunner().invoke(app, ["verify", str(directory), "--allow-unchecked"]).exit_code == 0


def test_a_choice_between_equal_errors_is_not_called_forged(made: Compilation) -> None:
    """Where two candidates err the same, which one a machine's rounding chose is said to be unchecked."""
    release = made.plan.releases[0]
    chosen = next(candidate for candidate in release.candidates if candidate.chosen)
    twin = chosen.model_copy(update={"mechanism": "another", "chosen": False})
    ours = release.model_copy(update={"candidates": (chosen, twin)})
    theirs = release.model_copy(
        update={
            "candidates": (
                chosen.model_copy(update={"chosen": False}),
                twin.model_copy(update={"chosen": True}),
            )
        }
    )
    here, there = (
        made.plan.model_copy(update={"releases": (one, *made.plan.releases[1:])}).sealed() for one in (ours, theirs)
    )
    assert list(planned_differences(there, here))
    assert _tied(there, here)
    assert not _tied(here, here)
    worse = ours.model_copy(update={"candidates": (chosen, twin.model_copy(update={"predicted_error": 1e9}))})
    assert not _tied(there, here.model_copy(update={"releases": (worse, *here.releases[1:])}))


def test_nobody_waits_for_planning_where_another_claim_fails(made: Compilation, tmp_path: Path) -> None:
    """What was begun beside it is given up."""
    directory = made.save(tmp_path / "x.plan")
    with (directory / "map_model.py").open("a") as model:
        model.write("import os\n")
    claims = verify_files(directory, made.plan, lambda: pytest.fail("it was asked for"))
    assert any(claim.holds is False for claim in claims)
    assert all(claim.name != NAME for claim in claims)


def test_quick_says_what_it_leaves_out(
    all_made: dict[str, Compilation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--quick` plans nothing: predictions are not checked, so it exits 1 unless that is allowed."""
    directory = str(all_made["signal"].save(tmp_path / "p.plan"))

    def run(*options: str) -> Any:
        return CliRunner().invoke(app, ["verify", directory, *options])

    whole = run()
    assert whole.exit_code == 0, whole.output
    assert "planned again" in whole.stdout
    never: Callable[..., Any] = lambda *_: pytest.fail("it planned")  # noqa: E731
    monkeypatch.setattr("policyc.planning.plan.make_plan", never)
    monkeypatch.setattr("policyc.emit.second_plan.make_plan", never)
    quick = run("--quick")
    assert quick.exit_code == 1
    assert f"E0856]: this could not be checked: {NAME}" in quick.stderr
    assert run("--quick", "--allow-unchecked").exit_code == 0
