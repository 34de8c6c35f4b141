from __future__ import annotations

import re
from pathlib import Path

import pytest

import policyc
from policyc.diagnostics import Severity, Source
from policyc.diagnostics.pages import all_codes, read_page
from policyc.diagnostics.text import render_text
from policyc.semantics.rules.suppression import check_shown
from policyc.semantics.rules.utility import check_utility

# From 0750 on, codes are the planner's own, but for two that the policy shows already.
BEFORE_PLANNING = ("E0756", "E0757")
RETIRED = {"W0401": "E0413"}  # explained still, for certificates that name them; never used again
CODES = [
    code for code in all_codes() if ("0200" <= code[1:] < "0750" or code in BEFORE_PLANNING) and code not in RETIRED
]
# Known only after planning: predicted error, prior alone and signal size of the wrong and of the right example.
UTILITY = {"W0701": ((40.0, None, 12.0), (4.0, None, 12.0)), "W0702": ((10.0, 8.0, None), (4.0, 8.0, None))}
LEAST_ERRORS = {"W0708": (24.0, 9.0)}  # of the values that are shown with most of the chance, wrong and right
NOT_PLANNED = "E0702"  # the user-level pages are right, and this version does not plan them yet


@pytest.fixture
def found_in(page_examples, findings, tmp_path):
    """`found_in(code, right)`: the text of a page's example, its policy and what is found in it."""

    def found_in(code, right):
        text = page_examples(code)[right]
        for content in re.findall(r"```csv\n(.*?)```", read_page(code), re.DOTALL):
            (tmp_path / "places.csv").write_text(content)
        policy, found = findings(text)
        if code in UTILITY:
            found = [*found, *check_utility(policy, policy.releases[0], *UTILITY[code][right])]
        if code in LEAST_ERRORS:
            (rule,) = policy.postprocess[0].suppressions
            found = [*found, *check_shown(policy.releases[0].name, rule, LEAST_ERRORS[code][right])]
        return text, policy, found

    return found_in


@pytest.mark.parametrize("code", CODES)
def test_the_wrong_example_has_its_finding_and_no_other(code, found_in, golden):
    """A page's wrong example gives the finding it explains, rendered as the golden file says."""
    text, _, found = found_in(code, right=False)
    assert {d.code for d in found} - {NOT_PLANNED} == {code} - {NOT_PLANNED}
    assert code in {d.code for d in found}
    golden(f"findings/{code}.txt", render_text(found, Source(f"{code}.policy", text), color=False))


@pytest.mark.parametrize("code", CODES)
def test_the_right_example_has_no_finding(code, found_in):
    """A page's corrected policy is free of errors and warnings, but for parts that this version cannot plan."""
    _, policy, found = found_in(code, right=True)
    assert {d.code for d in found} <= {NOT_PLANNED} - {code}
    assert policy is not None


@pytest.mark.parametrize("code", CODES)
def test_every_finding_says_what_to_do(code, found_in):
    """Messages start in lower case or with input, end without a full stop, and come with a help line."""
    for finding in found_in(code, right=False)[2]:
        assert finding.help
        for line in (finding.message, finding.because, finding.help):
            assert line is None or not line.endswith("."), line
            assert line is None or line[0] == "`" or line[0].islower(), line
            assert "None" not in (line or ""), line


def test_codes_and_pages_match():
    """Every code that the semantics uses has a page, and every page's code is used."""
    folder = Path(policyc.__file__).parent / "semantics"
    used = {c for path in folder.rglob("*.py") for c in re.findall(r'"([EW]0\d{3})"', path.read_text(encoding="utf-8"))}
    of_the_text = {code for code in used if code < "E0200"}  # what a text may not have, a file of cells may not either
    assert of_the_text <= set(all_codes())
    assert used - of_the_text == set(CODES)
    for code, instead in RETIRED.items():
        assert f"# {code}: retired, see {instead}\n" in read_page(code)
        assert instead in used


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("W")])
def test_warnings_do_not_stop_a_policy(code, found_in):
    """A policy that has warnings only is still resolved."""
    _, policy, found = found_in(code, right=False)
    assert policy is not None
    assert {d.code for d in found if d.severity is Severity.ERROR} <= {NOT_PLANNED}
