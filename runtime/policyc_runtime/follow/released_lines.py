"""Released values as NDJSON, step by step: one object a value, with the fields of the released file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from policyc_runtime.published_values import NOT_A_RELEASE, MadeSeries, Release, Series


def released_lines(release: Release, first: int, stop: int) -> Iterator[str]:
    """What steps `first` to `stop` - 1, all of them there, add to what is published; a line ends in a line feed.

    Values that are left out are null, as are noisy ones of steps at which nothing is drawn. What is made of several
    steps stands with the last of them.
    """
    for step in range(first, stop):
        for name, series in release.files.items():
            rows = _made_rows(series, step) if isinstance(series, MadeSeries) else _rows(series, step, release.first)
            for begins, cell, values in rows:
                place: dict[str, Any] = {"release": name, "step": begins, "time": release.times[begins - release.first]}
                if series.column is not None:
                    place[series.column] = cell
                mark = {} if release.is_release else {"simulated": NOT_A_RELEASE}
                yield json.dumps(place | values | mark, ensure_ascii=False) + "\n"


Row = tuple[int, str, dict[str, Any]]


def _rows(series: Series, step: int, first: int) -> Iterator[Row]:
    at = step - first
    values = zip(series.cells, series.noisy[at].tolist(), series.released[at].tolist(), strict=True)
    for cell, noise, value in values:
        yield step, cell, {"noisy": None if series.skipped[at] else noise, "released": value}


def _made_rows(series: MadeSeries, step: int) -> Iterator[Row]:
    for row in range(series.rows(step), series.rows(step + 1)):
        for cell, value in zip(series.cells, series.released[row].tolist(), strict=True):
            yield series.begins[row], cell, {"released": value}
