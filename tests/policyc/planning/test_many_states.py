"""Of chains of many states the table does not predict what takes minutes, says why, and still takes it by name."""

from __future__ import annotations

import pytest

from policyc import compile_policy
from policyc.planning import plan as planning

POLICY = """policy visits "visitors by place"
stream visits {{
  user person
  time at
  cell place in {{"a", "b"}} otherwise "away"
  step 1h
  horizon 4 steps
  population 40
  start "2026-01-01"
}}
release there = count(visits) by place
target alpha_dpt(alpha = 1.0)
correlation markov(
  forward = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], initial = stationary, evidence = "x"
)
budget uniform
estimate {estimate}
deliver offline
postprocess there {{ sum(there) == population, there >= 0, integer(there) }}
"""


@pytest.mark.parametrize(
    ("most", "estimate", "predicted"), [(3, "auto", True), (2, "auto", False), (2, "joint_map()", True)]
)
def test_joint_map_of_many_states(most, estimate, predicted, tmp_path, monkeypatch) -> None:
    """With three states, each side of a limit of two."""
    monkeypatch.setattr(planning, "MOST_SIMULATED", most)
    (tmp_path / "visits.policy").write_text(POLICY.format(estimate=estimate))
    part = compile_policy(tmp_path / "visits.policy").plan.releases[0]
    row = next(row for row in part.candidates if row.estimator == "joint_map()")
    assert (row.predicted_error is not None) is predicted
    assert predicted or row.reason == planning.UNSIMULATED
