"""Events of the shape of ten published deployments, drawn from a seed: `python events.py pageviews views.csv`.

With `--cells` the list of cells that a policy names is written instead. Nothing here is data of anybody.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[np.generic]]
Rows = Iterable[tuple[str, ...]]


def zipf(size: int, power: float) -> NDArray[np.float64]:
    """Probabilities of ranks 1 to `size`, falling as their power."""
    weights = np.arange(1, size + 1, dtype=np.float64) ** -power
    return weights / weights.sum()


def moments(start: str, minutes: NDArray[np.int64]) -> NDArray[np.datetime64]:
    """The moments so many minutes after a start."""
    return np.datetime64(start, "s") + minutes.astype("timedelta64[m]")


def pages(count: int) -> Rows:
    """Names of pages."""
    return ((f"page-{number:04}",) for number in range(1, count + 1))


def pageviews(draw: np.random.Generator) -> Columns:
    """5,000 devices, 30 days, 2,000 pages by Zipf's law with power 1, 1 to 40 views a day."""
    devices, days = np.divmod(np.arange(5_000 * 30), 30)
    views = draw.integers(1, 41, devices.size)
    device, day = np.repeat(devices, views), np.repeat(days, views)
    page = draw.choice(2_000, device.size, p=zipf(2_000, 1.0))
    return {
        "device": np.char.mod("d%05d", device),
        "seen_at": moments("2023-02-06", day * 1440 + draw.integers(0, 1440, device.size)),
        "page": np.char.mod("page-%04d", page + 1),
    }


def pageviews_2017(draw: np.random.Generator) -> Columns:
    """Ready counts of 500 pages on 60 days, busier pages and busier days."""
    step, page = np.divmod(np.arange(60 * 500), 500)
    week = 1 + 0.2 * np.cos(2 * np.pi * step / 7)
    return {
        "step": step,
        "page": np.char.mod("page-%04d", page + 1),
        "count": draw.poisson(400_000 * zipf(500, 1.0)[page] * week),
    }


def flows(draw: np.random.Generator) -> Columns:
    """20,000 people on 8 weeks between 50 map cells, by a law of gravity; half of them travel in a week."""
    size, place = zipf(50, 0.8), draw.random((50, 2))
    apart = np.linalg.norm(place[:, None] - place[None], axis=2) + 0.05
    law = (size[:, None] * size[None] / apart**2).ravel()
    usual = draw.choice(2_500, 20_000, p=law / law.sum())
    week, person = np.nonzero(draw.random((8, 20_000)) < 0.5)
    return {
        "traveller": np.char.mod("t%05d", person),
        "departed_at": moments("2016-01-04", week * 10_080 + draw.integers(0, 10_080, week.size)),
        "flow": np.array([name for (name,) in flow_cells()])[usual[person]],
    }


def flow_cells() -> Rows:
    """Pairs of 50 map cells."""
    return ((f"c{here:02}-c{there:02}",) for here in range(50) for there in range(50))


def broadband(draw: np.random.Generator) -> Columns:
    """1,000 ZIP codes with lognormal numbers of households; every device is fast or slow, and uses services or not."""
    households = draw.lognormal(6.0, 1.0, 1_000).astype(np.int64) + 10
    place = np.repeat(np.arange(1_000), households)
    device = np.char.mod("d%07d", np.arange(place.size))
    zips = np.char.mod("%05d", 10_000 + place)
    fast, with_ = draw.random(place.size) < 0.6, draw.random(place.size) < 0.5
    speed = np.char.add(zips, np.where(fast, ":fast", ":slow"))
    use = np.char.add(zips, np.where(with_, ":with", ":without"))
    minute = draw.integers(0, 1440, 2 * place.size)
    return {
        "device": np.concatenate([device, device]),
        "seen_at": moments("2020-10-01", minute),
        "group": np.concatenate([speed, use]),
    }


def zip_groups(count: int = 1_000) -> Rows:
    """Four groups of each ZIP code."""
    return ((f"{10_000 + z:05}:{kind}",) for z in range(count) for kind in ("slow", "fast", "with", "without"))


def load_shape(draw: np.random.Generator) -> Columns:
    """4,948 customers whose use has a peak in the morning and one in the evening, with lognormal size."""
    customer, hour = np.divmod(np.arange(4_948 * 24), 24)
    shape = 0.4 + 0.5 * np.exp(-((hour - 8) ** 2) / 8) + 1.2 * np.exp(-((hour - 19) ** 2) / 10)
    size = draw.lognormal(0.0, 0.5, 4_948)[customer]
    predicted = shape * size
    observed = predicted * draw.lognormal(0.0, 0.2, hour.size)
    return {
        "customer": np.char.mod("k%04d", customer),
        "read_at": moments("2020-08-14", hour * 60),
        "observed": np.round(observed, 3),
        "predicted": np.round(predicted, 3),
    }


def mobility(draw: np.random.Generator) -> Columns:
    """20,000 accounts, 70 days, 3 categories in 40 counties of 8 regions, 0 to 8 places a day."""
    account, day = np.divmod(np.arange(20_000 * 70), 70)
    home = draw.choice(40, 20_000, p=zipf(40, 1.1))
    busy = 0.5 + 0.1 * np.cos(2 * np.pi * day / 7)
    visits = draw.binomial(8, np.clip(busy, 0, 1))
    account, day = np.repeat(account, visits), np.repeat(day, visits)
    away = draw.random(account.size) < 0.1
    county = np.where(away, draw.choice(40, account.size, p=zipf(40, 1.1)), home[account])
    return {
        "account": np.char.mod("a%05d", account),
        "arrived_at": moments("2020-01-03", day * 1440 + draw.integers(0, 1440, day.size)),
        "place": np.array([name for name, *_ in places()])[3 * county + draw.integers(0, 3, day.size)],
    }


def places() -> Rows:
    """Three categories in each of 40 counties; eight regions of five, in two countries."""
    for county in range(40):
        for category in ("retail", "transit", "parks"):
            yield (
                f"{category}:county-{county:02}",
                f"{category}:region-{county // 5}",
                f"{category}:country-{county // 20}",
            )


def symptoms(draw: np.random.Generator) -> Columns:
    """30,000 users, 28 days, 40 symptoms in 60 counties, Poisson 2 searches a day, symptoms by Zipf's law."""
    home = draw.choice(60, 30_000, p=zipf(60, 0.8))
    account, day = np.divmod(np.arange(30_000 * 28), 28)
    searches = draw.poisson(2.0, account.size)
    account, day = np.repeat(account, searches), np.repeat(day, searches)
    symptom = draw.choice(40, account.size, p=zipf(40, 1.3))
    return {
        "account": np.char.mod("a%05d", account),
        "asked_at": moments("2020-03-02", day * 1440 + draw.integers(0, 1440, day.size)),
        "query": np.array([name for name, *_ in queries()])[40 * home[account] + symptom],
    }


def queries() -> Rows:
    """40 symptoms in each of 60 counties; six states of ten."""
    for county in range(60):
        for symptom in range(40):
            here, state = f"county-{county:02}", f"state-{county // 10}"
            yield f"s{symptom:02}:{here}", f"s{symptom:02}:{state}", f"s{symptom:02}", here, state, "country"


def vaccination(draw: np.random.Generator) -> Columns:
    """50,000 users, 12 weeks, 3 categories in 200 ZIP codes of lognormal size, a search every other day."""
    size = draw.lognormal(0.0, 1.0, 200)
    home = draw.choice(200, 50_000, p=size / size.sum())
    account, day = np.nonzero(draw.random((50_000, 84)) < 0.2)
    category = draw.integers(0, 3, account.size)
    return {
        "account": np.char.mod("a%05d", account),
        "asked_at": moments("2021-01-04", day * 1440 + draw.integers(0, 1440, day.size)),  # as clocks there show it
        "category_zip": np.array([name for name, *_ in categories()])[3 * home[account] + category],
    }


def categories() -> Rows:
    """Three categories in each of 200 ZIP codes; 20 counties of ten, four states of five."""
    for place in range(200):
        names = f"{90_000 + place}", f"county-{place // 10:02}", f"state-{place // 50}", "country"
        for category in ("intent", "safety", "general"):
            code, *above = (f"{category}:{name}" for name in names)
            yield code, *above, *names


def editors(draw: np.random.Generator) -> Columns:
    """4,000 editors, 24 months, 60 groups, lognormal edits; half of them edit in a month."""
    group = draw.choice(60, 4_000, p=zipf(60, 1.0))
    month, editor = np.nonzero(draw.random((24, 4_000)) < 0.5)
    began = np.datetime64("2018-01", "M") + month.astype("timedelta64[M]")
    return {
        "editor_project_country": np.char.mod("e%04d", editor),
        "month_of": began.astype("datetime64[s]") + draw.integers(0, 28 * 86_400, month.size).astype("timedelta64[s]"),
        "group": np.char.mod("g%02d", group[editor]),
        "edits": np.ceil(draw.lognormal(2.0, 1.3, month.size)).astype(np.int64),
    }


def groups() -> Rows:
    """20 countries with three levels of activity each."""
    return ((f"g{number:02}",) for number in range(60))


def census(draw: np.random.Generator) -> Columns:
    """20,000 people in 30 tracts of 6 counties, one to four of 40 detailed groups each, by Zipf's law."""
    tract = draw.integers(0, 30, 20_000)
    many = draw.integers(1, 5, 20_000)
    person = np.repeat(np.arange(20_000), many)
    group = draw.choice(40, person.size, p=zipf(40, 1.5))
    return {
        "person": np.char.mod("p%05d", person),
        "counted_on": moments("2020-04-01", draw.integers(0, 1440, person.size)),
        "group": np.array([name for name, *_ in block_groups()])[40 * tract[person] + group],
    }


def block_groups() -> Rows:
    """40 detailed groups, five to one of the first level, in 30 tracts; places, a tribal area, counties and states."""
    for tract in range(30):
        place, county, state = f"place-{tract // 3}", f"county-{tract // 5}", f"state-{tract // 15}"
        for group in range(40):
            first, second, here = f"level-1-{group // 4}", f"level-2-{group:02}", f"tract-{tract:02}"
            both = [f"{one}:{area}" for area in (here, place) for one in (first, second)]
            wide = [f"{one}:{area}" for area in (county, state, "nation") for one in (first, second)]
            yield f"{second}:{here}:cell", *both, f"{second}:tribal-{tract // 10}", *wide


EVENTS: dict[str, Callable[[np.random.Generator], Columns]] = {
    "mobility": mobility,
    "symptoms": symptoms,
    "vaccination": vaccination,
    "pageviews": pageviews,
    "pageviews_2017": pageviews_2017,
    "editors": editors,
    "flows": flows,
    "broadband": broadband,
    "load_shape": load_shape,
    "census": census,
}
AREAS = ("tract1", "tract2", "place1", "place2", "tribal2", "county1", "county2", "state1", "state2")
CELLS: dict[str, tuple[tuple[str, ...], Callable[[], Rows]]] = {  # the names of columns, of cells that have levels
    "places.csv": (("place", "region", "country"), places),
    "queries.csv": (("query", "symptom_state", "symptom_country", "county", "state", "country"), queries),
    "categories.csv": (
        ("category_zip", "category_county", "category_state", "category_country", "zip", "county", "state", "country"),
        categories,
    ),
    "groups.csv": ((), groups),
    "block_groups.csv": (("group", *AREAS, "nation1", "nation2"), block_groups),
    "pages.csv": ((), lambda: pages(2_000)),
    "pages_2017.csv": ((), lambda: pages(500)),
    "flows.csv": ((), flow_cells),
    "zip_groups.csv": ((), zip_groups),
}


def write_events(name: str, file: Path, seed: int = 1) -> None:
    """Write the events of one deployment as CSV."""
    columns = EVENTS[name](np.random.default_rng(seed))
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.astype(str).tolist() for column in columns.values()), strict=True))


def write_cells(folder: Path) -> None:
    """Write the lists of cells that the policies name."""
    for name, (columns, rows) in CELLS.items():
        with (folder / name).open("w", newline="") as handle:
            csv.writer(handle, lineterminator="\n").writerows([*([columns] if columns else []), *rows()])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", choices=EVENTS)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cells", type=Path, metavar="FOLDER", help="write the lists of cells instead")
    asked = parser.parse_args()
    if asked.cells is not None:
        write_cells(asked.cells)
    elif asked.name is None or asked.file is None:
        parser.error("name a deployment and a file")
    else:
        write_events(asked.name, asked.file, asked.seed)


if __name__ == "__main__":
    main()
