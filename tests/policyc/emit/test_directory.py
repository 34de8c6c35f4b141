from __future__ import annotations

import fcntl
import json
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from policyc.emit import printed_numbers, sign, signatures, signing_keys, verify_directory
from policyc.emit.blocks import pictures
from policyc.emit.directory import rewrite_certificate, save
from policyc.emit.stored_files import sha256
from policyc_check.errors import KernelError
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_private import key_file, make_private
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.release import release

Save = Callable[[Path, Plan], Path]
Some = Callable[[Iterable[Any], int], list[Any]]
PAGES = ("certificate.json", "certificate.html", "certificate.md")
WRITTEN = {
    "plan.json", "map_model.py", "steps.csv", "certificate.json", "certificate.html", "certificate.md",
    "fleet.policy", "fleet_transitions.csv",
}  # fmt: skip


@pytest.fixture
def fleet(planned_fleet: Plan) -> Plan:
    """What is verified is a plan that its policy gives."""
    return planned_fleet


@pytest.fixture
def traffic(planned_traffic: Plan) -> Plan:
    return planned_traffic


@pytest.fixture
def saved(save_plan: Save, fleet: Plan, tmp_path: Path) -> Path:
    return save_plan(tmp_path / "fleet.plan", fleet)


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_everything_is_written_and_holds(saved: Path, fleet: Plan, tmp_path: Path) -> None:
    """A new directory has all files, each claim about them holds, and nothing is left beside it."""
    assert names(saved) == WRITTEN
    assert [claim for claim in verify_directory(saved) if claim.holds is not True] == []
    assert load_plan(saved) == fleet
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.plan"]


def test_saving_twice_gives_the_same_bytes(save_plan: Save, saved: Path, fleet: Plan, tmp_path: Path) -> None:
    """Two directories of one plan are equal byte by byte."""
    other = save_plan(tmp_path / "other", fleet)
    assert all((saved / name).read_bytes() == (other / name).read_bytes() for name in WRITTEN)


@pytest.mark.sampled(1)
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


def unchecked(directory: Path) -> set[str]:
    """What could not be checked; nothing may fail."""
    claims = verify_directory(directory)
    assert [claim for claim in claims if claim.holds is False] == []
    return {claim.name for claim in claims if claim.holds is None}


def of_another_version(directory: Path, pages: dict[str, Callable[[str], str]]) -> Path:
    """Give a directory's certificate other words, with the hashes that they had then."""
    for name, change in pages.items():
        path = directory / name
        path.write_text(change(path.read_text()))
    return directory


def test_another_version_s_words_are_not_called_checked(save_plan: Save, fleet: Plan, tmp_path: Path) -> None:
    """What another version wrote the same is checked; other words are "not checked", which is no success."""
    older = fleet.model_copy(update={"compiler": "policyc 0.0.1"}).sealed()
    directory = save_plan(tmp_path / "older", older)
    assert unchecked(directory) == set()
    other = of_another_version(
        directory,
        {
            "map_model.py": lambda text: "import os\n" + text,
            "certificate.html": lambda text: text.replace("<h1>", "<h1>The "),
            "certificate.md": lambda text: text.replace("leak", "tell"),
        },
    )
    assert unchecked(other) == {f"`{name}` is what the plan gives" for name in ("map_model.py", *PAGES[1:])}


@pytest.mark.parametrize("page", PAGES)
def test_the_numbers_of_another_version_s_pages_are_checked(
    page: str, save_plan: Save, fleet: Plan, tmp_path: Path
) -> None:
    """A promise of 0.01 nats on any page is found whatever version is said to have written it."""
    older = fleet.model_copy(update={"compiler": "policyc 0.1.1"}).sealed()
    directory = save_plan(tmp_path / "older", older)
    text = (directory / page).read_text()
    assert "1.0 nats" in text
    of_another_version(directory, {page: lambda text: text.replace("1.0 nats", "0.01 nats")})
    failed = [claim for claim in verify_directory(directory) if claim.holds is False]
    assert [claim.detail for claim in failed] == ["the plan gives no promise of 0.01 nats"]


def test_every_number_of_another_version_s_certificate_is_checked(
    save_plan: Save, fleet: Plan, tmp_path: Path, some: Some
) -> None:
    """Each leaf of certificate.json that is a number, altered alone, is found."""
    older = fleet.model_copy(update={"compiler": "policyc 0.1.1"}).sealed()
    path = save_plan(tmp_path / "older", older) / "certificate.json"
    content = json.loads(path.read_text())
    numbers = [place for place, value in leaves(content) if printed_numbers._number(value) is not None]
    assert len(numbers) > 100
    for place in some(numbers, 20):
        inner = other = json.loads(json.dumps(content))
        for key in place[:-1]:
            inner = inner[key]
        value = inner[place[-1]]
        inner[place[-1]] = str(Decimal(value.replace(",", "")) + 1) if isinstance(value, str) else value + 1
        assert printed_numbers.differing_number(other, content) == ".".join(map(str, place))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, item in items:
            yield from leaves(item, (*path, key))


def test_code_put_into_the_model_is_found_and_mended(saved: Path, tmp_path: Path) -> None:
    """A line before the model is found even where its hash is in a certificate, and rendering again takes it away."""
    signing_keys.new_key(tmp_path / "officer")
    model, certificate = saved / "map_model.py", saved / "certificate.json"
    original, recorded = model.read_text(), sha256(model.read_bytes())
    model.write_text("import os; os.system('true')\n" + original)
    for name in PAGES:
        page = saved / name
        page.write_text(page.read_text().replace(recorded, sha256(model.read_bytes())))
    assert sha256(model.read_bytes()) in certificate.read_text()
    failed = [claim.name for claim in verify_directory(saved) if claim.holds is False]
    assert failed[0] == "`map_model.py` is what the plan gives"
    with pytest.raises(KernelError) as refused:
        sign(saved, tmp_path / "officer", str, signatures.Signer("Ada Bell", "2026-11-21"))
    assert refused.value.code == "E0874"
    rewrite_certificate(saved)
    assert model.read_text() == original
    assert unchecked(saved) == set()


def test_last_digits_of_another_machine_are_no_alteration(saved: Path) -> None:
    """Steps may differ from what is computed here by rounding; the certificate is about them as they are."""
    path = saved / "steps.csv"
    text = path.read_text()
    number = re.findall(r"0\.[0-9]{15,}", text)[-1]
    path.write_text(text.replace(number, repr(float(number) * (1 + 3e-16)), 1))
    altered = path.read_text()
    assert altered != text
    assert [claim for claim in verify_directory(saved) if claim.holds is False]  # other bytes than the certificate says
    rewrite_certificate(saved)
    assert path.read_text() == altered
    assert unchecked(saved) == set()


def test_links_that_leave_the_directory_are_found(saved: Path, tmp_path: Path, some: Some) -> None:
    """A directory that is handed on has its files in it: each, moved out and linked, is found; pipes do not hang."""
    for name in some(sorted(WRITTEN), 2):
        (saved / name).rename(tmp_path / name)
        (saved / name).symlink_to(tmp_path / name)
        assert [claim for claim in verify_directory(saved) if claim.holds is False], name
        (saved / name).unlink()
        os.mkfifo(saved / name)
        assert [claim for claim in verify_directory(saved) if claim.holds is False], name
        (saved / name).unlink()
        (tmp_path / name).rename(saved / name)
    assert unchecked(saved) == set()


def test_a_missing_plan_is_one_claim(tmp_path: Path) -> None:
    """A directory without a plan gives one failed claim, not an exception."""
    assert [claim.holds for claim in verify_directory(tmp_path)] == [False]


def changed(plan: Plan, purpose: str = "another") -> Plan:
    """Another plan of the same policy."""
    return plan.model_copy(update={"policy": plan.policy.model_copy(update={"purpose": purpose})}).sealed()


def test_an_older_plan_is_replaced_and_other_files_stay(save_plan: Save, saved: Path, fleet: Plan) -> None:
    """Without a ledger a plan directory takes a new plan; files that are not ours stay."""
    (saved / "out.csv").write_text("step\n")
    other = changed(fleet)
    save_plan(saved, other)
    assert load_plan(saved).digest == other.digest
    assert names(saved) == WRITTEN | {"out.csv"}


def test_files_of_the_old_policy_go(save_plan: Save, saved: Path, traffic: Plan) -> None:
    """A policy file that the new plan does not have is taken away."""
    save_plan(saved, traffic)
    assert names(saved) == WRITTEN - {"fleet.policy", "fleet_transitions.csv"} | {"traffic.policy"}
    assert all(claim.holds for claim in verify_directory(saved))


def drawn_under(plan: Plan, directory: Path) -> tuple[np.ndarray, np.ndarray]:
    """Counts of three steps that are released there, and their noisy values."""
    counts = np.full((3, len(plan.releases[0].cells)), 1_000)
    counts[:, 0] = 4_037 - counts[:, 1:].sum(axis=1)
    return counts, release(load_plan(directory), counts, directory / "ledger.sqlite").series["parked"].noisy


def test_a_ledger_of_another_plan_is_refused(save_plan: Save, saved: Path, fleet: Plan) -> None:
    """A directory with the ledger of another plan is refused, and nothing in it changes."""
    drawn_under(fleet, saved)
    before = {name: (saved / name).read_bytes() for name in names(saved)}
    with pytest.raises(KernelError) as refused:
        save_plan(saved, changed(fleet))
    assert refused.value.code == "E0807"
    assert "-o OTHER.plan" in (refused.value.help or "")
    assert "without it the policy's name says where, `fleet.plan`" in (refused.value.help or "")
    assert {name: (saved / name).read_bytes() for name in names(saved)} == before


def test_a_ledger_without_entries_is_no_reason_to_refuse(save_plan: Save, saved: Path, fleet: Plan) -> None:
    """What a refused run leaves keeps no corrected policy out; a key or a seal of entries beside it does."""
    ledger = saved / "ledger.sqlite"
    Ledger.open(ledger, fleet).__exit__(None, None, None)
    other = changed(fleet)
    save_plan(saved, other)
    assert load_plan(saved).digest == other.digest
    make_private(key_file(ledger)).write_bytes(b"of entries that a newer copy has")
    with pytest.raises(KernelError) as refused:
        save_plan(saved, changed(fleet, "a third"))
    assert refused.value.code == "E0807"


@pytest.mark.parametrize("left", ["{}", None], ids=["damaged", "gone"])
@pytest.mark.parametrize("ledger", ["cut", "gone", "another kind of file"])
def test_whose_an_unreadable_ledger_is_cannot_be_told(
    save_plan: Save, saved: Path, fleet: Plan, left: str | None, ledger: str
) -> None:
    """So nothing is written beside it, and nobody is sent to draw the same steps in another directory."""
    drawn_under(fleet, saved)
    (saved / "plan.json").unlink() if left is None else (saved / "plan.json").write_text(left)
    book = saved / "ledger.sqlite"
    content = book.read_bytes()
    book.unlink()
    if ledger != "gone":
        book.write_bytes(content[:5000] if ledger == "cut" else b"spent")
    before = {name: (saved / name).read_bytes() for name in names(saved)}
    with pytest.raises(KernelError, match="nobody can tell of which plan") as refused:
        save_plan(saved, fleet)
    assert refused.value.code == "E0807"
    assert "would draw steps that are released already again" in (refused.value.help or "")
    assert "-o OTHER.plan" not in (refused.value.help or "")
    assert {name: (saved / name).read_bytes() for name in names(saved)} == before


def test_nothing_is_written_into_a_folder_of_others(save_plan: Save, saved: Path, tmp_path: Path, fleet: Plan) -> None:
    """A `plan.json` alone makes no plan directory; a directory with a file's name stops a plan before it is written."""
    other = tmp_path / "other"
    other.mkdir()
    for name in ("plan.json", "certificate.html", "fleet.policy"):
        (other / name).write_text("precious")
    with pytest.raises(KernelError) as refused:
        save_plan(other, fleet)
    assert refused.value.code == "E0806"
    assert {path.read_text() for path in other.iterdir()} == {"precious"}
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(KernelError, match="this link leads nowhere"):
        save_plan(tmp_path / "link", fleet)
    (saved / "steps.csv").unlink()
    (saved / "steps.csv").mkdir()
    with pytest.raises(KernelError, match="a directory has the name of a file that is written: `steps.csv`"):
        save_plan(saved, changed(fleet))
    assert load_plan(saved).digest == fleet.digest


@pytest.mark.parametrize("left", ["", "{", None], ids=["emptied", "cut", "gone"])
def test_a_plan_that_was_damaged_is_compiled_again_beside_its_ledger(
    save_plan: Save, saved: Path, fleet: Plan, left: str | None
) -> None:
    """The ledger says whose it is: the same plan is written again and goes on, another one is refused."""
    counts, noisy = drawn_under(fleet, saved)
    whole = (saved / "plan.json").read_bytes()
    (saved / "plan.json").unlink() if left is None else (saved / "plan.json").write_text(left)
    with pytest.raises(KernelError) as refused:
        save_plan(saved, changed(fleet))
    assert refused.value.code == "E0807"
    assert "put its own `plan.json` back" in (refused.value.help or "")
    save_plan(saved, fleet)
    assert (saved / "plan.json").read_bytes() == whole
    again = release(load_plan(saved), counts, saved / "ledger.sqlite")
    assert np.array_equal(again.series["parked"].noisy, noisy)
    assert again.before == 3


def test_the_same_plan_keeps_its_ledger(save_plan: Save, saved: Path, fleet: Plan) -> None:
    """Compiling the same policy again restores its files and leaves ledger and key as they are."""
    (saved / "ledger.sqlite").write_bytes(b"spent")
    (saved / "ledger.sqlite.key").write_bytes(b"key")
    (saved / "certificate.md").unlink()
    save_plan(saved, fleet)
    assert (saved / "ledger.sqlite").read_bytes() == b"spent"
    assert (saved / "ledger.sqlite.key").read_bytes() == b"key"
    assert all(claim.holds for claim in verify_directory(saved))


def test_a_directory_with_something_else_is_refused(save_plan: Save, tmp_path: Path, fleet: Plan) -> None:
    """A directory that holds no plan is somebody else's."""
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(KernelError) as refused:
        save_plan(tmp_path, fleet)
    assert refused.value.code == "E0806"
    assert names(tmp_path) == {"photo.jpg"}


def test_a_refused_plan_writes_nothing(save_plan: Save, tmp_path: Path, traffic: Plan) -> None:
    """A plan with a false claim leaves no directory and nothing half-written."""
    claims = traffic.claims.model_copy(update={"largest_budget": Decimal("0.1")})
    with pytest.raises(KernelError):
        save_plan(tmp_path / "traffic.plan", traffic.model_copy(update={"claims": claims}).sealed())
    assert list(tmp_path.iterdir()) == []


def test_a_policy_file_cannot_take_the_plan_s_place(tmp_path: Path, traffic: Plan) -> None:
    """A file of the policy that is called like one of ours is refused."""
    files: Any = {"plan.json": b"{}"}
    with pytest.raises(KernelError) as refused:
        save(tmp_path / "traffic.plan", traffic, "", files)
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


def test_what_a_killed_compile_left_goes(save_plan: Save, tmp_path: Path, fleet: Plan) -> None:
    """The folder of one that lives stays; so does one that only looks alike."""
    for name in (".fleet.plan.00ff.new", ".fleet.plan.11ff.new", ".fleet.plan.mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").write_text("{")
    lives = os.open(tmp_path / ".fleet.plan.11ff.new", os.O_RDONLY)
    try:
        fcntl.flock(lives, fcntl.LOCK_EX)
        save_plan(tmp_path / "fleet.plan", fleet)
    finally:
        os.close(lives)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {".fleet.plan.11ff.new", ".fleet.plan.mine", "fleet.plan"}
