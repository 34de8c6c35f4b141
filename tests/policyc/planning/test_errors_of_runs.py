"""The stated error of a schedule of many runs is the mean of every run's, though few of them are computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc import compile_policy
from policyc.planning import comparison

POLICY = """policy tiny "Users in two rooms, hourly"
stream visits {
  user visitor time seen_at cell room in {"hall", "yard"} otherwise "elsewhere"
  step 1h horizon 24 steps population 500 start "2026-09-07"
}
release present = count(visits) by room
target alpha_dpt(alpha = 1.0)
correlation markov(
  forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], initial = stationary, evidence = "survey")
deliver realtime
postprocess present { sum(present) == population, present >= 0, integer(present) }
"""


def test_few_runs_stand_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a prior that is wrong at first as well: its first steps err most, and stand for no later ones."""
    (tmp_path / "tiny.policy").write_text(POLICY)

    def errors() -> dict[tuple[str, str], float]:
        (release,) = compile_policy(tmp_path / "tiny.policy").plan.releases
        return {(one.schedule, one.estimator): one.predicted_error or 0.0 for one in release.candidates}

    few = errors()
    monkeypatch.setattr(comparison, "EARLY_RUNS", 1_000)
    for which, error in errors().items():
        assert few[which] == pytest.approx(error, rel=0.02), which
