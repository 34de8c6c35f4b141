"""The estimators as a plan uses them: their laws, when they apply, and a release's values as they come."""

from __future__ import annotations

import numpy as np
import pytest
from demands import at_least_zero, change_at_most, demand, demands, total
from numpy.typing import NDArray
from plans import make_plan

from policyc_check.steps.chains import Chain
from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimates import estimate_release
from policyc_runtime.estimation import Estimator, estimator_kinds, map_counts
from policyc_runtime.estimation.map import Map, propagate
from policyc_runtime.plan import Plan
from policyc_runtime.sources_cited import SOURCES

Array = NDArray[np.float64]
FORWARD = np.array([[0.33, 0.33, 0.34], [0.8, 0.1, 0.1], [0.05, 0.9, 0.05]])
RING = np.roll(np.eye(4), 1, axis=1)


def chain(forward: Array = FORWARD) -> Chain:
    return Chain(forward=forward, backward=None, initial=np.array([1.0, *[0.0] * (len(forward) - 1)]))


def make(name: str) -> Estimator:
    return estimator_kinds()[name].model_validate({"name": name} | ({"prior": "uniform"} if name == "map" else {}))


def plan_for(estimator: dict[str, str], *, population: int = 200, delivery: str = "offline", limit: int = 0) -> Plan:
    rows = (total(3, population), *at_least_zero(3), *(change_at_most(3, limit) if limit else ()))
    return make_plan(
        population=population,
        otherwise=None,
        chains=(FORWARD.tolist(),),
        estimator=estimator,
        constraints=rows,
        delivery=delivery,
        horizon=50,
    )


def noisy_counts(steps: int, seed: int = 3) -> Array:
    rng = np.random.default_rng(seed)
    return np.rint(rng.multinomial(200, [0.4, 0.4, 0.2], steps) + rng.laplace(0, 20, (steps, 3)))


def test_three_estimators_are_found() -> None:
    """Estimators are found by being in the folder, and cite their source."""
    assert {"map", "mle", "none"} <= set(estimator_kinds())
    for kind in estimator_kinds().values():
        assert any(f"Source: {key}" in str(kind.__doc__) for key in SOURCES)


def test_laws_follow_the_chain() -> None:
    """The law of step t is the start times the t-th power of the chain."""
    laws = Map(prior="initial").law(chain(), range(6), 3, None)
    start = np.array([1.0, 0.0, 0.0])
    for step, law in enumerate(laws):
        assert law == pytest.approx(start @ np.linalg.matrix_power(FORWARD, step), abs=1e-14)
    assert Map(prior="uniform").law(chain(), range(1), 3, None)[0] == pytest.approx(1 / 3)


def test_the_frequency_prior_reads_the_first_release() -> None:
    """Noisy values below half a user count as half a user, so that no cell becomes impossible."""
    frequency = Map(prior="frequency")
    assert frequency.law(None, range(2), 3, np.array([6.0, -3.0, 3.5])).tolist() == [[0.6, 0.05, 0.35]] * 2
    assert frequency.law(None, range(1), 3, np.array([-6.0, -3.0, 0.0]))[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("forward", [FORWARD, RING])
def test_laws_do_not_depend_on_the_range_asked_for(forward: Array) -> None:
    """A step has the same law, to the last bit, in one run over everything and step by step, periodic or not."""
    start = np.full(len(forward), 1 / len(forward))
    start[0] += 0.1
    start[1] -= 0.1
    together = propagate(start, forward, range(2100))
    for step in (0, 1, 1023, 1024, 1025, 2050, 2099):
        assert (propagate(start, forward, range(step, step + 1))[0] == together[step]).all()


def test_laws_far_ahead_are_quick() -> None:
    """A step a trillion ahead needs a thousand products, not a trillion."""
    law = propagate(np.array([1.0, 0.0, 0.0]), FORWARD, range(10**12, 10**12 + 2))
    assert law[0] @ FORWARD == pytest.approx(law[0], abs=1e-12)


def test_priors_that_cannot_be_made_are_refused() -> None:
    """The initial law needs a chain, the frequencies need a first release."""
    for prior in ("initial", "frequency"):
        with pytest.raises(ReleaseError) as refused:
            Map.model_validate({"name": "map", "prior": prior}).law(None, range(1), 3, None)
        assert refused.value.code == "E0833"


def test_estimators_say_why_they_do_not_apply() -> None:
    """The map needs one chain or none, cells, and a known total; nearest values always apply."""
    known, unknown = demands(total(3, 20), cells=3), demands(*at_least_zero(3), cells=3)
    uniform = Map(prior="uniform")
    assert uniform.reason_against(1, known) is None
    assert uniform.reason_against(0, known) is None
    assert "add up to" in str(uniform.reason_against(1, unknown))
    assert "groups" in str(uniform.reason_against(2, known))
    assert "cells" in str(uniform.reason_against(0, demands(total(1, 20), cells=1)))
    assert "chain" in str(Map(prior="initial").reason_against(0, known))
    assert make("mle").reason_against(2, unknown) is None


def test_none_without_constraints_publishes_noisy_values() -> None:
    """Nothing is done where nothing is asked for."""
    noisy = np.array([[3.0, -5.0]])
    free = demands(cells=2, integer=False)
    assert (make("none").estimate(noisy, np.ones(1), None, free, None) == noisy).all()


def test_none_with_constraints_is_the_nearest() -> None:
    """With constraints, `none` publishes what `mle` does."""
    constraints = demands(total(3, 200), *at_least_zero(3), cells=3)
    published = [make(name).estimate(noisy_counts(9), np.ones(9), None, constraints, None) for name in ("none", "mle")]
    assert (published[0] == published[1]).all()


@pytest.mark.parametrize("prior", ["initial", "uniform", "frequency"])
@pytest.mark.parametrize("delivery", ["offline", "realtime"])
def test_step_by_step_equals_all_at_once(prior: str, delivery: str) -> None:
    """Where steps are estimated alone, a stream publishes what a whole file would."""
    plan = plan_for({"name": "map", "prior": prior}, delivery=delivery)
    noisy, release = noisy_counts(30), plan.releases[0]
    whole = estimate_release(plan, release, noisy, np.empty((0, 3)))
    stream = np.empty((0, 3))
    for step in range(30):
        stream = np.vstack([stream, estimate_release(plan, release, noisy[: step + 1], stream)])
    assert (whole == stream).all()
    law = release.estimator.law(plan.correlation.chains[0].chain(), range(30), 3, noisy[0])
    assert (whole == map_counts(noisy, np.full(30, float(release.schedule.scales(1)[0])), law, 200)).all()


@pytest.mark.parametrize("name", ["mle", "map"])
def test_realtime_values_do_not_wait_for_the_future(name: str) -> None:
    """Under realtime, what a step publishes is the same whatever comes after, and limits on changes hold."""
    settings = {"name": name} | ({"prior": "uniform"} if name == "map" else {})
    plan = plan_for(settings, delivery="realtime", limit=15)
    noisy, release = noisy_counts(8), plan.releases[0]
    whole = estimate_release(plan, release, noisy, np.empty((0, 3)))
    assert (np.diff(whole, axis=0) <= 15 + 1e-9).all()
    assert (estimate_release(plan, release, noisy[:4], np.empty((0, 3))) == whole[:4]).all()
    assert (estimate_release(plan, release, noisy, whole[:5]) == whole[5:]).all()


def test_offline_values_use_the_whole_stream() -> None:
    """Offline, coupled steps are estimated together: the distance is below the one of step by step."""
    noisy = noisy_counts(12)
    distances = []
    for delivery in ("offline", "realtime"):
        plan = plan_for({"name": "mle"}, delivery=delivery, limit=8)
        values = estimate_release(plan, plan.releases[0], noisy, np.empty((0, 3)))
        assert (np.diff(values, axis=0) <= 8 + 1e-9).all()
        distances.append(np.abs(values - noisy).sum())
    assert distances[0] <= distances[1]


def test_nothing_new_is_nothing_to_publish() -> None:
    """When all steps are published, there are no values."""
    plan = plan_for({"name": "mle"})
    assert estimate_release(plan, plan.releases[0], noisy_counts(2), noisy_counts(2)).shape == (0, 3)


def test_an_impossible_step_is_named() -> None:
    """The refusal names the step of the stream, not of the batch."""
    plan = make_plan(
        population=None,
        cells=("a", "b"),
        otherwise=None,
        chains=(),
        delivery="realtime",
        constraints=(*change_at_most(2, 1), demand("sum >= 9", {0: 1, 1: 1}, ">=", 9)),
        epsilon="1",
    )
    published = np.array([[1.0, 1.0]] * 7)
    with pytest.raises(ReleaseError) as refused:
        estimate_release(plan, plan.releases[0], np.array([[1.0, 1.0]] * 8), published)
    assert refused.value.where == "step 7"


def test_probabilities_of_zero_and_a_floor_contradict() -> None:
    """A bound that asks for people where nobody can be is refused."""
    constraints = demands(total(2, 10), demand("x >= 1", {0: 1}, ">=", 1), cells=2)
    with pytest.raises(ReleaseError) as refused:
        Map(prior="uniform").estimate(np.ones((1, 2)), np.ones(1), np.array([[0.0, 1.0]]), constraints, None)
    assert refused.value.code == "E0830"


def test_estimators_read_back() -> None:
    """An estimator in a plan is the one that was written."""
    estimator = Map(prior="frequency")
    assert Map.model_validate_json(estimator.model_dump_json()) == estimator
    assert estimator.described() == "map(prior = frequency)"
