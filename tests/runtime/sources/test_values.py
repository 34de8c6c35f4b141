"""Values that a sum adds up: what is no finite number is refused, however a file says what its columns hold."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from policyc import compile_policy
from policyc_runtime.errors import DataError
from policyc_runtime.sources import read_events

POLICY = """policy spending "Money by hour"
stream seen { user person time at step 1h horizon 24 steps start "2026-03-27" }
release m = sum(seen.money, clamp = 0 .. 1000)
target user_level(epsilon = 5.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, enforced = keep_first)
deliver offline
"""


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_what_is_no_finite_number_is_refused(tmp_path: Path, bad: float | None, kind: pa.DataType, statistics: bool):
    """The least and largest value that Parquet notes of a column leave NaN out: filters must not go by them."""
    (tmp_path / "s.policy").write_text(POLICY)
    plan = compile_policy(tmp_path / "s.policy").plan
    for place in (0, 150, None):
        values = [1.0] * 200
        if place is not None:
            values[place] = bad  # type: ignore[call-overload]
        columns = {
            "person": [f"p{user}" for user in range(200)],
            "at": [datetime(2026, 3, 27) + timedelta(minutes=user) for user in range(200)],
            "money": pa.array(values, kind),
        }
        file = tmp_path / f"{place}.parquet"
        pq.write_table(pa.table(columns), file, write_statistics=statistics, row_group_size=64)
        if place is None:
            counted = read_events(file, plan, steps=4).counts["m"]
            assert np.ravel(counted).tolist() == [60, 60, 60, 20]
        else:
            with pytest.raises(DataError, match="money") as refused:
                read_events(file, plan, steps=4)
            assert (refused.value.code, refused.value.where) == ("E0836", f"{file}: row {place + 1}")
