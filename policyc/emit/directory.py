"""The directory that `compile` writes: plan, model, certificate, steps, and the policy with the files it names.

Every file is written beside its place and then renamed, so a reader finds either the old file or the new one. A ledger
in the directory is never moved.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from policyc.emit.accounting import Accounting
from policyc.emit.beside import NOTHING_ADDED, Added, read_beside
from policyc.emit.blocks.example import same_example
from policyc.emit.blocks.operation import checks
from policyc.emit.blocks.wording import JsonValue
from policyc.emit.certificate import render_html, render_json, render_markdown
from policyc.emit.context import certificate_content
from policyc.emit.map_model import render_map_model
from policyc.emit.on_demand import ON_DEMAND, refreshed_on_demand, render_on_demand
from policyc.emit.signatures import CERTIFICATE, ENVELOPE, signatures_of
from policyc.emit.steps import render_steps, step_rows
from policyc.emit.stored_files import content_of, recorded, sha256
from policyc_check.errors import KernelError
from policyc_runtime.files import (
    read_inside,
    scratch,
    speaking_of,
    sync_directory,
    write_bytes,
    write_new,
    write_together,
)
from policyc_runtime.laboratory.empirical import AUDIT
from policyc_runtime.ledger_seal import LEDGER, PIN
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.refusal import computed_with

PLAN, MODEL, STEPS = "plan.json", "map_model.py", "steps.csv"
PAGE, TEXT = "certificate.html", "certificate.md"
ATTACHED = (PLAN, MODEL, STEPS)
REAL = re.compile(r"((?<![0-9])(?:[0-9]*+\.[0-9]++(?:[eE][-+]?[0-9]++)?|[0-9]++[eE][-+]?[0-9]++))")
SHA256 = re.compile(r"[0-9a-f]{64}")
LAST_BITS = 1e-12  # the last bits of a logarithm differ from machine to machine


def attached_files(accounting: Accounting) -> dict[str, bytes]:
    """The files that a certificate records the hashes of, as the plan gives them, by name."""
    plan = accounting.plan
    return {
        PLAN: plan.to_json().encode(),
        MODEL: render_map_model(plan).encode(),
        STEPS: render_steps(step_rows(plan, accounting), "csv").encode(),
    }


def rendered_files(
    plan: Plan, directory: Path, policy: bytes | None = None, added: Added = NOTHING_ADDED
) -> dict[str, bytes]:
    """Every file that follows from the plan, by name; the pages name who signed this certificate in the directory.

    Of a file there that differs from what the plan gives by the last bits of its numbers, as another machine computes
    them, the certificate is about the file as it is. `policy` is the text to show, where none lies there yet; `added`
    what will lie there too.

    Raises:
        PlanRejectedError: a claim of the plan does not hold.
    """
    checked = checks(plan)  # what does not hold is not rendered
    accounting = Accounting(plan)
    files = attached_files(accounting)
    for name, given in files.items():
        found = content_of(directory, name)
        files[name] = found if found is not None and same_but_for_rounding(found, given) else given
    hashes = {name: sha256(files[name]) for name in ATTACHED}
    return files | _certificate(accounting, checked, hashes, directory, policy, added)


def same_but_for_rounding(found: bytes, given: bytes) -> bool:
    """Whether two texts are the same but for the last bits of numbers that are not whole."""
    if found == given:
        return True
    if len(found) > 2 * len(given):
        return False
    pieces = [REAL.split(text.decode("utf-8", errors="replace")) for text in (found, given)]
    if len(pieces[0]) != len(pieces[1]):
        return False
    return all(
        left == right or (index % 2 == 1 and math.isclose(float(left), float(right), rel_tol=LAST_BITS))
        for index, (left, right) in enumerate(zip(*pieces, strict=True))
    )


def _certificate(
    accounting: Accounting,
    checked: list[JsonValue],
    attachments: dict[str, str],
    directory: Path,
    policy: bytes | None,
    added: Added,
) -> dict[str, bytes]:
    """The three forms of the certificate.

    Args:
        accounting: of the plan that is rendered.
        checked: what was found to hold of it.
        attachments: SHA-256 of the files it records, by name.
        directory: where an envelope may lie that says who signed; and a certificate. The picture of an example run
            in it stays as it is if this machine draws the same but for rounding; so does the name of the code that
            made it if this code says the same of everything else.
        policy: the text to show; None for the one that lies there.
        added: what will lie there too.
    """
    content: Any = certificate_content(accounting.plan, attachments, checked, accounting)
    pictures, example = content["pictures"], recorded(directory, "pictures", "example")
    if example is not None and same_example(example, pictures.get("example")):
        pictures["example"] = example
    text = render_json(content)
    code = recorded(directory, "integrity", "code_sha256")
    if isinstance(code, str) and SHA256.fullmatch(code) and code != content["integrity"]["code_sha256"]:
        other = {**content, "integrity": {**content["integrity"], "code_sha256": code}}
        if render_json(other).encode() == content_of(directory, CERTIFICATE):
            content, text = other, render_json(other)
    beside = read_beside(directory, text, policy, added)
    return {
        CERTIFICATE: text.encode(),
        PAGE: render_html(content, beside).encode(),
        TEXT: render_markdown(content, beside).encode(),
    }


def rewrite_certificate(directory: Path, added: Added = NOTHING_ADDED) -> list[Path]:
    """Render everything that a plan gives again: model, steps and the certificate about them.

    It is written in one go with what is `added`. Signatures of another certificate than the one that results are taken
    away: they were about other words.

    Raises:
        PlanFormatError: there is no plan.
        PlanRejectedError: a claim of the plan does not hold.
    """
    with computed_with():
        files = rendered_files(load_plan(directory), directory, added=added)
    text = files[CERTIFICATE].decode()
    beside = read_beside(directory, text, added=added)
    documents = refreshed_on_demand(directory, json.loads(text), beside)
    new = files | documents | added.files
    write_together({directory / name: new[name] for name in new if content_of(directory, name) != new[name]})
    for name in {ENVELOPE, *ON_DEMAND} - new.keys() - ({ENVELOPE} if beside.signatures else set()):
        (directory / name).unlink(missing_ok=True)
    return [directory / name for name in files]


def write_on_demand(directory: Path, name: str) -> Path:
    """Write one of the documents of `ON_DEMAND` from the certificate that lies in a directory.

    Raises:
        KernelError: E0871, its extra is not installed.
    """
    text = read_inside(directory / CERTIFICATE, directory).decode()
    write_bytes(directory / name, render_on_demand(name, json.loads(text), read_beside(directory, text)))
    return directory / name


def save(
    directory: Path,
    plan: Plan,
    policy_text: str | bytes,
    policy_files: dict[str, bytes],
    agreed: Callable[[], None] = lambda: None,
) -> Path:
    """Write a plan's directory; an older plan of the same policy there is replaced, unless its ledger has entries.

    Args:
        directory: created when missing; otherwise it must be empty or hold a plan.
        plan: verified while its certificate is rendered.
        policy_text: the policy as it was read.
        policy_files: the files the policy names, by the names that the plan records.
        agreed: called once it is clear that the directory can be written; where it raises, nothing is written.

    Raises:
        KernelError: E0806 when the directory holds something else; E0807 when it holds the ledger of another plan.
        PlanRejectedError: a claim of the plan does not hold.
    """
    policy = policy_text.encode() if isinstance(policy_text, str) else policy_text
    files = rendered_files(plan, directory, policy)
    for name, content in {plan.policy.source.name: policy, **policy_files}.items():
        if name in files:
            message = f"a file of the policy has the name of a file that is written: `{name}`"
            raise KernelError("E0806", message, where=str(directory), help="give the policy's file another name")
        files[name] = content
    stale = _stale_files(directory, plan, set(files))
    if not signatures_of(directory, files[CERTIFICATE]):
        stale.append(directory / ENVELOPE)
    if read_beside(directory, files[CERTIFICATE].decode()).audit is None:
        stale.append(directory / AUDIT)
    if not _same_file(directory / PAGE, files[PAGE]):
        stale += [directory / name for name in ON_DEMAND]
    agreed()
    directory.parent.mkdir(parents=True, exist_ok=True)
    with speaking_of(directory), scratch(directory, "new") as beside:
        for name, content in files.items():
            write_new(beside / name, content)
        _move(beside, directory, files, stale)
    return directory


def _same_file(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def _move(beside: Path, directory: Path, files: dict[str, bytes], stale: list[Path]) -> None:
    """Rename a new directory whole; in an old one file by file, the plan last, so that a broken-off save is found."""
    if not directory.exists():
        beside.chmod(0o755)
        beside.rename(directory)
        sync_directory(directory.parent)
        return
    for name in sorted(files, key=lambda name: name == PLAN):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (beside / name).replace(directory / name)
    sync_directory(directory)
    for path in stale:
        path.unlink(missing_ok=True)


def _stale_files(directory: Path, plan: Plan, new: set[str]) -> list[Path]:
    """Files of an older plan that the new one does not have.

    Raises:
        KernelError: E0806, E0807.
    """
    if directory.is_symlink() and not directory.exists():
        remedy = "let it lead to a directory, or name another one: `-o OTHER.plan`"
        raise KernelError("E0806", "this link leads nowhere", where=str(directory), help=remedy)
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return []
    for name in sorted(new):
        if (directory / name).is_dir():
            message = f"a directory has the name of a file that is written: `{name}`"
            raise KernelError("E0806", message, where=str(directory), help="move it away, and compile again")
    old = _old_plan(directory) if directory.is_dir() else None
    if old is None or old.digest != plan.digest:
        spent = _spent_under(directory / LEDGER)
        if spent is None and old is None and not recorded(directory, "integrity", "plan_digest"):
            raise KernelError(
                "E0806",
                "this is not a plan directory, so nothing is written into it",
                where=str(directory),
                help="compile into another directory: `-o OTHER.plan`",
            )
        if spent not in (None, plan.digest):
            own = f"put its own `{PLAN}` back, or " if old is None else ""
            raise KernelError(
                "E0807",
                "the directory holds the ledger of another plan",
                where=str(directory / LEDGER),
                because="a ledger says what was spent under its own plan, and must stay beside it",
                help=f"{own}compile into another directory: `-o OTHER.plan`; without it the policy's name says where, "
                f"`{plan.policy.name}.plan`. Two plans on the same users tell more than each promises: an account adds "
                "them up (`dataset NAME` in the stream, `--account FILE`)",
            )
    if old is None:
        return []
    named = [old.policy.source.name, *(file.name for file in old.policy.files)]
    return [directory / name for name in named if name not in new]


def _spent_under(ledger: Path) -> str | None:
    """The digest of the plan whose noise a ledger holds; None where nothing was drawn.

    Raises:
        KernelError: E0807, the ledger cannot be read, or is gone.
    """
    from policyc_runtime.ledger_reader import LedgerReader

    if not ledger.exists() and not ledger.is_symlink() and not ledger.with_name(PIN).exists():
        return None
    try:
        with LedgerReader.open_read_only(ledger) as book:
            return None if book.unspent else book.meta["plan"]
    except KernelError as error:
        raise KernelError(
            "E0807",
            "nobody can tell of which plan the ledger in this directory is",
            where=str(ledger),
            because=": ".join(filter(None, (error.message, error.because))),
            help=f"{error.help or 'restore it from a copy'}; a plan in another directory would draw steps that are "
            "released already again, and both together tell more than is promised",
        ) from None


def _old_plan(directory: Path) -> Plan | None:
    try:
        return load_plan(directory)
    except KernelError:
        return None
