"""A disk that is full, or a place that may not be written to: everything is as it was, and the message says where."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from prompt import policyc
from users_who_move import POLICY

from policyc_runtime import files


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy, its plan and a key."""
    folder = tmp_path_factory.mktemp("planned")
    (folder / "el.policy").write_text(POLICY)
    for words in (("compile", "el.policy"), ("sign", "--new-key", "k.pem")):
        made = policyc(*words, cwd=folder)
        assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture
def folder(planned: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(planned, tmp_path, dirs_exist_ok=True)
    return tmp_path


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system itself refuses to write longer files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


COMMANDS = {
    "sign": ("sign", "el.plan", "--key", "k.pem", "--name", "Ada", "--yes"),
    "audit": ("audit", "el.plan", "--runs", 200),
    "certificate": ("certificate", "el.plan", "--registry"),
    "compile": ("compile", "el.policy", "-o", "other.plan"),
    "fmt": ("fmt", "el.policy"),
    "new key": ("sign", "--new-key", "new.pem"),
    "init": ("init", "begun"),
    "events": ("simulate", "el.plan", "--events", "e.csv"),
    "simulate": ("simulate", "el.plan", "--repeat", 1, "--output", "s.csv"),
}
NAMED = {"sign": "el.plan/", "audit": "el.plan/", "certificate": "el.plan/", "compile": "other.plan"}
NAMED |= {"fmt": "el.policy", "new key": "new.pem", "init": "begun.policy", "events": "e.csv", "simulate": "s.csv"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", COMMANDS)
def test_what_cannot_be_written_leaves_everything_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, full: bool
) -> None:
    """No file is half-written or left behind, the place is named, no draft is; with room the same command works."""
    if name == "certificate":
        (folder / "el.plan" / "certificate.html").write_text("another")
    before = everything(folder)
    if full:
        monkeypatch.setattr(files.os, "fsync", _full)
        monkeypatch.setattr(Path, "write_bytes", _full)
    small = 200 if name in {"fmt", "init"} else 116 if name == "new key" else 2048
    with nullcontext() if full else files_of_at_most(small):
        refused = policyc(*COMMANDS[name], cwd=folder)
    assert refused.returncode == 1
    assert everything(folder) == before
    assert f"--> {NAMED[name]}" in refused.stderr
    assert ".new" not in refused.stderr
    assert "= help" in refused.stderr
    assert ("the disk is full" in refused.stderr) == full
    monkeypatch.undo()
    done = policyc(*COMMANDS[name], cwd=folder)
    assert done.returncode == 0, done.stderr
    if name in {"sign", "audit", "certificate"}:
        checked = policyc("verify", "el.plan", "--quick", "--allow-unchecked", cwd=folder)
        assert checked.returncode == 0, checked.stdout


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_directory_that_may_not_be_written_to_is_named_with_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No message names a temporary file; every one says how it would go on."""
    before = everything(folder)
    allowed = os.open

    def refuse(path: object, *more: object) -> int:
        if ".new" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return allowed(path, *more)  # type: ignore[call-overload, no-any-return]

    def refuse_directory(path: object, *_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(files.os, "open", refuse)
    monkeypatch.setattr(files.os, "mkdir", refuse_directory)
    refused = policyc(*COMMANDS[name], cwd=folder)
    monkeypatch.undo()
    assert refused.returncode == 1
    assert everything(folder) == before
    assert f"--> {NAMED[name]}" in refused.stderr
    assert "new" not in refused.stderr.replace("new.pem", "")
    assert "= help" in refused.stderr


@pytest.mark.parametrize("length", [245, 300])
def test_names_that_no_file_can_have_are_said_to_be_too_long(folder: Path, length: int) -> None:
    """Before anything is drawn: a name that a file could have, but not while it is written, is too long as well."""
    (folder / "raw.csv").write_text("u,t,c\nada,2026-01-01T00:10,A\n")
    long, before = "n" * length + ".csv", everything(folder)
    for words in (
        ("run", "el.plan", "--input", "raw.csv", "--output", long),
        ("simulate", "el.plan", "--repeat", 1, "--output", long),
        ("simulate", "el.plan", "--steps", 2, "--events", long),
        ("sign", "--new-key", long),
        ("compile", "el.policy", "-o", long),
    ):
        refused = policyc(*words, cwd=folder)
        assert refused.returncode == 1, words
        assert "too long" in refused.stderr
        assert "= help" in refused.stderr
    assert everything(folder) == before


def test_a_key_in_a_directory_that_is_not_there(folder: Path) -> None:
    """The directory is named, and half a pair that lies there is, by its own name."""
    refused = policyc("sign", "--new-key", "nodir/k", cwd=folder)
    assert refused.returncode == 1
    assert "no such directory" in refused.stderr
    assert "make the directory" in refused.stderr
    (folder / "other.pem.pub").write_text("")
    refused = policyc("sign", "--new-key", "other.pem", cwd=folder)
    assert "--> other.pem.pub" in refused.stderr
    assert not (folder / "other.pem").exists()


def test_a_plan_that_may_not_be_read_is_not_to_be_compiled_again(folder: Path) -> None:
    """A pipe, or a name that no file has, in place of plan.json: who may read it, not what is in it, is at fault."""
    (folder / "el.plan" / "plan.json").unlink()
    os.mkfifo(folder / "el.plan" / "plan.json")
    for command, code in (("show", 1), ("verify", 1), ("diff", 2)):
        for name in ("el.plan", "n" * 300):
            refused = policyc(command, name, *(["el.plan"] if command == "diff" else []), cwd=folder)
            assert refused.returncode == code
            assert "compile the policy again" not in refused.stderr
            assert "E0802" in refused.stderr
            assert "who may read it" in refused.stderr
