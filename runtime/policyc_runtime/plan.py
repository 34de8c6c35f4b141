"""The plan: everything a release needs, and everything an auditor must check, in one frozen record.

The plan carries the resolved promise, the neighboring relation, the sensitivity and the chains, so that a misreading of
the policy can be found by reading the plan. Promised numbers are exact decimals, written as strings.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt, ValidationError, model_validator

from policyc_runtime.correlation import Correlation
from policyc_runtime.errors import PlanFormatError
from policyc_runtime.estimation import AnyEstimator, ConstraintSet
from policyc_runtime.estimation.constraints import ConstraintRow
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.files import LARGEST_READ, read_ordinary
from policyc_runtime.json_text import read_json
from policyc_runtime.mechanisms import AnyMechanism, Budgeted, StepMechanism, StreamMechanism, WindowMechanism
from policyc_runtime.queries import Query
from policyc_runtime.records import Count, Label, Name, PositiveDecimal, Record, Steps
from policyc_runtime.schedule import Schedule
from policyc_runtime.targets import NeighboringRelation, Target

LARGEST_PLAN_BYTES = LARGEST_READ
MOST_CELLS = 100_000


def _inside(name: str) -> str:
    """A file name that leads nowhere but into its own folder, on any system."""
    path = PurePosixPath(name)
    if not path.name or path.is_absolute() or ".." in path.parts or "\\" in name or PureWindowsPath(name).drive:
        raise ValueError("a file of the policy lies in its folder, and its name leads nowhere else")
    return name


class FileRecord(Record):
    """A file that was read or written, by its hash (SHA-256, hexadecimal); its name is relative to the policy."""

    name: Annotated[Label, AfterValidator(_inside)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class PolicyRecord(Record):
    """Which policy this plan was compiled from. `source` is the policy file; `files` what it refers to."""

    name: Name
    purpose: str
    source: FileRecord
    files: tuple[FileRecord, ...]


class CellRecord(Record):
    """Where a user can be. States are the cells in order, then `otherwise` when there is one."""

    column: Label
    cells: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CELLS)]
    otherwise: Label | None

    @model_validator(mode="after")
    def _told_apart(self) -> CellRecord:
        if len(set(self.states)) < len(self.states):
            raise ValueError("two cells have one name")
        return self

    @property
    def states(self) -> tuple[str, ...]:
        """The order of every matrix, vector and output."""
        return self.cells if self.otherwise is None else (*self.cells, self.otherwise)


class StreamRecord(Record):
    """The event stream.

    `horizon` is in steps, None when unbounded; `start` is the ISO moment of step 0, None when it is the step of the
    first event; `population` is a public number, published unprotected.
    """

    name: Name
    user_column: Label
    time_column: Label
    cell: CellRecord | None
    step_milliseconds: PositiveInt
    step_text: Label
    horizon: Steps | None
    population: Count | None
    start: Label | None


class ParticipationRecord(Record):
    """In how many steps one user takes part.

    Args:
        bound: steps at most.
        per_step: events of one user that count in a step, at most.
        spacing: steps between two of them at least; 1 says nothing.
        enforced: which events are kept, by the run; None when the bound is assumed.
        assumed: why it holds without being enforced.
    """

    bound: Steps
    per_step: Count
    spacing: Steps
    enforced: Literal["keep_first", "keep_sample"] | None
    assumed: str | None

    @model_validator(mode="after")
    def _one_or_the_other(self) -> ParticipationRecord:
        if (self.enforced is None) == (self.assumed is None):
            raise ValueError("a participation bound is either enforced or assumed")
        return self


class Candidate(Record):
    """One combination that was considered; `predicted_error` None when it does not apply, `reason` why."""

    schedule: str
    mechanism: str
    estimator: str
    predicted_error: float | None
    chosen: bool
    reason: str


ErrorKind = Literal["expected", "simulated", "noise", "at_least", "unconstrained"]


class PredictedError(Record):
    """Mean over steps and cells of the expected error, in the objective's unit, known before any data.

    Args:
        kind: what `published` is. "expected": an expectation, computed from what the policy declares and the noise.
            "simulated": the mean over simulated courses of what it declares. "noise": the error of the noisy values,
            where nobody can say what estimator and constraints make of them. "at_least": a lower bound, since what
            mechanism or estimator add depends on how the stream moves. "unconstrained": a lower bound before
            constraints, which take some of it away where values lie near their bounds, and nobody says where that is.
        published: of the values that are published.
        stderr: the standard error of `published`, of "simulated" ones and bounds that were simulated; else None.
        because: a clause, why no more than this is known, of all kinds but "expected" and "simulated"; else None.
        without_postprocessing: of the noisy values.
        prior_alone: of publishing what is public, without any data; None where no law is declared.
        signal: the mean true value, to hold the error against; None where it is not known.
        method: how it was found, as a phrase.
    """

    kind: ErrorKind
    published: float
    stderr: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    because: str | None = None
    without_postprocessing: float
    prior_alone: float | None
    signal: float | None
    method: str

    @model_validator(mode="after")
    def _says_why(self) -> PredictedError:
        if (self.because is None) != (self.kind in ("expected", "simulated")):
            raise ValueError("errors that are not those of runs, and no others, say why no more is known")
        if self.stderr is not None and self.kind in ("expected", "noise"):
            raise ValueError("what is computed has no standard error")
        return self

    @property
    def least(self) -> str:
        """The words that belong before `published` wherever it stands, with a blank; empty unless it is a bound."""
        return {"at_least": "at least ", "unconstrained": "before constraints at least "}.get(self.kind, "")


class ErrorRun(Record):
    """Consecutive steps of equal predicted error; `steps` None means for ever."""

    error: float
    steps: Steps | None


class ReleasePlan(Record):
    """How one release is made: what is counted, how noise is drawn, what is done to the values afterwards.

    `cells` names the published values of a step, in order; a release without cells has the one name "".
    `share`: where several releases share the promise, the part of every step's budget that this one takes, rounded up.
    A release with a step mechanism has a `schedule`; so has one with a window mechanism: the most that each step may
    spend, whatever the data, and the scale of noise that errs as much as published values while counts stand still. One
    with a stream mechanism, or derived from another, has none, and `expected_errors` says what to expect of its steps.
    `l1_sensitivity`: what one user changes in a step at most.
    """

    name: Name
    query: Query
    cells: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CELLS + 1)]
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
    def constraint_set(self) -> ConstraintSet:
        """What its published values must satisfy, as arrays."""
        return ConstraintSet.of_rows(self.constraints, len(self.cells), integer=self.integer)

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
    delay: Steps | None

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
    window: Steps
    nats: PositiveDecimal


class Degradation(Record):
    """What is left for users who take part in `participation` steps: epsilon (nats, rounded up) at the same delta.

    `epsilon` None: nothing is, as so little noise may show such a user for certain more often than delta says.
    """

    participation: Count
    epsilon: PositiveDecimal | None


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

    `signal`: how the released numbers move, as the policy says; for utility only. `sharing`: how the budgets were
    divided between several releases; None for one.
    """

    format: Literal["policyc-plan"] = "policyc-plan"
    version: Literal[1] = 1
    compiler: Annotated[Label, Field(min_length=1)]
    policy: PolicyRecord
    stream: StreamRecord
    delivery: Delivery
    objective: Literal["mean_squared_error", "mean_absolute_error"]
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]
    correlation: Correlation
    participation: ParticipationRecord | None = None
    signal: SignalModel | None = None
    releases: Annotated[tuple[ReleasePlan, ...], Field(min_length=1)]
    sharing: str | None = None
    claims: Claims
    notices: tuple[Notice, ...]
    digest: str = ""

    @property
    def drops(self) -> bool:
        """Whether events of users may be dropped, so that published values and their errors are of kept ones."""
        record, horizon = self.participation, self.stream.horizon
        if record is None or record.enforced is None:
            return False
        return horizon is None or record.bound < horizon or record.spacing > 1

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
        text = read_ordinary(file, most=LARGEST_PLAN_BYTES).decode("utf-8")
    except FileNotFoundError:
        named = "name a directory that `policyc compile FILE` wrote"
        raise PlanFormatError("E0802", "there is no plan here", where=str(file), help=named) from None
    except (OSError, ValueError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, ValueError) else (error.strerror or "unreadable")
        raise PlanFormatError("E0802", "the plan cannot be read", where=str(file), because=reason, help=again) from None
    place = str(file)
    try:
        read_json(text)  # for what is wrong with it as a text; numbers are then read exactly
        plan = Plan.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = f"{file}: {'.'.join(str(part) for part in first['loc']) or 'the file itself'}"
        reason = first["msg"].removeprefix("Value error, ")
    except ValueError as error:
        reason = str(error)
    else:
        if plan.to_json() == text:
            return plan
        # a field left out would be read as its default: the file would not say what the digest covers
        raise PlanFormatError("E0802", "the plan is not as it was written", where=place, help=again)
    raise PlanFormatError(
        "E0802",
        "this is not a plan that this version understands",
        where=place,
        because=reason[:1].lower() + reason[1:],
        help=again,
    )
