"""The reference page: budgets, mechanisms and estimators from the offers, findings from their own pages."""

from __future__ import annotations

from policyc.diagnostics.pages import all_codes
from policyc.diagnostics.pages import read_page as read_finding
from policyc.offers.reference import reference as offers_reference

KINDS = {"E": "error", "W": "warning"}


def reference() -> str:
    """All that a policy can name, and every finding, as Markdown."""
    rows = "".join(f"| `{code}` | {KINDS[code[0]]} | {_title(code)} |\n" for code in all_codes())
    return (
        "# Reference\n\n"
        "Budgets, mechanisms and estimators that a policy may name. `auto`, or none, leaves the choice to the "
        "compiler, which shows what it compared.\n\n"
        f"{offers_reference()}\n"
        "## Findings\n\n"
        "`policyc explain CODE` is the long form of each: why it is refused, a failing and a corrected example.\n\n"
        f"| code | kind | what it says |\n| --- | --- | --- |\n{rows}"
    )


def _title(code: str) -> str:
    """The title of a finding's page, after its code."""
    first = read_finding(code).splitlines()[0]
    return first.partition(": ")[2].replace("|", "\\|")
