"""policyc: a compiler for privacy policies.

`compile_policy(path)` reads one page and gives a `Compilation`: an executable plan that the kernel has verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policyc.version import __version__

if TYPE_CHECKING:
    from policyc.diagnostics import PolicyError
    from policyc.pipeline import Compilation, compile_policy

__all__ = ["Compilation", "PolicyError", "__version__", "compile_policy"]


def __getattr__(name: str) -> Any:
    # Imported when asked for: `policyc --help` must not wait for arrays and solvers.
    if name == "PolicyError":
        from policyc.diagnostics import PolicyError

        return PolicyError
    if name in {"Compilation", "compile_policy"}:
        from policyc import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
