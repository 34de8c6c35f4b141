"""A simulation follows the declared chain and marks what it makes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from plans import FLEET, make_plan, make_release

from policyc_check.errors import KernelError
from policyc_check.steps.chains import Chain
from policyc_runtime.estimation.count_process import marginals
from policyc_runtime.groups import group_sizes
from policyc_runtime.laboratory.simulation import simulate, simulate_counts
from policyc_runtime.output import write_release


def test_counts_have_the_chains_law() -> None:
    """Mean and variance of each state at each step are those of independent users, within five standard errors."""
    chain = Chain(forward=np.array(FLEET), initial=np.array([1.0, 0.0, 0.0, 0.0]))
    generator = np.random.default_rng(2)
    draws = np.array([simulate_counts([chain], [50], 4, generator) for _ in range(4000)])
    law = marginals(chain, 4)
    spread = np.sqrt(50 * law * (1 - law) / 4000)
    assert (np.abs(draws.mean(axis=0) - 50 * law) <= 5 * spread + 1e-12).all()
    assert np.allclose(draws.var(axis=0), 50 * law * (1 - law), rtol=0.2, atol=1e-12)
    assert (draws.sum(axis=2) == 50).all()


def test_steps_are_coupled_as_the_chain_says() -> None:
    """A user who cannot move does not move."""
    chain = Chain(forward=np.eye(2), initial=np.array([0.5, 0.5]))
    counts = simulate_counts([chain], [30], 10, np.random.default_rng(1))
    assert (counts == counts[0]).all()


def test_groups_split_the_population_evenly() -> None:
    """Nobody is lost when the groups do not divide the population."""
    stay = [Chain(forward=np.eye(3), initial=row) for row in np.eye(3)]
    assert simulate_counts(stay, group_sizes(20, [Fraction(1, 3)] * 3), 1, np.random.default_rng(1)).tolist() == [
        [7, 7, 6]
    ]


def test_every_estimator_stands_beside_the_prior_alone() -> None:
    """All that apply are listed, the plan's own is marked, and errors are what the arrays say."""
    result = simulate(make_plan(horizon=40), 7, 3)
    titles = {error.estimator for error in result.errors}
    assert titles == {
        "prior alone",
        "mle()",
        "map(prior = initial)",
        "map(prior = uniform)",
        "map(prior = frequency)",
        "joint_map()",
        "smoother()",
    }
    assert [error.estimator for error in result.errors if error.chosen] == ["mle()"]
    once = simulate(make_plan(horizon=40), 7, 1)
    own = next(error for error in once.errors if error.chosen)
    distance = once.example.released - once.truth["parked"]
    assert own.mean_squared_error == pytest.approx((distance**2).mean())
    assert own.mean_absolute_error == pytest.approx(np.abs(distance).mean())
    assert np.isnan(own.mean_squared_error_stderr)


def test_a_simulation_is_repeatable_and_marked(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """The same seed gives the same numbers, another seed others, and every artefact says NOT A RELEASE."""
    plan = make_plan(horizon=10)
    one, two, other = (simulate(plan, seed, 2) for seed in (1, 1, 2))
    assert one.errors == two.errors
    assert one.errors != other.errors
    assert np.array_equal(one.example.noisy, two.example.noisy)
    assert not one.example.is_release
    assert one.table_lines()[0].startswith("NOT A RELEASE")
    write_release(one.example, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().count("NOT A RELEASE") == 40


def test_several_groups_and_releases_are_said() -> None:
    """Two chains: the even split is told. A release without cells counts users present."""
    plan = make_plan(
        horizon=5,
        chains=(FLEET, FLEET),
        releases=(make_release("present", by=None, horizon=5), make_release(horizon=5)),
    )
    result = simulate(plan, 1, 2)
    lines = result.table_lines()
    assert any("split evenly among 2 groups" in line for line in lines)
    groups = [record.group for record in plan.correlation.chains]
    assert [line.partition(": ")[0] for line in lines if "smoothing level" in line] == [f"group `{n}`" for n in groups]
    assert result.truth["present"].tolist() == result.truth["parked"][:, :3].sum(axis=1, keepdims=True).tolist()


def test_without_population_or_chain_it_says_what_to_add() -> None:
    """A refusal names the statement that is missing."""
    for plan, word in ((make_plan(population=None), "population"), (make_plan(chains=()), "correlation markov")):
        with pytest.raises(KernelError) as caught:
            simulate(plan, 1, 1)
        assert caught.value.code == "E0819"
        assert word in (caught.value.help or "")


def test_counts_that_cannot_follow_each_other_are_counted() -> None:
    """A chain that forbids moves (CAO23, section 6.1): most that MLE publishes is impossible."""
    moves = [[0.0, 0.0, 1.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    plan = make_plan(horizon=12, population=200, cells=("A", "B", "C"), otherwise=None, chains=(moves,), epsilon="1")
    result = simulate(plan, 3, 2)
    shares = {error.estimator: error.impossible for error in result.errors}
    assert shares["joint_map()"] == shares["prior alone"] == 0
    assert shares["mle()"] > 0.5
    assert shares["map(prior = uniform)"] > 0.5
    lines = result.table_lines()
    assert any(line.startswith("smoothing level s = 0 over 3 states") for line in lines)
    assert lines[-1].startswith("cannot follow: at least so many steps")
    (own,) = (line for line in lines if "<- the plan's" in line)
    assert f"{100 * shares['mle()']:.3g} %" in own


def test_nothing_is_said_of_moves_where_no_one_chain_tells_them() -> None:
    """Of two groups, or of a count of those who are present, no chain says what can follow."""
    for plan in (
        make_plan(horizon=5, chains=(FLEET, FLEET)),
        make_plan(horizon=5, releases=(make_release("present", by=None, horizon=5),)),
    ):
        result = simulate(plan, 1, 1)
        assert {error.impossible for error in result.errors} == {None}
        assert not any("cannot follow" in line for line in result.table_lines())
