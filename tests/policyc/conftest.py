"""Lets these tests import `prompt`; filters for which few steps are many."""

import sys
from collections import deque
from pathlib import Path

import pytest

from policyc_runtime.estimation import gains, kalman, recursions, safeguard

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def soon_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters that settle on what users move like after four steps, and forget values of few steps ago."""
    monkeypatch.setattr(safeguard, "STEPS_LOOKED_AT", 4)
    monkeypatch.setattr(recursions, "PIECE", 2)
    monkeypatch.setattr(gains, "FORGOTTEN", 0.3)
    monkeypatch.setattr(kalman, "_growing", deque(maxlen=4))
