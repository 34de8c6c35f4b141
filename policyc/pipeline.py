"""The passes, in order: text -> tree -> policy -> checked policy -> plan -> files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from policyc.diagnostics import Diagnostic, Source
from policyc.semantics.checked import check_file
from policyc.semantics.policy import Policy
from policyc.syntax.tree import Tree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from policyc_runtime.estimation.signal import SeriesProcess
    from policyc_runtime.plan import Plan


@dataclass(frozen=True)
class Compilation:
    """What every pass produced. `diagnostics` holds the warnings; errors raise instead."""

    path: Path
    source: Source
    tree: Tree
    policy: Policy
    plan: Plan
    diagnostics: tuple[Diagnostic, ...]

    def save(self, directory: str | Path | None = None, account: str | Path | None = None) -> Path:
        """Write plan, model, certificate and the policy; the default directory is the policy's name with `.plan`.

        Args:
            directory: where to write.
            account: that of the data set, in which what the plan will tell is requested, once nothing else refuses.

        Raises:
            KernelError: the directory holds something else, or the ledger of another plan; the account has not so much
                left.
        """
        from policyc.emit import save_plan

        def request() -> None:
            if account is not None:
                from policyc_runtime.account import Account
                from policyc_runtime.account_of_run import require_dataset

                require_dataset(self.plan)
                with Account.open(account) as opened:
                    opened.request(self.plan)

        target = Path(directory) if directory is not None else Path(f"{self.policy.name}.plan")
        return save_plan(target, self.plan, self.path, request)


def compile_policy(path: str | Path) -> Compilation:
    """Compile a policy file into a plan that the kernel has verified.

    Raises:
        PolicyError: the policy has errors, or no plan can keep its promise; says what to write.
    """
    from policyc.planning.plan import make_plan

    source, tree, policy, findings = check_file(path)
    plan, more = make_plan(policy, findings)
    return Compilation(Path(path), source, tree, policy, plan, (*findings, *more))


def declared_signal(path: str | Path, plan: Plan) -> SeriesProcess | NDArray[np.float64] | None:
    """How values of a user-level plan move, as far as its policy says, for a simulation.

    Args:
        path: of the policy, or of a plan's directory, which has a copy of it; None is known of a plan without one.
        plan: of either.

    Raises:
        PolicyError: the copy beside the plan is no policy.
    """
    from policyc.planning.simulated_errors import simulated_signal
    from policyc_check.users.claims import promised_user_level

    file = Path(path)
    folder = file.parent if file.suffix == ".json" else file
    source = folder / plan.policy.source.name if folder.is_dir() else file
    if not promised_user_level(plan) or not source.is_file():
        return None
    return simulated_signal(check_file(source)[2])
