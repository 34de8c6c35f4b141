"""How often one user takes part, in words: the bound of the policy, and what holds users to it."""

from __future__ import annotations

from policyc.emit.blocks.user_limits import (
    number_of,
)
from policyc.emit.blocks.user_steps import is_assumed, taking_part, user_steps_of
from policyc.emit.blocks.wording import (
    Json,
    in_period,
    listed,
    quoted,
    told_in_turn,
)
from policyc.emit.numbers import counted, exact
from policyc_check.plan.claims import Degradation, RhoLeft
from policyc_check.plan.queries import CountQuery, SumQuery
from policyc_check.plan.stream import ParticipationRecord
from policyc_check.users.claims import own_bound, spread_of, window_of
from policyc_runtime.plan import Plan

KEPT_OF_A_STEP = (
    "of a user's events in each step it keeps those that count and drops the others before any noise is drawn"
)
KEPT = {
    "keep_first": "the run keeps the first of a user's steps that fit the bound and drops the others before any noise "
    "is drawn. What is kept never depends on later steps",
    "keep_sample": "the run keeps a sample of a user's steps that fits the bound and drops the others before any noise "
    "is drawn",
}


def record_of(plan: Plan) -> ParticipationRecord:
    """The participation bound, which every plan with a user-level promise has."""
    assert plan.participation is not None, "verified before"
    return plan.participation


def bound_words(plan: Plan) -> str:
    """`in at most 100 steps, once in each`, with the spacing where there is one."""
    record = record_of(plan)
    if window_of(plan) is not None:
        return f"in any number of steps, {_in_a_step(plan)}"
    apart = f", any two of them at least {counted(record.spacing, 'step')} apart" if record.spacing > 1 else ""
    of = " of a period" if in_period(plan) else ""
    return f"in at most {counted(own_bound(plan), 'step')}{of}{apart}, {_in_a_step(plan)}"


def _in_a_step(plan: Plan) -> str:
    """`once in each`, or in how many cells of each; where releases differ, `cells_words` says in how many."""
    most, spread = record_of(plan).per_step, _spread(plan)
    if not spread:
        return f"{'once' if most == 1 else f'at most {most:,} times'} in each"
    if len(spread) == 1:
        return f"in each once in up to {counted(max(spread), 'cell')}"
    return "in each once in a limited number of cells"


def _spread(plan: Plan) -> dict[int, list[str]]:
    """In how many cells of a step a user counts, with the releases of which that is so."""
    found: dict[int, list[str]] = {}
    for release in plan.releases:
        if isinstance(release.query, CountQuery | SumQuery) and release.query.cells_per_step is not None:
            found.setdefault(spread_of(plan, release), []).append(quoted(release.name))
    return found


def cells_words(plan: Plan) -> str:
    """In how many cells of each release, where they differ: ` That is up to 3 cells of each of `a` and `b`. ...`."""
    spread = _spread(plan)
    if len(spread) < 2:
        return ""
    said = [
        f"up to {counted(number, 'cell')} of {'each of ' if len(names) > 1 else ''}{listed(names)}"
        for number, names in spread.items()
    ]
    return f" That is {told_in_turn(said)}."


def steps_words(plan: Plan) -> str:
    """The bound as it goes on from a user: what counts where the run enforces it, and what is assumed where not."""
    record = record_of(plan)
    if window_of(plan) is not None:
        return f"what counts {_in_a_step(plan)} is published" if record.enforced else _in_a_step(plan)
    if record.enforced:
        of = " of the period" if in_period(plan) else ""
        return f"at most {counted(own_bound(plan), 'step')}{of} count, {bound_words(plan).split(', ', 1)[1]}"
    return bound_words(plan)


def _beside(plan: Plan) -> str:
    """In how many of them, for a promise about all of its events."""
    said = [f"{taking_part(plan, one)}{' (assumed)' if is_assumed(plan, one) else ''}" for one in user_steps_of(plan)]
    return f"; for the promise about all of its events in {listed(said)}" if said else ""


def participation(plan: Plan) -> Json:
    """The block of the bound, who holds users to it, and what is left for those beyond it."""
    record = record_of(plan)
    kept = KEPT_OF_A_STEP if window_of(plan) is not None else KEPT.get(record.enforced or "")
    how = f"by the run: {kept}" if record.enforced else "by nobody: it is assumed"
    bound = f"a user takes part {bound_words(plan)}{_beside(plan)}"
    return {
        "bound": f"{bound}.{cells_words(plan)}".removesuffix("."),
        "per_step": str(record.per_step),
        "spacing": str(record.spacing),
        "enforced": how,
        "assumed": record.assumed or next((one.assumed for one in user_steps_of(plan)), None),
        "beyond": [{"steps": str(point.participation), **_figure(point)} for point in plan.claims.user_level[0].beyond],
    }


def _figure(point: Degradation | RhoLeft) -> Json:
    number = number_of(point)
    return {"rho" if isinstance(point, RhoLeft) else "epsilon": "none" if number is None else exact(number)}
