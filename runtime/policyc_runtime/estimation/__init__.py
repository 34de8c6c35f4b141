"""What is done to noisy values before they are published: one estimator a file, found by being here.

All of this is post-processing: it sees released values and public constants only, and costs no privacy.
"""

from policyc_runtime.estimation.constraints import ConstraintSet
from policyc_runtime.estimation.estimator import AnyEstimator, Estimator, estimator_kinds, every_estimator, twins
from policyc_runtime.estimation.map import map_counts

__all__ = [
    "AnyEstimator",
    "ConstraintSet",
    "Estimator",
    "estimator_kinds",
    "every_estimator",
    "map_counts",
    "twins",
]
