"""One mistake has one finding: what follows from it alone is not reported beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc.diagnostics import PolicyError
from policyc.semantics.checked import check_file

POLICY = """policy el "Event level"
stream ev {
  user u
  time t
  cell c in {"A", "B"} otherwise "Z"
  step 1h
  horizon 48 steps
  population 50
}
release n = count(ev) by c
target event_level(epsilon = 1.0)
deliver realtime
postprocess n { sum(n) == population, n >= 0, }
"""
BINOMIAL = "signal binomial_ar1(mean = 20, autocorrelation = 0.5)\n"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("population 50", "population 0", "E0209"),
        ("population 50", 'population "50"', "E0208"),
        ("n >= 0", f"n >= {'-' * 20_000}1", "E0114"),
        ("n >= 0", "n >= -- 0", "E0114"),
        ("1.0)", "// 1.0)", "E0114"),
        ('"B"}', '"B" -- }', "E0114"),
    ],
)
@pytest.mark.parametrize("signal", ["", BINOMIAL])
def test_what_follows_from_a_mistake_is_no_finding(tmp_path: Path, old: str, new: str, code: str, signal: str) -> None:
    """A population that is said wrongly is said; a bracket after `--` is not missing."""
    assert old in POLICY
    (tmp_path / "p.policy").write_text(POLICY.replace(old, new) + signal)
    with pytest.raises(PolicyError) as refused:
        check_file(tmp_path / "p.policy")
    assert [finding.code for finding in refused.value.diagnostics] == [code]


def test_what_is_missing_without_a_mistake_is_one(tmp_path: Path) -> None:
    """A stream that says no population, and a bracket that is nowhere, are findings as before."""
    for old, new, code in (("  population 50\n", "", "E0603"), ("n >= 0, }", "n >= 0,", "E0109")):
        (tmp_path / "p.policy").write_text(POLICY.replace(old, new))
        with pytest.raises(PolicyError) as refused:
            check_file(tmp_path / "p.policy")
        assert [finding.code for finding in refused.value.diagnostics] == [code]
