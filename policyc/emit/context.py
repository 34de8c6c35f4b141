"""The one content of a certificate: plain JSON values, from which every format is rendered.

Everything is computed from the verified plan through the kernel. There is no date in it: the same plan gives the same
bytes.
"""

from __future__ import annotations

from policyc.emit.accounting import Accounting
from policyc.emit.blocks.accuracy import accuracy
from policyc.emit.blocks.assumptions import assumptions
from policyc.emit.blocks.bounds import implied_bounds
from policyc.emit.blocks.correlation import correlation
from policyc.emit.blocks.made import made_blocks
from policyc.emit.blocks.meaning import meaning
from policyc.emit.blocks.mechanism import choice, mechanisms
from policyc.emit.blocks.not_covered import not_covered
from policyc.emit.blocks.operation import checks, integrity, operation, sources
from policyc.emit.blocks.pictures import pictures
from policyc.emit.blocks.postprocessing import postprocessing
from policyc.emit.blocks.product import data, participation, product
from policyc.emit.blocks.promise import promises, sharing
from policyc.emit.blocks.user_level import user_level_blocks
from policyc.emit.blocks.wording import Json, JsonValue, glossary
from policyc_check.users.claims import promised_user_level
from policyc_runtime.plan import Plan

CERTIFICATE_VERSION = "1"


def certificate_content(
    plan: Plan,
    attachments: dict[str, str],
    checked: list[JsonValue] | None = None,
    accounting: Accounting | None = None,
) -> Json:
    """The content of certificate.json.

    Args:
        plan: rendered only when every claim of it holds.
        attachments: SHA-256 of each file that is written beside the certificate, by name.
        checked: what `checks` found to hold of the plan; None to find out here.
        accounting: of the plan, where there is one already.

    Raises:
        PlanRejectedError: a claim of the plan does not hold.
    """
    checked = checks(plan) if checked is None else checked  # first: what does not hold is not rendered
    own = user_level_blocks(plan) if promised_user_level(plan) else _step_blocks(accounting or Accounting(plan))
    content: Json = {
        "format": "policyc-certificate",
        "version": CERTIFICATE_VERSION,
        "product": product(plan),
        **own,
        "words": glossary(plan),
        "meaning": meaning(plan),
        "sharing": sharing(plan),
        "accuracy": accuracy(plan),
        "choice": choice(plan),
        "postprocessing": postprocessing(plan, attachments),
        "made": made_blocks(plan),
        "data": data(plan),
        "operation": operation(plan),
        "notices": [{"code": notice.code, "message": notice.message} for notice in plan.notices],
        "checks": checked,
        "integrity": integrity(plan, attachments),
    }
    return {**content, "sources": sources(content)}


def _step_blocks(accounting: Accounting) -> Json:
    """The blocks of promises about single steps, whose budgets and leakages are accounted step by step."""
    plan = accounting.plan
    return {
        "promises": promises(plan),
        "not_covered": not_covered(plan),
        "assumptions": assumptions(plan),
        "correlation": correlation(accounting),
        "implied_bounds": implied_bounds(accounting),
        "mechanisms": mechanisms(accounting),
        "participation": participation(plan),
        "pictures": pictures(accounting),
    }
