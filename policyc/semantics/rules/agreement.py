"""Levels that agree: do they add up, each value to one, and can all that is asked of them hold?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.feasibility import conflicting
from policyc.semantics.policy import Policy, Release
from policyc.semantics.postprocessing import Agreement, LinearConstraint, Postprocess

FREE = (Decimal("-Infinity"), Decimal("Infinity"))
Bounds = list[tuple[Decimal, Decimal]]  # of the values of a release, in order


def check_agreements(policy: Policy) -> Iterator[Diagnostic]:
    """E0722, E0723, E0724, E0607: releases that do not add up, share no values, are not planned, or contradict."""
    by_name = {release.name: release for release in policy.releases}
    adding: dict[str, Agreement] = {}
    for block in policy.postprocess:
        child = by_name.get(block.release)
        for one in block.agreements if child is not None else ():
            assert child is not None, "others have no such constraint"
            parent = by_name.get(one.parent)
            found = _not_adding_up(policy, one, child, parent) or _not_above(policy, one, child, parent)
            found = found or _beside(policy, one, child, block)
            if found is None and one.parent in adding:
                message = f"two releases add up to `{one.parent}`"
                found = _unplanned(one, message, "values would have to agree along two ways", "keep one of the two")
            adding.setdefault(one.parent, one)
            if found is not None:
                yield found
                return
    yield from _out_of_reach(policy, by_name, adding)


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


def _beside(policy: Policy, one: Agreement, child: Release, block: Postprocess) -> Diagnostic | None:
    """E0724: what is done to values that agree, beside making them agree."""
    if len(block.agreements) > 1:
        return _unplanned(one, f"`{child.name}` adds up to two releases", "values would have to agree along two ways",
                          "let it add up to the finer of the two, and that to the other")  # fmt: skip
    if child.name in _sums_of(policy, one.parent):
        return _unplanned(one, f"`{one.parent}` adds up to `{child.name}` already", "a sum is of parts, not of itself",
                          "drop one of the two constraints")  # fmt: skip
    return None


def _is_total(row: LinearConstraint) -> bool:
    """Whether a constraint says what all values of a release add up to."""
    sums = row.relation == "==" and not row.previous
    return sums and len(row.current) == row.cells > 1 and len(set(row.current.values())) == 1


def _limit(row: LinearConstraint) -> Decimal:
    """The bound of a constraint on one value, or on the sum of all."""
    return row.bound / next(iter(row.current.values()))


def _out_of_reach(
    policy: Policy, releases: Mapping[str, Release], adding: Mapping[str, Agreement]
) -> Iterator[Diagnostic]:
    """E0607: bounds of one level that no sums of values within those of the next finer one keep."""
    child_of = {one.parent: block.release for block in policy.postprocess for one in block.agreements}
    found: dict[str, Bounds] = {}

    def bounds(name: str) -> Bounds:
        if name not in found:
            found[name] = _own_bounds(policy, releases[name])
            if name in child_of:
                pairs = zip(found[name], _sums(policy, releases[child_of[name]], releases[name], bounds), strict=True)
                found[name] = [(max(low, least), min(high, most)) for (low, high), (least, most) in pairs]
        return found[name]

    for name, one in adding.items():
        if any(low > high for low, high in bounds(name)):
            message = f"no values of `{name}` keep its bounds and are sums of those of `{child_of[name]}` within theirs"
            yield _unkept(one, message, "widen the bounds of one of the two")
            return
        every = list(_level_and_parts(name, child_of))
        totals = {_limit(row) for level in every for row in _totals(policy, level)}
        totals |= {Decimal(total) for level in every if (total := _public_total(policy, releases[level])) is not None}
        lows, highs = zip(*bounds(name), strict=True)
        if len(totals) > 1 or any(not sum(lows) <= total <= sum(highs) for total in totals):
            message = (
                f"values of `{name}` cannot keep their bounds and add up to all that is said of them and their parts"
            )
            yield _unkept(one, message, "say one total, or widen bounds")
            return
    for child in child_of.values():
        if child not in adding:
            yield from _contradiction(policy, list(_level_and_sums(policy, releases[child], releases)))


Level = tuple[Release, Agreement | None]  # the second says that it adds up to the next


def _level_and_sums(policy: Policy, finest: Release, releases: Mapping[str, Release]) -> Iterator[Level]:
    """A release, what it adds up to, and what that adds up to."""
    block = policy.constraints_of(finest.name)
    one = None if block is None or not block.agreements else block.agreements[0]
    yield finest, one
    if one is not None:
        yield from _level_and_sums(policy, releases[one.parent], releases)


def _contradiction(policy: Policy, levels: Sequence[Level]) -> Iterator[Diagnostic]:
    """E0607: constraints on several values, or on those of two steps, that no values of all levels keep."""
    blocks = [policy.constraints_of(release.name) for release, _ in levels]
    rows = [row for block in blocks if block is not None for row in block.constraints]
    if all(len(row.current) == 1 or _is_total(row) for row in rows if not row.previous) and not any(
        row.previous for row in rows
    ):
        return
    sizes = [len(policy.stream.values_by(release.by)) for release, _ in levels]
    starts = [sum(sizes[:level]) for level in range(len(sizes))]
    groups: dict[Span, list[LinearConstraint]] = {}
    for start, block in zip(starts, blocks, strict=True):
        for row in () if block is None else block.constraints:
            groups.setdefault(row.span, []).append(_among(row, start, sum(sizes)))
    for level, (release, one) in enumerate(levels):
        if one is None:
            continue
        parts: list[dict[int, Decimal]] = [{starts[level + 1] + of: Decimal(-1)} for of in range(sizes[level + 1])]
        for cell, of in enumerate(_own(policy, release, levels[level + 1][0])):
            parts[of][starts[level] + cell] = Decimal(1)
        groups[one.span] = [
            LinearConstraint(one.text, one.line, sum(sizes), part, {}, "==", Decimal(0), one.span) for part in parts
        ]
    public = next((total for release, _ in levels if (total := _public_total(policy, release)) is not None), None)
    if public is not None:
        top = {starts[-1] + cell: Decimal(1) for cell in range(sizes[-1])}
        span = policy.stream.population_span or levels[-1][0].span
        groups[span] = [LinearConstraint(f"population {public:_}", 1, sum(sizes), top, {}, "==", Decimal(public), span)]
    conflict = conflicting(list(groups.values()), policy.stream.horizon)
    if conflict:
        first, *others = [rows[0] for rows in conflict]
        names = ", ".join(f"`{row.text[:60]}`" for row in others)
        yield Diagnostic(
            "E0607",
            f"`{first.text[:60]}` contradicts {names}",
            first.span,
            note="this",
            because="no values that agree satisfy these together, so nothing could be published",
            help="drop or widen one of them",
            labels=tuple(Label(row.span, "and this") for row in others),
        )


def _among(row: LinearConstraint, start: int, cells: int) -> LinearConstraint:
    """A constraint on values that are some of so many."""
    current = {cell + start: coefficient for cell, coefficient in row.current.items()}
    previous = {cell + start: coefficient for cell, coefficient in row.previous.items()}
    return replace(row, current=current, previous=previous, cells=cells)


def _own(policy: Policy, child: Release, parent: Release) -> list[int]:
    """By value of a release, the index of its own in the next."""
    cell, names = policy.stream.cell, policy.stream.values_by(parent.by)
    assert cell is not None, "the child is split by one of its columns"
    assert child.by is not None, "checked before"
    if parent.by is None:
        return [0] * len(policy.stream.values_by(child.by))
    above = dict(zip(cell.of_cells(child.by), cell.of_cells(parent.by), strict=True))
    index = {name: place for place, name in enumerate(names)}
    return [index[above.get(name, names[-1])] for name in policy.stream.values_by(child.by)]


def _unkept(one: Agreement, message: str, remedy: str) -> Diagnostic:
    because = "no values satisfy these together, so nothing could be published"
    return Diagnostic("E0607", message, one.span, because=because, help=remedy)


def _level_and_parts(name: str, child_of: Mapping[str, str]) -> Iterator[str]:
    """A release, what adds up to it, and what adds up to that."""
    yield name
    if name in child_of:
        yield from _level_and_parts(child_of[name], child_of)


def _public_total(policy: Policy, release: Release) -> int | None:
    """What noisy values of a release add up to where their noise adds up to nothing; None where it does not."""
    return policy.stream.population if policy.balances(release) else None


def _totals(policy: Policy, name: str) -> list[LinearConstraint]:
    """What the values of a release add up to, as far as its policy says it."""
    demanded = policy.constraints_of(name)
    return [] if demanded is None else [row for row in demanded.constraints if _is_total(row)]


def _own_bounds(policy: Policy, release: Release) -> Bounds:
    """What is asked of each value of a release."""
    found = [FREE] * len(policy.stream.values_by(release.by))
    demanded = policy.constraints_of(release.name)
    for row in () if demanded is None else demanded.constraints:
        if len(row.current) != 1 or row.previous:
            continue
        ((place, coefficient),) = row.current.items()
        low, high = found[place]
        if row.relation == "==" or (row.relation == ">=") == (coefficient > 0):
            low = max(low, _limit(row))
        if row.relation == "==" or (row.relation == "<=") == (coefficient > 0):
            high = min(high, _limit(row))
        found[place] = low, high
    return found


def _sums(policy: Policy, child: Release, parent: Release, bounds: Callable[[str], Bounds]) -> Bounds:
    """Between what the values of `child` add up to, by values of `parent`."""
    found = [(Decimal(0), Decimal(0))] * len(policy.stream.values_by(parent.by))
    for own, (low, high) in zip(_own(policy, child, parent), bounds(child.name), strict=True):
        found[own] = found[own][0] + low, found[own][1] + high
    return found


def _sums_of(policy: Policy, name: str) -> set[str]:
    """All releases to which one adds up in the end."""
    found, ahead = set[str](), [name]
    while ahead:
        block = policy.constraints_of(ahead.pop())
        new = {one.parent for one in (block.agreements if block is not None else ())} - found
        found |= new
        ahead += new
    return found


def _unplanned(one: Agreement, message: str, because: str, hint: str) -> Diagnostic:
    return Diagnostic("E0724", message, one.span, because=because, help=hint)
