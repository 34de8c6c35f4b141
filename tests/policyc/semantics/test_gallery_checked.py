from __future__ import annotations

import pytest

from policyc.semantics import check_policy, resolve_policy
from policyc.syntax import parse_policy, read_source


def found_in(path):
    policy, found = resolve_policy(parse_policy(read_source(path)), path.parent)
    assert policy is not None
    return [d.code for d in (*found, *check_policy(policy))]


@pytest.mark.parametrize("name", ["bikeshare", "checkins", "departures", "fleet", "speeds", "traffic", "wards"])
def test_policies_of_the_gallery_pass(gallery, name):
    """What this version plans has no finding, but that an enforced bound below the horizon drops events."""
    assert found_in(gallery / f"{name}.policy") == (["W0502"] if name == "speeds" else [])
