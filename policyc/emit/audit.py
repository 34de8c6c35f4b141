"""Checks the files of a plan directory against each other and against the plan."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from policyc.emit.beside import read_beside
from policyc.emit.directory import (
    ATTACHED,
    PAGE,
    PLAN,
    STEPS,
    TEXT,
    recorded_example,
    rendered_certificate,
    sha256,
    stored_name,
)
from policyc.emit.on_demand import on_demand_claims
from policyc.emit.signatures import CERTIFICATE
from policyc.emit.steps import render_steps, step_rows
from policyc.version import __version__
from policyc_runtime.claims import Claim
from policyc_runtime.empirical import audit_claims, read_audit
from policyc_runtime.errors import KernelError, PlanRejectedError
from policyc_runtime.plan import Plan, load_plan

CODE = "E0803"
STEP_TOLERANCE = 1e-12  # the last bits of a logarithm differ from machine to machine


def verify_directory(directory: str | Path) -> list[Claim]:
    """One claim for every file that `compile` wrote; none raises, and what could not be checked says so."""
    folder = Path(directory)
    try:
        plan = load_plan(folder)
    except KernelError as error:
        detail = f"{error.message}: {error.because}" if error.because else error.message
        return [Claim("the plan can be read", False, detail, error.where, error.code)]
    readable = Claim("the plan can be read", True, f"plan {plan.digest[:16]}…", PLAN)
    return [
        readable,
        *_policy_files(folder, plan),
        *_attached_files(folder),
        *_certificate(folder, plan),
        *_audit(folder, plan),
    ]


def require_unchanged(directory: str | Path, plan: Plan) -> None:
    """The policy and the files it read lie beside the plan as they were compiled.

    Raises:
        PlanRejectedError: E0803, naming the first file that changed.
    """
    for claim in _policy_files(Path(directory), plan):
        if claim.holds is False:
            raise PlanRejectedError(
                claim.code,
                "a file of the plan changed after it was compiled",
                where=claim.where,
                because=claim.detail,
                help="put the file back, or compile the policy again into another directory",
            )


def _policy_files(folder: Path, plan: Plan) -> Iterator[Claim]:
    source = plan.policy.source
    yield _hashed(folder / stored_name(source.name), "is the policy that was compiled", source.sha256)
    for file in plan.policy.files:
        yield _hashed(folder / stored_name(file.name), "is the file that the policy read", file.sha256)


def _hashed(path: Path, what: str, recorded: str) -> Claim:
    name = f"`{path.name}` {what}"
    content = _read(path)
    if content is None:
        return Claim(name, False, "the file is missing or cannot be read", str(path), CODE)
    found = sha256(content)
    if found == recorded:
        return Claim(name, True, f"sha256 {found[:16]}…", str(path))
    return Claim(name, False, f"sha256 is {found[:16]}…, recorded is {recorded[:16]}…", str(path), CODE)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _recorded(folder: Path) -> dict[str, str] | None:
    """The hashes that the certificate records, by file name; None when there is no such certificate."""
    try:
        content: Any = json.loads((folder / CERTIFICATE).read_bytes())
        return {str(file["name"]): str(file["sha256"]) for file in content["integrity"]["files"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _attached_files(folder: Path) -> Iterator[Claim]:
    recorded = _recorded(folder)
    for name in ATTACHED:
        if recorded is None or name not in recorded:
            what = f"`{name}` is the file that the certificate records"
            yield Claim(what, False, "the certificate records no such file", str(folder / CERTIFICATE), CODE)
        else:
            yield _hashed(folder / name, "is the file that the certificate records", recorded[name])


def _certificate(folder: Path, plan: Plan) -> Iterator[Claim]:
    made_here = f"policyc {__version__}"
    steps = f"`{STEPS}` is what the plan gives"
    rendered = {name: f"`{name}` is what the plan gives" for name in (CERTIFICATE, PAGE, TEXT)}
    if plan.compiler != made_here:
        detail = f"not checked: made by {plan.compiler}, this is {made_here}"
        for name, claim in rendered.items():
            yield Claim(claim, None, detail, str(folder / name))
        return
    attachments = {name: sha for name, sha in (_recorded(folder) or {}).items() if name in ATTACHED}
    try:
        files = rendered_certificate(plan, attachments, folder, recorded_example(folder))
        table = render_steps(step_rows(plan), "csv")
    except KernelError as error:
        yield Claim(rendered[CERTIFICATE], False, error.message, error.where, error.code)
        return
    yield _same_steps(folder / STEPS, steps, table)
    for name, content in files.items():
        yield _same(folder / name, rendered[name], content)
    text = files[CERTIFICATE].decode()
    yield from on_demand_claims(folder, json.loads(text), read_beside(folder, text))


def _audit(folder: Path, plan: Plan) -> Iterator[Claim]:
    try:
        record = read_audit(folder)
    except KernelError as error:
        yield Claim("the empirical audit can be read", False, error.message, error.where, error.code)
        return
    if record is not None:
        yield from audit_claims(plan, record)


def _same(path: Path, name: str, expected: bytes) -> Claim:
    content = _read(path)
    if content == expected:
        return Claim(name, True, "rendered again, equal byte for byte", str(path))
    if content is None:
        return Claim(name, False, "the file is missing or cannot be read", str(path), CODE)
    pairs = zip(content.split(b"\n"), expected.split(b"\n"), strict=False)
    line = next((i for i, (found, wanted) in enumerate(pairs, start=1) if found != wanted), None)
    where = str(path) if line is None else f"{path}: line {line}"
    return Claim(name, False, "it was altered: rendered again, it differs", where, CODE)


def _same_steps(path: Path, name: str, expected: str) -> Claim:
    """Budgets and scales as text; leakages and errors as numbers, to a relative 1e-12."""
    content = _read(path)
    if content is None:
        return Claim(name, False, "the file is missing or cannot be read", str(path), CODE)
    if content == expected.encode():
        return Claim(name, True, "recomputed, equal", str(path))
    found = list(csv.reader(io.StringIO(content.decode("utf-8", errors="replace"))))
    wanted = list(csv.reader(io.StringIO(expected)))
    if len(found) != len(wanted):
        return Claim(name, False, f"{len(found):,} lines, there should be {len(wanted):,}", str(path), CODE)
    for line, (left, right) in enumerate(zip(found, wanted, strict=True), start=1):
        if len(left) != len(right) or not all(map(_close, left, right)):
            return Claim(name, False, "recomputed, it differs", f"{path}: line {line}", CODE)
    return Claim(name, True, "recomputed, equal within the last bits", str(path))


def _close(found: str, wanted: str) -> bool:
    if found == wanted:
        return True
    try:
        return math.isclose(float(found), float(wanted), rel_tol=STEP_TOLERANCE)
    except ValueError:
        return False
