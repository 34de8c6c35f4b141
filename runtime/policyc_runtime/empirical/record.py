"""What an empirical audit found: a record that lies beside the certificate. Every bound in it follows from counts."""

from __future__ import annotations

import hashlib
import json
import math
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from policyc_runtime.empirical.proof import Counts
from policyc_runtime.errors import KernelError
from policyc_runtime.records import NonNegativeDecimal, PositiveDecimal, Record

AUDIT = "audit.json"
SHOWN = Context(prec=4, rounding=ROUND_FLOOR)


class AttackCounts(Record):
    """How often a test was right and wrong, and what that proves: epsilon (nats) at least, None for nothing."""

    runs: PositiveInt
    hits: Annotated[int, Field(ge=0)]
    false_alarms: Annotated[int, Field(ge=0)]
    epsilon_at_least: Decimal | None

    @classmethod
    def of(cls, counts: Counts, delta: Decimal, confidence: float) -> AttackCounts:
        """The record of counts, its bound computed and rounded down."""
        return cls(
            runs=counts.runs,
            hits=counts.hits,
            false_alarms=counts.false_alarms,
            epsilon_at_least=proven(counts, delta, confidence),
        )

    def recomputed(self, delta: Decimal, confidence: float) -> Decimal | None:
        """The bound that follows from the counts; None for nothing, as where they are no counts."""
        if max(self.hits, self.false_alarms) > self.runs:
            return None
        return proven(Counts(self.runs, self.hits, self.false_alarms), delta, confidence)


def proven(counts: Counts, delta: Decimal, confidence: float) -> Decimal | None:
    """What counts prove, rounded down to four digits; None where that is nothing or below 0."""
    found = counts.proven_epsilon(float(delta), confidence)
    return SHOWN.create_decimal(Decimal(found)) if 0 < found < math.inf else None


class AttackRecord(Record):
    """One attack: what it tries to tell apart, how, what is claimed, and what the runs proved.

    `control` is the same attack on half the noise: where it proves no more than the claim, neither would a mistake of
    that size have been noticed.
    """

    id: str
    secret: str
    statistic: str
    epsilon: NonNegativeDecimal
    delta: NonNegativeDecimal
    found: AttackCounts
    control: AttackCounts

    @property
    def refutes(self) -> bool:
        """Whether more is proven than is claimed."""
        return self.found.epsilon_at_least is not None and self.found.epsilon_at_least > self.epsilon

    @property
    def notices_half_the_noise(self) -> bool:
        """Whether the same attack on half the noise proves more than is claimed."""
        return self.control.epsilon_at_least is not None and self.control.epsilon_at_least > self.epsilon


class AuditRecord(Record):
    """The audit of one plan on one day (ISO). `confidence` holds for all attacks together."""

    format: Literal["policyc-audit"] = "policyc-audit"
    version: Literal["1"] = "1"
    plan_digest: str
    date: str
    runs: PositiveInt
    confidence: PositiveDecimal
    attacks: Annotated[tuple[AttackRecord, ...], Field(min_length=1)]
    digest: str = ""

    def sealed(self) -> AuditRecord:
        """The same record with the SHA-256 of everything else in it."""
        return self.model_copy(update={"digest": self.computed_digest()})

    def computed_digest(self) -> str:
        """The digest that this record ought to carry."""
        content = self.model_dump(mode="json", exclude={"digest"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def render(self) -> str:
        """The text of audit.json: one text for one record."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"

    @property
    def refuted(self) -> AttackRecord | None:
        """The first attack that proves more than is claimed, if there is one."""
        return next((attack for attack in self.attacks if attack.refutes), None)


def read_audit(directory: Path) -> AuditRecord | None:
    """The record in a plan's directory; None when the plan was not audited.

    Raises:
        KernelError: E0803, it is no such record, or not as it was written.
    """
    path = directory / AUDIT
    if not path.is_file():
        return None
    try:
        text = path.read_bytes().decode()
        record = AuditRecord.model_validate_json(text)
    except (ValueError, RecursionError):
        record = None
    if record is None or record.render() != text:
        message = "the audit cannot be read, or is not as it was written"
        raise KernelError("E0803", message, where=str(path), help="audit the plan again: `policyc audit DIR`")
    return record


def each_confidence(confidence: Decimal, attacks: int) -> float:
    """The confidence of each attack, so that all of them together have the one that is stated."""
    return 1 - float(1 - confidence) / attacks
