"""Ten published deployments as one page each: their parameters, runs on events of their shape, and their errors."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys

import pytest
from deployments import FOLDER, OF_ALL, PUBLISHED, READY, ROOT2, STEPS
from prompt import policyc
from scipy.stats import norm

from policyc import compile_policy
from policyc_runtime.output_place import output_paths
from policyc_runtime.plan import load_plan
from policyc_runtime.release_rows import read_release
from policyc_runtime.sources import read_events


def discrete_laplace_stddev(stddev: float) -> float:
    """Of whole-number noise with the scale of a continuous Laplace law of some standard deviation."""
    ratio = math.exp(-ROOT2 / stddev)
    return math.sqrt(2 * ratio) / (1 - ratio)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in PUBLISHED if name not in OF_ALL])
def test_the_certificate_shows_the_published_noise(name, tmp_path):
    """Within one percent, read from `certificate.json`, for every release of the published design."""
    compilation = compile_policy(FOLDER / f"{name}.policy")
    saved = compilation.save(tmp_path / "d.plan")
    certificate = json.loads((saved / "certificate.json").read_text())
    shown = {entry["release"]: entry for entry in certificate["mechanisms"]}
    assert set(shown) == set(PUBLISHED[name])
    for which, stddev in PUBLISHED[name].items():
        entry = shown[which]
        grid = float(getattr(compilation.plan.release_named(which).query, "grid", 1))
        if entry["name"].startswith("laplace"):
            assert float(entry["parameters"]["scale"]) * grid == pytest.approx(stddev / ROOT2, rel=0.01)
        law = discrete_laplace_stddev(stddev) if entry["name"].startswith("laplace") else stddev
        assert float(entry["noise_stddev"].replace(",", "")) == pytest.approx(law, rel=0.01)


def test_pageviews_tell_as_much_as_their_rho_does(tmp_path):
    """Epsilon at 1e-7 of a day, a month and a year by the exact curve, and rho of these: 0.8, 5.14 and 22.1."""
    plan = compile_policy(FOLDER / "pageviews.policy").plan
    (claim,) = plan.claims.user_level
    assert float(claim.rho) == pytest.approx(0.015, rel=1e-6)
    kept = {point.participation: point for point in claim.beyond}
    found = {1: claim.curve, 31: kept[31].curve, 366: kept[366].curve}
    for days, (rho, epsilon) in {1: (0.015, 0.7998), 31: (0.465, 5.136), 366: (5.49, 22.12)}.items():
        at = {float(point.delta): float(point.epsilon) for point in found[days]}
        assert at[1e-7] == pytest.approx(epsilon, rel=0.01)
        assert days == 1 or float(kept[days].rho) == pytest.approx(rho, rel=0.01)


@pytest.mark.parametrize(
    ("name", "epsilon", "several"),
    [
        ("mobility", 1.76, {2: 3.52, 31: 54.56}),
        ("symptoms", 1.68, {2: 3.36, 7: 11.76}),
        ("editors", 2.0, {2: 4.0, 24: 48.0}),
        ("pageviews_2017", 1.0, {2: 2.0, 366: 366.0}),
        ("flows", 0.66, {2: 1.32, 52: 34.32}),
    ],
)
def test_what_is_lost_without_a_delta_adds_up(name, epsilon, several):
    """The published epsilon of a period, and so many times as much of several."""
    (claim,) = compile_policy(FOLDER / f"{name}.policy").plan.claims.user_level
    kept = {point.participation: float(point.epsilon) for point in claim.beyond}
    assert float(claim.epsilon) == pytest.approx(epsilon, rel=1e-6)
    assert {periods: kept[periods] for periods in several} == pytest.approx(several, rel=1e-6)


@pytest.mark.law
def test_a_person_who_is_replaced_changes_twice_as_many_groups(tmp_path):
    """Nine cells lost and nine gained: twice the rho of the same noise, not four times."""
    text = (FOLDER / "census.policy").read_text()
    for file in FOLDER.glob("*groups.csv"):
        shutil.copy(file, tmp_path)
    (tmp_path / "census.policy").write_text(
        re.sub(r"= (2\.134|0\.159|0\.008)", lambda part: f"= {2 * float(part[1])}", text)
        .replace("rho = 4.944", "rho = 9.888")
        .replace("neighbors = add_remove", "neighbors = replace")
    )
    plan, replaced = (compile_policy(folder / "census.policy").plan for folder in (FOLDER, tmp_path))
    for part in (part for part in plan.releases if len(part.cells) >= 2 * 9):
        again = replaced.release_named(part.name)
        assert float(again.mechanism.stddev) == pytest.approx(float(part.mechanism.stddev), rel=1e-6)
    (claim,) = plan.claims.user_level
    mu = math.sqrt(2 * 4.944)
    for point in claim.curve:
        epsilon = float(point.epsilon)
        delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert delta == pytest.approx(float(point.delta), rel=0.03)


def test_searches_about_vaccination_lose_what_was_published(tmp_path):
    """The sum of m / s^2 over levels is 0.54394^2, that of the exact curve at (2.19, 1e-5), with less error in all."""
    saved = compile_policy(FOLDER / "vaccination.policy").save(tmp_path / "d.plan")
    shown = json.loads((saved / "certificate.json").read_text())["mechanisms"]
    variances = {entry["release"]: float(entry["parameters"]["stddev"]) ** 2 for entry in shown}
    lost = sum((1 if name.startswith("all_") else 3) / variance for name, variance in variances.items())
    assert lost == pytest.approx(0.54394**2, rel=0.01)
    assert sum(variances.values()) < sum(stddev**2 for stddev in PUBLISHED["vaccination"].values())


def test_a_load_shape_is_as_exact_as_its_authors_asked():
    """The mean of an hour is within 0.1 kWh in 95 of 100 cases, under either relation."""
    plan = compile_policy(FOLDER / "load_shape.policy").plan
    half = 1.96 * 27 * math.sqrt(48) / 0.74816 / 4_948
    stddev = float(plan.release_named("observed").mechanism.stddev) * 0.01 / 4_948
    assert 1.96 * stddev == pytest.approx(half, rel=0.01) == pytest.approx(0.1, rel=0.02)


@pytest.mark.sampled(0, laws=2)
@pytest.mark.parametrize("name", STEPS)
def test_it_runs_on_events_of_its_shape(name, tmp_path):
    """From the command line, as the gallery says: compile, draw events, run, verify; noise is as wide as published."""
    assert policyc("compile", FOLDER / f"{name}.policy", "-o", "d.plan", cwd=tmp_path).returncode == 0
    subprocess.run([sys.executable, FOLDER / "events.py", name, "e.csv"], cwd=tmp_path, check=True)
    words = ["run", "d.plan", "--input", "e.csv", "--output", "o.csv", "--steps", STEPS[name]]
    run = policyc(*words, *(["--counts"] if name in READY else []), cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    verified = policyc("verify", "d.plan", "--release", "o.csv", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    if name in READY:
        return
    plan = load_plan(tmp_path / "d.plan")
    counts = read_events(tmp_path / "e.csv", plan, steps=STEPS[name]).counts
    paths = output_paths([*counts, *(one.name for one in plan.made)], tmp_path / "o.csv")
    for which, stddev in PUBLISHED[name].items():
        part = plan.release_named(which)
        grid = float(getattr(part.query, "grid", 1))  # counts of a sum are in its units
        rows = read_release(paths[which], part.query.by, whole=grid == 1)
        true = counts[which].ravel() * grid
        hidden = max((float(rule.below) for rule in part.suppressions if rule.kind == "below"), default=-math.inf)
        noise = (rows.noisy - true)[(true >= hidden + 6 * stddev) & ~rows.skipped]  # shown whatever their noise is
        if name in OF_ALL:
            law = float(part.mechanism.stddev)
        else:
            law = stddev if part.mechanism.name == "gaussian" else discrete_laplace_stddev(stddev)
        few = 4 / math.sqrt(noise.size)  # standard errors, of a law with wide tails
        assert noise.size >= 10
        assert noise.std() == pytest.approx(law, rel=max(0.05, few))
