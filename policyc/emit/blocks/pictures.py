"""The numbers behind the pictures, thinned so that a picture of a long stream stays small."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np

from policyc.emit.accounting import ENDLESS_STRETCH, Accounting, Array
from policyc.emit.bars import some_cut
from policyc.emit.blocks.accuracy import typical, unit_words
from policyc.emit.blocks.example import example_picture
from policyc.emit.blocks.meaning import posterior_picture, user_posterior_picture
from policyc.emit.blocks.user_limits import amount, at_delta, number_of
from policyc.emit.blocks.wording import Json, JsonValue, in_period, span, steps_axis
from policyc.emit.numbers import about, exact, round_up
from policyc.emit.pictures import thinned
from policyc_check.plan.claims import UserRhoClaim
from policyc_check.plan.targets import AlphaDPT
from policyc_check.users.claims import own_bound, promised_user_level, window_of
from policyc_runtime.noisy_values import follows_results, noise_stddevs
from policyc_runtime.plan import Plan
from policyc_runtime.predicted_errors import Candidate

LONGEST_NOISE = 10_000
SIZES = {"at_least": "Least", "unconstrained": "Least unconstrained", "noise": "Noise"}  # of errors, by kind


def pictures(accounting: Accounting) -> Json:
    """Budgets per step, leakage per step, and the error of every candidate of each release."""
    plan = accounting.plan
    content: Json = {"budgets": _budgets(plan, accounting.budgets)}
    if plan.correlation.chains:
        content["leakage"] = _leakage(accounting)
    if (posterior := posterior_picture(plan)) is not None:
        content["posterior"] = posterior
    if (example := example_picture(plan)) is not None:
        content["example"] = example
    content["candidates"] = [_candidates(plan, index) for index in range(len(plan.releases))]
    return content


def user_level_pictures(plan: Plan, accounting: Accounting | None) -> Json:
    """What is left when the participation bound fails, the noise of each step, and the error of every candidate.

    With an `accounting` of what leaks through chains, that of each step.
    """
    content: Json = {"posterior": posterior_picture(plan) or user_posterior_picture(plan), "noise": _noise(plan)}
    if accounting is not None and plan.correlation.chains:
        content["leakage"] = _leakage(accounting)
    if (example := example_picture(plan)) is not None:
        content["example"] = example
    claim, record = plan.claims.user_level[0], plan.participation
    if claim.beyond and record is not None:
        own = own_bound(plan) * (window_of(plan) or 1)
        points = [(own, number_of(claim)), *((p.participation, number_of(p)) for p in claim.beyond)]
        pairs = [(bound, number) for bound, number in points if number is not None]
        name, y = ("rho", "rho") if isinstance(claim, UserRhoClaim) else ("epsilon", "epsilon, nats")
        (target, *_) = promised_user_level(plan)
        steps = "steps in which a user takes part" if window_of(plan) is None else "steps in a row"
        described = f"{'Rho' if name == 'rho' else 'Epsilon in nats'}{at_delta(claim)}"
        content["participation"] = {
            "id": "participation",
            "title": f"What is left of {'several periods' if window_of(plan) is None else 'more steps'}"
            if in_period(plan)
            else "If a user takes part more often",
            "description": f"{described}, against {steps}.",
            "x": steps,
            "y": y,
            "stepped": False,
            "level": {"name": f"promised, {amount(target)}", "value": str(number_of(target))},
            "series": [{"name": name, "points": [[str(at), round_up(number)] for at, number in _rising(pairs)]}],
        }
    content["candidates"] = [_candidates(plan, index) for index in range(len(plan.releases))]
    return content


def _rising(pairs: list[tuple[int, Decimal]]) -> list[tuple[int, Decimal]]:
    """Bounds for so many steps, and between these that of the next: a straight line would lie below what is true."""
    found = pairs[:1]
    for (before, _), (at, number) in pairwise(pairs):
        found += [(before + 1, number)] if before + 1 < at else []
        found.append((at, number))
    return found


def _points(values: Array) -> list[JsonValue]:
    return [[str(t), round_up(float(values[t]))] for t in map(int, thinned(values))]


def _budgets(plan: Plan, budgets: Array) -> Json:
    return {
        "id": "budgets",
        "title": "Budget of each step",
        "description": f"Budget in nats against step, over {span(plan)}.",
        **steps_axis(plan),
        "y": "budget of the step, nats",
        "stepped": True,
        "level": None,
        "series": [{"name": "budget", "points": _points(budgets)}],
    }


def _noise(plan: Plan) -> list[JsonValue]:
    """The noise of every step of each release, where it is accounted for the whole stream.

    Each has a picture of its own: releases of different size or unit would hide each other on one axis.
    """
    steps = min(plan.stream.horizon or ENDLESS_STRETCH, LONGEST_NOISE)
    known = (index for index, release in enumerate(plan.releases) if not follows_results(plan, release))
    return [_noise_of(plan, index, steps) for index in known]


def _noise_of(plan: Plan, index: int, steps: int) -> Json:
    """Noise against step; a gap where a step has none."""
    release = plan.releases[index]
    several = len(plan.releases) > 1
    values = np.nan_to_num(noise_stddevs(plan, release, steps))
    points: list[JsonValue] = [[str(t), about(float(values[t]), 4)] for t in map(int, thinned(values))]
    return {
        "id": f"noise-{index + 1}",
        "title": f"Noise of each step: {release.name}" if several else "Noise of each step",
        "description": f"Standard deviation of the noise against step, over the first {steps:,} steps.",
        **steps_axis(plan),
        "y": "standard deviation",
        "stepped": True,
        "level": None,
        "series": [{"name": release.name, "points": points}],
    }


def _leakage(accounting: Accounting) -> Json:
    plan, leakage = accounting.plan, accounting.leakage
    alphas = [target.alpha for target in plan.targets if isinstance(target, AlphaDPT) and target.window == 1]
    level: Json | None = (
        {"name": f"promised, {exact(min(alphas))} nats", "value": exact(min(alphas))} if alphas else None
    )
    return {
        "id": "leakage",
        "title": "Leakage about each step",
        "description": (
            f"Backward, forward and total leakage in nats against step, largest over groups, over {span(plan)}."
        ),
        **steps_axis(plan),
        "y": "leakage about the step, nats",
        "stepped": False,
        "level": level,
        "series": [
            {"name": "total (TPL)", "points": _points(leakage.total)},
            {"name": "backward (BPL)", "points": _points(leakage.backward)},
            {"name": "forward (FPL)", "points": _points(leakage.forward)},
        ],
    }


def _candidates(plan: Plan, index: int) -> Json:
    release = plan.releases[index]
    compared = [c for c in release.candidates if c.predicted_error is not None]
    compared.sort(key=lambda c: (c.predicted_error, not c.chosen))
    size = SIZES.get(release.predicted.kind, "Expected")
    words = f"typical error of a published value, in {unit_words(plan, release)}"
    values = [about(typical(plan, c.predicted_error or 0.0)) for c in compared]
    cut = "; bars with ▸ are cut short" if values and some_cut(values) else ""
    return {
        "id": f"candidates-{index + 1}",
        "title": f"{size} error of every candidate for {release.name}",
        "description": f"Predicted {words}; the chosen candidate stands out{cut}.",
        "x": words,
        "bars": [
            {"name": ", ".join(name), "value": value, "chosen": c.chosen}
            for c, name, value in zip(compared, _differing(compared), values, strict=True)
        ],
    }


def _differing(candidates: list[Candidate]) -> list[list[str]]:
    """What tells candidates from each other; of one alone all of it."""
    parts = [(c.schedule, c.mechanism, c.estimator) for c in candidates]
    told = [len(set(part)) > 1 for part in zip(*parts, strict=True)]
    return [[part for part, differs in zip(one, told, strict=True) if differs or not any(told)] for one in parts]
