"""What no plan has room for, or nobody can read, is a finding of the policy and never an internal error."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc.diagnostics import PolicyError
from policyc.semantics.cells import MOST_CELLS
from policyc.semantics.checked import check_file
from policyc.semantics.rules import names
from policyc_check import records
from policyc_check.plan import stream as plan

LONG = "a" * 1001


def policy(name: str = "p", user: str = "patient", cell: str = 'ward in {"A", "B"}', release: str = "present") -> str:
    return f"""policy {name} "x"
stream stays {{
  user {user}
  time at
  population 200
  cell {cell}
  step 1d
  horizon 6 steps
}}
release {release} = count(stays) by ward
target event_level(epsilon = 1.0)
correlation none(evidence = "one stay")
"""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (policy(name=LONG), "E0209"),
        (policy(user=LONG), "E0209"),
        (policy(release=LONG), "E0209"),
        (policy(cell=f'ward in {{"{LONG}", "B"}}'), "E0209"),
        (policy(cell='ward in {"A"} otherwise "' + LONG + '"'), "E0209"),
        (policy(cell='ward in file("hidden.csv")'), "E0115"),
        (policy(cell='ward in file("many.csv")'), "E0209"),
    ],
    ids=["policy", "user", "release", "cell", "otherwise", "hidden", "many"],
)
def test_names_that_no_plan_can_have_are_findings(text: str, code: str, tmp_path: Path) -> None:
    """Too long, invisible (also where a file lists the cells), or too many."""
    (tmp_path / "hidden.csv").write_text("A\nB\tC\nD\x1b[2J\n")
    (tmp_path / "many.csv").write_text("\n".join(f"c{number}" for number in range(MOST_CELLS + 1)))
    (tmp_path / "p.policy").write_text(text)
    with pytest.raises(PolicyError) as refused:
        check_file(tmp_path / "p.policy")
    assert {finding.code for finding in refused.value.diagnostics} == {code}


@pytest.mark.parametrize("name", ["x\n.policy", "x\x1b[2J.policy", "a\\b.policy", "C:b.policy"])
def test_a_policy_s_file_has_a_name_that_can_be_kept(name: str, tmp_path: Path) -> None:
    """Control characters, and what another system takes for a way, are findings."""
    (tmp_path / name).write_text(policy())
    with pytest.raises(PolicyError) as refused:
        check_file(tmp_path / name)
    assert {finding.code for finding in refused.value.diagnostics} == {"E0115"}


def test_policies_and_plans_have_the_same_bounds() -> None:
    """What passes `check` fits into a plan."""
    assert names.LONGEST_NAME == records.LONGEST_NAME
    assert MOST_CELLS == plan.MOST_CELLS
