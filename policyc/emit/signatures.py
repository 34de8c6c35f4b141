"""Signatures of a certificate: who signs and when, in words that are signed with it, in a file that lies beside it.

Each signer signs a statement with a DSSE envelope of its own: the SHA-256 of certificate.json, name, role,
organisation, contact, purpose, date and public key, as canonical JSON. A signature is checked with nothing but the
directory; that a name belongs to a key, people tell each other. The pages say who signed, so they are functions of
certificate and envelopes, and taking these away is found.

Source: RFC8785, DSSE
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policyc.emit.signing_keys import KEY_PREFIX, installed, key_id, read_private_key, read_public_key, require_extra
from policyc.emit.weak_keys import is_weak
from policyc_check.claims import Claim
from policyc_check.errors import KernelError
from policyc_runtime.files import read_inside
from policyc_runtime.json_text import read_json

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan

ENVELOPE = "certificate.dsse.json"
CERTIFICATE = "certificate.json"
PAYLOAD_TYPE = "application/vnd.policyc.signature+json"
MOST_SIGNERS = 100
LONGEST_NAME = 200  # characters
LATER_WORDS = ("contact", "purpose")  # signatures made before they could be said have no fields for them
KEY = re.compile(f"{KEY_PREFIX}[0-9a-f]{{64}}")
BAD_SIGNATURE, NOT_SIGNABLE, BAD_SIGNER = "E0873", "E0874", "E0885"


@dataclass(frozen=True)
class Signer:
    """Who signs, in the signer's own words.

    Args:
        name: of a person; like what follows one line of at most 200 characters.
        date: the day of signing, YYYY-MM-DD.
        role: None when not said, like what follows.
        organisation: for whom.
        contact: where the signer is reached.
        purpose: what is published for, and so what was signed for.

    Raises:
        KernelError: E0885, a word that cannot be printed as it stands, or no such day.
    """

    name: str
    date: str
    role: str | None = None
    organisation: str | None = None
    contact: str | None = None
    purpose: str | None = None

    def __post_init__(self) -> None:
        """Refuse what a page could not show as it stands."""
        for what in ("name", "role", "organisation", "contact", "purpose"):
            if (text := getattr(self, what)) is not None and (fault := _unprintable(text)):
                advice = f"write the {what} in letters, digits and punctuation, at most {LONGEST_NAME} characters"
                raise KernelError(BAD_SIGNER, f"the {what} of the signer {fault}", help=advice)
        try:
            known = date.fromisoformat(self.date).isoformat() == self.date
        except (TypeError, ValueError):
            known = False
        if not known:
            advice = "write the day of signing as YYYY-MM-DD"
            raise KernelError(BAD_SIGNER, "the date of the signature is no day", help=advice)

    @property
    def words(self) -> str:
        """Name, role, organisation and contact, as far as they are said."""
        said = (self.name, self.role, self.organisation, self.contact)
        return ", ".join(word for word in said if word is not None)


def _unprintable(text: object) -> str | None:
    """What keeps a text from being printed as it stands, None when nothing does."""
    if not isinstance(text, str) or not text.strip():
        return "is empty"
    if len(text) > LONGEST_NAME:
        return f"has more than {LONGEST_NAME} characters"
    if not text.isprintable() or "`" in text or text != text.strip():
        return "has signs that a page does not show as they are: control, invisible, blanks around it, or backticks"
    return None


@dataclass(frozen=True)
class Signature:
    """One signature.

    Args:
        certificate: SHA-256 of certificate.json, hexadecimal.
        signer: who signed.
        key: the key id: `ed25519:` and the public key in hexadecimal.
        signature: of `payload`; empty until it is made.
    """

    certificate: str
    signer: Signer
    key: str
    signature: bytes = b""

    @property
    def payload(self) -> bytes:
        """The statement that is signed: one text for one statement."""
        signer = self.signer
        statement = {
            **{what: word for what in LATER_WORDS if (word := getattr(signer, what)) is not None},
            "certificate_sha256": self.certificate,
            "date": signer.date,
            "key": self.key,
            "name": signer.name,
            "organisation": signer.organisation,
            "role": signer.role,
        }
        return json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def signed_bytes(self) -> bytes:
        """DSSE's pre-authentication encoding: what is signed says its own type and length."""
        kind, payload = PAYLOAD_TYPE.encode(), self.payload
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def render_envelopes(signatures: Sequence[Signature]) -> bytes:
    """The bytes of certificate.dsse.json: a DSSE envelope a signer; one text for the same signatures."""
    content = [
        {
            "payload": base64.b64encode(one.payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": one.key, "sig": base64.b64encode(one.signature).decode()}],
        }
        for one in signatures
    ]
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def read_signatures(directory: Path) -> tuple[Signature, ...]:
    """The signatures beside a certificate; none when nobody signed.

    Raises:
        KernelError: E0873, they are no signatures, or not as they were written.
    """
    path = directory / ENVELOPE
    if not path.exists() and not path.is_symlink():
        return ()
    signatures: tuple[Signature, ...] = ()
    content, fields = b"", None
    with suppress(OSError, ValueError, KeyError, TypeError, KernelError):
        content = read_inside(path, directory)
        fields = read_json(content)
        signatures = tuple(_signature(one) for one in fields)
    distinct = 0 < len(signatures) == len({one.key for one in signatures}) <= MOST_SIGNERS
    if not distinct or render_envelopes(signatures) != content:
        unnamed = isinstance(fields, dict) and "payload" in fields
        raise KernelError(
            BAD_SIGNATURE,
            "this was signed before signatures said who signs: delete it, and sign again with `policyc sign --name`"
            if unnamed
            else "the signatures cannot be read, or are not as they were written",
            where=str(path),
            help="ask the signers for the file, or delete it and have the certificate signed again",
        )
    return signatures


def _signature(envelope: Any) -> Signature:
    statement: Any = read_json(_decoded(envelope["payload"]))
    words = {what: statement[what] for what in LATER_WORDS if what in statement}
    signer = Signer(statement["name"], statement["date"], statement["role"], statement["organisation"], **words)
    key = statement["key"]
    if KEY.fullmatch(key) is None:
        raise ValueError
    (made,) = envelope["signatures"]
    return Signature(str(statement["certificate_sha256"]), signer, key, _decoded(made["sig"]))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def signatures_of(directory: Path, certificate: bytes) -> tuple[Signature, ...]:
    """The signatures that the pages name: those in the directory that are about this certificate.

    Args:
        directory: where the envelopes lie.
        certificate: the bytes of certificate.json.
    """
    try:
        signatures = read_signatures(directory)
    except KernelError:
        return ()
    return tuple(one for one in signatures if one.certificate == _sha256(certificate))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def signature_claims(directory: Path, signed_by: Sequence[Path] = ()) -> Iterator[Claim]:
    """One claim a signature, and one for every key that must have signed.

    Raises:
        KernelError: E0872, a public key cannot be read; E0871, one was named and the extra is not installed.
    """
    wanted = {path: read_public_key(path) for path in signed_by}
    where = str(directory / ENVELOPE)
    signatures: tuple[Signature, ...] = ()
    try:
        signatures = read_signatures(directory)
    except KernelError as error:
        yield Claim("the signatures can be read", False, error.message, error.where, error.code)
    good = set()
    for one in signatures:
        name = f"the certificate is signed by {one.signer.words}, on {one.signer.date}, with the key {one.key}"
        if not installed():
            yield Claim(name, None, "not checked: it needs the extra `sign`: pip install 'policyc[sign]'", where)
            continue
        fault = _fault(directory, one)
        yield Claim(name, fault is None, fault or "ed25519 over its SHA-256 and these words", where, BAD_SIGNATURE)
        good |= set() if fault else {one.key}
    for path, key in wanted.items():
        detail = key if key in good else f"no signature of {key} holds here"
        yield Claim(f"the key in `{path.name}` has signed the certificate", key in good, detail, where, BAD_SIGNATURE)


def _fault(directory: Path, one: Signature) -> str | None:
    """Why a signature does not hold, None when it does."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        certificate = read_inside(directory / CERTIFICATE, directory)
    except OSError:
        return "the certificate is missing or cannot be read"
    if one.certificate != _sha256(certificate):
        return "another certificate was signed than the one that lies here"
    try:
        point = bytes.fromhex(one.key.removeprefix(KEY_PREFIX))
        Ed25519PublicKey.from_public_bytes(point).verify(one.signature, one.signed_bytes)
    except (InvalidSignature, ValueError):
        return "it is not a signature of this key over this certificate and what the signer says"
    return "anybody can sign with this key: its point is of low order" if is_weak(point) else None


def require_signed(directory: Path, plan: Plan) -> tuple[str, ...]:
    """Who signed the plan that is about to be run; nobody, where there are no signatures.

    Args:
        directory: of the plan.
        plan: as it was loaded from there.

    Returns:
        The key ids.

    Raises:
        KernelError: E0873, there are signatures, and not all hold for this plan's certificate; E0871, they cannot be
            checked without the extra `sign`.
    """
    if not (directory / ENVELOPE).exists() and not (directory / ENVELOPE).is_symlink():
        return ()
    require_extra()
    fault = next((claim for claim in signature_claims(directory) if not claim.holds), None)
    detail = None if fault is None else f"{fault.name}: no; {fault.detail}"
    if fault is None and _certified_digest(directory) != plan.digest:
        detail = "the certificate that was signed is about another plan"
    if detail is not None:
        raise KernelError(
            BAD_SIGNATURE,
            "this directory was signed, and what would run is not what was signed",
            where=str(directory / ENVELOPE),
            because=detail,
            help="find out who changed what; or compile the policy again and have the certificate signed",
        )
    return tuple(one.key for one in read_signatures(directory))


def _certified_digest(directory: Path) -> str | None:
    """The digest of the plan that the certificate of a directory is about."""
    try:
        content: Any = read_json(read_inside(directory / CERTIFICATE, directory))
        return str(content["integrity"]["plan_digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sign_certificate(
    directory: Path, content: bytes, key_file: Path, passphrase: Callable[[], str], signer: Signer
) -> tuple[str, tuple[Signature, ...]]:
    """Sign what lies in a plan directory; the caller has found every claim about it to hold.

    Args:
        directory: holds certificate.json.
        content: of certificate.json, as the signer has seen it.
        key_file: a private ed25519 key, PEM (PKCS8).
        passphrase: asked only when the key is encrypted.
        signer: what the holder of the key says of who and when.

    Returns:
        The key id, and every signature of this certificate, in order of key id; nothing is written yet. A key that
        had signed signs again, with what is said now.

    Raises:
        KernelError: E0871, E0872, E0873.
    """
    require_extra()
    private = read_private_key(key_file, passphrase)
    certificate = _sha256(content)
    unsigned = Signature(certificate, signer, key_id(private.public_key().public_bytes_raw()))
    made = replace(unsigned, signature=private.sign(unsigned.signed_bytes))
    others = [one for one in read_signatures(directory) if one.certificate == certificate and one.key != made.key]
    return made.key, tuple(sorted((*others, made), key=lambda one: one.key))
