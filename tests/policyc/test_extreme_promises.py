"""Numbers of a promise from one end of their range to the other: each plan works, or one finding says why not.

By default every kind of plan is tried with a few of the numbers; with `--full` with all of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from policyc.cli import main

CHAIN = """correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], initial = stationary,
  evidence = "a survey")"""
START = CHAIN.replace("stationary", "[1, 0, 0]")
NONE = 'correlation none(evidence = "a survey")'
AWAY = 'cell place in {"A", "B"} otherwise "away"'
CELLS = 'cell place in {"A", "B", "C"}'
BOUND = "participation at_most({bound} steps, per_step = {per_step}, spacing = {spacing} steps, enforced = keep_first)"

STEPS = {
    "alpha-DP_T": (AWAY, "target alpha_dpt(alpha = {e})", CHAIN, "offline"),
    "a window": (AWAY, "target alpha_dpt(alpha = {e}, window = 3 steps)", START, "realtime"),
    "no correlation": (AWAY, "target alpha_dpt(alpha = {e})", NONE, "realtime"),
    "event": (AWAY, "target event_level(epsilon = {e})", NONE, "realtime"),
    "w-event": (AWAY, "target w_event(epsilon = {e}, window = 3 steps)", NONE, "realtime"),
    "distribution": (
        AWAY,
        "target w_event(epsilon = {e}, window = 3 steps)\nmechanism budget_distribution()",
        NONE,
        "realtime",
    ),
    "absorption": (
        AWAY,
        "target w_event(epsilon = {e}, window = 3 steps)\nmechanism budget_absorption()",
        NONE,
        "realtime",
    ),
}
STREAMS = {
    "auto": "offline",
    "gaussian()": "realtime",
    "laplace()": "realtime",
    "binomial()": "realtime",
    "binary_tree()": "realtime",
    "toeplitz()": "realtime",
    "dft()": "offline",
    "dft(noise = laplace)": "within(2 steps)",
    "lmmse(weight = 0.5)": "realtime",
    "lmmse(weight = 0.1, noise = binomial)": "realtime",
    "filter_subsample(rate = 0.5)": "offline",
}
ONE_SERIES = {"fast(samples = 2)": "realtime", "subsample(rate = 0.5)": "offline"}

NUMBERS = ["1e-300", "1e-12", "1e-6", "0.01", "1", "30", "99", "100", "101", "355", "710", "1e3", "1e6", "1e7"]
DELTAS = ["1e-400", "1e-300", "1e-200", "1e-100", "1e-15", "9e-6", "0.009"]
SHAPES = [(12, 3, 1, 1), (1, 1, 1, 1), (4, 4, 5, 1), (3, 1, 2, 9), (2, 9, 1, 1), (5, 2, 4, 3)]


def policy(cell: str, target: str, more: str, deliver: str, steps: int = 12) -> str:
    by = " by place" if cell else ""
    return f"""policy extreme "numbers at the ends of their range"
stream trips {{ user who time at {cell} step 1h horizon {steps} steps population 90 start "2026-01-05" }}
release seen = count(trips){by}
{target}
{more}
deliver {deliver}
"""


def user_level(mechanism: str, epsilon: str, delta: str, shape: tuple[int, int, int, int], neighbors: str) -> str:
    """A policy about all events of a user, over (steps, bound, per_step, spacing)."""
    steps, bound, per_step, spacing = shape
    cell, deliver = ("", ONE_SERIES[mechanism]) if mechanism in ONE_SERIES else (CELLS, STREAMS[mechanism])
    target = f"target user_level(epsilon = {epsilon}, delta = {delta}, neighbors = {neighbors})"
    bounds = BOUND.format(bound=bound, per_step=per_step, spacing=spacing)
    return policy(cell, target, f"{bounds}\nmechanism {mechanism}", deliver, steps)


@pytest.fixture
def works_or_is_refused(monkeypatch, capsys) -> Callable[..., bool]:
    """Whether a policy compiles; then all that can be done with its plan ends without an internal error."""
    return partial(_works_or_is_refused, monkeypatch, capsys)


def _works_or_is_refused(monkeypatch, capsys, folder: Path, text: str, *, attacked: bool) -> bool:
    (folder / "extreme.policy").write_text(text, encoding="utf-8")
    plan = str(folder / "extreme.plan")

    def called(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["policyc", *words])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capsys.readouterr()
        assert done.value.code in (None, 0, 1), (words, err, text)
        return f"{out}{err}"

    said = called("compile", str(folder / "extreme.policy"), "--output", plan)
    if not Path(plan).exists():
        assert len(re.findall(r"^error\[E0\d{3}\]", said, re.MULTILINE)) == 1, said
        return False
    called("show", plan)
    called("simulate", plan)
    if attacked:
        called("audit", plan, "--runs", "40")
    assert "error[" not in called("verify", plan)
    return True


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", STEPS)
def test_promises_about_single_steps(kind: str, tmp_path: Path, full: bool, works_or_is_refused) -> None:
    """Every number of nats is planned, or refused with one finding."""
    cell, target, more, deliver = STEPS[kind]
    found = {}
    for number in NUMBERS if full else NUMBERS[list(STEPS).index(kind) % 3 :: 3]:
        (folder := tmp_path / number).mkdir()
        found[number] = works_or_is_refused(folder, policy(cell, target.format(e=number), more, deliver), attacked=full)
    assert all(found[number] == (float(number) <= 100 and float(number) >= 1e-12) for number in found)


@pytest.mark.sampled(0, laws=5)
@pytest.mark.parametrize("mechanism", [*STREAMS, *ONE_SERIES])
def test_promises_about_all_events_of_a_user(mechanism: str, tmp_path: Path, full: bool, works_or_is_refused) -> None:
    """Every epsilon, every delta and every participation bound is planned, or refused with one finding."""
    tried = [(number, "1e-6", SHAPES[0], "add_remove") for number in NUMBERS]
    tried += [("1", delta, SHAPES[0], "replace") for delta in DELTAS]
    tried += [(number, delta, SHAPES[0], "replace") for number, delta in (("1e-12", "1e-200"), ("100", "1e-200"))]
    tried += [("0.5", "1e-7", shape, neighbors) for shape in SHAPES for neighbors in ("add_remove", "replace")]
    place = [*STREAMS, *ONE_SERIES].index(mechanism)
    works = []
    for turn, (epsilon, delta, shape, neighbors) in enumerate(tried if full else [tried[4], *tried[place % 12 :: 12]]):
        (folder := tmp_path / str(turn)).mkdir()
        works.append(
            works_or_is_refused(folder, user_level(mechanism, epsilon, delta, shape, neighbors), attacked=full)
        )
    assert True in works
