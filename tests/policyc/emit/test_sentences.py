"""Every sentence of a certificate that has a number is held against a number computed another way."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_numbers import NUMBER, PATTERNS, QUOTED, Told, sentences

from policyc import compile_policy
from policyc.emit.context import certificate_content
from policyc.pipeline import Compilation
from policyc_runtime.plan import Plan

GALLERY = ["bikeshare", "checkins", "departures", "fleet", "speeds", "traffic", "wards"]
HAND_MADE = ["traffic", "fleet", "endless_traffic", "independent_count"]
HEAD = """\
policy p "Visitors of a museum"
stream visits {
  user        ticket
  time        at
  @
  step        1h
  horizon     48 steps
  start       "2026-01-01"
}
"""
ROOMS = 'cell room in {"a", "b"} otherwise "away"\n  population 900'
CHAIN = (
    "correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], "
    'initial = stationary, evidence = "survey")\n'
)
ALONE = 'correlation none(evidence = "one visit a ticket")\n'
USER = HEAD.replace("@", "") + (
    "release there = count(visits)\n"
    "target user_level(epsilon = 1.0, delta = 1e-6, neighbors = @)\n"
    "participation at_most(4 steps, enforced = keep_first)\n"
)
ADDED, REPLACED = USER.replace("@", "add_remove"), USER.replace("@", "replace")
SIGNAL = 'signal ar1(mean = 80, sd = 30, autocorrelation = 0.9, evidence = "last year")\n'
PLACES = HEAD.replace("@", ROOMS) + "release there = count(visits) by room\n"
MOVING = PLACES + "target alpha_dpt(alpha = 1.0)\n" + CHAIN
SUMMED = MOVING + "postprocess there { sum(there) == population, there >= 0, integer(there) }\n"
BESIDE = 'target user_level(@)\nparticipation at_most(20 steps, assumed = "a day ticket")\ndeliver offline\n'
OF_DAYS = BESIDE.replace("steps, ", "steps, per = 1d, ")
WINDOWED = PLACES + "target w_event(epsilon = 1.0, window = 4 steps)\n" + ALONE
IN_A_ROW = (
    HEAD.replace("@", "")
    + "release there = count(visits)\n"
    + "target w_event(epsilon = 1.0, window = 4 steps, delta = 1e-6, neighbors = add_remove)\n"
    + ALONE
)
ONE_STEP = (
    HEAD.replace("@", 'cell room in {"a", "b"}')
    + "release spent = sum(visits.price, clamp = -5 .. 50) by room\n"
    + "target event_level(epsilon = 0.5)\nparticipation at_most(1 steps, per_step = 3, enforced = keep_first)\n"
    + ALONE
)
TOTALS = "release so_far = prefix(there)\nrelease lately = window(there, 6 steps)\n"
SPEEDS = ADDED.replace("count(visits)", "sum(visits.speed, clamp = -20 .. 130)")
OFTEN = ADDED.replace("at_most(4 steps", "at_most(4 steps, per_step = 2, spacing = 3 steps")
DAYS = ADDED.replace("neighbors", "per = 1d, neighbors").replace("at_most(4 steps", "at_most(20 steps, per = 1d")
BY_A_CLOCK = DAYS.replace('"2026-01-01"', '"2026-10-20"\n  clock       "Europe/Berlin"')
MONTHS = (
    BY_A_CLOCK.replace("2026-10-20", "2026-10-01").replace("1h", "month").replace("1d", "month").replace("(20", "(1")
)
ASSUMED = ADDED.replace("enforced = keep_first", 'assumed = "four tickets each"')
WRITTEN = {
    "gaussian": ADDED + "mechanism gaussian()",
    "laplace": ADDED + "mechanism laplace()",
    "binomial": ADDED + "mechanism binomial()",
    "dft": ADDED + "deliver offline\nmechanism dft(coefficients = 10)",
    "dft in blocks": ADDED + "deliver within(11 steps)\nmechanism dft(choose = true)",
    "fast": ADDED + "deliver realtime\nmechanism fast(samples = 12, process_sd = 10)",
    "lmmse": ADDED + "deliver realtime\nmechanism lmmse(weight = 0.5)",
    "lmmse for a signal": ADDED + SIGNAL + "deliver realtime\nmechanism lmmse()",
    "subsample": ADDED + "deliver offline\nmechanism subsample(rate = 0.25)",
    "filter_subsample": ADDED + "deliver offline\nmechanism filter_subsample(rate = 0.25)",
    "binary_tree": ADDED + "mechanism binary_tree()",
    "totals": ADDED + TOTALS + "deliver realtime",
    "sums": SPEEDS + "mechanism gaussian()",
    "often": OFTEN + "mechanism gaussian()",
    "assumed": ASSUMED + "mechanism gaussian()",
    "nothing left to chance": ADDED.replace("delta = 1e-6", "delta = 0"),
    "a rho": ADDED.replace("epsilon = 1.0, delta = 1e-6", "rho = 0.02") + "mechanism gaussian()",
    "an assumed rho": ASSUMED.replace("epsilon = 1.0, delta = 1e-6", "rho = 0.02") + TOTALS,
    "replaced": REPLACED + "mechanism gaussian()",
    "declared": ADDED + SIGNAL + "deliver offline",
    "autoregressive": ADDED
    + 'signal ar(coefficients = [1.2, -0.6], sd = 30, mean = 80, evidence = "last year")\nmechanism lmmse()\n'
    + "deliver realtime\nestimate none()",
    "autocovariance": ADDED
    + 'signal autocovariance(lags = [900, 700, 400, 150], mean = 80, evidence = "last year")\n'
    + "deliver offline\nmechanism gaussian()",
    "leakage": MOVING + "deliver offline",
    "leakage of windows": PLACES + "target alpha_dpt(alpha = 1.0, window = 4 steps)\n" + CHAIN,
    "independent": PLACES + "target event_level(epsilon = 0.5)\n" + ALONE,
    "window": WINDOWED,
    "sums of an event": ONE_STEP + "deliver realtime",
    "sums of an event, assumed": ONE_STEP.replace("enforced = keep_first", 'assumed = "a gate"') + "deliver realtime",
    "in no cell": HEAD.replace("@", ROOMS)
    + "release there = count(visits) by room\ntarget event_level(epsilon = 1.0, delta = 1e-6)\n"
    + ALONE
    + "deliver realtime\nmechanism gaussian()",
    "totals in a window": IN_A_ROW + TOTALS + "mechanism gaussian()\ndeliver realtime",
    "distributed": WINDOWED + "deliver realtime\nmechanism budget_distribution()",
    "absorbed in steps": PLACES
    + "target event_level(epsilon = 0.5)\n"
    + ALONE
    + "deliver realtime\nmechanism budget_absorption(window = 4 steps)",
    "absorbed": WINDOWED + "deliver realtime\nmechanism budget_absorption()",
    "absorbed, several events": ONE_STEP.replace("event_level(epsilon", "w_event(window = 4 steps, epsilon")
    + "deliver realtime\nmechanism budget_absorption()",
    "distributed, a part of a step": HEAD.replace("@", 'cell room in {"a", "b"}')
    + "release there = count(visits) by room\ntarget w_event(epsilon = 1.5, window = 4 steps)\n"
    + "target user_level(epsilon = 1.0, delta = 0, neighbors = add_remove, per = 20min)\n"
    + ALONE
    + 'participation at_most(1 step, per = 20min, per_step = 2, assumed = "two doors")\n'
    + "deliver realtime\nmechanism budget_distribution()",
    "a window beside leakage, added": MOVING
    + "target w_event(epsilon = 1.5, window = 4 steps, delta = 1e-6, neighbors = add_remove)\n",
    "a step beside leakage": MOVING + "target event_level(epsilon = 0.4, delta = 1e-6)\n",
    "users beside steps": MOVING + BESIDE.replace("@", "epsilon = 3.0, delta = 1e-6, neighbors = add_remove"),
    "users beside steps, replaced": MOVING + BESIDE.replace("@", "epsilon = 2.0, delta = 0, neighbors = replace"),
    "users beside steps, a rho": MOVING + BESIDE.replace("@", "rho = 0.3, neighbors = add_remove"),
    "periods beside steps": MOVING
    + OF_DAYS.replace("@", "epsilon = 3.0, delta = 1e-6, neighbors = add_remove, per = 1d"),
    "periods beside steps, replaced": MOVING
    + OF_DAYS.replace("@", "epsilon = 2.0, delta = 0, neighbors = replace, per = 1d"),
    "periods beside steps, a rho": MOVING + OF_DAYS.replace("@", "rho = 0.3, neighbors = add_remove, per = 1d"),
    "sparse": SUMMED + "deliver offline\nbudget sparse(every = 4 steps)",
    "flows": SUMMED + "deliver offline\nestimate joint_map()",
    "several": MOVING + "release all = count(visits)\n",
    "two groups": MOVING.replace('"survey")\n', '"survey") for adults\n')
    + CHAIN.replace("0.8, 0.1, 0.1", "0.6, 0.2, 0.2").replace('"survey")', '"school") for children'),
    "in common": ADDED.replace("at_most(4", "at_most(40") + "mechanism common_noise()",
    "of days": DAYS + "mechanism gaussian()",
    "of days of a city": BY_A_CLOCK.replace("48 steps", "600 steps") + "mechanism gaussian()",
    "in common of days of a city": BY_A_CLOCK.replace("48 steps", "600 steps") + "mechanism common_noise()",
    "of months": MONTHS + "mechanism gaussian()",
    "of days in months": MONTHS.replace("per = month", "per = 1d") + "mechanism gaussian()",
    "in common of days": DAYS + "mechanism common_noise()",
    "suppressed": ADDED
    + TOTALS
    + "mechanism gaussian()\nestimate none()\npostprocess there { suppress(there, below = 40) }",
    "uncertain": ADDED + "mechanism gaussian()\nestimate none()\npostprocess there "
    '{ suppress(there, error_above = 12.5, chance = 0.05), suppress(there, error_above = "25 %", chance = 0.1) }',
    "uncertain steps": SUMMED.replace(
        "integer(there)", 'integer(there), suppress(there, error_above = "12.5 %", chance = 0.01)'
    ),
    "suppressed counts": SUMMED.replace("integer(there)", "integer(there), suppress(there, below = 300.5)"),
    "large": MOVING.replace("alpha = 1.0", "alpha = 30.0"),
}


def faults(content: Any, plan: Plan) -> list[str]:
    """What is wrong with the numbers of a certificate's sentences, and which have no check."""
    found = []
    for path, text, parent in sentences(content):
        told = Told(plan, content, path, parent, text)
        words = QUOTED.sub(lambda match: " " * len(match.group()), text)
        held: set[int] = set()
        for pattern, check in PATTERNS:
            for match in re.finditer(pattern, words):
                held |= set(range(*match.span()))
                try:
                    check(told, *match.groups())
                except (AssertionError, StopIteration, KeyError) as error:
                    found.append(f"{'.'.join(path)}: {match.group()!r} in {text!r}: {type(error).__name__} {error}")
        loose = [match.group() for match in NUMBER.finditer(words) if match.start() not in held]
        found += [f"{'.'.join(path)}: nothing holds {number} in {text!r}" for number in loose]
    return found


@pytest.mark.sampled(0, laws=3)
@pytest.mark.parametrize("name", GALLERY)
def test_the_gallery_tells_true_numbers(name: str, compiled_gallery: Callable[[str], Compilation]) -> None:
    """Every number in a sentence of the gallery's certificates is what another computation gives."""
    plan = compiled_gallery(name).plan
    assert faults(certificate_content(plan, {}), plan) == []


@pytest.mark.sampled(3, laws=12)
@pytest.mark.parametrize("name", list(WRITTEN))
def test_plans_of_every_kind_tell_true_numbers(name: str, tmp_path: Path) -> None:
    """The same for a plan of every mechanism, target, relation, query and kind of participation."""
    path = tmp_path / "p.policy"
    path.write_text(WRITTEN[name])
    plan = compile_policy(path).plan
    assert faults(certificate_content(plan, {}), plan) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", HAND_MADE)
def test_hand_made_plans_tell_true_numbers(name: str, request: pytest.FixtureRequest) -> None:
    """The same for plans without end, of one number a step, and of several lags."""
    plan: Plan = request.getfixturevalue(name)
    assert faults(certificate_content(plan, {}), plan) == []


def test_a_false_number_is_found(compiled_gallery: Callable[[str], Compilation]) -> None:
    """A number that is changed, and one that nothing holds, are faults."""
    plan = compiled_gallery("departures").plan
    content: Any = certificate_content(plan, {})
    promise = content["promises"][0]
    promise["in_odds"] = re.sub(
        r"a probability of at most 0\.0\d+", "a probability of at most 0.000001", promise["in_odds"]
    )
    content["operation"]["known_limits"].append("It has 17 limits.")
    found = faults(content, plan)
    assert len(found) == 2
    assert "probability of at most 0.000001" in found[0] + found[1]
    assert "nothing holds 17" in found[0] + found[1]
