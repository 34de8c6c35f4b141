"""Keys that sign certificates: ed25519, in PEM files. A private key is read and forgotten; nothing of it is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from policyc.emit.weak_keys import is_weak
from policyc_check.errors import KernelError
from policyc_check.files import read_ordinary
from policyc_runtime.files import PRIVATE_MODE, write_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_PREFIX = "ed25519:"
LARGEST_KEY = 2**16  # bytes
NEEDS_EXTRA, BAD_KEY = "E0871", "E0872"


def key_id(public: bytes) -> str:
    """How a public key is named: its kind, and its 32 bytes in hexadecimal."""
    return f"{KEY_PREFIX}{public.hex()}"


def installed() -> bool:
    """Whether the library of the extra `sign` is there."""
    return find_spec("cryptography") is not None


def require_extra() -> None:
    """E0871 unless the library of the extra `sign` is installed."""
    if not installed():
        raise KernelError(
            NEEDS_EXTRA,
            "signatures need a library that is not installed",
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
    taken = next((file for file in (path, public_path) if os.path.lexists(file)), None)
    if taken is not None:
        raise _bad_key(taken, "there is a file of that name already", "name another file")
    if not path.parent.is_dir():
        raise _bad_key(path, "there is no such directory", "make the directory first, or name another place")
    if (path.absolute().parent / "plan.json").exists():
        raise _bad_key(path, "a private key does not belong into a plan directory", "keep it elsewhere")
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = private.public_key()
    shown = public.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    write_bytes(public_path, shown, first=True)
    try:
        write_bytes(path, secret, PRIVATE_MODE, first=True)
    except OSError:
        public_path.unlink()  # half a pair is of no use to anybody
        raise
    return public_path, key_id(public.public_bytes_raw())


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
    return key_id(public.public_bytes_raw())


def read_private_key(path: Path, passphrase: Callable[[], str]) -> Ed25519PrivateKey:
    """A private key, PEM (PKCS8); the passphrase is asked only when it is encrypted. KernelError E0872."""
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
