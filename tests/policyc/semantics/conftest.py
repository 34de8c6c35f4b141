"""Ways to a policy's findings that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.diagnostics import Diagnostic, PolicyError, Source
from policyc.semantics import check_policy, resolve_policy
from policyc.semantics.policy import Policy
from policyc.syntax import parse_policy

Findings = Callable[[str], tuple[Policy | None, list[Diagnostic]]]

COUNT = """\
policy p "one line"
stream s { user u time t step 5min horizon 288 steps }
release r = count(s)
target event_level(epsilon = 1.0)
"""
ROOMS = """\
policy p "one line"
stream s { user u time t cell room in {"a", "b"} otherwise "away" step 5min horizon 288 steps population 500 }
release r = count(s) by room
target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], initial = stationary, evidence = "e")
"""


def findings_of(text: str, directory: Path = Path("nowhere")) -> tuple[Policy | None, list[Diagnostic]]:
    """The policy of a text and everything that is found, in source order, whichever pass found it."""
    source = Source("test.policy", text)
    try:
        tree = parse_policy(source)
    except PolicyError as error:
        return None, list(error.diagnostics)
    policy, found = resolve_policy(tree, directory)
    if policy is not None:
        found = sorted([*found, *check_policy(policy)], key=lambda d: (d.span, d.code))
    return policy, found


@pytest.fixture
def findings(tmp_path: Path) -> Findings:
    """`findings(text)`: the policy and its findings, with files looked up in `tmp_path`."""
    return lambda text: findings_of(text, tmp_path)


@pytest.fixture(scope="session")
def findings_anywhere(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """`findings(text)` of policies without files of their own; shared by the examples of a property."""
    folder = tmp_path_factory.mktemp("policies")
    return lambda text: findings_of(text, folder)


@pytest.fixture
def count_policy() -> str:
    """A small policy of one count without findings."""
    return COUNT


@pytest.fixture
def rooms_policy() -> str:
    """A small alpha-DP_T policy with two cells and `away`, without findings."""
    return ROOMS
