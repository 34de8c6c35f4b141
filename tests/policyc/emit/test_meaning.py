"""Block L: posterior bounds and tests."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from policyc import compile_policy
from policyc.emit.blocks.meaning import meaning, posterior_bound, posterior_picture, pure_power
from policyc_runtime.plan import Plan


@pytest.mark.parametrize("loss", ["0.01", "1", "3", "20"])
def test_bounds_are_those_of_randomized_response(loss: str) -> None:
    """The attacker on a randomized response of that loss, computed from its law, reaches the bounds exactly."""
    e = math.exp(float(loss))
    truth = e / (1 + e)
    for prior in (0.1, 0.5):
        posterior = prior * truth / (prior * truth + (1 - prior) * (1 - truth))
        assert float(posterior_bound(Decimal(str(prior)), Decimal(loss))) == pytest.approx(posterior, rel=1e-12)
    for rate in (0.01, 0.05):
        lie = 1 - truth
        power = truth * rate / lie if rate <= lie else truth + (1 - truth) * (rate - lie) / (1 - lie)
        assert float(pure_power(Decimal(str(rate)), Decimal(loss))) == pytest.approx(power, rel=1e-9)


def test_every_promise_says_what_it_means(fleet: Plan) -> None:
    """Unit and time span stand beside the numbers, which are rounded up; the certain stay certain."""
    (entry,) = meaning(fleet)
    told: Any = entry
    assert told["beliefs"] == [{"before": "10 %", "after": "23.2 %"}, {"before": "50 %", "after": "73.2 %"}]
    assert told["tests"] == [
        {"false_positives": "1 %", "power": "2.72 %"},
        {"false_positives": "5 %", "power": "13.6 %"},
    ]
    assert told["unit_of_privacy"] in told["sentence"]
    assert told["time_scope"] in told["sentence"]
    picture: Any = posterior_picture(fleet)
    after = [Decimal(y) for _, y in picture["series"][0]["points"]]
    assert after == sorted(after)
    assert (after[0], after[-1]) == (0, 100)


def test_a_user_level_promise_is_told_from_its_exact_curve(compiled_gallery) -> None:
    """For (epsilon, delta) the numbers are no worse than those of the two numbers alone, and better than certainty."""
    from policyc_check.plan.targets import UserLevel

    plan = compiled_gallery("bikeshare").plan
    target = plan.targets[0]
    assert isinstance(target, UserLevel)
    told: Any = meaning(plan)[0]
    for row, rate in zip(told["tests"], (0.01, 0.05), strict=True):
        alone = math.exp(float(target.epsilon)) * rate + float(target.delta)
        assert rate < float(row["power"].removesuffix(" %")) / 100 <= alone * 1.01
    assert [row["before"] for row in told["beliefs"]] == ["90 %", "50 %"]
    for row in told["beliefs"]:
        assert float(row["before"].removesuffix(" %")) <= float(row["after"].removesuffix(" %")) < 100


@pytest.mark.parametrize(
    ("neighbors", "guess"),
    [("add_remove", "whether these events are in the data"), ("replace", "between two courses of these events")],
)
def test_events_of_a_step_are_there_or_are_others(neighbors: str, guess: str, tmp_path: Path) -> None:
    """What is guessed is what neighbors differ in."""
    policy = tmp_path / "visits.policy"
    policy.write_text(f"""policy visits "visitors"
stream seen {{ user person time at step 1h horizon 24 steps start "2026-01-01" }}
release there = count(seen)
target event_level(epsilon = 1.0, delta = 1e-6, neighbors = {neighbors})
deliver realtime
""")
    (told,) = meaning(compile_policy(policy).plan)
    assert isinstance(told, dict)
    assert f"best guess {guess}, all else being known" in str(told["method"])
