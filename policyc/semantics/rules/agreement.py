"""Levels that agree: do they add up, each value to one, and along which ways?"""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Policy, Release
from policyc.semantics.postprocessing import Agreement
from policyc.semantics.rules.demands_of_levels import AgreeingLevels, agreeing_levels, beyond_bounds, out_of_reach


def check_agreements(policy: Policy) -> Iterator[Diagnostic]:
    """E0722, E0723, E0724, E0607: releases that do not add up, share no values, are not planned, or contradict."""
    by_name = {release.name: release for release in policy.releases}
    for block in policy.postprocess:
        child = by_name.get(block.release)
        for one in block.agreements if child is not None else ():
            assert child is not None, "others have no such constraint"
            parent = by_name.get(one.parent)
            found = _not_adding_up(policy, one, child, parent) or _not_above(policy, one, child, parent)
            found = found or _beside(policy, one, child)
            if found is not None:
                yield found
                return
    levels = agreeing_levels(policy)
    refused = next((found for one in levels if (found := _not_crossing(policy, one)) is not None), None)
    if refused is not None:
        yield refused
        return
    yield from out_of_reach(policy, levels)


def _not_adding_up(policy: Policy, one: Agreement, child: Release, parent: Release | None) -> Diagnostic | None:
    """E0722: who is in several cells of one value is one user there, and several in its parts."""
    usual = None if policy.participation is None else policy.participation.cells_per_step
    if parent is None or child.base is not None or parent.base is not None:
        other = child if child.base is not None else parent
        what = f"`{one.parent}`" if other is None else f"`{other.name}`"
        message, because = f"{what} is no count and no sum", "what agrees has noise of its own, weighed by its variance"
        labels: tuple[Label, ...] = ()
        hint = "name a count or a sum of the stream"
    elif (child.kind, child.column, child.clamp) != (parent.kind, parent.column, parent.clamp):
        message = f"`{child.name}` and `{parent.name}` do not count or add up the same"
        because, hint = "parts of one number are of its kind", "name two counts, or sums of one column and clamp"
        labels = (Label(parent.span, "this one"),)
    elif any(release.by is not None and (release.cells_per_step or usual or 1) > 1 for release in (child, parent)):
        message = f"values of `{child.name}` do not add up to `{parent.name}`"
        because = "a user counts in several cells, and once in what they belong to: the parts are more than the whole"
        hint = "write `cells_per_step = 1` for both, or drop the constraint: every level is right by itself"
        labels = () if policy.participation is None else (Label(policy.participation.span, "said here"),)
    else:
        return None
    return Diagnostic("E0722", message, one.span, because=because, help=hint, labels=labels)


def _not_above(policy: Policy, one: Agreement, child: Release, parent: Release | None) -> Diagnostic | None:
    """E0723: each value of the child belongs to one of the parent."""
    cell = policy.stream.cell
    assert parent is not None, "checked before"
    hint = f"name a release by a level to which each `{child.by}` belongs, or without `by`"
    if child.by is None or cell is None or child.by == parent.by:
        message = f"`{child.name}` has the same values as `{parent.name}`"
        message = f"`{child.name}` is one number a step" if child.by is None else message
        return Diagnostic("E0723", f"{message}: there is nothing to add up", one.span, help=hint)
    if parent.by is None and cell.otherwise is not None:
        message = f"`{parent.name}` does not count users who are `{cell.otherwise}`, and `{child.name}` does"
        hint = f"write `sum({child.name}) == population`, or name a release by a level"
        return Diagnostic("E0723", message, one.span, help=hint, labels=(Label(cell.span, "said here"),))
    several = None if parent.by is None else cell.astride(child.by, parent.by)
    if several is None:
        return None
    name, first, second = several
    return Diagnostic(
        "E0723",
        f"`{name[:40]}` of `{child.name}` belongs to several of `{parent.name}`",
        one.span,
        because=f"it belongs to `{first[:40]}` and to `{second[:40]}`: neither is the sum of whole values",
        help=hint,
    )


def _beside(policy: Policy, one: Agreement, child: Release) -> Diagnostic | None:
    """E0724: what adds up to itself or follows from the rest."""
    if child.name in _sums_of(policy, one.parent):
        return _unplanned(one, f"`{one.parent}` adds up to `{child.name}` already", "a sum is of parts, not of itself",
                          "drop one of the two constraints")  # fmt: skip
    if one.parent in _sums_of(policy, child.name, but=one):
        return _unplanned(one, f"`{child.name}` adds up to `{one.parent}` already", "it follows from the others",
                          "drop this constraint")  # fmt: skip
    return None


def _not_crossing(policy: Policy, levels: AgreeingLevels) -> Diagnostic | None:
    """E0724: what cannot agree along several ways, of which a release is the finest and adds up to all others."""
    if not levels.crossed:
        return None
    import numpy as np

    from policyc_runtime.crossed_levels import MOST_SUMS, reason_against

    (finest, *others), last = levels.releases, levels.links[-1][2]
    whole = [_whole(policy, release.name, levels) for release in levels.releases]
    for other in others:
        if other.name not in {one.parent for _, _, one in levels.links}:
            message = f"`{finest.name}` and `{other.name}` agree along several ways, and neither is a sum of the other"
            return _unplanned(last, message, "what agrees along several ways are sums of one release",
                              f"let `{finest.name}` add up to `{other.name}`, or drop the constraint")  # fmt: skip
    above = [np.array(levels.own(policy, finest, other)) for other in others]
    names = [release.name for release in levels.releases]
    reason = reason_against(names, above, whole, demanding=beyond_bounds(policy, levels))
    if reason is None:
        return None
    if any(whole) and not whole[0]:
        because, remedy = "a sum of whole numbers is one", f"write `integer({finest.name})`, or drop what asks for them"
    elif any(whole):
        because = (
            "along three ways values are rounded at the finest level, as it is NP-complete whether whole numbers have "
            "given sums there (Irving, Jerrum 1994); what is asked of sums may not survive that"
        )
        remedy = "drop `integer(...)`, or one of the three, or what is asked"
    else:
        because, remedy = (
            f"the least squares of more than {MOST_SUMS:,} are slow",
            "drop a constraint, or the finest level",
        )
    return _unplanned(last, reason, because, remedy)


def _whole(policy: Policy, name: str, levels: AgreeingLevels) -> bool:
    """Whether values are whole numbers, as what adds up to them may be."""
    block = policy.constraints_of(name)
    parts = (levels.releases[child].name for child, parent, _ in levels.links if levels.releases[parent].name == name)
    return (block is not None and block.integer) or any(_whole(policy, part, levels) for part in parts)


def _sums_of(policy: Policy, name: str, but: Agreement | None = None) -> set[str]:
    """All releases to which one adds up in the end, without one of the constraints."""
    found, ahead = set[str](), [name]
    while ahead:
        block = policy.constraints_of(ahead.pop())
        new = {one.parent for one in (block.agreements if block is not None else ()) if one is not but} - found
        found |= new
        ahead += new
    return found


def _unplanned(one: Agreement, message: str, because: str, hint: str) -> Diagnostic:
    return Diagnostic("E0724", message, one.span, because=because, help=hint)
