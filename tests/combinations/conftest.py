"""Lets these tests import `combination`, and says which combinations are run."""

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

ALWAYS = (1, 2, 6, 8)  # of the sample, whose first say most that none before them says; these are soon planned
REFUSED = 8  # of its last ones


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "combination" not in metafunc.fixturenames:
        return
    from combination import a_sample, every_combination, refusals

    chosen = every_combination() if metafunc.config.getoption("--full") else a_sample()
    always = {*ALWAYS, *range(len(chosen) - REFUSED, len(chosen))}  # the others are laws
    spare = set()  # with `--full` alone: others say all that they say
    if not metafunc.config.getoption("--full"):
        words = Counter(word for one in chosen if not refusals(one) for word in asdict(one).items())
        for place, one in enumerate(chosen):
            if place not in always and not refusals(one) and all(words[word] > 1 for word in asdict(one).items()):
                words.subtract(asdict(one).items())
                spare.add(place)
    metafunc.parametrize(
        "combination",
        [
            pytest.param(one, id=one.named(), marks=() if place in always else pytest.mark.law)
            for place, one in enumerate(chosen)
            if place not in spare
        ],
    )
