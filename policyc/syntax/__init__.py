"""Text to tree and back.

`read_source` opens a file, `parse_policy` gives its tree or every finding at once, `format_policy` prints a tree in its
canonical form. The only import of lark in the compiler; the grammar itself is the package `policyc_grammar`.
"""

from __future__ import annotations

from policyc.syntax.format import format_policy
from policyc.syntax.parse import parse_policy
from policyc.syntax.read import read_source

__all__ = ["format_policy", "parse_policy", "read_source"]
