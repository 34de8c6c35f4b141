"""Budgets that somebody else spent: a plan, a table of steps, or a list of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from policyc.quantification.files import Foreign, ForeignFileError, listed, shortened
from policyc_check.plan.release import AdaptiveRelease
from policyc_check.rounding import rounded_up
from policyc_check.steps.budgets import LARGEST_HORIZON, window_budget
from policyc_runtime.schedule import column

if TYPE_CHECKING:
    from policyc_check.plan.plan import Plan

Floats = NDArray[np.float64]
Neighbors = Literal["replace", "add_remove"]

CODE = "E0897"
LARGEST = Decimal(10) ** 6  # nats, as in a policy; more promises nothing
SMALLEST = Decimal("1e-100")
WIDE = Context(prec=2_000)  # sums of numbers that a file may have are exact
BUDGET_NAMES = ("epsilon", "budget", "eps")
STEP_NAMES = ("step", "t")
_REMEDY = (
    "give a plan, a CSV file with a column `epsilon` (and `step`, if you like), or a JSON list of numbers; budgets are "
    "nats from 0, which is no release, to 1e6"
)


@dataclass(frozen=True)
class Spent:
    """Budgets of single steps.

    Args:
        budgets: nats, rounded up, (T,); of an endless stream one period.
        first: the number of the first step.
        endless: whether the budgets repeat for ever.
        source: the file.
        exact: the same as decimals.
        plan: that says them, if one does.
    """

    budgets: Floats
    first: int
    endless: bool
    source: str
    exact: Exact
    plan: Plan | None = None

    def sums(self, width: int) -> Floats:
        """What every `width` steps in a row spend, nats, rounded up, (max(1, T - width + 1),); endless: (T,)."""
        return np.minimum(self.exact.sums(width, endless=self.endless), rounded_up(self.most(width)))

    def most(self, width: int) -> Decimal | Fraction:
        """The most that so many steps in a row spend, exact: of releases that adapt, by their own rule."""
        added = self.exact.largest(width, endless=self.endless)
        if self.plan is None or not any(isinstance(release, AdaptiveRelease) for release in self.plan.scheduled):
            return added
        ruled = window_budget(self.plan, width)
        return ruled if ruled < Fraction(added) else added

    @classmethod
    def of(
        cls, values: Sequence[Decimal], first: int, source: str, *, endless: bool = False, plan: Plan | None = None
    ) -> Spent:
        """Budgets of all steps from the first on, as exact decimals."""
        exact = Exact.of(values)
        return cls(exact.sums(1, endless=False), first, endless, source, exact, plan)


@dataclass(frozen=True)
class Exact:
    """Budgets as whole multiples of a power of ten, so that what they add up to is exact.

    Args:
        units: (T,), whole numbers: of 64 bits where their sum has room, else Python's.
        digits: of the decimals: a budget is its number times 10 ** -digits.
    """

    units: NDArray[Any]
    digits: int

    @classmethod
    def of(cls, values: Sequence[Decimal]) -> Exact:
        """Of decimals of at least 0."""
        distinct = set(values)
        digits = max(0, *(-int(value.as_tuple().exponent) for value in distinct))
        whole = {value: int(value.scaleb(digits, WIDE)) for value in distinct}
        room = max(whole.values()) * max(1, len(values)) < 2**62
        return cls(np.array([whole[value] for value in values], dtype=np.int64 if room else object), digits)

    def sums(self, width: int, *, endless: bool) -> Floats:
        """As `Spent.sums`."""
        whole = self._windows(width, endless=endless)
        distinct, place = np.unique(whole, return_inverse=True)
        rounded = [rounded_up(Fraction(value, 10**self.digits)) for value in distinct.tolist()]
        return np.array(rounded, dtype=np.float64)[place.ravel()]

    def largest(self, width: int, *, endless: bool) -> Decimal:
        """The most that so many steps in a row spend, exact."""
        return Decimal(int(self._windows(width, endless=endless).max())).scaleb(-self.digits, WIDE)

    def least(self) -> Decimal:
        """The least budget, exact."""
        return Decimal(int(self.units.min())).scaleb(-self.digits, WIDE)

    def distinct(self) -> list[Decimal]:
        """Each budget once, exact."""
        return [Decimal(value).scaleb(-self.digits, WIDE) for value in set(self.units.tolist())]

    def _windows(self, width: int, *, endless: bool) -> NDArray[Any]:
        units = np.resize(self.units, len(self.units) + width - 1) if endless else self.units
        if len(units) * int(self.units.max()) >= 2**62:
            units = units.astype(object)
        total = np.concatenate([units[:1] * 0, np.cumsum(units)])
        width = min(width, len(units))
        return np.asarray(total[width:] - total[:-width])


def read_budgets(path: Path, neighbors: Neighbors = "replace") -> Spent:
    """The budgets of a file.

    Args:
        path: a plan's directory or file, or CSV or JSON.
        neighbors: what a budget of the file is about: one person's value replaced by any other, or one person added or
            removed, of which a replacement is two. A plan says itself what it is about.

    Raises:
        KernelError: E0897, it holds no budgets of steps; of a plan, that it is none, or is refused.
    """
    if path.is_dir():
        return _of_plan(path)
    file = Foreign(path, CODE, _REMEDY)
    if file.is_json and '"policyc-plan"' in file.text[:200]:
        return _of_plan(path)
    by_step = _of_json(file, file.json()) if file.is_json else _of_csv(file)
    first, last = min(by_step), max(by_step)
    if last - first >= LARGEST_HORIZON:
        raise file.refused(f"the steps go from {first:,} to {last:,}; at most {LARGEST_HORIZON:,} are computed with")
    times = 2 if neighbors == "add_remove" else 1
    doubled = {value: times * value for value in set(by_step.values())}
    budgets = [Decimal(0)] * (last - first + 1)
    for step, value in by_step.items():
        budgets[step - first] = doubled[value]
    return Spent.of(budgets, first, file.name)


def _of_plan(path: Path) -> Spent:
    """The budgets of all releases together, of a plan whose claims hold."""
    from policyc_check.errors import PlanRejectedError
    from policyc_check.plan.plan import load_plan
    from policyc_check.verify import verified_claims
    from policyc_runtime.plan import PLAN

    named = str(path)
    if path.is_dir() and not (path / PLAN).exists():
        raise ForeignFileError(CODE, "there is no plan in this directory", where=named, help=_REMEDY)
    plan = load_plan(path)
    broken = next((claim for claim in verified_claims(plan) if claim.holds is False), None)
    if broken is not None:
        raise PlanRejectedError(
            broken.code,
            f"plan refused: {broken.detail}",
            where=broken.where,
            because=f"the plan claims: {broken.name}",
            help="its budgets need not be what was spent; compile the policy again and find out who changed it",
        )
    # The same noise at every step leaks like budgets.
    if plan.measured and plan.claims.largest_budget is not None:
        budget, endless = plan.claims.largest_budget, plan.stream.horizon is None
        return Spent.of([budget] * (plan.stream.horizon or 1), 0, named, endless=endless, plan=plan)
    if plan.measured:
        raise ForeignFileError(
            CODE,
            f"`{plan.measured[0].name}` has noise for the whole stream, and no budgets of single steps",
            where=named,
            because="it is promised about all that a person does, which no chain makes any larger",
            help="read the promise in its certificate; the leakage of single steps is for budgets of steps",
        )
    horizon = plan.stream.horizon
    if horizon is None and any(len(release.schedule.segments) > 1 for release in plan.scheduled):
        raise ForeignFileError(
            CODE,
            "an endless plan begins otherwise than it goes on",
            where=named,
            help="give the budgets of its first steps as a CSV file: `policyc show DIR --format csv`",
        )
    steps = horizon or math.lcm(*(len(release.schedule.segments[0].epsilons) for release in plan.scheduled))
    if steps > LARGEST_HORIZON:
        raise ForeignFileError(CODE, f"budgets repeat after {steps:,} steps only", where=named, help=_REMEDY)
    rows = list(zip(*(column(release.schedule, "epsilons", steps) for release in plan.scheduled), strict=True))
    total = {row: _total(row) for row in set(rows)}
    return Spent.of([total[row] for row in rows], 0, named, endless=horizon is None, plan=plan)


def _total(row: Sequence[Decimal]) -> Decimal:
    with localcontext(WIDE):
        return sum(row, Decimal(0))


def _of_csv(file: Foreign) -> dict[int, Decimal]:
    """Budgets by step. Several rows of a step add up; a step without one has no release."""
    rows = file.rows()
    line, cells = next(rows)
    header = [cell.lower() for cell in cells]
    columns = [header.index(name) for name in BUDGET_NAMES if name in header]
    named = bool(columns)
    if not named:
        if any(_is_word(cell) for cell in cells):
            named = len(cells) == 1
            if not named:
                raise file.refused(f"no column is called `epsilon`: there are {listed(cells)}", f"line {line}")
        elif len(cells) > 1:
            raise file.refused(
                f"there are {len(cells)} columns, and nothing says which holds the budgets",
                f"line {line}",
                help="write their names into the first line, such as `step,epsilon`",
            )
        columns = [0]
    if len(columns) > 1 or (len(set(header)) < len(header) and named):
        raise file.refused(f"more than one column could hold the budgets: {listed(cells)}", f"line {line}")
    steps = [header.index(name) for name in STEP_NAMES if named and name in header]
    found: dict[int, Decimal] = {}
    known: dict[str, Decimal] = {}
    first = [] if named else [(line, cells)]
    for count, (place, row) in enumerate(chain(first, rows)):
        where = f"line {place}"
        if count == LARGEST_HORIZON:
            raise file.refused(f"there are more than {LARGEST_HORIZON:,} rows", where)
        if len(row) != len(cells):
            raise file.refused(f"a row has {len(row)} values, and the first has {len(cells)}", where)
        text = row[columns[0]]
        if text not in known:
            known[text] = _checked(file, file.number(text, where), where)
        step = _step(file, row[steps[0]], where) if steps else count
        found[step] = _total((found[step], known[text])) if step in found else known[text]
    if not found:
        raise file.refused("there is no row below the names of the columns")
    return found


def _is_word(cell: str) -> bool:
    """Whether a value of the first line is a name, and no number: `nan` and `inf` are meant as numbers."""
    bare = cell.lower().lstrip("+-")
    return cell[:1].isalpha() and bare not in {"nan", "inf", "infinity"}


def _of_json(file: Foreign, content: Any) -> dict[int, Decimal]:
    """A list of numbers, or of `{"step": 0, "epsilon": 0.1}`; or one of these under the name of a budget."""
    if isinstance(content, dict):
        name = next((name for name in BUDGET_NAMES if name in content), None)
        if name is None:
            raise file.refused(f"there is no list `epsilon`: there are {listed(content)}")
        content = content[name]
    if not isinstance(content, list) or not content:
        raise file.refused("the file holds no list of budgets")
    if len(content) > LARGEST_HORIZON:
        raise file.refused(f"there are {len(content):,} budgets; at most {LARGEST_HORIZON:,} are computed with")
    found: dict[int, Decimal] = {}
    for index, entry in enumerate(content):
        place, step, value = f"entry {index}", index, entry
        if isinstance(entry, dict):
            name = next((name for name in BUDGET_NAMES if name in entry), None)
            if name is None:
                raise file.refused(f"there is no `epsilon`: there are {listed(entry)}", place)
            value = entry[name]
            said = next((entry[word] for word in STEP_NAMES if word in entry), Decimal(index))
            step = _step(file, str(said), place)
        if isinstance(entry, dict) != isinstance(content[0], dict):
            raise file.refused("some entries are numbers, and others records", place)
        if not isinstance(value, Decimal):
            raise file.refused(f"`{shortened(str(value))}` is not a number", place)
        budget = _checked(file, value, place)
        found[step] = _total((found[step], budget)) if step in found else budget
    return found


def _checked(file: Foreign, value: Decimal, place: str) -> Decimal:
    if value < 0:
        raise file.refused(f"a budget is negative: {value:.10g}", place)
    if value > LARGEST:
        raise file.refused(f"a budget of {value:.10g} nats promises nothing", place)
    if 0 < value < SMALLEST:
        raise file.refused("a budget is below 1e-100", place, help="write 0 where nothing was released")
    return value


def _step(file: Foreign, text: str, place: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise file.refused(f"`{shortened(text)}` is no number of a step", place)
    return int(text)
