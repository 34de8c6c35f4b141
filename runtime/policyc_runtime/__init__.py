"""The trusted kernel: checks a plan, runs it, and remembers what was spent.

It knows nothing of the compiler. What an auditor must believe is in this package alone.
"""

# Imported at once, not lazily: `verify` and `release` are also the names of modules, and the functions must win.
from policyc_runtime.errors import KernelError, PlanRejectedError
from policyc_runtime.output import Release
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.release import release
from policyc_runtime.verify import verify

__all__ = ["KernelError", "Plan", "PlanRejectedError", "Release", "load_plan", "release", "verify"]
