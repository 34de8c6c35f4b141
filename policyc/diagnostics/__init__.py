"""Findings about a policy: data first, text derived from it.

A leaf: it imports nothing of the compiler. Codes are the pages in `pages/`; a code without a page does not exist.
"""

from policyc.diagnostics.diagnostic import Diagnostic, Edit, Label, PolicyError, Severity
from policyc.diagnostics.source import Source, Span

__all__ = ["Diagnostic", "Edit", "Label", "PolicyError", "Severity", "Source", "Span"]
