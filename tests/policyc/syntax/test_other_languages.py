"""Words of other languages, and of everyday speech, are told from misspelt ones: the help says what to write here."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc.diagnostics import PolicyError, Source
from policyc.semantics.checked import check_file
from policyc.syntax import parse_policy

POLICY = """\
policy p "Visitors"
stream visits {
  user     ticket
  time     at
  cell     room in {"a", "b"} otherwise "away"
  step     1h
  horizon  48 steps
  start    "2026-01-01"
  population 900
}
release there = count(visits) by room
target event_level(epsilon = 1.0)
correlation none(evidence = "one visit a ticket")
deliver realtime
"""
WRITTEN = [
    ("count(visits)", "prefix(count(visits) by room)", "E0122", "each release its own line"),
    ("count(visits) by room", "prefix(count(visits))", "E0208", "`release NAME = count(visits)`"),
    ("48 steps", "1 year", "E0122", "a horizon counts steps: `365 steps`"),
    ("48 steps", "6 months", "E0122", "a horizon counts steps"),
    ("1h", "1 hour", "E0122", "a duration is one word"),
    ("count(visits)", "count(visits where age > 18)", "E0122", "only the rows that count"),
    ("by room", "by room where age > 18", "E0122", "only the rows that count"),
    ("realtime", "weekly", "E0205", "the stream's `step`"),
    ("count(visits) by room", "mean(visits.age, clamp = 0 .. 99)", "E0208", "divides one by the other"),
    ("count(visits) by room", "sum(visits.money, clamp = 0.0-12.0)", "E0108", "did you mean `0.0 .. 12.0`?"),
    ("count(visits) by room", "sum(visits.money, clamp = -5 to 12)", "E0108", "did you mean `-5 .. 12`?"),
    ("48 steps", "1e9 steps", "E0122", "at most 10_000_000 steps"),
    ("48 steps", "1_000_000_000 steps", "E0209", "write `horizon 10_000_000 steps`, or `horizon unbounded`"),
    ("48 steps", "-3 steps", "E0122", "counted from `1 step`"),
    ("900", "900,5", "E0117", "a whole number"),
    ("1h", "1,5h", "E0117", "`90min` for one and a half hours"),
    ("1.0)", "1/3)", "E0117", "write numbers as"),
    ("1.0)", "1,000)", "E0208", "write `1.000` or `1_000`"),
    ('"2026-01-01"', "01.02.2026", "E0117", "the year first"),
    ('"2026-01-01"', '"01.02.2026"', "E0209", "the year first"),
    ('"2026-01-01"', '"2026-13-01"', "E0209", "year, month and day"),
    ('"2026-01-01"', '"2026-01-01T25:00"', "E0209", '"2026-01-01T06:00"'),
    ("at\n", "n/a\n", "E0114", "in quotes if it is a column"),
]
# What was written, in place of what, and what the help says to write in its place: each is then accepted.
MEANT = [
    ("1.0)", "1,5)", "1.5"),
    ("1.0)", "0,05)", "0.05"),
    ("900", "9.000.000", "9_000_000"),
    ("1.0)", "10^-6)", "1e-6"),
    ("1.0)", "10**-6)", "1e-6"),
    ("1.0)", "5 * 10^-6)", "5e-6"),
    ("1.0)", "5×10⁻⁶)", "5e-6"),
    ("1.0)", "2^-3)", "0.125"),
    ("1.0)", "1/2)", "0.5"),
    ("900", "1,000", "1_000"),
    ("900", "1 000", "1_000"),
    ("900", "1.000.000", "1_000_000"),
    ("900", "10^3", "1e3"),
    ("48 steps", "1,000 steps", "1_000"),
    ("event_level", "event-level", "event_level"),
    ("there", "there-now", "there_now"),
    ("realtime", "real-time", "realtime"),
    ("ticket", "ticket-id", '"ticket-id"'),
    ('"2026-01-01"', '"2026-02-30"', '"2026-02-28"'),
    ('"2026-01-01"', '"2024-02-30T06:00"', '"2024-02-29"'),
]


@pytest.mark.parametrize(("right", "wrong", "code", "help_words"), WRITTEN)
def test_the_help_knows_what_was_meant(right: str, wrong: str, code: str, help_words: str, tmp_path: Path) -> None:
    """The first finding is about the word that was written, and says what to write in a policy."""
    path = tmp_path / "p.policy"
    path.write_text(POLICY.replace(right, wrong))
    with pytest.raises(PolicyError) as caught:
        check_file(path)
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert help_words in (first.help or "")


@pytest.mark.parametrize(("right", "wrong", "meant"), MEANT)
def test_what_the_help_says_to_write_is_accepted(right: str, wrong: str, meant: str, tmp_path: Path) -> None:
    """There is one finding, at what was written; with what the help names in its place there is none."""
    path = tmp_path / "p.policy"
    text = POLICY.replace(right, wrong)
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        check_file(path)
    (finding,) = caught.value.diagnostics
    assert f"`{meant}`" in (finding.help or "")
    path.write_text(text[: finding.span.start] + meant + text[finding.span.end :])
    check_file(path)


@pytest.mark.parametrize("right", ["30", "31"])
def test_steps_are_whole(right: str, tmp_path: Path) -> None:
    """Half a step has the two whole numbers beside it as its help."""
    path = tmp_path / "p.policy"
    path.write_text(POLICY.replace("48 steps", "30.5 steps"))
    with pytest.raises(PolicyError) as caught:
        check_file(path)
    assert [f"`{right} steps`" in (finding.help or "") for finding in caught.value.diagnostics] == [True]


@pytest.mark.parametrize("written", ["[0,1]", "[0, 1]", "[0.5,0.5]", "[100, 200]", "[1,2,3]"])
def test_a_list_is_no_decimal_comma(written: str) -> None:
    """Numbers of a list are parted by commas, with and without blanks."""
    parse_policy(Source("p", f"signal f(1, p = {written})"))


@pytest.mark.parametrize("number", ["1440policy", "30x", "1e99999999999999999999", "5_", "1__0"])
def test_words_that_begin_with_a_digit_are_findings(number: str) -> None:
    """Whatever stands before `steps`, a policy is refused with findings, and with nothing else."""
    text = 'policy p "x"\nstream s { user u time t step 1min horizon ' + number + " steps }\nrelease r = count(s)\n"
    with pytest.raises(PolicyError):
        parse_policy(Source("p", text))
