"""A mechanism of a plan, whatever its kind."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, SerializeAsAny

from policyc_check.mechanisms.any_mechanism import loader
from policyc_check.mechanisms.mechanism import Mechanism
from policyc_runtime.mechanisms.mechanism import StepMechanism, mechanism_kinds, stream_mechanism_kinds
from policyc_runtime.mechanisms.window_mechanism import WindowMechanism, window_mechanism_kinds

Budgeted = StepMechanism | WindowMechanism
"""Mechanisms whose steps have budgets: a plan gives them a schedule."""


AnyMechanism = SerializeAsAny[
    Annotated[Mechanism, BeforeValidator(loader(mechanism_kinds, stream_mechanism_kinds, window_mechanism_kinds))]
]
