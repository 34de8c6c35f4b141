"""What published values have to keep, and which of them are left out, as a checked policy has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from policyc.diagnostics import Span


@dataclass(frozen=True)
class LinearConstraint:
    """sum of coefficients times values, compared with a bound; in cell order of the release.

    `current` and `previous` have a coefficient by index of each of the `cells` that they are about (a release without
    cells has one value).
    `text` is the policy's own words, `line` its 1-based line. A constraint on every cell is one row a cell.
    """

    text: str
    line: int
    cells: int
    current: Mapping[int, Decimal]
    previous: Mapping[int, Decimal]
    relation: Literal["==", "<=", ">="]
    bound: Decimal
    span: Span


@dataclass(frozen=True)
class Suppression:
    """Which values of a release are left out: small or uncertain ones, or where those of another release are.

    `text` is the policy's own words, `line` its 1-based line. One of `below`, `where` and `error_above` is given, the
    last with its `chance`; it is a part of the published value where it is `relative`.
    """

    text: str
    line: int
    span: Span
    below: Decimal | None = None
    where: str | None = None
    error_above: Decimal | None = None
    relative: bool = False
    chance: Decimal | None = None


@dataclass(frozen=True)
class Agreement:
    """That a release's values add up to those of another, each to that which it belongs to."""

    text: str
    line: int
    parent: str
    span: Span


@dataclass(frozen=True)
class Postprocess:
    """Constraints on the released values of one release, which of these are then left out, and what they add up to."""

    release: str
    constraints: tuple[LinearConstraint, ...]
    integer: bool
    span: Span
    suppressions: tuple[Suppression, ...] = ()
    agreements: tuple[Agreement, ...] = ()
