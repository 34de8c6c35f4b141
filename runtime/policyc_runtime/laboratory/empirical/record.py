"""What an empirical audit found: a record that lies beside the certificate. Every bound in it follows from counts."""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import suppress
from datetime import date
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from policyc_check.errors import KernelError
from policyc_check.records import NonNegativeDecimal, Record
from policyc_runtime.files import read_inside
from policyc_runtime.json_text import read_json
from policyc_runtime.laboratory.empirical.proof import Counts

AUDIT = "audit.json"
MOST_RUNS = 10**8
SEED_BITS = 53  # as many as any reader of JSON keeps
SHOWN = Context(prec=4, rounding=ROUND_FLOOR)


def _day(text: str) -> str:
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError("a day is written YYYY-MM-DD")
    return text


Day = Annotated[str, Field(max_length=10), AfterValidator(_day)]
Runs = Annotated[int, Field(ge=1, le=MOST_RUNS)]


class AttackCounts(Record):
    """How often a test was right and wrong, and what that proves: epsilon (nats) at least, None for nothing."""

    runs: Runs
    hits: Annotated[int, Field(ge=0, le=MOST_RUNS)]
    false_alarms: Annotated[int, Field(ge=0, le=MOST_RUNS)]
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
    """The audit of one plan on one day (ISO). `confidence` holds for all attacks together.

    `seed` of the generator that drew the noise of its runs: nothing of it was ever released, so whoever has the record
    can count again.
    """

    format: Literal["policyc-audit"] = "policyc-audit"
    version: Literal["2"] = "2"
    plan_digest: str
    date: Day
    seed: Annotated[int, Field(ge=0, lt=2**SEED_BITS)]
    runs: Runs
    confidence: Annotated[Decimal, Field(gt=0, lt=1)]
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
    if not path.exists() and not path.is_symlink():
        return None
    record, text = None, ""
    with suppress(OSError, ValueError, RecursionError, ArithmeticError):
        text = read_inside(path, directory).decode()
        read_json(text)
        record = AuditRecord.model_validate_json(text)
    if record is None or record.render() != text:
        message = "the audit cannot be read, or is not as it was written"
        raise KernelError("E0803", message, where=str(path), help="audit the plan again: `policyc audit DIR`")
    return record


def each_confidence(confidence: Decimal, attacks: int) -> float:
    """The confidence of each attack, so that all of them together have the one that is stated."""
    return 1 - float(1 - confidence) / attacks
