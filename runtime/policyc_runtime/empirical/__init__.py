"""The empirical audit: the plan's own mechanism is run on neighboring streams, which an attacker tries to tell apart.

What is proven is a lower bound of the true epsilon. It must stay below the claim; a plan whose noise is too small is
found where the bound rises above. The audit shows the presence of mistakes only: the claims themselves are proven by
`verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

from policyc_runtime.claims import Claim
from policyc_runtime.empirical.attack import Attack
from policyc_runtime.empirical.proof import counted
from policyc_runtime.empirical.record import AUDIT, AttackCounts, AttackRecord, AuditRecord, each_confidence, read_audit
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import Randomness, SystemRandomness

RUNS = 20_000
CONFIDENCE = Decimal("0.99")
HALF = 0.5
NEAR = Fraction(1, 10**6)  # last bits of a privacy curve differ from machine to machine


def attacks_on(plan: Plan) -> list[Attack]:
    """The attacks that fit a plan; KernelError (E0841) where none can be played."""
    from policyc_runtime.empirical.steps import attacks_on_steps
    from policyc_runtime.empirical.streams import attacks_on_streams
    from policyc_runtime.user_level import promised_user_level

    return attacks_on_streams(plan) if promised_user_level(plan) else attacks_on_steps(plan)


def audit(
    plan: Plan,
    date: str,
    runs: int = RUNS,
    confidence: Decimal = CONFIDENCE,
    *,
    randomness: Randomness | None = None,
    progress: Callable[[int, int], None] | None = None,
    noise: float = 1.0,
) -> AuditRecord:
    """Attack a plan's mechanism.

    Args:
        plan: verified first.
        date: of today, ISO; it is written into the record.
        runs: on each of two neighboring streams, >= 2; half of them choose the event, the others count it.
        confidence: that no attack proves too much by chance, all together, in (0, 1).
        randomness: default the operating system's generator. Nothing of it is kept.
        progress: called with (runs played, runs in all).
        noise: how many times the plan's noise is drawn; other than 1 only to see that the audit notices.

    Raises:
        PlanRejectedError: a claim of the plan does not hold.
        KernelError: E0841, no attack can be played.
    """
    from policyc_runtime.verify import verify

    verify(plan)
    attacks = attacks_on(plan)
    source = randomness or SystemRandomness()
    sure = each_confidence(confidence, len(attacks))
    numbers = [max(runs, attack.least_runs) for attack in attacks]
    done, total = 0, 4 * sum(numbers)

    def played(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total)

    def counts(attack: Attack, number: int, factor: float) -> AttackCounts:
        with_user, without = attack.play(number, factor, source, played)
        return AttackCounts.of(counted(with_user, without, float(attack.delta), sure), attack.delta, sure)

    records = tuple(
        AttackRecord(
            id=attack.id,
            secret=attack.secret,
            statistic=attack.statistic,
            epsilon=attack.epsilon,
            delta=attack.delta,
            found=counts(attack, number, noise),
            control=counts(attack, number, noise * HALF),
        )
        for attack, number in zip(attacks, numbers, strict=True)
    )
    record = AuditRecord(plan_digest=plan.digest, date=date, runs=runs, confidence=confidence, attacks=records)
    return record.sealed()


def audit_claims(plan: Plan, record: AuditRecord) -> Iterator[Claim]:
    """Claims about a record: it is of this plan, attacks what the plan claims, and its counts prove no more."""
    intact = record.digest == record.computed_digest() and record.plan_digest == plan.digest
    detail = f"of {record.date}" if intact else "it was altered, or is of another plan"
    yield Claim("the empirical audit is of this plan", intact, detail, AUDIT, "E0803")
    if not intact:
        return
    attacks = attacks_on(plan)
    same = len(attacks) == len(record.attacks) and all(map(_attacks_the_claim, attacks, record.attacks))
    sure = each_confidence(record.confidence, len(record.attacks))
    detail = f"{len(attacks)} attacks, their claims recomputed from the plan"
    yield Claim("the audit attacks what the plan claims", same, detail, AUDIT, "E0803")
    for attack in record.attacks if same else ():
        bounds = [counts.recomputed(attack.delta, sure) for counts in (attack.found, attack.control)]
        kept = bounds == [attack.found.epsilon_at_least, attack.control.epsilon_at_least]
        name = f"no more than {attack.epsilon} nats at delta {attack.delta} were proven about {attack.secret}"
        detail = f"{_nats(bounds[0])} recomputed from {attack.found.runs:,} counted runs on either stream"
        yield Claim(name, kept and not attack.refutes, detail, AUDIT, "E0842")


def _nats(bound: Decimal | None) -> str:
    return "nothing" if bound is None else f"at least {bound} nats"


def _attacks_the_claim(attack: Attack, record: AttackRecord) -> bool:
    words = (attack.id, attack.secret, attack.statistic, attack.epsilon)
    near = abs(Fraction(attack.delta) - Fraction(record.delta)) <= NEAR * Fraction(attack.delta)
    return near and words == (record.id, record.secret, record.statistic, record.epsilon)


__all__ = ["AUDIT", "CONFIDENCE", "RUNS", "AttackRecord", "AuditRecord", "audit", "audit_claims", "read_audit"]
