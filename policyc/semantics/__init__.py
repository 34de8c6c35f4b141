"""The meaning of a policy: `resolve_policy` gives a tree its meaning, `check_policy` says what is wrong with it.

Resolving looks up names, converts units and reads the files that a policy names; its findings are about words
(E02), and about matrices and constraints that mean nothing as written (E04, E06). Checking asks what the promise is
worth: each module of `rules` holds one group of questions about a resolved policy.
"""

from policyc.semantics.resolve import resolve_policy
from policyc.semantics.rules import check_policy

__all__ = ["check_policy", "resolve_policy"]
