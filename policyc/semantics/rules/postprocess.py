"""What is demanded of released values: from public numbers only, and possible at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.feasibility import conflicting
from policyc.semantics.policy import Policy
from policyc.semantics.postprocessing import LinearConstraint, Postprocess
from policyc.semantics.targets import UserLevelTarget

_POPULATION = re.compile(r'"(?:[^"\\]|\\.)*"|\b(population)\b')


def check_postprocess(policy: Policy) -> Iterator[Diagnostic]:
    """Findings about the `postprocess` blocks."""
    for block in policy.postprocess:
        yield from _private_population(policy, block)
        yield from _contradiction(policy, block)
        yield from _nothing_left(block)


def _private_population(policy: Policy, block: Postprocess) -> Iterator[Diagnostic]:
    """E0602: neighbors that differ in the number of users make that number private."""
    target = next((t for t in policy.targets if isinstance(t, UserLevelTarget) and t.neighbors == "add_remove"), None)
    if target is None:
        yield from _users_of_several_cells(policy, block)
        return
    for place in _populations_in(policy, block):
        yield Diagnostic(
            "E0602",
            "released values may not tell the number of users here",
            place,
            because="under add/remove neighbors the number of users is itself protected: a `population` that the "
            "policy states may stand beside the values, but values must not be made to fit it",
            help="use `neighbors = replace`, or drop the constraint",
            labels=(Label(target.span, "promised here"),),
        )


def _users_of_several_cells(policy: Policy, block: Postprocess) -> Iterator[Diagnostic]:
    """E0602: users who count in several cells are fewer than what the cells add up to."""
    release = next((release for release in policy.releases if release.name == block.release), None)
    usual = None if policy.participation is None else policy.participation.cells_per_step
    if release is None or release.by is None or (release.cells_per_step or usual or 1) == 1:
        return
    for place in _populations_in(policy, block):
        yield Diagnostic(
            "E0602",
            "the cells do not add up to the number of users here",
            place,
            because="a user counts in several cells of a step",
            help="drop the constraint, or write `cells_per_step = 1`",
        )


def _populations_in(policy: Policy, block: Postprocess) -> Iterator[Span]:
    """Where its constraints name the population, a place each."""
    for span in dict.fromkeys(constraint.span for constraint in block.constraints):
        place = _population_in(policy, span)
        if place is not None:
            yield place


def _population_in(policy: Policy, span: Span) -> Span | None:
    """Where a constraint says `population`, outside quotes."""
    for match in _POPULATION.finditer(policy.source.text, span.start, span.end):
        if match.group(1):
            return Span(match.start(), match.end())
    return None


def _nothing_left(block: Postprocess) -> Iterator[Diagnostic]:
    """E0610: an equation fixes the only value of a step, so a constant would be published."""
    for row in block.constraints:
        if row.cells == 1 and row.relation == "==" and row.current and not row.previous:
            yield Diagnostic(
                "E0610",
                f"`{row.text[:60]}` fixes the only number that is published",
                row.span,
                because="the same constant would be published at every step, and the budget spent for nothing",
                help="drop it, or publish the count `by` cell",
            )


def _contradiction(policy: Policy, block: Postprocess) -> Iterator[Diagnostic]:
    """E0607: the smallest set of constraints that no values satisfy."""
    by_span: dict[Span, list[LinearConstraint]] = {}
    for row in block.constraints:
        by_span.setdefault(row.span, []).append(row)
    conflict = conflicting(list(by_span.values()), policy.stream.horizon)
    if not conflict:
        return
    first, *others = [rows[0] for rows in conflict]
    names = ", ".join(f"`{row.text[:60]}`" for row in others)
    yield Diagnostic(
        "E0607",
        f"`{first.text[:60]}` contradicts {names}" if others else f"`{first.text[:60]}` can never hold",
        first.span,
        note="this" if others else "no values satisfy this",
        because="no values satisfy these together, so nothing could be published",
        help="drop or widen one of them; the others can stay" if len(others) > 1 else "drop or widen one of them",
        labels=tuple(Label(row.span, "and this") for row in others),
    )
