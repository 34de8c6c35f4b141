"""What is accepted as kept, of noise that has a largest loss, is what enumerating all outputs says."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_check.plan.claims import Degradation
from policyc_check.users.claims import kept_by_noise, promised_user_level
from policyc_runtime.plan import Plan

POLICY = """policy seen "Visitors, and where they were"
stream visits {{
  user person time at cell place in {{"a", "b", "c", "d", "e"}} step 1h horizon 4 steps start "2026-01-01"
}}
release there = count(visits)
release where = count(visits) by place
target user_level(epsilon = 2.0, delta = {delta}, neighbors = add_remove)
participation at_most(1 steps, assumed = "a ticket")
deliver realtime
mechanism laplace()
estimate none()
"""


def law(scale: float, moved: int, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise of a whole number with and without one user, who moves it so far: the probability of every output."""
    outputs = np.arange(-reach, reach + 1)
    weight = (1 - math.exp(-1 / scale)) / (1 + math.exp(-1 / scale))
    return weight * np.exp(-np.abs(outputs) / scale), weight * np.exp(-np.abs(outputs - moved) / scale)


def enumerated(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """All outputs of all releases at one step: their probabilities with and without a user of the worst kind."""
    both = [law(release.mechanism.noise_size, int(release.l1_sensitivity), 120) for release in plan.measured]
    with_user, without = (reduce(np.multiply.outer, laws).ravel() for laws in zip(*both, strict=True))
    return with_user, without


@pytest.mark.parametrize("delta", ["0", "1e-4"])
def test_what_is_kept_is_what_outputs_say(delta: str, tmp_path: Path) -> None:
    """Of two releases whose noise differs: a hair below what they tell is refused, as is half of it."""
    (tmp_path / "seen.policy").write_text(POLICY.format(delta=delta))
    plan = compile_policy(tmp_path / "seen.policy").plan
    (target,) = promised_user_level(plan)
    p, q = enumerated(plan)
    most = float(np.abs(np.log(p) - np.log(q)).max())
    kept = {}
    for part in (0.3, 0.5, 0.7, 0.9, 0.97, 0.999, 1.001, 1.2):
        epsilon = Decimal(str(round(part * most, 9)))
        true = max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))
        point = Degradation(participation=1, epsilon=epsilon)
        kept[part] = kept_by_noise(plan, target, point, 1)[0]
        assert not kept[part] or true <= float(target.delta) + 1e-12, (part, true)
    assert (kept[0.5], kept[0.97]) == (False, False)
    assert (kept[1.001], kept[1.2]) == (True, True)
