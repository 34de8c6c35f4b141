"""Counts that need not be whole are published with the digits that noise leaves, the same ones everywhere."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_runtime.estimates import estimate_release
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.output import write_release
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims

POLICY = """
policy cars "cars on a road"
stream passages {{
  user plate
  time at
  step 1d
  horizon 30 steps
  start "2026-01-01"
}}
release there = count(passages)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(15 steps, assumed = "passes")
mechanism {mechanism}
deliver {deliver}
{demands}
"""
WAYS = [
    ("gaussian()", "realtime", ""),
    ("lmmse(weight = 0.5)", "realtime", "postprocess there { there >= 0 }"),
    ("dft(coefficients = 6)", "offline", "postprocess there { there >= 0, there <= 250 }"),
    ("gaussian()", "offline", "postprocess there { there - previous(there) <= 5 }"),
]
COUNTS = 200 + 5 * np.arange(30)[:, None] % 37


def published(folder: Path, way: tuple[str, str, str]):
    mechanism, deliver, demands = way
    (folder / "cars.policy").write_text(POLICY.format(mechanism=mechanism, deliver=deliver, demands=demands))
    plan = compile_policy(folder / "cars.policy").plan
    ledger = folder / "ledger.sqlite"
    for steps in (30,) if deliver == "offline" else (7, 30):
        done = release(plan, COUNTS[:steps], ledger, steps=steps, pin=None)
    return plan, done, ledger


def assert_explained(plan, ledger: Path) -> None:
    """What verifies a ledger finds its published values again."""
    (claim,) = [claim for claim in ledger_claims(plan, ledger) if "are what its estimator makes" in claim.name]
    assert claim.holds, claim.detail


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_file_ledger_and_arrays_have_the_same_few_digits(way, tmp_path):
    """At most three digits behind a thousandth of the noise; the ledger verifies, and the file against it."""
    plan, done, ledger = published(tmp_path, way)
    (file,) = write_release(done, tmp_path / "out.csv")
    rows = [row["released"] for row in csv.DictReader(file.read_text().splitlines())]
    assert [float(text) for text in rows] == done.released[:, 0].tolist()
    with LedgerReader.open_read_only(ledger) as book:
        assert [json.loads(entry.published)[0] for entry in book.entries] == done.released[:, 0].tolist()
    assert_explained(plan, ledger)
    found = list(release_claims(plan, ledger, file))
    assert all(claim.holds for claim in found), found
    predicted = plan.releases[0].predicted
    noise = (predicted.without_postprocessing or predicted.published) ** 0.5  # a bound, where nobody says more
    digits = max(len(text.partition(".")[2]) for text in rows)
    assert 1 <= digits <= max(1, np.ceil(-np.log10(1e-3 * noise)))
    assert any(not float(text).is_integer() for text in rows)


@pytest.mark.parametrize("way", WAYS[1:3])
def test_a_ledger_with_every_digit_verifies_and_is_carried_on(way, tmp_path, monkeypatch):
    """What an earlier version released keeps its values: they are the estimator's own, and nothing else verifies."""
    with monkeypatch.context() as before:
        before.setattr(sys.modules["policyc_runtime.run"], "published_values", estimate_release)
        plan, done, ledger = published(tmp_path, way)
    assert max(len(repr(value).partition(".")[2]) for value in done.released[:, 0].tolist()) > 8
    again = release(plan, COUNTS, ledger, steps=30, pin=None)
    assert np.array_equal(again.released, done.released)
    assert_explained(plan, ledger)
