"""What the published deployments of the gallery state of themselves."""

from __future__ import annotations

import math
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "policies" / "deployments"
STEPS = {
    "mobility": 70,
    "symptoms": 28,
    "vaccination": 12,
    "census": 1,
    "pageviews": 30,
    "pageviews_2017": 60,
    "editors": 24,
    "flows": 8,
    "broadband": 1,
    "load_shape": 24,
}
"""How many steps the events of each have."""

READY = {"pageviews_2017"}  # counts without users

ROOT2 = math.sqrt(2)
CENSUS = {
    **dict.fromkeys(("nation2", "state2"), 2.134),
    **dict.fromkeys(("county2", "tract2", "place2", "tribal2"), 0.159),
    **dict.fromkeys(("nation1", "state1", "county1", "tract1", "place1"), 0.008),
}
PUBLISHED = {  # standard deviation of the noise by release, as the published parameters have it
    "mobility": {name: 4 / part * ROOT2 for name, part in (("counties", 0.88), ("regions", 0.44), ("countries", 0.44))},
    "symptoms": {
        **{name: 3 / part * ROOT2 for name, part in (("s0", 0.168), ("s1", 0.37), ("s2", 1.1))},
        **{name: 1 / part * ROOT2 for name, part in (("n0", 0.0046), ("n1", 0.0094), ("n2", 0.028))},
    },
    "census": {name: math.sqrt(9 / (2 * part)) for name, part in CENSUS.items()},
    "vaccination": dict.fromkeys(
        (f"{total}{level}" for total in ("", "all_") for level in ("zips", "counties", "states", "countries")),
        math.sqrt(4 * (3 + 1) / 0.2959),
    ),
    "pageviews": {"pageviews": math.sqrt(10 / (2 * 0.015))},
    "pageviews_2017": {"pageviews": 30 * ROOT2},
    "editors": {"editors": ROOT2 / 1.1, "edits": 101 / 0.9 * ROOT2},
    "flows": {"trips": ROOT2 / 0.66},
    "broadband": {"devices": 2 / 0.2 * ROOT2},
    "load_shape": {"observed": 27 * math.sqrt(48) / 0.74816, "predicted": 27 * math.sqrt(48) / 0.74816},
}

OF_ALL = {"vaccination"}  # what all releases lose together was published, not what each does; here they lose alike
