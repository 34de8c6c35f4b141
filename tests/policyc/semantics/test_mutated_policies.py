from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.diagnostics import Severity, Source
from policyc.diagnostics.text import render_text

BASES = [
    """\
policy p "one line"
stream s { user u time t cell room in {"a", "b"} otherwise "away" step 5min horizon 288 steps
  population 500 start "2013-01-01" }
release r = count(s) by room
release total = window(r, 7 steps)
target alpha_dpt(alpha = 1.0, window = 2 steps)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(50 steps, per_step = 1, spacing = 2 steps, enforced = keep_first)
correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]],
  initial = [0.2, 0.3, 0.5], evidence = "e") for g
signal seasonal_ar1(period = 7 steps, mean = -900, evidence = "...")
deliver within(12 steps)
objective mean_squared_error
budget sparse(every = 4 steps)
mechanism subsample(rate = 0.1)
estimate map(prior = uniform)
postprocess r { sum(r) == population, r - previous(r) <= 40, 2 * r["a"] + 3 >= r["b"], integer(r) }
""",
    """\
policy p "one line"
stream s { user u time t cell room in {"a", "b"} step 1h horizon unbounded population 5 }
release r = count(s) by room
target alpha_dpt(alpha = 0.8)
correlation markov(forward = [[0.5, 0.5], [1, 0]], backward = [[0.5, 0.5], [1, 0]],
  initial = stationary, evidence = "e")
deliver realtime
postprocess r { sum(r) == population, r >= 0, r["a"] >= 4, r["b"] <= 2 }
""",
    """\
policy p "one line"
stream s { user u time t step 1min horizon 1440 steps }
release r = sum(s.speed, clamp = 0 .. 130)
release q = prefix(r)
target w_event(epsilon = 2, window = 12 steps)
correlation none(evidence = "e")
signal pilot(file("absent.csv"), evidence = "e")
postprocess r { r <= 130 }
""",
]
TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|[\d.][\w.]*(?:e-?\d+)?|[^\w\s"]+|\s+')
TOKENS = sorted({token for base in BASES for token in TOKEN.findall(base) if not token.isspace()})
ODD = [
    "0",
    "-1",
    "1e999999",
    "9" * 400,
    "1e-400",
    '""',
    "{}",
    "[]",
    "[[]]",
    "nan",
    "m",
    "5mo",
    "0 steps",
    "..",
    "é",
    "#",
]


@st.composite
def mutated(draw):
    """A valid policy with a few of its words dropped, doubled, exchanged or replaced."""
    words = TOKEN.findall(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(words) - 1))
        kind = draw(st.sampled_from(["drop", "double", "replace", "move"]))
        if kind == "drop":
            words[place : place + 1] = [" "]
        elif kind == "double":
            words.insert(place, words[place])
        elif kind == "replace":
            words[place] = draw(st.sampled_from(TOKENS + ODD))
        else:
            words.insert(draw(st.integers(0, len(words))), words[place])
    return "".join(words)


@pytest.mark.law
@settings(max_examples=400, deadline=None)
@given(text=mutated())
def test_any_mutation_gives_findings_or_a_policy(findings_anywhere, text):
    """Nothing that can be written makes the checker fail: it resolves, or it says why not, and that can be shown."""
    policy, found = findings_anywhere(text)
    assert policy is not None or any(d.severity is Severity.ERROR for d in found)
    assert all(0 <= d.span.start <= d.span.end <= len(text) for d in found)
    assert all(a.span.start <= b.span.start for a, b in pairwise(found))
    render_text(found, Source("test.policy", text))


@pytest.mark.parametrize("base", BASES)
def test_the_starting_points_resolve(findings_anywhere, base):
    """The mutated policies start from ones that mean something."""
    policy, found = findings_anywhere(base)
    assert policy is not None or {d.code for d in found} == {"E0212"}


@pytest.mark.parametrize("depth", [10, 60, 3000])
def test_deep_nesting_is_no_failure(findings_anywhere, depth):
    """Nested expressions are resolved or refused, however deep."""
    text = BASES[2].replace("r <= 130", "sum(" * depth + "r" + ")" * depth + " <= 130")
    assert all(d.code.startswith(("E01", "E02", "E07", "E06")) for d in findings_anywhere(text)[1])
