"""Which published values are left out, as a policy says it."""

from __future__ import annotations

from policyc_check.records import PositiveDecimal, Record, Steps


class SuppressionRule(Record):
    """Values below a threshold are left out, in published units. `text` and `line` are the policy's."""

    text: str
    line: Steps
    below: PositiveDecimal
