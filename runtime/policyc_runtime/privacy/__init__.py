"""Forward mathematics only: what is lost by a release that was made.

For one step of a user whose states are correlated: chains, loss functions, leakage, and its audit. For all steps of a
user who takes part a limited number of times: participation, and the exact privacy curves of the noise.
"""

from policyc_runtime.privacy.audit import audited_inheritance, audited_loss_bound
from policyc_runtime.privacy.audited_windows import audited_stationary_leakage, audited_total_leakage
from policyc_runtime.privacy.chains import Chain
from policyc_runtime.privacy.discrete_noise import (
    discrete_gaussian_bound,
    discrete_gaussian_profile,
    discrete_gaussian_stddev,
    discrete_laplace_profile,
    discrete_laplace_scale,
)
from policyc_runtime.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_stddev
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
from policyc_runtime.privacy.participation import Participation, changed_counts, l1_sensitivity, l2_sensitivity
from policyc_runtime.privacy.profile import PrivacyProfile, pure_profile
from policyc_runtime.privacy.sides import Side, reversal
from policyc_runtime.privacy.strategies import l2_sensitivity_bound, toeplitz_l2_square, tree_l2_square
from policyc_runtime.privacy.subsampling import (
    StepSample,
    filtered_l2_sensitivity,
    fixed_size_sample,
    poisson_sample,
    stratified_sample,
)

__all__ = [
    "Chain",
    "LossFunction",
    "Participation",
    "PrivacyProfile",
    "Side",
    "StepSample",
    "audited_inheritance",
    "audited_loss_bound",
    "audited_stationary_leakage",
    "audited_total_leakage",
    "backward_leakage",
    "changed_counts",
    "discrete_gaussian_bound",
    "discrete_gaussian_profile",
    "discrete_gaussian_stddev",
    "discrete_laplace_profile",
    "discrete_laplace_scale",
    "filtered_l2_sensitivity",
    "fixed_size_sample",
    "forward_leakage",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_stddev",
    "l1_sensitivity",
    "l2_sensitivity",
    "l2_sensitivity_bound",
    "largest_constant_budget",
    "poisson_sample",
    "pure_profile",
    "reversal",
    "stratified_sample",
    "supremum",
    "toeplitz_l2_square",
    "total_leakage",
    "transition_matrix",
    "tree_l2_square",
    "useful_lags",
    "window_leakage",
]
