"""Numbers that no calendar, no machine and no promise has are refused where they are written, with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt import policyc

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
postprocess n { sum(n) == population, n >= 0, integer(n), }
"""


def changed(*pairs: tuple[str, str]) -> str:
    text = POLICY
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


LATE = ("population 50", 'population 50\n  start "9999-12-25"')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed(("1h", "1d"), LATE), "48 steps of this stream end after the year 9999"),
        (changed(("1h", "1d"), ("48 steps", "6 steps"), LATE), None),
        (changed(("1h", "1d"), ("48 steps", "7 steps"), LATE), "7 steps of this stream end after"),
        (changed(("1h", "1w"), ("48 steps", "unbounded"), LATE), "the first step of this stream end"),
        (changed(("1h", "1000000d"), ("48 steps", "20 steps")), "20 steps of this stream end after"),
        (changed(("1h", "99999999999w")), "must be longer than nothing and at most 3_650_000d"),
        (changed(("population 50", 'population 50\n  start "0001-01-01T00:00+05:00"')), "before the year 1"),
        (changed(("population 50", 'population 50\n  start "2013-01-01T00:00+99:00"')), "or no such zone"),
    ],
)
def test_all_steps_lie_in_the_calendar(tmp_path: Path, text: str, said: str | None) -> None:
    """A horizon that ends after the year 9999, and a step longer than all years, are E0209; a day less is not."""
    (tmp_path / "p.policy").write_text(text)
    for command in ("check", "compile", "simulate"):
        found = policyc(command, "p.policy", cwd=tmp_path)
        if said is None:
            assert "E0209" not in found.stderr
            assert found.returncode in {0, 1}
        else:
            assert found.returncode == 1, found.stderr
            assert found.stderr.count("error[") == 1
            assert "error[E0209]" in found.stderr
            assert said in found.stderr
            assert "= help" in found.stderr


def test_simulated_events_of_long_steps_stay_in_the_calendar(tmp_path: Path) -> None:
    """Without a start events are drawn from 2026 on: what ends after the year 9999 is refused, fewer steps are not."""
    (tmp_path / "p.policy").write_text(changed(("1h", "1000000d"), ("48 steps", "3 steps")))
    refused = policyc("simulate", "p.policy", "--events", "e.csv", cwd=tmp_path)
    assert refused.returncode == 1
    assert "error[E0812]" in refused.stderr
    assert policyc("simulate", "p.policy", "--events", "e.csv", "--steps", 2, cwd=tmp_path).returncode == 0


def test_an_endless_stream_of_long_steps_is_simulated_as_far_as_the_calendar_goes(tmp_path: Path) -> None:
    """Ten years a step, without end: what is simulated ends before the year 10000, and says so by its dates."""
    text = changed(("1h", "3650d"), ("48 steps", "unbounded"), LATE).replace("9999-12-25", "9900-01-01")
    text = text.replace("event_level(epsilon", "alpha_dpt(alpha").replace(
        "deliver",
        "correlation markov(forward = [[0.5, 0.4, 0.1], [0.4, 0.5, 0.1], [0.2, 0.2, 0.6]], initial = stationary, "
        'evidence = "e")\ndeliver',
    )
    (tmp_path / "p.policy").write_text(text)
    done = policyc("simulate", "p.policy", "--repeat", 1, "--output", "out.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "10 steps" in done.stdout
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + 10 * 3


@pytest.mark.parametrize("epsilon", [40, 75, 100])
def test_a_promise_that_hardly_any_noise_keeps_is_planned(tmp_path: Path, epsilon: int) -> None:
    """Errors that are nothing but rounding to zero are computed with: the plan compiles, and verifies."""
    (tmp_path / "p.policy").write_text(changed(("epsilon = 1.0", f"epsilon = {epsilon}")))
    made = policyc("compile", "p.policy", "-o", "p.plan", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    checked = policyc("verify", "p.plan", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "p.plan", "--seed", "-1", "--repeat", 1),
        ("simulate", "p.plan", "--seed", "-1", "--events", "e.csv"),
        ("simulate", "p.plan", "--repeat", 10**9),
        ("audit", "p.plan", "--confidence", "nan"),
        ("audit", "p.plan", "--runs", 10**9),
    ],
)
def test_options_out_of_range_are_wrong_usage(tmp_path: Path, words: tuple[object, ...]) -> None:
    """A seed, a number of runs, a confidence: exit 2 before anything is read, never a word about the plan."""
    refused = policyc(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert "policyc" in refused.stderr
    assert "E0801" not in refused.stderr
    assert "internal" not in refused.stderr
    assert not list(tmp_path.iterdir())
