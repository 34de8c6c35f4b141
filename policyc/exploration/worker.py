"""Plans policies in a process of its own: a line of JSON in, a line of JSON out, until there are no more.

A process can be ended when the time is over, and what one plan takes in memory is gone with it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from policyc.diagnostics import Diagnostic, PolicyError, Severity, Source


def outcome(text: str, name: str, folder: Path) -> dict[str, Any]:
    """What compiling a policy's text says: the errors of its releases, or why it is refused.

    Args:
        text: of the policy.
        name: how messages name it.
        folder: of the files that it names.
    """
    from policyc.planning.plan import make_plan
    from policyc.semantics.checked import check_source

    source = Source(name, text, hashlib.sha256(text.encode()).hexdigest())
    try:
        _, policy, findings = check_source(source, folder)
        plan, more = make_plan(policy, findings)
    except PolicyError as error:
        first = next((d for d in error.diagnostics if d.severity is Severity.ERROR), error.diagnostics[0])
        return {"refused": _told(first), "releases": [], "warnings": []}
    return {"refused": None, "releases": [*_releases(plan)], "warnings": [_told(d) for d in (*findings, *more)]}


def _told(finding: Diagnostic) -> dict[str, str]:
    return {"code": finding.code, "message": finding.message, "help": finding.help or ""}


def _releases(plan: Any) -> Any:
    from policyc.emit.blocks.accuracy import typical_error, unit_words

    for release in plan.releases:
        predicted = release.predicted
        noise = predicted.without_postprocessing
        yield {
            "name": release.name,
            "unit": unit_words(plan, release),
            "error": predicted.published,
            "off": math.sqrt(predicted.published) if plan.objective == "mean_squared_error" else predicted.published,
            "typical": typical_error(plan, predicted.published),
            "kind": predicted.kind,
            "words": predicted.least or ("noise alone " if predicted.kind == "noise" else ""),
            "noise": None if noise is None else typical_error(plan, noise),
            "mechanism": release.mechanism.described(),
            "estimator": release.estimator.described(),
        }


def main() -> None:
    """Answer every line of standard input; what libraries print goes nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            found = outcome(asked["text"], asked["name"], Path(asked["folder"]))
        except Exception as error:  # a fault of the compiler's in one policy leaves the others as they are
            told = {"code": "", "message": f"internal error: {type(error).__name__}", "help": ""}
            found = {"refused": told, "releases": [], "warnings": []}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
