"""What `policyc check --fix` rewrites, what it leaves to a person, and that it comes to an end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prompt import policyc

from policyc.diagnostics import PolicyError, Severity, Source, Span
from policyc.diagnostics.pages import all_codes
from policyc.semantics.checked import check_source, findings_in
from policyc.semantics.fixed import fix_source
from policyc.syntax import parse_policy, tree

ROOT = Path(__file__).parents[3]
BROKEN = sorted((ROOT / "tests" / "goldens" / "syntax").glob("*.policy"))
GALLERY = sorted((ROOT / "policies").rglob("*.policy"))


def fixed(text: str, folder: Path = Path("nowhere")) -> str:
    """A text after `--fix`."""
    return fix_source(Source("test.policy", text), folder)[0].text


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('policy p "one line"', "policy p 'one line'"),
        ("stream s {", "straem s {"),
        ("user u", "user = u"),
        ("time t", "tme t"),
        ('in {"a", "b"}', "in {a, b}"),
        ("step 5min", "step 5 min"),
        ("288 steps", "288 stps"),
        ("count(s)", "coutn(s)"),
        (" by room", " by rom"),
        ("alpha = 1.0", "alpah = 1.0"),
        ("alpha = 1.0", "alpha == 1.0"),
        ("[0.8, 0.1, 0.1]", "[0.8, 0.1, .1]"),
        ("[0.8, 0.1, 0.1]", "[0.8, 0.1, 1/10]"),
        ("initial = stationary, evidence", "initial = stationary evidence"),
        ("release r = count(s) by room", "release r = count(s) by room;"),
        ("initial = stationary", "initial\u00a0= stationary"),
        ("deliver within(12 steps)", "deliver within 12 steps"),
        ("objective mean_squared_error", "objective mean_sqared_error"),
    ],
)
def test_what_can_mean_one_thing_is_rewritten(rooms_policy: str, right: str, wrong: str) -> None:
    """Spelling, signs, quotes and notations: the policy is again what it was."""
    rooms_policy += "deliver within(12 steps)\nobjective mean_squared_error\n"
    assert wrong not in rooms_policy
    assert fixed(rooms_policy.replace(right, wrong, 1)).replace(" \n", "\n").replace("  u ", " u ") == rooms_policy


@pytest.mark.parametrize(
    ("wrong", "after"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("America/New_Yrok", "America/New_York"),
        ("CEST", "CEST"),
        ("Etc/GMT+15", "Etc/GMT+15"),
        ("Mars/Phobos", "Mars/Phobos"),
    ],
)
def test_a_clock_is_respelt_where_one_alone_is_near(count_policy: str, wrong: str, after: str) -> None:
    """The name of a zone, in its quotes; numbers are never others, and several that are near are left to a person."""
    text = count_policy.replace("step 5min", 'start "2026-01-01" clock "HERE" step 1h')
    misspelt = text.replace("HERE", wrong)
    assert fixed(misspelt) == text.replace("HERE", after)
    assert [one.code for one in findings_in(Source("p.policy", misspelt), Path())].count("E0237") == 1


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("target alpha_dpt(", "target alpha_dp("),
        ("event_level(epsilon = 1.0)", "event_level(epsilon = 1.0, neighbors = replce)"),
        ("event_level(epsilon = 1.0)", "event_level(epsilon = 1,000)"),
        ("event_level(epsilon = 1.0)", "user_level(epsilon = 1.0, rho = 0.1, neighbors = replace)"),
        ("288 steps", "288"),
        ("step 5min", "step 5mins"),
        ('in {"a", "b"}', 'in {"a\u00a0c", "b"}'),
        ("[0.8, 0.1, 0.1]", "[0.8, 0.1 000, 0.1]"),
        ("count(s)", "sum(s.ticket-price, clamp = 0 .. 1)"),
        ("release r = count(s)\n", "release zone_10 = count(s)\nrelease q = prefix(zone_11)\n"),
        ("horizon 288 steps }\n", "horizon 288 steps }\ndeliver after 5 steps\n"),
        ("288 steps }", "288 steps }\nmechanism mape()"),
    ],
)
def test_what_a_person_decides_is_left(rooms_policy: str, count_policy: str, right: str, wrong: str) -> None:
    """No promise, no name of data, and no number with two readings is chosen."""
    text = next(one for one in (rooms_policy, count_policy) if right in one).replace(right, wrong, 1)
    assert findings_in(Source("test.policy", text), Path("nowhere"))
    assert fixed(text) == text


def test_a_policy_with_a_meaning_keeps_its_text() -> None:
    """Warnings carry no edit, and nor does anything in the gallery."""
    for path in GALLERY:
        text = path.read_text(encoding="utf-8")
        assert fixed(text, path.parent) == text


@pytest.mark.sampled(20, laws=80)
@pytest.mark.parametrize("code", all_codes())
def test_edits_come_to_an_end(code: str, page_examples, tmp_path: Path) -> None:
    """Every page's wrong example: fixed once, no edit is left, errors are no more than before, warnings carry none."""
    try:
        text, _ = page_examples(code)
    except AssertionError:
        pytest.skip("a page without a policy")
    source = Source("test.policy", text)
    before = findings_in(source, tmp_path)
    assert not [one for one in before if one.severity is Severity.WARNING and one.edit is not None]
    after, changes = fix_source(source, tmp_path)
    left = findings_in(after, tmp_path)
    assert not [one for one in left if one.edit is not None]
    assert bool(changes) == any(one.edit is not None for one in before)
    assert fix_source(after, tmp_path) == (after, [])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.stem)
def test_broken_texts_are_fixed_once(case: Path, tmp_path: Path) -> None:
    """The same of every text that cannot be read; comments and lines stay."""
    source = Source(case.name, case.read_text(encoding="utf-8"))
    after, _ = fix_source(source, tmp_path)
    assert not [one for one in findings_in(after, tmp_path) if one.edit is not None]
    assert fix_source(after, tmp_path) == (after, [])
    assert after.text.count("\n") == source.text.count("\n")


def test_the_command_rewrites_says_what_and_rests(tmp_path: Path, count_policy: str) -> None:
    """Line ends stay; a second run changes nothing; what is left is shown in the form that was asked for."""
    file = tmp_path / "p.policy"
    file.write_bytes(count_policy.replace("count(s)", "coutn(s)").replace("\n", "\r\n").encode())
    first = policyc("check", "p.policy", "--fix", cwd=tmp_path)
    assert (first.returncode, first.stdout) == (0, "p.policy: no findings\n")
    assert first.stderr == "p.policy:3: E0205: `coutn` is now `count`\n"
    assert file.read_bytes() == count_policy.replace("\n", "\r\n").encode()
    known = file.stat()
    assert policyc("check", "p.policy", "--fix", cwd=tmp_path).stderr == ""
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (known.st_ino, known.st_mtime_ns)
    file.write_text(count_policy.replace("count(s)", "coutn(s)").replace("event_level", "event_levl"))
    second = policyc("check", "p.policy", "--fix", "--format", "json", cwd=tmp_path)
    assert second.returncode == 1
    assert "`coutn` is now `count`" in second.stderr
    assert [(one["code"], one["edit"]) for one in json.loads(second.stdout)] == [("E0205", None)]
    gone = policyc("check", "absent.policy", "--fix", cwd=tmp_path)
    assert (gone.returncode, gone.stderr.count("E0101")) == (1, 1)


def test_programs_see_edits_and_links(tmp_path: Path, count_policy: str) -> None:
    """JSON and SARIF carry the edit, SARIF also a link to the page where one is said."""
    (tmp_path / "p.policy").write_text(count_policy.replace("count(s)", "coutn(s)"))
    (record,) = json.loads(policyc("check", "p.policy", "--format", "json", cwd=tmp_path).stdout)
    place = {"line": 3, "column": 13, "end_line": 3, "end_column": 18}
    assert record["edit"] == {"replacement": "count", **place}
    words = ("check", "p.policy", "--format", "sarif", "--help-uri")
    log = json.loads(policyc(*words, "https://pages.example/{code}/", cwd=tmp_path).stdout)
    (run,) = log["runs"]
    assert run["tool"]["driver"]["rules"][0]["helpUri"] == "https://pages.example/E0205/"
    (change,) = run["results"][0]["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    assert replacement["insertedContent"] == {"text": "count"}
    assert replacement["deletedRegion"] == {"startLine": 3, "startColumn": 13, "endLine": 3, "endColumn": 18}
    assert policyc(*words, "https://pages.example/", cwd=tmp_path).returncode == 2


def promised(text: str, folder: Path) -> tuple[list[object], object] | None:
    """Targets and participation of a text that has no error, without their places."""
    try:
        _, policy, _ = check_source(Source("test.policy", text), folder)
    except PolicyError:
        return None
    nowhere = Span(0, 0)
    bound = policy.participation
    return [replace(one, span=nowhere) for one in policy.targets], bound and replace(bound, span=nowhere)


@pytest.mark.parametrize("name", ["traffic", "departures", "deployments/mobility"])
def test_no_promise_is_changed(name: str, some, gallery: Path) -> None:
    """A sign too few, too many or in the wrong place, anywhere but in a promise: what is promised stays."""
    path = gallery / f"{name}.policy"
    text = path.read_text(encoding="utf-8")
    right = promised(text, path.parent)
    promises = [
        one.span
        for one in parse_policy(Source("test.policy", text)).statements
        if isinstance(one, tree.CallStatement) and one.keyword.text in {"target", "participation"}
    ]
    assert right is not None
    assert promises
    changed = 0
    for place in some([at for at in range(len(text) - 1) if not any(s.start - 1 <= at <= s.end for s in promises)], 8):
        for wrong in (
            text[:place] + text[place + 1 :],
            text[:place] + text[place] + text[place:],
            text[:place] + text[place + 1] + text[place] + text[place + 2 :],
        ):
            after = fixed(wrong, path.parent)
            assert fixed(after, path.parent) == after
            if after != wrong:
                changed += 1
                assert promised(after, path.parent) in (right, None), (wrong, after)
    assert changed
