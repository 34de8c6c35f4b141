"""What is asked of the values of levels that agree: can all of it hold?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.feasibility import conflicting
from policyc.semantics.policy import Policy, Release
from policyc.semantics.postprocessing import Agreement, LinearConstraint

FREE = (Decimal("-Infinity"), Decimal("Infinity"))
Bounds = list[tuple[Decimal, Decimal]]  # of the values of a release, in order


@dataclass(frozen=True)
class AgreeingLevels:
    """Releases that agree, each before those that it adds up to; `links` say which does to which, by their places."""

    releases: tuple[Release, ...]
    links: tuple[tuple[int, int, Agreement], ...]

    @property
    def crossed(self) -> bool:
        """Whether a release adds up to several."""
        return len({child for child, _, _ in self.links}) < len(self.links)

    @staticmethod
    def own(policy: Policy, child: Release, parent: Release) -> list[int]:
        """By value of a release, the index of its own in another."""
        cell, names = policy.stream.cell, policy.stream.values_by(parent.by)
        assert cell is not None, "the child is split by one of its columns"
        assert child.by is not None, "checked before"
        if parent.by is None:
            return [0] * len(policy.stream.values_by(child.by))
        above = dict(zip(cell.of_cells(child.by), cell.of_cells(parent.by), strict=True))
        index = {name: place for place, name in enumerate(names)}
        return [index[above.get(name, names[-1])] for name in policy.stream.values_by(child.by)]


def agreeing_levels(policy: Policy) -> list[AgreeingLevels]:
    """All releases that agree with others, together with these."""
    said = [(block.release, one) for block in policy.postprocess for one in block.agreements]
    found = []
    while said:
        names, links = {said[0][0]}, list[tuple[str, Agreement]]()
        while new := [pair for pair in said if not names.isdisjoint((pair[0], pair[1].parent))]:
            names |= {name for child, one in new for name in (child, one.parent)}
            links += new
            said = [pair for pair in said if pair not in new]
        left, order = [release for release in policy.releases if release.name in names], list[Release]()
        while left:
            above = {one.parent for child, one in links if any(release.name == child for release in left)}
            order.append(next(release for release in left if release.name not in above))
            left.remove(order[-1])
        places = {release.name: place for place, release in enumerate(order)}
        pairs = sorted(((places[child], places[one.parent], one) for child, one in links), key=lambda pair: pair[:2])
        found.append(AgreeingLevels(tuple(order), tuple(pairs)))
    return found


def _is_total(row: LinearConstraint) -> bool:
    """Whether a constraint says what all values of a release add up to."""
    sums = row.relation == "==" and not row.previous
    return sums and len(row.current) == row.cells > 1 and len(set(row.current.values())) == 1


def _limit(row: LinearConstraint) -> Decimal:
    """The bound of a constraint on one value, or on the sum of all."""
    return row.bound / next(iter(row.current.values()))


def beyond_bounds(policy: Policy, levels: AgreeingLevels) -> bool:
    """Whether more is asked than whole bounds of single values of the finest release, and what all add up to."""
    for place, release in enumerate(levels.releases):
        block = policy.constraints_of(release.name)
        for row in () if block is None else block.constraints:
            bound = place == 0 and len(row.current) == 1 and not row.previous and _limit(row) % 1 == 0
            if not bound and not _is_total(row):
                return True
    return False


def out_of_reach(policy: Policy, levels: list[AgreeingLevels]) -> Iterator[Diagnostic]:
    """E0607: bounds of one level that no sums of values within those of the next finer one keep, and other demands."""
    releases = {release.name: release for release in policy.releases}
    parts_of: dict[str, list[tuple[str, Agreement]]] = {}
    for block in policy.postprocess:
        for one in block.agreements:
            parts_of.setdefault(one.parent, []).append((block.release, one))
    found: dict[str, Bounds] = {}

    def bounds(name: str) -> Bounds:
        if name not in found:
            found[name] = _own_bounds(policy, releases[name])
            for child, _ in parts_of.get(name, ()):
                pairs = zip(found[name], _sums(policy, releases[child], releases[name], bounds), strict=True)
                found[name] = [(max(low, least), min(high, most)) for (low, high), (least, most) in pairs]
        return found[name]

    for name, ((child, one), *_) in parts_of.items():
        if any(low > high for low, high in bounds(name)):
            message = f"no values of `{name}` keep its bounds and are sums of those of `{child}` within theirs"
            yield _unkept(one, message, "widen the bounds of one of the two")
            return
        every = list(dict.fromkeys(_level_and_parts(name, parts_of)))
        totals = {_limit(row) for level in every for row in _totals(policy, level)}
        totals |= {Decimal(total) for level in every if (total := _public_total(policy, releases[level])) is not None}
        lows, highs = zip(*bounds(name), strict=True)
        if len(totals) > 1 or any(not sum(lows) <= total <= sum(highs) for total in totals):
            message = (
                f"values of `{name}` cannot keep their bounds and add up to all that is said of them and their parts"
            )
            yield _unkept(one, message, "say one total, or widen bounds")
            return
    for together in levels:
        yield from _contradiction(policy, together)


def _contradiction(policy: Policy, levels: AgreeingLevels) -> Iterator[Diagnostic]:
    """E0607: constraints on several values, or on those of two steps, that no values of all levels keep."""
    releases = levels.releases
    blocks = [policy.constraints_of(release.name) for release in releases]
    rows = [row for block in blocks if block is not None for row in block.constraints]
    if not levels.crossed and all(not row.previous and (len(row.current) == 1 or _is_total(row)) for row in rows):
        return
    sizes = [len(policy.stream.values_by(release.by)) for release in releases]
    starts = [sum(sizes[:level]) for level in range(len(sizes))]
    groups: dict[Span, list[LinearConstraint]] = {}
    for start, block in zip(starts, blocks, strict=True):
        for row in () if block is None else block.constraints:
            groups.setdefault(row.span, []).append(_among(row, start, sum(sizes)))
    for child, parent, one in levels.links:
        parts: list[dict[int, Decimal]] = [{starts[parent] + of: Decimal(-1)} for of in range(sizes[parent])]
        for cell, of in enumerate(levels.own(policy, releases[child], releases[parent])):
            parts[of][starts[child] + cell] = Decimal(1)
        groups[one.span] = [
            LinearConstraint(one.text, one.line, sum(sizes), part, {}, "==", Decimal(0), one.span) for part in parts
        ]
    public = next((total for release in releases if (total := _public_total(policy, release)) is not None), None)
    if public is not None:
        top = {starts[-1] + cell: Decimal(1) for cell in range(sizes[-1])}
        span = policy.stream.population_span or releases[-1].span
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


def _unkept(one: Agreement, message: str, remedy: str) -> Diagnostic:
    because = "no values satisfy these together, so nothing could be published"
    return Diagnostic("E0607", message, one.span, because=because, help=remedy)


def _level_and_parts(name: str, parts_of: Mapping[str, list[tuple[str, Agreement]]]) -> Iterator[str]:
    """A release, what adds up to it, and what adds up to that."""
    yield name
    for child, _ in parts_of.get(name, ()):
        yield from _level_and_parts(child, parts_of)


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
    for own, (low, high) in zip(AgreeingLevels.own(policy, child, parent), bounds(child.name), strict=True):
        found[own] = found[own][0] + low, found[own][1] + high
    return found
