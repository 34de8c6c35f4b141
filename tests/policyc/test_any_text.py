"""Whatever the text: a compilation or a PolicyError, nothing else."""

from __future__ import annotations

import string

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from policyc import PolicyError, compile_policy
from policyc_runtime.refusal import verify

VALID = """policy p "purpose"
stream s {
  user u
  time t
  cell c in {"a", "b"} otherwise "z"
  step 5min
  horizon 6 steps
  population 40
}
release r = count(s) by c
target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]], initial = stationary, evidence = "e")
deliver offline
budget auto
postprocess r { sum(r) == population, r >= 0, r["a"] - previous(r["a"]) <= 30, integer(r) }
"""
PIECES = ["1e-300", "1e300", "0", "-1", "1", "unbounded", "[0.2, [", "quantified()", "replace", '"a"', "}", "{", "=="]


def outcome(path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        compilation = compile_policy(path)
    except PolicyError as error:
        assert error.diagnostics
        return
    verify(compilation.plan)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=300))
def test_random_text_compiles_or_is_refused(tmp_path, text):
    """Any text at all gives a verified plan or a PolicyError with findings."""
    outcome(tmp_path / "p.policy", text)


@st.composite
def mutated(draw) -> str:
    text = VALID
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start, min(len(text), start + 12)))
        piece = draw(st.sampled_from(PIECES) | st.text(string.printable, max_size=4) | st.just(""))
        text = text[:start] + piece + text[end:]
    return text


@pytest.mark.law
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutated())
@example(VALID)
@example(VALID.replace("alpha = 1.0", "alpha = 1e-300"))
@example(VALID.replace("alpha = 1.0", "alpha = 1e9"))
@example(VALID.replace("6 steps", "999_999_999_999 steps"))
@example(VALID.replace("population 40", "population 9_999_999_999_999_999_999"))
@example(VALID.replace("0.8, 0.1, 0.1", "1, 0, 0").replace("0.2, 0.7, 0.1", "0, 1, 0"))
@example(VALID.replace("[0.1, 0.2, 0.7]", "[0, 0, 1]"))
@example(VALID.replace("horizon 6 steps", "horizon unbounded"))
@example(VALID.replace("integer(r)", 'r["a"] + 2 * r["b"] == 17.5').replace("budget auto", "estimate mle()"))
@example(VALID.replace("population 40", "population 1"))
def test_mutated_policies_compile_or_are_refused(tmp_path, text):
    """A valid policy with random damage gives a verified plan or a PolicyError with findings."""
    outcome(tmp_path / "p.policy", text)
