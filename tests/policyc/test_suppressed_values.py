"""What is left out of a release follows from published values alone, the same in every file and at every run."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from policyc import compile_policy
from policyc.diagnostics import PolicyError
from policyc.emit import verify_directory
from policyc.emit.blocks.suppression import least_shown, suppression
from policyc.emit.context import certificate_content
from policyc.emit.difference import Effect, compare_plans, is_weaker
from policyc.emit.registry import render_registry
from policyc.emit.summary import render_summary
from policyc_check.users.claims import unit_of
from policyc_check.users.noise import Coins, DiscreteGaussian, DiscreteLaplace
from policyc_runtime.estimates import published_values
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.mechanisms.laplace import Laplace
from policyc_runtime.mechanisms.linear import LinearMechanism, drawn
from policyc_runtime.noise_tails import Balanced, Normal, at_least, error_bounds, exceeded, noise_laws
from policyc_runtime.noisy_values import derived_values
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims
from policyc_runtime.suppression import suppressed_values

STEPS, CELLS, BELOW = 6, 3, 20
USERS = """
policy pages "views"
stream seen {{
  user device
  time at
  cell page in {{"A", "B", "C"}}
  step 1h
  horizon {horizon}
  start "2026-01-01"
}}
release views = count(seen) by page
{more}
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(2 steps, enforced = keep_first)
deliver realtime
mechanism {mechanism}
estimate {estimate}
postprocess views {{ {demands} suppress(views, below = {below}) }}
"""
STEP_BY_STEP = """
policy pages "views"
stream seen {{
  user device
  time at
  cell page in {{"A", "B"}} otherwise "none"
  step 1h
  horizon 6 steps
  start "2026-01-01"
  population 60
}}
release views = count(seen) by page
target alpha_dpt(alpha = 2.0)
correlation markov(forward = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]], initial = stationary, evidence = "e")
{wishes}
postprocess views {{ {demands} suppress(views, below = {below}) }}
"""


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Plan]:
    """`make(...)` compiles and saves a policy, and gives the plan as it is loaded."""

    def plan_of(text: str = USERS, name: str = "pages", **changes: object) -> Plan:
        words = {
            "horizon": f"{STEPS} steps", "more": "", "mechanism": "gaussian()", "estimate": "none()", "demands": "",
            "below": BELOW, "wishes": "",
        }  # fmt: skip
        path = tmp_path / f"{name}.policy"
        path.write_text(text.format(**(words | changes)))
        return load_plan(compile_policy(path).save(tmp_path / f"{name}.plan"))

    return plan_of


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`recorded(table)` has every step measured as the table says, whatever is counted."""

    def fix(table: Any) -> None:
        rows = [tuple(int(number) for number in row) for row in table]

        def measure(self: object, setting: object, raw: Any, records: Sequence[Any], randomness: object) -> list[Any]:
            return rows[len(records) : len(raw)]

        monkeypatch.setattr(LinearMechanism, "measure", measure)

    return fix


def noisy_table(seed: int = 0, steps: int = STEPS) -> Any:
    """Noisy counts on both sides of the threshold, and on it."""
    table = np.random.default_rng(seed).integers(BELOW - 15, BELOW + 15, (steps, CELLS))
    table[0] = [BELOW - 1, BELOW, BELOW + 1]
    return table


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def run(plan: Plan, counts: Any, folder: Path, **more: Any) -> Path:
    """The file that a run with ready counts writes."""
    folder.mkdir(exist_ok=True)
    names = [part.name for part in plan.releases if part.query.kind in ("count", "sum")]
    done = release(plan, dict.fromkeys(names, counts), folder / "ledger.sqlite", pin=None, **more)
    write_release(done, folder / "out.csv")
    write_release(done, folder / "out.parquet")
    return folder / "out.csv"


@pytest.fixture
def assumed(make: Callable[..., Plan]) -> Callable[..., Plan]:
    """The same with an assumed bound, so that ready counts may be released."""

    def plan_of(**changes: object) -> Plan:
        text = str(changes.pop("text", USERS))
        return make(text.replace("enforced = keep_first", 'assumed = "two tickets"'), **changes)

    return plan_of


def test_two_data_sets_with_the_same_records_show_the_same(assumed, recorded, tmp_path):
    """Nobody counted, or a thousand: with the same noisy values both files are the same to the byte.

    If true counts decided, all of the one would be left out and nothing of the other.
    """
    plan, table = assumed(), noisy_table()
    recorded(table)
    files = [run(plan, np.full((STEPS, CELLS), count), tmp_path / str(count)) for count in (0, BELOW - 1, 1000)]
    assert len({file.read_bytes() for file in files}) == 1
    assert len({file.with_suffix(".parquet").read_bytes() for file in files}) == 1
    for row, noisy in zip(rows_of(files[0]), table.ravel().tolist(), strict=True):
        shown = noisy >= BELOW
        assert (row["noisy"], row["released"]) == ((str(noisy), str(float(noisy))) if shown else ("", ""))


def test_true_counts_beyond_the_threshold_are_not_what_is_shown(assumed, tmp_path):
    """Of cells with a count just at the threshold about half are left out, each as its noise falls."""
    plan = assumed(horizon="400 steps")
    rows = rows_of(run(plan, np.full((400, CELLS), BELOW), tmp_path / "at"))
    shown = sum(row["released"] != "" for row in rows)
    assert 0.4 * len(rows) < shown < 0.6 * len(rows)
    assert all((row["noisy"] == "") == (row["released"] == "") for row in rows)
    assert all(float(row["released"]) >= BELOW for row in rows if row["released"])


@pytest.mark.parametrize("cuts", [[6], [1, 2, 3, 4, 5, 6], [4, 6]])
def test_runs_in_pieces_show_what_one_run_shows(cuts, assumed, recorded, tmp_path):
    """However a stream is cut, every file has the rows of the whole one, and the last is the same to the byte."""
    plan, table = assumed(more="release lately = window(views, 2 steps)"), noisy_table(1)
    recorded(table)
    counts = np.zeros((STEPS, CELLS), dtype=np.int64)
    run(plan, counts, tmp_path / "whole")
    for stop in cuts:
        run(plan, counts[:stop], tmp_path / "cut")
        for name in ("views", "lately"):
            whole, part = (rows_of(tmp_path / folder / f"out-{name}.csv") for folder in ("whole", "cut"))
            assert part == whole[: stop * CELLS]
    for name in ("out-views.csv", "out-lately.csv", "out-views.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_nobody_can_put_back_what_is_left_out(make):
    """No linear combination of all that is shown, totals with it, is a value that is left out."""
    plan = make(more="release so_far = prefix(views)\nrelease lately = window(views, 3 steps)", horizon="8 steps")
    for seed in range(20):
        table = noisy_table(seed, 8).astype(float)
        values = {"views": table}
        values |= {name: derived_values(plan.release_named(name), table) for name in ("so_far", "lately")}
        left_out = suppressed_values(plan, values)
        assert np.array_equal(left_out["views"], table < BELOW)
        told = {name: derived_values(plan.release_named(name), np.eye(8)) for name in ("so_far", "lately")}
        for cell in range(CELLS):
            shown = [np.eye(8)[~left_out["views"][:, cell]]]
            shown += [rows[~left_out[name][:, cell]] for name, rows in told.items()]
            rank = np.linalg.matrix_rank(np.vstack(shown))
            for step in np.flatnonzero(left_out["views"][:, cell]):
                assert np.linalg.matrix_rank(np.vstack([*shown, np.eye(8)[[step]]])) == rank + 1
        for name, rows in told.items():  # and no total is left out without need
            made_of = np.array([[table[row != 0, cell].min() >= BELOW for cell in range(CELLS)] for row in rows])
            assert np.array_equal(~left_out[name], made_of)


@pytest.mark.parametrize("place", ["shown", "noisy", "released", "gap"])
def test_a_file_that_shows_more_or_less_is_found(place, assumed, tmp_path):
    """A value that is put back, whole or in one field, and one that is taken out, are found in the released file."""
    plan = assumed()
    file = run(plan, np.full((STEPS, CELLS), BELOW), tmp_path / "run")
    with LedgerReader.open_read_only(tmp_path / "run" / "ledger.sqlite") as book:
        entries = [(json.loads(entry.noisy), json.loads(entry.published)) for entry in book.entries]
    rows = rows_of(file)
    gap = next(number for number, row in enumerate(rows) if row["released"] == "")
    whole = next(number for number, row in enumerate(rows) if row["released"] != "")
    step, cell = divmod(gap, CELLS)
    noisy, published = str(entries[step][0][cell]), str(entries[step][1][cell])
    changes = {"shown": {"noisy": noisy, "released": published}, "noisy": {"noisy": noisy}}
    changes |= {"released": {"released": published}, "gap": {"noisy": "", "released": ""}}
    rows[whole if place == "gap" else gap] |= changes[place]
    with file.open("w", newline="") as target:
        writer = csv.DictWriter(target, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (claim,) = release_claims(plan, tmp_path / "run" / "ledger.sqlite", file)
    assert claim.holds is False
    assert claim.code == "E0827"


@pytest.mark.parametrize("change", [{"below": "19"}, None])
def test_a_plan_with_another_threshold_than_its_policy_is_found(change, make, tmp_path):
    """A threshold that is moved, or dropped, in a plan that is sealed again."""
    plan = make()
    content = json.loads(plan.to_json())
    rules = content["releases"][0]["suppressions"]
    content["releases"][0]["suppressions"] = [] if change is None else [{**rules[0], **change}]
    altered = Plan.model_validate(content).sealed()
    (tmp_path / "pages.plan" / "plan.json").write_text(altered.to_json())
    failed = [claim for claim in verify_directory(tmp_path / "pages.plan") if claim.holds is False]
    assert any("releases.0.suppressions" in f"{claim.where} {claim.detail}" for claim in failed)


@pytest.mark.parametrize(
    ("demands", "estimate"),
    [("", "none()"), ("views >= 0, integer(views),", "mle()"), ("views >= 0,", "auto"), ("", "filter()")],
)
def test_whatever_is_published_is_compared(demands, estimate, make, tmp_path):
    """Estimates, whole numbers and values of any mechanism are left out where they are below, and nowhere else."""
    plan = make(USERS.replace("enforced = keep_first", 'assumed = "e"'), demands=demands, estimate=estimate)
    counts = np.random.default_rng(1).poisson(BELOW, (STEPS, CELLS))
    rows = rows_of(run(plan, counts, tmp_path / "run"))
    with LedgerReader.open_read_only(tmp_path / "run" / "ledger.sqlite") as book:
        published = [value for entry in book.entries for value in json.loads(entry.published)]
    assert [row["released"] for row in rows] == ["" if value < BELOW else str(value) for value in published]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "wishes", ["deliver realtime", "deliver offline\nbudget sparse(every = 2 steps)", "deliver offline\nestimate mle()"]
)
def test_promises_about_single_steps_leave_out_as_well(wishes, make, tmp_path):
    """Under alpha-DP_T, at steps without a release too: what is filled in there is shown or left out."""
    plan = make(STEP_BY_STEP, wishes=wishes, demands="sum(views) == population, views >= 0, integer(views),")
    counts = np.random.default_rng(1).multinomial(60, [0.4, 0.3, 0.3], 6)
    rows = rows_of(run(plan, counts, tmp_path / "run"))
    with LedgerReader.open_read_only(tmp_path / "run" / "ledger.sqlite") as book:
        published = [value for entry in book.entries for value in json.loads(entry.published)]
        skipped = [entry.noisy == "null" for entry in book.entries for _ in range(3)]
    assert [row["released"] for row in rows] == ["" if value < BELOW else str(value) for value in published]
    empty = [none or row["released"] == "" for row, none in zip(rows, skipped, strict=True)]
    assert [row["noisy"] == "" for row in rows] == empty
    (exact, as_bytes) = release_claims(plan, tmp_path / "run" / "ledger.sqlite", tmp_path / "run" / "out.parquet")
    assert exact.holds
    assert as_bytes.holds


EDITS = """
policy edits "edits by country"
stream seen {
  user editor
  time at
  cell country in {"A", "B", "C"}
  step 1h
  horizon 6 steps
  start "2026-01-01"
}
release bytes = sum(seen.bytes, clamp = 0 .. 10) by country
release editors = count(seen) by country
release lately = window(bytes, 2 steps)
target user_level(epsilon = 2.0, delta = 1e-6, neighbors = add_remove)
participation at_most(2 steps, assumed = "two visits")
mechanism gaussian()
estimate none()
postprocess bytes { suppress(bytes, where = editors) }
postprocess editors { suppress(editors, below = 20) }
"""


def test_values_are_shown_where_another_release_is(make, tmp_path):
    """Sums are left out where counts are, whatever the sums are, and so are windows of them; nowhere else."""
    plan = make(EDITS.replace("{", "{{").replace("}", "}}"), name="edits")
    rows = [
        f"{step}{cell}{user},2026-01-01T{step:02}:10:00,{cell},9"
        for step in range(STEPS)
        for cell in "ABC"
        for user in range(20)
    ]
    (tmp_path / "events.csv").write_text("\n".join(["editor,at,country,bytes", *rows]) + "\n")
    done = release(plan, tmp_path / "events.csv", tmp_path / "ledger.sqlite", pin=None)
    write_release(done, tmp_path / "out.csv")
    gaps = {name: np.ma.getmaskarray(series.released) for name, series in done.series.items()}
    with LedgerReader.open_read_only(tmp_path / "ledger.sqlite") as book:
        few = [json.loads(entry.published) for entry in book.entries if entry.release == "editors"]
    assert np.array_equal(gaps["editors"], np.array(few) < 20)
    assert gaps["editors"].any()
    assert not gaps["editors"].all()
    assert np.array_equal(gaps["bytes"], gaps["editors"])
    before = np.vstack([gaps["bytes"][:1], gaps["bytes"][:-1]])
    assert np.array_equal(gaps["lately"], gaps["bytes"] | before)
    claims = list(release_claims(plan, tmp_path / "ledger.sqlite", tmp_path / "out.csv"))
    assert all(claim.holds for claim in claims)
    said: Any = certificate_content(plan, {})
    assert "where `editors` is left out" in said["product"]["sentence"]


def test_a_plan_whose_releases_wait_for_each_other_is_none(make):
    """Two releases each shown where the other is, one with other cells, and one that does not exist."""
    content = json.loads(make(EDITS.replace("{", "{{").replace("}", "}}"), name="edits").to_json())
    names = [part["name"] for part in content["releases"]]
    rule = {"kind": "where", "text": "by hand", "line": 1, "where": "bytes"}
    for where, message in (("bytes", "depends on itself"), ("nobody", "no other release"), ("editors", "on itself")):
        content["releases"][names.index("editors")]["suppressions"] = [{**rule, "where": where}]
        with pytest.raises(ValidationError, match=message):
            Plan.model_validate(content)


@pytest.mark.parametrize(
    ("editors", "bytes_", "code"),
    [
        ("suppress(editors, where = bytes)", "suppress(bytes, where = editors)", "E0712"),
        ("suppress(editors, where = editors)", "bytes >= 0", "E0204"),
        ("suppress(editors, where = nobody)", "bytes >= 0", "E0204"),
        ("suppress(editors, where = bytes)", "bytes >= 0", "E0712"),
        ("suppress(editors, where = bytes, below = 3)", "bytes >= 0", "E0711"),
        ("suppress(editors, chance = 0.3)", "bytes >= 0", "E0711"),
        ("suppress(editors, below = 3), suppress(editors, below = 4)", "bytes >= 0", "E0207"),
        ("suppress(bytes, below = 3)", "bytes >= 0", "E0601"),
        ("suppress(editors, below = -3)", "bytes >= 0", "E0710"),
        ("suppress(editors, below = lately)", "bytes >= 0", "E0208"),
        ("suppress(editors, where = 3)", "bytes >= 0", "E0208"),
        ("suppress(editors, where = lately)", "bytes >= 0", "E0712"),
        ("suppress(editors, error_above = 3)", "bytes >= 0", "E0711"),
        ("suppress(editors, below = 3, chance = 0.05)", "bytes >= 0", "E0711"),
        ("suppress(editors, error_above = 3, chance = 1)", "bytes >= 0", "E0209"),
        ("suppress(editors, error_above = 0, chance = 0.5)", "bytes >= 0", "E0208"),
        ('suppress(editors, error_above = "25", chance = 0.5)', "bytes >= 0", "E0208"),
        ('suppress(editors, error_above = "0 %", chance = 0.5)', "bytes >= 0", "E0208"),
    ],
)
def test_what_says_nothing_is_refused(editors, bytes_, code, tmp_path):
    """Circles, unknown names, two conditions, thresholds that leave nothing out: a finding, which says what to do."""
    text = EDITS.replace("suppress(editors, below = 20)", editors).replace("suppress(bytes, where = editors)", bytes_)
    (tmp_path / "edits.policy").write_text(text)
    with pytest.raises(PolicyError) as caught:
        compile_policy(tmp_path / "edits.policy")
    assert {found.code for found in caught.value.diagnostics if found.code.startswith("E")} == {code}
    assert all(found.help for found in caught.value.diagnostics)


def test_a_total_cannot_decide_over_what_it_is_made_of(tmp_path):
    """A window that is shown where its values are says nothing about when these are shown."""
    text = EDITS.replace("where = editors", "where = lately") + "postprocess lately { suppress(lately, below = 9) }"
    (tmp_path / "edits.policy").write_text(text)
    with pytest.raises(PolicyError) as caught:
        compile_policy(tmp_path / "edits.policy")
    assert [found.code for found in caught.value.diagnostics] == ["E0712"]


LAWS = [
    DiscreteGaussian(Fraction("18.3") ** 2),
    DiscreteGaussian(Fraction("0.7") ** 2),
    DiscreteLaplace(Fraction(30)),
    DiscreteLaplace(Fraction("0.4")),
    Coins(40),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_tails_are_those_of_noise_that_is_drawn(law):
    """Of 40,000 draws as many reach a threshold as the law says, and all probabilities add up."""
    found = drawn(law, 40_000, SimulationRandomness(3))
    size = max(1.0, float(np.std(found)))
    for reach in sorted({round(times * size) for times in (-2, -1, 0, 1, 2, 3)} | {0, 1}):
        probability = at_least(law, reach)
        assert (
            abs(np.mean(found >= reach) - probability) < 4.5 * np.sqrt(probability * (1 - probability) / 40_000) + 1e-9
        )
    together = [at_least(law, reach) - at_least(law, reach + 1) for reach in range(-60, 61)]
    assert min(together) >= 0
    assert at_least(law, 1) == pytest.approx(1 - at_least(law, 0))
    assert at_least(law, 10**25) == 0  # beyond all machine numbers, as a threshold in fine units may be


def test_tails_of_noise_that_adds_up_to_zero():
    """Balanced noise has its own tails, narrower than those of independent noise; 20,000 draws agree."""
    mechanism = Laplace(l1_sensitivity=2, balanced_cells=2)  # type: ignore[arg-type]
    scale = mechanism.calibrate(Fraction(1, 5))  # type: ignore[arg-type]
    noise = mechanism.add_noise(np.zeros((20_000, 2), dtype=np.int64), [scale] * 20_000, SimulationRandomness(4))
    law = Balanced(float(scale), 2)
    for reach in (0, 1, 5, 15, 30):
        probability = at_least(law, reach)
        assert abs(np.mean(noise[:, 0] >= reach) - probability) < 4.5 * np.sqrt(probability / 20_000)
        if reach > 1:
            assert probability < at_least(DiscreteLaplace(Fraction(scale)), reach)
    wide = [at_least(Balanced(8192.0 * times, 5), 20_000 * times) for times in (1, 2)]
    assert wide[0] == pytest.approx(wide[1], rel=1e-3)


def test_sums_of_normal_noise_have_normal_tails():
    """Of 30 discrete Gaussian draws together, as many as the normal law says."""
    found = drawn(DiscreteGaussian(Fraction(9)), 600_000, SimulationRandomness(5)).reshape(-1, 30).sum(axis=1)
    law = Normal(float(np.sqrt(30 * 9)), whole=True)
    for reach in (-10, 0, 1, 20, 45):
        assert abs(np.mean(found >= reach) - at_least(law, reach)) < 0.013


def chances(plan: Plan, name: str = "views") -> list[dict[str, str]]:
    content: Any = certificate_content(plan, {})
    block = next(entry for entry in content["postprocessing"] if entry["release"] == name)
    return [row for chance in block["suppression"]["chances"] for row in chance["rows"]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", ["gaussian()", "laplace()", "binomial()"])
@pytest.mark.parametrize("demands", ["", "views >= 0, integer(views),"])
def test_certificates_say_how_often_values_are_shown(mechanism, demands, assumed, tmp_path):
    """The share of runs that show a value, at 0, at the threshold and at twice as much, is that of the certificate."""
    plan = assumed(
        mechanism=mechanism, demands=demands, estimate="mle()" if demands else "none()", below=12, horizon="900 steps"
    )
    stated = chances(plan)
    assert [row["true"] for row in stated] == ["0", "12", "24"]
    counts = np.tile([0, 12, 24], (900, 1))
    rows = rows_of(run(plan, counts, tmp_path / mechanism))
    for cell, row in zip("ABC", stated, strict=True):
        shown = float(row["shown"])
        assert shown + float(row["left_out"]) == pytest.approx(1, abs=2e-3)
        found = np.mean([entry["released"] != "" for entry in rows if entry["page"] == cell])
        assert abs(found - shown) < 4.5 * np.sqrt(shown * (1 - shown) / 900) + 1e-3


def test_probabilities_follow_known_designs(make):
    """Empty cells that a threshold of 90 shows at a standard deviation of 18.257, and 450 at a Laplace scale of 30."""
    for wish, field, noise, below, shown in (
        ("gaussian()", "stddev", "18.257", 90, 4.73e-7),
        ("laplace()", "scale", "30", 450, 1.555e-7),
    ):
        plan = make(mechanism=wish, below=below)
        mechanism = plan.releases[0].mechanism.model_copy(update={field: Decimal(noise)})
        part = plan.releases[0].model_copy(update={"mechanism": mechanism})
        told: Any = suppression(plan.model_copy(update={"releases": (part,)}), part)
        assert float(told["chances"][0]["rows"][0]["shown"]) == pytest.approx(shown, rel=0.01)


def test_nothing_is_said_of_estimates_beforehand(make):
    """A filter's values depend on the stream: the certificate names no probability, and says who counts it."""
    content: Any = certificate_content(make(estimate="filter()"), {})
    (chance,) = content["postprocessing"][0]["suppression"]["chances"]
    assert chance["rows"] == []
    assert "policyc simulate" in chance["method"]


def test_a_sum_is_shown_by_its_rounded_value(make):
    """Of a sum on a fine grid the published value is rounded first: what is stated is of what is written."""
    plan = make(USERS.replace("count(seen)", "sum(seen.cost, clamp = 0 .. 400)"), below=3)
    part, unit = plan.releases[0], Fraction(unit_of(plan, plan.releases[0]))
    least = least_shown(plan, part, part.suppressions[0], unit)
    for noisy, shown in ((least, True), (least - 1, False)):
        row = np.full((1, CELLS), float(noisy * unit))
        assert (published_values(plan, part, row, row[:0]) >= 3).all() == shown


def test_simulation_counts_what_is_shown(make):
    """`simulate` says which share is shown and how far that is off; expected errors are those of all values."""
    plan = make(below=95)
    found = simulate(plan, 1, 4)
    assert 0 < found.shown["views"].share < 1
    assert any("left out" in line for line in found.table_lines())
    series = simulate(plan, 1, 1).example.series["views"]
    assert np.ma.is_masked(series.released)
    share = 1 - np.ma.getmaskarray(series.released).mean()
    assert simulate(plan, 1, 1).shown["views"].share == pytest.approx(share)
    assert np.array_equal(np.ma.getmaskarray(series.noisy), np.ma.getmaskarray(series.released))
    assert not np.ma.getdata(series.released)[np.ma.getmaskarray(series.released)].any()
    nothing = simulate(make(below=10**6, name="nothing"), 1, 1)
    assert nothing.shown["views"].share == 0
    whole = make(USERS.replace("suppress(views, below = {below})", "views >= -1000"), name="whole", estimate="mle()")
    assert simulate(whole, 1, 1).shown == {}


def test_errors_are_planned_as_if_nothing_were_left_out(make):
    """A threshold changes no expected error and no choice: they are those of all values, and the pages say so."""
    demands = "views >= 0, integer(views),"
    plans = [make(STEP_BY_STEP, demands=demands, below=below, name=f"b{below}") for below in (1, 50)]
    assert plans[0].releases[0].predicted == plans[1].releases[0].predicted
    assert "before any are left out" in render_summary(plans[1], Path("p"))
    content: Any = certificate_content(plans[1], {})
    assert "before any are left out" in content["accuracy"][0]["sentence"]


def test_another_threshold_is_another_publication_and_no_weaker_promise(make):
    """`diff` says that other values are shown, in both directions, and that the promise did not get weaker."""
    low, high = make(below=20, name="low"), make(below=90, name="high")
    for old, new in pairwise((low, high, low)):
        changes = [change for change in compare_plans(old, new) if change.what == "what is left out of views"]
        assert [change.effect for change in changes] == [Effect.NEITHER]
        assert not is_weaker(compare_plans(old, new))


def test_records_of_deployments_say_what_is_left_out(make):
    """The registry's record has the threshold among post-processing."""
    content = certificate_content(make(), {})
    assert "Left out are values below 20" in render_registry(content)


def solved(plan: Path, file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(plan / "map_model.py"), str(file), str(file.with_name("optimum.csv"))]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.law
@pytest.mark.parametrize("wishes", ["estimate none()", "demands", "estimate joint_map()"])
def test_models_are_of_what_is_shown(wishes, make, tmp_path):
    """The emitted model takes what is left out for not measured: it stays empty, or is what the chain makes likely."""
    demands = "" if wishes == "estimate none()" else "sum(views) == population, views >= 0, integer(views),"
    wishes = wishes.replace("demands", "estimate mle()")
    plan = make(STEP_BY_STEP, wishes=f"deliver offline\nmechanism laplace()\n{wishes}", demands=demands, below=18)
    file = run(plan, np.random.default_rng(2).multinomial(60, [0.4, 0.3, 0.3], 6), tmp_path / "run")
    done = solved(tmp_path / "pages.plan", file)
    assert done.returncode == 0, done.stderr
    assert "left out" in (tmp_path / "pages.plan" / "map_model.py").read_text()
    found, given = rows_of(file.with_name("optimum.csv")), rows_of(file)
    assert any(row["released"] == "" for row in given)
    for row, shown in zip(found, given, strict=True):
        if shown["released"] == "":
            assert (row["released"] == "") == ("joint_map" not in wishes)
        elif wishes == "estimate none()":
            assert float(row["released"]) == pytest.approx(float(shown["released"]), abs=1e-6)
    if "joint_map" in wishes:
        assert all(sum(float(row["released"]) for row in found[place : place + 3]) == 60 for place in range(0, 18, 3))


@pytest.mark.law
def test_models_that_need_all_values_say_so(assumed, recorded, tmp_path):
    """Totals are undone by differences: where one is left out, the model names what is missing and stops."""
    plan = assumed(more="release lately = window(views, 2 steps)")
    recorded(noisy_table(3))
    run(plan, np.zeros((STEPS, CELLS), dtype=np.int64), tmp_path / "run")
    done = solved(tmp_path / "pages.plan", tmp_path / "run" / "out-lately.csv")
    assert done.returncode == 1
    assert "left out" in done.stderr
    done = solved(tmp_path / "pages.plan", tmp_path / "run" / "out-views.csv")
    assert done.returncode == 0, done.stderr
    assert {row["released"] == "" for row in rows_of(tmp_path / "run" / "optimum.csv")} == {True, False}


CERTAIN = USERS.replace("suppress(views, below = {below})", "suppress(views, error_above = {below}, chance = {chance})")


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("chance", [0.5, 0.05, 0.001])
def test_the_error_that_is_exceeded_seldom_is_the_least_one(law, chance):
    """Noise is beyond it with a probability of `chance` at most, and beyond one unit less more often."""
    size = round(exceeded(law, chance))
    assert 2 * at_least(law, size + 1) <= chance
    assert size == 0 or 2 * at_least(law, size) > chance


@pytest.mark.parametrize("demands", ["", "views >= 0, integer(views),"])
def test_large_values_are_certain_to_a_part_of_them(demands, assumed, tmp_path):
    """With 25 % at 5 %, values are shown from four times the error on that noise exceeds in one of 20 runs."""
    text = CERTAIN.replace("enforced = keep_first", 'assumed = "e"').replace("{below}", '"25 %"')
    plan = assumed(
        text=text, chance=0.05, demands=demands, estimate="mle()" if demands else "none()", horizon="300 steps"
    )
    (law,) = noise_laws(plan, plan.releases[0])
    least = 4 * exceeded(law, 0.05)
    file = run(plan, np.tile([0, round(least), round(2 * least)], (300, 1)), tmp_path / "run")
    with LedgerReader.open_read_only(tmp_path / "run" / "ledger.sqlite") as book:
        published = [value for entry in book.entries for value in json.loads(entry.published)]
    rows = rows_of(file)
    assert [row["released"] != "" for row in rows] == [abs(value) >= least for value in published]
    true = np.tile([0, round(least), round(2 * least)], 300)
    wrong = np.abs(np.array(published) - true) > exceeded(law, 0.05)
    assert wrong.mean() < 0.05 + 4.5 * np.sqrt(0.05 * 0.95 / 900)  # most values are that certain
    said: Any = certificate_content(plan, {})
    assert f"at least {least:g}" in said["postprocessing"][0]["suppression"]["chances"][0]["method"].replace(",", "")
    assert all(claim.holds for claim in release_claims(plan, tmp_path / "run" / "ledger.sqlite", file))


def test_steps_with_little_noise_are_shown(make, tmp_path):
    """Under budgets that differ from step to step the steps with little noise are shown, whatever their values."""
    text = STEP_BY_STEP.replace("below = {below}", "error_above = {below}, chance = 0.1")
    wishes = "deliver realtime\nmechanism laplace()\nestimate none()\nbudget optimal()"
    probe = make(text, wishes=wishes, below=1000, name="probe")
    bounds = error_bounds(probe, probe.releases[0], 0.1, 6)
    assert len(set(bounds.tolist())) > 1
    plan = make(text, wishes=wishes, below=round((bounds.min() + bounds.max()) / 2))
    rows = rows_of(run(plan, np.full((6, 3), 20), tmp_path / "run"))
    shown = bounds <= round((bounds.min() + bounds.max()) / 2)
    assert [row["released"] != "" for row in rows] == np.repeat(shown, 3).tolist()
    said: Any = certificate_content(plan, {})
    assert (
        f"all values of {shown.sum()} steps are shown"
        in said["postprocessing"][0]["suppression"]["chances"][0]["method"]
    )


@pytest.mark.parametrize("objective", ["mean_squared_error", "mean_absolute_error"])
def test_an_estimate_has_the_error_of_its_estimator(objective, make, tmp_path):
    """A smoother's values are as uncertain as it expects of them, which is less than their noise."""
    signal = 'signal ar1(mean = 300, sd = 20, autocorrelation = 0.95, evidence = "e")'
    text = CERTAIN.replace("deliver realtime", f"deliver offline\nobjective {objective}\n{signal}").replace(
        " by page", ""
    )
    plan = make(text, estimate="smoother()", below=1000, chance=0.05)
    part = plan.releases[0]
    errors = np.array(part.errors(STEPS))
    stddevs = np.sqrt(errors) if objective == "mean_squared_error" else errors * np.sqrt(np.pi / 2)
    assert error_bounds(plan, part, 0.05, STEPS) == pytest.approx(1.959964 * stddevs, rel=1e-6)
    (law,) = noise_laws(plan, part)
    assert (error_bounds(plan, part, 0.05, STEPS) < exceeded(law, 0.05)).all()


def test_errors_that_nobody_knows_are_refused(make, capsys):
    """A filter that learns has an error that no plan states: the policy is refused, with what to write."""
    with pytest.raises(PolicyError) as caught:
        make(CERTAIN, estimate="filter()", below=10, chance=0.05)
    (finding,) = [found for found in caught.value.diagnostics if found.code.startswith("E")]
    assert finding.code == "E0752"
    assert "estimate none()" in (finding.help or "")


def test_a_threshold_below_all_noise_is_told(tmp_path):
    """Where no value can be shown, compiling warns with the smallest error that could be, and one above it does not."""
    words = {
        "horizon": "6 steps",
        "more": "",
        "mechanism": "gaussian()",
        "estimate": "none()",
        "demands": "",
        "chance": 0.05,
    }
    for below, codes in ((1, ["W0708"]), (1000, [])):
        (tmp_path / "p.policy").write_text(CERTAIN.format(below=below, **words))
        compiled = compile_policy(tmp_path / "p.policy")
        assert [code for code in (found.code for found in compiled.diagnostics) if code == "W0708"] == codes
        assert [notice.code for notice in compiled.plan.notices if notice.code == "W0708"] == codes


def test_running_totals_are_shown_while_they_are_certain(make):
    """The noise of a running total grows with every step, so that its last values are left out."""
    more = "release so_far = prefix(views)"
    text = USERS.replace("postprocess views {{ {demands} suppress(views, below = {below}) }}", "")
    probe = make(text, more=more, name="probe")
    bounds = error_bounds(probe, probe.release_named("so_far"), 0.05, STEPS)
    middle = float(bounds[STEPS // 2])
    plan = make(
        text + "postprocess so_far {{ suppress(so_far, error_above = " + f"{middle:.1f}" + ", chance = 0.05) }}",
        more=more,
    )
    values = {name: np.full((STEPS, CELLS), 100.0) for name in ("views", "so_far")}
    left_out = suppressed_values(plan, values)
    assert not left_out["views"].any()
    assert left_out["so_far"][:, 0].tolist() == (bounds > round(middle, 1)).tolist()
    assert left_out["so_far"].any()
    assert not left_out["so_far"].all()
