"""What is written goes where its user said, and over nothing that policyc did not write itself."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from prompt import policyc
from users_who_move import POLICY

EVENTS = "u,t,c\nada,2026-01-01T00:10,A\nbo,2026-01-01T01:10,B\n"


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy and its plan."""
    folder = tmp_path_factory.mktemp("planned")
    (folder / "el.policy").write_text(POLICY)
    made = policyc("compile", "el.policy", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture
def folder(planned: Path, tmp_path: Path) -> Path:
    """A folder of a test's own, with the plan in it."""
    shutil.copytree(planned / "el.plan", tmp_path / "el.plan")
    return tmp_path


@pytest.mark.parametrize("name", ["raw.csv", "raw.csv.gz", "flagged.csv", "note.csv", "parked.parquet"])
def test_simulated_events_are_written_over_nothing_but_simulated_ones(folder: Path, name: str) -> None:
    """Raw data, also with a column `simulated` of another meaning, stay; simulated events are drawn again."""
    file = folder / name
    content = {"flagged.csv": "u,t,simulated\nada,2026-01-01,no\n", "note.csv": "no table"}.get(name, EVENTS).encode()
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    before = file.read_bytes()
    refused = policyc("simulate", "el.plan", "--steps", 2, "--events", name, cwd=folder)
    assert refused.returncode == 1
    assert "E0826" in refused.stderr
    assert name in refused.stderr
    assert file.read_bytes() == before
    file.unlink()
    for seed in (1, 2):
        drawn = policyc("simulate", "el.plan", "--steps", 2, "--seed", seed, "--events", name, cwd=folder)
        assert drawn.returncode == 0, drawn.stderr
    assert [path.name for path in folder.iterdir() if path.name != "el.plan"] == [name]


def test_a_simulated_run_is_written_over_nothing_but_simulated_ones(folder: Path, planned: Path) -> None:
    """A release that was published, and raw data, stay; a simulated run is made again."""
    (folder / "raw.csv").write_text(EVENTS)
    ran = policyc(
        "run", "el.plan", "--input", "raw.csv", "--output", "out.csv", "--ledger", "l.sqlite", "--steps", 2, cwd=folder
    )
    assert ran.returncode in {0, 1}, ran.stderr
    (folder / "out.csv").write_text("step,time,c,noisy,released\n0,2026-01-01T00:00:00,A,1,1\n")
    for name in ("raw.csv", "out.csv"):
        before = (folder / name).read_bytes()
        refused = policyc("simulate", "el.plan", "--repeat", 1, "--output", name, cwd=folder)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "E0826" in refused.stderr
        assert (folder / name).read_bytes() == before
    for _ in range(2):
        made = policyc("simulate", "el.plan", "--repeat", 1, "--output", "tried.csv", cwd=folder)
        assert made.returncode == 0, made.stderr


def test_an_output_that_is_a_link_is_written_where_it_leads(folder: Path) -> None:
    """Links stay, and the files that they name are written: by `fmt`, `run` and `simulate`."""
    for name in ("p.policy", "e.csv", "s.csv", "r.csv"):
        (folder / "real").mkdir(exist_ok=True)
        (folder / name).symlink_to(Path("real") / name)
    (folder / "real" / "p.policy").write_text(POLICY.replace("  user u", "user    u"))
    commands = (
        ("fmt", "p.policy"),
        ("simulate", "el.plan", "--events", "e.csv", "--steps", 4),
        ("simulate", "el.plan", "--output", "s.csv", "--repeat", 1),
        ("run", "el.plan", "--input", "e.csv", "--output", "r.csv", "--ledger", "l.sqlite", "--steps", 4),
    )
    for words in commands:
        for _ in range(2):
            done = policyc(*words, cwd=folder)
            assert done.returncode == 0, done.stderr
    for name in ("p.policy", "e.csv", "s.csv", "r.csv"):
        assert (folder / name).is_symlink()
        assert (folder / "real" / name).stat().st_size > 0
    assert {path.name for path in (folder / "real").iterdir()} == {"p.policy", "e.csv", "s.csv", "r.csv"}
    assert "  user        u" in (folder / "real" / "p.policy").read_text()


def test_a_link_that_leads_nowhere_is_refused_by_name_before_anything_is_drawn(folder: Path) -> None:
    """A link to itself, and one into a directory that is not there: no ledger is begun, nothing is simulated."""
    (folder / "raw.csv").write_text(EVENTS)
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "lost.csv").symlink_to("gone/out.csv")
    for name in ("loop.csv", "lost.csv"):
        for words in (
            ("run", "el.plan", "--input", "raw.csv", "--ledger", "l.sqlite", "--output", name),
            ("simulate", "el.plan", "--repeat", 1, "--output", name),
            ("simulate", "el.plan", "--steps", 2, "--events", name),
        ):
            refused = policyc(*words, cwd=folder)
            assert refused.returncode == 1
            assert "E0826" in refused.stderr
            assert name in refused.stderr
            assert "= help" in refused.stderr
    assert not (folder / "l.sqlite").exists()


def test_an_output_elsewhere_is_refused_as_an_output(folder: Path) -> None:
    """A URL named as output is not spoken of as data that cannot be read."""
    (folder / "raw.csv").write_text(EVENTS)
    for words in (
        ("run", "el.plan", "--input", "raw.csv", "--output", "s3://bucket/y.csv"),
        ("simulate", "el.plan", "--output", "s3://bucket/y.csv"),
        ("simulate", "el.plan", "--events", "s3://bucket/y.csv"),
    ):
        refused = policyc(*words, cwd=folder)
        assert refused.returncode == 1
        assert "E0826" in refused.stderr
        assert "the data cannot be read" not in refused.stderr
