"""What a schedule of budgets leaks about one step of a user whose states are correlated: forward mathematics only."""

from policyc_runtime.privacy.audit import (
    audited_inheritance,
    audited_loss_bound,
    audited_stationary_leakage,
    audited_total_leakage,
)
from policyc_runtime.privacy.chains import Chain
from policyc_runtime.privacy.lags import useful_lags
from policyc_runtime.privacy.leakage import (
    backward_leakage,
    forward_leakage,
    largest_constant_budget,
    supremum,
    total_leakage,
    window_leakage,
)
from policyc_runtime.privacy.loss import LossFunction, transition_matrix
from policyc_runtime.privacy.sides import Side, reversal

__all__ = [
    "Chain",
    "LossFunction",
    "Side",
    "audited_inheritance",
    "audited_loss_bound",
    "audited_stationary_leakage",
    "audited_total_leakage",
    "backward_leakage",
    "forward_leakage",
    "largest_constant_budget",
    "reversal",
    "supremum",
    "total_leakage",
    "transition_matrix",
    "useful_lags",
    "window_leakage",
]
