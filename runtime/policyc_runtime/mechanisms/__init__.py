"""How noise is added: one mechanism a file, found by being here. `mechanism.py` says what each must be able to do."""

from policyc_runtime.mechanisms.mechanism import (
    AnyMechanism,
    Derived,
    Mechanism,
    Options,
    StepMechanism,
    StepRecord,
    StreamMechanism,
    mechanism_kinds,
    stream_mechanism_kinds,
)
from policyc_runtime.mechanisms.setting import Setting

__all__ = [
    "AnyMechanism",
    "Derived",
    "Mechanism",
    "Options",
    "Setting",
    "StepMechanism",
    "StepRecord",
    "StreamMechanism",
    "mechanism_kinds",
    "stream_mechanism_kinds",
]
