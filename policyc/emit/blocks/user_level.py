"""The blocks of a certificate that a promise about all events of a user has in words of its own."""

from __future__ import annotations

from policyc.emit.accounting import Accounting
from policyc.emit.blocks import bounds, sentences
from policyc.emit.blocks.accuracy import noise_words
from policyc.emit.blocks.assumptions import UNPREDICTABLE_NOISE, one_ledger, steps_and_users
from policyc.emit.blocks.correlation import correlation
from policyc.emit.blocks.failures import failures
from policyc.emit.blocks.mechanism import GENERATOR, described, parameters
from policyc.emit.blocks.not_covered import not_covered
from policyc.emit.blocks.periods import habits, habits_beside, more_steps, other_periods, several_periods
from policyc.emit.blocks.pictures import user_level_pictures
from policyc.emit.blocks.promise import alpha_dpt_promise
from policyc.emit.blocks.public_numbers import public_numbers, unprotected_sentence
from policyc.emit.blocks.user_bounds import implied_bounds
from policyc.emit.blocks.user_limits import (
    Groups,
    amount_told,
    at_delta,
    first_point,
    in_odds,
    kind_of,
    left_words,
    recomputed,
    released_loss,
    together,
    told_of_results,
)
from policyc.emit.blocks.user_participation import (
    KEPT,
    KEPT_OF_A_STEP,
    bound_words,
    cells_words,
    participation,
    record_of,
    steps_words,
)
from policyc.emit.blocks.user_steps import (
    ASSUMED,
    is_assumed,
    left_in_all,
    limited_participation,
    spent_words,
    user_steps_of,
    user_steps_promise,
)
from policyc.emit.blocks.wording import (
    Json,
    JsonValue,
    all_published,
    in_period,
    quoted,
    relation_words,
    said,
    span,
    user,
)
from policyc.emit.numbers import about, counted, exact, likelihood_factor, sentence_case
from policyc.offers.calibration import l2_sensitivity
from policyc_check.plan.claims import UserLevelClaim, UserRhoClaim
from policyc_check.plan.targets import AlphaDPT, AnyUserPromise, AnyUserSteps, UserLevel, UserRho
from policyc_check.users.claims import Promise, promised_user_level, setting_of, window_of
from policyc_check.users.setting import Setting
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import DerivedRelease, MeasuredRelease, ReleasePlan
from policyc_runtime.sources.participation import counts_absent

INDEPENDENT = "Independent steps"
NAMES = {
    "user_level": "user-level differential privacy",
    "user_level_rho": "user-level zero-concentrated differential privacy",
    "event_level": "event-level differential privacy",
    "w_event": "w-event differential privacy",
}
SOURCES: dict[str, list[JsonValue]] = {
    "user_level": ["BW18", "DR14"],
    "user_level_rho": ["BS16", "CKS20"],
    "event_level": ["BW18", "DR14"],
    "w_event": ["BW18", "KELLARIS14"],
}


def user_level_blocks(plan: Plan) -> Json:
    """The blocks that replace those of promises about single steps."""
    groups = together(plan)
    accounting = Accounting(plan) if leaks_through_chains(plan) else None
    return {
        "promises": _promises(plan),
        "not_covered": _not_covered(plan, groups) if accounting is None else [*failures(plan), *not_covered(plan)],
        "assumptions": user_level_assumptions(plan, groups),
        "correlation": correlation(accounting)
        if accounting is not None
        else {
            "kind": "any",
            "chains": [],
            "growth": [],
            "tolerance": [],
            "evidence": plan.correlation.evidence,
            "words": "Steps of one user are taken as independent: who knows how they depend on each other can learn "
            f"more.{_of_all_events(plan)}"
            if window_of(plan) is not None
            else "Nothing is assumed about it: the promise holds however the steps of one user depend on each "
            f"other, because it covers all of them{in_period(plan)} together.",
        },
        "implied_bounds": implied_bounds(plan, groups) if accounting is None else bounds.implied_bounds(accounting),
        "mechanisms": [_mechanism(plan, release) for release in plan.releases],
        "participation": participation(plan),
        "pictures": user_level_pictures(plan, accounting),
    }


def leaks_through_chains(plan: Plan) -> bool:
    """Whether it is promised of the noise of all steps what leaks from one to others."""
    return any(isinstance(target, AlphaDPT) for target in plan.targets)


def _promises(plan: Plan) -> list[JsonValue]:
    """All promises in the order of the policy."""
    found: list[JsonValue] = []
    users = promised_user_level(plan)
    needed = [title for title in _titles(plan) if title != INDEPENDENT]
    for number, target in enumerate(plan.targets, start=1):
        if isinstance(target, AnyUserSteps):
            found.append(user_steps_promise(plan, target, number, [*needed]))
        elif isinstance(target, AlphaDPT):
            found.append(alpha_dpt_promise(plan, target, number, [*needed]))
        elif isinstance(target, AnyUserPromise):
            found.append({**_promise(plan, users.index(target), target), "id": f"P{number}"})
    return found


def _titles(plan: Plan) -> list[str]:
    return [str(entry["title"]) for entry in user_level_assumptions(plan) if isinstance(entry, dict)]


def _of_all_events(plan: Plan) -> str:
    """That a promise about all events of a user, if there is one, does not rest on steps being independent."""
    return " Of the promise about all events of a user nothing is assumed of them." if user_steps_of(plan) else ""


def _promise(plan: Plan, index: int, target: AnyUserPromise) -> Json:
    record = record_of(plan)
    others = "any other" if in_period(plan) else "those of any other user"
    other = f"with {others} in their place" if target.relation.value == "replace_one" else "without"
    bounded = "Of one user only" if record.enforced else "One user, as is assumed, counts"
    sentence = (
        f"{all_published(plan)} tells {amount_told(plan, index)} about all events of "
        f"{user(plan)}{in_period(plan, target)} together. {sentences.ADVERSARY}"
        f"{other_periods(plan)}. {bounded} {steps_words(plan)}.{cells_words(plan)} "
        f"{told_of_results(plan, index, other)}"
    )
    numbers = first_point(plan, index)
    delta: Json = {"delta": exact(target.delta)} if isinstance(target, UserLevel) and target.delta > 0 else {}
    return {
        "kind": kind_of(target),
        "name": NAMES[kind_of(target)],
        "value": exact(target.rho if isinstance(target, UserRho) else target.epsilon),
        **delta,
        "unit": "rho" if isinstance(target, UserRho) else "nats",
        "unit_of_privacy": f"all events of one user{in_period(plan, target)}",
        "time_scope": span(plan),
        "neighboring_relation": target.relation.value,
        "neighbors": relation_words(plan, target),
        "sensitivity": [
            {"release": r.name, "l1": exact(r.l1_sensitivity), "reason": sentence_case(r.sensitivity_reason)}
            for r in plan.releases
        ],
        "sentence": sentence,
        "in_odds": in_odds(plan, index, span(plan)),
        **({} if numbers is None else {"factor": likelihood_factor(numbers[0])}),
        "adversary": f"{sentences.EVERY_OTHER}{other_periods(plan)}"
        + (sentences.HOWEVER_CONNECTED if target.window is None else ""),
        "holds": f"for all steps of {span(plan)} together",
        "recomputed": f"{recomputed(plan, index)}, over {span(plan)}",
        "theorem": sentences.ALL_STEPS.format(period=in_period(plan, target)),
        "derivation": f"{_derivation(target)}{spent_words(plan)} {sentences.CHECKED}",
        "sources": SOURCES[kind_of(target)],
        "conditional_on": [title for title in _titles(plan) if title != ASSUMED or not user_steps_of(plan)],
    }


def _derivation(target: AnyUserPromise) -> str:
    if isinstance(target, UserRho):
        return sentences.ADDED_RHO.format(told="Each epsilon")
    return sentences.ADDED_LOSS if target.delta == 0 else sentences.COMPOSED.format(steps="")


def _together_words(groups: Groups, noun: str) -> str:
    """`2.13 nats for 2 names, 4.6 nats for 4 names`."""
    return ", ".join(f"{kept} for {counted(size, noun)}" for size, kept in groups)


def user_level_assumptions(plan: Plan, groups: Groups = ()) -> list[JsonValue]:
    """What must stay true for a promise about all events of a user, most important first.

    Args:
        plan: with such a promise.
        groups: what users who act together are promised; only what remains when an assumption fails names it.
    """
    steps: list[JsonValue] = [] if window_of(plan) is None else [_independent_steps(plan)]
    if leaks_through_chains(plan):
        steps = steps_and_users(plan)
    beside = {target.bound: target for target in user_steps_of(plan) if is_assumed(plan, target)}
    assumed = [limited_participation(plan, target, left_in_all(plan, target)) for target in beside.values()]
    return [*steps, _bound(plan, groups), *assumed, public_numbers(plan), one_ledger(plan), UNPREDICTABLE_NOISE]


def _independent_steps(plan: Plan) -> Json:
    (claim, *_) = plan.claims.user_level
    left = left_words(claim.beyond[-1] if claim.beyond else claim)
    whole = f"{left}{at_delta(claim)} for all events of one user over {span(plan)}"
    endless = "nothing for the stream as a whole, which has no end"
    return {
        "id": "correlation",
        "title": INDEPENDENT,
        "statement": "The steps of one user tell nothing of each other.",
        "vouched_by": f"the policy: {said(plan.correlation.evidence or 'no evidence given')}",
        "if_it_fails": f"Against any correlation there remains {endless if plan.stream.horizon is None else whole}.",
    }


def _bound(plan: Plan, groups: Groups) -> Json:
    record = record_of(plan)
    (claim, *_) = plan.claims.user_level
    if record.enforced:
        how = KEPT[record.enforced] if window_of(plan) is None else KEPT_OF_A_STEP
        vouched = f"the run: {how}. It needs events, and refuses ready counts"
        return {
            "id": "participation",
            "title": "Limited participation",
            "statement": f"A user counts {bound_words(plan)}.{cells_words(plan)}{_absent(plan)}",
            "vouched_by": vouched,
            "if_it_fails": "It cannot fail for the users that the data names. A person with several names is several "
            f"users who act together, and is promised less, in whatever steps: {_together_words(groups, 'name')}"
            f"{at_delta(claim) and ',' + at_delta(claim)}.",
        }
    return {
        "id": "participation",
        "title": "Limited participation (assumed, not enforced)",
        "statement": f"A user takes part {bound_words(plan)}.{cells_words(plan)}{_absent(plan)} Nothing makes sure of "
        "that: the promise holds only while it is true.",
        "vouched_by": f"the policy: {said(record.assumed or '')}",
        "if_it_fails": f"{_left(plan, claim)} A user who counts several times as often in the same steps, or has "
        f"several names, is promised {_together_words(groups, 'name')}."
        f"{at_delta(claim) and ' All' + at_delta(claim) + '.'}",
    }


def _absent(plan: Plan) -> str:
    """Who is counted without an event, where anybody is."""
    cell = plan.stream.cell
    if cell is None or not any(counts_absent(plan, release) for release in plan.releases):
        return ""
    away = quoted(str(cell.otherwise))
    return f" Of a step one event of a user counts; who has none, or has it elsewhere, counts as {away}."


def _left(plan: Plan, claim: UserLevelClaim | UserRhoClaim) -> str:
    if not claim.beyond:
        return "Nobody can take part in more steps than there are."
    if window_of(plan) is not None:
        return "A user who counts m times as often in a step is m users who act together."
    if in_period(plan):
        return f"A user who takes part more often in a period is promised as much less: {several_periods(plan, claim)}."
    return f"A user who takes part in more steps is promised less: {more_steps(claim)}."


def _not_covered(plan: Plan, groups: Groups) -> list[JsonValue]:
    return [
        *failures(plan),
        *habits(plan),
        *habits_beside(plan, left_in_all(plan, user_steps_of(plan)[0]) if user_steps_of(plan) else ""),
        {
            "title": "One person with several names",
            "text": f"A user is one value of {quoted(plan.stream.user_column)}. Who appears under several is several "
            f"users who act together, and is promised less: {_together_words(groups, 'name')}.",
        },
        {
            "title": "Groups of people",
            "text": f"{sentences.TOGETHER} What is promised to them: {_together_words(groups, 'user')}.",
        },
        {
            "title": "What is true of the crowd",
            "text": sentences.CROWD,
        },
        {"title": "Numbers published as they are", "text": unprotected_sentence(plan)},
        {
            "title": "Everything outside this plan",
            "text": f"{sentences.OUTSIDE}: what they tell adds to this.",
        },
    ]


def _mechanism(plan: Plan, release: ReleasePlan) -> Json:
    description, sources = described(release.mechanism)
    promises = [target for target in plan.targets if isinstance(target, Promise)]
    if isinstance(release, DerivedRelease):
        hides = "nothing of its own: it is computed from what is protected already"
    else:
        settings = [setting_of(plan, release, target) for target in promises]
        step = counted(settings[0].contribution, "unit")
        norms = [f"{about(l2_sensitivity(one))} in L2 norm over {_moved(plan, one)}" for one in settings]
        hides = f"at most {step} in a step, {' and '.join(norms)}"
    alone = isinstance(release, MeasuredRelease) and len(promises) == 1
    lost = released_loss(plan, release) if alone and isinstance(release, MeasuredRelease) else None
    return {
        "release": release.name,
        "name": release.mechanism.described(),
        "description": description,
        "sources": sources,
        "parameters": parameters(release.mechanism),
        "generator": GENERATOR,
        "hides": hides,
        **({} if lost is None else {"lost": lost}),
        "noise_stddev": noise_words(plan, release),
        "time_scope": span(plan),
        "stretches": [],
        "table": "steps.csv",
    }


def _moved(plan: Plan, setting: Setting) -> str:
    return "all steps" if window_of(plan) is None else counted(setting.participation.steps, "step")
