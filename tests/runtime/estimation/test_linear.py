"""Straight lines between the values there are, for every series by itself."""

from __future__ import annotations

import numpy as np

from policyc_runtime.estimation.constraints import ConstraintSet
from policyc_runtime.estimation.linear import Linear

NAN = float("nan")


def test_lines_go_from_value_to_value() -> None:
    """Level before the first and after the last; 0 where nothing is known; steps without noise's size have no value."""
    noisy = np.array([[NAN, NAN, 5.0], [2.0, NAN, NAN], [NAN, NAN, 9.0], [4.0, NAN, NAN], [NAN, NAN, 1.0]])
    scales = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    found = Linear().estimate_series(noisy, scales, 0, None, ConstraintSet((), 3, integer=False), None, None)
    assert found.tolist() == [[2, 0, 5], [2, 0, 7], [3, 0, 9], [4, 0, 9], [4, 0, 9]]
    late = Linear().estimate_series(noisy, scales, 3, None, ConstraintSet((), 3, integer=False), None, None)
    assert late.tolist() == found[3:].tolist()
