"""Ten published deployments at equal promise: their own noise, ours alone, and what `auto` makes of the same page.

    OPENBLAS_NUM_THREADS=1 pytest --full -s tests/benchmarks/test_deployments_benchmark.py

Every policy of `policies/deployments` counts events of its shape. Errors are mean absolute errors over steps and cells,
of all values before any are left out, against the counts of what is kept. "published" is the noise that the authors
state, continuous, added to the same counts; "plain" the policy as it stands; "auto" the same page without its
`mechanism` and `estimate`, and with a signal that is learned from what is released. Shares of the promise are theirs.
`--tables DIR` writes a table of each; `-k NAME` takes one. Those that take minutes are for `--full`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from deployments import FOLDER, PUBLISHED, READY, ROOT2, STEPS
from numpy.typing import NDArray

from policyc import compile_policy
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.sources import read_counts, read_events

pytestmark = pytest.mark.law

Array = NDArray[np.float64]
Counts = dict[str, NDArray[np.int64]]
WEEKLY = {"mobility", "symptoms", "pageviews", "pageviews_2017"}  # days, of which weeks are alike
VALUES, MOST_RUNS = 1_000, 20  # runs until so many values of the smallest release are drawn, at most so many
SOON = {"load_shape"}
ONCE = {"broadband", "census"}  # one step: nothing to learn from


def automatic(name: str) -> str:
    """The same page with no mechanism and no estimator chosen by hand."""
    text = (FOLDER / f"{name}.policy").read_text()
    text = re.sub(r"^(mechanism|estimate) .*\n|^  suppress.*\n", "", text, flags=re.M)
    text = re.sub(r"^postprocess \w+ \{\n\}\n", "", text, flags=re.M)
    if name not in ONCE:
        signal = "seasonal_ar1(period = 7 steps, learned = true)" if name in WEEKLY else "ar1(learned = true)"
        text = text.replace("\ntarget ", f"\nsignal {signal}\ntarget ", 1)
    return text + "objective mean_absolute_error\n"


def compiled(folder: Path, name: str, text: str) -> Plan:
    for file in FOLDER.glob("*.csv"):
        shutil.copy(file, folder)
    path = folder / f"{name}.policy"
    path.write_text(text)
    return compile_policy(path).plan


def off(plan: Plan, name: str, counts: Counts, folder: Path) -> dict[str, float]:
    """Mean absolute error of what runs on the events publish, by release; more runs of few values."""
    grid = {part.name: float(getattr(part.query, "grid", 1)) for part in plan.releases}
    few = min(array.size for array in counts.values())
    found: dict[str, list[float]] = {which: [] for which in counts}
    for seed in range(min(max(1, VALUES // few), MOST_RUNS)):
        drawn = release(
            plan,
            folder / "e.csv",
            folder / f"{plan.digest}-{seed}.sqlite",
            pin=None,
            counts=name in READY,
            steps=STEPS[name],
            randomness=SimulationRandomness(seed),
        )
        for which, true in counts.items():
            found[which].append(float(np.abs(drawn.series[which].released - true * grid[which]).mean()))
    return {which: float(np.mean(errors)) for which, errors in found.items()}


def published(name: str, counts: Counts) -> dict[str, float]:
    """The same of the noise that the authors state."""
    generator = np.random.default_rng(2)
    gaussian = name in {"pageviews", "vaccination", "load_shape", "census"}
    found = {}
    for which, stddev in PUBLISHED[name].items():
        size = max(counts[which].size, 100_000)
        noise = generator.normal(0, stddev, size) if gaussian else generator.laplace(0, stddev / ROOT2, size)
        found[which] = float(np.abs(noise).mean())
    return found


@pytest.mark.parametrize("name", STEPS)
def test_auto_beside_the_published_design(name: str, tmp_path: Path, table: Callable[..., None], full: bool) -> None:
    """What `auto` chooses is no worse than plain noise, all releases together."""
    if not full and name not in SOON:
        pytest.skip("takes minutes: with --full")
    plain = compiled(tmp_path, name, (FOLDER / f"{name}.policy").read_text().replace("suppress(", "# suppress("))
    auto = compiled(tmp_path, f"{name}_auto", automatic(name))
    subprocess.run([sys.executable, FOLDER / "events.py", name, "e.csv"], cwd=tmp_path, check=True)
    read = read_counts if name in READY else read_events
    counts = read(tmp_path / "e.csv", plain, steps=STEPS[name]).counts
    design, alone, ours = (
        published(name, counts),
        off(plain, name, counts, tmp_path),
        off(auto, name, counts, tmp_path),
    )
    rows = [(f"{name}, `{which}`", *(one[which] for one in (design, alone, ours))) for which in design]
    about = "Mean absolute error of a value, by release, at equal promise."
    table(f"deployment_{name}", about, ("release", "published noise", "plain", "`auto`"), rows)
    assert sum(ours.values()) <= 1.05 * sum(alone.values())  # what `objective` asks of releases together
