"""Linear forms in the values of this step and the one before, with exact coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

Coefficients = Mapping[int, Decimal]


@dataclass(frozen=True)
class Form:
    """constant + current . x_t + previous . x_(t-1), with coefficients by cell index."""

    current: Coefficients
    previous: Coefficients
    constant: Decimal = Decimal(0)

    @property
    def is_constant(self) -> bool:
        """Whether no released value stands in it."""
        return not self.current and not self.previous

    def plus(self, other: Form) -> Form:
        """The sum of two forms."""
        return Form(
            _added(self.current, other.current), _added(self.previous, other.previous), self.constant + other.constant
        )

    def times(self, factor: Decimal) -> Form:
        """The form with every number multiplied."""
        return Form(
            {i: c * factor for i, c in self.current.items() if factor},
            {i: c * factor for i, c in self.previous.items() if factor},
            self.constant * factor,
        )


def _added(left: Coefficients, right: Coefficients) -> Coefficients:
    total = dict(left)
    for index, value in right.items():
        total[index] = total.get(index, Decimal(0)) + value
    return {i: c for i, c in total.items() if c != 0}


Forms = tuple[Form, ...]


def added_up(forms: Forms) -> Form:
    """The sum of forms, in one pass (a release can have many cells)."""
    current: dict[int, Decimal] = {}
    previous: dict[int, Decimal] = {}
    constant = Decimal(0)
    for form in forms:
        for into, coefficients in ((current, form.current), (previous, form.previous)):
            for index, value in coefficients.items():
                into[index] = into.get(index, Decimal(0)) + value
        constant += form.constant
    return Form({i: c for i, c in current.items() if c}, {i: c for i, c in previous.items() if c}, constant)


def joined(left: Forms, right: Forms) -> Forms:
    """The sum of two expressions; a scalar joins every cell."""
    if len(left) == 1:
        return tuple(left[0].plus(form) for form in right)
    if len(right) == 1:
        return tuple(form.plus(right[0]) for form in left)
    return tuple(a.plus(b) for a, b in zip(left, right, strict=True))
