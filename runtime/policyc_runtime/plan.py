"""The plan: everything a release needs, and everything an auditor must check, in one frozen record.

The plan carries the resolved promise, the neighboring relation, the sensitivity and the chains, so that a misreading of
the policy can be found by reading the plan. Promised numbers are exact decimals, written as strings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, ValidationError, model_validator

from policyc_runtime.errors import InvalidMatrixError, PlanFormatError
from policyc_runtime.estimation import AnyEstimator
from policyc_runtime.mechanisms import AnyMechanism, Budgeted, StepMechanism, StreamMechanism, WindowMechanism
from policyc_runtime.records import Matrix, NonNegativeDecimal, PositiveDecimal, Record

if TYPE_CHECKING:
    from policyc_runtime.privacy import Chain

SMALLEST_PROBABILITY = 1e-100
LARGEST_PLAN_BYTES = 256 * 2**20


class NeighboringRelation(StrEnum):
    """Which two data sets must be hard to tell apart."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"


class FileRecord(Record):
    """A file that was read or written, by its hash (SHA-256, hexadecimal)."""

    name: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class PolicyRecord(Record):
    """Which policy this plan was compiled from. `source` is the policy file; `files` what it refers to."""

    name: str
    purpose: str
    source: FileRecord
    files: tuple[FileRecord, ...]


class CellRecord(Record):
    """Where a user can be. States are the cells in order, then `otherwise` when there is one."""

    column: str
    cells: tuple[str, ...]
    otherwise: str | None

    @property
    def states(self) -> tuple[str, ...]:
        """The order of every matrix, vector and output."""
        return self.cells if self.otherwise is None else (*self.cells, self.otherwise)


class StreamRecord(Record):
    """The event stream.

    `horizon` is in steps, None when unbounded; `start` is the ISO moment of step 0, None when it is the step of the
    first event; `population` is a public number, published unprotected.
    """

    name: str
    user_column: str
    time_column: str
    cell: CellRecord | None
    step_milliseconds: PositiveInt
    step_text: str
    horizon: PositiveInt | None
    population: PositiveInt | None
    start: str | None


class AlphaDPT(Record):
    """One event of one user, against an adversary who knows the chains: total leakage at most alpha nats at every step.

    With a `window` of more than one step: all that one user does in that many steps in a row.

    Source: CAO17
    """

    kind: Literal["alpha_dpt"] = "alpha_dpt"
    alpha: PositiveDecimal
    window: PositiveInt = 1


class EventLevel(Record):
    """One event of one user, steps taken as independent: the budget of every step is at most epsilon nats."""

    kind: Literal["event_level"] = "event_level"
    epsilon: PositiveDecimal


class WEvent(Record):
    """All of one user in `window` steps in a row, steps taken as independent: they spend at most epsilon nats together.

    Source: KELLARIS14
    """

    kind: Literal["w_event"] = "w_event"
    epsilon: PositiveDecimal
    window: PositiveInt


class UserLevel(Record):
    """All events of one user, whatever their correlation: (epsilon, delta)-privacy of everything released.

    Source: DR14
    """

    kind: Literal["user_level"] = "user_level"
    epsilon: PositiveDecimal
    delta: Annotated[Decimal, Field(gt=0, lt=1, allow_inf_nan=False)]
    relation: NeighboringRelation


Target = Annotated[AlphaDPT | EventLevel | WEvent | UserLevel, Field(discriminator="kind")]


def window_of(target: Target) -> int:
    """The steps in a row that a target covers together; 1 for one that is not about windows."""
    return target.window if isinstance(target, AlphaDPT | WEvent) else 1


def relation_of(target: Target) -> NeighboringRelation:
    """Which data sets a target compares; a promise about single steps is defined for replacing a value."""
    return target.relation if isinstance(target, UserLevel) else NeighboringRelation.REPLACE_ONE


class ParticipationRecord(Record):
    """In how many steps one user takes part.

    Args:
        bound: steps at most.
        per_step: events of one user that count in a step, at most.
        spacing: steps between two of them at least; 1 says nothing.
        enforced: which events are kept, by the run; None when the bound is assumed.
        assumed: why it holds without being enforced.
    """

    bound: PositiveInt
    per_step: PositiveInt
    spacing: PositiveInt
    enforced: Literal["keep_first", "keep_sample"] | None
    assumed: str | None

    @model_validator(mode="after")
    def _one_or_the_other(self) -> ParticipationRecord:
        if (self.enforced is None) == (self.assumed is None):
            raise ValueError("a participation bound is either enforced or assumed")
        return self


class ChainRecord(Record):
    """How one user of a group moves; rows are probabilities given as decimals.

    `forward[i][j]` = Pr(state j next | state i now); `backward[i][j]` = Pr(state j before | state i now). `initial` is
    the law of step 0. `lags`: the k of the bounds through the k-th power of the chain that the accounting uses; (1,)
    is the paper's recursion.
    """

    group: str | None
    forward: Matrix | None
    backward: Matrix | None
    initial: Literal["stationary"] | tuple[Decimal, ...] | None
    evidence: str
    lags: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]

    def chain(self) -> Chain:
        """The chain as arrays; InvalidMatrixError when it is none."""
        from policyc_runtime.privacy import Chain

        def array(values: Matrix | tuple[Decimal, ...] | None) -> NDArray[np.float64] | None:
            if values is None:
                return None
            result = np.array(values, dtype=np.float64)
            if (result[np.array(values, dtype=object) > 0] < SMALLEST_PROBABILITY).any():
                raise InvalidMatrixError(
                    "E0805",
                    "a probability is positive and below 1e-100",
                    because="it would vanish in floating point and be taken for impossible",
                    help="write 0 for what cannot happen",
                )
            return result

        initial = self.initial if self.initial == "stationary" else array(self.initial)
        return Chain(forward=array(self.forward), backward=array(self.backward), initial=initial)


class Correlation(Record):
    """What is assumed about the world: chains, one a group, or none with its evidence."""

    kind: Literal["markov", "none"]
    chains: tuple[ChainRecord, ...]
    evidence: str | None

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Correlation:
        if (self.kind == "markov") != bool(self.chains):
            raise ValueError("a markov correlation has chains, and none has no chain")
        return self


class CountQuery(Record):
    """Users present in a step; `by` is the cell column, or None for one number a step."""

    kind: Literal["count"] = "count"
    by: str | None


class SumQuery(Record):
    """The sum of a column over the events of a step, each value clamped to low..high and rounded to whole grid steps.

    All that is protected is counted in units of the grid, in whole numbers.
    """

    kind: Literal["sum"] = "sum"
    column: str
    low: Decimal
    high: Decimal
    grid: PositiveDecimal
    by: str | None

    @model_validator(mode="after")
    def _ordered(self) -> SumQuery:
        if not self.low < self.high:
            raise ValueError("a clamp has a low end below its high end")
        return self


class PrefixQuery(Record):
    """The running total of another release, `of`, from step 0 on."""

    kind: Literal["prefix"] = "prefix"
    of: str
    by: str | None


class WindowQuery(Record):
    """The total of another release, `of`, over the last `steps` steps, fewer at the start."""

    kind: Literal["window"] = "window"
    of: str
    steps: PositiveInt
    by: str | None


Query = Annotated[CountQuery | SumQuery | PrefixQuery | WindowQuery, Field(discriminator="kind")]


class BudgetSegment(Record):
    """A pattern of steps that repeats: budgets (nats), noise scales, and predicted error of the published values.

    All three have the pattern's length. An epsilon of 0 means: nothing is released at that step (its scale is 0).
    `repeats` None means for ever; only the last segment of an unbounded plan has it.
    """

    epsilons: Annotated[tuple[NonNegativeDecimal, ...], Field(min_length=1)]
    scales: tuple[NonNegativeDecimal, ...]
    expected_errors: tuple[float, ...]
    repeats: PositiveInt | None

    @model_validator(mode="after")
    def _same_length(self) -> BudgetSegment:
        if not len(self.epsilons) == len(self.scales) == len(self.expected_errors):
            raise ValueError("epsilons, scales and expected_errors must have the same length")
        return self


class Schedule(Record):
    """The budget of every step, compactly: segments one after the other."""

    name: str
    segments: Annotated[tuple[BudgetSegment, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _ends_once(self) -> Schedule:
        if any(segment.repeats is None for segment in self.segments[:-1]):
            raise ValueError("only the last segment of a schedule goes on for ever")
        return self

    def _column(self, field: str, steps: int) -> Iterator[Decimal | float]:
        left = steps
        for segment in self.segments:
            pattern = getattr(segment, field)
            repeats = segment.repeats if segment.repeats is not None else -(-left // len(pattern))
            for _ in range(repeats):
                if left <= 0:
                    return
                yield from pattern[:left]
                left -= len(pattern)
        if left > 0:
            raise ValueError(f"the schedule ends {left} steps too early")

    def epsilons(self, steps: int) -> list[Decimal]:
        """Budgets of the first `steps` steps, in nats."""
        return list(self._column("epsilons", steps))  # type: ignore[arg-type]

    def scales(self, steps: int) -> list[Decimal]:
        """Noise scales of the first `steps` steps."""
        return list(self._column("scales", steps))  # type: ignore[arg-type]

    def expected_errors(self, steps: int) -> list[float]:
        """Predicted error of the published values at the first `steps` steps, in the objective's unit."""
        return list(self._column("expected_errors", steps))  # type: ignore[arg-type]

    @property
    def length(self) -> int | None:
        """Number of steps, None when it goes on for ever."""
        total = 0
        for segment in self.segments:
            if segment.repeats is None:
                return None
            total += segment.repeats * len(segment.epsilons)
        return total


class ConstraintRow(Record):
    """sum over cells of coefficient times value (and times the value one step earlier) compared with a bound.

    `current` and `previous` are sparse: (cell index, coefficient). `text` and `line` are the policy's.
    """

    text: str
    line: PositiveInt
    current: tuple[tuple[int, Decimal], ...]
    previous: tuple[tuple[int, Decimal], ...]
    relation: Literal["==", "<=", ">="]
    bound: Decimal


class Candidate(Record):
    """One combination that was considered; `predicted_error` None when it does not apply, `reason` why."""

    schedule: str
    mechanism: str
    estimator: str
    predicted_error: float | None
    chosen: bool
    reason: str


class PredictedError(Record):
    """Mean over steps and cells of the expected error, in the objective's unit, known before any data."""

    published: float
    without_postprocessing: float
    prior_alone: float | None
    signal: float | None
    method: str


class ErrorRun(Record):
    """Consecutive steps of equal predicted error; `steps` None means for ever."""

    error: float
    steps: PositiveInt | None


class ReleasePlan(Record):
    """How one release is made: what is counted, how noise is drawn, what is done to the values afterwards.

    `cells` names the published values of a step, in order; a release without cells has the one name "".
    `share`: where several releases share the promise, the part of every step's budget that this one takes, rounded up.
    A release with a step mechanism has a `schedule`; so has one with a window mechanism: the most that each step may
    spend, whatever the data, and the scale of noise that errs as much as published values while counts stand still. One
    with a stream mechanism, or derived from another, has none, and `expected_errors` says what to expect of its steps.
    `l1_sensitivity`: what one user changes in a step at most.
    """

    name: str
    query: Query
    cells: Annotated[tuple[str, ...], Field(min_length=1)]
    l1_sensitivity: PositiveDecimal
    sensitivity_reason: str
    mechanism: AnyMechanism
    schedule: Schedule | None
    expected_errors: tuple[ErrorRun, ...] = ()
    estimator: AnyEstimator
    constraints: tuple[ConstraintRow, ...]
    integer: bool
    predicted: PredictedError
    candidates: tuple[Candidate, ...]
    share: PositiveDecimal | None = None

    @model_validator(mode="after")
    def _budgets_for_steps(self) -> ReleasePlan:
        if isinstance(self.mechanism, Budgeted) != (self.schedule is not None):
            raise ValueError("a mechanism whose steps have budgets has a schedule, and no other has one")
        if (self.schedule is None) != bool(self.expected_errors):
            raise ValueError("expected errors stand in the schedule, where there is one")
        return self

    @property
    def budgets(self) -> Schedule:
        """The schedule of a release with a step mechanism; ValueError for any other."""
        if self.schedule is None:
            raise ValueError("a release without a schedule accounts for the whole stream")
        return self.schedule

    @property
    def step_mechanism(self) -> StepMechanism:
        """The mechanism of a release with a schedule; ValueError for any other."""
        if isinstance(self.mechanism, StepMechanism):
            return self.mechanism
        raise ValueError("this mechanism accounts for the whole stream")

    @property
    def stream_mechanism(self) -> StreamMechanism | None:
        """The mechanism that accounts for the whole stream, if it is one."""
        return self.mechanism if isinstance(self.mechanism, StreamMechanism) else None

    @property
    def window_mechanism(self) -> WindowMechanism | None:
        """The mechanism that publishes when counts have moved, if it is one."""
        return self.mechanism if isinstance(self.mechanism, WindowMechanism) else None

    @property
    def recorded(self) -> StreamMechanism | WindowMechanism | None:
        """The mechanism whose steps give away records, from which values are computed; None for any other."""
        return self.stream_mechanism or self.window_mechanism

    def errors(self, steps: int) -> list[float]:
        """Predicted error of the published values at the first `steps` steps, in the objective's unit."""
        if self.schedule is not None:
            return self.schedule.expected_errors(steps)
        values: list[float] = []
        for run in self.expected_errors:
            values += [run.error] * min(steps - len(values), steps if run.steps is None else run.steps)
        if len(values) < steps:
            raise ValueError(f"the expected errors end {steps - len(values)} steps too early")
        return values


class Delivery(Record):
    """When values are published; `delay` in steps, for `within` only."""

    kind: Literal["realtime", "within", "offline"]
    delay: PositiveInt | None

    @property
    def longest_wait(self) -> int | None:
        """How many later steps a value may wait for: 0, the delay, or None for all."""
        return None if self.kind == "offline" else self.delay or 0


class Notice(Record):
    """A warning the compiler gave; it goes into the certificate."""

    code: str
    message: str


class WindowClaim(Record):
    """What any `window` steps in a row leak of one user (`leakage`), or spend (`budget`): at most so many nats."""

    kind: Literal["leakage", "budget"]
    window: PositiveInt
    nats: PositiveDecimal


class Degradation(Record):
    """What is left for users who take part in `participation` steps: epsilon (nats, rounded up) at the same delta."""

    participation: PositiveInt
    epsilon: PositiveDecimal


class UserLevelClaim(Record):
    """All releases together are (epsilon, delta)-private for one user; `beyond`: when the participation bound fails."""

    epsilon: PositiveDecimal
    delta: Annotated[Decimal, Field(gt=0, lt=1, allow_inf_nan=False)]
    relation: NeighboringRelation
    beyond: tuple[Degradation, ...]


class Claims(Record):
    """What the plan says of its own privacy; recomputed by `verify`.

    `total_leakage`: the largest TPL over all steps and groups, rounded up (None without an alpha-DP_T target).
    `budget_sum`: the sum of all budgets, rounded up: what one user's whole stream is promised, whatever the
    correlation (None for an unbounded horizon). `largest_budget`: None where no step has a budget of its own.
    `windows`: one for each target over more than one step. `user_level`: one for each user-level target, in order.
    """

    total_leakage: PositiveDecimal | None
    budget_sum: PositiveDecimal | None
    largest_budget: PositiveDecimal | None
    windows: tuple[WindowClaim, ...] = ()
    user_level: tuple[UserLevelClaim, ...] = ()


class Plan(Record):
    """An executable release plan. `digest` is the SHA-256 of everything else in it, canonically written.

    `sharing`: how the budgets were divided between several releases; None for one.
    """

    format: Literal["policyc-plan"] = "policyc-plan"
    version: Literal[1] = 1
    compiler: str
    policy: PolicyRecord
    stream: StreamRecord
    delivery: Delivery
    objective: Literal["mean_squared_error", "mean_absolute_error"]
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]
    correlation: Correlation
    participation: ParticipationRecord | None = None
    releases: Annotated[tuple[ReleasePlan, ...], Field(min_length=1)]
    sharing: str | None = None
    claims: Claims
    notices: tuple[Notice, ...]
    digest: str = ""

    def computed_digest(self) -> str:
        """The digest this plan ought to carry."""
        content = self.model_dump(mode="json", exclude={"digest"})
        return hashlib.sha256(canonical_json(content)).hexdigest()

    def sealed(self) -> Plan:
        """The same plan with its digest filled in."""
        return self.model_copy(update={"digest": self.computed_digest()})

    def to_json(self) -> str:
        """The text of plan.json: readable, ends with a newline, reads back exactly."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def release_named(self, name: str) -> ReleasePlan:
        """The release of that name; KeyError when there is none."""
        for release in self.releases:
            if release.name == name:
                return release
        raise KeyError(name)


def canonical_json(content: object) -> bytes:
    """One byte string for one value: sorted keys, no spaces, UTF-8."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def load_plan(path: str | Path) -> Plan:
    """Read a plan file; refuse what is not exactly a plan of this version.

    Args:
        path: `plan.json`, or the directory that holds it.

    Raises:
        PlanFormatError: missing, too large, not JSON, another version, unknown or missing fields.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "plan.json"
    if file.suffix == ".policy":
        raise PlanFormatError(
            "E0802",
            "this is a policy, not a plan",
            where=str(file),
            help=f"compile it first: `policyc compile {file}`; then name the directory that it writes",
        )
    again = "compile the policy again: `policyc compile FILE`"
    try:
        if file.stat().st_size > LARGEST_PLAN_BYTES:
            raise PlanFormatError("E0802", "the plan file is too large to be a plan", where=str(file), help=again)
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PlanFormatError("E0802", "there is no plan here", where=str(file), help=again) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else (error.strerror or "unreadable")
        raise PlanFormatError("E0802", "the plan cannot be read", where=str(file), because=reason, help=again) from None
    try:
        plan = Plan.model_validate_json(text)
        if plan.model_dump(mode="json") != json.loads(text):
            # A field left out would be read as its default: the file would not say what the digest covers.
            raise PlanFormatError("E0802", "the plan is not as it was written", where=str(file), help=again)
        return plan
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file itself"
        raise PlanFormatError(
            "E0802",
            "this is not a plan that this version understands",
            where=f"{file}: {place}",
            because=first["msg"][:1].lower() + first["msg"][1:],
            help=again,
        ) from None
