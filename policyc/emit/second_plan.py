"""A plan held against the one that its policy gives when it is planned again: predictions, candidates, warnings.

Planning reads the policy and its files alone, and simulates with fixed seeds: the same code makes the same plan, but
for what another machine rounds otherwise. So numbers may be a little off, and words may not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from policyc.diagnostics import PolicyError
from policyc.emit.printed_numbers import NUMBER, same_text
from policyc.emit.stored_policy import other_maker
from policyc.planning.declaration import Difference, compared, known_clock, shown
from policyc.planning.plan import make_plan
from policyc.semantics.checked import check_file
from policyc_check.claims import Claim
from policyc_runtime.plan import PLAN, Plan
from policyc_runtime.planned_release import ReleasePlan, Scheduled
from policyc_runtime.predicted_errors import Candidate, PredictedError

NAME = "what the plan predicts, considered and warns of is what its policy gives"
NOT_THE_POLICY = "E0855"
SLACK = 0.01  # of a number: where a search ends depends on the last digits
STDERRS = 4  # and so does a simulation
NOTHING = 1e-12  # what is this small is 0 on another machine
TIED = 1e-9  # of errors: closer ones are told apart by rounding alone


def not_planned() -> Claim:
    """The same claim, where nobody plans again."""
    return Claim(NAME, None, "not checked: it takes planning the policy again, which `--quick` leaves out", PLAN)


def planned_again(folder: Path, plan: Plan) -> Claim:
    """The claim that planning the stored policy gives this plan; takes what `compile` takes.

    What differs from a plan that other code is said to have made is not called forged: it cannot be checked here.

    Args:
        folder: holds the policy and its files, as they were compiled.
        plan: that is said to be of this policy.
    """
    place, other_code = folder / plan.policy.source.name, other_maker(folder, plan)
    help_ = "verify the plan with what made it, or compile the policy again"
    try:
        _, _, policy, findings = check_file(place, known_clock(plan))
        anew, _ = make_plan(policy, findings)
    except PolicyError as error:
        reason = f"no plan is made of the policy: {error.diagnostics[-1].message}"
        if other_code is not None:
            return Claim(NAME, None, f"not checked: by this code {reason}; {other_code} made one; {help_}", str(place))
        return Claim(NAME, False, reason, str(place), NOT_THE_POLICY)
    found = next(planned_differences(plan, anew), None)
    if found is None:
        return Claim(NAME, True, "the policy was planned again and compared with the whole plan", str(place))
    said, stored = shown(found.policy), shown(found.plan)
    where = f"{folder / 'plan.json'}: {found.place}"
    if other_code is not None:
        differs = f"planned again it says {said} at {found.place} and not {stored}, as {other_code} made it"
        return Claim(NAME, None, f"not checked: {differs}; {help_}", where)
    if _tied(plan, anew):
        tie = "several candidates err the same, and this machine rounds for another one"
        return Claim(NAME, None, f"not checked: {tie}; compile the policy here and use that plan", where)
    return Claim(NAME, False, f"planned again it says {said}, the plan {stored}", where, NOT_THE_POLICY)


def planned_differences(plan: Plan, anew: Plan) -> Iterator[Difference]:
    """Where a plan differs, by more than machines do, from one that was made anew of its policy.

    Candidates may come in any order: that of equal errors is a machine's.
    """
    said, stored = anew.model_dump(mode="json"), plan.model_dump(mode="json")
    for name in (name for name in said if name not in ("compiler", "digest", "releases", "made")):
        yield from compared(name, said[name], stored[name], partial(_near, slack=SLACK))
    if len(anew.releases) != len(plan.releases):
        yield Difference("releases", len(anew.releases), len(plan.releases))
    for index, (one, other) in enumerate(zip(anew.releases, plan.releases, strict=False)):
        records = _comparable(anew, one), _comparable(plan, other)
        yield from compared(f"releases.{index}", *records, partial(_near, slack=_slack(one.predicted)))
    if len(anew.made) != len(plan.made):
        yield Difference("made", len(anew.made), len(plan.made))
    for index, (made, kept) in enumerate(zip(anew.made, plan.made, strict=False)):
        slack = SLACK if made.predicted is None else _slack(made.predicted)
        pair = made.model_dump(mode="json"), kept.model_dump(mode="json")
        yield from compared(f"made.{index}", *pair, partial(_near, slack=slack))


def _slack(predicted: PredictedError) -> float:
    """By which part the numbers of a release may differ: more where its error was simulated."""
    if predicted.stderr is None or predicted.published <= 0:
        return SLACK
    return max(SLACK, STDERRS * predicted.stderr / predicted.published)


def _comparable(plan: Plan, release: ReleasePlan) -> dict[str, Any]:
    """A release without what rounding alone decides: order of candidates, and which errors of steps are the same."""
    content = release.model_dump(mode="json")
    content["candidates"].sort(key=_kind)
    if not isinstance(release, Scheduled):
        content["expected_errors"] = release.errors(plan.expected_steps)
    return content


def _kind(candidate: dict[str, Any]) -> tuple[list[str], list[float]]:
    names = [candidate[name] for name in ("schedule", "mechanism", "estimator")]
    numbers = [float(number.replace(",", "")) for name in names for number in NUMBER.findall(name)]
    return [NUMBER.sub("", name) for name in names], numbers


def _near(said: Any, stored: Any, slack: float) -> bool:
    if type(said) is not type(stored):
        return False
    if isinstance(said, str):
        return same_text(stored, said, slack)
    if isinstance(said, int | float) and not isinstance(said, bool):
        return math.isclose(said, stored, rel_tol=slack, abs_tol=NOTHING)
    return bool(said == stored)


def _tied(plan: Plan, anew: Plan) -> bool:
    """Whether another candidate was chosen here whose error is that of the one in the plan."""
    pairs = [(_chosen(one), _chosen(other), one) for one, other in zip(anew.releases, plan.releases, strict=False)]
    others = [(here, there, release) for here, there, release in pairs if _named(here) != _named(there)]
    return bool(others) and all(
        any(_named(entry) == _named(there) and _equal(entry, here) for entry in release.candidates)
        for here, there, release in others
    )


def _chosen(release: ReleasePlan) -> Candidate | None:
    return next((candidate for candidate in release.candidates if candidate.chosen), None)


def _named(candidate: Candidate | None) -> tuple[str, ...]:
    return () if candidate is None else (candidate.schedule, candidate.mechanism, candidate.estimator)


def _equal(one: Candidate, other: Candidate | None) -> bool:
    errors = (one.predicted_error, None if other is None else other.predicted_error)
    return None not in errors and math.isclose(*errors, rel_tol=TIED)  # type: ignore[arg-type]
