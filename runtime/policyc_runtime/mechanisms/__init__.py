"""How noise is added: one mechanism a file, found by being here."""

from policyc_runtime.mechanisms.mechanism import AnyMechanism, Mechanism, mechanism_kinds

__all__ = ["AnyMechanism", "Mechanism", "mechanism_kinds"]
