"""Tree to text, in the one canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from policyc.diagnostics import Source
from policyc.syntax import tree
from policyc.syntax.comments import Comments, Container, place_comments, units
from policyc.syntax.scan import NUMBER

MAX_LINE = 100
INDENT = "  "
FAR_LEFT = -(10**9)
Literal = tree.Steps | tree.Duration
DELIVERY = ("deliver", "objective", "budget", "mechanism", "estimate")
# One group a line: statements of a group stand together, groups are parted by an empty line.
GROUPS = (
    ("policy",),
    ("stream",),
    ("release",),
    ("target", "participation"),
    ("correlation",),
    ("signal",),
    DELIVERY,
    ("postprocess",),
)
ORDER = [keyword for group in GROUPS for keyword in group]
PARTED = {"stream", "correlation", "postprocess"}  # always parted from the next of their kind
FIELD_ORDER = ("user", "time", "cell", "step", "horizon", "population", "start", "clock", "dataset")


def format_policy(policy: tree.Tree) -> str:
    """Prints a policy in its canonical form.

    Args:
        policy: what `parse_policy` gave; numbers are printed as they were written.

    Returns:
        The text, ending with a newline. Formatting it again changes nothing, and it parses to the same tree, with the
        statements and fields in canonical order.
    """
    return _Formatter(policy).policy()


def keyword_of(statement: tree.Statement) -> str:
    """The keyword a statement starts with."""
    if isinstance(statement, tree.CallStatement | tree.WordStatement):
        return statement.keyword.text
    words: dict[type, str] = {
        tree.PolicyHeader: "policy",
        tree.Stream: "stream",
        tree.Release: "release",
        tree.Correlation: "correlation",
        tree.Postprocess: "postprocess",
    }
    return words[type(statement)]


class _Formatter:
    def __init__(self, policy: tree.Tree) -> None:
        self.statements = sorted(policy.statements, key=lambda s: ORDER.index(keyword_of(s)))
        self.source: Source = policy.source
        self.comments: Comments = place_comments(policy)
        self.release_width = max((len(s.name.text) for s in self.statements if isinstance(s, tree.Release)), default=0)
        self.delivery_width = max((len(w) for w in map(keyword_of, self.statements) if w in DELIVERY), default=0)

    # ------------------------------------------------------------ the whole

    def policy(self) -> str:
        lines = self._own_lines(self.comments.first, "", keep_blank=True)
        previous = ""
        for statement in self.statements:
            keyword = keyword_of(statement)
            if previous and (keyword in PARTED or _group(previous) != _group(keyword)):
                lines.append("")
            lines += self._own_lines(self.comments.leading.get(id(statement), []), "", keep_blank=True)
            lines.append(self._statement(statement, keyword) + self._trailing(statement))
            previous = keyword
        if self.comments.final:
            lines += ["", *self._own_lines(self.comments.final, "", keep_blank=True)]
        return "\n".join(lines).strip("\n") + "\n"

    def _own_lines(self, comments: Iterable[tree.Comment], indent: str, *, keep_blank: bool = False) -> list[str]:
        """Comments on lines of their own; an empty line after one is kept between statements."""
        lines: list[str] = []
        for comment in comments:
            lines.append(indent + comment.text)
            following = self.source.text[comment.span.end :].lstrip(" \t")[:1000]
            if keep_blank and following.strip() and following[: -len(following.lstrip())].count("\n") > 1:
                lines.append("")
        return lines

    def _trailing(self, node: tree.Node) -> str:
        comment = self.comments.trailing.get(id(node))
        return f"  {comment.text}" if comment else ""

    def _statement(self, statement: tree.Statement, keyword: str) -> str:
        if isinstance(statement, tree.PolicyHeader):
            return f"policy {statement.name.text} {_quoted(statement.purpose)}"
        if isinstance(statement, tree.Stream):
            fields = sorted(statement.fields, key=lambda f: FIELD_ORDER.index(_field_keyword(f)))
            width = max((len(_field_keyword(field)) for field in fields), default=0) + 2
            parts = [self._field(field, width) for field in fields]
            return self._braces(f"stream {statement.name.text}", statement, fields, parts)
        if isinstance(statement, tree.Postprocess):
            parts = [self._constraint(part) + "," for part in statement.constraints]
            return self._braces(f"postprocess {statement.release.text}", statement, statement.constraints, parts)
        if isinstance(statement, tree.Release):
            head = f"release {statement.name.text.ljust(self.release_width)} = "
            by = f" by {_column(statement.by)}" if statement.by else ""
            return head + self._call(statement.query, len(head), 0, len(by)) + by
        if isinstance(statement, tree.Correlation):
            group = f" for {_column(statement.group)}" if statement.group else ""
            return "correlation " + self._call(statement.call, len("correlation "), 0, len(group)) + group
        # delivery and what follows it are aligned; targets and participation read as sentences
        head = keyword.ljust(self.delivery_width if keyword in DELIVERY else 0) + " "
        return head + self._value(statement.value, len(head), 0)

    def _braces(self, head: str, container: Container, nodes: Sequence[tree.Node], parts: Sequence[str]) -> str:
        """A block between braces, one part a line."""
        if not parts and not self.comments.inside(container):
            return f"{head} {{}}"
        opening = self.comments.head.get(id(container))
        lines = [f"{head} {{" + (f"  {opening.text}" if opening else "")]
        for node, text in zip(nodes, parts, strict=True):
            lines += self._own_lines(self.comments.leading.get(id(node), []), INDENT)
            lines.append(INDENT + text + self._trailing(node))
        lines += self._own_lines(self.comments.last.get(id(container), []), INDENT)
        return "\n".join([*lines, "}"])

    def _field(self, field: tree.CellField | tree.StreamField, width: int) -> str:
        head = _field_keyword(field).ljust(width)
        if isinstance(field, tree.StreamField):
            return head + self._value(field.value, len(INDENT) + width, len(INDENT))
        head += f"{_column(field.column)} in "
        otherwise = f" otherwise {_quoted(field.otherwise)}" if field.otherwise else ""
        if field.levels is None:
            return head + self._value(field.cells, len(INDENT) + len(head), len(INDENT), len(otherwise)) + otherwise
        head += self._value(field.cells, len(INDENT) + len(head), len(INDENT)) + " "
        return head + self._call(field.levels, len(INDENT) + len(head), len(INDENT), len(otherwise)) + otherwise

    # ------------------------------------------------------------ values

    def _value(self, value: tree.Value, column: int, indent: int, after: int = 0) -> str:
        """A value that begins in a column of a line with an indentation; `after` characters follow on its last line."""
        if isinstance(value, tree.Call):
            return self._call(value, column, indent, after)
        if isinstance(value, tree.Sequence | tree.Set):
            return self._items(value, column, indent, after)
        return self._scalar(value)

    def _scalar(self, value: tree.Name | tree.Text | tree.Number | tree.Range | tree.Attribute | Literal) -> str:
        """A value without parts of its own."""
        if isinstance(value, tree.Name | tree.Text):
            return _column(value)
        if isinstance(value, tree.Number):
            return self._number(value)
        if isinstance(value, tree.Range):
            return f"{self._number(value.low)} .. {self._number(value.high)}"
        if isinstance(value, tree.Attribute):
            return f"{value.owner.text}.{value.attribute.text}"
        return " ".join(self.source.text[value.span.start : value.span.end].split())

    def _call(self, call: tree.Call, column: int, indent: int, after: int) -> str:
        """A call on one line, or one argument a line when it is long, has a matrix or a comment inside."""
        head = f"{call.function.text}("
        if not self._must_break(call):
            # far to the left everything fits: this is how the call looks on one line
            line = head + ", ".join(self._argument(argument, 0, FAR_LEFT, 0) for argument in call.arguments) + ")"
            if not call.arguments or column + len(line) + after <= MAX_LINE:
                return line
        width = max((len(a.name.text) for a in call.arguments if a.name), default=0)
        texts = [self._argument(argument, width, indent + len(INDENT), 1) for argument in call.arguments]
        return self._lines(head, call, texts, ")", indent)

    def _must_break(self, value: tree.Value) -> bool:
        """Whether a value has a matrix or a comment inside, and so cannot stand on one line."""
        if not isinstance(value, tree.Call | tree.Sequence | tree.Set):
            return False
        if self.comments.inside(value):
            return True
        if isinstance(value, tree.Call):
            return any(self._must_break(argument.value) for argument in value.arguments)
        return any(isinstance(item, tree.Sequence) or self._must_break(item) for item in value.items)

    def _argument(self, argument: tree.Argument, width: int, indent: int, after: int) -> str:
        head = f"{argument.name.text.ljust(width)} = " if argument.name else ""
        return head + self._value(argument.value, indent + len(head), indent, after)

    def _items(self, value: tree.Sequence | tree.Set, column: int, indent: int, after: int) -> str:
        """A sequence or a set: a matrix one row a line, anything long in filled lines, aligned with its bracket."""
        opening, closing = "{}" if isinstance(value, tree.Set) else "[]"
        if self.comments.inside(value):
            texts = self._rows(value, indent + len(INDENT), indent + len(INDENT))
            return self._lines(opening, value, texts, closing, indent)
        texts = self._rows(value, column + 1, indent)
        separator = ",\n" + " " * (column + 1)
        if any(isinstance(item, tree.Sequence) for item in value.items):
            return opening + separator.join(texts) + closing
        lines, width = [""], column + 1
        for text, is_last in zip(texts, [False] * (len(texts) - 1) + [True], strict=False):
            needed = len(text.split("\n")[0]) + (1 + after if is_last else 1)
            if lines[-1] and width + 1 + needed > MAX_LINE:
                lines.append("")
                width = column + 1
            lines[-1] += (" " if lines[-1] else "") + text + ("" if is_last else ",")
            width = column + 1 + len(lines[-1])
        return opening + ("\n" + " " * (column + 1)).join(lines) + closing

    def _rows(self, value: tree.Sequence | tree.Set, column: int, indent: int) -> list[str]:
        """The items as text; the numbers of a matrix are aligned."""
        rows = [item for item in value.items if isinstance(item, tree.Sequence)]
        plain = len(rows) == len(value.items) > 0 and all(
            isinstance(entry, tree.Number) for row in rows for entry in row.items
        )
        if not plain or any(self.comments.inside(row) for row in rows):
            return [self._value(item, column, indent, 1) for item in value.items]
        numbers = [[self._number(entry) for entry in row.items if isinstance(entry, tree.Number)] for row in rows]
        widths = [max((len(r[i]) for r in numbers if i < len(r)), default=0) for i in range(max(map(len, numbers)))]
        return ["[" + ", ".join(t.rjust(w) for t, w in zip(row, widths, strict=False)) + "]" for row in numbers]

    def _lines(self, opening: str, container: Container, texts: Sequence[str], closing: str, indent: int) -> str:
        """One part a line, each with a comma, between an opening and a closing line."""
        margin = " " * (indent + len(INDENT))
        head = self.comments.head.get(id(container))
        lines = [opening + (f"  {head.text}" if head else "")]
        for node, text in zip(units(container), texts, strict=True):
            lines += self._own_lines(self.comments.leading.get(id(node), []), margin)
            lines.append(f"{margin}{text},{self._trailing(node)}")
        lines += self._own_lines(self.comments.last.get(id(container), []), margin)
        return "\n".join([*lines, " " * indent + closing])

    def _number(self, number: tree.Number) -> str:
        """A number as it was written, sign first."""
        sign = "-" if number.value.is_signed() else ""
        written = self.source.text[number.span.start : number.span.end]
        size = number.value.copy_abs()
        same = (m.group() for m in NUMBER.finditer(written) if Decimal(m.group()).compare_total(size) == 0)
        return sign + next(same, format(size, "f"))

    # ------------------------------------------------------------ constraints

    def _constraint(self, constraint: tree.Constraint) -> str:
        if isinstance(constraint, tree.IntegerConstraint):
            return f"integer({constraint.release.text})"
        if isinstance(constraint, tree.Suppression):
            return self._call(constraint.call, len(INDENT), len(INDENT), 1)
        return f"{self._expression(constraint.left)} {constraint.operator} {self._expression(constraint.right)}"

    def _expression(self, expression: tree.Expression) -> str:
        if not isinstance(expression, tree.Total):
            return self._number(expression) if isinstance(expression, tree.Number) else self._factor(expression)
        first, *others = expression.terms
        text = ("-" if first.sign < 0 else "") + self._factor(first.term)
        return text + "".join(f" {'-' if term.sign < 0 else '+'} {self._factor(term.term)}" for term in others)

    def _factor(self, expression: tree.Expression) -> str:
        """An expression that stands in a sum or a product."""
        if isinstance(expression, tree.Name):
            return expression.text
        if isinstance(expression, tree.Cell):
            return f"{expression.release.text}[{_quoted(expression.cell)}]"
        if isinstance(expression, tree.SumOf | tree.Previous):
            function = "sum" if isinstance(expression, tree.SumOf) else "previous"
            return f"{function}({self._expression(expression.argument)})"
        if isinstance(expression, tree.Product):
            right = self._factor(expression.right)
            if isinstance(expression.right, tree.Product):
                right = f"({right})"
            return f"{self._factor(expression.left)} * {right}"
        text = self._expression(expression)
        return text if isinstance(expression, tree.Number) and not expression.value.is_signed() else f"({text})"


def _group(keyword: str) -> int:
    return next(i for i, group in enumerate(GROUPS) if keyword in group)


def _field_keyword(field: tree.CellField | tree.StreamField) -> str:
    return "cell" if isinstance(field, tree.CellField) else field.keyword.text


def _column(column: tree.Name | tree.Text) -> str:
    return column.text if isinstance(column, tree.Name) else _quoted(column)


def _quoted(text: tree.Text) -> str:
    escaped = text.value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
