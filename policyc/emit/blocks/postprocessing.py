"""What is done to the noisy values before they are published."""

from __future__ import annotations

import numpy as np

from policyc.emit.blocks.accuracy import objective_words, typical_error
from policyc.emit.blocks.mechanism import described, parameters
from policyc.emit.blocks.suppression import suppression
from policyc.emit.blocks.wording import Json, JsonValue, listed, quoted
from policyc.emit.numbers import about, grouped
from policyc_runtime.crossed_levels import Crossed
from policyc_runtime.estimation.projection import NearestValues
from policyc_runtime.estimation.safeguard import WRONGLY_LEFT, candidate_names, times_likelier
from policyc_runtime.noisy_values import follows_results
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan, Scheduled

NEAREST = (
    ", the nearest to them that keep all constraints of all levels are published instead, differences being measured "
    "in the same way."
)


def postprocessing(plan: Plan, attachments: dict[str, str]) -> list[JsonValue]:
    """Block I: one entry a release."""
    return [_postprocessing(plan, release, attachments) for release in plan.releases]


def _postprocessing(plan: Plan, release: ReleasePlan, attachments: dict[str, str]) -> Json:
    description, sources = described(release.estimator)
    constraints = list(dict.fromkeys((row.text, row.line) for row in release.constraints))
    constraints += [(one.text, one.line) for one in plan.agreements if one.child == release.name]
    if isinstance(release, Scheduled):
        errors = [error for segment in release.schedule.segments for error in segment.expected_errors]
    else:
        errors = [run.error for run in release.expected_errors]
    kind = release.predicted.kind
    least = release.predicted.least
    left_out = suppression(plan, release)
    return {
        **({} if left_out is None else {"suppression": left_out}),
        "release": release.name,
        "privacy": "It uses the noisy values and public numbers only, so it costs no privacy.",
        "estimator": release.estimator.name,
        "description": f"{description}{_agreement(plan, release)}",
        "sources": sources,
        "parameters": parameters(release.estimator),
        "check_of_the_chain": _check(release),
        "constraints": [{"text": text, "line": str(line)} for text, line in constraints],
        "integer": release.integer,
        "model": {"file": "map_model.py", "sha256": attachments.get("map_model.py")},
        "solver": _solver(plan, release),
        "bias": _bias(plan, release),
        "expected_error": {
            "typical": least
            + " to ".join(dict.fromkeys(typical_error(plan, one) for one in (min(errors), max(errors)))),
            "objective": objective_words(plan, release),
            "smallest": least + about(min(errors)),
            "largest": least + about(max(errors)),
            "where": ("of the noise alone, " if kind == "noise" else "")
            + ("a mean over all steps" if follows_results(plan, release) else "per step, in `steps.csv`"),
        },
    }


def _agreement(plan: Plan, release: ReleasePlan) -> str:
    """How values are made to add up to those of other releases; empty where they are not."""
    tree = next((tree for tree in plan.trees if release.name in tree.names), None)
    if tree is None:
        return ""
    words = listed([quoted(name) for name in tree.names])
    estimated = any(not isinstance(plan.release_named(name).estimator, NearestValues) for name in tree.names)
    known = all(plan.release_named(name).predicted.before_agreeing is not None for name in tree.names)
    first = (
        " Every level is estimated by itself first, under nothing but what its values add up to." if estimated else ""
    )
    unit = "in variances of the noise (least squares, HAY10)"
    if any(follows_results(plan, plan.release_named(name)) for name in tree.names):
        unit = "in what is expected of each level by itself while values stand still, squared (least squares)"
    elif estimated and known:
        unit = "in the squared errors that are expected of each level by itself (least squares)"
    gains = " the noise" if not estimated else " what is known"
    found = (
        f"{first} Then the values of {words} of a step are made to agree: each is the sum of those that belong to it. "
        f"They are the nearest such values, differences being measured {unit}, so "
        f"that in squared error every value gains from{gains} of the others."
    )
    if tree.total is not None:
        found += f" All values of a step add up to {grouped(about(tree.total))} at every level, which is public."
    if not tree.bounded and not tree.whole:
        return f"{found} They may be below 0, as noisy values are."
    bounds = any(one.bounded for one in tree.bounds)
    kept = [word for word, asked in (("bounds", bounds), ("whole numbers", tree.whole)) if asked]
    if isinstance(tree, Crossed):
        whole = " They are the nearest whole numbers." if tree.nearest_whole else ""
        if tree.whole and not tree.nearest_whole:
            whole = " Then values of the finest level are rounded, and sums are those of rounded values."
        words = " Where these break a constraint" if tree.demands is not None else ""
        return f"{found}{whole}{words}{NEAREST if words else ''}"
    if kept:
        found += (
            f" They keep {listed(kept)} from the top down: each level's are the nearest that do, and that add up to "
            "what was found above, so no bound or rounding of a level moves values above it."
        )
    if tree.demands is None:
        return found
    return f"{found} Where these break a constraint on several values or on two steps{NEAREST}"


def _check(release: ReleasePlan) -> Json | None:
    """How the declared chain is held against the noisy values; None where it is believed as it is, or not used."""
    if not release.estimator.asks_noisy_values:
        return None
    likelier = grouped(about(times_likelier(len(candidate_names()))))
    percent = about(100 * WRONGLY_LEFT)
    return {
        "words": (
            "The declared chain is checked against the noisy values: at every step the candidate is used under which "
            f"they are likeliest, and the declared chain unless another is {likelier} times likelier, which happens to "
            f"users who move as declared in at most {percent} % of all streams. The check sees released values and "
            "public numbers only, so it costs no privacy, whatever it finds."
        ),
        "candidates": list(candidate_names()),
        "record": (
            "What was used at each step is in the hash-chained ledger (column `process`); `policyc run` says it when "
            "it ends, and `policyc verify --ledger` computes it again from the noisy values."
        ),
    }


def _solver(plan: Plan, release: ReleasePlan) -> str:
    if plan.agrees(release.name):
        alone = "`map_model.py` finds the most probable values of this release alone, which do not agree with others"
        tree = next(tree for tree in plan.trees if release.name in tree.names)
        if isinstance(tree, Crossed):
            asked = tree.demands is not None or tree.nearest_whole
            program = ", and a program of all levels (HiGHS) where constraints ask for one" if asked else ""
            return f"the least squares of all levels at once, factorised once{program}; {alone}"
        program = "" if tree.demands is None else ", and a program of all levels (HiGHS) where constraints ask for one"
        return f"one pass up the releases that agree and one down, each level exactly{program}; {alone}"
    own = "the kernel's own recursions, then its projection onto the constraints"
    if release.estimator.plain or release.estimator.name in {"filter", "smoother"}:
        instead = "joint_map()" if plan.delivery.kind == "offline" else "map(prior = initial)"
        how = "" if release.estimator.plain else f"; `estimate {instead}` would publish these"
        return f"{own}; `map_model.py` finds the most probable values instead, not the published expectations{how}"
    if release.estimator.name == "joint_map":
        return (
            "the kernel's own interior-point method on the dual, which ends when the cost is shown to be within 1e-8 "
            "of the least (or after 300 rounds), then its projection onto the constraints; `map_model.py` states both "
            "problems for any solver"
        )
    return "the kernel's own exact or convex solver; `map_model.py` states the same problem for any solver"


def _bias(plan: Plan, release: ReleasePlan) -> str | None:
    """What the estimator and a lower bound do to the mean; None when neither does anything."""
    notes = [_pull(release), _floor(plan, release)]
    return " ".join(note for note in notes if note) or None


def _pull(release: ReleasePlan) -> str | None:
    """What believing a law does to the values."""
    if release.estimator.name in {"none", "mle"}:
        return None
    if release.estimator.plain:
        return (
            "Values are pulled towards what the course of the series makes likely: a sudden true change is partly "
            "erased, or spread over the steps beside it."
        )
    return (
        "Values are pulled towards what the declared chain expects: a true change that the chain does not expect is "
        "partly erased, and the expected error holds only while users move as the chain says."
    )


def _floor(plan: Plan, release: ReleasePlan) -> str | None:
    """What a lower bound does to the mean."""
    below = any(row.relation == ">=" for row in release.constraints)
    balanced = any(row.relation == "==" for row in release.constraints)
    for tree in plan.trees:
        for name, bounds in zip(tree.names, tree.bounds, strict=False):  # none where nothing is asked
            below = below or (name == release.name and bool(np.isfinite(bounds.lower).any()))
            balanced = balanced or (name == release.name and name != tree.names[-1])
    if not below:
        return None
    rest = "; since the values must add up, larger values come out somewhat too low" if balanced else ""
    return (
        "Values that must not be negative are biased: small true counts come out too high on average"
        f"{rest}. The noisy values, which are published beside them, have no bias."
    )
