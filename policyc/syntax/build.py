"""From the parser's raw nodes to the tree: literals read, spans set, functions of constraints told apart."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from lark import Token
from lark import Tree as RawTree

from policyc.diagnostics import Diagnostic, Edit, Span
from policyc.syntax import tree
from policyc.syntax.scan import DURATION, MAX_DEPTH, too_deep
from policyc.syntax.spelling import nearest, respelt

Raw = Token | RawTree[Token]
FUNCTIONS = ("sum", "previous", "integer", "suppress")
ALONE = {
    "integer": "integer(NAME)",
    "suppress": "suppress(NAME, below = 90)",
}  # what stands by itself, as it is written


class TreeBuilder:
    """Builds statements; `findings` collects what the grammar alone cannot refuse."""

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = []

    def statements(self, nodes: Iterable[RawTree[Token]]) -> tuple[tree.Statement, ...]:
        """The statements of a policy, in source order."""
        return tuple(self._statement(node) for node in nodes)

    def _statement(self, node: RawTree[Token]) -> tree.Statement:
        span, parts = _span(node), node.children
        keyword = str(parts[0])
        if node.data == "header":
            return tree.PolicyHeader(span, _name(parts[1]), _text(parts[2]))
        if node.data == "stream":
            return tree.Stream(span, _name(parts[1]), tuple(self._field(part) for part in parts[2:]))
        if node.data == "release":
            by = self._column(parts[4]) if len(parts) > 3 else None
            return tree.Release(span, _name(parts[1]), self._call(parts[2]), by)
        if node.data == "correlation":
            group = self._column(parts[3]) if len(parts) > 2 else None
            return tree.Correlation(span, self._call(parts[1]), group)
        if node.data == "postprocess":
            return tree.Postprocess(span, _name(parts[1]), tuple(self._constraint(part) for part in parts[2:]))
        kind = tree.WordStatement if keyword in {"deliver", "objective"} else tree.CallStatement
        value = _name(parts[1]) if isinstance(parts[1], Token) else self._call(parts[1])
        return kind(span, _name(parts[0]), value)

    def _field(self, node: Raw) -> tree.CellField | tree.StreamField:
        parts = _children(node)
        if _rule(node) == "stream_field":
            return tree.StreamField(_span(node), _name(parts[0]), self._value(parts[1]))
        cells = self._value(parts[3])
        assert isinstance(cells, tree.Set | tree.Call)
        levels = next((self._levels(part) for part in parts[4:] if isinstance(part, RawTree)), None)
        otherwise = _text(parts[-1]) if isinstance(parts[-1], Token) else None
        return tree.CellField(_span(node), self._column(parts[1]), cells, levels, otherwise)

    def _levels(self, node: Raw) -> tree.Call:
        word, *columns = _children(node)
        arguments = tuple(tree.Argument(_span(column), None, self._column(column)) for column in columns)
        return tree.Call(_span(node), _name(word), arguments)

    # ------------------------------------------------------------ values

    def _column(self, node: Raw) -> tree.Name | tree.Text:
        assert isinstance(node, Token)
        return _text(node) if node.type == "STRING" else _name(node)

    def _value(self, node: Raw) -> tree.Value:
        span = _span(node)
        if isinstance(node, Token):
            return _literal(node)
        items = node.children
        if node.data == "number":
            return _number(node)
        if node.data == "range":
            return tree.Range(span, _number(items[0]), _number(items[1]))
        if node.data == "attribute":
            return tree.Attribute(span, _name(items[0]), _name(items[1]))
        if node.data == "call":
            return self._call(node)
        values = tuple(self._value(item) for item in items)
        return tree.Set(span, values) if node.data == "set" else tree.Sequence(span, values)

    def _call(self, node: Raw) -> tree.Call:
        function, *arguments = _children(node)
        return tree.Call(_span(node), _name(function), tuple(self._argument(part) for part in arguments))

    def _argument(self, node: Raw) -> tree.Argument:
        parts = _children(node)
        name = _name(parts[0]) if len(parts) > 1 else None
        return tree.Argument(_span(node), name, self._value(parts[-1]))

    # ------------------------------------------------------------ constraints

    def _constraint(self, node: Raw) -> tree.Constraint:
        parts = _children(node)
        if _rule(node) == "comparison":
            left, operator, right = parts
            return tree.Comparison(_span(node), self._total(left), str(operator), self._total(right))
        if _rule(node) == "suppression":
            return self._suppression(node)
        function, argument = _name(parts[0]), self._total(parts[1])
        if function.text != "integer":
            self._refuse_function(function, standing_alone=True)
        elif not isinstance(argument, tree.Name):
            self.findings.append(
                Diagnostic(
                    "E0120", "`integer` takes the name of a release", argument.span, help="write `integer(NAME)`"
                )
            )
        release = argument if isinstance(argument, tree.Name) else tree.Name(argument.span, "")
        return tree.IntegerConstraint(_span(node), release)

    def _suppression(self, node: Raw) -> tree.Suppression:
        function, release, *others = _children(node)
        if _name(function).text != "suppress":
            self._refuse_function(_name(function), standing_alone=True, arguments=True)
        named = tree.Argument(_span(release), None, _name(release))
        arguments = (named, *(self._argument(part) for part in others))
        return tree.Suppression(_span(node), tree.Call(_span(node), _name(function), arguments))

    def _total(self, node: Raw) -> tree.Expression:
        terms: list[tree.Signed] = []
        sign, start = 1, None
        for part in _children(node):
            if isinstance(part, Token):
                sign, start = (-1 if part.type == "MINUS" else 1), part.start_pos
                continue
            term = self._product(part)
            span = _span(part)
            terms.append(tree.Signed(span if start is None else Span(start, span.end), sign, term))
        if len(terms) > 1:
            return tree.Total(_span(node), tuple(terms))
        (only,) = terms
        if only.sign == 1:
            return only.term
        if isinstance(only.term, tree.Number) and only.term.value >= 0:
            return tree.Number(only.span, only.term.value.copy_negate(), only.term.is_integer)
        return tree.Total(_span(node), (only,))

    def _product(self, node: Raw) -> tree.Expression:
        first, *others = _children(node)
        if len(others) >= MAX_DEPTH:
            self.findings.append(too_deep(_span(node)))
            return self._factor(first)
        product = self._factor(first)
        for part in others:
            product = tree.Product(Span(_span(node).start, _span(part).end), product, self._factor(part))
        return product

    def _factor(self, node: Raw) -> tree.Expression:
        if isinstance(node, Token):
            return _number(node) if node.type == "NUMBER" else _name(node)
        if node.data == "negative":
            return _number(node)
        if node.data == "total":
            return self._total(node)
        if node.data == "cell_value":
            return tree.Cell(_span(node), _name(node.children[0]), _text(node.children[1]))
        function, argument = _name(node.children[0]), self._total(node.children[1])
        if function.text == "previous":
            return tree.Previous(_span(node), argument)
        if function.text != "sum":
            self._refuse_function(function, standing_alone=False)
        return tree.SumOf(_span(node), argument)

    def _refuse_function(self, function: tree.Name, *, standing_alone: bool, arguments: bool = False) -> None:
        guess, edit = nearest(function.text, FUNCTIONS), None
        message = f"unknown function `{function.text}`"
        remedy = "constraints know `sum`, `previous`, `integer` and `suppress`"
        if function.text in FUNCTIONS and arguments:
            message = f"`{function.text}` takes one argument"
            remedy = f"write `{function.text}(NAME)`; what leaves values out is `{ALONE['suppress']}`"
        elif function.text == "suppress" and standing_alone:
            message, remedy = "`suppress` does not say which values are left out", f"write `{ALONE['suppress']}`"
        elif function.text in FUNCTIONS and standing_alone:
            message = f"`{function.text}(...)` alone demands nothing"
            remedy = f"compare it: `{function.text}(NAME) == 100`"
        elif function.text in ALONE:
            message = f"`{function.text}` is a constraint of its own"
            remedy = f"write `{ALONE[function.text]}`, and a comma after it"
        elif guess:
            remedy = f"did you mean `{guess}`?"
            edit = Edit(function.span, guess) if respelt(function.text, FUNCTIONS) else None
        self.findings.append(Diagnostic("E0120", message, function.span, help=remedy, edit=edit))


# ---------------------------------------------------------------- raw nodes


def _span(node: Raw) -> Span:
    if isinstance(node, Token):
        assert node.start_pos is not None
        assert node.end_pos is not None
        return Span(node.start_pos, node.end_pos)
    return Span(node.meta.start_pos, node.meta.end_pos)


def _rule(node: Raw) -> str:
    assert isinstance(node, RawTree)
    return str(node.data)


def _children(node: Raw) -> list[Raw]:
    assert isinstance(node, RawTree)
    return list(node.children)


def _name(node: Raw) -> tree.Name:
    return tree.Name(_span(node), str(node))


def _text(node: Raw) -> tree.Text:
    return tree.Text(_span(node), re.sub(r"\\(.)", r"\1", str(node)[1:-1]))


def _number(node: Raw) -> tree.Number:
    """A number with its sign; exact, because it never was a float."""
    written = str(node) if isinstance(node, Token) else "".join(str(part) for part in node.children)
    return tree.Number(_span(node), Decimal(written), written.lstrip("-").replace("_", "").isdigit())


def _literal(token: Token) -> tree.Value:
    if token.type == "STRING":
        return _text(token)
    if token.type == "STEPS":
        return tree.Steps(_span(token), int(str(token).split()[0]))
    if token.type == "DURATION":
        match = DURATION.fullmatch(str(token))
        assert match is not None
        return tree.Duration(_span(token), int(match.group(1)), match.group(2))
    return _name(token)
