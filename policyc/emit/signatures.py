"""Signatures of a certificate: ed25519 over its canonical JSON, in a DSSE envelope that lies beside it.

A signer is named by the public key, so an envelope can be checked with nothing else; whose key it is, people tell each
other. The private key is read and forgotten: nothing of it is ever written. The pages say who signed, so they are
functions of certificate and envelope, and taking the envelope away is found.

Source: RFC8785, DSSE
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policyc.emit.certificate import render_json
from policyc.emit.weak_keys import is_weak
from policyc_runtime.claims import Claim
from policyc_runtime.errors import KernelError
from policyc_runtime.files import read_ordinary
from policyc_runtime.json_text import read_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from policyc_runtime.plan import Plan

ENVELOPE = "certificate.dsse.json"
CERTIFICATE = "certificate.json"
PAYLOAD_TYPE = "application/vnd.policyc.certificate+json"
KEY_PREFIX = "ed25519:"
MOST_SIGNERS = 100
LARGEST_KEY = 2**16  # bytes
NEEDS_EXTRA, BAD_KEY, BAD_SIGNATURE, NOT_SIGNABLE = "E0871", "E0872", "E0873", "E0874"


@dataclass(frozen=True)
class Envelope:
    """What was signed, and by whom.

    Args:
        payload: the certificate as canonical JSON (RFC 8785).
        signatures: key id (`ed25519:` and the public key in hexadecimal) and signature, in order of key id.
    """

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @property
    def signers(self) -> tuple[str, ...]:
        """The key ids."""
        return tuple(key for key, _ in self.signatures)

    def render(self) -> bytes:
        """The bytes of certificate.dsse.json: one text for one envelope."""
        content = {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [
                {"keyid": key, "sig": base64.b64encode(signature).decode()} for key, signature in self.signatures
            ],
        }
        return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def read_envelope(directory: Path) -> Envelope | None:
    """The envelope beside a certificate; None when nobody signed.

    Raises:
        KernelError: E0873, it is no envelope, or not as it was written.
    """
    path = directory / ENVELOPE
    if not path.exists() and not path.is_symlink():
        return None
    envelope, content = None, b""
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = read_ordinary(path, inside=directory)
        fields: Any = read_json(content)
        signatures = tuple((str(one["keyid"]), _decoded(one["sig"])) for one in fields["signatures"])
        envelope = Envelope(_decoded(fields["payload"]), signatures)
    distinct = envelope is not None and 0 < len(envelope.signatures) == len(set(envelope.signers)) <= MOST_SIGNERS
    if envelope is None or not distinct or envelope.render() != content:
        raise KernelError(
            BAD_SIGNATURE,
            "the signatures cannot be read, or are not as they were written",
            where=str(path),
            help="ask the signer for the file, or delete it and have the certificate signed again",
        )
    return envelope


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def signers_of(directory: Path, certificate: str) -> tuple[str, ...]:
    """Key ids that the pages name: of the envelope, if there is one and it is about this certificate.

    Args:
        directory: where the envelope lies.
        certificate: the text of certificate.json.
    """
    try:
        envelope = read_envelope(directory)
    except KernelError:
        return ()
    return envelope.signers if envelope is not None and _signs(envelope, certificate.encode()) else ()


def _signs(envelope: Envelope, certificate: bytes) -> bool:
    """Whether a payload says the same as certificate.json, and certificate.json says it in its one way."""
    try:
        return render_json(read_json(envelope.payload)).encode() == certificate
    except ValueError:
        return False


def signature_claims(directory: Path, signed_by: Sequence[Path] = ()) -> Iterator[Claim]:
    """One claim a signature, and one for every key that must have signed.

    Raises:
        KernelError: E0872, a public key cannot be read; E0871, one was named and the extra is not installed.
    """
    wanted = {path: read_public_key(path) for path in signed_by}
    where = str(directory / ENVELOPE)
    envelope: Envelope | None = None
    try:
        envelope = read_envelope(directory)
    except KernelError as error:
        yield Claim("the signatures can be read", False, error.message, error.where, error.code)
    good = set()
    for key, signature in envelope.signatures if envelope else ():
        name = f"the certificate is signed by {key}"
        if not _installed():
            yield Claim(name, None, "not checked: it needs the extra `sign`: pip install 'policyc[sign]'", where)
            continue
        fault = _fault(directory, envelope, key, signature)
        yield Claim(name, fault is None, fault or "ed25519 over its canonical JSON", where, BAD_SIGNATURE)
        good |= set() if fault else {key}
    for path, key in wanted.items():
        detail = key if key in good else f"no signature of {key} holds here"
        yield Claim(f"the key in `{path.name}` has signed the certificate", key in good, detail, where, BAD_SIGNATURE)


def _fault(directory: Path, envelope: Envelope | None, key: str, signature: bytes) -> str | None:
    """Why a signature does not hold, None when it does."""
    import rfc8785
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    assert envelope is not None, "signatures come from an envelope"
    try:
        certificate = read_ordinary(directory / CERTIFICATE, inside=directory)
    except OSError:
        return "the certificate is missing or cannot be read"
    try:
        if not _signs(envelope, certificate) or rfc8785.dumps(read_json(envelope.payload)) != envelope.payload:
            return "another certificate was signed than the one that lies here"
        point = bytes.fromhex(key.removeprefix(KEY_PREFIX))
        public = Ed25519PublicKey.from_public_bytes(point)
        public.verify(signature, _encoded(envelope.payload))
    except (InvalidSignature, ValueError):
        return "it is not a signature of this key over this certificate"
    if _key_id(point) != key:
        return "the key is not written as it should be"
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
    envelope = read_envelope(directory)
    return () if envelope is None else envelope.signers


def _certified_digest(directory: Path) -> str | None:
    """The digest of the plan that the certificate of a directory is about."""
    try:
        content: Any = read_json(read_ordinary(directory / CERTIFICATE, inside=directory))
        return str(content["integrity"]["plan_digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sign_certificate(directory: Path, key_file: Path, passphrase: Callable[[], str]) -> tuple[str, Envelope]:
    """Sign what lies in a plan directory; the caller has found every claim about it to hold.

    Args:
        directory: holds certificate.json.
        key_file: a private ed25519 key, PEM (PKCS8).
        passphrase: asked only when the key is encrypted.

    Returns:
        The key id, and the envelope with every signature; nothing is written yet.

    Raises:
        KernelError: E0871, E0872, E0873.
    """
    require_extra()
    import rfc8785

    private = _read_private_key(key_file, passphrase)
    key = _key_id(private.public_key().public_bytes_raw())
    payload = rfc8785.dumps(read_json((directory / CERTIFICATE).read_bytes()))
    before = read_envelope(directory)
    signatures = dict(before.signatures) if before is not None and before.payload == payload else {}
    signatures[key] = private.sign(_encoded(payload))
    return key, Envelope(payload, tuple(sorted(signatures.items())))


def _encoded(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is signed says its own type and length."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _key_id(public: bytes) -> str:
    return f"{KEY_PREFIX}{public.hex()}"


def _installed() -> bool:
    return find_spec("cryptography") is not None and find_spec("rfc8785") is not None


def require_extra() -> None:
    """E0871 unless the libraries of the extra `sign` are installed."""
    if not _installed():
        raise KernelError(
            NEEDS_EXTRA,
            "signatures need two libraries that are not installed",
            help="pip install 'policyc[sign]'",
        )


def new_key(path: Path) -> tuple[Path, str]:
    """Make a private key that only its owner can read, and the public key beside it (`.pub`), both PEM.

    Returns:
        The public key's file, and the key id.

    Raises:
        KernelError: E0871; E0872 when a file is there already, or the folder holds a plan.
    """
    require_extra()
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public_path = path.with_name(f"{path.name}.pub")
    if path.exists() or public_path.exists():
        raise _bad_key(path, "there is a file of that name already", "name another file")
    if (path.absolute().parent / "plan.json").exists():
        raise _bad_key(path, "a private key does not belong into a plan directory", "keep it elsewhere")
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    public = private.public_key()
    public_path.write_bytes(public.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return public_path, _key_id(public.public_bytes_raw())


def read_public_key(path: Path) -> str:
    """The key id of a public key, PEM; KernelError E0871, E0872."""
    require_extra()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        public = load_pem_public_key(_key_bytes(path))
    except (ValueError, UnsupportedAlgorithm):
        public = None
    if not isinstance(public, Ed25519PublicKey):
        raise _bad_key(path, "this is no public ed25519 key in PEM", "name the `.pub` file that was made with the key")
    if is_weak(public.public_bytes_raw()):
        remedy = "ask the signer for another key, made with `policyc sign --new-key FILE`"
        raise _bad_key(path, "anybody can sign with this key: its point is of low order", remedy)
    return _key_id(public.public_bytes_raw())


def _read_private_key(path: Path, passphrase: Callable[[], str]) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _key_bytes(path)
    private = None
    try:
        try:
            private = load_pem_private_key(content, None)
        except TypeError:  # the library's way to say that it is encrypted
            private = load_pem_private_key(content, passphrase().encode())
    except (ValueError, UnsupportedAlgorithm):
        pass  # refused below, in words that hold nothing of the key
    if not isinstance(private, Ed25519PrivateKey):
        advice = "make one with `policyc sign --new-key FILE` or `openssl genpkey -algorithm ed25519 -out FILE`"
        raise _bad_key(path, "this is no private ed25519 key in PEM, or its passphrase is another", advice)
    return private


def _key_bytes(path: Path) -> bytes:
    try:
        return read_ordinary(path, most=LARGEST_KEY)
    except OSError:
        raise _bad_key(path, "the key cannot be read", "name a PEM file that is there") from None


def _bad_key(path: Path, message: str, advice: str) -> KernelError:
    return KernelError(BAD_KEY, message, where=str(path), help=advice)
