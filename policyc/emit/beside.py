"""What lies beside a certificate and is shown in its pages, though nobody knew it when the certificate was made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from policyc.emit.blocks.wording import Json
from policyc.emit.certificate import Beside, PolicyText
from policyc.emit.numbers import exact, grouped, plain, shown
from policyc.emit.signatures import ENVELOPE, Signature, render_envelopes, signatures_of
from policyc.emit.stored_files import content_of, sha256
from policyc_check.errors import KernelError
from policyc_runtime.laboratory.empirical import AUDIT, AttackRecord, AuditRecord, read_audit


@dataclass(frozen=True)
class Added:
    """What is about to be laid beside a certificate, in one go with the pages that show it; None adds nothing."""

    signatures: tuple[Signature, ...] | None = None
    audit: AuditRecord | None = None

    @property
    def files(self) -> dict[str, bytes]:
        """Their bytes, by name."""
        audit = {} if self.audit is None else {AUDIT: self.audit.render().encode()}
        return audit if self.signatures is None else {ENVELOPE: render_envelopes(self.signatures), **audit}


NOTHING_ADDED = Added()


def read_beside(directory: Path, certificate: str, policy: bytes | None = None, added: Added = NOTHING_ADDED) -> Beside:
    """Who signed, what an audit of the same plan found, and the policy; unreadable files say nothing.

    A policy that is not the one that was compiled is not shown; `verify` says so, and finds what cannot be read.

    Args:
        directory: where the files lie.
        certificate: the text of certificate.json.
        policy: the policy as it was read, where the directory is still to be written.
        added: what is not there yet, in place of what is.
    """
    try:
        record = added.audit or read_audit(directory)
    except KernelError:
        record = None
    integrity = json.loads(certificate)["integrity"]
    if record is not None and record.plan_digest != integrity["plan_digest"]:
        record = None
    words = None if record is None else audit_words(record)
    source = integrity["files"][0]
    shown_policy = _policy(directory, source["name"], source["sha256"], policy)
    signatures = signatures_of(directory, certificate.encode()) if added.signatures is None else added.signatures
    return Beside(signatures, words, shown_policy)


def _policy(directory: Path, name: str, recorded: str, given: bytes | None) -> PolicyText | None:
    content = given if given is not None else content_of(directory, name)
    if content is None or sha256(content) != recorded:
        return None
    return PolicyText.of(name, recorded, content)


def audit_words(record: AuditRecord) -> Json:
    """An audit as the pages tell it."""
    refuted = record.refuted is not None
    verdict = "MORE WAS PROVEN THAN IS CLAIMED" if refuted else "no attack proved more than is claimed"
    return {
        "date": record.date,
        "refuted": refuted,
        "sentence": f"On {record.date} the plan's own mechanism was run {grouped(record.runs)} times or more on each "
        f"of two neighboring streams, and an attacker who knows everything else tried to tell which: {verdict}, at "
        f"{plain(100 * record.confidence)} % confidence. "
        "Such runs can find mistakes; what is recomputed from the plan is the proof.",
        "attacks": [_attack_words(attack) for attack in record.attacks],
    }


def _attack_words(attack: AttackRecord) -> Json:
    at = "" if attack.delta == 0 else f" at delta {exact(attack.delta)}"
    proven = attack.found.epsilon_at_least
    control = attack.control.epsilon_at_least
    noticed = "would have been noticed" if attack.notices_half_the_noise else "would not have been noticed"
    return {
        "secret": attack.secret,
        "statistic": attack.statistic,
        "claimed": f"{shown(attack.epsilon)} nats{at}",
        "proven": "nothing" if proven is None else f"{exact(proven)} nats",
        "counts": f"{grouped(attack.found.hits)} against {grouped(attack.found.false_alarms)} of "
        f"{grouped(attack.found.runs)}",
        "control": f"{'nothing' if control is None else f'{exact(control)} nats'}: half the noise {noticed}",
    }
