"""The words of the first page that no plan changes, block by block, for HTML and Markdown alike.

Braces are places of values. The sentences that carry a plan's numbers are made beside these, a module a block.
"""

from __future__ import annotations

WORDS = {
    "kind": {"heading": "Privacy certificate"},
    "published": {"heading": "What is published"},
    "promised": {"heading": "What is promised"},
    "glossary": {"heading": "In these words"},
    "not_covered": {"heading": "What is not covered"},
    "assumptions": {
        "heading": "What must stay true",
        "statement": "Assumption",
        "voucher": "Who vouches",
        "failure": "If it fails",
        "vouched": "Vouched for by {who}.",
    },
    "accuracy": {"heading": "How accurate"},
    "again": {"heading": "If it is run again", "noise": "Noise comes from {source}."},
    "signed": {
        "heading": "Who signed",
        "by": "Signed by {who}, on {day}, with the key {key}.",
        "purpose": "Purpose: {purpose}.",
        "claimed": "What is said of the signer, the day and the purpose is what the holder of the key wrote: compare "
        "the key with what the signer told you. `policyc verify` checks the signature.",
        "nobody": "Nobody has signed this certificate (`policyc sign`).",
    },
}
