"""Several groups of users in one policy, without a chain or of known sizes: from its text to values and back."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from policyc import Compilation, PolicyError, compile_policy
from policyc.emit import verify_directory
from policyc.emit.certificate import render_markdown
from policyc.emit.context import certificate_content
from policyc.emit.difference import compare_plans
from policyc.emit.difference.change import Effect
from policyc_check.errors import KernelError
from policyc_check.verify import verified_claims
from policyc_runtime.laboratory.events import write_events
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.release import release
from policyc_runtime.released_file import verify_release

STREAM = """policy trips "Trips"
stream trips {
  user who time at cell place in {"A", "B"} otherwise "away" step 1d
  horizon HORIZON population 200 start "2026-01-05"
}
release seen = count(trips) by place
target alpha_dpt(alpha = 1.0)
target alpha_dpt(alpha = 1.5, window = 3 steps)
"""
MOVE = "[[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]"
LOCALS = f'correlation markov(forward = {MOVE}, initial = stationary, evidence = "a survey") for locals\n'
TOURISTS = 'correlation none(evidence = "tickets are drawn anew") for tourists\n'
GUESTS = 'correlation none(evidence = "beds are drawn anew") for guests\n'


def compiled(folder: Path, rest: str, horizon: str = "12 steps") -> Compilation:
    """A policy of these groups."""
    path = folder / "trips.policy"
    delivered = "" if "deliver" in rest else "deliver realtime\n"
    path.write_text(STREAM.replace("HORIZON", horizon) + delivered + rest, encoding="utf-8")
    return compile_policy(path)


def claims_of(plan: Plan, group: str) -> list[str]:
    """What is claimed, and found true, of a group."""
    found = list(verified_claims(plan))
    assert all(claim.holds for claim in found)
    return [claim.name for claim in found if f"of group `{group}`" in claim.name]


@pytest.mark.parametrize("horizon", ["12 steps", "unbounded"])
@pytest.mark.parametrize("first", [LOCALS, GUESTS, ""])
def test_a_group_without_chain_leaks_what_is_spent(tmp_path: Path, first: str, horizon: str) -> None:
    """One line for each promise; a window spends no more than it says, a step its budget, chains beside it or not."""
    plan = compiled(tmp_path, first + TOURISTS, horizon).plan
    own = [line for line in claims_of(plan, "tourists") if line.startswith("without correlation of group")]
    assert len(own) == (2 if first else 0)  # one group alone is everybody, as it always was
    assert [group.group for group in plan.correlation.independent] == (
        [] if not first else ["guests", "tourists"] if first == GUESTS else ["tourists"]
    )


def test_less_than_is_spent_cannot_be_claimed(tmp_path: Path) -> None:
    """Each claim of groups without chains, lowered by a millionth, is refused."""
    plan = compiled(tmp_path, GUESTS + TOURISTS).plan
    less = Decimal("0.999999")
    (window,) = plan.claims.windows
    assert plan.claims.total_leakage is not None
    for lowered in (
        {"total_leakage": plan.claims.total_leakage * less},
        {"windows": (window.model_copy(update={"nats": window.nats * less}),)},
    ):
        altered = plan.model_copy(update={"claims": plan.claims.model_copy(update=lowered)}).sealed()
        *_, last = verified_claims(altered)
        assert last.holds is False
        assert last.name.startswith("without correlation of group `guests`")


def test_a_chain_beside_it_decides_the_budgets(tmp_path: Path) -> None:
    """A chain never leaks less than the budget: who has none changes nothing of what is spent."""
    alone = compiled(tmp_path, LOCALS.replace(" for locals", "")).plan
    beside = compiled(tmp_path, LOCALS + TOURISTS + "estimate mle()\nbudget " + alone.releases[0].schedule.name).plan
    assert beside.releases[0].schedule.epsilons(12) == alone.releases[0].schedule.epsilons(12)


def test_the_certificate_names_who_has_no_chain(tmp_path: Path) -> None:
    """What is believed of them, who vouches for it; nobody is drawn from a law that nobody stated."""
    done = compiled(tmp_path, LOCALS + TOURISTS + "deliver offline\npostprocess seen { sum(seen) == population }\n")
    text = re.sub(r"\s+", " ", render_markdown(certificate_content(done.plan, {})))
    for words in (
        "the stated chain, from the stated start on, and that the steps of users of group `tourists` are independent",
        "exactly how users of each group move (the stated chain)",
        "the steps of each of the users of group `tourists` tell nothing of each other",
        "“a survey” for users of group `locals` and “tickets are drawn anew” for users of group `tourists`",
        "### Groups without a chain",
    ):
        assert words in text
    with pytest.raises(KernelError) as refused:
        simulate(done.plan, 1, 1)
    assert refused.value.because == "no law says where users of group `tourists` are"


def test_it_runs_and_verifies(tmp_path: Path) -> None:
    """Simulated events, release, ledger, directory; the policy is resolved again and agrees."""
    done = compiled(tmp_path, LOCALS + TOURISTS)
    directory = done.save(tmp_path / "trips.plan")
    write_events(done.plan, 3, tmp_path / "events.csv")
    released = release(done.plan, tmp_path / "events.csv", tmp_path / "ledger", pin=None, steps=12)
    write_release(released, tmp_path / "out.csv")
    assert verify_release(done.plan, tmp_path / "ledger", tmp_path / "out.csv")[0] == 12
    assert all(claim.holds is not False for claim in verify_directory(directory))


def test_a_group_without_chain_that_gets_one_is_another_adversary(tmp_path: Path) -> None:
    """Either way the two cannot be compared; a group that is left out is no longer considered; evidence is said."""
    one = compiled(tmp_path, LOCALS + TOURISTS).plan
    other = compiled(tmp_path, LOCALS + LOCALS.replace("locals", "tourists")).plan
    fewer = compiled(tmp_path, LOCALS).plan
    newer = compiled(tmp_path, LOCALS + TOURISTS.replace("anew", "again")).plan

    def changes(old: Plan, new: Plan) -> list[tuple[str | None, str | None, Effect]]:
        found = compare_plans(old, new)
        return [(c.old, c.new, c.effect) for c in found if "of group tourists" in c.what]

    assert changes(one, other) == [("independent steps", "a chain", Effect.WEAKER)]
    assert changes(other, one) == [("a chain", "independent steps", Effect.WEAKER)]
    assert changes(one, fewer) == [("independent steps", None, Effect.WEAKER)]
    assert changes(fewer, one) == [(None, "independent steps", Effect.STRONGER)]
    assert changes(one, newer) == [("tickets are drawn anew", "tickets are drawn again", Effect.NEITHER)]


def shared(folder: Path, estimate: str, deliver: str, share: str = "0.3", constraint: str = "seen >= 0") -> Compilation:
    """A policy of two groups that begin apart, of which the first has this share."""
    more = str(1 - Decimal(share))
    start = 'initial = [0.8, 0.1, 0.1], evidence = "a survey") for locals\n'
    one = LOCALS.replace('initial = stationary, evidence = "a survey") for locals\n', f"share = {share}, {start}")
    two = LOCALS.replace("0.8", "0.4").replace("[[0.4, 0.1, 0.1]", "[[0.4, 0.3, 0.3]").replace("0.4, 0.1]", "0.4, 0.5]")
    two = two.replace("0.1, 0.1, 0.4]", "0.1, 0.5, 0.4]").replace("evidence", f"share = {more}, evidence")
    demands = f"postprocess seen {{ sum(seen) == population, {constraint} }}\n"
    rest = f"deliver {deliver}\nestimate {estimate}\n{demands}"
    return compiled(folder, one + two.replace("locals", "guests") + rest, "20 steps")


@pytest.mark.sampled(1, laws=2)
@pytest.mark.parametrize(
    ("estimate", "deliver"),
    [
        ("map(prior = initial)", "offline"),
        ("map(prior = frequency)", "realtime"),
        ("filter()", "realtime"),
        ("filter()", "within(3 steps)"),
        ("smoother()", "offline"),
        ("joint_map()", "offline"),
    ],
)
def test_groups_of_known_sizes_are_estimated(tmp_path: Path, estimate: str, deliver: str) -> None:
    """Run in two pieces, verified; the error of simulated users is as the plan says, within 5 % and 4 deviations."""
    done = shared(tmp_path, estimate, deliver)
    directory = done.save(tmp_path / "trips.plan")
    write_events(done.plan, 3, tmp_path / "events.csv")
    for steps in (9, 20):
        values = release(done.plan, tmp_path / "events.csv", tmp_path / "ledger", pin=None, steps=steps)
    write_release(values, tmp_path / "out.csv")
    assert verify_release(done.plan, tmp_path / "ledger", tmp_path / "out.csv")[2]
    assert all(claim.holds is not False for claim in ledger_claims(done.plan, tmp_path / "ledger"))
    assert all(claim.holds is not False for claim in verify_directory(directory))
    (predicted,) = [part.predicted for part in done.plan.releases]
    found = next(error for error in simulate(done.plan, 5, 60, ()).errors if error.chosen)
    away = abs(found.mean_squared_error - predicted.published)
    assert away <= 0.05 * predicted.published + 4 * math.hypot(found.mean_squared_error_stderr, predicted.stderr or 0)


def test_users_are_drawn_by_shares(tmp_path: Path) -> None:
    """What is simulated, as counts and as events, is where so many users of each group are expected at step 0."""
    plan = shared(tmp_path, "mle()", "offline", share="0.9").plan
    first = np.mean([simulate(plan, seed, 1, ()).truth["seen"][0] for seed in range(60)], axis=0)
    law = sum(float(record.share or 0) * record.chain().marginal(0) for record in plan.correlation.chains)
    assert first == pytest.approx(200 * np.asarray(law), abs=4.0)
    assert not any("evenly" in words for words in simulate(plan, 1, 1, ()).said)
    write_events(plan, 1, tmp_path / "events.csv")
    rows = (tmp_path / "events.csv").read_text(encoding="utf-8").splitlines()
    seen = sum("2026-01-05" in row and row.split(",")[2] == "A" for row in rows)
    assert seen == pytest.approx(200 * float(np.asarray(law)[0]), abs=30)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("prior", ["initial", "uniform", "frequency"])
def test_the_emitted_model_finds_what_the_run_published(tmp_path: Path, prior: str) -> None:
    """Whole counts of `map` are an optimum of the emitted program, whose prior is the mixture of the groups.

    Where two cells are as likely, several are: what is published costs as much as what the program finds.
    """
    done = shared(tmp_path, f"map(prior = {prior})", "offline", constraint="seen >= 0, integer(seen)")
    directory = done.save(tmp_path / "trips.plan")
    write_events(done.plan, 3, tmp_path / "events.csv")
    values = release(done.plan, tmp_path / "events.csv", tmp_path / "ledger", pin=None, steps=20)
    write_release(values, tmp_path / "out.csv")
    command = [sys.executable, str(directory / "map_model.py"), "out.csv", "best.csv"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "60 of 60 values" in said or "differ by at most 1" in said
    if prior != "frequency":
        published, best = (_cost(done.plan, tmp_path / name, prior) for name in ("out.csv", "best.csv"))
        assert published == pytest.approx(best, abs=1e-6)
    assert f"SHARES = {[0.3, 0.7]}" in (directory / "map_model.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("whole", ["", ", integer(seen)"])
def test_the_emitted_flows_are_those_of_all_groups(tmp_path: Path, whole: str) -> None:
    """Counts of `joint_map` are the nearest allowed to the optimum of the emitted program of groups' flows."""
    done = shared(tmp_path, "joint_map()", "offline", constraint="seen >= 0" + whole)
    directory = done.save(tmp_path / "trips.plan")
    write_events(done.plan, 3, tmp_path / "events.csv")
    values = release(done.plan, tmp_path / "events.csv", tmp_path / "ledger", pin=None, steps=20)
    write_release(values, tmp_path / "out.csv")
    command = [sys.executable, str(directory / "map_model.py"), "out.csv", "best.csv"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "60 of 60 values" in said
    assert f"SHARES = {[0.3, 0.7]}" in (directory / "map_model.py").read_text(encoding="utf-8")


def _cost(plan: Plan, file: Path, prior: str) -> float:
    """Minus the log-posterior of a file's values, but for a constant."""
    values = np.array([[float(cell) for cell in row.split(",")[3:5]] for row in file.read_text().splitlines()[1:]])
    noisy, found = (values[:, column].reshape(-1, 3) for column in (0, 1))
    records = plan.correlation.chains
    laws = [sum(float(record.share or 0) * record.chain().marginal(step) for record in records) for step in range(20)]
    law = np.full((20, 3), 1 / 3) if prior == "uniform" else np.array(laws)
    scales = np.array(plan.scheduled[0].schedule.scales(20), dtype=np.float64)[:, None]
    whole = np.vectorize(math.lgamma)(found + 1)
    return float((np.abs(found - noisy) / scales + whole - found * np.log(law)).sum())


@pytest.mark.parametrize("estimate", ["smoother()", "joint_map()"])
def test_groups_of_unknown_sizes_are_not_estimated(tmp_path: Path, estimate: str) -> None:
    """They are refused with the reason and what to write."""
    plain = LOCALS + LOCALS.replace("locals", "guests") + f"deliver offline\nestimate {estimate}\n"
    with pytest.raises(PolicyError) as refused:
        compiled(tmp_path, plain + "postprocess seen { sum(seen) == population }\n")
    assert "groups with a `share` each" in str(refused.value.diagnostics[-1].because)


def test_pages_say_how_large_groups_are_or_that_nobody_does(tmp_path: Path) -> None:
    """Shares are public numbers; without them the certificate says that predictions split users evenly."""
    told = re.sub(r"\s+", " ", render_markdown(certificate_content(shared(tmp_path, "filter()", "realtime").plan, {})))
    assert "The shares of the groups: 0.3 of `locals` and 0.7 of `guests`" in told
    assert "Share: 0.3 of all users, as the policy says; estimates use it, and no promise rests on it" in told
    plain = compiled(tmp_path, LOCALS + LOCALS.replace("locals", "guests")).plan
    text = re.sub(r"\s+", " ", render_markdown(certificate_content(plain, {})))
    assert "users are split evenly between groups, as the policy does not say how large they are" in text
    assert "evenly" not in told


def test_other_shares_are_said(tmp_path: Path) -> None:
    """Another share is another public number, a first one more of the data than before."""
    old, new = (shared(tmp_path, "filter()", "realtime", share=share).plan for share in ("0.3", "0.4"))
    silent = old.model_copy(
        update={
            "correlation": old.correlation.model_copy(
                update={"chains": tuple(c.model_copy(update={"share": None}) for c in old.correlation.chains)}
            )
        }
    )
    for one, other, effect in (
        (old, new, Effect.NEITHER),
        (silent, new, Effect.WEAKER),
        (old, silent, Effect.STRONGER),
    ):
        found = [change.effect for change in compare_plans(one, other) if "the share of group" in change.what]
        assert found == [effect] * 2


def test_a_place_that_is_left_for_good_is_planned_over_a_horizon(tmp_path: Path) -> None:
    """Its law never settles, which only a stream without end asks for; and then it is refused (E0706)."""
    falling = "[[0.5, 0.5, 0], [0, 0.9, 0.1], [0, 0.1, 0.9]], initial = [1, 0, 0]"
    left = f'correlation markov(forward = {falling}, evidence = "a survey")\n'
    assert all(claim.holds for claim in verified_claims(compiled(tmp_path, left, "20 steps").plan))
    with pytest.raises(PolicyError, match="E0706"):
        compiled(tmp_path, left, "unbounded")


def test_altered_shares_are_refused(tmp_path: Path) -> None:
    """Of a plan that was sealed again: other shares, none, another kind, and a group that the policy does not name."""
    directory = shared(tmp_path, "filter()", "realtime").save(tmp_path / "trips.plan")
    text = (directory / "plan.json").read_text(encoding="utf-8")

    def failing(change: Callable[[dict[str, Any]], object]) -> list[str]:
        content = json.loads(text)
        change(content["correlation"])
        altered = Plan.model_validate(content).sealed()
        (directory / "plan.json").write_text(altered.to_json(), encoding="utf-8")
        return [claim.name for claim in verify_directory(directory) if claim.holds is False]

    for change in (
        lambda known: known["chains"][0].update(share="0.4"),
        lambda known: [record.pop("share") for record in known["chains"]],
        lambda known: known.update(kind="none"),
        lambda known: known.update(independent=[{"group": "staff", "evidence": "rota"}]),
    ):
        assert "the plan promises and assumes what its policy says" in failing(change)
