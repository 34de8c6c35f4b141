"""Planning and verifying a long stream, beside the recursion of the paper written as a plain loop, in one run."""

from __future__ import annotations

import time

import numpy as np
import pytest

from policyc.planning.leakage.loss import LossFunction
from policyc.planning.plan import make_plan
from policyc.planning.schedules import Group, allocate_quantified
from policyc.semantics.checked import check_file
from policyc_check.steps.chains import Chain
from policyc_runtime.refusal import verify

pytestmark = pytest.mark.law

STEPS = 100_000


def test_a_hundred_thousand_steps(gallery, tmp_path):
    """T = 100,000 steps of the traffic policy: seconds to plan and to verify, and the ratio to a plain recursion."""
    path = tmp_path / "traffic.policy"
    path.write_text((gallery / "traffic.policy").read_text().replace("288 steps", f"{STEPS} steps"))
    policy = check_file(path)[2]
    start = time.perf_counter()
    plan, _ = make_plan(policy, [])
    planned = time.perf_counter()
    verify(plan)
    verified = time.perf_counter()
    loss = LossFunction(
        Chain(forward=np.array(plan.correlation.chains[0].forward, float), initial="stationary").backward
    )
    value = 0.0
    for _ in range(STEPS):
        value = 0.2 + loss(value)
    looped = time.perf_counter()
    group = Group(None, plan.correlation.chains[0].chain())
    allocate_quantified(1.0, STEPS, [group])
    allocated = time.perf_counter()
    assert plan.releases[0].schedule.length == STEPS
    print(f"plan {planned - start:.2f} s, verify {verified - planned:.2f} s for T = {STEPS:,}")
    print(
        f"quantified alone {allocated - looped:.2f} s; the backward recursion as a plain loop {looped - verified:.2f} s"
    )
