"""Lets these tests import `combination`, and says which combinations are run."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "combination" not in metafunc.fixturenames:
        return
    from combination import a_sample, every_combination

    chosen = every_combination() if metafunc.config.getoption("--full") else a_sample()
    metafunc.parametrize("combination", chosen, ids=[one.named() for one in chosen])
