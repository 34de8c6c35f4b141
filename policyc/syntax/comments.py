"""Which part of a policy a comment belongs to, so that formatting moves both together."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from policyc.diagnostics import Source
from policyc.syntax import tree

Container = tree.Stream | tree.Postprocess | tree.Call | tree.Sequence | tree.Set


@dataclass
class Comments:
    """The comments of a tree by the node they belong to (nodes are told apart by identity).

    Args:
        leading: on lines of their own before a node.
        trailing: on the line where a node ends.
        head: on the line where a bracket opens.
        last: on lines of their own before a bracket closes.
        first: before the first statement of the file.
        final: after the last statement of the file.
    """

    leading: dict[int, list[tree.Comment]] = field(default_factory=lambda: defaultdict(list))
    trailing: dict[int, tree.Comment] = field(default_factory=dict)
    head: dict[int, tree.Comment] = field(default_factory=dict)
    last: dict[int, list[tree.Comment]] = field(default_factory=lambda: defaultdict(list))
    first: list[tree.Comment] = field(default_factory=list)
    final: list[tree.Comment] = field(default_factory=list)

    def inside(self, container: Container) -> bool:
        """Whether a comment stands between the brackets, so that they cannot be written on one line."""
        keys = [id(unit) for unit in units(container)]
        own = id(container) in self.head or bool(self.last.get(id(container)))
        return own or any(self.leading.get(key) or key in self.trailing for key in keys)


def place_comments(policy: tree.Tree) -> Comments:
    """Gives every comment of a tree its node."""
    placed = Comments()
    for comment in policy.comments:
        _place(comment, policy, placed)
    return placed


def _place(comment: tree.Comment, policy: tree.Tree, placed: Comments) -> None:
    statements = policy.statements
    if not statements or comment.span.end <= statements[0].span.start:
        placed.first.append(comment)
        return
    siblings: Sequence[tree.Node] = statements
    container: Container | None = None
    while (unit := _around(siblings, comment)) is not None:
        inner = next((c for c in containers(unit) if _opening(c) <= comment.span.start < c.span.end), None)
        if inner is None:  # between the words of one unit: there is no line for it but the one before
            placed.leading[id(unit)].append(comment)
            return
        container, siblings = inner, units(inner)
    _place_between(comment, siblings, container, policy.source, placed)


def _place_between(
    comment: tree.Comment,
    siblings: Sequence[tree.Node],
    container: Container | None,
    source: Source,
    placed: Comments,
) -> None:
    """Places a comment that stands between two units, or between a bracket and a unit."""
    start = comment.span.start
    index = _count_before(siblings, start)
    before = siblings[index - 1] if index else None
    after = siblings[index] if index < len(siblings) else None
    if not comment.own_line:
        if (
            before is not None
            and id(before) not in placed.trailing
            and "\n" not in source.text[before.span.end : start]
        ):
            placed.trailing[id(before)] = comment
            return
        if before is None and container is not None and id(container) not in placed.head:
            placed.head[id(container)] = comment
            return
    if after is not None:
        placed.leading[id(after)].append(comment)
    elif container is not None:
        placed.last[id(container)].append(comment)
    else:
        placed.final.append(comment)


def _around(siblings: Sequence[tree.Node], comment: tree.Comment) -> tree.Node | None:
    index = _count_before(siblings, comment.span.start)
    return siblings[index - 1] if index and comment.span.start < siblings[index - 1].span.end else None


def _count_before(siblings: Sequence[tree.Node], offset: int) -> int:
    """How many of the units, which stand in source order, begin before an offset."""
    return bisect_right(siblings, offset, key=lambda unit: unit.span.start)


def _opening(container: Container) -> int:
    """Where the inside of a container begins."""
    if isinstance(container, tree.Stream):
        return container.name.span.end
    if isinstance(container, tree.Postprocess):
        return container.release.span.end
    if isinstance(container, tree.Call):
        return container.function.span.end
    return container.span.start


def units(container: Container) -> Sequence[tree.Node]:
    """The parts of a container that can have lines of their own."""
    if isinstance(container, tree.Stream):
        return container.fields
    if isinstance(container, tree.Postprocess):
        return container.constraints
    if isinstance(container, tree.Call):
        return container.arguments
    return container.items


def containers(unit: tree.Node) -> list[Container]:
    """The containers directly in a unit, or the unit itself."""
    if isinstance(unit, tree.Stream | tree.Postprocess | tree.Call | tree.Sequence | tree.Set):
        return [unit]
    if isinstance(unit, tree.Release):
        return [unit.query]
    if isinstance(unit, tree.Correlation | tree.Suppression):
        return [unit.call]
    if isinstance(unit, tree.CellField):
        return [unit.cells] if unit.levels is None else [unit.cells, unit.levels]
    if isinstance(unit, tree.Argument | tree.StreamField | tree.CallStatement | tree.WordStatement):
        return containers(unit.value)
    return []
