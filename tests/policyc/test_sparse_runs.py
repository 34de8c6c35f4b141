"""A policy with sparse releases, from its text to published files and back."""

from __future__ import annotations

import csv
import importlib.util
import json

import numpy as np
import pytest

from policyc import compile_policy
from policyc_check.verify import verified_claims
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.output import write_release
from policyc_runtime.release import release
from policyc_runtime.released_file import verify_release

HORIZON = 22


@pytest.fixture
def sparse_policy(gallery, tmp_path):
    """The fleet policy with a release every fourth step; `write(delivery, horizon)` gives its path."""
    (tmp_path / "fleet_transitions.csv").write_text((gallery / "fleet_transitions.csv").read_text())
    text = (gallery / "fleet.policy").read_text()

    def write(delivery="offline", horizon=f"{HORIZON} steps"):
        path = tmp_path / "sparse.policy"
        wished = f"deliver {delivery}\nbudget sparse(every = 4 steps)"
        path.write_text(text.replace("365 steps", horizon).replace("deliver offline", wished))
        return path

    return write


def counts():
    return np.tile([700, 600, 500, 2237], (HORIZON, 1))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_nothing_is_drawn_between_releases_and_everything_is_published(sparse_policy, tmp_path, suffix):
    """Skipped steps have null in the ledger, an empty field in the file, and values that satisfy the constraints."""
    plan = compile_policy(sparse_policy()).plan
    assert all(claim.holds for claim in verified_claims(plan))
    scales = plan.releases[0].schedule.scales(HORIZON)
    skipped = [scale == 0 for scale in scales]
    assert 0 < sum(skipped) < HORIZON
    ledger, output = tmp_path / "ledger", tmp_path / f"out.{suffix}"
    first = release(plan, counts(), ledger, output=output, pin=None)
    write_release(first, output)
    verify_release(plan, ledger, output)
    assert first.series["parked"].skipped.tolist() == skipped
    assert (first.released.sum(axis=1) == 4037).all()
    assert (first.released >= 0).all()
    again = release(plan, counts(), ledger, output=output, pin=None)
    assert np.array_equal(again.released, first.released)
    assert np.array_equal(again.noisy, first.noisy)
    assert all(claim.holds for claim in ledger_claims(plan, ledger))
    if suffix == "csv":
        with output.open() as file:
            empty = [row["noisy"] == "" for row in csv.DictReader(file)]
        assert empty == np.repeat(skipped, 4).tolist()


def test_a_number_in_an_empty_field_is_found(sparse_policy, tmp_path):
    """A file that claims a noisy value for a skipped step differs from the ledger."""
    plan = compile_policy(sparse_policy()).plan
    ledger, output = tmp_path / "ledger", tmp_path / "out.csv"
    write_release(release(plan, counts(), ledger, pin=None), output)
    text = output.read_text()
    assert ",EWR,," in text
    output.write_text(text.replace(",EWR,,", ",EWR,0,", 1))
    with pytest.raises(Exception, match="the file and the ledger differ") as caught:
        verify_release(plan, ledger, output)
    assert caught.value.code == "E0827"
    for other in (tmp_path / "lv", tmp_path / "nowhere" / "out.csv"):
        with pytest.raises(Exception, match="no run writes values to such a file"):  # nothing is to be written
            verify_release(plan, ledger, other)


def test_realtime_values_do_not_depend_on_later_steps(sparse_policy, tmp_path):
    """Step by step or all at once, an endless sparse plan publishes what was in its ledger."""
    plan = compile_policy(sparse_policy("realtime", "unbounded")).plan
    assert plan.releases[0].schedule.segments[-1].repeats is None
    early = release(plan, counts()[:7], tmp_path / "ledger", pin=None)
    later = release(plan, counts(), tmp_path / "ledger", pin=None)
    assert np.array_equal(early.released, later.released[:7])


def test_a_simulation_measures_what_was_predicted(sparse_policy):
    """Over simulated streams the error is the predicted one within a fifth, and no estimator without filling runs."""
    plan = compile_policy(sparse_policy()).plan
    result = simulate(plan, 5, 12)
    assert {error.estimator for error in result.errors} <= {"prior alone", "filter()", "smoother()", "joint_map()"}
    own = next(error for error in result.errors if error.chosen)
    assert own.mean_squared_error == pytest.approx(plan.releases[0].predicted.published, rel=0.2)


def test_the_emitted_model_leaves_skipped_steps_without_distance(sparse_policy, tmp_path):
    """The model of the plan builds from noisy values that are missing at some steps."""
    compile_policy(sparse_policy()).save(tmp_path / "plan")
    spec = importlib.util.spec_from_file_location("sparse_model", tmp_path / "plan" / "map_model.py")
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    file = tmp_path / "noisy.csv"
    cells = list(model.CELLS)
    rows = [f"{t},,{cell},{'' if t else 1009},0" for t in range(2) for cell in cells]
    file.write_text("\n".join(["step,time,origin,noisy,released", *rows]) + "\n")
    noisy = model.noisy_of(str(file), *model.read_rows(str(file)), cells, "origin")
    assert noisy == {0: dict.fromkeys(cells, 1009.0), 1: {}}
    assert len(model.build_model(noisy).distance) == len(cells)
    values, _, _ = model.optimum(noisy)
    assert [sum(row.values()) for row in values.values()] == [4037, 4037]


def test_a_tampered_empty_step_is_refused(sparse_policy):
    """A scale at a step without budget, or a budget without a scale, makes the plan refused."""
    plan = compile_policy(sparse_policy()).plan
    content = json.loads(plan.to_json())
    segments = content["releases"][0]["schedule"]["segments"]
    segment = next(s for s in segments if len(s["epsilons"]) > 1)
    segment["scales"][1] = "2.5"
    altered = type(plan).model_validate(content).sealed()
    assert [claim.code for claim in verified_claims(altered) if not claim.holds] == ["E0801"]
