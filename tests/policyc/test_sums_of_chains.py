"""Sums under alpha-DP_T, where amounts depend on the cell alone: what is planned, read, published and told of one user.

What a value of a user adds to all sums and counts of a step is read by the running code. Outputs lie beyond all that
one user can add, at either end in every cell, which tells most under Laplace noise. Every course of cells and amounts
has the probability that the chain and a law of amounts by cell give it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from policyc import PolicyError, compile_policy
from policyc.cli import app
from policyc.quantification.budgets import read_budgets
from policyc_check.plan.targets import NeighboringRelation
from policyc_check.rounding import rounded_up
from policyc_check.verify import verified_claims
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.mechanisms import stream_mechanism_kinds
from policyc_runtime.plan import Plan
from policyc_runtime.sources import read_events
from policyc_runtime.witness import witnesses_of

Floats = NDArray[np.float64]

POLICY = """policy spend "Spending"
stream visits {{
  user     visitor
  time     seen_at
  cell     shop in file("shops.csv") levels(town) otherwise "away"
  step     1d
  horizon  {horizon}
  population {population}
  start    "2026-01-01"
}}
{releases}
{targets}
{correlation}
deliver realtime
{more}
"""
SHOPS = "shop,town\nA,Linz\nB,Linz\nC,Wien\n"
BY_SHOP = "release spent = sum(visits.amount, clamp = {} .. 4) by shop\n"
BY_TOWN = "release spent_in_towns = sum(visits.amount, clamp = 0 .. 2) by town\n"
IN_ALL = "release all = sum(visits.amount, clamp = 0 .. 4)\n"
COUNTS = "release visitors = count(visits) by shop\n"
ALPHA = "target alpha_dpt(alpha = 1.0)\n"
FORWARD = "[[0.6, 0.1, 0.1, 0.2], [0.1, 0.7, 0.1, 0.1], [0.3, 0.1, 0.5, 0.1], [0.1, 0.1, 0.1, 0.7]]"
RING = "[[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5]]"
STAYING = "[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]"
AMOUNTS = (-3.0, 0.0, 9.0)  # beyond the clamp, too


def chain(forward: str = FORWARD, initial: str = "stationary", group: str = "", amounts: str = "by_cell") -> str:
    """A statement of how users move, and of what their amounts depend on."""
    said = f"initial = {initial}, " + (f"amounts = {amounts}, " if amounts else "")
    return f'correlation markov(forward = {forward}, {said}evidence = "e"){group and " for "}{group}\n'


def written(folder: Path, **given: str) -> Path:
    """The policy and the file that it names."""
    (folder / "shops.csv").write_text(SHOPS)
    words = {"horizon": "3 steps", "releases": BY_SHOP.format(0), "targets": ALPHA, "correlation": chain(), "more": ""}
    path = folder / "spend.policy"
    path.write_text(POLICY.format(**{"population": "1", **words, **given}))
    return path


def planned(folder: Path, **given: str) -> Plan:
    return compile_policy(written(folder, **given)).plan


def counted(plan: Plan, folder: Path, rows: list[str]) -> list[NDArray[np.int64]]:
    """(steps, values) of every measured release, read by the running code."""
    file = folder / "events.csv"
    file.write_text("\n".join(["visitor,seen_at,shop,amount", *rows]) + "\n")
    found = read_events(file, plan)
    return [found.counts[part.name] for part in plan.measured]


Value = tuple[str, float]  # the shop, or where else, and the amount; who has no event has none


def added(plan: Plan, folder: Path, values: list[Value]) -> list[NDArray[np.int64]]:
    """What a user of each value adds to a step of every release, (values, cells)."""
    found = []
    for shop, amount in values:
        rows = [f"u,2026-01-01T08:00:00,{shop},{amount}"] if shop else []
        found.append([release[0] for release in counted(plan, folder, [*rows, "u,2026-01-02T08:00:00,A,0"])])
    return [np.array(part) for part in zip(*found, strict=True)]


def likelihoods(plan: Plan, own: list[NDArray[np.int64]], factor: float) -> Floats:
    """Log likelihoods of outputs of a step that tell most, for each value, (outputs, values)."""
    logs = np.zeros((1, len(own[0])))
    for part, adds in zip(plan.measured, own, strict=True):
        for column in adds.T:
            ends = np.unique(column)[[0, -1]]
            more = -np.abs(ends[:, None] - column) / (float(part.mechanism.scale) * factor)
            logs = (logs[:, None] + more[None]).reshape(-1, logs.shape[1])
    logs -= logs.max(axis=1, keepdims=True)
    return np.asarray(logs[np.unique(np.round(logs, 12), axis=0, return_index=True)[1]])


def told(plan: Plan, folder: Path, law: Callable[[int], list[Floats]], factor: float = 1.0) -> dict[str, float]:
    """The most that all outputs tell of a step, and of two in a row; `law`: of amounts in each cell, by step."""
    cell, horizon = plan.stream.cell, plan.stream.horizon
    assert cell is not None
    assert horizon is not None
    values: list[tuple[int, Value]] = [
        (state, (name if state < len(cell.cells) else "elsewhere", amount))
        for state, name in enumerate(cell.states)
        for amount in AMOUNTS
    ]
    values.append((len(cell.cells), ("", 0.0)))
    logs = likelihoods(plan, added(plan, folder, [value for _, value in values]), factor)
    place = np.array([state for state, _ in values])
    found = {"step": 0.0, "two": 0.0}
    for record in plan.correlation.chains:
        forward = np.array(record.forward, dtype=float)
        first = np.linalg.matrix_power(forward, 2000)[0]
        if record.initial != "stationary":
            first = np.array(record.initial, dtype=float)
        courses = np.array(list(product(range(len(values)), repeat=horizon)))
        at = place[courses]
        moves = first[at[:, 0]] * np.prod([forward[at[:, t], at[:, u]] for t, u in pairwise(range(horizon))], axis=0)
        chance = np.prod([law(t)[0][courses[:, t]] for t in range(horizon)], axis=0)
        weights = moves * chance
        courses, weights = courses[weights > 0], weights[weights > 0]
        seen = np.zeros((1, len(courses)))
        for t in range(horizon):
            seen = (seen[:, None] + logs[:, courses[:, t]][None]).reshape(-1, len(courses))
        likely = np.exp(seen) * weights
        for name, width in (("step", 1), ("two", 2)):
            for start in range(horizon - width + 1):
                _, which = np.unique(courses[:, start : start + width], axis=0, return_inverse=True)
                sums = np.zeros((len(likely), which.max() + 1))
                for value in range(which.max() + 1):
                    sums[:, value] = (
                        likely[:, which.ravel() == value].sum(axis=1) / weights[which.ravel() == value].sum()
                    )
                found[name] = max(found[name], float(np.log(sums.max(axis=1) / sums.min(axis=1)).max()))
    return found


def most_only(_: int) -> list[Floats]:
    """Everybody adds the most: as counts, times the largest amount."""
    return [np.array([0.0, 0.0, 1.0] * 4 + [0.0])]


def few_values(step: int) -> list[Floats]:
    """Amounts of every size, otherwise in every cell and step; some who are elsewhere have no event."""
    weights = np.random.default_rng(step).dirichlet(np.full(3, 0.5), 4)
    weights[3] *= 0.5
    return [np.append(weights.ravel(), 0.5)]


KINDS: dict[str, dict[str, str]] = {
    "by shop": {},
    "signed": {"releases": BY_SHOP.format(-2)},
    "with counts": {"releases": BY_SHOP.format(0) + COUNTS, "horizon": "2 steps"},
    "levels": {"releases": BY_SHOP.format(0) + BY_TOWN, "horizon": "2 steps"},
    "in all": {"releases": IN_ALL},
    "a first law": {"correlation": chain(RING, "[0.4, 0.3, 0.2, 0.1]")},
    "groups": {"correlation": chain(group="men") + chain(RING, group="women"), "horizon": "2 steps"},
    "a window": {"targets": ALPHA + "target alpha_dpt(alpha = 1.2, window = 2 steps)\n"},
    "an event": {"targets": ALPHA + "target event_level(epsilon = 0.2)\n"},
}
LOOSE = {"in all": 0.2, "an event": 0.3}  # one number cannot show where a user is; the event decides over the noise


@pytest.mark.sampled(3)
@pytest.mark.parametrize("law", [most_only, few_values])
@pytest.mark.parametrize("kind", KINDS)
def test_no_value_of_a_user_is_told_more_of_than_is_promised(kind, law, tmp_path):
    """Of all courses and outputs; where everybody adds the most, a tenth less noise tells more than is promised."""
    plan = planned(tmp_path, **KINDS[kind])
    assert all(claim.holds for claim in verified_claims(plan))
    assert plan.claims.total_leakage is not None
    wide = next((float(claim.nats) for claim in plan.claims.windows), None)
    found = told(plan, tmp_path, law)
    assert found["step"] <= float(plan.claims.total_leakage) + 1e-12
    if law is most_only and kind not in ("in all", "levels"):  # the attack that the plan names is one of these outputs
        assert 0.9 * found["step"] < max(float(one.nats) for one in witnesses_of(plan)) <= found["step"] + 1e-12
    assert wide is None or found["two"] <= wide + 1e-12
    if law is not most_only or kind in LOOSE:
        assert found["step"] > LOOSE.get(kind, 0.3)
        return
    less = told(plan, tmp_path, law, 0.9)
    assert less["step"] > float(plan.claims.total_leakage) or (wide is not None and less["two"] > wide)


def altered(plan: Plan, **fields: Any) -> Plan:
    return plan.model_copy(update=fields).sealed()


def failing(plan: Plan) -> str | None:
    """The claim that the check refuses, if any."""
    return next((claim.name for claim in verified_claims(plan) if claim.holds is False), None)


def test_altered_plans_are_refused(tmp_path):
    """Whatever the theorem needs: single steps for certain, own noise of each, one event, a state for all, amounts."""
    plan = planned(tmp_path, horizon="20 steps", releases=BY_SHOP.format(0) + COUNTS)
    alpha, implied = plan.targets
    record, (first, *others) = plan.participation, plan.releases
    assert record is not None
    (law,) = plan.correlation.chains
    assert failing(plan) is None

    def targets(**said: Any) -> Plan:
        other = implied.model_copy(update=said)
        claim = plan.claims.user_level[0].model_copy(update={k: v for k, v in said.items() if k != "window"})
        claims = plan.claims.model_copy(update={"user_level": (claim,)})
        return altered(plan, targets=(alpha, other), claims=claims)

    def releases(**said: Any) -> Plan:
        return altered(plan, releases=(first.model_copy(update=said), *others))

    kinds = stream_mechanism_kinds()
    less = first.mechanism.model_copy(update={"scale": first.mechanism.scale * (1 - Decimal("1e-9"))})
    shared = kinds["dft"].model_validate(
        {"name": "dft", "coefficients": None, "choose": False, "noise": "laplace", "stddev": Decimal("1e9")}
    )
    silent = plan.correlation.model_copy(update={"chains": (law.model_copy(update={"amounts": None}),)})
    through = "a step tells of others through the chains of places alone"
    assert failing(altered(plan, correlation=silent)) == through
    assert failing(altered(plan, participation=record.model_copy(update={"per_step": 2}))) == through
    assert failing(releases(mechanism=shared)) == through
    assert failing(targets(delta=Decimal("1e-6"))) == through
    assert failing(targets(window=2)) == through
    assert failing(targets(relation=NeighboringRelation.ADD_OR_REMOVE_ONE)) == through
    assert failing(altered(plan, targets=(alpha,))) is not None
    cell = plan.stream.cell
    assert cell is not None
    fewer = cell.model_copy(update={"otherwise": None})
    assert failing(altered(plan, stream=plan.stream.model_copy(update={"cell": fewer}))) == through
    assert "leak at most" in str(failing(releases(mechanism=less)))
    more = targets(epsilon=implied.epsilon * (1 + Decimal("1e-9")))
    assert "leakage" in str(failing(more))
    small = plan.claims.model_copy(update={"largest_budget": implied.epsilon / 2})
    assert failing(altered(plan, claims=small)) is not None


def test_what_is_added_is_read_as_the_policy_says(tmp_path):
    """Against a loop: of a user's events in a step the first counts, elsewhere too; values are cut and rounded."""
    plan = planned(tmp_path, horizon="6 steps", population="9", releases=BY_SHOP.format(-2) + BY_TOWN + IN_ALL + COUNTS)
    generator, rows = np.random.default_rng(5), []
    for day, user in product(range(6), range(9)):
        for turn in range(int(generator.integers(4))):
            shop = ("A", "B", "C", "D", "E")[generator.integers(5)]
            rows.append((day, user, turn, shop, round(float(generator.uniform(-5, 9)), 3)))
    lines = [f"u{u},2026-01-{1 + day:02}T{8 + turn:02}:00:00,{shop},{v}" for day, u, turn, shop, v in rows]
    by_shop, by_town, in_all, seen = counted(plan, tmp_path, generator.permutation(lines).tolist())
    wanted = [np.zeros(part.shape, dtype=np.int64) for part in (by_shop, by_town, in_all, seen)]
    wanted[3][:, 3] = 9
    for day, user in product(range(6), range(9)):
        mine = sorted((turn, shop, value) for d, u, turn, shop, value in rows if (d, u) == (day, user))
        if not mine:
            continue
        _, shop, value = mine[0]
        place, town = {"A": (0, 0), "B": (1, 0), "C": (2, 1)}.get(shop, (3, 2))
        cut = Fraction(str(value))
        wanted[0][day, place] += rounded(min(max(cut, Fraction(-2)), Fraction(4)) * 1000)
        wanted[1][day, town] += rounded(min(max(cut, Fraction(0)), Fraction(2)) * 1000)
        wanted[2][day, 0] += rounded(min(max(cut, Fraction(0)), Fraction(4)) * 1000) * (place < 3)
        wanted[3][day, place] += place < 3
        wanted[3][day, 3] -= place < 3
    for found, right in zip((by_shop, by_town, in_all, seen), wanted, strict=True):
        assert found.tolist() == right.tolist()


def rounded(value: Fraction) -> int:
    """Halves away from 0."""
    return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


def test_from_the_policy_to_a_verified_run(tmp_path):
    """Events of the declared law are accepted, published in pieces and verified; the certificate tells of the chain."""
    policy = written(tmp_path, horizon="12 steps", population="60", releases=BY_SHOP.format(0) + COUNTS)
    plan, events, out = tmp_path / "plan", tmp_path / "drawn.csv", tmp_path / "out.csv"

    def command(*arguments: object) -> str:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    said = command("compile", policy, "-o", plan)
    assert "alpha-DP_T: at most 1.0 nats about one user at one step" in said
    assert "simulated" in command("simulate", plan, "--events", events)
    command("run", plan, "--input", events, "--output", out, "--steps", 5)
    command("run", plan, "--input", events, "--output", out, "--steps", 12)
    command("verify", plan, "--release", out)
    with (tmp_path / "out-spent.csv").open(newline="") as file:
        assert {row["shop"] for row in csv.DictReader(file)} == {"A", "B", "C", "away"}
    page = (plan / "certificate.md").read_text()
    assert "the place and the amounts of one user" in page
    assert "What a user adds to a sum at a step depends on the cell that it is in there" in page
    assert "Adversary knows exactly the stated chain" in page
    other = policy.read_text().replace("amounts = by_cell, ", "")
    (plan / "spend.policy").write_text(other)
    assert CliRunner().invoke(app, ["verify", str(plan)]).exit_code == 1


def test_stated_errors_are_those_of_runs(tmp_path):
    """Of noisy values alone, and of users who move as declared."""
    plan = planned(
        tmp_path, horizon="24 steps", population="200", releases=BY_SHOP.format(0) + COUNTS, more="estimate none()"
    )
    found = simulate(plan, 40, 3, ())
    for error in found.errors:
        stated = plan.release_named(error.release).predicted.published
        assert abs(error.mean_squared_error - stated) <= 0.01 * stated + 4 * error.mean_squared_error_stderr


def test_what_a_step_tells_is_all_that_the_chain_allows(tmp_path):
    """The largest budget that is the same at every step: of the same chain, counts have no larger `uniform` one."""
    sums = planned(tmp_path, horizon="30 steps")
    uniform = planned(tmp_path, horizon="30 steps", releases=COUNTS, more="budget uniform()")
    assert uniform.claims.largest_budget is not None
    assert float(sums.targets[1].epsilon) == pytest.approx(float(uniform.claims.largest_budget), rel=1e-10)
    (tmp_path / "plan.json").write_text(sums.to_json())
    spent = read_budgets(tmp_path / "plan.json")
    assert spent.budgets.tolist() == [rounded_up(sums.targets[1].epsilon)] * 30


def test_endless_streams_spend_what_never_adds_up_to_more(tmp_path):
    """As `bounded` does for counts."""
    sums = planned(tmp_path, horizon="unbounded")
    counts = planned(tmp_path, horizon="unbounded", releases=COUNTS, more="budget bounded()")
    assert counts.claims.largest_budget is not None
    assert float(sums.targets[1].epsilon) == pytest.approx(float(counts.claims.largest_budget), rel=1e-10)
    assert all(claim.holds for claim in verified_claims(sums))


def test_a_diff_says_that_more_is_assumed_of_amounts(tmp_path):
    """Of the same counts, with and without."""
    for name, amounts in (("old", ""), ("new", "by_cell")):
        policy = written(tmp_path, releases=COUNTS, correlation=chain(amounts=amounts))
        done = CliRunner().invoke(app, ["compile", str(policy), "-o", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
    more = CliRunner().invoke(app, ["diff", str(tmp_path / "old"), str(tmp_path / "new")])
    less = CliRunner().invoke(app, ["diff", str(tmp_path / "new"), str(tmp_path / "old")])
    assert (more.exit_code, less.exit_code) == (1, 0)
    assert "what amounts depend on" in more.output
    assert "what amounts depend on" in less.output


REFUSED = {
    "amounts not said": ({"correlation": chain(amounts="")}, "E0415"),
    "of one group not said": ({"correlation": chain(group="men") + chain(group="women", amounts="")}, "E0415"),
    "several events": ({"more": "participation at_most(1 step, per_step = 2, enforced = keep_first)"}, "E0702"),
    "another budget": ({"more": "budget quantified()"}, "E0702"),
    "shared noise": ({"more": "mechanism dft(coefficients = 2, noise = laplace)"}, "E0703"),
    "adaptive": ({"more": "mechanism budget_absorption(window = 2 steps)"}, "E0702"),
    "no largest loss": ({"more": "mechanism gaussian()"}, "E0313"),
    "parts": ({"more": "budget parts(spent = 0.1)"}, "E0509"),
    "of counts": ({"more": "estimate map(prior = initial)"}, "E0756"),
    "for ever": ({"horizon": "unbounded", "correlation": chain(STAYING, "[0.25, 0.25, 0.25, 0.25]")}, "E0701"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_theorem_does_not_cover_is_refused(kind, tmp_path):
    given, code = REFUSED[kind]
    with pytest.raises(PolicyError) as refused:
        planned(tmp_path, **given)
    assert code in {finding.code for finding in refused.value.diagnostics}


def test_who_is_nowhere_has_no_state(tmp_path):
    path = written(tmp_path, correlation=chain("[[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]]"))
    path.write_text(path.read_text().replace(' otherwise "away"', ""))
    with pytest.raises(PolicyError) as refused:
        compile_policy(path)
    assert "E0304" in {finding.code for finding in refused.value.diagnostics}
