"""The empirical audit: the plan's own mechanism is run on neighboring streams, which an attacker tries to tell apart.

What is proven is a lower bound of the true epsilon. It must stay below the claim; a plan whose noise is too small is
found where the bound rises above. The audit shows the presence of mistakes only: the claims themselves are proven by
`verify`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from datetime import date as day
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from policyc_check.claims import Claim
from policyc_runtime.laboratory.empirical.attack import Attack
from policyc_runtime.laboratory.empirical.proof import counted
from policyc_runtime.laboratory.empirical.record import (
    AUDIT,
    SEED_BITS,
    AttackCounts,
    AttackRecord,
    AuditRecord,
    each_confidence,
    read_audit,
)
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness

RUNS = 20_000
CONFIDENCE = Decimal("0.99")
HALF = 0.5
ALTERED = "E0803"
MOST_AGAIN = 2 * 10**6  # counted runs that are played again
STDDEVS = 3  # of a count: what last digits of another machine may move over a threshold
NEAR = Fraction(1, 10**6)  # last bits of a privacy curve differ from machine to machine


def attacks_on(plan: Plan) -> list[Attack]:
    """The attacks that fit a plan; KernelError (E0841) where none can be played."""
    from policyc_check.users.claims import promised_user_level
    from policyc_runtime.laboratory.empirical.steps import attacks_on_steps
    from policyc_runtime.laboratory.empirical.streams import attacks_on_streams

    return attacks_on_streams(plan) if promised_user_level(plan) else attacks_on_steps(plan)


def audit(
    plan: Plan,
    date: str,
    runs: int = RUNS,
    confidence: Decimal = CONFIDENCE,
    *,
    seed: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    noise: float = 1.0,
) -> AuditRecord:
    """Attack a plan's mechanism.

    Args:
        plan: verified first.
        date: of today, ISO; it is written into the record.
        runs: on each of two neighboring streams, >= 2; half of them choose the event, the others count it.
        confidence: that no attack proves too much by chance, all together, in (0, 1).
        seed: of the runs, in [0, 2^53); default the operating system's choice. It is kept: nothing is released here.
        progress: called with (runs played, runs in all).
        noise: how many times the plan's noise is drawn; other than 1 only to see that the audit notices.

    Raises:
        PlanRejectedError: a claim of the plan does not hold.
        KernelError: E0841, no attack can be played.
    """
    from policyc_runtime.refusal import verify

    verify(plan)
    attacks = attacks_on(plan)
    chosen = secrets.randbits(SEED_BITS) if seed is None else seed
    source = SimulationRandomness(chosen)
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
    record = AuditRecord(
        plan_digest=plan.digest, date=date, seed=chosen, runs=runs, confidence=confidence, attacks=records
    )
    return record.sealed()


def audit_claims(plan: Plan, record: AuditRecord, today: str, *, quick: bool = False) -> Iterator[Claim]:
    """Claims about a record: of this plan and no day to come, attacks on what the plan claims, and runs that gave it.

    Args:
        plan: verified.
        record: as it was read.
        today: ISO; a day later is allowed for, since days begin at different times.
        quick: do not play the runs again, which takes what the audit took.
    """
    intact = record.digest == record.computed_digest() and record.plan_digest == plan.digest
    detail = f"of {record.date}" if intact else "it was altered, or is of another plan"
    yield Claim("the empirical audit is of this plan", intact, detail, AUDIT, ALTERED)
    if not intact:
        return
    dated = record.date <= (day.fromisoformat(today) + timedelta(days=1)).isoformat()
    detail = "no signature covers it, and a day is somebody's word" if dated else f"it says {record.date}"
    yield Claim("the empirical audit is of no day to come", dated, detail, AUDIT, ALTERED)
    attacks = attacks_on(plan)
    same = len(attacks) == len(record.attacks) and all(map(_attacks_the_claim, attacks, record.attacks))
    same = same and all(
        _as_many(attack, told, record.runs) for attack, told in zip(attacks, record.attacks, strict=True)
    )
    sure = each_confidence(record.confidence, len(record.attacks))
    detail = f"{len(attacks)} attacks, their claims and numbers of runs recomputed from the plan"
    yield Claim("the audit attacks what the plan claims", same, detail, AUDIT, ALTERED)
    for attack in record.attacks if same else ():
        bounds = [counts.recomputed(attack.delta, sure) for counts in (attack.found, attack.control)]
        kept = bounds == [attack.found.epsilon_at_least, attack.control.epsilon_at_least]
        name = f"no more than {attack.epsilon} nats at delta {attack.delta} were proven about {attack.secret}"
        detail = f"{_nats(bounds[0])} recomputed from {attack.found.runs:,} counted runs on either stream"
        yield Claim(name, kept and not attack.refutes, detail, AUDIT, "E0842")
    if same:
        yield _counted_again(plan, record, quick)


def _counted_again(plan: Plan, record: AuditRecord, quick: bool) -> Claim:
    """The counts are those of the seed, but for some that fall on the other side of a threshold on another machine."""
    name = "the audit's counts are those of its runs"
    if quick:
        return Claim(name, None, "not checked: it takes playing the runs again", AUDIT)
    if sum(attack.found.runs + attack.control.runs for attack in record.attacks) > MOST_AGAIN:
        return Claim(name, None, f"not checked: more than {MOST_AGAIN:,} runs; `policyc audit` plays fewer", AUDIT)
    again = audit(plan, record.date, record.runs, record.confidence, seed=record.seed)
    if again.refuted is not None:
        refuted = f"played again they prove more than is claimed about {again.refuted.secret}"
        return Claim(name, False, refuted, AUDIT, "E0842")
    for told, seen in zip(record.attacks, again.attacks, strict=True):
        for stated, here in zip(_counts(told), _counts(seen), strict=True):
            if abs(stated - here) > STDDEVS * math.sqrt(told.found.runs) / 2:
                detail = f"played again with its seed they count {here:,} and not {stated:,}, about {told.secret}"
                return Claim(name, False, detail, AUDIT, ALTERED)
    return Claim(name, True, "every run was played again with its seed", AUDIT)


def _counts(record: AttackRecord) -> tuple[int, ...]:
    found, control = record.found, record.control
    return found.hits, found.false_alarms, control.hits, control.false_alarms


def _as_many(attack: Attack, record: AttackRecord, runs: int) -> bool:
    """Half of the runs chose the event, the others were counted."""
    number = max(runs, attack.least_runs)
    return record.found.runs == record.control.runs == number - number // 2


def _nats(bound: Decimal | None) -> str:
    return "nothing" if bound is None else f"at least {bound} nats"


def _attacks_the_claim(attack: Attack, record: AttackRecord) -> bool:
    words = (attack.id, attack.secret, attack.statistic, str(attack.epsilon))
    near = abs(Fraction(attack.delta) - Fraction(record.delta)) <= NEAR * Fraction(attack.delta)
    return near and words == (record.id, record.secret, record.statistic, str(record.epsilon))


__all__ = ["AUDIT", "CONFIDENCE", "RUNS", "AttackRecord", "AuditRecord", "audit", "audit_claims", "read_audit"]
