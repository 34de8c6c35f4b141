"""The tree of a policy: what was written, and where, before any of it is understood.

Every node has the span it was written in. Nothing here is checked beyond shape: names are not looked up, units not
converted, files not opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from policyc.diagnostics import Source, Span

# ---------------------------------------------------------------- values


@dataclass(frozen=True)
class Node:
    """Anything with a place in the text."""

    span: Span


@dataclass(frozen=True)
class Name(Node):
    """A bare word: a column, a cell, a keyword-like value such as `replace`."""

    text: str


@dataclass(frozen=True)
class Text(Node):
    """A quoted string, unescaped."""

    value: str


@dataclass(frozen=True)
class Number(Node):
    """An exact decimal; `is_integer` when it was written without point and exponent."""

    value: Decimal
    is_integer: bool


@dataclass(frozen=True)
class Duration(Node):
    """`5min`: a whole number and a unit as written (`ms s min h d w`, or a wrong one)."""

    amount: int
    unit: str


LONGEST_HORIZON = 10_000_000
"""The most steps that a policy can say."""


@dataclass(frozen=True)
class Steps(Node):
    """`288 steps` (or `1 step`)."""

    count: int


@dataclass(frozen=True)
class Range(Node):
    """`0 .. 130`."""

    low: Number
    high: Number


@dataclass(frozen=True)
class Sequence(Node):
    """`[a, b]`: a vector, or a matrix as a sequence of sequences."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Set(Node):
    """`{"A", "B"}`."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Argument(Node):
    """`name = value`, or a value alone (`name` is None)."""

    name: Name | None
    value: Value


@dataclass(frozen=True)
class Call(Node):
    """`kind(argument, ...)`: also `file("a.csv")`, `sum(stream.column, clamp = 0 .. 130)`."""

    function: Name
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Attribute(Node):
    """`passages.speed`."""

    owner: Name
    attribute: Name


Value = Name | Text | Number | Duration | Steps | Range | Sequence | Set | Call | Attribute

# ---------------------------------------------------------------- constraints (linear expressions)


@dataclass(frozen=True)
class Cell(Node):
    """`occupancy["A1"]`."""

    release: Name
    cell: Text


@dataclass(frozen=True)
class SumOf(Node):
    """`sum(occupancy)`: over all cells."""

    argument: Expression


@dataclass(frozen=True)
class Previous(Node):
    """`previous(occupancy)`: the value released one step earlier."""

    argument: Expression


@dataclass(frozen=True)
class Product(Node):
    """`2 * occupancy` (either order)."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Signed(Node):
    """One term of a sum, with its sign (+1 or -1)."""

    sign: int
    term: Expression


@dataclass(frozen=True)
class Total(Node):
    """`a + b - c`: the terms in order."""

    terms: tuple[Signed, ...]


Expression = Name | Number | Cell | SumOf | Previous | Product | Total


@dataclass(frozen=True)
class Comparison(Node):
    """`left == right`, `<=`, `>=` (a strict or other operator is kept as written and refused later)."""

    left: Expression
    operator: str
    right: Expression


@dataclass(frozen=True)
class IntegerConstraint(Node):
    """`integer(occupancy)`."""

    release: Name


@dataclass(frozen=True)
class Suppression(Node):
    """`suppress(occupancy, below = 90)`: the release is the call's first argument, without a name."""

    call: Call


Constraint = Comparison | IntegerConstraint | Suppression

# ---------------------------------------------------------------- statements


@dataclass(frozen=True)
class PolicyHeader(Node):
    """`policy NAME "purpose"`."""

    name: Name
    purpose: Text


@dataclass(frozen=True)
class CellField(Node):
    """`cell COLUMN in {...} | file("cells.csv") [levels(region, country)] [otherwise "elsewhere"]`.

    `levels` is a call whose arguments are columns, names or texts.
    """

    column: Name | Text
    cells: Set | Call
    levels: Call | None
    otherwise: Text | None


@dataclass(frozen=True)
class StreamField(Node):
    """Any other line of a stream: `keyword` is `user time step horizon population start clock dataset`.

    `horizon unbounded` has a `Name`, `horizon 288 steps` a `Steps`, `start "2013-01-01"` a `Text`.
    """

    keyword: Name
    value: Value


@dataclass(frozen=True)
class Stream(Node):
    """`stream NAME { ... }`."""

    name: Name
    fields: tuple[CellField | StreamField, ...]


@dataclass(frozen=True)
class Release(Node):
    """`release NAME = call [by CELL]`."""

    name: Name
    query: Call
    by: Name | Text | None


@dataclass(frozen=True)
class CallStatement(Node):
    """`target`, `participation`, `signal`, `budget`, `mechanism`, `estimate` and a call (or a bare word: `auto`)."""

    keyword: Name
    value: Call | Name


@dataclass(frozen=True)
class Correlation(Node):
    """`correlation call [for GROUP]`."""

    call: Call
    group: Name | Text | None


@dataclass(frozen=True)
class WordStatement(Node):
    """`deliver realtime | within(12 steps) | offline`, `objective mean_squared_error`."""

    keyword: Name
    value: Call | Name


@dataclass(frozen=True)
class Postprocess(Node):
    """`postprocess NAME { constraint, ... }`; what is suppressed stands among the constraints."""

    release: Name
    constraints: tuple[Constraint, ...]


Statement = PolicyHeader | Stream | Release | CallStatement | Correlation | WordStatement | Postprocess


@dataclass(frozen=True)
class Comment(Node):
    """`# ...` to the end of its line, the hash included; `own_line` when nothing stands before it on the line."""

    text: str
    own_line: bool


@dataclass(frozen=True)
class Tree:
    """A whole policy as written: statements in source order, comments beside them."""

    source: Source
    statements: tuple[Statement, ...]
    comments: tuple[Comment, ...]
