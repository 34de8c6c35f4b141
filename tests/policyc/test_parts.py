"""Parts of a promise that the policy gives its releases."""

from __future__ import annotations

from fractions import Fraction

import pytest

from policyc import PolicyError, compile_policy
from policyc.emit import require_unchanged
from policyc_check.errors import PlanRejectedError
from policyc_check.users.claims import setting_of
from policyc_runtime.refusal import verify

MOBILITY = """policy mobility "Visits to public places"
stream visits {
  user account
  time arrived_at
  cell place in {"A", "B", "C", "D", "E", "F"}
  step 1d
  horizon unbounded
  start "2020-01-01"
}
release counties = count(visits) by place
release regions = count(visits) by place
release countries = count(visits) by place
target user_level(epsilon = 1.76, delta = 0, neighbors = add_remove, per = 1d)
participation at_most(1 steps, per = 1d, cells_per_step = 4, enforced = keep_first)
budget parts(counties = 0.88, regions = 0.44, countries = 0.44)
mechanism laplace()
estimate none()
deliver realtime
"""
EDITORS = """policy editors "Editors and their edits"
stream work {
  user editor
  time at
  cell group in {"A", "B"}
  step 1d
  horizon 24 steps
  start "2018-01-01"
}
release editors = count(work) by group
release edits = sum(work.edits, clamp = 0 .. 101) by group
target user_level(PROMISE, neighbors = NEIGHBORS)
participation at_most(1 steps, enforced = keep_first)
budget parts(editors = 1.1, edits = 0.9)
MECHANISM
estimate none()
deliver realtime
"""


def compiled(folder, text):
    (folder / "p.policy").write_text(text)
    return compile_policy(folder / "p.policy").plan


def test_scales_are_those_of_the_published_design(tmp_path):
    """Google's mobility report: scales 4/0.88, 4/0.44 and 4/0.44, which lose 1.76 together."""
    plan = compiled(tmp_path, MOBILITY)
    scales = {release.name: float(release.mechanism.scale) for release in plan.releases}
    assert scales == pytest.approx({"counties": 4 / 0.88, "regions": 4 / 0.44, "countries": 4 / 0.44}, rel=1e-9)
    lost = sum(Fraction(4) / Fraction(release.mechanism.scale) for release in plan.releases)
    assert Fraction("1.76") * (1 - Fraction(1, 10**8)) <= lost <= Fraction("1.76")
    (claim,) = plan.claims.user_level
    month = next(point for point in claim.beyond if point.participation == 31)
    assert float(month.epsilon) == pytest.approx(54.56, rel=0.01)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize(
    ("promise", "mechanism", "power"),
    [("epsilon = 2.0, delta = 0", "mechanism laplace()", 1), ("rho = 2.0", "mechanism gaussian()", 2)],
)
def test_every_release_tells_its_part_and_no_more(promise, mechanism, power, neighbors, tmp_path):
    """Recomputed from the noise of each alone: at most the part, and hardly less; all together at most the promise."""
    if power == 1:  # the scale of a sum's noise is whole, and one user's part of it large
        mechanism = "mechanism laplace()"
    text = EDITORS.replace("PROMISE", promise).replace("NEIGHBORS", neighbors).replace("MECHANISM", mechanism)
    if power == 1:
        text = text.replace("sum(work.edits, clamp = 0 .. 101) by group", "count(work)")
    plan = compiled(tmp_path, text)
    verify(plan)
    for release, part in zip(plan.releases, ("1.1", "0.9"), strict=True):
        setting = setting_of(plan, release, plan.targets[0])
        lost = release.mechanism.largest_loss(setting) if power == 1 else release.mechanism.rho(setting)
        assert Fraction(part) * (1 - Fraction(1, 10**6)) <= lost <= Fraction(part)


def test_parts_may_leave_something(tmp_path):
    """Half of a promise is spent; the plan claims the whole one, which holds."""
    plan = compiled(tmp_path, MOBILITY.replace("0.88", "0.44").replace("0.44", "0.22"))
    verify(plan)
    assert all(float(release.mechanism.scale) >= 4 / 0.44 for release in plan.releases)


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("counties = 0.88, ", "", "`counties` has no part"),
        ("counties = 0.88", "counties = 0.89", "add up to 1.77, above 1.76"),
        ("counties = 0.88", "countys = 0.88", "there is no release `countys`"),
        ("epsilon = 1.76, delta = 0", "epsilon = 1.76, delta = 1e-7", "this promise has no parts"),
    ],
)
def test_parts_that_do_not_fit_are_refused(was, becomes, said, tmp_path):
    """E0509 says what is wrong: no part, no release, too much, a promise that does not add up."""
    text = MOBILITY.replace(was, becomes)
    if "1e-7" in becomes:
        text = text.replace("mechanism laplace()", "mechanism auto")
    with pytest.raises(PolicyError) as refused:
        compiled(tmp_path, text)
    assert [found.code for found in refused.value.diagnostics if found.code.startswith("E")] == ["E0509"]
    assert any(said in found.message for found in refused.value.diagnostics)


def test_what_is_made_of_another_release_has_no_part(tmp_path):
    """A running total costs nothing, with a part or without."""
    text = MOBILITY.replace("release regions", "release so_far = prefix(counties)\nrelease regions")
    plan = compiled(tmp_path, text)
    assert plan.release_named("so_far").mechanism.name == "derived"
    with pytest.raises(PolicyError, match="so_far"):
        compiled(tmp_path, text.replace("parts(", "parts(so_far = 0.001, "))


def test_a_total_has_no_part_under_a_mechanism_that_could_measure_it(tmp_path):
    """A tree is made for running totals; with parts they are made of the count."""
    text = EDITORS.replace("PROMISE", "rho = 2.0").replace("NEIGHBORS", "add_remove")
    text = text.replace("MECHANISM", "mechanism binary_tree()")
    plan = compiled(tmp_path, text.replace("target", "release so_far = prefix(editors)\ntarget"))
    assert plan.release_named("so_far").mechanism.name == "derived"
    verify(plan)


@pytest.mark.parametrize("factor", [0.999, 0.5])
def test_a_plan_that_takes_from_one_part_for_another_is_not_run(factor, tmp_path):
    """All together keep the promise still, so that the kernel accepts it; the policy says otherwise."""
    plan = compiled(tmp_path, MOBILITY)
    require_unchanged(tmp_path, plan)
    more = {"counties": 1 / factor, "regions": factor}
    releases = [
        release.model_copy(
            update={"mechanism": release.mechanism.of_size(float(release.mechanism.scale) * more.get(release.name, 1))}
        )
        for release in plan.releases
    ]
    altered = plan.model_copy(update={"releases": tuple(releases)}).sealed()
    verify(altered)
    with pytest.raises(PlanRejectedError, match="not of its policy") as refused:
        require_unchanged(tmp_path, altered)
    assert refused.value.where.endswith("releases.1.mechanism")
    assert "0.44" in refused.value.because
