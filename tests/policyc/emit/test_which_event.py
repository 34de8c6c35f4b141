"""What the certificate says of a user's events in a step is what a run counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc import compile_policy
from policyc.emit.blocks.product import product
from policyc_runtime.sources import read_events

POLICY = """policy p "places"
stream s {{ user u time t cell place in {{"a", "b", "c"}} step 1d horizon 2 steps start "2026-01-01" }}
release there = count(s) by place
{also}
target {target}
{bound}
deliver realtime
"""
USER = "user_level(epsilon = 9.0, delta = 1e-6, neighbors = add_remove)"
SPENT = "release spent = sum(s.money, clamp = 0 .. 5) by place"
WITHIN = """w_event(epsilon = 9.0, window = 2 steps)
target user_level(epsilon = 9.0, delta = 0, neighbors = add_remove, per = 1h)"""
ASSUMED = """correlation none(evidence = "e")
participation at_most(1 step, per = 1h, per_step = 2, assumed = "two doors")
mechanism budget_distribution()"""
LAST, FIRST = "the last counts: it says the `place`", "the first counts: it says the `place`"


@pytest.mark.parametrize(
    ("also", "target", "bound", "said", "counted"),
    [
        ("", USER, "participation at_most(2 steps, enforced = keep_first)", LAST, [0, 0, 1]),
        (SPENT, USER, "participation at_most(2 steps, enforced = keep_first)", FIRST, [1, 0, 0]),
        (
            "",
            USER,
            "participation at_most(2 steps, per_step = 2, enforced = keep_first)",
            "the first 2 count",
            [1, 1, 0],
        ),
        ("", "event_level(epsilon = 9.0)", 'correlation none(evidence = "e")', LAST, [0, 0, 1]),
        (SPENT, "event_level(epsilon = 9.0)", 'correlation none(evidence = "e")', FIRST, [1, 0, 0]),
        ("", WITHIN, ASSUMED, "the first 2 count", [1, 1, 0]),
    ],
)
def test_the_page_says_which_event_counts(
    tmp_path: Path, also: str, target: str, bound: str, said: str, counted: list[int]
) -> None:
    (tmp_path / "p.policy").write_text(POLICY.format(also=also, target=target, bound=bound))
    (tmp_path / "e.csv").write_text(
        "u,t,place,money\n"
        + "".join(f"x,2026-01-01T{8 + hour:02}:00:00,{place},1\n" for hour, place in enumerate("abc"))
    )
    plan = compile_policy(tmp_path / "p.policy").plan
    assert said in str(product(plan)["sentence"])
    assert read_events(tmp_path / "e.csv", plan, steps=1).counts["there"].tolist() == [counted]
