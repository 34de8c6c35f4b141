"""Files of a policy that are too large, or never end, are refused at once; large ones that are allowed are fast."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from policyc.diagnostics import PolicyError
from policyc.semantics.checked import check_file
from policyc.syntax import read_source

POLICY = """policy el "Event level"
stream ev {{
  user u
  time t
  cell c in file("c.csv")
  step 1h
  horizon 48 steps
  population 50
}}
release n = count(ev) by c
target event_level(epsilon = 1.0)
deliver realtime
postprocess n {{ {constraints} }}
"""
SUM = "sum(n) == population,"


def found(folder: Path, cells: str, constraints: str = SUM) -> list[tuple[str, str]]:
    """Codes and messages of errors."""
    (folder / "p.policy").write_text(POLICY.format(constraints=constraints))
    (folder / "c.csv").write_text(cells)
    try:
        check_file(folder / "p.policy")
    except PolicyError as error:
        return [(one.code, one.message) for one in error.diagnostics]
    return []


def numbered(count: int) -> str:
    return "\n".join(f"cell{number}" for number in range(count))


def test_cells_that_come_again_are_told_five_times_and_then_counted(tmp_path: Path) -> None:
    """A file of 20,000 lines with ten cells has six findings; a page of findings says no more."""
    findings = found(tmp_path, "\n".join(f"cell{number % 10}" for number in range(20_000)))
    assert [code for code, _ in findings] == ["E0214"] * 6
    assert "19,985 more cells are listed again" in [message for _, message in findings]


@pytest.mark.law
def test_more_cells_than_a_plan_has_room_for_are_refused_before_they_are_looked_at(tmp_path: Path) -> None:
    """A million lines, the same ones too: one finding, and no time."""
    begun = time.monotonic()
    for cells in (numbered(1_000_000), "a\n" * 1_000_000):
        ((code, message),) = found(tmp_path, cells)
        assert code == "E0209"
        assert message == "1,000,000 cells are more than a plan has room for (100,000)"
    ((code, message),) = found(tmp_path, "a" * (17 * 2**20))
    assert (code, message) == ("E0212", "file `c.csv` is larger than 16 MiB")
    assert time.monotonic() - begun < 20


@pytest.mark.law
def test_many_cells_with_their_sum_are_checked_in_no_time(tmp_path: Path) -> None:
    """What is kept grows with the cells, not with their square."""
    begun = time.monotonic()
    assert found(tmp_path, numbered(50_000)) == []
    assert found(tmp_path, numbered(50_000), f"{SUM} n >= 0, integer(n),") == []
    assert time.monotonic() - begun < 10


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "constraint", ["n <= sum(n)", "n - sum(n) <= 0", "sum(n - sum(n)) <= 0", "n <= previous(n) + 9"]
)
def test_constraints_on_too_many_cells_are_refused_at_once(tmp_path: Path, constraint: str) -> None:
    """20,000 constraints on 20,000 cells: four hundred million numbers are not laid out to be refused."""
    begun = time.monotonic()
    ((code, message),) = found(tmp_path, numbered(20_000), f"{SUM} {constraint},")
    assert code == "E0209"
    assert "constraints on 20,000 cells are more than can be kept at once" in message
    assert time.monotonic() - begun < 5


def test_a_pipe_is_no_policy_and_no_file_of_one(tmp_path: Path) -> None:
    """Nobody writes into it: it is refused, and not waited for."""
    os.mkfifo(tmp_path / "pipe.policy")
    with pytest.raises(PolicyError) as refused:
        read_source(tmp_path / "pipe.policy")
    (finding,) = refused.value.diagnostics
    assert finding.code == "E0101"
    assert "not an ordinary file" in finding.message
    assert "put into one first" in str(finding.help)
    (tmp_path / "p.policy").write_text(POLICY.format(constraints=SUM))
    os.mkfifo(tmp_path / "c.csv")
    with pytest.raises(PolicyError) as refused:
        check_file(tmp_path / "p.policy")
    (finding,) = refused.value.diagnostics
    assert finding.message == "file `c.csv` is not an ordinary file"
    assert "beside the policy" in str(finding.help)
