"""The wards policy: two promises, two kinds of people, no end; from its text to released values and back."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from policyc import Compilation
from policyc.emit import verify_directory
from policyc.emit.certificate import render_markdown
from policyc.emit.context import certificate_content
from policyc_check.steps.budgets import window_budget
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.output import write_release
from policyc_runtime.refusal import verify
from policyc_runtime.release import release
from policyc_runtime.released_file import verify_release

LONG = re.compile(r"\d\.\d{9,}|[0-9a-f]{64}")


@pytest.fixture(scope="module")
def wards(compiled_gallery) -> Compilation:
    return compiled_gallery("wards")


def test_the_certificate_says_all_of_it(wards, golden):
    """Both promises, both groups, the endless stream and the broken constraint, word by word; long decimals masked."""
    text = render_markdown(certificate_content(wards.plan, {}))
    for words in (
        "at most 0.8 nats",
        "at most 2.0 nats about the place of one user (one `patient`) throughout any 24 steps in a row (1 day).",
        "for as long as the stream lasts",
        "`inpatients`",
        "`outpatients`",
    ):
        assert words in text
    golden("certificates/wards.md", LONG.sub("…", text))


def test_the_constraint_that_the_chains_break_is_named(wards):
    """The one warning names the bound on surgery as what to mend, and marks it in the text."""
    (warning,) = wards.diagnostics
    assert warning.code == "W0702"
    assert 'drop or widen the constraint `occupancy["surgery"] <= 40`' in (warning.help or "")
    assert [wards.source.text[label.span.start : label.span.end] for label in warning.labels] == [
        'occupancy["surgery"] <= 40'
    ]


def test_both_promises_are_verified(wards):
    """Each group's leakage is audited, and no day spends more than is promised."""
    verify(wards.plan)
    assert window_budget(wards.plan, 24) <= Fraction(2)
    assert {claim.kind for claim in wards.plan.claims.windows} == {"budget"}


def test_it_runs_and_verifies(wards, tmp_path):
    """Two runs over a growing stream: files, ledger and values are those of the plan, constraints hold."""
    directory = wards.save(tmp_path / "wards.plan")
    rng = np.random.default_rng(4)
    counts = rng.multinomial(50_000, [0.0005, 0.0004, 0.001, 0.9981], size=30)
    release(wards.plan, counts[:10], tmp_path / "ledger", pin=None)
    released = release(wards.plan, counts, tmp_path / "ledger", pin=None)
    values = released.series["occupancy"].released
    assert values.sum(axis=1) == pytest.approx(np.full(30, 50_000))
    assert values[:, 1].max() <= 40
    write_release(released, tmp_path / "out.csv")
    assert verify_release(wards.plan, tmp_path / "ledger", tmp_path / "out.csv") == (30, 30, True)
    assert all(claim.holds is not False for claim in verify_directory(directory))
    assert all(claim.holds is not False for claim in ledger_claims(wards.plan, tmp_path / "ledger"))
