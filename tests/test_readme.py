"""The README's two commands are the ones that are tested."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", README, re.S)
    return [line[2:] for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


def to_eight_places(line: str) -> str:
    """Beyond them, what an audit finds depends on the machine's sums."""
    return re.sub(r"(\.\d{8})\d+", r"\1", line)


def test_the_main_job_does_what_the_readme_says(tmp_path):
    """The first command compiles the fleet policy, runs it on the shipped extract and solves the emitted model."""
    shutil.copytree(ROOT / "policies", tmp_path / "policies")
    calls = [part.strip() for part in commands()[0].split("&&")][2:]
    assert [Path(call.split()[0]).name for call in calls] == ["policyc", "policyc", "python"]
    shown = []
    for call in calls:
        words = shlex.split(call)
        program = Path(sys.executable).with_name(Path(words[0]).name)
        done = subprocess.run([program, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    compiled = README[README.index("fleet: Aircraft by") : README.index("fleet.plan/: plan.json")].splitlines()
    assert set(map(to_eight_places, compiled)) - {"  ..."} <= set(map(to_eight_places, shown[0].splitlines()))
    assert (tmp_path / "parked.csv").is_file()
    assert (tmp_path / "most_probable.csv").read_text().count("\n") == (tmp_path / "parked.csv").read_text().count("\n")
    masked = re.escape(re.search(r"^parked: 28 steps, .*\n.*\n.*\n", README, re.M)[0])  # noise is fresh in every run
    assert re.fullmatch(re.sub(r"\d+(\\\.\d+)?", r"[0-9.]+", masked), shown[2])
    emitted = (tmp_path / "fleet.plan" / "map_model.py").read_text(encoding="utf-8")
    for line in re.search(r"```python\n(.*?)```", README, re.S)[1].splitlines():
        assert f"{line}\n" in emitted
    assert (tmp_path / "fleet.plan" / "certificate.html").is_file()


def test_bound_and_attack_are_those_of_the_shipped_certificate():
    """To as many places as the README has: what an audit finds beyond them is checked with the certificate itself."""
    certificate = (ROOT / "policies" / "fleet.certificate.md").read_text(encoding="utf-8")
    audited = re.search(r"\(audited: (0\.\d+)\)", README)[1]
    attack, bound = re.search(r"it reaches (0\.\d+) of (0\.\d+)\s+nats", README).groups()
    assert f"total leakage never exceeds {audited} nats" in certificate
    assert f"an attack on step 182 that reaches {attack} nats is known" in certificate
    assert audited.startswith(bound)


def test_the_gate_runs_the_readmes_test_command():
    """`.ci/run` takes its test command from the README, and then runs the laws, which the command leaves out."""
    tests = [command for command in commands() if "pytest" in command]
    assert len(tests) == 1
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in gate
    always, laws = re.findall(r'^timed "\$tests (.*)"$', gate, re.M)
    assert always == "--durations=10"
    assert laws == "-m law --durations=10"
    assert "`.venv/bin/pytest -n 2 -m law`" in README


def test_the_leakage_of_a_given_release_is_what_the_readme_shows(tmp_path):
    """The example of `policyc leakage` prints every line that the README shows, in this order; exit 1 above alpha."""
    shutil.copytree(ROOT / "policies", tmp_path / "policies")
    (tmp_path / "spent.csv").write_text("epsilon\n" + "0.5\n" * 365)
    (command,) = (command for command in commands() if command.startswith("policyc leakage"))
    program = Path(sys.executable).with_name("policyc")
    done = subprocess.run(
        [program, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    shown = README.partition(command)[2].partition("```text\n")[2].partition("```")[0]
    before, after = shown.split("  ...\n")
    assert done.stdout.startswith(before)
    assert done.stdout.endswith(after)
