"""The plan: everything a release needs, and everything an auditor must check, in one frozen record.

It carries the resolved promise, the neighboring relation, the sensitivity and the chains, so that a misreading of the
policy can be found in it. Promised numbers are exact decimals. What is done to values after noise is read as it stands.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from policyc_check.errors import PlanFormatError
from policyc_check.files import MOST_VALUES, read_ordinary
from policyc_check.plan.claims import Claims
from policyc_check.plan.correlation import Correlation
from policyc_check.plan.release import AnyRelease, Asked, MeasuredRelease, Scheduled
from policyc_check.plan.stream import Delivery, ParticipationRecord, PolicyRecord, StreamRecord
from policyc_check.plan.targets import Target
from policyc_check.records import NOTHING, Label, Opaque, Record


class Stated(Record):
    """What a plan says before anything is claimed of it. `signal`: how released numbers move; for utility only."""

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
    signal_evidence: Opaque = None
    agreements: Opaque = NOTHING
    releases: tuple[Asked, ...]

    @property
    def scheduled(self) -> tuple[Scheduled, ...]:
        """The releases whose steps have budgets."""
        return tuple(release for release in self.releases if isinstance(release, Scheduled))

    def release_named(self, name: str) -> Asked:
        """The (first) release of that name; KeyError when there is none."""
        return {release.name: release for release in reversed(self.releases)}[name]


class Plan(Stated):
    """An executable release plan. `digest` is the SHA-256 of everything else in it, canonically written.

    `sharing`: how several releases divide the budgets. `made`: what is made of released values, and costs nothing.
    """

    releases: Annotated[tuple[AnyRelease, ...], Field(min_length=1)]
    sharing: str | None = None
    made: Opaque = NOTHING
    claims: Claims
    notices: Opaque
    digest: str = ""

    def computed_digest(self) -> str:
        """The digest this plan ought to carry."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json", exclude={"digest"}))).hexdigest()

    def to_json(self) -> str:
        """The text of plan.json: readable, ends with a newline, reads back exactly."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def measured(self) -> tuple[MeasuredRelease, ...]:
        """The releases that account for the whole stream."""
        return tuple(release for release in self.releases if isinstance(release, MeasuredRelease))


def canonical_json(content: object) -> bytes:
    """One byte string for one value: sorted keys, no spaces, UTF-8."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def load_plan(path: str | Path) -> Plan:
    """The plan of a file, or of the directory that holds it, as far as privacy needs it.

    PlanFormatError E0802 where it is not byte for byte what its records would write.
    """
    file = Path(path)
    file = file / "plan.json" if file.is_dir() else file
    try:
        text = read_ordinary(file).decode("utf-8")
        if sum(map(text.count, ",[{")) > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        plan = Plan.model_validate_json(text)
        if plan.to_json() != text:  # a field left out, or given twice: the file would not say what the digest covers
            raise ValueError("it is not as it was written")
    except (OSError, ValueError) as error:
        fault = error.errors(include_url=False, include_input=False)[0] if isinstance(error, ValidationError) else None
        reason = f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" if fault else str(error)
        again = "compile the policy again: `policyc compile FILE`"
        raise PlanFormatError("E0802", "this is not a plan", where=str(file), because=reason, help=again) from None
    return plan
