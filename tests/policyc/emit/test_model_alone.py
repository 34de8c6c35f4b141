"""The emitted model imports libraries, and nothing that somebody put beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc_runtime.plan import Plan

PLANTED = "open(__file__.rpartition('/')[0] + '/taken', 'w').close()\n"
IMPORTED = ("argparse", "csv", "math", "pyomo", "highspy", "numpy", "pyarrow", "fractions", "functools", "duckdb")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", ["elsewhere", "inside", "link"])
def test_nothing_beside_the_model_is_imported(
    place: str, save_plan: Callable[[Path, Plan], Path], planned_traffic: Plan, tmp_path: Path
) -> None:
    """Run from the directory, from outside or through a link, programs with the names of libraries are not run."""
    directory = save_plan(tmp_path / "traffic.plan", planned_traffic)
    model = directory / "map_model.py"
    for name in IMPORTED:
        (directory / f"{name}.py").write_text(PLANTED)
    (directory / "os.py").write_text(PLANTED)
    (tmp_path / "link.py").symlink_to(model)
    path = {"elsewhere": model, "inside": Path("map_model.py"), "link": tmp_path / "link.py"}[place]
    folder = directory if place == "inside" else tmp_path
    command = [sys.executable, str(path), "--help"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout
    assert not (directory / "taken").exists()
    # a model without the guard does run them
    text = model.read_text()
    open_to_all = text.replace("!= here]", "!= '']", 1)
    assert open_to_all != text
    model.write_text(open_to_all)
    shutil.rmtree(directory / "__pycache__", ignore_errors=True)
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (directory / "taken").exists()
