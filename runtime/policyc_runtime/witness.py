"""What an attack that a plan names tells about one step: how much of the leakage that is promised is real.

Counts of a user's cell move by one in two cells, so with discrete Laplace noise of scale b on all cells, outputs above
the count of all others in a set of cells, and at or below it elsewhere, are e^(2/b) times likelier for states in the
set than for others. Balanced noise allows the same of every set but none and all. Sums tell as much where everybody
adds the most that is counted, as amounts may depend on the cell in any way. Outputs that are not named only
add: some of them tell at least what the named ones do. Given the state at a step, what lies before it and after it are
independent: the likelihood of each is followed through the chain, and rounded down by the error of its entries.

Nobody's protection, so not in the check: it says how much of what is promised is not caution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated

import numpy as np
from pydantic import Field

from policyc_check.claims import Claim
from policyc_check.errors import KernelError, PlanRejectedError
from policyc_check.mechanisms.laplace import Laplace
from policyc_check.mechanisms.values import StreamLaplace
from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.plan import Plan, Stated
from policyc_check.plan.queries import CountQuery, SumQuery
from policyc_check.plan.release import MeasuredRelease, Scheduled
from policyc_check.records import Label, NonNegativeInteger, PositiveDecimal, Record, Steps
from policyc_check.rounding import UNIT, Floats
from policyc_check.steps.budgets import LARGEST_HORIZON
from policyc_check.steps.chains import Law
from policyc_check.users.claims import largest_units
from policyc_check.verify import NONSENSE

LONGEST = 10_000  # steps of an attack
_SMALL = 1e-150  # likelihoods below it, beside the largest, lose digits


class OutputRun(Record):
    """Outputs of so many steps in a row, in each of which these cells, by number, are likelier than all others."""

    cells: Annotated[tuple[NonNegativeInteger, ...], Field(min_length=1)]
    steps: Steps


class Witness(Record):
    """An attack that is known: outputs from step `first` on tell at least `nats` about a user at `step`.

    They tell the state `states[0]`, by number, from `states[1]`.
    """

    group: Label | None
    nats: PositiveDecimal
    step: NonNegativeInteger
    states: tuple[NonNegativeInteger, NonNegativeInteger]
    first: NonNegativeInteger
    outputs: Annotated[tuple[OutputRun, ...], Field(min_length=1)]


def witnesses_of(plan: Plan) -> list[Witness]:
    """The attacks that a plan names, read strictly; ValueError where they are none."""
    return [Witness.model_validate(stated) for stated in plan.claims.witnesses]


def witness_claims(plan: Plan) -> Iterator[Claim]:
    """Attacks that are known: outputs that tell at least so much, about users of one of the chains."""
    chains = {record.group: record for record in plan.correlation.chains}
    try:
        witnesses = witnesses_of(plan)
    except NONSENSE as error:
        detail = f"they are none that a compiler writes ({type(error).__name__})"
        yield Claim("attacks that are known can be read", False, detail, "claims.witnesses")
        return
    for index, witness in enumerate(witnesses):
        group = f" of group `{witness.group}`" if witness.group else ""
        name = f"an attack on step {witness.step:,}{group} that reaches {witness.nats} nats is known"
        try:
            told = told_by_witness(plan, chains[witness.group], witness)
            detail = f"its outputs, followed through the chain, tell at least {told!r} nats"
            holds = Fraction(witness.nats) <= Fraction(told)
        except KernelError as error:
            holds, detail = False, error.message
        except NONSENSE as error:
            holds, detail = False, f"its outputs cannot be followed through a chain ({type(error).__name__})"
        yield Claim(name, holds, detail, f"claims.witnesses.{index}")


def told_by_witness(plan: Stated, record: ChainRecord, witness: Witness) -> float:
    """The leakage that the outputs of a witness reach, nats, rounded down; PlanRejectedError E0801 of none."""
    chain, (i, j), step = record.chain(), witness.states, witness.step - witness.first
    end = witness.first + sum(run.steps for run in witness.outputs)
    inside = step >= 0 and witness.step < end <= min(plan.stream.horizon or LARGEST_HORIZON, witness.first + LONGEST)
    sets = {run.cells for run in witness.outputs}
    if not (inside and all(0 < len(set(cells)) < chain.states and max(cells) < chain.states for cells in sets)):
        raise PlanRejectedError("E0801", "the outputs of an attack are not those of a stretch of the stream")
    if not (max(i, j) < chain.states and min(chain.marginal(witness.step)[[i, j]]) > 0):
        raise PlanRejectedError("E0801", "no user can be in a state that an attack is about")
    losses = losses_of_outputs(plan, end)[witness.first :]
    likely = np.ones((len(losses), chain.states))
    rows = [run.cells for run in witness.outputs for _ in range(run.steps)]
    for row, cells, loss in zip(likely, rows, losses.tolist(), strict=True):
        row[list(cells)] = math.exp(loss)
    ahead, back = chain.forward_side().law(1, 1), chain.backward_side()
    laws = [back.law(t, 1) for t in range(witness.first + 1, witness.step + 1)]
    before, error = _followed(likely[:step], losses[:step], laws)
    after, other = _followed(likely[:step:-1], losses[:step:-1], [ahead] * (len(losses) - step - 1))
    told = [math.log(side[i] / side[j]) for side in (before, likely[step], after)]
    return sum(told) - 2 * (error + other) - (16 + 2 * float(losses[step]) + 4 * sum(map(abs, told))) * UNIT


def losses_of_outputs(plan: Stated, steps: int) -> Floats:
    """What outputs of each step can tell of its state, nats, (steps,): those of Laplace noise on all cells."""
    cells = None if plan.stream.cell is None else plan.stream.cell.states
    losses = np.zeros(steps)
    for release in plan.releases:
        query, moved = release.query, 2
        once = isinstance(query, CountQuery | SumQuery) and query.cells_per_step is None and release.cells == cells
        if isinstance(query, SumQuery):
            moved *= largest_units(query)
        if once and isinstance(release, MeasuredRelease) and isinstance(release.mechanism, StreamLaplace):
            losses += float(Fraction(moved) / Fraction(release.mechanism.scale))
        if once and isinstance(release, Scheduled) and isinstance(release.mechanism, Laplace):
            scales = [scale for segment in release.schedule.segments for scale in segment.scales]
            told = np.array([float(Fraction(2) / Fraction(scale)) if scale else 0.0 for scale in scales])
            losses += told[release.schedule.runs.places(np.arange(steps))]
    return losses


def _followed(likely: Floats, losses: Floats, laws: list[Law]) -> tuple[Floats, float]:
    """The likelihood of outputs given the state one step after them, up to a common factor; its relative error."""
    seen, error = np.ones(likely.shape[1]), 0.0
    for at, loss, law in zip(likely, losses.tolist(), laws, strict=True):
        seen = law.matrix @ (seen * at)
        seen /= seen.max()
        # the law's; 1.01 n UNIT of products in whatever order; of e^loss, whose argument is rounded too
        error += law.relative_error + (1.01 * len(seen) + 2 * loss + 8) * UNIT
        if not seen.min() > _SMALL:
            raise PlanRejectedError("E0801", "what an attack tells is more than floating point can follow")
    return seen, error
