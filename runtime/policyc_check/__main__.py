"""Checks a plan with this package alone: `python -m policyc_check PLAN.json`."""

from __future__ import annotations

import sys

from policyc_check.errors import KernelError
from policyc_check.plan.plan import load_plan
from policyc_check.verify import verified_claims


def main(arguments: list[str]) -> int:
    """Prints a line for every claim of a plan, recomputed; 0 when all hold, 1 when one does not, 2 for other use."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m policyc_check PLAN.json\n\nrecomputes every claim that a plan makes of its privacy")
        return 2
    try:
        plan = load_plan(arguments[0])
    except KernelError as error:
        print(f"refused: {error.message} ({error.where}): {error.because}; {error.help}", file=sys.stderr)
        return 1
    claims = list(verified_claims(plan))
    for claim in claims:
        print(f"{'holds' if claim.holds else 'FAILS'}  {claim.name} ({claim.detail})")
    return 0 if all(claim.holds for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
