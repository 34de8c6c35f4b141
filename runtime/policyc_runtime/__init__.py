"""Runs a plan: reads data, draws noise, remembers what was spent, and makes values better after noise.

It knows nothing of the compiler. What a plan promises is checked by `policyc_check`, before anything is drawn.
"""

# Imported at once, not lazily: `verify` and `release` are also the names of modules, and the functions must win.
from policyc_check.errors import KernelError, PlanRejectedError
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.published_values import Release
from policyc_runtime.refusal import verify
from policyc_runtime.release import release

__all__ = ["KernelError", "Plan", "PlanRejectedError", "Release", "load_plan", "release", "verify"]
