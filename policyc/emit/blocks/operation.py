"""How the plan is run, what is known not to be perfect, and which files belong together."""

from __future__ import annotations

from policyc.emit.blocks.mechanism import GENERATOR
from policyc.emit.blocks.wording import Json, JsonValue
from policyc.emit.installed_code import installed_code
from policyc.emit.numbers import exact
from policyc_runtime.ledger_private import PRIVATE
from policyc_runtime.ledger_seal import PIN
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import plan_claims
from policyc_runtime.sources_cited import SOURCES


def operation(plan: Plan) -> Json:
    """Block K."""
    limits: list[JsonValue] = [
        "Leakage is computed in 64-bit floating point, with every rounding against the plan; budgets and scales "
        "are exact.",
        "The time that a run takes, and the memory it uses, may depend on the data; whoever can measure them is "
        "not covered.",
        "Who can read the ledger's directory, or the memory of a run, can see more than what is published.",
        "A copy of the plan's whole directory cannot be told from the directory: a second one that is run, and one "
        "put back from a backup or from a snapshot of the machine, with ledger, seal and pin of the same moment, draw "
        "steps that were published again, and what both publish adds up. Run a plan in one place, leave its directory "
        "out of what is put back, and after a restore bring the newest ledger, seal and pin back before the next run.",
        "Another plan on the same data begins anew: what several ledgers publish of the same data adds up, and no "
        "ledger knows of another.",
        "A run that is refused because of its data tells whoever started it something about the data.",
    ]
    if plan.correlation.chains:
        limits.append("Whether the stated chain is true cannot be seen from the plan.")
    return {
        "ledger": (
            "Every released step is written to an append-only, hash-chained ledger before anything is published. The "
            "ledger knows "
            "the plan by its digest and the data of every step by a keyed fingerprint; it holds no raw values. The "
            f"plan's directory pins it (`{PIN}`): within this directory another ledger, an older copy of the ledger or "
            "an altered one is refused before noise is drawn; what is not seen is a copy of the whole directory, as "
            "the known limits say."
        ),
        "private": (
            f"The folder `{PRIVATE}/` beside the ledger holds what only the owner of the data may see: the key of the "
            "fingerprints, what runs on new rows keep of earlier ones, and what a participation bound cut. Everything "
            "that this certificate claims can be verified without that folder; do not hand it on."
        ),
        "rerun": "A step is released at most once. Running again gives the stored values and draws no new noise.",
        "refunds": "Nothing is ever given back after noise was drawn.",
        "randomness": GENERATOR,
        "known_limits": limits,
    }


def checks(plan: Plan) -> list[JsonValue]:
    """What the kernel recomputed from the plan while this certificate was written; every line was found to hold.

    Raises:
        PlanRejectedError: a claim does not hold; there is no certificate for such a plan.
    """
    from policyc_check.errors import PlanRejectedError

    entries: list[JsonValue] = []
    for claim in plan_claims(plan):
        if claim.holds is False:
            raise PlanRejectedError(
                claim.code, f"plan refused: {claim.detail}", where=claim.where, because=f"the plan claims: {claim.name}"
            )
        if claim.holds:
            entries.append(claim.name)
    return entries


def integrity(plan: Plan, attachments: dict[str, str]) -> Json:
    """Block M."""
    source = plan.policy.source
    recorded = {source.name: source.sha256, **{file.name: file.sha256 for file in plan.policy.files}}
    files: list[JsonValue] = [
        {"name": name, "sha256": sha, "what": _what(plan, name)} for name, sha in recorded.items()
    ]
    for name, sha in sorted(attachments.items()):
        files.append({"name": name, "sha256": sha, "what": _attached(plan, name)})
    return {
        "compiler": plan.compiler,
        "code_sha256": installed_code(),
        "plan_digest": plan.digest,
        "claims": {
            **{
                name: None if value is None else exact(value)
                for name, value in plan.claims
                if name not in ("windows", "inherited", "witnesses", "user_level")
            },
            **{f"{claim.kind}_of_{claim.window}_steps": exact(claim.nats) for claim in plan.claims.windows},
        },
        "user_level_claims": [claim.model_dump(mode="json") for claim in plan.claims.user_level],
        "files": files,
    }


def sources(content: Json) -> Json:
    """What the source keys that occur in a content stand for."""
    keys: set[str] = set()
    waiting: list[JsonValue] = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
            found = value.get("sources")
            keys |= {str(key) for key in found} if isinstance(found, list) else set()
        elif isinstance(value, list):
            waiting += value
    return {key: SOURCES[key] for key in sorted(keys)}


ATTACHED = {
    "map_model.py": "the post-processing as a model that runs on its own",
    "plan.json": "the plan that is run",
}


def _attached(plan: Plan, name: str) -> str:
    if name == "steps.csv":
        return "budget, noise and leakage of every step" if plan.scheduled else "noise of every step"
    return ATTACHED.get(name, "attached")


def _what(plan: Plan, name: str) -> str:
    return "the policy" if name == plan.policy.source.name else "read by the policy"
