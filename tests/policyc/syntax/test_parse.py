"""Reading policies: what is written arrives in the tree, exactly and with its place."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from policyc.diagnostics import PolicyError, Source
from policyc.syntax import parse_policy, tree

POLICIES = ("bikeshare", "checkins", "departures", "fleet", "speeds", "traffic", "wards")
STATEMENTS = (
    "policy", "stream", "release", "target", "participation", "correlation", "signal", "deliver", "objective", "budget",
    "mechanism", "estimate", "postprocess",
)  # fmt: skip
OTHER_WORDS = (
    "user", "time", "cell", "step", "horizon", "population", "start", "in", "otherwise", "by", "for", "steps", "sum",
    "previous", "integer", "auto", "unbounded",
)  # fmt: skip


def parse(text: str) -> tree.Tree:
    return parse_policy(Source("test.policy", text))


def codes(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        parse(text)
    return [diagnostic.code for diagnostic in caught.value.diagnostics]


def value(text: str) -> tree.Value:
    """The value of the one argument of a call."""
    (statement,) = parse(f"signal x({text})").statements
    assert isinstance(statement, tree.CallStatement)
    assert isinstance(statement.value, tree.Call)
    return statement.value.arguments[0].value


def constraint(text: str) -> tree.Comparison:
    (statement,) = parse(f"postprocess x {{ {text} }}").statements
    assert isinstance(statement, tree.Postprocess)
    (only,) = statement.constraints
    assert isinstance(only, tree.Comparison)
    return only


@pytest.mark.parametrize("name", POLICIES)
def test_gallery(name: str, gallery: Path) -> None:
    """Every policy of the gallery parses, and every statement's span starts at its keyword and ends at its end."""
    text = (gallery / f"{name}.policy").read_text(encoding="utf-8")
    parsed = parse(text)
    assert len(parsed.statements) >= 8
    pieces = [text[s.span.start : s.span.end] for s in parsed.statements]
    assert all(piece.split()[0] in STATEMENTS for piece in pieces)
    rest = text
    for piece in [*pieces, *(comment.text for comment in parsed.comments)]:
        rest = rest.replace(piece, "", 1)
    assert rest.strip() == ""


@pytest.mark.parametrize("word", STATEMENTS + OTHER_WORDS)
def test_keywords_are_names_where_a_name_stands(word: str) -> None:
    """A stream, a column, a cell column, a release, a group and a policy may be called like any keyword."""
    parsed = parse(
        f'policy {word} "x" stream {word} {{ user {word} time {word} cell {word} in {{"A"}} otherwise "B" '
        f"step 5min horizon unbounded population 3 }} release {word} = count({word}) by {word} "
        f"release b = sum({word}.{word}, {word} = 0 .. 1) correlation markov({word} = {word}) for {word} "
        f"postprocess {word} {{ {word} >= 0, {word} - previous({word}) <= 2 * {word}, integer({word}) }}"
    )
    assert len(parsed.statements) == 6
    stream = parsed.statements[1]
    assert isinstance(stream, tree.Stream)
    assert stream.name.text == word
    assert len(stream.fields) == 6


@pytest.mark.parametrize(
    ("written", "expected", "is_integer"),
    [
        ("12_000", "12000", True),
        ("1e-6", "1e-6", False),
        ("0.05", "0.05", False),
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827", False),
        ("-40", "-40", True),
        ("- 1.50", "-1.50", False),
        ("1E400", "1E400", False),
        ("007", "7", True),
    ],
)
def test_numbers_are_exact(written: str, expected: str, is_integer: bool) -> None:
    """A number is the decimal that was written, never a float."""
    number = value(written)
    assert isinstance(number, tree.Number)
    assert number.value.compare_total(Decimal(expected)) == 0
    assert number.is_integer is is_integer


def test_long_numbers_keep_all_digits_in_constraints() -> None:
    """The sign of a constraint's bound does not round it to the precision of a context."""
    digits = "1" * 60
    right = constraint(f"a >= -{digits}").right
    assert isinstance(right, tree.Number)
    assert right.value == Decimal("-" + digits)


def test_steps_and_durations() -> None:
    """`288 steps`, `1 step` and `5min` are one value each; a wrong unit is kept for the checker."""
    found = [value(text) for text in ("288 steps", "1 step", "1_800 steps", "5min", "5m", "2w")]
    assert [(v.count if isinstance(v, tree.Steps) else (v.amount, v.unit)) for v in found] == [  # type: ignore[union-attr]
        288, 1, 1800, (5, "min"), (5, "m"), (2, "w"),
    ]  # fmt: skip


@pytest.mark.parametrize("gap", ["\n  ", " "])
def test_population_before_step(gap: str) -> None:
    """`step` after a number is its unit only where it cannot be the next field."""
    (stream,) = parse(f"stream s {{ population 200{gap}step 5min }}").statements
    assert isinstance(stream, tree.Stream)
    assert [field.keyword.text for field in stream.fields if isinstance(field, tree.StreamField)] == [
        "population",
        "step",
    ]


def test_strings() -> None:
    """A string has two escapes, and a hash inside it is no comment."""
    text = value(r'"a \"quoted\" \\ # word"')
    assert isinstance(text, tree.Text)
    assert text.value == 'a "quoted" \\ # word'


def test_trailing_commas_everywhere() -> None:
    """A trailing comma is allowed wherever a comma is."""
    parse('stream s { cell c in {"A", "B",} } target t(a = [[1, 2,], [3, 4,],], b = f(1,),) postprocess p { p >= 0, }')


def test_layout_means_nothing() -> None:
    """A policy on one line, with tabs or with a newline after every word has the same statements."""
    text = 'policy p "x" stream s { user u time t step 5min } release r = count(s) by c target t(a = 1, b = 0 .. 5)'
    wanted = [type(s) for s in parse(text).statements]
    for space in ("\n", "\t", "  # c\n"):
        assert [type(s) for s in parse(text.replace(" ", space)).statements] == wanted


def test_expressions() -> None:
    """Sums keep their terms in order, products either order, a minus sign its term, parentheses their sum."""
    written = ("2 * a", "a * 2", "-a + b", "(a + b) * 2", "a * -2", "(a)")
    names = [constraint(f"{text} >= 0").left for text in written]
    assert [type(expression) for expression in names] == [
        tree.Product, tree.Product, tree.Total, tree.Product, tree.Product, tree.Name,
    ]  # fmt: skip
    total = names[2]
    assert isinstance(total, tree.Total)
    assert [term.sign for term in total.terms] == [-1, 1]
    cell = constraint('a["A1"] + sum(a) - previous(a) <= 150').left
    assert isinstance(cell, tree.Total)
    assert [type(term.term) for term in cell.terms] == [tree.Cell, tree.SumOf, tree.Previous]


@pytest.mark.parametrize("operator", ["==", "<=", ">=", "<", ">", "!=", "=<", "≤"])
def test_operators_are_kept(operator: str) -> None:
    """An operator that is not allowed arrives as written, for the checker to refuse in its own words."""
    assert constraint(f"a {operator} 1").operator == operator


def test_spans_of_parts() -> None:
    """The span of every part is the text it was written in."""
    text = 'release r = sum(s.speed, clamp = -40 .. 130) by "a b" postprocess r { (r + 1) * 2 >= previous(r) }'
    release, post = parse(text).statements
    assert isinstance(release, tree.Release)
    assert isinstance(post, tree.Postprocess)
    assert release.by is not None
    comparison = post.constraints[0]
    assert isinstance(comparison, tree.Comparison)
    nodes = [release.query, *release.query.arguments, release.query.arguments[1].value, release.by]
    nodes += [comparison, comparison.left, comparison.right]
    assert [text[node.span.start : node.span.end] for node in nodes] == [
        "sum(s.speed, clamp = -40 .. 130)",
        "s.speed",
        "clamp = -40 .. 130",
        "-40 .. 130",
        '"a b"',
        "(r + 1) * 2 >= previous(r)",
        "(r + 1) * 2",
        "previous(r)",
    ]


def test_comments() -> None:
    """Comments stand beside the statements, with their place and whether they have the line to themselves."""
    parsed = parse('# first\npolicy p "# no"  # second  \n  # third')
    assert [(c.text, c.own_line) for c in parsed.comments] == [
        ("# first", True),
        ("# second", False),
        ("# third", True),
    ]
    assert all(parsed.source.text[c.span.start : c.span.end] == c.text for c in parsed.comments)


def test_depth_is_bounded() -> None:
    """Ten thousand brackets, closed or not, are one finding; so is a product of ten thousand factors."""
    assert codes("signal x(" + "[" * 10_000) == ["E0119"]
    assert codes("signal x(a = " + "[" * 10_000 + "]" * 10_000 + ")") == ["E0119"]
    assert codes("postprocess x { " + "(" * 10_000 + "x" + ")" * 10_000 + " >= 0 }") == ["E0119"]
    assert codes("postprocess x { x" + " * 2" * 10_000 + " >= 0 }") == ["E0119"]
    parse("signal x(a = " + "[" * 49 + "]" * 49 + ")")


def test_size_is_no_crash() -> None:
    """Thousands of statements, and a sum of thousands of terms, are read."""
    assert len(parse("mechanism auto\n" * 5_000).statements) == 5_000
    total = constraint("a" + " + a" * 5_000 + " >= 0").left
    assert isinstance(total, tree.Total)
    assert len(total.terms) == 5_001


@pytest.mark.parametrize("number", ["1" * 401, "1" * 5_000, "1e401", "1e-401", "1e" + "9" * 5_000, "0." + "1" * 400])
def test_huge_numbers(number: str) -> None:
    """A number beyond 400 digits or an exponent beyond 400 is refused before it is computed with."""
    assert codes(f"signal x(a = {number})") == ["E0118"]
    assert codes(f"postprocess x {{ x >= {number} }}") == ["E0118"]


def test_huge_counts() -> None:
    """Steps and durations are whole numbers of at most 400 digits too."""
    assert codes("signal x(a = " + "1" * 5_000 + " steps)") == ["E0118"]
    assert codes("signal x(a = " + "1" * 5_000 + "min)") == ["E0118"]


def test_all_findings_at_once() -> None:
    """Independent faults are all reported, in source order, and text after a fault is still read."""
    text = (
        'polcy p "x"\nstream s {\n  usr a\n  tme b\n}\nrelease r = count(s\ntarget t(a == 1, b = 1.5h)\n'
        "postprocess r { r = 0, smu(r) >= 0 }\nobjective mean,\ndelver offline\n"
    )
    assert codes(text) == [
        "E0106", "E0107", "E0107", "E0109", "E0116", "E0117", "E0116", "E0120", "E0111", "E0106",
    ]  # fmt: skip
