"""How noise is drawn, how the budget is spread over time, and which ways of doing it were compared."""

from __future__ import annotations

import inspect
import math
import re
from decimal import Decimal
from itertools import groupby

from policyc.emit.accounting import Accounting
from policyc.emit.blocks.accuracy import objective_words, typical_error
from policyc.emit.blocks.wording import Json, JsonValue, span
from policyc.emit.numbers import about, counted, exact, grouped, sentence_case
from policyc_check.records import Record
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, Scheduled
from policyc_runtime.predicted_errors import Candidate

LARGEST_STRETCHES = 8
GENERATOR = "the operating system's cryptographic generator; no seed exists outside simulation"


def mechanisms(accounting: Accounting) -> list[JsonValue]:
    """Block G: one entry a release."""
    return [_mechanism(accounting, release) for release in accounting.plan.scheduled]


def _mechanism(accounting: Accounting, release: Scheduled) -> Json:
    description, sources = described(release.mechanism)
    stretches = _stretches(release)
    return {
        "release": release.name,
        "name": release.mechanism.name,
        "description": description,
        "sources": sources,
        "parameters": parameters(release.mechanism),
        "generator": GENERATOR,
        "schedule": release.schedule.name,
        "unit": "nats",
        "time_scope": span(accounting.plan),
        "stretches": stretches[:LARGEST_STRETCHES],
        "more_stretches": str(max(len(stretches) - LARGEST_STRETCHES, 0)),
        "table": "steps.csv",
    }


def described(record: Record) -> tuple[str, list[JsonValue]]:
    """What a mechanism or estimator says of itself in its documentation, and the keys of its sources."""
    kind = type(record)
    paragraphs = _paragraphs(kind)
    checked = next((base for base in kind.__mro__ if base.__module__.startswith("policyc_check.mechanisms.")), kind)
    if checked is not kind:  # of a mechanism the check says what it measures; what draws it adds to that
        paragraphs = [*_paragraphs(checked), *paragraphs[1:]]
    sources: list[JsonValue] = []
    words = []
    told = getattr(record, "told", None)
    if told is not None:  # which of what it can do it does here
        paragraphs = [paragraphs[0], *told, *(one for one in paragraphs if one.startswith("Source:"))]
    for paragraph in paragraphs:
        if paragraph.startswith("Source:"):
            sources += re.findall(r"[A-Z]+[0-9]+", paragraph)
        elif not re.match(r"(Args|Raises|Returns|Attributes):", paragraph):
            words.append(paragraph)
    return " ".join(words).replace("``", "`"), sources


def _paragraphs(kind: type) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in (inspect.getdoc(kind) or "").split("\n\n")]


def parameters(record: Record) -> Json:
    """The fields of a mechanism or estimator, but its name, as text."""
    fields = record.model_dump(mode="json", exclude={"name", "accounting"})
    return {name: None if value is None else _as_text(value) for name, value in fields.items()}


def _as_text(value: object) -> str:
    """A field; of a record within a record, what it declares, field by field."""
    if not isinstance(value, dict):
        return str(value)
    told = [f"{name} {_as_text(one)}" for name, one in value.items() if one is not None and one is not False]
    return ", ".join(told) or "nothing declared"


def _stretches(release: Scheduled) -> list[JsonValue]:
    """Consecutive steps of equal budget and scale, or segments whose pattern releases one step of several."""
    if any(segment.epsilons[0] == 0 or len(segment.epsilons) > 1 for segment in release.schedule.segments):
        return _patterns(release)
    entries: list[JsonValue] = []
    start = 0
    for (epsilon, scale), members in groupby(release.schedule.segments, lambda one: (one.epsilons[0], one.scales[0])):
        repeats = [segment.repeats for segment in members]
        count = sum(times or 0 for times in repeats)
        last = "on" if repeats[-1] is None else f"to {start + count - 1:,}"
        entries.append(
            {
                "steps": f"{start:,}" if last == f"to {start:,}" else f"{start:,} {last}",
                "epsilon": exact(epsilon),
                **_noise(release, scale),
            }
        )
        start += count
    return entries


def _patterns(release: Scheduled) -> list[JsonValue]:
    """One entry a released step of every segment, then the steps without a release."""
    entries: list[JsonValue] = []
    start = 0
    for segment in release.schedule.segments:
        period = len(segment.epsilons)
        for place, (epsilon, scale) in enumerate(zip(segment.epsilons, segment.scales, strict=True)):
            if epsilon == 0:
                continue
            first = start + place
            every = f", every {counted(period, 'step')}" if period > 1 else ""
            if segment.repeats is None:
                steps = f"{first:,} on{every}"
            elif segment.repeats == 1:
                steps = f"{first:,}"
            else:
                steps = f"{first:,} to {first + (segment.repeats - 1) * period:,}{every}"
            entries.append({"steps": steps, "epsilon": exact(epsilon), **_noise(release, scale)})
        start += period * (segment.repeats or 0)
    entries.append({"steps": "all others", "epsilon": "0", "scale": "no release", "noise_stddev": None})
    return entries


def _noise(release: Scheduled, scale: Decimal) -> Json:
    """The noise of a step; of one whose budget follows from earlier results the scale only tells an error."""
    if isinstance(release, AdaptiveRelease):
        return {"scale": "as results allow", "noise_stddev": None}
    stddev = about(math.sqrt(release.mechanism.variance(scale))) if scale > 0 else None
    return {"scale": exact(scale), "noise_stddev": stddev}


def choice(plan: Plan) -> list[JsonValue]:
    """Block H: every candidate of every release, best first."""
    return [
        {
            "release": release.name,
            "objective": objective_words(plan, release),
            "candidates": [
                {
                    "name": f"{c.schedule}, {c.mechanism}, {c.estimator}",
                    "schedule": c.schedule,
                    "mechanism": c.mechanism,
                    "estimator": c.estimator,
                    "typical": None if c.predicted_error is None else typical_error(plan, c.predicted_error),
                    "predicted_error": None if c.predicted_error is None else grouped(about(c.predicted_error)),
                    "chosen": c.chosen,
                    "reason": sentence_case(c.reason),
                }
                for c in sorted(release.candidates, key=_rank)
            ],
        }
        for release in plan.releases
    ]


def _rank(candidate: Candidate) -> tuple[bool, bool, float]:
    error = candidate.predicted_error
    return not candidate.chosen, error is None, error or 0.0
