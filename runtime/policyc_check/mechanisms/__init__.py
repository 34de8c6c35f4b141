"""What each mechanism measures, and what that tells about one user: one mechanism a file, found by being here."""

from policyc_check.mechanisms.any_mechanism import AnyMechanism, Budgeted
from policyc_check.mechanisms.mechanism import Derived, Mechanism, StepMechanism, StreamMechanism
from policyc_check.mechanisms.window_mechanism import WindowMechanism

__all__ = ["AnyMechanism", "Budgeted", "Derived", "Mechanism", "StepMechanism", "StreamMechanism", "WindowMechanism"]
