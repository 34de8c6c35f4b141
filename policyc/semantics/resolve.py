"""From tree to policy: names are looked up, units converted, files read.

What cannot be given a meaning is reported, and everything else is still resolved, so that one pass shows all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.beside import with_budgets
from policyc.semantics.cells import column_of, level_columns
from policyc.semantics.constraints import resolve_postprocess
from policyc.semantics.correlations import resolve_correlation
from policyc.semantics.lengths import Clock
from policyc.semantics.made import with_rows
from policyc.semantics.objective import Objective, resolve_objective
from policyc.semantics.policy import CellSchema, Delivery, Made, Policy, Release, Stream, Wish
from policyc.semantics.postprocessing import Postprocess
from policyc.semantics.releases import Names, inherit_cells, resolve_release
from policyc.semantics.scope import Scope, spelt, suggest
from policyc.semantics.signals import resolve_signal, with_population
from policyc.semantics.statements import (
    resolve_delivery,
    resolve_participation,
    resolve_target,
    resolve_wish,
)
from policyc.semantics.streams import resolve_stream
from policyc.semantics.totals import with_totals
from policyc.semantics.windows import with_window
from policyc.syntax import tree as syntax
from policyc.syntax.tree import CallStatement, CellField, Correlation, Name, PolicyHeader, Tree, WordStatement

_ONCE = ("policy", "stream", "participation", "signal", "deliver", "objective", "budget", "mechanism", "estimate")
_NEEDED = {
    "policy": 'write `policy my_name "one line for the auditor"` first',
    "stream": "add `stream my_stream { ... }` with `user`, `time`, `step` and `horizon`",
    "release": "add `release my_release = count(my_stream)`",
}
Found = TypeVar("Found")
ByKeyword = dict[str, list[syntax.Statement]]


def resolve_policy(
    tree: Tree, directory: Path, known_clock: Clock | None = None, needed: Mapping[str, str] = _NEEDED
) -> tuple[Policy | None, list[Diagnostic]]:
    """What a tree means.

    Args:
        tree: the policy as written.
        directory: the policy's folder; files are looked up in it.
        known_clock: that of a plan that is held against this policy: its table counts, as zone rules change.
        needed: keywords of the statements that there must be, each with what to write.

    Returns:
        The policy, or None when some part of it has no meaning, and the findings in source order. A policy that comes
        with errors (a matrix row that does not sum to 1) can still be checked, but not planned.
    """
    scope = Scope(tree.source, directory, known_clock)
    policy = _resolve(scope, tree, needed)
    findings = sorted(scope.findings, key=lambda d: (d.span.start, d.span.end, d.code))
    return (None if scope.broken else policy), findings


def _resolve(scope: Scope, tree: Tree, needed: Mapping[str, str]) -> Policy | None:
    statements = _by_keyword(scope, tree, needed)
    header = cast(list[PolicyHeader], statements.get("policy", []))
    stream_trees = cast(list[syntax.Stream], statements.get("stream", []))
    stream = resolve_stream(scope, stream_trees[0]) if stream_trees else None
    releases, made = _releases(scope, statements, stream_trees, None if stream is None else stream.cell)
    states = stream.cell.states if stream is not None and stream.cell is not None else None
    correlations = [resolve_correlation(scope, cast(Correlation, s), states) for s in statements.get("correlation", [])]
    targets = [resolve_target(scope, cast(CallStatement, s)) for s in statements.get("target", [])]
    participation = _one(scope, statements, "participation", resolve_participation)
    population = None if stream is None else stream.population
    signal = with_population(scope, _one(scope, statements, "signal", resolve_signal), population)
    delivery = _one(scope, statements, "deliver", resolve_delivery) or Delivery("offline")
    objective = _one(scope, statements, "objective", resolve_objective) or Objective("mean_squared_error")
    budget = _one(scope, statements, "budget", resolve_wish) or Wish("auto")
    mechanism = _one(scope, statements, "mechanism", resolve_wish) or Wish("auto")
    estimate = _one(scope, statements, "estimate", resolve_wish) or Wish("auto")
    postprocess = _postprocess(scope, statements, releases, made, stream)
    if stream is None or scope.broken:
        return None
    policy = Policy(
        source=tree.source,
        name=header[0].name.text if header else stream.name,
        purpose=header[0].purpose.value if header else "",
        stream=stream,
        releases=tuple(releases),
        targets=tuple(t for t in targets if t is not None),
        participation=participation,
        correlations=tuple(c for c in correlations if c is not None),
        signal=signal,
        delivery=delivery,
        objective=objective.name,  # type: ignore[arg-type]  # one of the two words
        weights=objective.weights,
        objective_span=objective.span,
        budget=budget,
        mechanism=mechanism,
        estimate=estimate,
        postprocess=tuple(postprocess),
        files=tuple(scope.files[name] for name in sorted(scope.files)),
        made=tuple(made),
    )
    return with_totals(with_budgets(with_window(policy)))


def _keyword(statement: syntax.Statement) -> str:
    if isinstance(statement, (CallStatement, WordStatement)):
        return statement.keyword.text
    return {
        PolicyHeader: "policy", syntax.Stream: "stream", syntax.Release: "release", Correlation: "correlation",
    }.get(type(statement), "postprocess")  # fmt: skip


def _by_keyword(scope: Scope, tree: Tree, needed: Mapping[str, str]) -> ByKeyword:
    """Statements by keyword, in order; too many (E0202) and too few (E0201) are reported."""
    statements: ByKeyword = {}
    for statement in tree.statements:
        keyword = _keyword(statement)
        earlier = statements.setdefault(keyword, [])
        if earlier and keyword in _ONCE:
            scope.refuse(
                "E0202", f"a policy has one `{keyword}`, and this is another", statement.span,
                hint="keep one of them, or make a policy of each",
                labels=(Label(_head(earlier[0]), "the first one"),),
            )  # fmt: skip
        else:
            earlier.append(statement)
    for keyword, hint in needed.items():
        if keyword not in statements:
            place = tree.statements[0].span if tree.statements else Span(0, 0)
            scope.refuse("E0201", f"the policy has no `{keyword}`", place, hint=hint)
    return statements


def _head(statement: syntax.Statement) -> Span:
    """A short span that stands for a statement: its name or value."""
    if isinstance(statement, (PolicyHeader, syntax.Stream, syntax.Release)):
        return statement.name.span
    return statement.span


def _one(
    scope: Scope, statements: ByKeyword, keyword: str, resolve: Callable[[Scope, CallStatement], Found | None]
) -> Found | None:
    found = statements.get(keyword, [])
    return resolve(scope, cast(CallStatement, found[0])) if found else None


def _releases(
    scope: Scope, statements: ByKeyword, stream_trees: list[syntax.Stream], cell: CellSchema | None
) -> tuple[list[Release], list[Made]]:
    """What is measured or made of noisy values, and what is made of released ones."""
    trees = cast(list[syntax.Release], statements.get("release", []))
    taken: dict[str, Span] = {"population": Span(0, 0)}
    if stream_trees:
        taken[stream_trees[0].name.text] = stream_trees[0].name.span
    for tree in trees:
        _claim(scope, tree.name, taken)
    names = None
    if stream_trees:
        names = Names(stream_trees[0].name.text, _columns(stream_trees[0]), tuple(tree.name.text for tree in trees))
    resolved = [resolve_release(scope, tree, names) for tree in trees]
    made = [one for one in resolved if isinstance(one, Made)]
    releases = inherit_cells(scope, [one for one in resolved if isinstance(one, Release)], made)
    return releases, with_rows(scope, made, releases, cell)


def _claim(scope: Scope, name: Name, taken: dict[str, Span]) -> None:
    """Gives a name to a release, or reports that something else has it (E0203)."""
    if name.text == "population":
        scope.refuse("E0203", "`population` is a word of the language", name.span, hint="choose another name")
    elif name.text in taken:
        first = (Label(taken[name.text], "the first one"),)
        scope.refuse("E0203", f"the name `{name.text}` is taken", name.span, hint="choose another name", labels=first)
    elif alike := [other for other in taken if other.casefold() == name.text.casefold()]:
        scope.refuse(
            "E0225", f"`{name.text}` and `{alike[0]}` differ in capitals alone", name.span,
            because="every release is written to a file of its name, and many systems take the two for one file",
            hint="choose another name",
            labels=(Label(taken[alike[0]], "the first one"),),
        )  # fmt: skip
    else:
        taken[name.text] = name.span


def _columns(tree: syntax.Stream) -> tuple[str, ...]:
    """The columns of the cell and its levels as written, known even when the stream is broken elsewhere."""
    cell = next((f for f in tree.fields if isinstance(f, CellField)), None)
    return () if cell is None else (column_of(cell.column), *map(column_of, level_columns(cell)))


def _postprocess(
    scope: Scope, statements: ByKeyword, releases: list[Release], made: list[Made], stream: Stream | None
) -> list[Postprocess]:
    """Constraints, one block a release. Without a stream nothing is known about cells, so nothing is said."""
    trees = cast(list[syntax.Postprocess], statements.get("postprocess", []))
    written = [s.name.text for s in cast(list[syntax.Release], statements.get("release", []))]
    by_name = {release.name: release for release in releases}
    made_by_name = {one.name: one for one in made}
    first: dict[str, Span] = {}
    blocks = []
    for tree in trees:
        name = tree.release.text
        if name not in written:
            hint, edit = suggest(name, written), spelt(tree.release, written)
            scope.refuse("E0204", f"there is no release `{name}`", tree.release.span, hint=hint, edit=edit)
        elif name in first:
            scope.refuse(
                "E0202", f"`{name}` has two `postprocess` blocks", tree.release.span,
                hint="write all its constraints in one block", labels=(Label(first[name], "the first one"),),
            )  # fmt: skip
        elif name in made_by_name and any(not isinstance(part, syntax.Suppression) for part in tree.constraints):
            one = made_by_name[name]
            scope.refuse(
                "E0236", f"`{name}` is made of released values, and has no constraints of its own", tree.span,
                because="it has to agree with the values that it is made of",
                hint=f"write them for `{one.of}`: `postprocess {one.of} {{ ... }}`; only `suppress` may stand here",
                labels=(Label(one.span, "made here"),),
            )  # fmt: skip
        elif stream is not None and (release := by_name.get(name) or made_by_name.get(name)) is not None:
            others = tuple(other for other in written if other != name)
            cells = stream.values_by(release.by)
            blocks.append(resolve_postprocess(scope, tree, release, cells, stream.population, others))
        first.setdefault(name, tree.release.span)
    return blocks
