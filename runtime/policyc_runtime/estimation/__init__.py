"""What is done to noisy values before they are published: one estimator a file, found by being here.

All of this is post-processing: it sees released values and public constants only, and costs no privacy.
"""

from policyc_runtime.estimation.estimator import AnyEstimator, Estimator, estimator_kinds

__all__ = ["AnyEstimator", "Estimator", "estimator_kinds"]
