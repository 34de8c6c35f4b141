"""A plan whose claims were found to hold says nothing of another one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from policyc.pipeline import Compilation
from policyc_check.errors import PlanRejectedError
from policyc_runtime import refusal
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import plan_claims, verify


def test_claims_that_held_are_those_of_that_plan_alone(
    compiled_gallery: Callable[[str], Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An equal plan has the same claims, once computed; one that differs in a number is checked, and refused."""
    plan = compiled_gallery("departures").plan
    claims, asked, check = list(plan_claims(plan)), [], refusal.verified_claims
    monkeypatch.setattr(refusal, "verified_claims", lambda given: asked.append(1) or check(given))
    assert list(plan_claims(Plan.model_validate_json(plan.to_json()))) == claims
    assert not asked
    content = json.loads(plan.to_json())
    mechanism = content["releases"][0]["mechanism"]
    (noise,) = {"stddev", "scale"} & mechanism.keys()
    mechanism[noise] = str(float(mechanism[noise]) * 0.99)
    altered = Plan.model_validate_json(json.dumps(content))
    with pytest.raises(PlanRejectedError):
        verify(altered)
    assert asked
    with pytest.raises(PlanRejectedError):  # what fails is not kept
        verify(altered)
    verify(plan)
