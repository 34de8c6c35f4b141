"""The policy that lies beside a plan is the one that was compiled, and resolved again it says what the plan says.

Every run asks this first, so nothing that renders or plans is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from policyc.diagnostics import PolicyError
from policyc.emit.installed_code import installed_code
from policyc.emit.numbers import counted
from policyc.emit.stored_files import content_of, recorded, sha256
from policyc.planning.declaration import differences, known_clock, shown
from policyc.semantics.checked import check_file
from policyc.version import __version__
from policyc_check.claims import Claim
from policyc_check.errors import PlanRejectedError
from policyc_check.plan.stream import ClockRecord
from policyc_runtime.plan import PLAN, Plan

CODE, NOT_THE_POLICY = "E0803", "E0855"
MADE_HERE = f"policyc {__version__}"


def require_unchanged(directory: str | Path, plan: Plan) -> None:
    """The policy and the files it read lie beside the plan as they were compiled, and say what the plan promises.

    Raises:
        PlanRejectedError: E0803, naming the first file that changed; E0855, the plan is not of this policy.
    """
    for claim in policy_claims(Path(directory), plan):
        if claim.holds is False:
            changed = claim.code == CODE
            raise PlanRejectedError(
                claim.code,
                "a file of the plan changed after it was compiled" if changed else "the plan is not of its policy",
                where=claim.where,
                because=claim.detail,
                help="put the file back, or compile the policy again into another directory",
            )


def policy_claims(folder: Path, plan: Plan) -> Iterator[Claim]:
    """The policy and its files are those that were compiled, and resolved again they say what the plan says."""
    source, read = plan.policy.source, plan.policy.files
    hashed = [_hashed(folder, source.name, "is the policy that was compiled", source.sha256)]
    hashed += [_hashed(folder, file.name, "is the file that the policy read", file.sha256) for file in read]
    yield from hashed
    if all(claim.holds for claim in hashed):
        yield _resolved(folder, plan)
        if plan.stream.clock is not None:
            yield _clock(folder, plan, plan.stream.clock)


def _resolved(folder: Path, plan: Plan) -> Claim:
    name = "the plan promises and assumes what its policy says"
    place = folder / plan.policy.source.name
    try:
        _, _, policy, findings = check_file(place, known_clock(plan))
        found = next(differences(policy, findings, plan), None)
    except PolicyError as error:
        if plan.compiler != MADE_HERE:
            return Claim(name, None, f"not checked: {MADE_HERE} does not read a policy of {plan.compiler}", str(place))
        return Claim(
            name, False, f"the policy has findings: {error.diagnostics[0].message}", str(place), NOT_THE_POLICY
        )
    if found is None:
        return Claim(name, True, "the policy was resolved again and compared with the plan", str(place))
    maker = other_maker(folder, plan)
    if maker is not None and found.place.startswith("notices"):  # compared last: all but words of warnings is the same
        return Claim(name, None, f"not checked: this code words its warnings otherwise than {maker}", str(place))
    said, planned = (shown(value) for value in (found.policy, found.plan))
    return Claim(
        name, False, f"the policy says {said}, the plan {planned}", f"{folder / PLAN}: {found.place}", NOT_THE_POLICY
    )


def _clock(folder: Path, plan: Plan, clock: ClockRecord) -> Claim:
    """How the clock of the plan goes by the zone rules of this machine; those of the plan count, as rules change."""
    name = f"the clock of {clock.zone} goes as this machine knows it"
    where = f"{folder / PLAN}: stream.clock"
    try:
        here = check_file(folder / plan.policy.source.name)[2].stream.clock
    except PolicyError as error:
        return Claim(name, None, f"not checked: {error.diagnostics[0].message}", where)
    said = () if here is None else (*here.changes, (here.end, 0))
    differ = {*said} ^ {*clock.changes, (clock.end, 0)}
    if not differ:
        return Claim(name, True, f"{counted(len(clock.changes) - 1, 'change')} compared", where)
    first = datetime.fromtimestamp(min(differ)[0], UTC).date()
    return Claim(name, None, f"not checked: here it goes otherwise from {first} on; what the plan says counts", where)


def _hashed(folder: Path, file: str, what: str, compiled: str) -> Claim:
    name, path = f"`{Path(file).name}` {what}", folder / file
    content = content_of(folder, file)
    if content is None:
        return Claim(name, False, "the file is missing or cannot be read", str(path), CODE)
    found = sha256(content)
    if found == compiled:
        return Claim(name, True, f"sha256 {found[:16]}…", str(path))
    return Claim(name, False, f"sha256 is {found[:16]}…, recorded is {compiled[:16]}…", str(path), CODE)


def other_maker(folder: Path, plan: Plan) -> str | None:
    """What is said to have made a plan, in words; None for the code that is here."""
    return plan.compiler if plan.compiler != MADE_HERE else other_code(folder)


def other_code(folder: Path) -> str | None:
    """The code that a certificate names, in words; None when it is this one, or none is named."""
    named, here = recorded(folder, "integrity", "code_sha256"), installed_code()
    if not isinstance(named, str) or named == here:
        return None
    return f"other code of policyc (sha256 {named[:16]}…, this is {here[:16]}…)"
