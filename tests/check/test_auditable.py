"""What an auditor has to read: how much it is, what it needs, and that a plan is checked with nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import policyc_check
from policyc.pipeline import Compilation
from policyc_check.errors import PlanFormatError
from policyc_check.plan.plan import load_plan

PACKAGE = Path(policyc_check.__file__).parent
MOST_LINES = 3_590  # that are not blank; the whole, with blank ones, is a fourth more
NEEDED = {"annotated_types", "numpy", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}
LOADED = """
import json, sys
before = set(sys.modules)
from policyc_check.__main__ import main
code = main(sys.argv[1:])
found = {name: getattr(module, "__file__", None) for name, module in sys.modules.items() if name not in before}
print(json.dumps({"code": code, "modules": {name: file for name, file in found.items() if file}}))
"""


def lines_of(file: str | Path) -> int:
    """Lines with something to read."""
    return sum(bool(line.strip()) for line in Path(file).read_text(encoding="utf-8").splitlines())


def test_the_check_is_small() -> None:
    """All of its files together; whoever adds to it takes something away."""
    sizes = {str(file.relative_to(PACKAGE)): lines_of(file) for file in PACKAGE.rglob("*.py")}
    assert sum(sizes.values()) <= MOST_LINES, sizes
    assert max(sizes.values()) <= 300, sizes


@pytest.mark.sampled(1, laws=3)
@pytest.mark.parametrize("name", ["bikeshare", "checkins", "departures", "fleet", "speeds", "traffic", "wards"])
def test_a_plan_is_checked_with_the_check_alone(
    name: str, compiled_gallery: Callable[[str], Compilation], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m policyc_check` of each gallery plan loads nothing else of the project, and no library but two."""
    plan = tmp_path / "plan.json"
    plan.write_text(compiled_gallery(name).plan.to_json(), encoding="utf-8")
    command = [sys.executable, "-c", LOADED, str(plan)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    *claims, last = done.stdout.splitlines()
    found = json.loads(last)
    assert found["code"] == 0
    assert all(line.startswith("holds  ") for line in claims)
    ours = {module: file for module, file in found["modules"].items() if module.startswith("policyc")}
    assert all(module == "policyc_check" or module.startswith("policyc_check.") for module in ours)
    outside = {module.split(".")[0] for module in found["modules"]} - set(sys.stdlib_module_names) - {"policyc_check"}
    assert {module for module in outside if not module.startswith("_")} <= NEEDED
    with capsys.disabled():
        print(f"\n{name}: {sum(map(lines_of, ours.values())):,} lines in {len(ours)} modules")


def test_other_use_and_other_files_are_one_line(tmp_path: Path) -> None:
    """No plan, a broken one, an altered one, no argument: a line, and an exit code."""
    command = [sys.executable, "-m", "policyc_check"]
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "nested.json").write_text("[" * 100_000)
    (tmp_path / "large.json").write_text("[" + "1," * 5_000_000 + "1]")
    os.mkfifo(tmp_path / "pipe.json")
    for words, code, said in [
        ([], 2, "usage:"),
        (["--help"], 2, "usage:"),
        (["absent.json"], 1, "No such file"),
        (["broken.json"], 1, "this is not a plan"),
        (["nested.json"], 1, "recursion limit"),
        (["large.json"], 1, "more than 5,000,000 values"),
        (["pipe.json"], 1, "not an ordinary file"),
    ]:
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == code
        assert said in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_an_altered_plan_is_refused(compiled_gallery: Callable[[str], Compilation], tmp_path: Path) -> None:
    """One digit of the noise, and the line says what fails."""
    plan = compiled_gallery("departures").plan
    content = json.loads(plan.to_json())
    mechanism = content["releases"][0]["mechanism"]
    (noise,) = [name for name in ("stddev", "scale") if name in mechanism]
    mechanism[noise] = str(float(mechanism[noise]) * 0.99)
    (tmp_path / "plan.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "policyc_check", "plan.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "FAILS  the plan is as it was compiled" in done.stdout


def test_what_two_readers_may_read_in_two_ways_is_refused(
    compiled_gallery: Callable[[str], Compilation], tmp_path: Path
) -> None:
    """A key given twice, no number, another order, a field left out: the plan's records would write another file."""
    text = compiled_gallery("departures").plan.to_json()
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="utf-8")
    assert load_plan(tmp_path).to_json() == text
    version = ' "version": 1,\n'
    assert version in text
    (number,) = re.findall(r'"published": ([0-9.]+)', text)[:1]
    for other in (
        text.replace(version, version * 2),
        text.replace(version, ' "version": 2,\n' + version),
        text.replace(version, ""),
        text.replace(version, "")[:-3] + ',\n "version": 1\n}\n',
        text.replace(f'"published": {number}', '"published": NaN', 1),
        text.replace(f'"published": {number}', '"published": Infinity', 1),
        text.replace(f'"published": {number}', f'"published": {number}0', 1),
        text + " ",
    ):
        assert other != text
        file.write_text(other, encoding="utf-8")
        with pytest.raises(PlanFormatError, match="this is not a plan"):
            load_plan(file)
