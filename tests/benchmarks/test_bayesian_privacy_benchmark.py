"""Noise that the bounds of LANGE25 ask for at the same leakage, beside ours: chains of the papers, and the fleet.

LANGE25 is M. Lange, P. Guerra-Balboa, J. Parra-Arnau, T. Strufe: Balancing Privacy and Utility in Correlated Data: A
Study of Bayesian Differential Privacy, PVLDB 2025, arXiv 2506.21308; its bounds are as its authors' code has them
(github.com/lange-martin/privacy-utility-bdp, `utility_experiment.py`). With T records of a stationary Markov chain, all
of whose transitions are possible, the largest gamma times as likely as the least, a mechanism that tells epsilon of
each record tells at most epsilon + 4 ln gamma of it to whoever knows the chain and any of the other records; and at
most T epsilon, whatever the correlation. Here a record is where one user is at one step, and a mechanism that spends
epsilon at each step tells epsilon of it: for alpha in all they allow alpha - 4 ln gamma nats a step, or alpha / T.

The first bound in a line: the factor by which a value of the record changes the probability of the unknown others is
that of two transitions, gamma^2, once as it is and once summed over the unknown, as what is known makes it. `told`
enumerates small chains by the definition.

`pytest -m law -s -k bayesian` prints a small part; `--full` measures T = 300 and the shipped days of the fleet.
"""

from __future__ import annotations

import shutil
from functools import reduce
from itertools import chain, combinations, pairwise, product

import numpy as np
import pytest
from paper_settings import BASE, Setting, at_every_step, lazy, mean_error, noisy_counts, published, smoothed

from policyc import compile_policy
from policyc_runtime.sources import read_events

pytestmark = pytest.mark.law

NEARLY_EVEN = (
    ("base, s = 5", smoothed(BASE, 5.0)),
    ("base, s = 20", smoothed(BASE, 20.0)),
    ("lazy, 0.55", lazy(2, 0.55)),
)
SLOW = (
    ("base, s = 0.1", smoothed(BASE, 0.1), 1.0),
    ("base, s = 0.1", smoothed(BASE, 0.1), 2.0),
    ("stay 0.9", lazy(3, 0.9), 1.0),
    ("stay 0.99", lazy(3, 0.99), 1.0),
)
STEPS = 4  # of chains that are enumerated


def by_gamma(alpha, moves):
    """Nats a step by the bound for Markov chains; negative or -inf where no noise is enough."""
    least = moves.min()
    return alpha - 4 * np.log(moves.max() / least) if least > 0 else -np.inf


def stationary(moves):
    """The law that the chain keeps, (places,)."""
    values, vectors = np.linalg.eig(moves.T)
    law = vectors[:, np.argmax(values.real)].real
    return law / law.sum()


def told(moves, budgets, *, knowing):
    """The most nats that all steps tell about one of them, by enumeration of every trajectory, output and knowledge.

    What a step shows multiplies the odds of any places by up to e^budget, in every combination: Laplace noise in each
    place does.

    Args:
        moves: (places, places) of a stationary chain.
        budgets: (T,) nats a step.
        knowing: whether one may know any of the other steps beside, or none.
    """
    places, steps = len(moves), len(budgets)
    joint = np.zeros((places,) * steps)
    for path in product(range(places), repeat=steps):
        joint[path] = stationary(moves)[path[0]] * np.prod([moves[a, b] for a, b in pairwise(path)])
    most = 0.0
    for step in range(steps):
        others = [one for one in range(steps) if one != step]
        sets = chain.from_iterable(combinations(others, size) for size in range(steps)) if knowing else [()]
        for known in sets:
            unknown = [one for one in others if one not in known]
            law = np.transpose(joint, (step, *known, *unknown)).reshape(places, places ** len(known), -1)
            law = law / law.sum(axis=2, keepdims=True)
            shown = [np.exp(budgets[one] * np.array(list(product((0, 1), repeat=places)))) for one in unknown]
            seen = law @ reduce(np.kron, shown, np.ones((1, 1))).T
            most = max(most, budgets[step] + float(np.log(seen.max(axis=0) / seen.min(axis=0)).max()))
    return most


def largest(moves, alpha, *, knowing):
    """The budget of every step for which `told` is alpha, to a thousandth."""
    low, high = 0.0, alpha
    while high - low > alpha / 1000:
        middle = (low + high) / 2
        low, high = (middle, high) if told(moves, [middle] * STEPS, knowing=knowing) <= alpha else (low, middle)
    return low


def test_the_bound_for_markov_chains_holds_by_enumeration():
    """Of random chains of two and three places, to whoever knows any other steps: their budgets tell at most alpha.

    Where gamma is 1 the bound is reached; the compiler's leakage is told to whoever knows none.
    """
    rng = np.random.default_rng(3)
    for places in [2] * 10 + [3] * 4:
        moves = rng.uniform(0.3, 0.5, (places, places))
        moves /= moves.sum(axis=1, keepdims=True)
        most = told(moves, [0.4] * STEPS, knowing=True)
        assert told(moves, [0.4] * STEPS, knowing=False) <= most + 1e-12
        assert most <= 0.4 - by_gamma(0.0, moves)
    assert told(lazy(2, 0.5), [0.4] * STEPS, knowing=True) == pytest.approx(0.4)


def test_short_chains(table, tmp_path):
    """Their budgets are at most what enumeration allows; what the compiler spends tells at most alpha.

    To whoever knows other steps, which alpha-DP_T is not about, it tells 0.15 % more at most on these chains.
    """
    rows = []
    for name, moves, alpha in (*((name, moves, alpha) for name, moves in NEARLY_EVEN for alpha in (1.0, 2.0)), *SLOW):
        plan = Setting(moves, 200, STEPS).plan(tmp_path, alpha)
        ours = [float(budget) for budget in plan.releases[0].schedule.epsilons(STEPS)]
        theirs = max(by_gamma(alpha, moves), alpha / STEPS)
        exact = largest(moves, alpha, knowing=True)
        leaks = [told(moves, ours, knowing=knowing) for knowing in (False, True)]
        assert theirs <= exact + alpha / 1000
        assert leaks[0] <= alpha * (1 + 1e-12)
        assert leaks[1] <= 1.0015 * alpha
        mean = float(np.mean(ours))
        rows.append([name, alpha, theirs, exact, mean, mean / theirs, *(f"{leak:.4f}" for leak in leaks)])
    table(
        "bayesian_privacy_short",
        f"Nats a step, T = {STEPS}; enumerated: the most for each step against whoever knows any other steps.",
        ["chain", "alpha", "LANGE25", "enumerated", "ours", "ratio", "ours tell", "ours tell whoever knows any steps"],
        rows,
    )


def test_chains_of_the_papers(full, table, tmp_path):
    """There 4 ln gamma is more than alpha, so that alpha / T a step is left: more error comes of it on every chain."""
    horizon, seeds = (300, 24) if full else (60, 4)
    rows = []
    for name, moves, alpha in SLOW:
        setting = Setting(moves, 200, horizon)
        auto = setting.plan(tmp_path, alpha)
        truths = [setting.truth(seed) for seed in range(seeds)]
        rows.append([name, alpha, *compared(auto, alpha, moves, truths)])
    table("bayesian_privacy", f"Mean squared error of one value, T = {horizon}, {seeds} seeds.", HEADS, rows)


def test_the_fleet(full, gallery, table, tmp_path):
    """The same on the shipped days of departures."""
    if not full:
        pytest.skip("with `--full`")
    for name in ("fleet_transitions.csv", "fleet.policy"):
        shutil.copy(gallery / name, tmp_path)
    plan = compile_policy(tmp_path / "fleet.policy").plan
    truth = read_events(gallery / "departures_january.csv.gz", plan, steps=28).counts["parked"]
    moves = plan.correlation.chains[0].chain().forward
    table(
        "bayesian_privacy_fleet",
        "Mean squared error of one value, 28 days, 20 seeds.",
        HEADS,
        [["the real fleet", 1.0, *compared(plan, 1.0, np.asarray(moves), [truth] * 20)]],
    )


HEADS = ["chain", "alpha", "4 ln gamma", "LANGE25, nats a step", "ours", "ratio", "LANGE25's error", "`auto`", "ratio"]


def compared(auto, alpha, moves, truths):
    """Budgets and errors, with the same mechanism and estimator on both; the bounds of LANGE25 alone differ."""
    horizon = auto.stream.horizon
    ours = float(np.mean([float(budget) for budget in auto.releases[0].schedule.epsilons(horizon)]))
    free = by_gamma(0.0, moves)
    theirs = max(alpha + free, alpha / horizon)
    assert alpha + free < 0, "the bound for Markov chains leaves nothing here"
    errors = []
    for plan in (at_every_step(auto, theirs), auto):
        values = [published(plan, noisy_counts(plan, truth, seed)) for seed, truth in enumerate(truths)]
        errors.append(mean_error(values, truths))
    assert errors[0] > errors[1]
    return [-free, theirs, ours, ours / theirs, *errors, errors[0] / errors[1]]
