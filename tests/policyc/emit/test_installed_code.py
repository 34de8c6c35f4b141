"""A certificate names the code that made it, by a hash of the installed packages."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import policyc
import policyc_check
import policyc_grammar
import policyc_runtime
from policyc.cli.claims import show_claims
from policyc.emit import sign, signature_claims, signing_keys, verify_directory
from policyc.emit.blocks import operation
from policyc.emit.directory import rewrite_certificate
from policyc.emit.installed_code import SUFFIXES, code_of, installed_code
from policyc.emit.signatures import Signer
from policyc.guide import DATA
from policyc.guide.site import EXAMPLE
from policyc_check.claims import Claim
from policyc_runtime.plan import Plan

Save = Callable[[Path, Plan], Path]
PACKAGES = (policyc, policyc_check, policyc_grammar, policyc_runtime)
OTHER = "0f" * 32
DESCRIBING = {".typed"}  # a file without a word in it


def roots() -> list[Path]:
    return [Path(str(package.__file__)).parent for package in PACKAGES]


def test_the_hash_is_what_sha256sum_prints() -> None:
    """Anybody can compute it: names as in the wheel, sorted, each after the hash of its bytes."""
    named = {
        f"{root.name}/{path.relative_to(root).as_posix()}": path
        for root in roots()
        for path in root.rglob("*")
        if path.is_file() and path.suffix in SUFFIXES
    }
    lines = [f"{hashlib.sha256(named[name].read_bytes()).hexdigest()}  {name}\n" for name in sorted(named)]
    assert {"policyc/cli/__init__.py", "policyc_grammar/policy.lark", "policyc_check/verify.py"} < set(named)
    assert installed_code() == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_no_file_of_the_packages_is_left_out() -> None:
    """All that is installed is hashed, but for what Python compiles, marks for type checkers, and what is copied."""
    for root in roots():
        files = [path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        files = [path for path in files if path.name not in (DATA, *EXAMPLE) and path.parent.name != "deployments"]
        assert {path.suffix for path in files} <= set(SUFFIXES) | DESCRIBING


def test_every_change_of_a_file_is_seen(tmp_path: Path) -> None:
    """Another byte, another name, one file more or less give other hashes; compiled files give none."""
    package = tmp_path / "policyc"
    (package / "emit").mkdir(parents=True)
    (package / "a.py").write_bytes(b"one")
    (package / "emit" / "b.css").write_bytes(b"two")

    def found() -> str:
        return code_of([("policyc", package)])

    first, seen = found(), set()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"compiled")
    assert found() == first
    for act in (
        lambda: (package / "a.py").write_bytes(b"One"),
        lambda: (package / "a.py").rename(package / "c.py"),
        lambda: (package / "emit" / "b.css").rename(package / "b.css"),
        lambda: (package / "d.md").write_bytes(b""),
        (package / "b.css").unlink,
    ):
        act()
        assert found() not in seen | {first}
        seen.add(found())


def test_the_pages_name_the_code(save_plan: Save, traffic: Plan, tmp_path: Path) -> None:
    """JSON, HTML and Markdown have the hash."""
    directory = save_plan(tmp_path / "traffic.plan", traffic)
    content = json.loads((directory / "certificate.json").read_text())
    assert content["integrity"]["code_sha256"] == installed_code()
    for page in ("certificate.html", "certificate.md"):
        assert installed_code() in (directory / page).read_text()


@pytest.fixture
def traffic(planned_traffic: Plan) -> Plan:
    """What is verified is a plan that its policy gives."""
    return planned_traffic


@pytest.fixture
def elsewhere(save_plan: Save, traffic: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that other code made, which says the same, and somebody signed."""
    with monkeypatch.context() as other:
        other.setattr(operation, "installed_code", lambda: OTHER)
        directory = save_plan(tmp_path / "traffic.plan", traffic)
        signing_keys.new_key(tmp_path / "officer")
        sign(directory, tmp_path / "officer", str, Signer("Ada Bell", "2026-11-21"))
    return directory


def test_what_other_code_made_and_this_code_says_too_holds(elsewhere: Path, traffic: Plan, save_plan: Save) -> None:
    """Every claim holds and one says that other code is named; rendering and compiling again change no byte."""
    claims = [*verify_directory(elsewhere), *signature_claims(elsewhere)]
    assert [claim for claim in claims if claim.holds is not True] == []
    (told,) = [claim.detail for claim in claims if "other code" in claim.detail]
    assert OTHER[:16] in told
    assert installed_code()[:16] in told
    before = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
    rewrite_certificate(elsewhere)
    save_plan(elsewhere, traffic)
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == before


def test_what_this_code_says_otherwise_fails_and_is_named_anew(elsewhere: Path) -> None:
    """Words that this code does not give fail, whatever code is named; rendered again they are this code's."""
    for page in ("certificate.json", "certificate.html", "certificate.md"):
        path = elsewhere / page
        path.write_text(path.read_text().replace("cannot be seen from the plan", "can be seen from the plan"))
    failed = [claim for claim in verify_directory(elsewhere) if claim.holds is False]
    assert {Path(str(claim.where).split(":")[0]).name for claim in failed} == {
        "certificate.json",
        "certificate.html",
        "certificate.md",
    }
    assert all("or made by other code" in claim.detail for claim in failed)
    rewrite_certificate(elsewhere)
    content = json.loads((elsewhere / "certificate.json").read_text())
    assert content["integrity"]["code_sha256"] == installed_code()
    assert all(claim.holds for claim in verify_directory(elsewhere))
    assert not (elsewhere / "certificate.dsse.json").exists()


@pytest.mark.parametrize("other", [True, False])
def test_what_fails_of_other_code_says_to_compile_again(
    other: bool,
    save_plan: Save,
    traffic: Plan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not of a plan that this code made: there somebody altered something."""
    with monkeypatch.context() as elsewhere:
        if other:
            elsewhere.setattr(operation, "installed_code", lambda: OTHER)
        directory = save_plan(tmp_path / "traffic.plan", traffic)
    for claim, helped in ((Claim("pages", False, "differ", None, "E0803"), other), (Claim("sum", False, "1"), False)):
        with pytest.raises(typer.Exit):
            show_claims([claim], False, directory)
        said = capsys.readouterr().err
        assert said.startswith(f"error[{claim.code}]: this claim fails: ")
        assert ("compile it again with this version" in said) is helped
        assert (f"sha256 {OTHER[:16]}" in said) is helped


@pytest.mark.sampled(2)
@pytest.mark.parametrize("word", ["0.1.0 (audited)", "", OTHER.upper(), OTHER + "\n", None, 7])
def test_only_a_hash_names_code(word: object, save_plan: Save, traffic: Plan, tmp_path: Path) -> None:
    """Words in the place of the hash are not carried over, though every other word is what the plan gives."""
    directory = save_plan(tmp_path / "traffic.plan", traffic)
    for page in ("certificate.html", "certificate.md"):
        path = directory / page
        path.write_text(path.read_text().replace(installed_code(), str(word)))
    path = directory / "certificate.json"
    path.write_text(path.read_text().replace(f'"{installed_code()}"', json.dumps(word)))
    names = [claim.name for claim in verify_directory(directory) if claim.holds is False]
    assert f"`{path.name}` is what the plan gives" in names
    rewrite_certificate(directory)
    assert installed_code() in path.read_text()


def test_a_hash_altered_in_the_certificate_alone_is_found(save_plan: Save, traffic: Plan, tmp_path: Path) -> None:
    """The pages still name the code that made them."""
    directory = save_plan(tmp_path / "traffic.plan", traffic)
    path = directory / "certificate.json"
    path.write_text(path.read_text().replace(installed_code(), OTHER))
    failed = [claim.name for claim in verify_directory(directory) if claim.holds is False]
    assert failed == [f"`certificate.{suffix}` is what the plan gives" for suffix in ("html", "md")]


def test_checking_a_policy_hashes_nothing(tmp_path: Path, gallery: Path) -> None:
    """`--help` and `check` do not even load what hashes; `certificate` does."""
    shutil.copytree(gallery, tmp_path / "gallery")
    told = "import sys; from policyc.cli import main\ntry: main()\nfinally: print('LOADED', '{}' in sys.modules)"
    code = told.format("policyc.emit.installed_code")
    for arguments in (["--help"], ["check", "gallery/departures.policy"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert re.search(r"LOADED False", done.stdout), done.stdout + done.stderr
