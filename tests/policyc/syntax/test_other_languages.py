"""Words of other languages, and of everyday speech, are told from misspelt ones: the help says what to write here."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc.diagnostics import PolicyError
from policyc.semantics.checked import check_file

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
    ("count(visits) by room", "mean(visits.age, clamp = 0 .. 99)", "E0205", "who divides one by the other"),
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
