"""The text of a policy with something altered: the policy that a person would write to get it.

Whatever is counted in steps goes along with the step, and a bound goes along with step and period so that it says the
same or more of a user: no more events are dropped for another step or a longer period.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction

from policyc.emit.numbers import plain
from policyc.exploration.axes import Axis, Value, length_text
from policyc.semantics.policy import Policy
from policyc.semantics.rules.target import amount_of
from policyc.semantics.targets import UserLevelTarget
from policyc.syntax import tree
from policyc_check.plan.stream import MONTH

Edit = tuple[int, int, str]


class UnalterableError(ValueError):
    """What is wanted is no policy: says why."""


@dataclass(frozen=True)
class Alterable:
    """A policy whose text can be altered.

    Args:
        parsed: its tree.
        policy: the same, resolved.
        axes: what is altered.
    """

    parsed: tree.Tree
    policy: Policy
    axes: Sequence[Axis]

    def text(self, setting: Sequence[int]) -> str:
        """The policy's text with every axis at one of its values.

        Args:
            setting: the index of the value on each axis.

        Raises:
            UnalterableError: a number of steps is none of the other step.
        """
        moved: dict[tuple[str, int], Value] = {
            (axis.kind, axis.target): axis.values[at]
            for axis, at in zip(self.axes, setting, strict=True)
            if at != axis.declared
        }
        text = self.parsed.source.text
        for start, end, written in sorted(self._edits(moved), reverse=True):
            text = text[:start] + written + text[end:]
        return text

    def writes(self, setting: Sequence[int]) -> list[str]:
        """The lines of the altered policy that the policy does not have."""
        before = set(map(str.strip, self.parsed.source.text.splitlines()))
        return [line for line in map(str.strip, self.text(setting).splitlines()) if line not in before]

    def _edits(self, moved: Mapping[tuple[str, int], Value]) -> Iterator[Edit]:
        stream = self.policy.stream
        step = moved.get(("step", 0), stream.step_milliseconds)
        assert isinstance(step, int), "a step has a length"
        finer = Fraction(stream.step_milliseconds, step)  # how many new steps one of the policy's is
        counts = {id(node): node for node in _steps_within(self.parsed.statements)}
        if finer != 1:
            yield self._field("step", length_text(step))
            if stream.horizon is not None:
                yield self._field("horizon", f"{-(-stream.horizon * finer.numerator // finer.denominator)} steps")
        for said in self._fields():
            counts.pop(id(said.value), None)
        yield from self._targets(moved, finer, counts)
        yield from self._participation(moved, finer, step, counts)
        if finer != 1:
            for node in counts.values():
                yield (*node.span, _steps(node.count * finer, self._said(node), step))

    def _targets(
        self, moved: Mapping[tuple[str, int], Value], finer: Fraction, counts: dict[int, tree.Steps]
    ) -> Iterator[Edit]:
        calls = [call for keyword, call in self._calls() if keyword == "target"]
        for index, (call, target) in enumerate(zip(calls, self.policy.targets, strict=True)):
            name, declared = amount_of(target)
            amount, window = moved.get(("amount", index)), moved.get(("window", index))
            if isinstance(amount, Decimal):
                said = _argument(call, name)
                assert said is not None, "a target says its amount"
                yield (*said.value.span, plain(amount))
                if isinstance(target, UserLevelTarget):
                    yield from self._parts(amount / declared)
            if isinstance(window, int) and (said := _argument(call, "window")) is not None:
                counts.pop(id(said.value), None)
                yield (*said.value.span, _steps(window * finer, f"{window} steps", 0))
            if isinstance(target, UserLevelTarget) and ("period", 0) in moved:
                yield from _per(call, moved["period", 0])

    def _parts(self, factor: Decimal) -> Iterator[Edit]:
        """Parts of the budget, as much more or less as the promise."""
        for keyword, call in self._calls():
            if keyword == "budget" and call.function.text == "parts":
                for argument in call.arguments:
                    if isinstance(argument.value, tree.Number):
                        yield (*argument.value.span, plain(argument.value.value * factor))

    def _participation(
        self, moved: Mapping[tuple[str, int], Value], finer: Fraction, step: int, counts: dict[int, tree.Steps]
    ) -> Iterator[Edit]:
        bound = self.policy.participation
        call = next((call for keyword, call in self._calls() if keyword == "participation"), None)
        if bound is None or call is None:
            return
        said = _argument(call, "steps") or next(one for one in call.arguments if one.name is None)
        counts.pop(id(said.value), None)
        period = moved.get(("period", 0), bound.per)
        steps = moved.get(("bound", 0), bound.steps)
        assert isinstance(steps, int), "a bound is a number of steps"
        if finer != 1 or period != bound.per:
            steps = self._bound(steps, finer, step, period)
        if steps != bound.steps:
            yield (*said.value.span, f"{steps} steps")
        if period != bound.per:
            yield from _per(call, period)
        if (spacing := _argument(call, "spacing")) is not None and finer != 1:
            counts.pop(id(spacing.value), None)
            apart = max(1, int(bound.spacing * finer)) if finer < 1 else 1
            yield (*spacing.value.span, f"{apart} steps")

    def _bound(self, steps: int, finer: Fraction, step: int, period: Value | str) -> int:
        """The bound that says no less of a user in other steps or in another period."""
        bound, stream = self.policy.participation, self.policy.stream
        span = None if stream.horizon is None else stream.horizon * stream.step_milliseconds
        lengths = [length for length in (span, period) if isinstance(length, int)]
        declared = bound.per if bound is not None else None
        whole = lengths[-1] if lengths else None
        times = 1 if declared in {None, MONTH} or whole is None else max(1, -(-whole // int(declared or 1)))
        most = min((-(-length // step) for length in lengths), default=None)
        wanted = steps * times * max(1, -(-finer.numerator // finer.denominator))
        return wanted if most is None else min(wanted, max(1, most))

    def _calls(self) -> Iterator[tuple[str, tree.Call]]:
        for statement in self.parsed.statements:
            if isinstance(statement, tree.CallStatement) and isinstance(statement.value, tree.Call):
                yield statement.keyword.text, statement.value

    def _fields(self) -> Iterator[tree.StreamField]:
        for statement in self.parsed.statements:
            if isinstance(statement, tree.Stream):
                yield from (field for field in statement.fields if isinstance(field, tree.StreamField))

    def _field(self, keyword: str, text: str) -> Edit:
        value = next(field.value for field in self._fields() if field.keyword.text == keyword)
        return (*value.span, text)

    def _said(self, node: tree.Node) -> str:
        return self.parsed.source.text[node.span.start : node.span.end]


def _steps(count: Fraction, said: str, step: int) -> str:
    if count.denominator != 1:
        of = f" of {length_text(step)}" if step else ""
        raise UnalterableError(f"`{said}` would be no whole number of steps{of}")
    return f"{count} steps"


def _argument(call: tree.Call, name: str) -> tree.Argument | None:
    return next((one for one in call.arguments if one.name is not None and one.name.text == name), None)


def _per(call: tree.Call, period: Value | str) -> Iterator[Edit]:
    """`per` put in, taken out or altered."""
    said = _argument(call, "per")
    if said is None and isinstance(period, int):
        end = call.arguments[-1].span.end
        yield end, end, f", per = {length_text(period)}"
    elif said is not None and isinstance(period, int):
        yield (*said.value.span, length_text(period))
    elif said is not None:
        place = call.arguments.index(said)
        if place:
            yield call.arguments[place - 1].span.end, said.span.end, ""
        else:
            yield said.span.start, call.arguments[1].span.start, ""


def _steps_within(node: object) -> Iterator[tree.Steps]:
    """Every number of steps in a part of the tree."""
    if isinstance(node, tree.Steps):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from _steps_within(item)
    elif is_dataclass(node):
        for field in fields(node):
            yield from _steps_within(getattr(node, field.name))
