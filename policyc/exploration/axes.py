"""What of a policy may be altered, and by how much: its promise, its bound, its windows, its step and its period."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from policyc.emit.numbers import counted, plain
from policyc.semantics.policy import Policy
from policyc.semantics.reading import UNITS
from policyc.semantics.rules.target import amount_of
from policyc.semantics.targets import UserLevelTarget
from policyc_check.errors import KernelError
from policyc_check.plan.stream import MONTH

Kind = Literal["amount", "bound", "window", "step", "period"]
Value = Decimal | int | None
FACTORS = (Decimal("0.25"), Decimal("0.5"), Decimal(1), Decimal(2), Decimal(4))
STEPS = [
    amount * UNITS[unit]
    for unit, amounts in {"s": (1, 5, 10, 30), "min": (1, 5, 15, 30), "h": (1, 3, 6, 12), "d": (1, 7, 28)}.items()
    for amount in amounts
]
PERIODS = [days * UNITS["d"] for days in (1, 7, 28, 364)]
LONGEST_LENGTH = 3_650_000 * UNITS["d"]
COARSER, LONGEST_FINER, FEWEST_STEPS = 3, 1000, 4


@dataclass(frozen=True)
class Axis:
    """One thing that is altered.

    Args:
        name: how it is called, such as `epsilon` or `bound`.
        kind: what it is: an amount of nats (or rho), steps of a bound or window, milliseconds of a step or period.
        values: in ascending order; None for a period without end.
        declared: which of them the policy says.
        target: which target it belongs to, of amounts and windows.
    """

    name: str
    kind: Kind
    values: tuple[Value, ...]
    declared: int
    target: int = 0

    @property
    def shown(self) -> tuple[str, ...]:
        """The values in words of the policy."""
        return tuple(self.show(value) for value in self.values)

    def show(self, value: Value) -> str:
        """One value in words of the policy."""
        if value is None:
            return "all steps"
        if isinstance(value, Decimal):
            return plain(value)
        return counted(value, "step") if self.kind in {"bound", "window"} else length_text(value)


def length_text(milliseconds: int) -> str:
    """A length as a policy writes it: `90min`, `7d`."""
    units = {unit: size for unit, size in UNITS.items() if unit != "w" and milliseconds % size == 0}
    unit = max(units, key=lambda one: units[one])
    return f"{milliseconds // units[unit]}{unit}"


def length_of(text: str) -> int:
    """The milliseconds of a length as a policy writes it; ValueError for anything else."""
    found = re.fullmatch(r"([0-9]{1,9})([a-z]+)", text)
    if found is None or found[2] not in UNITS or not 0 < (length := int(found[1]) * UNITS[found[2]]) <= LONGEST_LENGTH:
        raise ValueError(text)
    return length


def axes_of(policy: Policy, chosen: Mapping[str, Sequence[Value]] | None = None) -> tuple[list[Axis], dict[str, str]]:
    """What may be altered, and why something may not.

    Args:
        policy: checked.
        chosen: the values of some axes by name; the others then stay as declared.

    Returns:
        The axes with at least two values, and by name the reasons why there are no others.

    Raises:
        KernelError: E0901, an axis was chosen that there is not.
    """
    fixed: dict[str, str] = {}
    found = [*_amounts(policy), *_bound(policy), *_windows(policy), *_step(policy, fixed), *_period(policy, fixed)]
    if chosen is not None:
        _require_all(chosen, [axis.name for axis in found], fixed)
        fixed = {name: reason for name, reason in fixed.items() if name in chosen}
        found = [_with(axis, chosen[axis.name]) for axis in found if axis.name in chosen]
    return [axis for axis in found if len(axis.values) > 1], fixed


def _require_all(chosen: Iterable[str], names: Sequence[str], fixed: Mapping[str, str]) -> None:
    for name in chosen:
        if name not in names:
            raise KernelError(
                "E0901",
                f"the policy has no {name} that could be altered",
                because=fixed.get(name),
                help=f"alter {', '.join(names)}",
            )


def _axis(name: str, kind: Kind, declared: Value, others: Iterable[Value], target: int = 0) -> Axis:
    values = sorted({declared, *others}, key=lambda value: (value is None, value or 0))
    return Axis(name, kind, tuple(values), values.index(declared), target)


def _with(axis: Axis, values: Sequence[Value]) -> Axis:
    return _axis(axis.name, axis.kind, axis.values[axis.declared], values, axis.target)


def _named(name: str, index: int, names: Sequence[str]) -> str:
    return name if names.count(name) == 1 else f"{name} of target {index + 1}"


def _amounts(policy: Policy) -> Iterable[Axis]:
    amounts = [amount_of(target) for target in policy.targets]
    names = [name for name, _ in amounts]
    for index, (name, amount) in enumerate(amounts):
        yield _axis(_named(name, index, names), "amount", amount, (amount * factor for factor in FACTORS), index)


def _shares_of(steps: int, most: int | None) -> Iterable[int]:
    """A quarter of a number of steps up to four times as many, no more than there are."""
    whole = (max(1, int(steps * factor)) for factor in FACTORS)
    return (steps if most is not None and number > most else number for number in whole)


def _bound(policy: Policy) -> Iterable[Axis]:
    bound = policy.participation
    if bound is not None and any(isinstance(target, UserLevelTarget) for target in policy.targets):
        yield _axis("bound", "bound", bound.steps, _shares_of(bound.steps, policy.longest_part))


def _windows(policy: Policy) -> Iterable[Axis]:
    said = {
        index: window
        for index, target in enumerate(policy.targets)
        if (window := getattr(target, "window", None) or 1) > 1
    }
    for index, window in said.items():
        name = _named("window", index, ["window"] * len(said))
        yield _axis(name, "window", window, _shares_of(window, policy.stream.horizon), index)


def _step(policy: Policy, fixed: dict[str, str]) -> Iterable[Axis]:
    reason = _step_fixed(policy)
    if reason is not None:
        fixed["step"] = reason
        return
    step, horizon = policy.stream.step_milliseconds, policy.stream.horizon
    finer = [one for one in STEPS if one < step and step % one == 0][-1:]
    if horizon is None or horizon > LONGEST_FINER:
        finer = []
    coarser = [one for one in STEPS if one > step and one % step == 0]
    if horizon is not None:
        coarser = [one for one in coarser if one * FEWEST_STEPS <= step * horizon]
    yield _axis("step", "step", step, [*finer, *coarser[:COARSER]])


def _step_fixed(policy: Policy) -> str | None:
    """Why another step would be another policy altogether."""
    bound, signal = policy.participation, policy.signal
    rows = [row for block in policy.postprocess for row in block.constraints if "population" not in row.text]
    reasons = {
        "the correlation says how users move from one step to the next, and nothing of other steps": bool(
            policy.correlations
        ),
        "the signal's numbers are of values of this step": signal is not None
        and signal.arguments.get("learned") is not True,
        "the participation says what a user does in one of these steps": bound is not None
        and (bound.per_step > 1 or bound.cells_per_step is not None),
        "`cells_per_step` says in how many cells of one of these steps a user is": any(
            release.cells_per_step is not None for release in policy.releases
        ),
        "a baseline says which of these steps values are held against": any(
            made.baseline is not None for made in policy.made
        ),
        "the post-processing holds values of this step against numbers": any(row.bound for row in rows)
        or any(block.suppressions for block in policy.postprocess),
        "months differ in length": policy.stream.step_text == MONTH,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _period(policy: Policy, fixed: dict[str, str]) -> Iterable[Axis]:
    if not any(isinstance(target, UserLevelTarget) for target in policy.targets):
        return
    stream, declared = policy.stream, policy.period
    reason = None
    if MONTH in {declared, stream.step_text}:
        reason = "months differ in length"
    elif declared is None and stream.start is None:
        reason = "periods are counted from `start`, which the stream does not say"
    if reason is not None or declared == MONTH:
        fixed["period"] = reason or ""
        return
    span = None if stream.horizon is None else stream.horizon * stream.step_milliseconds
    others: list[Value] = [] if span is None else [None]
    for period in PERIODS:
        fits = declared is None or declared % period == 0 or period % declared == 0
        if fits and period % stream.step_milliseconds == 0 and (span is None or period < span):
            others.append(period)
    yield _axis("period", "period", declared, others)
