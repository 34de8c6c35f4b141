"""Numbers that a plan publishes, or uses, exactly as they are, and what has to be assumed of them."""

from __future__ import annotations

from datetime import UTC, datetime

from policyc.emit.blocks.wording import Json, JsonValue, listed, quoted
from policyc.emit.numbers import counted, exact, sentence_case
from policyc_check.plan.queries import SumQuery
from policyc_check.plan.stream import StreamRecord
from policyc_check.plan.targets import NeighboringRelation
from policyc_check.users.claims import promised_user_level
from policyc_runtime.plan import Plan
from policyc_runtime.sources.counts import counts_suffice

TITLES = {
    "population": "the population",
    "shares": "the shares of the groups",
    "cells": "the list of cells",
    "clamp": "the bounds that values are cut to",
    "horizon": "the horizon",
    "start": "the start",
}


def unprotected(plan: Plan) -> list[Json]:
    """Numbers that are published, or used, exactly as they are; those without a value are read from the data."""
    stream = plan.stream
    entries: list[Json] = []
    if stream.population is not None:
        entries.append(_entry("population", f"the population, {stream.population:,}{_told(plan)}", stream.population))
    if shares := [(record.share, record.group or "") for record in plan.correlation.chains if record.share is not None]:
        parts = listed([f"{exact(share)} of {quoted(group)}" for share, group in shares])
        entries.append(_entry("shares", f"the shares of the groups: {parts}", len(shares)))
    if stream.start is not None:
        words = f"the moment at which the stream starts, {stream.start}{_by_the_clock(stream)}"
        entries.append(_entry("start", words, stream.start))
    else:
        entries.append(_entry("start", "the moment at which the stream starts, which the first run is told"))
    if stream.cell is not None:
        count = len(stream.cell.states)
        entries.append(_entry("cells", f"the list of {count:,} values of {quoted(stream.cell.column)}", count))
        for level in stream.cell.levels:
            count = len(stream.cell.states_by[level.column])
            words = f"values of {quoted(level.column)}, and which {quoted(stream.cell.column)}"
            entries.append(_entry("level", f"the list of {count:,} {words} belongs to which", count))
    for release in plan.releases:
        if isinstance(release.query, SumQuery):
            low, high = exact(release.query.low), exact(release.query.high)
            entries.append(
                _entry(
                    "clamp",
                    f"the bounds that values in {quoted(release.name)} are cut to, {low} to {high}",
                    f"{low} .. {high}",
                )
            )
    entries.append(_entry("end", "how many steps are released, which the clock or whoever runs the plan says"))
    if stream.horizon is not None:
        entries.append(_entry("horizon", "the horizon", stream.horizon))
    return entries


def _by_the_clock(stream: StreamRecord) -> str:
    """Whose midnight it is, and how far its clock is known."""
    if stream.clock is None:
        return ""
    changes = counted(len(stream.clock.changes) - 1, "change")
    last = datetime.fromtimestamp(stream.clock.end + stream.clock.changes[-1][1], UTC).date()
    return f" at midnight of {stream.clock.zone} (its clock as known at compilation, with {changes} until {last})"


def _entry(name: str, words: str, value: int | str | None = None) -> Json:
    return {"name": name, "value": None if value is None else str(value), "words": words}


def _told(plan: Plan) -> str:
    """Where users may be added or removed, the true number of users is a secret, and the policy tells one."""
    if any(target.relation is NeighboringRelation.ADD_OR_REMOVE_ONE for target in promised_user_level(plan)):
        return " as the policy states it (the true number is protected, and must not be counted for it)"
    return ""


def unprotected_sentence(plan: Plan) -> str:
    """All of them, each as words that end in a full stop."""
    return " ".join(f"{sentence_case(str(entry['words']))}." for entry in unprotected(plan))


def public_numbers(plan: Plan) -> JsonValue:
    """The assumption that what the policy states of them is not taken from the protected data."""
    stated = {str(entry["name"]) for entry in unprotected(plan) if entry["value"] is not None}
    words = [title for name, title in TITLES.items() if name in stated]
    public = ""
    if words:
        are = "are" if len(words) > 1 else "is"
        public = f"{sentence_case(listed(words))} {are} public, not taken from the protected data. "
    told = (
        "when the stream starts and how many steps are released is said by the policy, the clock or whoever runs the "
        "plan, not by events"
    )
    rest = ""
    if counts_suffice(plan):
        rest = " Ready counts without gaps say how many by their last row, where whoever runs the plan does not."
    return {
        "id": "public_numbers",
        "title": "Public numbers",
        "statement": f"{public}{sentence_case(told)}.{rest}",
        "vouched_by": "whoever signs the policy; it cannot be checked here",
        "if_it_fails": "What these numbers give away is protected by nothing.",
    }
