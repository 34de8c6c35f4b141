"""What a policy may name stands in one place, and a new name in few files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import policyc
import policyc_check
import policyc_grammar
import policyc_runtime
from policyc.offers import StreamOffer, budget_offers, estimator_offers, mechanism_offers
from policyc.offers.reference import reference
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.estimation import every_estimator
from policyc_runtime.mechanisms import mechanism_kinds, stream_mechanism_kinds, window_mechanism_kinds

ROOT = Path(__file__).parents[2]
PACKAGES = (policyc, policyc_check, policyc_grammar, policyc_runtime)
BEGIN, END = "<!-- offers -->\n", "<!-- end of offers -->"


def test_what_is_offered_is_what_can_be_run() -> None:
    """Every mechanism and estimator that runs has an offer, and the other way round."""
    kinds = {*mechanism_kinds(), *stream_mechanism_kinds(), *window_mechanism_kinds()}
    assert set(mechanism_offers()) == kinds
    streams = {name for name, offer in mechanism_offers().items() if isinstance(offer, StreamOffer)}
    assert streams == set(stream_mechanism_kinds())
    windows = {name for name, offer in mechanism_offers().items() if offer.promises == {"windows"}}
    assert windows == set(window_mechanism_kinds())
    assert all("user_level" in mechanism_offers()[name].promises for name in streams - windows)
    assert {kind.described().split("(")[0] for kind in every_estimator()} <= set(estimator_offers())
    assert set(budget_offers()) == {"bounded", "optimal", "parts", "quantified", "sparse", "uniform"}


def test_an_offer_says_what_its_record_does() -> None:
    """Gaps, and whether a value exists before the stream ends."""
    for name, offer in mechanism_offers().items():
        if not isinstance(offer, StreamOffer):
            continue
        kind = offer.record()
        assert kind.leaves_gaps == offer.leaves_gaps
        now, later, ended = (
            Setting(Participation(3, 40), workload="prefix" if name in ("binary_tree",) else "identity", wait=wait)
            for wait in (0, 4, None)
        )
        assert (kind.reason_against(now) is not None) == (offer.whole_stream is not None), name
        assert (kind.reason_against(later) is not None) == (offer.whole_stream is not None and not offer.blocks), name
        assert kind.reason_against(ended) is None


def test_the_reference_is_that_of_the_offers(request: pytest.FixtureRequest) -> None:
    """`pytest --bless` writes it."""
    page = ROOT / "grammar" / "README.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    stands, after = rest.split(END)
    if request.config.getoption("--bless"):
        page.write_text(before + BEGIN + reference() + END + after, encoding="utf-8")
        return
    assert stands == reference()


def test_reading_offers_loads_no_library(tmp_path: Path) -> None:
    """`policyc check` asks for names and options only."""
    code = (
        "import sys, policyc.offers as o; o.mechanism_offers(); o.estimator_offers(); o.budget_offers(); "
        "print(*sorted({'numpy', 'pydantic', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == ""


def named_in(name: str) -> set[str]:
    """The files of the product that name a mechanism or estimator, or import its module, relative to their package."""
    found = set()
    told = re.compile(rf"""["'`]{name}["'`(]|(mechanisms|estimation)(\.| import ){name}\b""")
    for package in PACKAGES:
        root = Path(package.__file__ or "").parent
        for file in root.rglob("*.py"):
            if file.parent.name == "deployments":  # what makes the guide's events
                continue
            if told.search(file.read_text(encoding="utf-8")):
                found.add(f"{root.name}/{file.relative_to(root)}")
    return found


NAMES = ["binary_tree", "dft", "fast", "filter_subsample", "lmmse", "subsample"]


@pytest.mark.parametrize("name", NAMES)
def test_a_mechanism_is_named_in_three_files(name: str) -> None:
    """Its record, its draw, its offer; a compact form of its likelihood in the model may be a fourth."""
    files = {f"{place}/mechanisms/{name}.py" for place in ("policyc_check", "policyc_runtime", "policyc/offers")}
    assert named_in(name) - {"policyc/emit/map_model/measured.py"} == files


CHECKED = '''
from typing import Literal
import numpy as np
from policyc_check.mechanisms.linear import GridMechanism, NonNegative
from policyc_check.users.strategies import general_l2_square

class Both(NonNegative):
    def __init__(self, steps):
        self.matrix = (2 * np.eye(steps) + np.eye(steps, k=-1)).astype(np.int64) * 2**19

    def measured(self, raw, first):
        return (self.matrix[: len(raw), : len(raw)] @ raw)[first:], np.ones(len(raw) - first, dtype=np.int64)

    def l2_square(self, participation):
        return general_l2_square(self.matrix, participation)

    def column_sums(self):
        return self.matrix.sum(axis=0)

class Beside(GridMechanism):
    """Adds noise to twice a step and once the one before it.

    Source: DR14
    """
    name: Literal["beside"] = "beside"
    grid = 2**20

    def strategy(self, setting):
        return Both(setting.horizon)
'''
DRAWN = '''
from typing import ClassVar
import numpy as np
from policyc_check.mechanisms import beside as checked
from policyc_runtime.mechanisms.linear import GridMechanism

class Beside(checked.Beside, GridMechanism):
    """`Beside` of the check, drawn."""
    independent: ClassVar[bool] = False

    def values(self, setting, records):
        measured = np.array(records, dtype=float).reshape(len(records), setting.cells) / 2**19
        found = np.zeros_like(measured)
        for step, row in enumerate(measured):
            found[step] = (row - (found[step - 1] if step else 0)) / 2
        return found

    def variances(self, setting, steps):
        return np.array([sum(4.0**-j for j in range(1, t + 2)) for t in range(steps)]) * (2 * float(self.stddev)) ** 2
'''
OFFERED = '''
from policyc.offers.linear import GridOffer

class BesideOffer(GridOffer):
    """For tests."""
    name = "beside"
    says = "noise on a step and the one before it"
'''
FILES = {
    "policyc_check/mechanisms/beside.py": CHECKED,
    "policyc_runtime/mechanisms/beside.py": DRAWN,
    "policyc/offers/mechanisms/beside.py": OFFERED,
}
MIDDLE = {
    "policyc_runtime/estimation/middle.py": '''
import numpy as np
from typing import Literal
from policyc_runtime.estimation.projection import NearestValues

class Middle(NearestValues):
    """The middle of the last three noisy values.

    Source: DR14
    """
    name: Literal["middle"] = "middle"
''',
    "policyc/offers/estimators/middle.py": '''
from policyc.offers.offer import EstimatorOffer

class MiddleOffer(EstimatorOffer):
    """For tests."""
    name = "middle"
    says = "the middle of three"
''',
}
POLICY = """
policy gates "people at a gate"
stream passages {{
  user ticket
  time at
  step 1h
  horizon 24 steps
  start "2026-01-01"
}}
release there = count(passages)
target user_level(epsilon = 2.0, delta = 1e-4, neighbors = add_remove)
participation at_most(2 steps, assumed = "tickets")
{wish}
"""


def extended(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """A copy of the product with more files, as an environment to run it in."""
    for package in PACKAGES:
        root = Path(package.__file__ or "").parent
        shutil.copytree(root, folder / root.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in files.items():
        assert not (folder / name).exists()
        (folder / name).write_text(text, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.mark.law
@pytest.mark.parametrize(("files", "wish"), [(FILES, "mechanism beside()"), (MIDDLE, "estimate middle()")])
def test_so_few_files_are_enough(files: dict[str, str], wish: str, tmp_path: Path) -> None:
    """Compiled, run, verified and stated as a model, with nothing else changed."""
    environment = extended(tmp_path / "copy", files)
    (tmp_path / "gates.policy").write_text(POLICY.format(wish=wish), encoding="utf-8")
    rows = [f"t{n},2026-01-01T{n % 24:02d}:00:00" for n in range(480)]
    (tmp_path / "in.csv").write_text("\n".join(["ticket,at", *rows]) + "\n", encoding="utf-8")
    commands = [
        "-m policyc compile gates.policy -o plan",
        "-m policyc run plan --input in.csv --output out.csv --steps 24",
        "-m policyc verify plan --release out.csv",
        "plan/map_model.py out.csv",
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, *command.split()],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert wish.split()[1].strip("()") in (tmp_path / "plan" / "plan.json").read_text(encoding="utf-8")
