"""How many streams are tried until an error is known accurately."""

from __future__ import annotations

import math

import numpy as np
import pytest

from policyc.planning.trials import SPARE, Estimated, streams_for


@pytest.mark.parametrize(
    ("errors", "streams"),
    [
        ([Estimated(1.0, 0.011)], math.ceil(16 * SPARE * 1.1**2)),
        ([Estimated(1.0, 0.011), Estimated(2.0, 0.0001)], math.ceil(16 * SPARE * 1.1**2)),
        ([Estimated(1.0, 0.011), Estimated(1.0, 0.3)], 32),
        ([Estimated(0.0, 0.3)], 32),
        ([Estimated(-1.0, 0.3)], 32),
    ],
)
def test_streams_follow_from_the_spread_of_the_least_accurate_error(errors: list[Estimated], streams: int) -> None:
    """And are twice as many at most, also where the mean tells nothing of a relative error."""
    assert streams_for(errors, 16) == streams


def test_so_many_streams_are_accurate_most_often() -> None:
    """Of errors spread like 0.06 of their mean 16 are too few; asked twice, most often there are enough."""
    random = np.random.default_rng(5)
    enough = 0
    for _ in range(200):
        away = 1.0 + 0.06 * random.standard_normal(200)
        count = 16
        for _ in range(2):
            found = Estimated(float(away[:count].mean()), float(away[:count].std(ddof=1) / math.sqrt(count)))
            count = count if found.accurate else streams_for([found], count)
        assert 16 <= count <= 64
        enough += float(away[:count].std(ddof=1) / math.sqrt(count)) <= 0.01 * away[:count].mean()
    assert enough > 120
