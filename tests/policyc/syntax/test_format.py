"""The canonical form: order, spacing, and comments that stay with what they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.diagnostics import Source
from policyc.syntax import format_policy, parse_policy

POLICIES = ("bikeshare", "checkins", "departures", "fleet", "speeds", "traffic", "wards")


def formatted(text: str) -> str:
    once = format_policy(parse_policy(Source("a.policy", text)))
    assert format_policy(parse_policy(Source("b.policy", once))) == once
    return once


@pytest.mark.parametrize("name", POLICIES)
def test_gallery(name: str, gallery: Path, golden: Callable[[str, str], None]) -> None:
    """The policies of the gallery come out close to how they are written."""
    golden(f"format/{name}.policy", formatted((gallery / f"{name}.policy").read_text(encoding="utf-8")))


def test_comments(golden: Callable[[str, str], None]) -> None:
    """Comments move with the statement, field, argument, row or constraint they stand before or beside."""
    golden("format/comments.policy", formatted(COMMENTED))


def test_literals_are_printed_as_written() -> None:
    """Formatting never rewrites a number, and prints strings with the two escapes."""
    text = 'signal s(a = 12_000, b = 1E-6, c = 0.50, d = -007, e = 1 step, f = 5min, g = "\\"\\\\")\n'
    assert formatted(text) == text


def test_long_calls_are_broken() -> None:
    """A call that would pass column 100 has one argument a line; a long set is filled; a matrix has a row a line."""
    cells = ", ".join(f'"cell {i}"' for i in range(20))
    lines = formatted(f"stream s {{ cell c in {{{cells}}} }} signal s(a = {{{cells}}}, m = [[1, 20], [300, 4]])").split(
        "\n"
    )
    assert max(map(len, lines)) <= 100
    assert lines[-4:] == ["  m = [[  1, 20],", "       [300,  4]],", ")", ""]


def test_parentheses_that_matter_are_kept() -> None:
    """Parentheses are printed where leaving them out would change the meaning, and only there."""
    text = "postprocess r { ((a)) + (2 * (b)) - (c + 1) >= -(a + b) * 2 * (3 * c), (a) >= (-5), a * (-2) >= 0 }"
    assert formatted(text) == (
        "postprocess r {\n  a + 2 * b - (c + 1) >= -(a + b) * 2 * (3 * c),\n  a >= -5,\n  a * (-2) >= 0,\n}\n"
    )


COMMENTED = """# head

# two
target a(x=1) # beside the target
  # before the policy
policy x "y" # beside the policy
# before the stream

# a section

stream s { # where the stream opens
# before the cell
cell c in {"a", # the first cell
  "b"} # beside the cell
time t # beside the time
# at the end of the stream
} # after the stream
correlation markov(a = [[-1, 2], # row one
[3.25,4]], # the matrix
# before the evidence
evidence = "x" # the evidence
# at the end of the call
) for g # for g
target b( # inside the empty call
)
postprocess z { -a >= -5 # five
, a # inside the constraint
 <= 5 }
# at the end

# of the file"""
