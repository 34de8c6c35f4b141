"""The checked policy: what a policy means, with names looked up, units converted and files read.

Spans are kept so that later passes can point into the text. Plain dataclasses: `policyc check` must start fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from policyc.diagnostics import Source, Span
from policyc.semantics.lengths import DAY, MONTH, Clock, Length
from policyc.semantics.postprocessing import Postprocess
from policyc.semantics.targets import AlphaDPTTarget, Target, UserLevelTarget, UserStepsTarget

Vector = tuple[Decimal, ...]
Matrix = tuple[Vector, ...]


MOST_BALANCED = 64  # values of a step; of more, balanced noise is hardly smaller and takes long to draw


@dataclass(frozen=True)
class Level:
    """What cells belong to: `of` has the index among `names` of each cell's own."""

    column: str
    names: tuple[str, ...]
    of: tuple[int, ...]

    @property
    def of_cells(self) -> tuple[str, ...]:
        """The name for each cell, in order."""
        return tuple(self.names[index] for index in self.of)


@dataclass(frozen=True)
class CellSchema:
    """Where a user can be in a step. `states` is the order of every matrix, vector and output."""

    column: str
    cells: tuple[str, ...]
    otherwise: str | None
    span: Span
    levels: tuple[Level, ...] = ()

    @property
    def states(self) -> tuple[str, ...]:
        """The cells, then `otherwise` when there is one."""
        return self.states_by(self.column)

    def states_by(self, column: str) -> tuple[str, ...]:
        """The same of a level, by its column."""
        names = next((level.names for level in self.levels if level.column == column), self.cells)
        return names if self.otherwise is None else (*names, self.otherwise)

    def of_cells(self, column: str) -> tuple[str, ...]:
        """The name in a column of each cell, in order."""
        return next((level.of_cells for level in self.levels if level.column == column), self.cells)

    def astride(self, child: str, parent: str) -> tuple[str, str, str] | None:
        """A name in one column that belongs to two in another, and these; None where each belongs to one."""
        found: dict[str, str] = {}
        for name, above in zip(self.of_cells(child), self.of_cells(parent), strict=True):
            if found.setdefault(name, above) != above:
                return name, found[name], above
        return None


@dataclass(frozen=True)
class Stream:
    """The event stream. `horizon` None means unbounded; `start` is an ISO timestamp or None.

    A step of a calendar month has the milliseconds of the longest. `dataset` names what several plans are of.
    """

    name: str
    user: str
    time: str
    cell: CellSchema | None
    step_milliseconds: int
    step_text: str
    horizon: int | None
    population: int | None
    start: str | None
    span: Span
    horizon_span: Span
    population_span: Span | None = None
    clock: Clock | None = None
    dataset: str | None = None

    @property
    def step(self) -> Length:
        """The length of a step."""
        return MONTH if self.step_text == MONTH else self.step_milliseconds

    def values_by(self, column: str | None) -> tuple[str, ...]:
        """What has a value in every step of a release by a column; the one name "" where it is split by nothing."""
        return ("",) if column is None or self.cell is None else self.cell.states_by(column)


@dataclass(frozen=True)
class Release:
    """What is published. `kind`: count, sum, prefix or window. `base`: the release a prefix or window is made of.

    `by`: the column that it is split by, the cell's or that of a level; None for one number a step.
    """

    name: str
    kind: Literal["count", "sum", "prefix", "window"]
    stream: str
    by: str | None
    span: Span
    column: str | None = None
    clamp: tuple[Decimal, Decimal] | None = None
    base: str | None = None
    width: int | None = None
    cells_per_step: int | None = None


@dataclass(frozen=True)
class Baseline:
    """The median of values at fixed steps, that values of later steps are held against.

    Of a value at step t: those of the steps `first` to `last` that are a whole multiple of `every` steps from t.
    """

    every: int
    first: int
    last: int


@dataclass(frozen=True)
class Made:
    """What is made of released values alone: totals of blocks, steps so far or a window, a ratio, a mean, or a change.

    `of` is the release it is made of, `over` what a ratio or mean divides by (None: the population). One row is
    published of every `steps` steps, from step `first` on. `times` multiplies a ratio; `width` is that of a window.
    """

    name: str
    kind: Literal["total", "prefix", "window", "ratio", "mean", "change"]
    of: str
    by: str | None
    span: Span
    over: str | None = None
    times: Decimal = Decimal(1)
    steps: int = 1
    first: int = 0
    baseline: Baseline | None = None
    width: int | None = None


@dataclass(frozen=True)
class Participation:
    """How many steps one user can take part in; exactly one of `enforced` and `assumed` is given.

    With `per`: how many of every such period.
    """

    steps: int
    per_step: int
    spacing: int
    enforced: Literal["keep_first", "keep_sample"] | None
    assumed: str | None
    span: Span
    per: Length | None = None
    cells_per_step: int | None = None


@dataclass(frozen=True)
class MarkovCorrelation:
    """How one user moves. Rows sum to 1 exactly or within 1e-9; `initial` None when not said.

    `share`: of all users, those of the group; None when not said. `amounts`: on what the values of a user's event
    depend, and on nothing else of the user; None when not said.
    """

    group: str | None
    forward: Matrix | None
    backward: Matrix | None
    initial: Literal["stationary"] | Vector | None
    evidence: str
    span: Span
    share: Decimal | None = None
    amounts: Literal["by_cell"] | None = None


@dataclass(frozen=True)
class NoCorrelation:
    """Steps of one user are independent, says the evidence; of the users of one group, or of everybody (None)."""

    group: str | None
    evidence: str
    span: Span


@dataclass(frozen=True)
class Signal:
    """How the released numbers move; for utility only. `arguments` are the call's, by name."""

    kind: str
    arguments: dict[str, object]
    span: Span


@dataclass(frozen=True)
class Delivery:
    """When values are published. `delay` in steps for `within`."""

    kind: Literal["realtime", "within", "offline"]
    delay: int | None = None
    span: Span | None = None


@dataclass(frozen=True)
class Wish:
    """A `budget`, `mechanism` or `estimate` statement: `auto`, or one by name with its arguments."""

    name: str
    arguments: dict[str, object] = field(default_factory=dict)
    span: Span | None = None


@dataclass(frozen=True)
class PolicyFile:
    """A file the policy names, with the hash of what was read."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Policy:
    """A whole policy that has passed every check."""

    source: Source
    name: str
    purpose: str
    stream: Stream
    releases: tuple[Release, ...]
    targets: tuple[Target, ...]
    participation: Participation | None
    correlations: tuple[MarkovCorrelation | NoCorrelation, ...]
    signal: Signal | None
    delivery: Delivery
    objective: Literal["mean_squared_error", "mean_absolute_error"]
    budget: Wish
    mechanism: Wish
    estimate: Wish
    postprocess: tuple[Postprocess, ...]
    files: tuple[PolicyFile, ...]
    made: tuple[Made, ...] = ()
    weights: Mapping[str, Decimal] = field(default_factory=dict)
    objective_span: Span | None = None

    def weight_of(self, release: str) -> float:
        """How much the error of a release counts where a promise is divided."""
        return float(self.weights.get(release, 1))

    @property
    def chains(self) -> tuple[MarkovCorrelation, ...]:
        """The declared chains, one a group."""
        return tuple(c for c in self.correlations if isinstance(c, MarkovCorrelation))

    @property
    def groups(self) -> int:
        """How many kinds of users there are, where some have a chain; 0 where nobody has."""
        return len(self.correlations) if self.chains else 0

    @property
    def one_law(self) -> bool:
        """Whether it is known by which law all users move: one chain, or that of groups whose shares are known."""
        return self.groups == 1 or (bool(self.chains_of_all) and all(c.share is not None for c in self.chains))

    @property
    def laws(self) -> int:
        """How many laws say where users are: one where it is known of all of them, else as many as there are groups."""
        return 1 if self.one_law else self.groups

    @property
    def chains_of_all(self) -> tuple[MarkovCorrelation, ...]:
        """The chains by which everybody moves; none where a group has no chain, which leaves open where it is."""
        return self.chains if len(self.chains) == len(self.correlations) else ()

    @property
    def period(self) -> Length | None:
        """The length of the period whose events are promised together; None for promises about all of them."""
        users = (target for target in self.targets if isinstance(target, UserLevelTarget | UserStepsTarget))
        return next((target.per for target in users if target.per is not None), None)

    @property
    def of_streams(self) -> bool:
        """Whether the noise of all steps together is accounted for, and no step has a budget of its own."""
        kinds = {type(target) for target in self.targets}
        others = {UserStepsTarget} if self.window is None else {UserStepsTarget, AlphaDPTTarget}
        return UserLevelTarget in kinds and kinds <= {UserLevelTarget, *others}

    @property
    def measured_through_chains(self) -> bool:
        """Whether noise for the whole stream is to keep what leaks from step to step, and so is drawn step by step."""
        return self.of_streams and any(isinstance(target, AlphaDPTTarget) for target in self.targets)

    def balances(self, release: Release) -> bool:
        """Whether the noise of a step's values adds up to nothing, as where the number of all users is public."""
        public = release.by is not None and self.stream.population is not None and not self.of_streams
        return self.mechanism.name == "auto" and public and 2 <= len(self.stream.values_by(release.by)) <= MOST_BALANCED

    @property
    def window(self) -> int | None:
        """The steps in a row whose events are promised together; None for promises of another kind."""
        return next((target.window for target in self.targets if isinstance(target, UserLevelTarget)), None)

    @property
    def longest_part(self) -> int | None:
        """The steps in which a user can take part, of the stream or of a period; None where it has no end."""
        lengths = [] if self.stream.horizon is None else [self.stream.horizon]
        if self.period is not None:
            lengths.append(max(1, -(-self._longest(self.period) // self.stream.step_milliseconds)))
        return min(lengths, default=None)

    def within_a_step(self, per: Length | None) -> bool:
        """Whether periods are shorter than a step."""
        return per is not None and self._longest(per) < self.stream.step_milliseconds

    def _longest(self, per: Length) -> int:
        """The milliseconds of the longest period."""
        longest = 31 * DAY if per == MONTH else per
        clock, step = self.stream.clock, self.stream.step_milliseconds
        return longest + (clock.put_back if clock is not None and step < DAY <= longest else 0)

    @property
    def several_series(self) -> bool:
        """Whether several counts and sums are published, so that one signal cannot say how each of them moves."""
        return sum(release.base is None for release in self.releases) > 1

    def constraints_of(self, release: str) -> Postprocess | None:
        """What is demanded of a release's values, if anything."""
        return next((p for p in self.postprocess if p.release == release), None)
