"""Of schedules that are compared only the one that is chosen is audited; one that is refused is not planned."""

from __future__ import annotations

import pytest

from policyc import compile_policy
from policyc.diagnostics import PolicyError
from policyc.planning import assemble
from policyc.planning import plan as planning
from policyc.planning.leakage import inheritance
from policyc_check.verify import verified_claims

POLICY = """policy visits "visitors by place"
stream visits {{
  user person
  time at
  cell place in {{"a", "b"}} otherwise "away"
  step 1h
  horizon 12 steps
  population 40
  start "2026-01-01"
}}
release there = count(visits) by place
target alpha_dpt(alpha = 0.5)
correlation markov(
  forward = [[0.96, 0.02, 0.02], [0.02, 0.96, 0.02], [0.02, 0.02, 0.96]], initial = stationary, evidence = "x"
)
budget {budget}
estimate smoother
deliver offline
postprocess there {{ sum(there) == population }}
"""


SPARSE = "sparse(every = 4 steps)"


@pytest.fixture
def policy(request, tmp_path):
    """A policy with a budget; sparse ones have two phases that are compared."""
    path = tmp_path / "visits.policy"
    path.write_text(POLICY.format(budget=request.param))
    return path


@pytest.fixture
def searches(monkeypatch):
    """Whether each search for a plan was one with audits, in order."""
    found, search = [], planning._planned

    def watched(*given, audit):
        found.append(audit)
        return search(*given, audit=audit)

    monkeypatch.setattr(planning, "_planned", watched)
    return found


@pytest.mark.parametrize("policy", [SPARSE, "uniform", "quantified", "optimal", "auto"], indirect=True)
def test_only_the_chosen_one_is_audited(policy, searches, monkeypatch):
    """The plan is the one of a search that audits every schedule, to the byte."""
    plan = compile_policy(policy).plan
    assert all(claim.holds for claim in verified_claims(plan))
    search = planning._planned
    monkeypatch.setattr(planning, "_planned", lambda *given, audit: search(*given, audit=True))
    assert compile_policy(policy).plan.model_dump_json() == plan.model_dump_json()
    assert searches == [False, True]


@pytest.mark.parametrize("policy", [SPARSE, "optimal"], indirect=True)
def test_a_proposal_that_the_audit_refuses_is_not_planned(policy, searches, monkeypatch):
    """Where schedules are proposed with too little leakage, each is audited, and none is left."""
    proposed = inheritance.recursed

    def short(budgets, *given):
        nats, by = proposed(budgets, *given)
        return nats * 0.999, by

    monkeypatch.setattr(inheritance, "recursed", short)
    assemble._accepted.cache_clear()  # what was accepted of the same budgets before is true of them
    with pytest.raises(PolicyError) as refused:
        compile_policy(policy)
    assert searches == [False, True]
    assert [d.code for d in refused.value.diagnostics] == ["E0751"]
    assert refused.value.diagnostics[0].because == "no budget was found that the audit accepts"
