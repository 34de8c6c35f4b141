"""From the verified plan to files: plan, model, steps and certificate; and back: are these files what the plan gives.

One content (`context.py`, made of `blocks/`) feeds every format; templates do no arithmetic.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policyc.emit.signatures import Signer
    from policyc_check.claims import Claim
    from policyc_runtime.plan import Plan


def save_plan(directory: Path, plan: Plan, policy_path: Path, agreed: Callable[[], None] = lambda: None) -> Path:
    """Write a plan's directory, with the policy and the files it names; `agreed` is called, or refuses, just before.

    Raises:
        KernelError: the directory holds something else, or the ledger of another plan; or the policy changed meanwhile.
    """
    from policyc.emit.directory import save
    from policyc.emit.stored_files import sha256
    from policyc_check.errors import KernelError

    contents: dict[str, bytes] = {}
    for file in (plan.policy.source, *plan.policy.files):
        path = policy_path if file is plan.policy.source else policy_path.parent / file.name
        contents[file.name] = path.read_bytes()
        if sha256(contents[file.name]) != file.sha256:
            message = "a file changed while the policy was compiled"
            raise KernelError("E0803", message, where=str(path), help="compile again")
    text = contents.pop(plan.policy.source.name)
    return save(directory, plan, text, contents, agreed)


def verify_directory(directory: str | Path, plan: Plan | None = None, *, quick: bool = False) -> list[Claim]:
    """One claim for every file that `compile` wrote, and that the policy gives this plan, which `quick` leaves out.

    All are of one plan, however the files change meanwhile: the one given, or the one that is there now.
    """
    from policyc.second_process import beside
    from policyc_check.claims import Claim
    from policyc_check.errors import KernelError
    from policyc_runtime.plan import load_plan

    try:
        known = load_plan(directory) if plan is None else plan
    except KernelError as error:
        detail = f"{error.message}: {error.because}" if error.because else error.message
        return [Claim("the plan can be read", False, detail, error.where, error.code)]

    def planned() -> Claim:
        from policyc.emit.second_plan import planned_again

        return planned_again(Path(directory), known)

    with beside(planned) if not quick else nullcontext() as anew:
        from policyc.emit.audit import verify_directory as verify_files

        return verify_files(Path(directory), known, None if anew is None else anew.found)


def require_unchanged(directory: str | Path, plan: Plan) -> None:
    """Refuse to run a plan whose policy, or a file it read, changed since: PlanRejectedError."""
    from policyc.emit.stored_policy import require_unchanged as require

    require(directory, plan)


def signature_claims(directory: Path, signed_by: Sequence[Path] = ()) -> Iterator[Claim]:
    """One claim a signature, and one for every public key that must have signed; KernelError for a key's fault."""
    from policyc.emit.signatures import signature_claims as claims

    return claims(directory, signed_by)


def require_signed(directory: Path, plan: Plan) -> tuple[str, ...]:
    """The key ids of who signed the plan that is about to be run; KernelError where signatures do not hold for it."""
    from policyc.emit.signatures import require_signed as require

    return require(directory, plan)


def sign(
    directory: Path,
    key_file: Path,
    passphrase: Callable[[], str],
    signer: Signer,
    agrees: Callable[[str], bool] = lambda _: True,
    verified: Callable[[Path], Iterable[Claim]] = verify_directory,
) -> str | None:
    """Sign a certificate whose every claim holds, and render its pages again with the signer on them.

    Args:
        directory: of the plan.
        key_file: a private ed25519 key, PEM (PKCS8).
        passphrase: asked only when the key is encrypted.
        signer: what the holder of the key says of who, when and what for.
        agrees: asked with the first page, as Markdown, when every claim was found to hold.
        verified: every claim of the directory, as `verify_directory` finds them.

    Returns:
        The id of the key that signed; None when the signer does not agree, and nothing is written.

    Raises:
        KernelError: E0871 to E0873; E0874, something about the files could not be checked or does not hold.
    """
    from policyc.emit.beside import Added
    from policyc.emit.certificate import first_page
    from policyc.emit.directory import TEXT, rewrite_certificate
    from policyc.emit.signatures import CERTIFICATE, NOT_SIGNABLE, sign_certificate
    from policyc.emit.signing_keys import require_extra
    from policyc_check.errors import KernelError
    from policyc_runtime.files import read_inside
    from policyc_runtime.plan import load_plan

    require_extra()
    load_plan(directory)  # which says what is missing where this is no directory of a plan
    try:
        certificate, page = (read_inside(directory / name, directory) for name in (CERTIFICATE, TEXT))
    except FileNotFoundError as error:
        raise KernelError(
            NOT_SIGNABLE,
            "there is no certificate here to be signed",
            where=str(error.filename),
            help=f"make it with `policyc certificate {directory}`, and read it",
        ) from None
    for claim in (*verified(directory), *signature_claims(directory)):
        if claim.holds is not True:
            raise KernelError(
                NOT_SIGNABLE,
                "this certificate is not signed: a claim about it does not hold, or cannot be checked here",
                where=claim.where,
                because=f"{claim.name}: {claim.detail}",
                help="compile the policy again, read the certificate, then sign it",
            )
    if not agrees(first_page(page.decode())):
        return None
    for name, read in ((CERTIFICATE, certificate), (TEXT, page)):
        if read_inside(directory / name, directory) != read:
            message = "the certificate changed while it was read, so it is not signed"
            raise KernelError(NOT_SIGNABLE, message, where=str(directory / name), help="read it again, then sign it")
    key, signatures = sign_certificate(directory, certificate, key_file, passphrase, signer)
    rewrite_certificate(directory, Added(signatures=signatures))
    return key


__all__ = ["require_signed", "require_unchanged", "save_plan", "sign", "signature_claims", "verify_directory"]
