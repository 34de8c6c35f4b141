"""What changed in what is published, how it is made, and how accurate it will be: none of it touches the promise."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.emit.blocks.accuracy import typical_error
from policyc.emit.blocks.made import formula
from policyc.emit.difference.change import Change, Effect
from policyc.emit.numbers import exact
from policyc_check.plan.queries import Query, SumQuery, WindowQuery
from policyc_check.plan.stream import Delivery
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.predicted_errors import PredictedError


def compare_releases(old: Plan, new: Plan) -> Iterator[Change]:
    """Releases by name; delivery and objective of all."""
    before = {release.name: release for release in old.releases}
    after = {release.name: release for release in new.releases}
    for name in (*before, *(name for name in after if name not in before)):
        was, now = before.get(name), after.get(name)
        if was is None or now is None:
            gone = now is None
            reason = "the promise covers all releases together"
            yield Change(
                "release", name, "published" if gone else None, None if gone else "published", Effect.NEITHER, reason
            )
            continue
        rows: list[tuple[str, str | None, str | None]] = [
            ("what is counted", _query(was.query), _query(now.query)),
            ("mechanism", was.mechanism.described(), now.mechanism.described()),
            ("schedule", _schedule(was), _schedule(now)),
            ("estimator", was.estimator.described(), now.estimator.described()),
            ("constraints", _constraints(old, was), _constraints(new, now)),
        ]
        for what, left, right in rows:
            if left != right:
                yield Change("release", f"{what} of {name}", left, right, Effect.NEITHER, "the promise is not about it")
        left, right = _suppressions(was), _suppressions(now)
        if left != right:
            reason = "other values are shown; neither more nor less is promised"
            yield Change("release", f"what is left out of {name}", left, right, Effect.NEITHER, reason)
        if old.objective == new.objective:
            yield from _error(old, name, was.predicted, now.predicted)
    yield from _compare_made(old, new)
    if old.delivery != new.delivery:
        reason = "values wait for other steps than before"
        yield Change("release", "delivery", _delivery(old.delivery), _delivery(new.delivery), Effect.NEITHER, reason)
    if old.objective != new.objective:
        reason = "expected errors are in another unit, and not compared"
        yield Change("accuracy", "objective", old.objective, new.objective, Effect.NEITHER, reason)


def _compare_made(old: Plan, new: Plan) -> Iterator[Change]:
    """What is made of released values, by name: it costs nothing, and hides nothing."""
    before, after = (
        {made.name: ", ".join([formula(made), *(rule.text for rule in made.suppressions)]) for made in plan.made}
        for plan in (old, new)
    )
    for name in (*before, *(name for name in after if name not in before)):
        if before.get(name) != after.get(name):
            reason = "it is made of released values alone"
            yield Change("release", name, before.get(name), after.get(name), Effect.NEITHER, reason)


def _constraints(plan: Plan, release: ReleasePlan) -> str | None:
    texts = [row.text for row in release.constraints]
    texts += [one.text for one in plan.agreements if one.child == release.name]
    return ", ".join(dict.fromkeys(texts)) or None


def _suppressions(release: ReleasePlan) -> str | None:
    return ", ".join(rule.text for rule in release.suppressions) or None


def _error(plan: Plan, name: str, before: PredictedError, after: PredictedError) -> Iterator[Change]:
    """Typical errors, and how many times the error that plans are compared by."""
    was, now = before.published, after.published
    if before.kind != after.kind:
        what, reason = f"what is known of the error of {name}", "the two numbers are not of one kind"
        yield Change("accuracy", what, _known(plan, before), _known(plan, after), Effect.NEITHER, reason)
    elif was != now:
        error = plan.objective.replace("_", " ")
        ratio = now / was if was else float("inf")
        percent = f"{100 * abs(ratio - 1):.2g} % {'more' if now > was else 'less'} {error}"
        reason = percent if ratio < 2 else f"{ratio:.3g} times the {error}"
        left, right = typical_error(plan, was), typical_error(plan, now)
        yield Change("accuracy", f"typical error of {name}", left, right, Effect.NEITHER, reason)


def _known(plan: Plan, predicted: PredictedError) -> str:
    words = "noise alone " if predicted.kind == "noise" else predicted.least
    return words + typical_error(plan, predicted.published)


def _schedule(release: ReleasePlan) -> str | None:
    return None if release.schedule is None else release.schedule.name


def _query(query: Query) -> str:
    if isinstance(query, SumQuery):
        words = f"sum of {query.column}, clamped to {exact(query.low)} .. {exact(query.high)}, grid {exact(query.grid)}"
    elif query.kind == "count":
        words = "count"
    else:
        words = f"{query.kind} of {query.of}"
        words += f" over {query.steps:,} steps" if isinstance(query, WindowQuery) else ""
    return f"{words} by {query.by}" if query.by else words


def _delivery(delivery: Delivery) -> str:
    return delivery.kind if delivery.delay is None else f"{delivery.kind} {delivery.delay:,} steps"
