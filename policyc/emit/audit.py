"""Checks the files of a plan directory against each other, the plan and its policy.

Nothing is believed that can be made again: the model, the steps, the pages and what was asked for beside them are
rendered from the plan, and what the plan promises is resolved again from the policy that lies beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from policyc.emit.beside import read_beside
from policyc.emit.directory import (
    MODEL,
    PAGE,
    PLAN,
    STEPS,
    TEXT,
    rendered_files,
    same_but_for_rounding,
)
from policyc.emit.on_demand import on_demand_claims
from policyc.emit.printed_numbers import differing_number, promised_numbers
from policyc.emit.second_plan import not_planned
from policyc.emit.signatures import CERTIFICATE
from policyc.emit.stored_files import content_of, sha256
from policyc.emit.stored_policy import CODE, MADE_HERE, other_code, policy_claims
from policyc.second_process import beside
from policyc_check.claims import Claim
from policyc_check.errors import KernelError
from policyc_runtime.json_text import read_json
from policyc_runtime.laboratory.empirical import audit_claims, read_audit
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import computed_with

SHOWING = (PAGE, TEXT)  # the policy, as their appendix
PROGRAMS = (".py", ".pyc", ".so", ".pyd", ".pth", ".zip")


def verify_directory(folder: Path, plan: Plan, planned: Callable[[], Claim] | None = None) -> list[Claim]:
    """One claim for every file that `compile` wrote; none raises, and what could not be checked says so.

    Args:
        folder: of a plan.
        plan: that is there.
        planned: tells of the claim that takes what `compile` takes: that the policy gives this plan. It is not asked
            where another claim fails; None where it is left out.
    """
    if content_of(folder, PLAN) is None:
        return [
            Claim("the plan can be read", False, "it is a link that leaves the directory", str(folder / PLAN), CODE)
        ]
    readable = Claim("the plan can be read", True, f"plan {plan.digest[:16]}…", PLAN)
    with beside(lambda: list(_rendered(folder, plan)), spare=True) if planned else nullcontext() as rendering:
        claims = [
            readable,
            *policy_claims(folder, plan),
            *(_rendered(folder, plan) if rendering is None else rendering.found()),
            *_audit(folder, plan, planned is None),
            *_other_programs(folder),
        ]
    if all(claim.holds is not False for claim in claims):
        claims.append(not_planned() if planned is None else planned())
    return claims


def _other_programs(folder: Path) -> Iterator[Claim]:
    """A program beside the model, which Python would run in place of a library that the model imports."""
    for place in sorted(folder.iterdir()):
        program = place.suffix in PROGRAMS and place.name != MODEL
        if program or any(place.glob("__init__.*")):
            name = "nothing in the directory is run in place of what the model imports"
            yield Claim(name, False, "nobody knows this program; take it away", str(place), CODE)
            return


def _rendered(folder: Path, plan: Plan) -> Iterator[Claim]:
    """Every file that follows from the plan, made again and compared."""
    try:
        with computed_with():
            files = rendered_files(plan, folder)
    except KernelError as error:
        yield Claim(f"`{CERTIFICATE}` is what the plan gives", False, error.message, error.where, error.code)
        return
    source = plan.policy.source
    shown = sha256(content_of(folder, source.name) or b"") == source.sha256
    for name in (MODEL, STEPS, CERTIFICATE, PAGE, TEXT):
        yield _same(folder, name, files[name], plan) if shown or name not in SHOWING else _unshown(folder, name)
    if plan.compiler != MADE_HERE:
        yield _numbers(folder, files)
        return
    text = files[CERTIFICATE].decode()
    yield from on_demand_claims(folder, read_json(text), read_beside(folder, text))


def _unshown(folder: Path, file: str) -> Claim:
    name = f"`{file}` is what the plan gives"
    return Claim(
        name, None, "not checked: it shows the policy, which is not there as it was compiled", str(folder / file)
    )


def _same(folder: Path, file: str, expected: bytes, plan: Plan) -> Claim:
    name, path = f"`{file}` is what the plan gives", folder / file
    content = content_of(folder, file)
    if content is None:
        return Claim(name, False, "the file is missing or cannot be read", str(path), CODE)
    if content == expected:
        other = other_code(folder) if file == CERTIFICATE else None
        says = "" if other is None else f"; it names {other}, which says the same"
        return Claim(name, True, f"rendered again, equal byte for byte{says}", str(path))
    if file in (MODEL, STEPS) and same_but_for_rounding(content, expected):
        return Claim(name, True, "rendered again, equal but for the last bits of its numbers", str(path))
    if plan.compiler != MADE_HERE:
        return Claim(name, None, f"not checked: made by {plan.compiler}, this is {MADE_HERE}", str(path))
    pairs = zip(content.split(b"\n"), expected.split(b"\n"), strict=False)
    line = next((i for i, (found, wanted) in enumerate(pairs, start=1) if found != wanted), None)
    where = str(path) if line is None else f"{path}: line {line}"
    other = other_code(folder)
    why = "it was altered" if other is None else f"it was altered, or made by {other}"
    return Claim(name, False, f"{why}: rendered again, it differs", where, CODE)


def _numbers(folder: Path, files: dict[str, bytes]) -> Claim:
    """What another version printed, number by number, where its words cannot be made again."""
    name = "the certificate's numbers are the plan's"
    known = promised_numbers(" ".join(files[page].decode() for page in (CERTIFICATE, PAGE, TEXT)))
    for page in (CERTIFICATE, PAGE, TEXT):
        found = (content_of(folder, page) or b"").decode("utf-8", errors="replace")
        other = promised_numbers(found) - known
        if other:
            return Claim(name, False, f"the plan gives no promise of {min(other):f} nats", str(folder / page), CODE)
    try:
        told: Any = read_json(content_of(folder, CERTIFICATE) or b"")
    except ValueError as error:
        return Claim(name, False, str(error), str(folder / CERTIFICATE), CODE)
    place = differing_number(told, read_json(files[CERTIFICATE]))
    if place is not None:
        return Claim(name, False, "the plan gives another number there", f"{folder / CERTIFICATE}: {place}", CODE)
    return Claim(name, True, "every promise in nats, and every number that stands alone", str(folder / CERTIFICATE))


def _audit(folder: Path, plan: Plan, quick: bool) -> Iterator[Claim]:
    try:
        record = read_audit(folder)
    except KernelError as error:
        yield Claim("the empirical audit can be read", False, error.message, error.where, error.code)
        return
    if record is not None:
        today = datetime.now(UTC).date().isoformat()
        yield from audit_claims(plan, record, today, quick=quick)
