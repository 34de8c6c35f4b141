"""Noise that is drawn before the counts are there which it is for.

Sampling takes longer for some values than for others, so the time between closing a step and publishing it would tell
of its noise, and with what is published of its counts. So the next step is rehearsed on counts of zero while its rows
still arrive; what is drawn there is handed out, once each, when the step itself asks for noise of the same laws.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.users.claims import source_release
from policyc_runtime.noisy_values import measured
from policyc_runtime.planned_release import BudgetedRelease, DerivedRelease
from policyc_runtime.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from policyc_runtime.ledger_reader import LedgerReader
    from policyc_runtime.plan import Plan


class NoiseAhead(Randomness):
    """A source whose noise may have been drawn before; each draw is handed out once.

    Args:
        source: where bits come from.
    """

    def __init__(self, source: Randomness) -> None:
        self.is_release = source.is_release
        self._source = source
        self._drawn: dict[Hashable, deque[NDArray[np.int64]]] = defaultdict(deque)
        self._rehearsing = False

    def words(self, count: int) -> NDArray[np.uint64]:
        """Fresh words."""
        return self._source.words(count)

    def noise(self, law: Hashable, draw: Callable[[Randomness], NDArray[np.int64]]) -> NDArray[np.int64]:
        """What was drawn ahead of this law, or what is drawn now where nothing is left of it."""
        if self._rehearsing:
            self._drawn[law].append(draw(self._source))
            return np.zeros_like(self._drawn[law][-1])
        ready = self._drawn.get(law)
        return ready.popleft() if ready else draw(self._source)

    def rehearse(self, plan: Plan, book: LedgerReader) -> None:
        """Draw ahead what the step after those of a ledger will ask for; what was left from before goes."""
        self._drawn.clear()
        self._rehearsing = True
        try:
            _rehearse(plan, book, self)
        finally:
            self._rehearsing = False


def _rehearse(plan: Plan, book: LedgerReader, randomness: Randomness) -> None:
    """Draw the next step of every release on counts of zero."""
    step = book.steps
    for part in plan.releases:
        if isinstance(part, DerivedRelease):
            continue
        if isinstance(part, BudgetedRelease):
            scale = part.schedule.scales(step + 1)[step]
            if scale > 0:
                part.mechanism.add_noise(np.zeros((1, len(part.cells)), dtype=np.int64), [scale], randomness)
            continue
        found = measured(plan, part)
        assert found is not None, "all others give away records"
        mechanism, setting = found
        records = [tuple(json.loads(entry.noisy)) for entry in book.drawn(part.name)]
        zeros = np.zeros((step + 1, len(source_release(plan, part).cells)), dtype=np.int64)
        mechanism.measure(setting, zeros, [()] * book.first + records, randomness)
