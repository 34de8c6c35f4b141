"""`policyc audit`: attacks on plans of every kind, and the record beside the certificate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from typer.testing import CliRunner

from policyc import compile_policy
from policyc.cli import app
from policyc.emit import verify_directory
from policyc_check.claims import Claim
from policyc_check.users.gaussian import gaussian_delta
from policyc_runtime.laboratory.empirical import CONFIDENCE, AuditRecord, attacks_on, audit, audit_claims, read_audit
from policyc_runtime.laboratory.empirical.attack import Attack
from policyc_runtime.laboratory.empirical.proof import Counts
from policyc_runtime.laboratory.empirical.record import SEED_BITS, each_confidence
from policyc_runtime.plan import Plan, load_plan

RUNS, TODAY = 1000, "2026-11-21"
# whose attacks take more to prove something
MORE_RUNS = dict.fromkeys(("w-event that absorbs", "w-event that distributes", "a user replaced"), 2000)
CHAIN = """correlation markov(forward = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], initial = stationary,
  evidence = "a survey")"""
CELLS = 'cell place in {"A", "B"} otherwise "away"'
USER = """target user_level(epsilon = {e}, delta = 0.009, neighbors = {n})
participation at_most(2 steps, per_step = 1, enforced = keep_first)"""
NO_CHAIN = 'correlation none(evidence = "x")\ndeliver realtime\n'
W_EVENT = f"target w_event(epsilon = 1.0, window = 3 steps)\n{NO_CHAIN}"

UNNOTICED = ["a user added, a small epsilon"]  # by so few runs
POLICIES = {
    "alpha-DP_T": (CELLS, "count(trips) by place", f"target alpha_dpt(alpha = 1.0)\n{CHAIN}\ndeliver realtime"),
    "a window under correlation": (
        CELLS,
        "count(trips) by place",
        f"target alpha_dpt(alpha = 2.0, window = 2 steps)\n{CHAIN}\ndeliver offline",
    ),
    "a count without cells": (
        "",
        "count(trips)",
        f"target event_level(epsilon = 0.5)\n{NO_CHAIN}",
    ),
    "w-event": (
        CELLS,
        "count(trips) by place",
        W_EVENT + "mechanism laplace()",
    ),
    "w-event that absorbs": (
        CELLS,
        "count(trips) by place",
        W_EVENT.replace("1.0", "3.0") + "mechanism budget_absorption()",
    ),
    "a step that absorbs": (
        CELLS,
        "count(trips) by place",
        f"target event_level(epsilon = 1.0)\n{NO_CHAIN}mechanism budget_absorption(window = 3 steps)",
    ),
    "w-event that distributes": (
        CELLS,
        "count(trips) by place",
        W_EVENT.replace("1.0", "3.0") + "mechanism budget_distribution()",
    ),
    "a user added": (
        "",
        "count(trips)",
        USER.format(e="2.0", n="add_remove") + "\ndeliver realtime\nmechanism gaussian()",
    ),
    "a user added, a small epsilon": (
        "",
        "count(trips)",
        USER.format(e="0.1", n="add_remove") + "\ndeliver realtime\nmechanism gaussian()",
    ),
    "a user replaced": (
        "",
        "count(trips)",
        USER.format(e="3.0", n="replace") + "\ndeliver realtime\nmechanism laplace()",
    ),
    "cells of a user replaced": (
        CELLS.removesuffix(' otherwise "away"'),
        "count(trips) by place",
        USER.format(e="2.0", n="replace") + "\ndeliver realtime\nmechanism gaussian()",
    ),
    "a signed sum": (
        "",
        "sum(trips.height, clamp = -2 .. 2)",
        USER.format(e="2.0", n="replace") + "\ndeliver realtime\nmechanism gaussian()",
    ),
    "sums of one step": (
        CELLS.removesuffix(' otherwise "away"'),
        "sum(trips.height, clamp = 0 .. 2) by place",
        f"target event_level(epsilon = 2.0)\n{NO_CHAIN}",
    ),
    "a window with a delta": (
        "",
        "count(trips)",
        f"target w_event(epsilon = 2.0, window = 3 steps, delta = 0.009)\n{NO_CHAIN}mechanism gaussian()",
    ),
    "sampled steps": (
        "",
        "count(trips)",
        USER.format(e="2.0", n="add_remove") + "\ndeliver offline\nmechanism subsample(rate = 0.5)",
    ),
}


def compiled(folder: Path, kind: str) -> Plan:
    cell, release, rest = POLICIES[kind]
    text = f"""policy audited "An audited plan"
stream trips {{ user who time at {cell} step 1d horizon 8 steps population 100 }}
release seen = {release}
{rest}
"""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "audited.policy"
    path.write_text(text, encoding="utf-8")
    return compile_policy(path).plan


def audited(plan: Plan, noise: float = 1.0, runs: int = RUNS) -> AuditRecord:
    return audit(plan, "2026-11-21", runs, seed=1, noise=noise)


def power(attack: Attack, runs: int, attacks: int) -> float:
    """How likely half of Gaussian noise is noticed by so many runs, from the claim alone.

    The claimed curve at its point says by how many standard deviations the noise lets the streams differ; with half the
    noise it is twice as many. The best event of the score is counted in half of the runs.
    """
    epsilon, delta = float(attack.epsilon), float(attack.delta)
    sure, counted = float(each_confidence(CONFIDENCE, attacks)), runs // 2
    apart = 2 * float(brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 1e-3, 20))
    thresholds = np.linspace(-3, 3 + apart, 200)
    events = np.column_stack([norm.sf(thresholds - apart), norm.sf(thresholds)])
    expected = [Counts(counted, *np.rint(counted * e).astype(int)).proven_epsilon(delta, sure) for e in events]
    drawn = np.random.default_rng(1).binomial(counted, events[int(np.argmax(expected))], (400, 2))
    return float(np.mean([Counts(counted, *pair).proven_epsilon(delta, sure) > epsilon for pair in drawn.tolist()]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "noticed"),
    [
        ("a user added", True),
        ("cells of a user replaced", True),
        ("a signed sum", True),
        ("a user added, a small epsilon", False),
    ],
)
def test_which_half_of_the_noise_is_noticed_was_computed_beforehand(kind: str, noticed: bool, tmp_path: Path) -> None:
    """Of large epsilons nearly always, of small ones hardly ever by so few runs: the record then says so."""
    plan = compiled(tmp_path, kind)
    attacks = attacks_on(plan)
    likely = power(attacks[0], RUNS, len(attacks))
    assert likely > 0.95 if noticed else likely < 0.05
    if not noticed:  # the others are run below
        record = audited(plan)
        assert record.refuted is None
        assert not record.attacks[0].notices_half_the_noise


@pytest.mark.sampled(1, laws=2)
@pytest.mark.parametrize("kind", [kind for kind in POLICIES if kind not in UNNOTICED])
def test_no_attack_refutes_a_plan_and_half_the_noise_is_noticed(kind: str, tmp_path: Path) -> None:
    """Every kind of plan withstands its attacks; the same attacks refute half of its noise, where epsilon is not small.

    How often that is so is computed for Gaussian noise above. Attacks on steps take as many runs as they need; those on
    sampled or adaptive mechanisms have no such law, and are seen to notice it with these numbers of runs.
    """
    plan = compiled(tmp_path, kind)
    record = audited(plan, runs=MORE_RUNS.get(kind, RUNS))
    assert record.refuted is None
    assert record.attacks[0].notices_half_the_noise
    assert all(claim.holds for claim in audit_claims(plan, record, TODAY))


def test_a_plan_whose_drawn_noise_is_half_is_refuted(tmp_path: Path) -> None:
    """The audit proves more than is claimed, and its record does not verify."""
    plan = compiled(tmp_path, "alpha-DP_T")
    weak = audited(plan, noise=0.5)
    assert weak.refuted is not None
    assert not all(claim.holds for claim in audit_claims(plan, weak, TODAY))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a plan that was audited from the command line."""
    folder = tmp_path_factory.mktemp("audited")
    compiled(folder, "alpha-DP_T")
    compile_policy(folder / "audited.policy").save(folder / "audited.plan")
    with pytest.MonkeyPatch.context() as seeded:
        # else one audit in a hundred might refute a plan that keeps its promise
        seeded.setattr("policyc_runtime.laboratory.empirical.secrets.randbits", lambda _: 1)
        result = CliRunner().invoke(app, ["audit", str(folder / "audited.plan"), "--runs", "400", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["runs"] == 400
    return folder / "audited.plan"


def test_an_audit_is_shown_in_the_pages_and_leaves_the_certificate_as_it_was(directory: Path) -> None:
    """HTML and Markdown tell of it with its date; certificate.json, which is signed, is byte for byte the same."""
    date = json.loads((directory / "audit.json").read_text())["date"]
    for name in ("certificate.html", "certificate.md"):
        assert f"Empirical audit of {date}" in (directory / name).read_text()
    before = (directory / "certificate.json").read_bytes()
    fresh = compile_policy(directory.parent / "audited.policy").save(directory.parent / "fresh.plan")
    assert (fresh / "certificate.json").read_bytes() == before
    assert all(claim.holds is not False for claim in verify_directory(directory))


def fields(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [place for key, inner in value.items() for place in fields(inner, (*path, key))]
    if isinstance(value, list):
        return [place for index, inner in enumerate(value) for place in fields(inner, (*path, index))]
    return [path]


def test_every_altered_field_of_a_record_is_found(
    directory: Path, some: Callable[[Iterable[Any], int], list[Any]]
) -> None:
    """Each leaf of audit.json, altered with or without a digest that fits, makes a claim fail."""
    path = directory / "audit.json"
    original = path.read_text(encoding="utf-8")
    content = json.loads(original)
    assert len(fields(content)) > 20
    try:
        for place in some(fields(content), 8):
            altered = json.loads(original)
            parent = altered
            for key in place[:-1]:
                parent = parent[key]
            value = parent[place[-1]]
            parent[place[-1]] = value + 1 if isinstance(value, int) else f"{value or ''}1"
            path.write_text(json.dumps(altered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            assert any(claim.holds is False for claim in verify_directory(directory)), place
    finally:
        path.write_text(original, encoding="utf-8")


def test_a_record_of_another_plan_is_taken_away_when_the_policy_is_compiled_again(tmp_path: Path) -> None:
    """What an audit found is never shown of another plan."""
    plan = compiled(tmp_path, "a count without cells")
    folder = compile_policy(tmp_path / "audited.policy").save(tmp_path / "audited.plan")
    (folder / "audit.json").write_text(audited(plan).render(), encoding="utf-8")
    compiled(tmp_path, "alpha-DP_T")
    compile_policy(tmp_path / "audited.policy").save(folder)
    assert not (folder / "audit.json").exists()
    assert "Empirical audit" not in (folder / "certificate.html").read_text(encoding="utf-8")


def resealed(directory: Path, change: Callable[[AuditRecord], AuditRecord]) -> list[Claim]:
    """The claims about a record that was changed and carries the digest of what it says now."""
    record, plan = read_audit(directory), load_plan(directory)
    assert record is not None
    return list(audit_claims(plan, change(record).sealed(), record.date))


def counted(record: AuditRecord, attack: int, side: str, **counts: int) -> AuditRecord:
    """The record with other counts, and the bound that follows from them."""
    sure = each_confidence(record.confidence, len(record.attacks))
    old = record.attacks[attack]
    told = getattr(old, side).model_copy(update=counts)
    told = told.model_copy(update={"epsilon_at_least": told.recomputed(old.delta, sure)})
    attacks = [*record.attacks]
    attacks[attack] = old.model_copy(update={side: told})
    return record.model_copy(update={"attacks": tuple(attacks)})


def test_counts_that_nobody_counted_are_found(directory: Path) -> None:
    """No hits, all hits and a control that noticed nothing, with the bound that follows, are not what runs give."""
    assert all(claim.holds for claim in resealed(directory, lambda record: record))
    record = read_audit(directory)
    assert record is not None
    runs = record.attacks[0].found.runs
    assert record.attacks[0].control.hits > 3 * runs**0.5
    for side, counts in (
        ("found", {"hits": 0, "false_alarms": 0}),
        ("found", {"hits": runs, "false_alarms": runs}),
        ("control", {"hits": 0}),
        ("control", {"hits": runs, "false_alarms": 0}),
    ):
        failed = [c for c in resealed(directory, lambda r, s=side, c=counts: counted(r, 0, s, **c)) if c.holds is False]
        assert [(claim.name, claim.code) for claim in failed] == [("the audit's counts are those of its runs", "E0803")]


def test_days_to_come_and_other_numbers_of_runs_are_refused(directory: Path) -> None:
    """A forged date, other runs than were counted, and counts of fewer runs fail with digests that fit."""
    for change in ({"date": "2999-01-01"}, {"runs": 10**6}, {"confidence": Decimal("0.5")}):
        assert any(claim.holds is False for claim in resealed(directory, lambda r, c=change: r.model_copy(update=c))), (
            change
        )
    fewer = resealed(directory, lambda r: counted(r, 0, "found", runs=50, hits=10, false_alarms=10))
    assert any(claim.holds is False for claim in fewer)


def test_a_day_is_said_to_be_somebodys_word(directory: Path) -> None:
    """Tomorrow is allowed for where days begin earlier; a signature of the certificate does not cover an audit."""
    record, plan = read_audit(directory), load_plan(directory)
    assert record is not None
    for today, holds in (("2026-11-20", True), ("2026-11-19", False)):
        told = record.model_copy(update={"date": "2026-11-21"}).sealed()
        claims = {claim.name: claim for claim in audit_claims(plan, told, today, quick=True)}
        dated = claims["the empirical audit is of no day to come"]
        assert dated.holds is holds
        assert "no signature covers it" in dated.detail or not holds
        assert claims["the audit's counts are those of its runs"].holds is None


def test_an_audit_is_played_again_by_its_seed(directory: Path) -> None:
    """The same seed gives the same record, another one other counts."""
    record, plan = read_audit(directory), load_plan(directory)
    assert record is not None
    assert audit(plan, record.date, record.runs, record.confidence, seed=record.seed) == record
    assert audit(plan, record.date, record.runs, record.confidence, seed=record.seed + 1) != record
    largest = audit(plan, record.date, 2, seed=2**SEED_BITS - 1)
    assert AuditRecord.model_validate_json(largest.render()) == largest
