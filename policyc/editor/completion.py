"""What can be written at a place: statements, fields, kinds, options, their values, and the policy's own names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from policyc.diagnostics import Source
from policyc.editor.explanations import FIELDS, STATEMENTS, WORDS, signature
from policyc.editor.names import Names, cells_of, names_in
from policyc.semantics.calls import Parameter
from policyc.semantics.made import MADE_QUERIES
from policyc.semantics.signatures import offer_of, parameters_of, signatures, words_of
from policyc.syntax.scan import LEXEME, Scan, scan_policy

MOST = 500  # of cells and files; an editor asks again when more is typed
FILES = (".csv", ".npy")
FUNCTIONS = {
    "sum": "over all cells",
    "previous": "the value released one step earlier",
    "integer": "whole numbers",
    "suppress": "which values are left out",
}
_STATEMENT = re.compile(rf"(?m)^[ \t]*({'|'.join((*STATEMENTS,))})\b")


@dataclass(frozen=True)
class Suggestion:
    """One thing that can be written.

    Args:
        label: what is shown, and filtered by.
        kind: of what it is.
        says: a few words about it.
        written: what is inserted.
        parts: of `written`, what a person is to replace: the values of examples.
    """

    label: str
    kind: Literal["keyword", "field", "kind", "option", "value", "name", "file"]
    says: str = ""
    written: str = ""
    parts: tuple[str, ...] = ()


def suggestions(source: Source, directory: Path, offset: int) -> list[Suggestion]:
    """What can be written at a place, whether what stands there already is right or not."""
    begun = re.search(r"[A-Za-z_]\w*\Z", source.text[:offset])
    cut = offset if begun is None else begun.start()
    before = source.text[:cut]
    names = names_in(source)
    last = None
    for last in LEXEME.finditer(before):  # noqa: B007  only the last is asked for
        pass
    if last is not None and last.lastgroup in {"comment", "remark"}:
        return []
    if last is not None and last.lastgroup == "open_string":
        return _in_quotes(source, directory, scan_policy(Source("", before[: last.start()])), names)
    return list(_Place(scan_policy(Source("", before)), names, source.text[cut:]).suggestions())


def _in_quotes(source: Source, directory: Path, scan: Scan, names: Names) -> list[Suggestion]:
    """Files after `file(`, cells after `NAME[`."""
    if re.search(r"\bfile\s*\(\s*\Z", scan.masked):
        try:
            present = sorted(path.name for path in directory.iterdir() if path.name.lower().endswith(FILES))
        except OSError:
            present = []
        return [Suggestion(name, "file", "beside the policy", name) for name in present[:MOST]]
    if re.search(r"\w\s*\[\s*\Z", scan.masked) and "postprocess" in scan.masked:
        return [
            Suggestion(cell, "name", "a cell", _escaped(cell)) for cell in cells_of(source, directory, names)[:MOST]
        ]
    return []


class _Place:
    """A place outside of quotes and comments, and what stands around it."""

    def __init__(self, scan: Scan, names: Names, after: str) -> None:
        found = None
        for found in _STATEMENT.finditer(scan.masked):  # noqa: B007  only the last is asked for
            pass
        self.names = names
        self.keyword = "" if found is None else found.group(1)
        start = len(scan.masked) if found is None else found.end()
        self.body = scan.masked[start:]
        self.line = scan.masked[scan.masked.rfind("\n") + 1 :]
        self.after = after
        self.open = [(place - start, sign) for place, sign in scan.open_brackets(start, len(scan.masked))]

    def suggestions(self) -> Iterator[Suggestion]:
        """All that fits."""
        if self.keyword == "stream" and self.open and self.open[0][1] == "{":
            if len(self.open) == 1:
                yield from self._fields()
        elif self.open and self.open[-1][1] == "(":
            yield from self._arguments()
        elif self.keyword == "postprocess" and self.open:
            yield from self._constraints()
        elif not self.open:
            yield from self._words()
            if not self.line.strip():
                yield from (Suggestion(word, "keyword", says, word) for word, says in STATEMENTS.items())

    # ------------------------------------------------------------ statements

    def _words(self) -> Iterator[Suggestion]:
        """What may follow in a statement, outside of all brackets."""
        body = self.body.strip()
        if self.keyword == "release" and body.endswith("="):
            yield from self._kinds("release")
        elif self.keyword == "postprocess" and not body:
            yield from _names(self.names.releases, "a release")
        elif self.keyword in signatures() and self.keyword not in {"release", "postprocess"} and not body:
            yield from self._kinds(self.keyword)
        elif self.keyword == "release" and body.endswith(")"):
            yield Suggestion("by", "keyword", WORDS["by"], "by")
        elif self.keyword == "correlation" and body.endswith(")"):
            yield Suggestion("for", "keyword", WORDS["for"], "for")
        elif self.keyword == "release" and re.search(r"\bby\Z", body):
            yield from _names(self.names.columns, "a column")

    def _kinds(self, keyword: str) -> Iterator[Suggestion]:
        for name, parameters in signatures()[keyword].items():
            offer = offer_of(keyword, name)
            says = offer.says if offer is not None else signature(name, parameters)
            needed = [one for one in parameters if one.required]
            yield _call(name, needed, says) if parameters or offer is not None else Suggestion(name, "kind", says, name)

    def _fields(self) -> Iterator[Suggestion]:
        """Fields of the stream that are not there yet, and what may follow in the line of one."""
        inside = self.body[self.open[0][0] + 1 :]
        tokens = re.findall(r'"[^"\n]*"|\w+|[{}()]', inside)
        last, before = (["", "", *tokens])[-1], (["", "", *tokens])[-2]
        waits = last in FIELDS and before not in FIELDS
        if waits and last == "horizon":
            yield Suggestion("unbounded", "value", "it never ends", "unbounded")
            yield Suggestion("288 steps", "value", "so many steps", "288 steps", ("288",))
        elif waits and last == "step":
            yield from (Suggestion(one, "value", "", one) for one in ("5min", "1h", "1d", "1w", "month"))
        elif before == "cell":
            yield Suggestion("in", "keyword", WORDS["in"], "in")
        elif last == "in":
            yield Suggestion('{"A", "B"}', "value", "every cell", '{"A", "B"}', ('"A", "B"',))
            yield Suggestion('file("cells.csv")', "value", "cells of a file", 'file("cells.csv")', ("cells.csv",))
        elif not waits:
            if re.search(r"\bcell\b[^\n]*[)}]\s*\Z", inside):
                yield from (Suggestion(word, "keyword", WORDS[word], word) for word in ("otherwise", "levels"))
            said = {
                *re.findall(r"(?m)(?:^|\s)([a-z]+)\b(?=\s+\S)", inside),
                *re.findall(r"(?m)^\s*([a-z]+)\b", self._rest()),
            }
            yield from (Suggestion(word, "field", says, word) for word, says in FIELDS.items() if word not in said)

    def _rest(self) -> str:
        """What stands behind the place, up to the end of the block."""
        return re.split(r"(?m)^\}", self.after)[0]

    # ------------------------------------------------------------ calls

    def _arguments(self) -> Iterator[Suggestion]:
        """Options of a call, or values of the one that is begun."""
        place = self.open[-1][0]
        function = re.search(r"([A-Za-z_]\w*)\s*\Z", self.body[:place])
        written = self.body[place + 1 :]
        if function is None:
            yield from self._constraints()
            return
        name = function.group(1)
        if self.keyword == "budget" and name == "parts":
            yield from (Suggestion(one, "name", "its part", f"{one} = 0.5", ("0.5",)) for one in self.names.releases)
        elif self.keyword == "objective":
            yield from (Suggestion(one, "name", "its weight", f"{one} = 2", ("2",)) for one in self.names.releases)
        elif self.keyword == "postprocess" and name != "suppress":
            yield from self._constraints(inside=True)
        else:
            yield from self._options(parameters_of(self.keyword, name), name, written)

    def _options(self, parameters: Sequence[Parameter], name: str, written: str) -> Iterator[Suggestion]:
        given = re.search(r"([A-Za-z_]\w*)\s*=\s*\Z", written)
        if given is not None:
            named = next((one for one in parameters if one.name == given.group(1)), None)
            if named is not None and named.name == "where":
                yield from _names(self.names.releases, "a release")
            elif named is not None:
                yield from (Suggestion(one, "value", "", one) for one in words_of(named))
        elif re.search(r"(\A|,)\s*\Z", written):
            said = set(re.findall(r"([A-Za-z_]\w*)\s*=", written))
            if written.count(",") < sum(one.positional for one in parameters):
                yield from self._operands(name)
            for one in parameters:
                if not one.positional and one.name not in said:
                    value = one.example.partition(" = ")[2]
                    yield Suggestion(
                        one.name, "option", one.example, f"{one.name} = {value}", (value,) if value else ()
                    )

    def _operands(self, function: str) -> Iterator[Suggestion]:
        """What a release can be made of."""
        stream = () if self.names.stream is None else (self.names.stream,)
        if self.keyword == "release" and function == "count":
            yield from _names(stream, "the stream")
        elif self.keyword == "release" and function == "sum":
            yield from (Suggestion(f"{one}.", "name", "a column of the stream", f"{one}.") for one in stream)
        elif (self.keyword == "release" and function != "median") or function == "suppress":
            yield from _names(self.names.releases, "a release")
            if function in MADE_QUERIES:
                yield Suggestion("population", "name", WORDS["population"], "population")

    def _constraints(self, *, inside: bool = False) -> Iterator[Suggestion]:
        yield from _names(self.names.releases, "a release")
        yield Suggestion("population", "name", WORDS["population"], "population")
        functions = {"sum", "previous"} if inside else FUNCTIONS
        yield from (Suggestion(f, "kind", FUNCTIONS[f], f"{f}()", ("",)) for f in FUNCTIONS if f in functions)


def _call(name: str, needed: Iterable[Parameter], says: str) -> Suggestion:
    """A call with examples of what must be given; what stands in the examples is to be replaced."""
    written, parts = [], []
    for one in needed:
        example = one.example.removeprefix(f"{name}(").removesuffix(")" if one.example.startswith(f"{name}(") else "")
        head, sign, value = example.partition(" = ")
        written.append(example)
        parts.append(value if sign and head == one.name else example)
    return Suggestion(name, "kind", says, f"{name}({', '.join(written)})", tuple(parts))


def _names(names: Iterable[str], says: str) -> Iterator[Suggestion]:
    for name in names:
        plain = re.fullmatch(r"[A-Za-z_]\w*", name) is not None
        yield Suggestion(name, "name", says, name if plain else f'"{_escaped(name)}"')


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
