"""Every misspelling by one letter of every keyword gets one finding, at the word, with the right suggestion."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

import pytest

from policyc.diagnostics import PolicyError, Source
from policyc.syntax import parse_policy
from policyc.syntax.parse import keywords
from policyc.syntax.spelling import edit_distance, nearest

TEXT = """policy p "x"
stream s {
  user u
  time t
  cell c in {"A"} levels(d) otherwise "B"
  step 5min
  horizon 8 steps
  population 9
  start "2013-01-01"
  clock "UTC"
  dataset s
}
release r = count(s) by c
target a(x = 1)
participation f(1)
correlation markov(x = 1) for g
signal f(1)
deliver offline
objective mean
budget auto
mechanism auto
estimate auto
postprocess r { sum(r) >= previous(r), integer(r) }
"""
VALUES = {"auto", "mean", "offline", "count", "markov"}
KEYWORDS = sorted({w for w in re.findall(r"\b[a-z]{2,}\b", re.sub(r'"[^"]*"', "", TEXT)) if w not in VALUES})


def misspellings(word: str) -> Iterator[str]:
    """Every word at one deletion, insertion, substitution or transposition."""
    for i in range(len(word) + 1):
        head, tail = word[:i], word[i:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in string.ascii_lowercase:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]


def test_the_text_has_every_keyword() -> None:
    """The text above parses and uses every word of the grammar."""
    parse_policy(Source("x", TEXT))
    assert set(keywords()) <= set(KEYWORDS)


def in_context(start: int, end: int) -> tuple[str, str]:
    """The text of the statement around a word, before and after it, with a statement on either side."""
    bounds = [match.start() for match in re.finditer(r"(?m)^(?=[a-z])", TEXT)] + [len(TEXT)]
    first, last = max(b for b in bounds if b <= start), min(b for b in bounds if b >= end)
    return "budget auto\n" + TEXT[first:start], TEXT[end:last] + "signal f(1)\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("word", KEYWORDS)
def test_misspellings(word: str) -> None:
    """One finding at the word that suggests the word, unless what was written is legal there."""
    place = re.search(rf"\b{word}\b", TEXT)
    assert place is not None
    before, after = in_context(*place.span())
    for misspelt in sorted({w for w in misspellings(word) if w and w != word}):
        text = before + misspelt + after
        if misspelt in LEGAL.get(word, ()):
            parse_policy(Source("x", text))
            continue
        with pytest.raises(PolicyError) as caught:
            parse_policy(Source("x", text))
        assert len(caught.value.diagnostics) == 1, (misspelt, [d.message for d in caught.value.diagnostics])
        (found,) = caught.value.diagnostics
        assert found.span == (len(before), len(before) + len(misspelt)), (misspelt, found)
        assert f"{word}`" in (found.help or ""), (misspelt, found)


# `8 step` is a number of steps
LEGAL = {"steps": ("step",)}


@pytest.mark.parametrize(("a", "b", "distance"), [("", "ab", 2), ("ab", "ba", 1), ("abc", "axc", 1), ("abc", "ac", 1)])
def test_edit_distance(a: str, b: str, distance: int) -> None:
    """A swap of neighbors counts once, like every other slip, in both directions."""
    assert edit_distance(a, b) == distance == edit_distance(b, a)


def test_nearest_is_modest() -> None:
    """A word that is far from all candidates, or very long, has no suggestion."""
    assert nearest("banana", ["stream", "release"]) is None
    assert nearest("s" * 10_000, ["stream"]) is None
    assert nearest("Stream", ["stream", "release"]) == "stream"
