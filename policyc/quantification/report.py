"""What is said about the leakage of a given release: one content, of which text, page, pictures and record are made.

Numbers of leakage are rounded up to six digits where people read them, and are the bounds themselves in JSON.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from policyc.emit.numbers import about, counted, round_up
from policyc.quantification.leakage import (
    ADVERSARIES,
    Adversary,
    Floats,
    GivenLeakage,
    steps_kept,
)
from policyc_check.rounding import rounded_down, rounded_up

HEADS: dict[Adversary, str] = {"none": "no chain", "backward": "backward", "forward": "forward", "both": "both"}
MOST_ROWS = 20  # of steps and of persons, where people read them


@dataclass(frozen=True)
class Report:
    """What is said.

    Args:
        found: the leakage.
        knows: the adversaries that are shown, weakest first.
        alpha: what is tolerated about one step, nats, if it was said.
        kept: for how many steps from the first, by adversary; empty without alpha.
        exact: the decimals whose floats, rounded up, are budgets or what windows spend: a leakage that is one of these
            inherits nothing, and is printed as what was spent.
    """

    found: GivenLeakage
    knows: tuple[Adversary, ...]
    alpha: Decimal | None
    kept: dict[Adversary, int]
    exact: dict[float, Decimal | Fraction]

    @classmethod
    def of(cls, found: GivenLeakage, knows: Sequence[Adversary], alpha: Decimal | None) -> Report:
        """The report of a leakage, with what is kept of a tolerance."""
        shown = tuple(adversary for adversary in ADVERSARIES if adversary in knows)
        endless = found.spent.endless
        kept = {} if alpha is None or endless else {a: steps_kept(found, alpha, a) for a in shown}
        spent = found.spent
        sizes = [*map(spent.most, found.widths), *spent.exact.distinct()]
        return cls(found, shown, alpha, kept, {rounded_up(size): size for size in sizes})

    def amount(self, value: float | Decimal | Fraction | None) -> str:
        """A leakage in a table, rounded up."""
        if value is None or value == math.inf:
            return "–" if value is None else "no limit"
        return round_up(self.exact.get(value, value) if isinstance(value, float) else value)

    def nats(self, value: float | Decimal | Fraction) -> str:
        """A leakage with its unit."""
        return f"{self.amount(value)} nats"

    @property
    def strongest(self) -> Adversary:
        """Who learns most of those shown."""
        return max(self.knows, key=lambda a: self.found.window(a, 1).nats)

    @property
    def exceeded(self) -> bool:
        """Whether more is told about a step than is tolerated."""
        return self.alpha is not None and not (self.found.window(self.strongest, 1).nats <= rounded_down(self.alpha))

    @property
    def title(self) -> str:
        """What the budgets were spent on, or on what they are judged."""
        return self.found.knowledge.title or self.found.knowledge.source

    @property
    def spent(self) -> str:
        """The budgets in a few words."""
        spent, budgets = self.found.spent, self.found.spent.budgets
        least, most = spent.exact.least(), spent.exact.largest(1, endless=False)
        size = f"{'' if least == most else f'{round_up(least)} to '}{round_up(most)} nats"
        if spent.endless:
            repeated = "the same" if len(budgets) == 1 else f"the same {len(budgets):,}"
            return f"{size} a step, {repeated} for ever ({spent.source})"
        steps = counted(len(budgets), "step")
        return f"{steps}, {size} a step, {round_up(self.found.spent_in_all or Decimal(0))} nats in all ({spent.source})"

    @property
    def chains(self) -> str:
        """How people move, in a few words."""
        known = self.found.knowledge.known
        if self.found.knowledge.personal:
            return f"{counted(len(known), 'chain')} of single users or clusters ({self.found.knowledge.source})"
        if all(one.chain is None for one in known):
            return f"none: steps are said to be independent ({self.found.knowledge.source})"
        groups = [one.name for one in known if one.name is not None]
        of = f" of {', '.join(groups)}" if groups else ""
        return f"{counted(len(known), 'chain')}{of} ({self.found.knowledge.source})"

    def tolerances(self) -> list[list[str]]:
        """Event, w-event and user level side by side: rows of words and one number for each adversary (CAO17)."""
        found, rows = self.found, []
        for width in found.widths:
            words = "event: any 1 step" if width == 1 else f"w-event: any {width:,} steps in a row"
            rows.append([words, *(self.amount(found.window(a, width).nats) for a in self.knows)])
        whole = found.spent_in_all
        all_steps = "user: all steps" if whole is None else f"user: all {counted(len(found.spent.budgets), 'step')}"
        return [*rows, [all_steps, *(self.amount(math.inf if whole is None else whole) for _ in self.knows)]]

    def growth(self) -> list[list[str]]:
        """How much larger the leakage about one step is than the largest budget; and what it grows to."""
        found = self.found
        spent = found.window("none", 1).nats
        rows = [["times the largest budget", *(times(found.window(a, 1).nats, spent) for a in self.knows)]]
        for steps, largest in found.horizons.items():
            words = f"if it had ended after {counted(steps, 'step')}"
            rows.append([words, *(self.amount(largest[a]) for a in self.knows)])
        return [*rows, [self.going_on, *(self.amount(found.limit(a)) for a in self.knows)]]

    @property
    def going_on(self) -> str:
        """What it means that the budgets go on."""
        if self.found.spent.endless:
            return "for ever"
        if not self.found.pattern:
            return "if every further step spends the largest budget"
        return (
            f"if the {'budget goes' if self.found.pattern == 1 else f'{self.found.pattern:,} budgets go'} on for ever"
        )

    def persons(self) -> list[list[str]]:
        """The groups, or the users with the largest leakage: name, and the largest about one step."""
        chains, strongest = self.found.chains, self.strongest
        if len(chains) < 2:
            return []
        order = sorted(chains, key=lambda chain: -chain.at_step(strongest).nats)
        return [
            [chain.name or "", *(self.amount(chain.at_step(a).nats) for a in self.knows)] for chain in order[:MOST_ROWS]
        ]

    def quantiles(self) -> list[list[str]]:
        """Of many chains: what is told at most about half of them, nine in ten, and ninety-nine in a hundred."""
        if len(self.found.chains) <= MOST_ROWS:
            return []
        rows = []
        for words, part in (("half of them", 0.5), ("nine in ten", 0.9), ("ninety-nine in a hundred", 0.99)):
            row = [words]
            for adversary in self.knows:
                values = sorted(chain.at_step(adversary).nats for chain in self.found.chains)
                row.append(self.amount(values[math.ceil(part * len(values)) - 1]))
            rows.append(row)
        return rows

    def steps(self, most: int = MOST_ROWS) -> list[list[str]]:
        """Step, budget, and the leakage for each adversary; of many steps the ends and the largest."""
        found = self.found
        count = len(found.total)
        chosen = np.arange(count)
        if count > most:
            worst = int(found.total.argmax())
            near = range(max(0, worst - 1), min(count, worst + 2))
            chosen = np.unique([*range(most // 3), *near, *range(count - most // 3, count)])
        columns = [self.columns[a] for a in ("none", *self.knowing)]
        return [
            [f"{found.spent.first + t:,}", *(self.amount(float(column[t])) for column in columns)]
            for t in chosen.tolist()
        ]

    @property
    def knowing(self) -> tuple[Adversary, ...]:
        """Those shown who know something: to others a step tells its budget."""
        return tuple(adversary for adversary in self.knows if adversary != "none")

    @property
    def columns(self) -> dict[Adversary, Floats]:
        """The leakage about every step for each adversary: its budget, BPL, FPL and TPL."""
        found = self.found
        return {"none": found.budgets, "backward": found.backward, "forward": found.forward, "both": found.total}


def times(value: float, of: float) -> str:
    """How many times as large a leakage is, to three digits."""
    if value == math.inf:
        return "no limit"
    return "1" if of == 0 else about(value / of)
