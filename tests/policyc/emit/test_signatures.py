"""Signing a certificate, and finding every signature that does not hold."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import rfc8785
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from policyc.emit import sign as sign_as
from policyc.emit import signature_claims, signatures, signing_keys, verify_directory, weak_keys
from policyc.emit.directory import rewrite_certificate
from policyc.emit.signatures import Signer
from policyc_check.errors import KernelError
from policyc_runtime.plan import Plan, load_plan

Save = Callable[[Path, Plan], Path]
ADA = Signer("Ada Bell", "2026-11-21", "privacy officer", "Town of Lindau")
LEFT_TO_RIGHT, WITHOUT_WIDTH = "\u202d", "\u200b"


def sign(directory: Path, key: Path, passphrase: Callable[[], str], signer: Signer = ADA) -> str:
    return sign_as(directory, key, passphrase, signer)


def no_passphrase() -> str:
    raise AssertionError("nobody is asked for a passphrase")


@pytest.fixture
def fleet(planned_fleet: Plan) -> Plan:
    """What is verified is a plan that its policy gives."""
    return planned_fleet


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    for name in ("officer", "auditor"):
        signing_keys.new_key(folder / name)
    return folder


@pytest.fixture
def signed(save_plan: Save, fleet: Plan, tmp_path: Path, keys: Path) -> Path:
    directory = save_plan(tmp_path / "fleet.plan", fleet)
    sign(directory, keys / "officer", no_passphrase)
    return directory


def failed(directory: Path, *signed_by: Path) -> list[str]:
    claims = [*verify_directory(directory), *signature_claims(directory, signed_by)]
    return [claim.name for claim in claims if claim.holds is not True]


def test_a_signed_certificate_holds_and_its_pages_say_who_signed(signed: Path, keys: Path) -> None:
    """Everything holds, the named key has signed, and key ids stand on both pages; another key has not signed."""
    officer = signing_keys.read_public_key(keys / "officer.pub")
    assert failed(signed, keys / "officer.pub") == []
    assert failed(signed, keys / "auditor.pub") == ["the key in `auditor.pub` has signed the certificate"]
    for page in ("certificate.html", "certificate.md"):
        text = (signed / page).read_text()
        assert officer in text
        assert "Ada Bell, privacy officer, Town of Lindau" in text
        assert "on 2026-11-21, with the key" in text
        assert "Nobody has signed" not in text


def test_an_unsigned_certificate_says_so(save_plan: Save, fleet: Plan, tmp_path: Path) -> None:
    """The pages of an unsigned certificate say that nobody signed, and no signature is claimed."""
    directory = save_plan(tmp_path / "fleet.plan", fleet)
    assert "Nobody has signed" in (directory / "certificate.html").read_text()
    assert list(signature_claims(directory)) == []


def test_the_envelope_is_what_the_standards_say(signed: Path, keys: Path) -> None:
    """An independent reading of DSSE and RFC 8785 accepts the signature, and finds who signed what and when."""
    (envelope,) = json.loads((signed / signatures.ENVELOPE).read_text())
    assert set(envelope) == {"payload", "payloadType", "signatures"}
    payload = base64.b64decode(envelope["payload"])
    told = json.loads(payload)
    assert told == {
        "certificate_sha256": hashlib.sha256((signed / "certificate.json").read_bytes()).hexdigest(),
        "date": "2026-11-21",
        "key": envelope["signatures"][0]["keyid"],
        "name": "Ada Bell",
        "organisation": "Town of Lindau",
        "role": "privacy officer",
    }
    assert payload == rfc8785.dumps(told)
    kind = envelope["payloadType"].encode()
    encoded = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    public = form.load_pem_public_key((keys / "officer.pub").read_bytes())
    assert isinstance(public, ed25519.Ed25519PublicKey)
    public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), encoded)


@pytest.mark.law
def test_several_people_sign_and_order_does_not_matter(
    save_plan: Save, fleet: Plan, tmp_path: Path, keys: Path
) -> None:
    """Two signers in either order, and one twice, give the same bytes in every file."""
    one, two = save_plan(tmp_path / "one", fleet), save_plan(tmp_path / "two", fleet)
    for directory, names in ((one, ("officer", "auditor")), (two, ("auditor", "officer", "auditor"))):
        for name in names:
            sign(directory, keys / name, no_passphrase)
        assert failed(directory, keys / "officer.pub", keys / "auditor.pub") == []
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()


def test_every_altered_byte_of_the_envelope_is_found(signed: Path) -> None:
    """300 flipped bits, a cut, an addition and a removal of the envelope are all found."""
    path = signed / signatures.ENVELOPE
    original = path.read_bytes()
    rng = random.Random(5)
    for _ in range(300):
        place = rng.randrange(len(original))
        path.write_bytes(original[:place] + bytes([original[place] ^ (1 << rng.randrange(8))]) + original[place + 1 :])
        assert [claim for claim in signature_claims(signed) if claim.holds is False], place
    for content in (original + b" ", original[:-1], b"", b"[]", b'{"signatures": []}'):
        path.write_bytes(content)
        assert [claim for claim in signature_claims(signed) if claim.holds is False]
    path.unlink()
    assert failed(signed) == [f"`certificate.{suffix}` is what the plan gives" for suffix in ("html", "md")]


def test_a_signature_does_not_pass_to_another_certificate(
    save_plan: Save, signed: Path, traffic: Plan, tmp_path: Path
) -> None:
    """An envelope laid beside another certificate fails; compiling another plan over it takes it away."""
    other = save_plan(tmp_path / "traffic.plan", traffic)
    shutil.copy(signed / signatures.ENVELOPE, other)
    (claim,) = signature_claims(other)
    assert claim.holds is False
    assert "another certificate" in claim.detail
    save_plan(other, traffic)
    assert list(signature_claims(other)) == []


def test_compiling_the_same_policy_again_keeps_the_signature(
    save_plan: Save, signed: Path, fleet: Plan, keys: Path
) -> None:
    """The same certificate is the same words, so who signed them has signed them."""
    before = {path.name: path.read_bytes() for path in signed.iterdir()}
    save_plan(signed, fleet)
    rewrite_certificate(signed)
    assert {path.name: path.read_bytes() for path in signed.iterdir()} == before
    assert failed(signed, keys / "officer.pub") == []


def test_private_keys_never_reach_the_artefacts(signed: Path, keys: Path) -> None:
    """Neither the file, nor the secret number in it, in any usual spelling, is in any file of the directory."""
    pem = (keys / "officer").read_bytes()
    private = form.load_pem_private_key(pem, None)
    assert isinstance(private, ed25519.Ed25519PrivateKey)
    secret = private.private_bytes_raw()
    body = b"".join(pem.splitlines()[1:-1])
    spellings = [pem, body, secret, secret.hex().encode(), base64.b64encode(secret), b"PRIVATE KEY", body[-43:]]
    for path in signed.rglob("*"):
        assert not any(spelling in path.read_bytes() for spelling in spellings), path.name


def test_a_new_key_is_for_its_owner_alone(keys: Path, signed: Path) -> None:
    """Mode 600, never over another file, never in a plan directory; the public half is readable."""
    assert stat.S_IMODE((keys / "officer").stat().st_mode) == 0o600
    for path in (keys / "officer", signed / "key.pem"):
        with pytest.raises(KernelError) as refused:
            signing_keys.new_key(path)
        assert refused.value.code == "E0872"
    assert not (signed / "key.pem").exists()


@pytest.mark.law
def test_keys_of_other_kinds_are_refused_without_showing_them(signed: Path, tmp_path: Path, keys: Path) -> None:
    """An elliptic-curve key, a public key, garbage and nothing are refused; an encrypted one asks."""
    plain = (form.Encoding.PEM, form.PrivateFormat.PKCS8)
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(*plain, form.NoEncryption())
    for content in (other, (keys / "officer.pub").read_bytes(), b"secret garbage", b""):
        (tmp_path / "k").write_bytes(content)
        with pytest.raises(KernelError) as refused:
            sign(signed, tmp_path / "k", no_passphrase)
        assert refused.value.code == "E0872"
        assert "garbage" not in f"{refused.value} {refused.value.because} {refused.value.help}"
    with pytest.raises(KernelError):
        signing_keys.read_public_key(keys / "officer")
    with pytest.raises(KernelError):
        sign(signed, tmp_path / "missing", no_passphrase)
    locked = ed25519.Ed25519PrivateKey.generate().private_bytes(*plain, form.BestAvailableEncryption(b"open"))
    (tmp_path / "k").write_bytes(locked)
    with pytest.raises(KernelError, match="passphrase"):
        sign(signed, tmp_path / "k", lambda: "wrong")
    sign(signed, tmp_path / "k", lambda: "open")
    assert failed(signed) == []


def test_an_altered_certificate_is_not_signed(save_plan: Save, fleet: Plan, tmp_path: Path, keys: Path) -> None:
    """A certificate that says less than the plan gives gets no signature."""
    directory = save_plan(tmp_path / "fleet.plan", fleet)
    path = directory / "certificate.json"
    path.write_text(path.read_text().replace("nats", "nuts"))
    with pytest.raises(KernelError) as refused:
        sign(directory, keys / "officer", no_passphrase)
    assert refused.value.code == "E0874"
    assert not (directory / signatures.ENVELOPE).exists()
    for name, code in (("certificate.json", "E0874"), ("plan.json", "E0802")):
        (directory / name).unlink()
        with pytest.raises(KernelError, match="there is no") as refused:
            sign(directory, keys / "officer", no_passphrase)
        assert refused.value.code == code


def test_without_the_extra_the_message_says_what_to_install(
    signed: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signing is refused with the command to install; verifying says that signatures were not checked."""
    monkeypatch.setattr(signing_keys, "find_spec", lambda _name: None)
    assert [claim.holds for claim in signature_claims(signed)] == [None]
    for act in (
        lambda: sign(signed, keys / "officer", no_passphrase),
        lambda: signing_keys.new_key(keys / "third"),
        lambda: list(signature_claims(signed, [keys / "officer.pub"])),
    ):
        with pytest.raises(KernelError) as refused:
            act()
        assert refused.value.code == "E0871"
        assert "policyc[sign]" in (refused.value.help or "")


def doubled(point: tuple[int, int]) -> tuple[int, int]:
    """A point of the curve -x^2 + y^2 = 1 + d x^2 y^2 added to itself."""
    x, y = point
    p, d = weak_keys.PRIME, -121665 * pow(121666, -1, weak_keys.PRIME)
    both = d * x * x * y * y
    return 2 * x * y * pow(1 + both, -1, p) % p, (y * y + x * x) * pow(1 - both, -1, p) % p


def points_at(y: int) -> list[tuple[int, int]]:
    """The points of the curve with this y."""
    p, d = weak_keys.PRIME, -121665 * pow(121666, -1, weak_keys.PRIME)
    square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
    root = pow(square, (p + 3) // 8, p)
    roots = (root, root * pow(2, (p - 1) // 4, p) % p)
    return [(x % p, y) for one in roots for x in (one, -one) if one * one % p == square]


def test_the_points_of_low_order_are_those_whose_eightfold_is_nothing() -> None:
    """Eight points of five heights double thrice to the neutral one; no other can, since eight is the cofactor."""
    found = {point for y in weak_keys.LOW_ORDER for point in points_at(y)}
    assert len(found) == 8
    for point in found:
        assert doubled(doubled(doubled(point))) == (0, 1)


def low_order_keys() -> list[bytes]:
    """Every encoding of a point of low order, canonical or not, with either sign bit."""
    heights = [y + extra for y in weak_keys.LOW_ORDER for extra in (0, weak_keys.PRIME) if y + extra < 2**255]
    return [(y | sign << 255).to_bytes(32, "little") for y in heights for sign in (0, 1)]


def test_a_key_that_verifies_anything_is_refused(signed: Path, tmp_path: Path) -> None:
    """A signature made without any secret, under a key of low order, passes the library and does not hold here."""
    (true,) = signatures.read_signatures(signed)
    forged = (1).to_bytes(32, "little") + bytes(32)  # R neutral, S zero: S B = R + h A for A neutral
    passed = 0
    for public in low_order_keys():
        assert weak_keys.is_weak(public)
        one = replace(true, key=f"ed25519:{public.hex()}", signature=forged)
        (signed / signatures.ENVELOPE).write_bytes(signatures.render_envelopes([one]))
        (claim,) = signature_claims(signed)
        assert claim.holds is False
        passed += "low order" in claim.detail
        pem = b"-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n"
        spki = bytes.fromhex("302a300506032b6570032100") + public
        (tmp_path / "weak.pub").write_bytes(pem % base64.b64encode(spki))
        with pytest.raises(KernelError) as refused:
            signing_keys.read_public_key(tmp_path / "weak.pub")
        assert refused.value.code == "E0872"
    assert passed >= 1


def test_only_what_was_signed_is_run(signed: Path, traffic: Plan, fleet: Plan, tmp_path: Path) -> None:
    """Signatures that hold are named; another plan, certificate or envelope is refused; without any, nobody signed."""
    (one,) = signatures.read_signatures(signed)
    assert signatures.require_signed(signed, fleet) == (one.key,)
    with pytest.raises(KernelError, match="not what was signed") as refused:
        signatures.require_signed(signed, traffic)
    assert refused.value.code == "E0873"
    certificate = signed / "certificate.json"
    content = certificate.read_bytes()
    for other in (content + b" ", b"{}", b""):
        certificate.write_bytes(other)
        with pytest.raises(KernelError, match="not what was signed"):
            signatures.require_signed(signed, fleet)
    certificate.write_bytes(content)
    (signed / signatures.ENVELOPE).write_bytes(b"{}")
    with pytest.raises(KernelError, match="not what was signed"):
        signatures.require_signed(signed, fleet)
    (signed / signatures.ENVELOPE).unlink()
    assert signatures.require_signed(signed, fleet) == ()


def test_an_envelope_with_a_key_given_twice_is_refused(signed: Path) -> None:
    """Two readers would see two payloads, or two signatures of one key."""
    path = signed / signatures.ENVELOPE
    original = path.read_text()
    path.write_text(original.replace('"payloadType"', '"payload": "e30=",\n "payloadType"', 1))
    assert [claim.holds for claim in signature_claims(signed)] == [False]
    content = json.loads(original)
    signed_twice = [{**content[0], "signatures": content[0]["signatures"] * 2}]
    for other in (content * 2, signed_twice):
        path.write_text(json.dumps(other, indent=1, sort_keys=True) + "\n")
        assert [claim.holds for claim in signature_claims(signed)] == [False]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "other",
    [
        replace(ADA, name="Eve Bell"),
        replace(ADA, date="2026-11-22"),
        replace(ADA, role="auditor"),
        replace(ADA, role=None),
        replace(ADA, organisation="Town of Bregenz"),
    ],
)
def test_words_of_a_signer_that_are_changed_do_not_hold(signed: Path, other: Signer) -> None:
    """A well-formed envelope with another name, day, role or organisation fails, also with pages that fit it."""
    (one,) = signatures.read_signatures(signed)
    (signed / signatures.ENVELOPE).write_bytes(signatures.render_envelopes([replace(one, signer=other)]))
    pages = [f"`certificate.{suffix}` is what the plan gives" for suffix in ("html", "md")]
    assert set(pages) < set(failed(signed))
    rewrite_certificate(signed)
    (name,) = failed(signed)
    assert other.words in name
    with pytest.raises(KernelError, match="not what was signed"):
        signatures.require_signed(signed, load_plan(signed))


def test_contact_and_purpose_are_signed_and_printed(signed: Path, keys: Path) -> None:
    """They stand on the pages; words that were not said have no field, so that older signatures stay what they were."""
    told = replace(ADA, contact="ada@lindau.example", purpose="the town's open data")
    sign(signed, keys / "officer", no_passphrase, told)
    assert failed(signed) == []
    page, text = ((signed / f"certificate.{suffix}").read_text() for suffix in ("html", "md"))
    for words in (page, text):
        assert "Ada Bell, privacy officer, Town of Lindau, ada@lindau.example" in words
    assert "Purpose: <bdi>the town&#39;s open data</bdi>." in page
    assert "Purpose: the town's open data." in text
    (said,) = signatures.read_signatures(signed)
    assert said.signer == told
    statement = json.loads(said.payload)
    assert (statement["contact"], statement["purpose"]) == ("ada@lindau.example", "the town's open data")
    assert not {"contact", "purpose"} & json.loads(signatures.Signature("", ADA, "ed25519:00").payload).keys()
    other = replace(said, signer=replace(told, purpose="everything"))
    (signed / signatures.ENVELOPE).write_bytes(signatures.render_envelopes([other]))
    assert failed(signed)


def test_who_does_not_agree_to_the_first_page_has_signed_nothing(save_plan: Save, fleet: Plan, keys: Path) -> None:
    """The page that is shown ends with who signed; a certificate that changes while it is read is not signed."""
    directory = save_plan(keys.parent / "asked.plan", fleet)
    shown: list[str] = []

    def refuses(page: str) -> bool:
        shown.append(page)
        return False

    def alters(_: str) -> bool:
        path = directory / "certificate.json"
        path.write_bytes(path.read_bytes() + b" ")
        return True

    assert sign_as(directory, keys / "officer", no_passphrase, ADA, refuses) is None
    (page,) = shown
    assert page.startswith("# Privacy certificate: fleet")
    assert page.endswith("Nobody has signed this certificate (`policyc sign`).\n")
    assert "## The promise in detail" not in page
    assert not (directory / signatures.ENVELOPE).exists()
    with pytest.raises(KernelError, match="changed while it was read"):
        sign_as(directory, keys / "officer", no_passphrase, ADA, alters)
    assert not (directory / signatures.ENVELOPE).exists()


@pytest.mark.law
def test_signing_again_says_it_anew(signed: Path, keys: Path) -> None:
    """The same key with another name replaces the first; another key is added."""
    sign(signed, keys / "officer", no_passphrase, Signer("Ada Bell-Marsh", "2026-12-01"))
    sign(signed, keys / "auditor", no_passphrase, Signer("שרה כהן", "2026-12-02", None, "<b>Audit</b> & *Sons*"))
    assert failed(signed) == []
    page, text = ((signed / f"certificate.{suffix}").read_text() for suffix in ("html", "md"))
    assert "Ada Bell," not in page + text
    assert "<bdi>Ada Bell-Marsh</bdi>, on 2026-12-01" in page
    assert "<bdi>שרה כהן, &lt;b&gt;Audit&lt;/b&gt; &amp; *Sons*</bdi>, on 2026-12-02" in page
    assert "שרה כהן, &lt;b&gt;Audit&lt;/b&gt; &amp; \\*Sons\\*, on 2026-12-02" in text


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "word",
    ["", "  ", "a\nb", "a\x1b[2Kb", f"a{LEFT_TO_RIGHT}b", f"a{WITHOUT_WIDTH}b", " a", "`a`", "x" * 201, "\ud800"],
)
def test_words_that_a_page_cannot_show_are_refused(word: str, signed: Path) -> None:
    """Whatever is said of the signer, when signing; and in an envelope that somebody wrote by hand."""
    for field in ("name", "role", "organisation", "contact", "purpose"):
        with pytest.raises(KernelError, match=field) as refused:
            replace(ADA, **{field: word})
        assert refused.value.code == "E0885"
        assert f"{refused.value} {refused.value.help}".isprintable()
    (envelope,) = json.loads((signed / signatures.ENVELOPE).read_text())
    statement = {**json.loads(base64.b64decode(envelope["payload"])), "name": word}
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    envelope["payload"] = base64.b64encode(payload.encode(errors="surrogatepass")).decode()
    (signed / signatures.ENVELOPE).write_text(json.dumps([envelope], indent=1, sort_keys=True) + "\n")
    (claim,) = signature_claims(signed)
    assert claim.holds is False
    rewrite_certificate(signed)
    assert "Nobody has signed" in (signed / "certificate.md").read_text()


@pytest.mark.parametrize("day", ["", "21.11.2026", "2026-13-01", "2026-W47-6", "20261121", " 2026-11-21"])
def test_a_day_that_is_none_is_refused(day: str) -> None:
    """Only YYYY-MM-DD of the calendar is a day of signing."""
    with pytest.raises(KernelError) as refused:
        Signer("Ada Bell", day)
    assert refused.value.code == "E0885"


def test_a_signature_of_before_names_is_refused_with_what_to_do(signed: Path) -> None:
    """An envelope over the whole certificate, which says no name, is refused with the remedy, and nothing is run."""
    old = {"payload": "e30=", "payloadType": "application/vnd.policyc.certificate+json", "signatures": []}
    (signed / signatures.ENVELOPE).write_text(json.dumps(old, indent=1, sort_keys=True) + "\n")
    (claim,) = signature_claims(signed)
    assert claim.holds is False
    assert "policyc sign --name" in claim.detail
    with pytest.raises(KernelError, match="not what was signed"):
        signatures.require_signed(signed, load_plan(signed))
