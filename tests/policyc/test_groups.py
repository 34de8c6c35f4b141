"""Several groups of users in one policy: those without a chain, from the policy's text to values and back."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from policyc import Compilation, compile_policy
from policyc.emit import verify_directory
from policyc.emit.certificate import render_markdown
from policyc.emit.context import certificate_content
from policyc.emit.difference import compare_plans
from policyc.emit.difference.change import Effect
from policyc_check.errors import KernelError
from policyc_check.verify import verified_claims
from policyc_runtime.laboratory.events import write_events
from policyc_runtime.laboratory.simulation import simulate
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
