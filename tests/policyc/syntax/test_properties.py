"""Properties: formatting keeps the meaning and is stable; any text at all gives a tree or a PolicyError."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from policyc.diagnostics import PolicyError, Source
from policyc.diagnostics.text import render_text
from policyc.syntax import format_policy, parse_policy, tree
from policyc.syntax.format import FIELD_ORDER, ORDER, keyword_of

GALLERY = [p.read_text(encoding="utf-8") for p in sorted((Path(__file__).parents[3] / "policies").glob("*.policy"))]
calm = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def shape(node: object) -> object:
    """A tree without spans: what is left must survive formatting."""
    if isinstance(node, tree.Node):
        fields = [f.name for f in dataclasses.fields(node) if f.name != "span"]
        return (type(node).__name__, *(shape(getattr(node, name)) for name in fields))
    if isinstance(node, tuple):
        return tuple(shape(part) for part in node)
    return node.as_tuple() if isinstance(node, Decimal) else node


def canonical(policy: tree.Tree) -> list[object]:
    """The statements without spans, in canonical order, like the fields of streams."""
    statements = sorted(policy.statements, key=lambda s: ORDER.index(keyword_of(s)))
    return [shape(_sorted_fields(s) if isinstance(s, tree.Stream) else s) for s in statements]


def _sorted_fields(stream: tree.Stream) -> tree.Stream:
    def place(field: tree.CellField | tree.StreamField) -> int:
        return FIELD_ORDER.index("cell" if isinstance(field, tree.CellField) else field.keyword.text)

    return dataclasses.replace(stream, fields=tuple(sorted(stream.fields, key=place)))


def outcome(text: str) -> tree.Tree | PolicyError:
    """What parsing gives; the findings must be showable."""
    source = Source("fuzz.policy", text)
    try:
        return parse_policy(source)
    except PolicyError as error:
        found = error
    assert found.diagnostics
    assert all(0 <= d.span.start <= d.span.end <= len(text) for d in found.diagnostics)
    assert render_text(found.diagnostics, source)
    return found


# ---------------------------------------------------------------- random policies, in random layouts

names = st.sampled_from(["a", "b_1", "user", "time", "step", "target", "by", "in", "sum", "steps", "e5", "x"])
texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f\xad"), max_size=12).map(
    lambda s: '"' + "".join(c for c in s if not 0x7F <= ord(c) <= 0xA0).replace("\\", "\\\\").replace('"', '\\"') + '"'
)
digits = st.integers(0, 10**7).map(str)
numbers = st.one_of(
    digits,
    st.integers(1000, 10**7).map(lambda n: f"{n:_}"),
    st.tuples(digits, digits).map(".".join),
    st.tuples(digits, st.integers(-20, 20)).map(lambda p: f"{p[0]}e{p[1]}"),
)
signed = st.one_of(numbers, numbers.map(lambda n: f"-{n}"))
gaps = st.sampled_from([" ", " ", " ", "\n", "\n\n\n", "\t", "  # note\n", "\n# own line\n", "\n\n  # apart\n\n", ""])


def joined(parts: Iterable[str], opening: str, closing: str) -> st.SearchStrategy[str]:
    """Parts with commas, random gaps and sometimes a trailing comma between brackets."""
    items = list(parts)

    @st.composite
    def build(draw: st.DrawFn) -> str:
        text = opening + draw(gaps)
        for i, item in enumerate(items):
            text += item + draw(gaps)
            if i < len(items) - 1 or draw(st.booleans()):
                text += "," + draw(gaps)
        return text + closing

    return build()


def some(parts: st.SearchStrategy[str], opening: str, closing: str, least: int = 0) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=least, max_size=4).flatmap(lambda items: joined(items, opening, closing))


durations = st.tuples(digits, st.sampled_from(["min", "h", "m"])).map("".join)
ranges = st.tuples(signed, signed).map(" .. ".join)
attributes = st.tuples(names, names).map(".".join)
scalars = st.one_of(names, texts, signed, digits.map(lambda n: f"{n} steps"), durations, ranges, attributes)


def calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arguments = st.one_of(inner, st.tuples(names, inner).map(" = ".join))
    return st.tuples(names, some(arguments, "(", ")")).map("".join)


values = st.recursive(
    scalars, lambda inner: st.one_of(some(inner, "[", "]"), some(inner, "{", "}"), calls(inner)), max_leaves=12
)


expressions = st.recursive(
    st.one_of(names, numbers, st.tuples(names, texts).map(lambda p: f"{p[0]}[{p[1]}]")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", " - ", " * ", "-", "*"]), inner).map("".join),
        inner.map(lambda e: f"({e})"),
        inner.map(lambda e: f"(-{e})"),
        st.tuples(st.sampled_from(["sum", "previous"]), inner).map(lambda p: f"{p[0]}({p[1]})"),
    ),
    max_leaves=6,
)
comparisons = st.tuples(expressions, st.sampled_from(["==", "<=", ">="]), expressions).map(" ".join)
suppressions = st.tuples(names, st.lists(st.tuples(names, values).map(" = ".join), min_size=1, max_size=2)).flatmap(
    lambda p: joined([p[0], *p[1]], "suppress(", ")")
)
constraints = st.one_of(
    comparisons, comparisons.map(lambda c: f"-{c}"), names.map(lambda n: f"integer({n})"), suppressions
)
columns = st.one_of(names, texts)
call = calls(values)
fields = st.one_of(
    st.tuples(st.sampled_from(["user", "time", "step", "horizon", "population", "start"]), values).map(" ".join),
    st.tuples(
        columns,
        some(texts, "{", "}"),
        st.one_of(st.just(""), some(columns, " levels(", ")", least=1)),
        st.one_of(st.just(""), texts.map(lambda t: " otherwise " + t)),
    ).map(lambda p: f"cell {p[0]} in {p[1]}{p[2]}{p[3]}"),
)


@st.composite
def streams(draw: st.DrawFn) -> str:
    parts = draw(st.lists(fields, max_size=4))
    return (
        f"stream {draw(names)}{draw(gaps)} {{" + "".join(draw(gaps) + " " + part for part in parts) + draw(gaps) + "}"
    )


settings_words = st.sampled_from(
    [w for w in ORDER if w not in {"policy", "stream", "release", "correlation", "postprocess"}]
)
statements = st.one_of(
    st.tuples(names, texts).map(lambda p: f"policy {p[0]} {p[1]}"),
    streams(),
    st.tuples(names, call, columns).map(lambda p: f"release {p[0]} = {p[1]} by {p[2]}"),
    st.tuples(names, call).map(lambda p: f"release {p[0]} = {p[1]}"),
    st.tuples(settings_words, st.one_of(names, call)).map(" ".join),
    st.tuples(call, columns).map(lambda p: f"correlation {p[0]} for {p[1]}"),
    st.tuples(names, some(constraints, "{", "}")).map(lambda p: f"postprocess {p[0]} {p[1]}"),
)


@st.composite
def policies(draw: st.DrawFn) -> str:
    parts = draw(st.lists(statements, min_size=1, max_size=5))
    return draw(gaps) + "".join(part + " " + draw(gaps) for part in parts)


@pytest.mark.law
@calm
@given(policies())
def test_formatting_keeps_the_tree(text: str) -> None:
    """A formatted policy parses to the same tree up to spans and order, keeps every comment, and formats to itself."""
    first = parse_policy(Source("a.policy", text))
    formatted = format_policy(first)
    second = parse_policy(Source("b.policy", formatted))
    assert canonical(second) == canonical(first)
    assert sorted(c.text for c in second.comments) == sorted(c.text for c in first.comments)
    assert format_policy(second) == formatted


# ---------------------------------------------------------------- any text


@calm
@given(st.one_of(st.text(max_size=200), st.text("{}()[]\",=.#\\ \n-+*0129eaxif_'", max_size=200)))
@example("\x00")
@example('"')
@example("\\")
@example("stream s {" * 40)
@example("policy " * 3000)
@example("target x(" + '"' * 999)
def test_any_text(text: str) -> None:
    """Any text is a policy or a PolicyError, and nothing else."""
    outcome(text)


WORDS = [
    *ORDER,
    *FIELD_ORDER,
    "in",
    "by",
    "for",
    "levels",
    "otherwise",
    "steps",
    "sum",
    "x",
    '"t"',
    "1",
    "5min",
    "-",
    "+",
    "*",
]
WORDS += ["{", "}", "(", ")", "[", "]", ",", "=", "==", "<=", "..", ".", "\n", "# c\n"]


@calm
@given(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join))
def test_any_words(text: str) -> None:
    """Any sequence of words of the language is a policy or a PolicyError; a policy can be formatted."""
    result = outcome(text)
    if isinstance(result, tree.Tree):
        assert canonical(parse_policy(Source("x", format_policy(result)))) == canonical(result)


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """A policy of the gallery with characters or lines deleted, doubled, swapped or replaced."""
    text = draw(st.sampled_from(GALLERY))
    for _ in range(draw(st.integers(1, 4))):
        by_line = draw(st.booleans())
        parts = text.splitlines(keepends=True) if by_line else list(text)
        if not parts:
            break
        i, j = (draw(st.integers(0, len(parts) - 1)) for _ in range(2))
        kind = draw(st.sampled_from(["delete", "double", "swap", "replace", "cut"]))
        if kind == "delete":
            del parts[i]
        elif kind == "double":
            parts.insert(j, parts[i])
        elif kind == "swap":
            parts[i], parts[j] = parts[j], parts[i]
        elif kind == "replace":
            parts[i] = draw(
                st.sampled_from(['"', "{", "}", "(", ")", ",", "=", "#", "\\", "é", "\t", "\x1b", "9", "a"])
            )
        else:
            parts = parts[:i]
        text = "".join(parts)
    return text


@calm
@given(mutations())
def test_mutated_policies(text: str) -> None:
    """A broken policy of the gallery is a tree or a PolicyError with few findings; what parses can be formatted."""
    result = outcome(text)
    if isinstance(result, PolicyError):
        assert len(result.diagnostics) <= 20
    else:
        formatted = format_policy(result)
        assert format_policy(parse_policy(Source("x", formatted))) == formatted


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [
        GALLERY[0] * 150,
        "a " * 100_000,
        "target t(x = 1\n" * 10_000,
        "# c\n" * 50_000 + "mechanism auto  # t\n" * 5_000,
        "[" * 100_000,
        "é;" * 50_000,
        '"' * 100_001,
        "target x(" + "1, " * 50_000,
        "- " * 100_000,
    ],
    ids=range(9),
)
def test_large_text(text: str) -> None:
    """A hundred thousand characters of anything are done with, formatting included; what is quadratic would not end."""
    result = outcome(text)
    if isinstance(result, tree.Tree):
        assert format_policy(result)
