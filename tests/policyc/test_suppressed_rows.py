"""What is made of released values is left out where it is small or uncertain, and where another release is."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from policyc import compile_policy
from policyc.diagnostics import PolicyError
from policyc.emit.context import certificate_content
from policyc.emit.difference import compare_plans, is_weaker
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.made_errors import made_stddevs, median_variance
from policyc_runtime.made_values import made_values
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims

STEPS = 30
POLICY = """
policy places "visits by place"
stream seen {
  user device
  time at
  cell place in {"A", "B"}
  step 1h
  horizon 30 steps
  start "2026-01-01"
}
release visits = count(seen) by place
release steps_walked = count(seen) by place
release share = ratio(steps_walked, visits, times = 100)
release rise = change(visits, baseline = median(every = 2 steps, steps = 0 .. 9))
release six = total(visits, 6 steps)
target user_level(epsilon = 2.0, delta = 1e-6, neighbors = add_remove)
participation at_most(2 steps, assumed = "two visits")
deliver realtime
mechanism MECHANISM
estimate none()
"""
LEFT_OUT = """
postprocess visits { suppress(visits, below = 20) }
postprocess share { suppress(share, error_above = "5 %", chance = 0.1) }
postprocess rise { suppress(rise, error_above = 10, chance = 0.05), suppress(rise, where = share) }
"""


def planned(folder: Path, more: str = "", mechanism: str = "laplace()", name: str = "places") -> Plan:
    (folder / f"{name}.policy").write_text(POLICY.replace("MECHANISM", mechanism) + more)
    return load_plan(compile_policy(folder / f"{name}.policy").save(folder / f"{name}.plan"))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def known_of(plan: Plan, values: dict[str, Any]) -> dict[str, Any]:
    """All values, nothing left out."""
    whole = tuple(made.model_copy(update={"suppressions": ()}) for made in plan.made)
    return {**values, **made_values(plan.model_copy(update={"made": whole}), values)}


@pytest.mark.law
@pytest.mark.parametrize("mechanism", ["laplace()", "gaussian()"])
def test_errors_of_rows_are_those_of_many_runs(mechanism, tmp_path):
    """The stated standard deviation of a change, a ratio and a total is that of 4,000 draws, within a twentieth."""
    plan = planned(tmp_path, mechanism=mechanism)
    generator = np.random.default_rng(1)
    true = {"visits": np.full((STEPS, 2), 400.0), "steps_walked": np.full((STEPS, 2), 300.0)}
    known = known_of(plan, true)
    drawn = []
    for part in plan.releases:
        stddev = float(part.mechanism.variances(None, 1)[0]) ** 0.5
        size = (4000, STEPS, 2)
        laplace = mechanism == "laplace()"
        noise = generator.laplace(0, stddev / 2**0.5, size) if laplace else generator.normal(0, stddev, size)
        drawn.append(true[part.name] + noise)
    runs = [known_of(plan, dict(zip(true, pair, strict=True))) for pair in zip(*drawn, strict=True)]
    for made in plan.made:
        stated = made_stddevs(plan, made, known)
        assert stated is not None
        found = np.std([np.ma.getdata(run[made.name]) for run in runs], axis=0).mean()
        assert found == pytest.approx(float(np.mean(stated)), rel=0.05)


def test_the_median_of_five_laplace_draws_is_known():
    """0.3512 b^2, where one draw has 2 b^2; of one draw it is that draw's own, and of more it is less."""
    assert median_variance(5, laplace=True) == pytest.approx(0.3512 / 2, rel=2e-3)
    assert median_variance(1, laplace=False) == pytest.approx(1, rel=2e-3)
    generator = np.random.default_rng(2)
    for draws in (3, 7):
        medians = np.median(generator.normal(size=(200_000, draws)), axis=1)
        assert median_variance(draws, laplace=False) == pytest.approx(float(medians.var()), rel=0.01)
    even = np.median(generator.laplace(0, 2**-0.5, (200_000, 4)), axis=1)
    assert even.var() < median_variance(3, laplace=True)


def test_rows_are_left_out_where_they_are_uncertain(tmp_path):
    """Changes and ratios of small counts are empty, those of large ones are shown; an altered file is found."""
    plan = planned(tmp_path, LEFT_OUT)
    counts = np.tile([40, 4000], (STEPS, 1))
    done = release(plan, {"visits": counts, "steps_walked": counts}, tmp_path / "ledger.sqlite", pin=None)
    write_release(done, tmp_path / "out.csv")
    rise = rows_of(tmp_path / "out-rise.csv")
    assert {row["released"] for row in rise if row["place"] == "A"} == {""}
    assert all(row["released"] for row in rise if row["place"] == "B")
    share = {(row["step"], row["place"]): row["released"] for row in rows_of(tmp_path / "out-share.csv")}
    assert all(share[row["step"], row["place"]] for row in rise if row["released"])
    assert "" in share.values()
    assert all(claim.holds for claim in release_claims(plan, tmp_path / "ledger.sqlite", tmp_path / "out.csv"))
    text = (tmp_path / "out-rise.csv").read_text().replace(",A,\n", ",A,0.0\n", 1)
    (tmp_path / "out-rise.csv").write_text(text)
    claims = list(release_claims(plan, tmp_path / "ledger.sqlite", tmp_path / "out.csv"))
    assert claims[0].holds is False


def test_a_row_is_left_out_by_its_own_bound(tmp_path):
    """An error of a change at baseline B and ratio q is 100 (b / B) sqrt(2 + 0.3512 q^2): the bound decides at it."""
    plan = planned(tmp_path, LEFT_OUT.replace(", suppress(rise, where = share)", ""))
    variance = float(plan.release_named("visits").mechanism.variances(None, 1)[0])  # 2 b^2, but for whole numbers
    level = 1.959964 / 0.1 * np.sqrt(variance * (1 + 0.3512 / 2))  # where the error that 5 % exceed is 10 points
    for factor, left_out in ((1.01, False), (0.99, True)):
        values = np.full((STEPS, 2), factor * level)
        found = made_values(plan, {"visits": values, "steps_walked": values})["rise"]
        assert bool(np.ma.getmaskarray(found).all()) == left_out == bool(np.ma.getmaskarray(found).any())


def test_certificates_and_differences_say_what_is_left_out(tmp_path):
    """The formula's entry and the sentence of what is published name it; another bound is no weaker promise."""
    plan = planned(tmp_path, LEFT_OUT)
    content: Any = certificate_content(plan, {})
    entry = next(made for made in content["made"] if made["release"] == "rise")
    assert "error is above 10 with a probability of more than 5 %" in entry["empty"]
    assert "error is above 10" in content["product"]["sentence"]
    other = planned(tmp_path, LEFT_OUT.replace("error_above = 10,", "error_above = 12,"), name="other")
    changes = compare_plans(plan, other)
    assert any("error_above = 12" in (change.new or "") for change in changes)
    assert not is_weaker(changes)


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("postprocess six { six >= 0 }", "E0236"),
        ("postprocess six { suppress(six, where = share) }", "E0712"),
        ("postprocess visits { suppress(visits, where = share) }", "E0712"),
        ("postprocess six { suppress(six, below = 0) }", "E0710"),
        ("postprocess share { suppress(share, where = visits) }", "E0712"),
    ],
)
def test_rows_that_cannot_decide_are_refused(block, code, tmp_path):
    """Constraints, rows of other steps or later ones, and releases of which nothing is left out: one error."""
    (tmp_path / "p.policy").write_text(POLICY.replace("MECHANISM", "laplace()") + block)
    with pytest.raises(PolicyError) as caught:
        compile_policy(tmp_path / "p.policy")
    assert [found.code for found in caught.value.diagnostics if found.code.startswith("E")] == [code]


def test_errors_that_hang_together_are_refused(tmp_path):
    """A ratio to what it is made of has no error that is the sum of two: the policy is refused with what to write."""
    text = POLICY.replace("MECHANISM", "gaussian()").replace("ratio(steps_walked", "ratio(lately")
    text += (
        "release lately = window(visits, 2 steps)\npostprocess share { suppress(share, error_above = 1, chance = 0.1) }"
    )
    (tmp_path / "p.policy").write_text(text)
    with pytest.raises(PolicyError) as caught:
        compile_policy(tmp_path / "p.policy")
    assert [found.code for found in caught.value.diagnostics] == ["E0752"]


def test_a_plan_whose_rows_ask_later_ones_is_none(tmp_path):
    """`where` in a plan made by hand names what comes before, with the same rows."""
    content = json.loads(planned(tmp_path, LEFT_OUT).to_json())
    for made, where in ((0, "rise"), (0, "six"), (2, "visits"), (0, "nobody")):
        altered = json.loads(json.dumps(content))
        altered["made"][made]["suppressions"] = [{"kind": "where", "text": "by hand", "line": 1, "where": where}]
        with pytest.raises(ValidationError, match="before it with the same rows"):
            Plan.model_validate(altered)


def test_simulations_tell_errors_of_all_rows_and_of_those_that_are_shown(tmp_path):
    """What is left out changes no simulated error of all rows; the share and error of shown ones stand beside."""
    plans = [planned(tmp_path, more, name=name) for more, name in (("", "whole"), (LEFT_OUT, "gaps"))]
    found = [simulate(plan, 3, 2) for plan in plans]
    assert [error.mean_squared_error for error in found[0].errors] == [
        error.mean_squared_error for error in found[1].errors
    ]
    assert found[0].shown == {}
    assert set(found[1].shown) == {"visits", "share", "rise", "six"}
    assert 0 <= found[1].shown["rise"].share <= found[1].shown["share"].share <= 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("postprocess six { suppress(six, below = 90) }", ["visits"]),
        ("release days = total(six, 12 steps)\npostprocess days { suppress(days, below = 90) }", ["six"]),
        ("postprocess six { suppress(six, below = 90) }\npostprocess visits { suppress(visits, below = 20) }", []),
        ("postprocess share { suppress(share, error_above = 10, chance = 0.1) }", []),
    ],
)
def test_totals_that_are_left_out_and_shown_values_that_tell_them(more, told, tmp_path):
    """W0706 where all values are shown that a total is made of; a ratio is left out because it is not known well."""
    (tmp_path / "places.policy").write_text(POLICY.replace("MECHANISM", "laplace()") + more + "\n")
    found = [one for one in compile_policy(tmp_path / "places.policy").diagnostics if one.code == "W0706"]
    assert [f"from `{name}`" in one.message for one, name in zip(found, told, strict=True)] == [True] * len(told)
