"""A plan whose claims were found to hold says nothing of another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

import pytest

from policyc.pipeline import Compilation
from policyc_check.errors import PlanRejectedError
from policyc_runtime import refusal
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import plan_claims, verify


def test_claims_that_held_are_those_of_that_plan_alone(
    compiled_gallery: Callable[[str], Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same text has the same claims, once computed; any other is checked: a number less, or written otherwise."""
    plan = compiled_gallery("departures").plan
    claims, asked, check = list(plan_claims(plan)), [], refusal.verified_claims
    monkeypatch.setattr(refusal, "verified_claims", lambda given: asked.append(1) or check(given))
    assert list(plan_claims(Plan.model_validate_json(plan.to_json()))) == claims
    assert not asked

    def with_noise(change: Callable[[str], str]) -> Plan:
        content = json.loads(plan.to_json())
        mechanism = content["releases"][0]["mechanism"]
        (noise,) = {"stddev", "scale"} & mechanism.keys()
        mechanism[noise] = change(mechanism[noise])
        return Plan.model_validate_json(json.dumps(content))

    less, equal = with_noise(lambda text: str(float(text) * 0.99)), with_noise(lambda text: f"{text}0")
    assert equal == plan  # 4.0 is 4.00, and the digest is of the text
    for other in (less, less, equal, plan.model_copy(update={"stream": plan.stream.model_copy(update={"horizon": 1})})):
        with pytest.raises(PlanRejectedError):
            verify(other)
    assert len(asked) == 4
    verify(plan)
    copied = Plan.model_validate_json(plan.to_json())
    verify(copied)
    vars(copied.targets[0])["epsilon"] = Decimal("0.001")  # nobody may, and who does is found out
    with pytest.raises(PlanRejectedError):
        verify(copied)
