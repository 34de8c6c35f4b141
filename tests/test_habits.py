"""What other tools start: hooks before a commit, the action that shows findings, the image's recipe."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


def read_yaml(path: Path) -> Any:
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture
def policies(tmp_path: Path, gallery: Path) -> Path:
    """A folder with a right policy and one with a mistake that can only mean one thing, both in canonical form."""
    text = (gallery / "traffic.policy").read_text(encoding="utf-8")
    (tmp_path / "right.policy").write_text(text)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "wrong.policy").write_text(text.replace("count(", "coutn("))
    return tmp_path


@pytest.mark.law
def test_hooks_stop_what_is_wrong_and_rewrite_the_rest(policies: Path) -> None:
    """Each as pre-commit runs it, with the names of files that its pattern takes."""
    hooks = {hook["id"]: hook for hook in read_yaml(ROOT / ".pre-commit-hooks.yaml")}
    assert {hook["language"] for hook in hooks.values()} == {"python"}
    assert all(
        re.search(hook["files"], "a/b.policy") and not re.search(hook["files"], "b.csv") for hook in hooks.values()
    )

    def run(hook: str) -> int:
        command = [*shlex.split(hooks[hook]["entry"]), "right.policy", "folder/wrong.policy"]
        return subprocess.run(command, cwd=policies, env=ENVIRONMENT, capture_output=True, check=False).returncode

    right = (policies / "right.policy").read_text()
    assert [run("policyc-check"), run("policyc-fix"), run("policyc-check"), run("policyc-fmt")] == [1, 0, 0, 0]
    assert (policies / "folder" / "wrong.policy").read_text() == right


@pytest.mark.law
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_the_action_writes_sarif_and_fails_on_errors(policies: Path) -> None:
    """Its step, with its inputs: the file is there where it fails, too; without a policy it says so."""
    action = read_yaml(ROOT / ".github" / "actions" / "check" / "action.yml")
    (step,) = [one for one in action["runs"]["steps"] if one.get("id") == "check"]
    assert set(step["env"].values()) == {"${{ inputs.files }}", "${{ inputs.pages }}"}

    def run(files: str, pages: str = "") -> subprocess.CompletedProcess[str]:
        told = {**ENVIRONMENT, "FILES": files, "PAGES": pages}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(command, cwd=policies, env=told, capture_output=True, text=True, check=False)

    assert run(action["inputs"]["files"]["default"], "https://pages.example/{code}/").returncode == 1
    (log,) = json.loads((policies / "policyc.sarif").read_text())["runs"]
    assert [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in log["results"]] == [
        "folder/wrong.policy"
    ]
    assert log["tool"]["driver"]["rules"][0]["helpUri"] == "https://pages.example/E0205/"
    assert run("right.policy").returncode == 0
    assert run("absent/*.policy").stderr == "no policy is named absent/*.policy\n"


def copied() -> set[str]:
    """What the image's recipe gets to see."""
    return {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}


@pytest.mark.law
def test_the_image_has_all_that_its_wheel_is_made_of(tmp_path: Path) -> None:
    """The recipe's wheel, made of what the recipe gets to see, has every file of the packages."""
    (tmp_path / "source").mkdir()
    for name in copied():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / "source" / name)
    make = ["pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "wheels", "./source"]
    subprocess.run([sys.executable, "-m", *make], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
    folders = [ROOT / "policyc", ROOT / "runtime" / "policyc_check", ROOT / "runtime" / "policyc_runtime"]
    there = {path.relative_to(folder.parent).as_posix() for folder in folders for path in folder.rglob("*.*")}
    assert {name for name in there if "__pycache__" not in name} <= names


def test_the_image_copies_what_the_wheel_needs() -> None:
    """What `.dockerignore` lets through is what pyproject.toml names, and the recipe makes the wheel of that."""
    allowed = copied()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages = {path.partition("/")[0] for path in (*wheel["packages"], *wheel["force-include"])}
    assert allowed == {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"], *packages}
    recipe = (ROOT / ".ci" / "Dockerfile").read_text(encoding="utf-8")
    extras = re.findall(r"\[([a-z,]+)\]\"", recipe)[0].split(",")
    assert set(extras) <= set(project["project"]["optional-dependencies"])
    assert "\nUSER nobody\n" in recipe
