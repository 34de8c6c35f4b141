"""What is asked of a resolved policy, one module a group of questions.

Every rule takes the policy and yields findings; the pages in `policyc/diagnostics/pages` are the list of codes.
`utility` is not among them: what it asks can be answered only after planning, and the planner calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from policyc.diagnostics import Diagnostic
from policyc.semantics.policy import Policy
from policyc.semantics.rules.absent import check_absent
from policyc.semantics.rules.agreement import check_agreements
from policyc.semantics.rules.belief import check_belief
from policyc.semantics.rules.cells import check_cells
from policyc.semantics.rules.clock import check_clock
from policyc.semantics.rules.correlation import check_correlation
from policyc.semantics.rules.delivery import check_delivery
from policyc.semantics.rules.made import check_made
from policyc.semantics.rules.names import check_names
from policyc.semantics.rules.noise import check_noise
from policyc.semantics.rules.objective import check_objective
from policyc.semantics.rules.participation import check_participation
from policyc.semantics.rules.parts import check_parts
from policyc.semantics.rules.period import check_periods
from policyc.semantics.rules.planned import check_planned
from policyc.semantics.rules.postprocess import check_postprocess
from policyc.semantics.rules.release import check_releases
from policyc.semantics.rules.signal import check_signal
from policyc.semantics.rules.suppression import check_suppression
from policyc.semantics.rules.target import check_targets

RULES: tuple[Callable[[Policy], Iterator[Diagnostic]], ...] = (
    check_targets,
    check_correlation,
    check_participation,
    check_periods,
    check_clock,
    check_cells,
    check_absent,
    check_parts,
    check_objective,
    check_releases,
    check_made,
    check_postprocess,
    check_agreements,
    check_suppression,
    check_delivery,
    check_noise,
    check_belief,
    check_signal,
    check_names,
    check_planned,
)


def check_policy(policy: Policy) -> list[Diagnostic]:
    """Every finding about a resolved policy, in source order."""
    findings = [finding for rule in RULES for finding in rule(policy)]
    return sorted(findings, key=lambda d: (d.span.start, d.span.end, d.code))
