"""The promise that all plans on one data set keep together, as a policy would write it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from policyc.diagnostics import Diagnostic, PolicyError, Source, Span
from policyc.diagnostics.diagnostic import Severity
from policyc.planning.draft import target_record
from policyc.semantics.rules.delta import check_delta
from policyc.semantics.scope import Scope
from policyc.semantics.statements import resolve_target
from policyc.semantics.targets import AlphaDPTTarget, EventLevelTarget, WEventTarget
from policyc.syntax import parse_policy
from policyc.syntax.tree import CallStatement
from policyc_runtime.account_bound import Bound


def joint_promise(dataset: str, text: str) -> Bound:
    """What an account holds its plans to.

    Args:
        dataset: its name, as policies name it.
        text: a target without its keyword, such as `event_level(epsilon = 1.0)`.

    Raises:
        PolicyError: it is no target, or one that does not add up over plans.
    """
    source = Source("--promise", f"target {text}\n")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", dataset):
        named = Source("--dataset", dataset)
        message = "a data set has a name of letters, digits and `_`"
        raise PolicyError(named, [Diagnostic("E0103", message, Span(0, len(dataset)), help="write `city_trips`, say")])
    tree = parse_policy(source)
    scope = Scope(source, Path(), None)
    target = resolve_target(scope, cast(CallStatement, tree.statements[0]))
    if target is not None and not isinstance(target, AlphaDPTTarget):
        found = check_delta(target, None)
        scope.findings.extend(finding for finding in found if finding.severity is Severity.ERROR)
    if target is None or scope.findings:
        raise PolicyError(source, scope.findings)
    if len(tree.statements) > 1 or isinstance(target, AlphaDPTTarget):
        alone = "an account has one promise" if len(tree.statements) > 1 else "leakage through a chain does not add up"
        raise PolicyError(
            source,
            [
                Diagnostic(
                    "E0896",
                    f"{alone}",
                    tree.statements[-1].span,
                    because="all plans see the same moves of a user, so that what leaks of them together is more than "
                    "the sum, and follows from all budgets of a step",
                    help="write `event_level(epsilon = ...)` or `w_event(...)`, which hold budgets; to promise "
                    "`alpha_dpt` of several series, write them as releases of one policy",
                )
            ],
        )
    if isinstance(target, EventLevelTarget | WEventTarget) and (target.delta or target.neighbors == "add_remove"):
        raise PolicyError(
            source,
            [
                Diagnostic(
                    "E0896",
                    "an account's promise about steps has neither a delta nor neighbors of its own",
                    tree.statements[0].span,
                    because="budgets add up to what is told about any two values of a step, and nothing is left to "
                    "chance",
                    help="leave them out, or promise `user_level(epsilon = ..., delta = ..., neighbors = ...)`",
                )
            ],
        )
    return Bound(dataset=dataset, promise=target_record(target))  # type: ignore[arg-type]  # one of the others
