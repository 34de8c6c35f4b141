"""From the verified plan to files: plan, model, steps and certificate; and back: are these files what the plan gives.

One content (`context.py`, made of `blocks/`) feeds every format; templates do no arithmetic.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policyc_runtime.claims import Claim
    from policyc_runtime.plan import Plan


def save_plan(directory: Path, plan: Plan, policy_path: Path) -> Path:
    """Write a plan's directory, with the policy and the files it names.

    Raises:
        KernelError: the directory holds something else, or the ledger of another plan; or the policy changed meanwhile.
    """
    from policyc.emit.directory import save, sha256
    from policyc.emit.map_model import render_map_model
    from policyc_runtime.errors import KernelError

    contents: dict[str, bytes] = {}
    for file in (plan.policy.source, *plan.policy.files):
        path = policy_path if file is plan.policy.source else policy_path.parent / file.name
        contents[file.name] = path.read_bytes()
        if sha256(contents[file.name]) != file.sha256:
            message = "a file changed while the policy was compiled"
            raise KernelError("E0803", message, where=str(path), help="compile again")
    text = contents.pop(plan.policy.source.name)
    return save(directory, plan, text, contents, render_map_model(plan))


def verify_directory(directory: str | Path) -> list[Claim]:
    """One claim for every file that `compile` wrote."""
    from policyc.emit.audit import verify_directory as verify_files

    return verify_files(directory)


def require_unchanged(directory: str | Path, plan: Plan) -> None:
    """Refuse to run a plan whose policy, or a file it read, changed since: PlanRejectedError."""
    from policyc.emit.audit import require_unchanged as require

    require(directory, plan)


__all__ = ["require_unchanged", "save_plan", "verify_directory"]
