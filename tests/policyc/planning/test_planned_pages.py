"""Findings that only planning can give: each page's wrong example gives its code, the right one a verified plan."""

from __future__ import annotations

import re

import pytest

from policyc import PolicyError, compile_policy
from policyc.diagnostics.pages import read_page
from policyc_runtime.refusal import verify

EXAMPLE = re.compile(r"```policy\n(.*?)```", re.S)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("code", ["E0751", "E0752", "E0753", "E0754", "E0760"])
def test_wrong_gives_the_code_and_right_a_plan(code, tmp_path):
    """The wrong example stops with exactly this code; the right one compiles."""
    wrong, right = EXAMPLE.findall(read_page(code))
    (tmp_path / "wrong.policy").write_text(wrong)
    (tmp_path / "right.policy").write_text(right)
    with pytest.raises(PolicyError) as stopped:
        compile_policy(tmp_path / "wrong.policy")
    assert [d.code for d in stopped.value.diagnostics if d.code.startswith("E")] == [code]
    verify(compile_policy(tmp_path / "right.policy").plan)


def test_a_bound_that_drops_is_held_against_one_that_does_not(tmp_path):
    """W0761 where all steps have hardly more noise, with that noise; not where the bound is far below, nor on top."""
    wrong, right = EXAMPLE.findall(read_page("W0761"))
    few = wrong.replace("at_most(100 steps", "at_most(5 steps")
    compiled = {}
    for name, text in (("wrong", wrong), ("right", right), ("few", few)):
        (tmp_path / f"{name}.policy").write_text(text)
        compiled[name] = compile_policy(tmp_path / f"{name}.policy")
    codes = {name: [d.code for d in one.diagnostics] for name, one in compiled.items()}
    assert "W0761" in codes["wrong"]
    assert "W0761" not in codes["right"] + codes["few"]
    (warning,) = [d for d in compiled["wrong"].diagnostics if d.code == "W0761"]
    whole, kept = (compiled[name].plan.releases[0].predicted.without_postprocessing for name in ("right", "wrong"))
    said = [float(number) for number in re.findall(r"[\d.]+(?= users|$)", warning.message)]
    assert said == pytest.approx([whole**0.5, kept**0.5], rel=0.01)


def test_a_release_worse_than_the_prior_is_warned_about_and_noted(tmp_path):
    """With a promise so strict that noise drowns the counts, the plan says so in W0702 or W0701."""
    wrong = EXAMPLE.findall(read_page("E0752"))[1].replace("alpha = 1.0", "alpha = 0.001")
    (tmp_path / "strict.policy").write_text(wrong.replace("estimate map(prior = uniform)", "estimate mle()"))
    compilation = compile_policy(tmp_path / "strict.policy")
    assert {d.code for d in compilation.diagnostics} & {"W0701", "W0702"}
    assert {n.code for n in compilation.plan.notices} & {"W0701", "W0702"}


@pytest.mark.law
@pytest.mark.parametrize("wish", ["mle()", "map(prior = initial)", "map(prior = frequency)", "filter()", "smoother()"])
def test_the_estimator_that_is_written_is_planned(wish, tmp_path):
    """`estimate` names one estimator with its setting, and the plan has it."""
    text = EXAMPLE.findall(read_page("E0752"))[1].replace("map(prior = uniform)", wish)
    (tmp_path / "wished.policy").write_text(text)
    plan = compile_policy(tmp_path / "wished.policy").plan
    assert plan.releases[0].estimator.described() == wish


@pytest.mark.parametrize(
    ("estimate", "remedy"), [("linear()", "user_level"), ("map(prior = initial)", "`sum(r) == population`")]
)
def test_an_estimator_that_does_not_apply_is_told_what_it_needs(estimate, remedy, tmp_path):
    """A promise about users for straight lines, a public total for most probable values."""
    (tmp_path / "p.policy").write_text(
        'policy p "one line"\n'
        'stream v { user a time b cell room in {"a", "b"} otherwise "out" step 1h horizon 5 steps population 300 }\n'
        "release r = count(v) by room\ntarget alpha_dpt(alpha = 2.0)\n"
        "correlation markov(forward = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], initial = stationary, "
        f'evidence = "y")\nestimate {estimate}\n'
    )
    with pytest.raises(PolicyError) as refused:
        compile_policy(tmp_path / "p.policy")
    (finding,) = refused.value.diagnostics
    assert finding.code == "E0752"
    assert remedy in finding.help
