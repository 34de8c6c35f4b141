from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from policyc.emit import verify_directory
from policyc.emit.blocks import pictures
from policyc.emit.directory import save, stored_name
from policyc_runtime.errors import KernelError
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_private import key_file, make_private
from policyc_runtime.plan import Plan, load_plan

TRAFFIC_TEXT = 'policy traffic "Vehicles per road segment, every five minutes"\n'
FLEET_TEXT = 'policy fleet "Aircraft by last New York airport, daily"\n'
FLEET_FILE = b"EWR,JFK,LGA,away\n0.3091,0.0199,0.0302,0.6408\n"
MODEL = "def build_model():\n    return None\n"
WRITTEN = {
    "plan.json", "map_model.py", "steps.csv", "certificate.json", "certificate.html", "certificate.md",
    "fleet.policy", "fleet_transitions.csv",
}  # fmt: skip


@pytest.fixture
def saved(fleet: Plan, tmp_path: Path) -> Path:
    return save(tmp_path / "fleet.plan", fleet, FLEET_TEXT, {"fleet_transitions.csv": FLEET_FILE}, MODEL)


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_everything_is_written_and_holds(saved: Path, fleet: Plan, tmp_path: Path) -> None:
    """A new directory has all files, each claim about them holds, and nothing is left beside it."""
    assert names(saved) == WRITTEN
    assert [claim for claim in verify_directory(saved) if claim.holds is not True] == []
    assert load_plan(saved) == fleet
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.plan"]


def test_saving_twice_gives_the_same_bytes(saved: Path, fleet: Plan, tmp_path: Path) -> None:
    """Two directories of one plan are equal byte by byte."""
    other = save(tmp_path / "other", fleet, FLEET_TEXT, {"fleet_transitions.csv": FLEET_FILE}, MODEL)
    assert all((saved / name).read_bytes() == (other / name).read_bytes() for name in WRITTEN)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_any_altered_byte_is_found(name: str, saved: Path) -> None:
    """One byte changed, one added or one taken away, anywhere in any file, fails a claim."""
    original = (saved / name).read_bytes()
    place = random.Random(name).randrange(len(original))
    flipped = bytes([original[place] ^ 1])
    for content in (
        original[:place] + flipped + original[place + 1 :],
        original + b" ",
        original[:-1],
        original[:place] + original[place + 1 :],
        b"",
    ):
        (saved / name).write_bytes(content)
        failed = [claim for claim in verify_directory(saved) if claim.holds is False]
        assert failed, f"byte {place} of {name}"
        assert all(claim.detail for claim in failed)
    (saved / name).unlink()
    assert any(claim.holds is False for claim in verify_directory(saved))


@pytest.mark.parametrize(("factor", "holds"), [(1 + 1e-5, True), (1.01, False)])
def test_an_example_drawn_on_another_machine_is_the_same(
    factor: float, holds: bool, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimates of the example run may differ in their last digits between machines, and in no more."""
    drawn = pictures.example_picture

    def elsewhere(plan: Plan) -> Any:
        picture: Any = drawn(plan)
        *_, published = picture["series"]
        published["points"] = [[step, repr(float(value) * factor)] for step, value in published["points"]]
        return picture

    monkeypatch.setattr(pictures, "example_picture", elsewhere)
    assert all(claim.holds for claim in verify_directory(saved)) is holds


def test_another_compiler_s_files_are_not_called_checked(saved: Path, fleet: Plan, tmp_path: Path) -> None:
    """Files of another version are checked by hash only, and the rest says that it was not checked."""
    older = fleet.model_copy(update={"compiler": "policyc 0.0.1"}).sealed()
    directory = save(tmp_path / "older", older, FLEET_TEXT, {"fleet_transitions.csv": FLEET_FILE}, MODEL)
    claims = verify_directory(directory)
    assert all(claim.holds is not False for claim in claims)
    assert {claim.detail for claim in claims if claim.holds is None} == {
        f"not checked: made by policyc 0.0.1, this is {fleet.compiler}"
    }


def test_a_missing_plan_is_one_claim(tmp_path: Path) -> None:
    """A directory without a plan gives one failed claim, not an exception."""
    assert [claim.holds for claim in verify_directory(tmp_path)] == [False]


def changed(plan: Plan) -> Plan:
    """Another plan of the same policy."""
    return plan.model_copy(update={"policy": plan.policy.model_copy(update={"purpose": "another"})}).sealed()


def test_an_older_plan_is_replaced_and_other_files_stay(saved: Path, fleet: Plan) -> None:
    """Without a ledger a plan directory takes a new plan; files that are not ours stay."""
    (saved / "out.csv").write_text("step\n")
    other = changed(fleet)
    save(saved, other, FLEET_TEXT, {"fleet_transitions.csv": FLEET_FILE}, MODEL)
    assert load_plan(saved).digest == other.digest
    assert names(saved) == WRITTEN | {"out.csv"}


def test_files_of_the_old_policy_go(saved: Path, traffic: Plan) -> None:
    """A policy file that the new plan does not have is taken away."""
    save(saved, traffic, TRAFFIC_TEXT, {}, MODEL)
    assert names(saved) == WRITTEN - {"fleet.policy", "fleet_transitions.csv"} | {"traffic.policy"}
    assert all(claim.holds for claim in verify_directory(saved))


def test_a_ledger_of_another_plan_is_refused(saved: Path, fleet: Plan) -> None:
    """A directory with the ledger of another plan is refused, and nothing in it changes."""
    (saved / "ledger.sqlite").write_bytes(b"spent")
    before = {name: (saved / name).read_bytes() for name in names(saved)}
    with pytest.raises(KernelError) as refused:
        save(saved, changed(fleet), FLEET_TEXT, {"fleet_transitions.csv": FLEET_FILE}, MODEL)
    assert refused.value.code == "E0807"
    assert "-o" in (refused.value.help or "")
    assert {name: (saved / name).read_bytes() for name in names(saved)} == before


def test_a_ledger_without_entries_is_no_reason_to_refuse(saved: Path, fleet: Plan) -> None:
    """What a refused run leaves keeps no corrected policy out; a key or a seal of entries beside it does."""
    ledger, files = saved / "ledger.sqlite", {"fleet_transitions.csv": FLEET_FILE}
    Ledger.open(ledger, fleet).__exit__(None, None, None)
    other = changed(fleet)
    save(saved, other, FLEET_TEXT, files, MODEL)
    assert load_plan(saved).digest == other.digest
    make_private(key_file(ledger)).write_bytes(b"of entries that a newer copy has")
    with pytest.raises(KernelError) as refused:
        save(saved, fleet, FLEET_TEXT, files, MODEL)
    assert refused.value.code == "E0807"


def test_a_ledger_beside_an_unreadable_plan_is_refused(saved: Path, fleet: Plan) -> None:
    """Whose ledger it is cannot be told, so it is not taken over."""
    (saved / "ledger.sqlite").write_bytes(b"spent")
    (saved / "plan.json").write_text("{}")
    with pytest.raises(KernelError) as refused:
        save(saved, fleet, FLEET_TEXT, {"fleet_transitions.csv": FLEET_FILE}, MODEL)
    assert refused.value.code == "E0807"


def test_the_same_plan_keeps_its_ledger(saved: Path, fleet: Plan) -> None:
    """Compiling the same policy again restores its files and leaves ledger and key as they are."""
    (saved / "ledger.sqlite").write_bytes(b"spent")
    (saved / "ledger.sqlite.key").write_bytes(b"key")
    (saved / "certificate.md").unlink()
    save(saved, fleet, FLEET_TEXT, {"fleet_transitions.csv": FLEET_FILE}, MODEL)
    assert (saved / "ledger.sqlite").read_bytes() == b"spent"
    assert (saved / "ledger.sqlite.key").read_bytes() == b"key"
    assert all(claim.holds for claim in verify_directory(saved))


def test_a_directory_with_something_else_is_refused(tmp_path: Path, fleet: Plan) -> None:
    """A directory that holds no plan is somebody else's."""
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(KernelError) as refused:
        save(tmp_path, fleet, FLEET_TEXT, {"fleet_transitions.csv": FLEET_FILE}, MODEL)
    assert refused.value.code == "E0806"
    assert names(tmp_path) == {"photo.jpg"}


def test_a_refused_plan_writes_nothing(tmp_path: Path, traffic: Plan) -> None:
    """A plan with a false claim leaves no directory and nothing half-written."""
    claims = traffic.claims.model_copy(update={"largest_budget": Decimal("0.1")})
    with pytest.raises(KernelError):
        save(tmp_path / "traffic.plan", traffic.model_copy(update={"claims": claims}).sealed(), TRAFFIC_TEXT, {}, MODEL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../secret.csv", "/etc/passwd", "a/../../b.csv", "C:/x.csv", "..\\x.csv"])
def test_files_from_elsewhere_stay_inside(name: str) -> None:
    """A file that the policy names outside its folder is stored inside the directory."""
    stored = stored_name(name)
    assert stored.startswith("outside/")
    assert ".." not in stored


def test_a_policy_file_cannot_take_the_plan_s_place(tmp_path: Path, traffic: Plan) -> None:
    """A file of the policy that is called like one of ours is refused."""
    files: Any = {"plan.json": b"{}"}
    with pytest.raises(KernelError) as refused:
        save(tmp_path / "traffic.plan", traffic, TRAFFIC_TEXT, files, MODEL)
    assert refused.value.code == "E0806"


POLICY = """
policy wards "Patients by ward, hourly"
stream stays {
  user patient
  time at
  cell ward in {"emergency", "surgery"} otherwise "away"
  step 1h
  horizon 48 steps
  population 500
}
release occupancy = count(stays) by ward
target alpha_dpt(alpha = 0.8)
correlation markov(forward = file("in.csv"), initial = stationary, evidence = "statistics") for inpatients
correlation markov(
  forward = [[0.3, 0.1, 0.6], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]],
  initial = stationary, evidence = "statistics") for outpatients
deliver realtime
objective mean_absolute_error
postprocess occupancy { sum(occupancy) == population, occupancy >= 0 }
"""


def test_a_compiled_policy_is_saved_with_its_files(tmp_path: Path) -> None:
    """What the compiler makes of a policy with two groups and a file is written, whole, and every claim holds."""
    from policyc import compile_policy

    (tmp_path / "in.csv").write_text("0.7,0.1,0.2\n0.1,0.7,0.2\n0.1,0.1,0.8\n")
    (tmp_path / "wards.policy").write_text(POLICY)
    directory = compile_policy(tmp_path / "wards.policy").save(tmp_path / "wards.plan")
    assert names(directory) == WRITTEN - {"fleet.policy", "fleet_transitions.csv"} | {"wards.policy", "in.csv"}
    assert [claim for claim in verify_directory(directory) if claim.holds is not True] == []
    page = (directory / "certificate.html").read_text()
    assert "inpatients" in page
    assert "outpatients" in page


def test_a_policy_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    """A file that is no longer what was compiled is not saved beside the plan."""
    from policyc import compile_policy

    (tmp_path / "in.csv").write_text("0.7,0.1,0.2\n0.1,0.7,0.2\n0.1,0.1,0.8\n")
    (tmp_path / "wards.policy").write_text(POLICY)
    compilation = compile_policy(tmp_path / "wards.policy")
    (tmp_path / "in.csv").write_text("0.6,0.2,0.2\n0.1,0.7,0.2\n0.1,0.1,0.8\n")
    with pytest.raises(KernelError) as refused:
        compilation.save(tmp_path / "wards.plan")
    assert refused.value.code == "E0803"
    assert not (tmp_path / "wards.plan").exists()
