"""How noise is added: one mechanism a file, found by being here. `mechanism.py` says what each must be able to do."""

from policyc_check.mechanisms.mechanism import Derived, Mechanism
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms.any_mechanism import Accounted, AnyMechanism, BudgetMechanism
from policyc_runtime.mechanisms.mechanism import (
    StepMechanism,
    StepRecord,
    StreamMechanism,
    mechanism_kinds,
    stream_mechanism_kinds,
)
from policyc_runtime.mechanisms.window_mechanism import WindowMechanism, still_error, window_mechanism_kinds

__all__ = [
    "Accounted",
    "AnyMechanism",
    "BudgetMechanism",
    "Derived",
    "Mechanism",
    "Setting",
    "StepMechanism",
    "StepRecord",
    "StreamMechanism",
    "WindowMechanism",
    "mechanism_kinds",
    "still_error",
    "stream_mechanism_kinds",
    "window_mechanism_kinds",
]
