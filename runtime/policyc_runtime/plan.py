"""The plan with all that running it needs: estimators, predicted errors, how the released numbers move."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from policyc_check.errors import PlanFormatError
from policyc_check.files import read_ordinary
from policyc_check.plan import claims as checked_claims
from policyc_check.plan import plan as checked
from policyc_check.plan import stream as checked_stream
from policyc_check.plan.queries import CountQuery, SumQuery
from policyc_check.plan.targets import NeighboringRelation
from policyc_check.records import NOTHING, Label, Record
from policyc_check.users.claims import period_of, promised_user_level, setting_of, source_release
from policyc_runtime.agreement import Levels
from policyc_runtime.agreement_levels import Agreement, trees
from policyc_runtime.ancestors import reason_against_levels
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.json_text import read_json
from policyc_runtime.ledger_seal import PIN
from policyc_runtime.made_rows import reason_against_made
from policyc_runtime.planned_release import (
    AdaptiveRelease,
    AnyRelease,
    BudgetedRelease,
    DerivedRelease,
    MadeRelease,
    MeasuredRelease,
    ReleasePlan,
    Scheduled,
)
from policyc_runtime.suppression_rule import Where
from policyc_runtime.witness import Witness

PLAN = "plan.json"
STRETCH = 1000  # steps that stand for an endless stream in expected errors: pages say so


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


class PolicyRecord(checked_stream.PolicyRecord):
    """Which policy this plan was compiled from. `source` is the policy file; `files` what it refers to."""

    source: FileRecord
    files: tuple[FileRecord, ...]


class Notice(Record):
    """A warning the compiler gave; it goes into the certificate."""

    code: str
    message: str


class Claims(checked_claims.Claims):
    """What the plan says of its own privacy, and of attacks that are known."""

    witnesses: tuple[Witness, ...] = NOTHING

    @classmethod
    def of(cls, value: Any) -> Any:
        """These of the check's, which reads attacks as they stand."""
        plain = isinstance(value, checked_claims.Claims) and not isinstance(value, cls)
        return cls.model_validate(dict(value)) if plain else value


class Plan(checked.Plan):
    """An executable release plan.

    `signal` is how released numbers are taken to move, for utility alone, and `signal_evidence` who says so.
    """

    policy: PolicyRecord
    signal: SignalModel | None = None
    signal_evidence: str | None = None
    releases: Annotated[tuple[AnyRelease, ...], Field(min_length=1)]
    made: tuple[MadeRelease, ...] = NOTHING
    claims: Annotated[Claims, BeforeValidator(Claims.of)]
    agreements: tuple[Agreement, ...] = NOTHING
    notices: tuple[Notice, ...]

    def sealed(self) -> Self:
        """The same plan with its digest filled in."""
        return self.model_copy(update={"digest": self.computed_digest()})

    @property
    def scheduled(self) -> tuple[Scheduled, ...]:
        """The releases whose steps have budgets."""
        return tuple(release for release in self.releases if isinstance(release, Scheduled))

    @property
    def measured(self) -> tuple[MeasuredRelease, ...]:
        """The releases that account for the whole stream."""
        return tuple(release for release in self.releases if isinstance(release, MeasuredRelease))

    @property
    def groups(self) -> int:
        """How many kinds of users there are, where some have a chain; 0 where nobody has."""
        known = self.correlation
        return len(known.chains) + len(known.independent) if known.chains else 0

    @property
    def one_law(self) -> bool:
        """Whether it is known by which law all users move: one chain, or that of groups whose shares are known."""
        chains = self.correlation.chains
        return self.groups == 1 or (self.groups == len(chains) > 0 and all(c.share is not None for c in chains))

    @property
    def laws(self) -> int:
        """How many laws say where users are: one where it is known of all of them, else as many as there are groups."""
        return 1 if self.one_law else self.groups

    @property
    def expected_steps(self) -> int:
        """The steps that expected errors are means over: all of them, or the first 1,000 of an endless stream."""
        return self.stream.horizon or STRETCH

    @property
    def longest_part(self) -> int | None:
        """The steps in which a user can take part, of the stream or of a period; None where it has no end."""
        period, horizon = period_of(self), self.stream.horizon
        lengths = [] if horizon is None else [horizon]
        if period is not None:
            lengths.append(math.ceil(period))
        return min(lengths, default=None)

    @property
    def drops_steps(self) -> bool:
        """Whether whole steps of users may be dropped by an enforced participation bound."""
        record, most = self.participation, self.longest_part
        if record is None or record.enforced is None:
            return False
        return most is None or record.bound < most or (record.spacing > 1 and most > 1)

    def drops_events(self, release: ReleasePlan) -> bool:
        """Whether a user's events beyond `per_step` are missing in a release; who is there once a step counts once."""
        record, source = self.participation, source_release(self, release)
        if record is None or record.enforced is None:
            return False
        return isinstance(source.query, SumQuery) or record.per_step > 1 or self.drops_cells(release)

    def drops_cells(self, release: ReleasePlan) -> bool:
        """Whether cells of a step beyond so many of one user are missing in a release, where it says how many count."""
        record, query = self.participation, source_release(self, release).query
        if record is None or record.enforced is None or not isinstance(query, CountQuery | SumQuery):
            return False
        listed = 1 if self.stream.cell is None else len(self.stream.cell.cells)
        return query.cells_per_step is not None and query.cells_per_step < listed

    def drops_from(self, release: ReleasePlan) -> bool:
        """Whether events of users may be missing in a release, so that its values and errors are of kept ones."""
        return self.drops_steps or self.drops_events(release)

    @property
    def drops(self) -> bool:
        """Whether events of users may be missing in some release."""
        return any(self.drops_from(release) for release in self.releases)

    @model_validator(mode="after")
    def _can_be_run(self) -> Plan:
        """Every mechanism is of use where it stands; what it promises there is for `verify` to say."""
        cell = self.stream.cell
        if cell is not None and (reason := reason_against_levels(cell)) is not None:
            raise ValueError(reason)
        for release in self.releases:
            reason = _reason_against(self, release)
            if reason is not None:
                raise ValueError(f"`{release.name}` is not measured by `{release.mechanism.name}`: {reason}")
        for tree in self.trees:
            if reason := next(filter(None, map(self._reason_against_agreeing, tree.names)), None):
                raise ValueError(reason)
        hidden = NeighboringRelation.ADD_OR_REMOVE_ONE
        protected = any(target.relation is hidden for target in promised_user_level(self))
        public = self.stream.population is not None and not protected
        reason = reason_against_made(self.releases, self.made, cell, public_users=public)
        if reason is not None:
            raise ValueError(reason)
        return self

    @property
    def trees(self) -> list[Levels]:
        """The releases whose published values add up to each other's; ValueError where they cannot."""
        names = {release.name for release in self.releases}
        if not names >= {name for one in self.agreements for name in (one.child, one.parent)}:
            raise ValueError("what adds up to another is no release")
        return trees(self.stream.cell, self.releases, self.agreements, self.stream.population)

    def agrees(self, name: str) -> bool:
        """Whether the published values of a release add up to those of another, or others to them."""
        return any(name in (one.child, one.parent) for one in self.agreements)

    def _reason_against_agreeing(self, name: str) -> str | None:
        """Why a release cannot agree with others, or None."""
        one = self.release_named(name)
        fresh = isinstance(one, MeasuredRelease | AdaptiveRelease) and one.mechanism.may_agree
        if isinstance(one, BudgetedRelease):
            fresh = one.estimator.fills or all(0 not in segment.epsilons for segment in one.schedule.segments)
        if fresh and isinstance(one.query, CountQuery | SumQuery):
            return None
        return f"`{name}` agrees, and is no count or sum with a noisy value at every step"

    @model_validator(mode="after")
    def _shows_where_others_show(self) -> Plan:
        """Values may be left out where those of another release are: there is one, with the same cells, and no circle.

        A total is left out where what it is made of is, so that this counts as well.
        """
        by_name = {release.name: release for release in self.releases}
        follows = {
            release.name: [rule.where for rule in release.suppressions if isinstance(rule, Where)]
            + ([release.query.of] if isinstance(release, DerivedRelease) else [])
            for release in self.releases
        }
        for release in self.releases:
            for rule in release.suppressions:
                if isinstance(rule, Where) and getattr(by_name.get(rule.where), "cells", None) != release.cells:
                    raise ValueError(f"`{release.name}` has no other release `{rule.where}` with the same cells")
        settled: set[str] = set()
        while waiting := [name for name in follows if name not in settled]:
            ready = [name for name in waiting if settled.issuperset(set(follows[name]) & follows.keys())]
            if not ready:
                raise ValueError(f"whether values of `{waiting[0]}` are left out depends on itself")
            settled |= set(ready)
        self._show_made_where_others_are()
        return self

    def _show_made_where_others_are(self) -> None:
        """The same of what is made of released values: the other comes before it, and has rows of the same steps."""
        rows = {release.name: (release.cells, 1, 0) for release in self.releases}
        for made in self.made:
            for rule in made.suppressions:
                if isinstance(rule, Where):
                    cells, steps, first = rows.get(rule.where, ((), 0, 0))
                    if (cells, steps) != (made.cells, made.steps) or first > made.first:
                        raise ValueError(f"`{made.name}` has no release `{rule.where}` before it with the same rows")
            rows[made.name] = (made.cells, made.steps, made.first)

    @cached_property
    def pin(self) -> Path | None:
        """The file in its directory that names its one ledger; None unless `load_plan` read it from a directory."""
        return None

    def release_named(self, name: str) -> ReleasePlan:
        """The release of that name; KeyError when there is none."""
        found = super().release_named(name)
        assert isinstance(found, ReleasePlan)
        return found


def _reason_against(plan: Plan, release: ReleasePlan) -> str | None:
    """Why the mechanism of a release cannot be run here, or None: also where nothing is promised that it is for."""
    try:
        if isinstance(release, DerivedRelease):
            base = plan.release_named(release.query.of)
            gaps = isinstance(base, MeasuredRelease) and base.mechanism.leaves_gaps
            return "what it adds up has steps without a value" if gaps else None
        if not isinstance(release, MeasuredRelease) or plan.participation is None:
            return None
        mechanism = release.mechanism
        settings = [setting_of(plan, release, target) for target in promised_user_level(plan)]
        return next(filter(None, map(mechanism.reason_not_here, settings)), None)
    except (LookupError, ArithmeticError):  # of releases made of nothing, or of nonsense, as `verify` says
        return None


def load_plan(path: str | Path) -> Plan:
    """Read a plan file; refuse what is not exactly a plan of this version.

    Args:
        path: the directory that `policyc compile` wrote, or the `plan.json` in it: its runs then keep to the ledger
            that this directory names (`ledger.pin`).

    Raises:
        PlanFormatError: missing, too large, not JSON, another version, unknown or missing fields.
    """
    file = Path(path)
    again = "compile the policy again: `policyc compile FILE`"
    try:
        file = file / PLAN if file.is_dir() else file
        if file.suffix == ".policy":
            raise PlanFormatError(
                "E0802",
                "this is a policy, not a plan",
                where=str(file),
                help=f"compile it first: `policyc compile {file}`; then name the directory that it writes",
            )
        text = read_ordinary(file).decode("utf-8")
    except FileNotFoundError:
        named = "name a directory that `policyc compile FILE` wrote"
        raise PlanFormatError("E0802", "there is no plan here", where=str(file), help=named) from None
    except OSError as error:
        allowed = "check the name and who may read it; a plan is an ordinary file in the directory that `compile` wrote"
        reason = (error.strerror or "unreadable").lower()
        raise PlanFormatError(
            "E0802", "the plan cannot be read", where=str(file), because=reason, help=allowed
        ) from None
    except ValueError:
        raise PlanFormatError(
            "E0802", "the plan cannot be read", where=str(file), because="it is not UTF-8 text", help=again
        ) from None
    place = str(file)
    try:
        read_json(text)  # for what is wrong with it as a text; numbers are then read exactly
        plan = Plan.model_validate_json(text)
        as_written = plan.to_json() == text
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = f"{file}: {'.'.join(str(part) for part in first['loc']) or 'the file itself'}"
        reason = first["msg"].removeprefix("Value error, ")
    except ValueError as error:
        reason = str(error)
    else:
        if as_written:
            if file.name == PLAN:
                vars(plan)["pin"] = file.absolute().with_name(PIN)
            return plan
        # a field left out or given twice would be read in one way of two: the file would not say what the digest covers
        raise PlanFormatError("E0802", "the plan is not as it was written", where=place, help=again)
    raise PlanFormatError(
        "E0802",
        "this is not a plan that this version understands",
        where=place,
        because=reason[:1].lower() + reason[1:],
        help=again,
    )
