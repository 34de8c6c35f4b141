"""The guide: every command in it runs, and every output that it shows is what the command prints."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deployments import FOLDER, READY, STEPS
from prompt import policyc

from policyc.diagnostics.pages import all_codes
from policyc.guide import DATA, DEPLOYMENTS, NOTEBOOK, PAGES, read_page, write_files

BLOCK = re.compile(r"```(\S+)(?: (\S+))?\n(.*?)```", re.S)
EXECUTED = ["tutorial", "promises", "events", "reading", "running", "auditing", "cookbook", "limits"]


def ran(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of the guide in a shell, with this Python's programs first."""
    programs = Path(sys.executable).parent
    words = f'export PATH="{programs}:$PATH"; {command}'
    return subprocess.run(["bash", "-c", words], cwd=folder, capture_output=True, text=True, check=False)


def fits(shown: str, printed: str) -> bool:
    """Whether an output is what the page shows, where `...` stands for anything."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


def follow(text: str, folder: Path) -> int:
    """Do what a page says, block after block; how many commands it has."""
    blocks = BLOCK.findall(text)
    count = 0
    for (kind, name, body), after in zip(blocks, [*blocks[1:], ("", "", "")], strict=True):
        if name:
            (folder / name).write_text(body)
        if kind != "console":
            continue
        printed = ""
        for line in body.splitlines():
            assert line.startswith("$ "), line
            command, _, note = line[2:].partition(" # exit ")
            done = ran(command, folder)
            assert done.returncode == int(note or 0), (command, done.stdout[-500:], done.stderr)
            printed += done.stdout
            count += 1
        if after[0] == "text":
            assert fits(after[2], printed), (body, after[2], printed)
    return count


@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.law) for page in EXECUTED])
def test_what_a_page_says_happens(page: str, tmp_path: Path) -> None:
    """In an empty folder, from the first command to the last."""
    assert follow(read_page(page), tmp_path) >= 1


def test_an_output_that_differs_is_found(tmp_path: Path) -> None:
    """Of a page whose text is not what its command prints, and of one whose command fails."""
    assert follow("```console\n$ echo a b\n```\n```text\na ...\n```\n", tmp_path) == 1
    for wrong in ("```console\n$ echo a\n```\n```text\nb\n```\n", "```console\n$ false\n```\n"):
        with pytest.raises(AssertionError):
            follow(wrong, tmp_path)


def test_no_command_stands_on_a_page_that_is_not_executed() -> None:
    """Blocks of commands with a prompt are on the pages that are followed."""
    for page in PAGES.keys() - set(EXECUTED) - {"reference"}:
        assert "```console" not in read_page(page), page


def test_what_even_odds_become_is_computed() -> None:
    """The table of epsilons, from the odds, rounded up."""
    rows = re.findall(r"^\| ([0-9.]+) \| ([0-9.]+) % \|$", read_page("promises"), re.MULTILINE)
    assert len(rows) == 6
    for epsilon, after in rows:
        true = 100 * math.exp(float(epsilon)) / (1 + math.exp(float(epsilon)))
        assert true <= float(after) < true + 0.1


def test_what_nats_mean_is_computed() -> None:
    """How many times as likely, rounded up, and the digits of the largest."""
    page = " ".join(read_page("reading").split())
    told = re.findall(r"([0-9.]+) nats?,? (?:one is at most )?([0-9.]+) times", page)
    assert [nats for nats, _ in told] == ["1", "0.1", "2"]
    for nats, times in told:
        assert math.exp(float(nats)) <= float(times) < math.exp(float(nats)) + 0.01
    assert 22_000 < math.exp(10) < 22_100
    assert len(str(int(math.exp(114)))) == 50


def test_pages_are_listed_and_shown(tmp_path: Path) -> None:
    """Each by its name; an unknown one is wrong usage (2)."""
    listed = policyc("guide", cwd=tmp_path)
    assert [line.split()[2] for line in listed.stdout.splitlines()] == list(PAGES)
    for page in PAGES:
        shown = policyc("guide", page, cwd=tmp_path)
        assert (shown.returncode, shown.stdout) == (0, read_page(page))
    assert policyc("guide", "nothing", cwd=tmp_path).returncode == 2


def test_the_reference_names_every_finding() -> None:
    """From their pages, once each."""
    assert re.findall(r"^\| `([EW][0-9]{4})` \|", read_page("reference"), re.MULTILINE) == list(all_codes())


def test_files_are_written_once_and_nothing_else_is_written_over(tmp_path: Path) -> None:
    """A file of that name that is another stays, and so does a missing directory."""
    assert policyc("guide", "--files", ".", cwd=tmp_path).stdout == f"{DATA}\n{NOTEBOOK}\n"
    kept = Path(__file__).parents[2] / "policies" / DATA
    assert (tmp_path / DATA).read_bytes() == kept.read_bytes()
    assert policyc("guide", "--files", ".", cwd=tmp_path).returncode == 0
    shutil.copy(__file__, tmp_path / DATA)
    assert policyc("guide", "--files", ".", cwd=tmp_path).returncode == 2
    assert (tmp_path / DATA).read_bytes() == Path(__file__).read_bytes()
    assert policyc("guide", "--files", "nowhere", cwd=tmp_path).returncode == 2


def test_the_cookbook_says_what_its_policies_say() -> None:
    """A section each: what it quotes stands in the policy (`...` is anything), and it has events of so many steps."""
    sections = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", read_page("cookbook"), re.MULTILINE | re.S)
    assert tuple(name for name, _ in sections) == DEPLOYMENTS
    assert {path.stem for path in FOLDER.glob("*.policy")} == set(DEPLOYMENTS)
    for name, said in sections:
        policy = " ".join((FOLDER / f"{name}.policy").read_text().split())
        for quoted in set(re.findall(r"`([^`]+)`", said)) - {"events.py", "policyc run ... --counts"}:
            assert re.search(re.escape(quoted).replace(r"\.\.\.", ".*"), policy), (name, quoted)
        promised = re.search(
            r"^target user_level\((?:epsilon|rho) = ([0-9.]+?)(?:\.0)?[,)]", policy.replace(" target", "\ntarget"), re.M
        )
        assert promised is not None
        assert re.search(rf"(epsilon|rho) {re.escape(promised[1])}\b", said), name
        assert re.search(rf"Try: {STEPS[name]} steps?\.", said), name
        assert ("--counts" in said) == (name in READY), name


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_is_written_whole_or_not_at_all(name: str, tmp_path: Path) -> None:
    """The policy, the lists of cells that it names, and what makes events, as they are in the repository."""
    names = write_files(tmp_path, name)
    assert names[0] == f"{name}.policy"
    assert names[-1] == "events.py"
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    assert all((tmp_path / each).read_bytes() == (FOLDER / each).read_bytes() for each in names)
    other = tmp_path / "other"
    other.mkdir()
    (other / "events.py").write_text("another")
    with pytest.raises(FileExistsError):
        write_files(other, name)
    assert [path.name for path in other.iterdir()] == ["events.py"]


def test_a_deployment_is_written_where_the_caller_says(tmp_path: Path) -> None:
    """By its name; without a directory that is wrong usage (2)."""
    assert (
        policyc("guide", "--files", ".", "--deployment", "editors", cwd=tmp_path).stdout.split()[0] == "editors.policy"
    )
    assert policyc("guide", "--deployment", "editors", cwd=tmp_path).returncode == 2


def test_findings_that_pages_name_exist() -> None:
    """Every code on a page is that of a finding."""
    for page in PAGES:
        assert set(re.findall(r"\b[EW][0-9]{4}\b", read_page(page))) <= set(all_codes()), page


@pytest.mark.law
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path: Path) -> None:
    """In a Python of its own, beside the files that `--files` writes; it is kept without outputs."""
    write_files(tmp_path)
    cells = json.loads((tmp_path / NOTEBOOK).read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    text = "\n".join("".join(cell["source"]) for cell in code)
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "present 28 steps" in done.stdout
    assert "4.0 weeks" in done.stdout
