"""The plan: everything a release needs, and everything an auditor must check, in one frozen record.

The plan carries the resolved promise, the neighboring relation, the sensitivity and the chains, so that a misreading of
the policy can be found by reading the plan. Promised numbers are exact decimals, written as strings. What is done to
values after noise is of no concern here, and read as it stands.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, ValidationError

from policyc_check.errors import PlanFormatError
from policyc_check.files import LARGEST_READ, read_ordinary
from policyc_check.json_text import read_json
from policyc_check.plan.claims import Claims
from policyc_check.plan.correlation import Correlation
from policyc_check.plan.release import AnyRelease, MeasuredRelease, ReleasePlan, Scheduled
from policyc_check.plan.stream import Delivery, Notice, ParticipationRecord, PolicyRecord, StreamRecord
from policyc_check.plan.targets import Target
from policyc_check.records import Label, Opaque, Record

LARGEST_PLAN_BYTES = LARGEST_READ


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
    signal: Opaque = None
    releases: Annotated[tuple[AnyRelease, ...], Field(min_length=1)]
    sharing: str | None = None
    claims: Claims
    notices: tuple[Notice, ...]
    digest: str = ""

    def computed_digest(self) -> str:
        """The digest this plan ought to carry."""
        content = self.model_dump(mode="json", exclude={"digest"})
        return hashlib.sha256(canonical_json(content)).hexdigest()

    def sealed(self) -> Self:
        """The same plan with its digest filled in."""
        return self.model_copy(update={"digest": self.computed_digest()})

    def to_json(self) -> str:
        """The text of plan.json: readable, ends with a newline, reads back exactly."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def scheduled(self) -> tuple[Scheduled, ...]:
        """The releases whose steps have budgets."""
        return tuple(release for release in self.releases if isinstance(release, Scheduled))

    @property
    def measured(self) -> tuple[MeasuredRelease, ...]:
        """The releases that account for the whole stream."""
        return tuple(release for release in self.releases if isinstance(release, MeasuredRelease))

    def release_named(self, name: str) -> ReleasePlan:
        """The release of that name; KeyError when there is none."""
        for release in self.releases:
            if release.name == name:
                return release
        raise KeyError(name)


Kind = TypeVar("Kind", bound=Plan)


def canonical_json(content: object) -> bytes:
    """One byte string for one value: sorted keys, no spaces, UTF-8."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def read_plan(path: str | Path, kind: type[Kind]) -> Kind:
    """Read a plan file; refuse what is not exactly a plan of this version.

    Args:
        path: `plan.json`, or the directory that holds it.
        kind: `Plan`, or one that reads more of it.

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
        plan = kind.model_validate_json(text)
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


def load_plan(path: str | Path) -> Plan:
    """The plan of a file, as far as privacy needs it; see `read_plan`."""
    return read_plan(path, Plan)
