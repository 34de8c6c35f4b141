"""How far published values will be from the truth, in words and numbers of the plan."""

from __future__ import annotations

import math

import numpy as np

from policyc.emit.blocks.wording import Json, JsonValue, chance, events_counted, in_period, listed, quoted, said
from policyc.emit.numbers import about, counted, grouped, sentence_case
from policyc_check.plan.queries import CountQuery, PrefixQuery, SumQuery, WindowQuery
from policyc_check.users.claims import own_bound, promised_user_level, setting_of, source_release
from policyc_runtime.noisy_values import follows_results, noise_stddevs, offset_of
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, DerivedRelease, MeasuredRelease, ReleasePlan, Scheduled
from policyc_runtime.predicted_errors import PredictedError
from policyc_runtime.suppression import suppresses


def objective_words(plan: Plan, release: ReleasePlan) -> str:
    """What the expected error is, with its unit."""
    if plan.objective == "mean_squared_error":
        return f"mean squared error of a published value, in {unit_words(plan, release)} squared"
    return f"mean absolute error of a published value, in {unit_words(plan, release)}"


def unit_words(plan: Plan, release: ReleasePlan) -> str:
    """What published values are counted in."""
    query = source_release(plan, release).query
    if isinstance(query, SumQuery):
        return f"units of {quoted(query.column)}"
    return "events" if events_counted(plan) > 1 else "users"


def accuracy(plan: Plan) -> list[JsonValue]:
    """How far published values will be from the truth, beside noise alone and the prior alone."""
    return [_accuracy(plan, release) for release in plan.releases]


def _accuracy(plan: Plan, release: ReleasePlan) -> Json:
    predicted = release.predicted
    values = (
        ("published", predicted.published, predicted.least),
        ("without post-processing", predicted.without_postprocessing, ""),
        ("prior alone", predicted.prior_alone, ""),
    )
    rows: list[JsonValue] = [
        {"name": name, "error": words + grouped(about(value)), "typical": words + typical_error(plan, value)}
        for name, value, words in values
        if value is not None and (name != "published" or predicted.kind != "noise")
    ]
    return {
        "release": release.name,
        "objective": objective_words(plan, release),
        "rows": rows,
        "method": sentence_case(predicted.method),
        "sentence": _accuracy_sentence(plan, release)
        + _common_sentence(plan, release)
        + _stretch_sentence(plan, release)
        + _signal_sentence(plan, release)
        + _dropped_sentence(plan, release)
        + (" That is of all values, before any are left out." if suppresses(plan, release) else ""),
    }


def typical_error(plan: Plan, error: float) -> str:
    """An expected error in the unit of the values, three digits."""
    return grouped(about(typical(plan, error)))


def typical(plan: Plan, error: float) -> float:
    """An expected error in the unit of the values: the root of a squared one."""
    return math.sqrt(error) if plan.objective == "mean_squared_error" else error


def _accuracy_sentence(plan: Plan, release: ReleasePlan) -> str:
    predicted, because = release.predicted, sentence_case(release.predicted.because or "")
    unit = unit_words(plan, release)
    if predicted.kind == "at_least":
        return (
            f"A published value is expected to be off by at least about {typical_error(plan, predicted.published)} "
            f"{unit}, as it is while the stream stands still. {because}."
        )
    if predicted.kind == "unconstrained":
        return (
            f"Before constraints, a value is expected to be off by at least about "
            f"{typical_error(plan, predicted.published)} {unit}. {because}. Where values lie "
            "near their bounds, constraints take some of that away."
        )
    if predicted.kind == "noise":
        return (
            f"The noisy value is expected to be off by about {typical_error(plan, predicted.published)} {unit}. "
            f"Values that are made of it are published, and how far off these are is not known. {because}."
        )
    text = f"A published value is expected to be off by about {typical_error(plan, predicted.published)} {unit}"
    text += _share_of_chance(predicted)
    others = []
    if predicted.without_postprocessing is not None:
        noisy = typical_error(plan, predicted.without_postprocessing)
        others.append(f"the noisy value alone{where_released(plan, release)} is off by about {noisy}")
    if predicted.prior_alone is not None:
        prior = typical_error(plan, predicted.prior_alone)
        others.append(f"a guess from public knowledge without any data is off by about {prior}")
    verdict = ""
    if predicted.prior_alone is not None and predicted.published >= predicted.prior_alone * 0.95:
        verdict = " The release then says little more than what was public before."
        if predicted.published > predicted.prior_alone * 1.05:
            verdict = " Who knows what was public before errs less without the release."
    said = "".join(f". {sentence_case(other)}" for other in others)
    return f"{text}{said}.{verdict}"


def _common_sentence(plan: Plan, release: ReleasePlan) -> str:
    """What all values, or those of a period or of a block of steps, are off by together."""
    offset = offset_of(plan, release)
    if not offset.stddev:
        return ""
    size = f"one draw of typically {about(offset.stddev)} {unit_words(plan, release)}"
    if offset.steps is None:
        return (
            f" A part of that is common to all values, {size}: means over steps keep it, and differences between steps "
            "are free of it."
        )
    setting = setting_of(plan, release, promised_user_level(plan)[0])
    if not setting.aligned or offset.steps != setting.period:
        return (
            f" A part of that is common to all values of a block of {counted(offset.steps, 'step')}, {size}, and the "
            "next block has its own: periods are not all as long, so that none has a draw to itself. Means over the "
            "steps of a block keep it, and differences between them are free of it."
        )
    return (
        f" A part of that is common to all values of a period of {counted(offset.steps, 'step')}, {size}, and the next "
        "period has its own: means over the steps of a period keep it, and differences between them are free of it."
    )


def _signal_sentence(plan: Plan, release: ReleasePlan) -> str:
    """That errors are those of values that move as the policy says, and who says so."""
    method = release.predicted.method
    if plan.signal is None or not any(words in method for words in ("declared signal", "declared process", "pilot")):
        return ""
    pilot = "pilot" in method
    how = "as a public series of the same kind did" if pilot else f"as {quoted(plan.signal.described())}"
    whose = (
        "nobody says why" if plan.signal_evidence is None else f"the policy's evidence: {said(plan.signal_evidence)}"
    )
    return f" That is for values that move {how} ({whose}); others have other errors, and the same promise."


def stretch_words(plan: Plan, release: ReleasePlan) -> str:
    """Which steps errors are means over, where a stream is endless and its steps differ."""
    if plan.stream.horizon is not None or isinstance(release, Scheduled):
        return ""
    return f"over the first {plan.expected_steps:,} steps"


def noise_words(plan: Plan, release: ReleasePlan) -> str:
    """The standard deviation of noisy values, or the least and the most, under promises about all of a user."""
    if follows_results(plan, release):
        return "as results allow"
    stddevs = noise_stddevs(plan, release, plan.expected_steps)
    low, high = about(float(np.nanmin(stddevs))), about(float(np.nanmax(stddevs)))
    return low if low == high else f"{low} to {high} {stretch_words(plan, release)}".rstrip()


def _stretch_sentence(plan: Plan, release: ReleasePlan) -> str:
    words = stretch_words(plan, release)
    if not words:
        return ""
    grows = "; those of a running total grow with the number of steps" if _totals_all(plan, release) else ""
    return f" Errors are means {words} of the endless stream{grows}."


def _totals_all(plan: Plan, release: ReleasePlan) -> bool:
    """Whether noise of all steps so far adds up in it."""
    query = release.query
    while isinstance(query, PrefixQuery | WindowQuery):
        if isinstance(query, PrefixQuery):
            return True
        query = plan.release_named(query.of).query
    return False


def where_released(plan: Plan, release: ReleasePlan) -> str:
    """At which steps there is a noisy value, where it is not all of them; its error is known at these alone."""
    if isinstance(release, MeasuredRelease):
        return ", at the steps that are measured," if release.mechanism.leaves_gaps else ""
    if not isinstance(release, Scheduled) or all(all(segment.scales) for segment in release.schedule.segments):
        return ""
    horizon = plan.stream.horizon
    if horizon is None:
        return ", at the steps that are released,"
    released = released_steps(release)
    return f", at the {counted(released, 'step')} that {'is' if released == 1 else 'are'} released,"


def released_steps(release: Scheduled) -> int:
    """At how many steps of a stream that ends something is released."""
    return sum((s.repeats or 0) * sum(scale > 0 for scale in s.scales) for s in release.schedule.segments)


def alone_words(plan: Plan, release: ReleasePlan) -> str:
    """What a release is without its post-processing: noise alone, or values that the mechanism made of it."""
    while isinstance(release, DerivedRelease):
        release = plan.release_named(release.query.of)
    made = isinstance(release, MeasuredRelease) and not release.mechanism.errs_by_variances
    return "the noisy values alone" if made or isinstance(release, AdaptiveRelease) else "the noise alone"


def _share_of_chance(predicted: PredictedError) -> str:
    """How far simulation may have missed it, in percent, where that is seen."""
    if not chance(predicted) or predicted.stderr is None:
        return ""
    return f" (simulated; the error has a standard error of {about(100 * predicted.stderr / predicted.published, 2)} %)"


def _dropped_sentence(plan: Plan, release: ReleasePlan) -> str:
    """That errors are of kept events, where some may be dropped."""
    if not plan.drops_from(release):
        return ""
    query = source_release(plan, release).query
    wrong = "wrong" if isinstance(query, SumQuery) and query.low < 0 else "too low"
    return (
        f" That is against the kept events. {sentence_case(dropped(plan, release))} are dropped before any noise is "
        f"added, so that values are {wrong}. By how much is not known before the data, and in no error here."
    )


def dropped(plan: Plan, release: ReleasePlan) -> str:
    """What of a user's an enforced bound drops from a release: `steps of one user beyond 50`."""
    record, told = plan.participation, []
    assert record is not None, "only a bound drops anything"
    if plan.drops_steps:
        told.append(f"steps of one user beyond {own_bound(plan):,}{' of a period' if in_period(plan) else ''}")
        if record.spacing > 1:
            told.append(f"those less than {counted(record.spacing, 'step')} apart")
    query = source_release(plan, release).query
    if plan.drops_cells(release):
        told.append(f"cells of one user beyond {getattr(query, 'cells_per_step', 1):,} in a step")
    if isinstance(query, CountQuery | SumQuery) and query.cells_per_step is not None:
        if isinstance(query, SumQuery):
            cell = plan.stream.cell
            which = "cell" if cell is None or query.by in (None, cell.column) else quoted(str(query.by))
            told.append(f"events of one user beyond 1 in a {which} of a step")
    elif plan.drops_events(release):
        told.append(f"events of one user beyond {record.per_step:,} in a step")
    return listed(told)
