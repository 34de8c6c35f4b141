"""How much of the leakage that is promised is caution: the bound that the check shows, over what an attack reaches.

`pytest -m law -s -k tightness` prints it, `-k "tightness and banded-20"` of one kind; `--tables DIR` writes Markdown;
`--full` takes more chains of each kind, and kinds other than random ones of more than 5 states, too: minutes each.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from policyc.planning.leakage.inheritance import audited_group, shown_by_pairs
from policyc.planning.leakage.witness import found_attack
from policyc.planning.pairwise import allocate_by_pairs
from policyc.planning.promise import Promise
from policyc.planning.schedules import Allocation, Group, ScheduleError, allocate_quantified, allocate_uniform, expand
from policyc_check.steps.chains import Chain

pytestmark = pytest.mark.law

STEPS = 300
KINDS = ("random", "lazy", "sparse", "banded")


def moves(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Of these kinds: any, nine tenths stay, two fifths of the ways are open, only to neighboring states."""
    rows = rng.dirichlet(np.ones(n), n)
    if kind == "lazy":
        return 0.9 * np.eye(n) + 0.1 * rows
    if kind == "sparse":
        rows = rows * (rng.random((n, n)) < 0.4) + 0.3 * np.eye(n) + 0.1 * np.roll(np.eye(n), 1, axis=1)
    if kind == "banded":
        rows = np.where(np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1, rng.random((n, n)) + 0.05, 0.0)
    return rows / rows.sum(axis=1, keepdims=True)


def allocated(name: str, alpha: float, group: Group) -> Allocation | None:
    """As a plan spends it: by pairs of states, or by the recursion."""
    promise = Promise(((alpha, 1),))
    by_recursion = {"uniform": allocate_uniform, "quantified": allocate_quantified}[name]
    found = None
    with suppress(ScheduleError):
        found = by_recursion(alpha, STEPS, [group])
    return allocate_by_pairs(name, promise, STEPS, [group], found) or found


def ratio(chain: Chain, budgets: np.ndarray) -> float:
    """The largest leakage that is shown over the largest that an attack is found to reach."""
    shown = [audited_group(budgets, chain).largest()]
    if (pairs := shown_by_pairs(chain, budgets, endless=False)) is not None:
        shown.append(pairs[1].largest())
    least, peak = min(shown)
    attack = found_attack(chain, budgets, sorted({0, 1, STEPS // 2, STEPS - 2, STEPS - 1, peak}))
    assert attack is not None
    assert attack.nats <= least * (1 + 1e-12)
    return least / attack.nats


@pytest.mark.sampled(0, laws=5)
@pytest.mark.parametrize("n", [2, 3, 5, 10, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_tightness(kind, n, full, table):
    """Of two states equal to six digits; of up to 20 at most 1.05."""
    if n > 5 and kind != "random" and not full:
        pytest.skip("minutes a chain: run with --full")
    rng, ratios = np.random.default_rng([14, KINDS.index(kind), n]), []
    for _ in range(5 if full else 1):
        chain = Chain(moves(kind, n, rng))
        for alpha in (0.2, 1.0, 3.0):
            for name in ("uniform", "quantified"):
                found = allocated(name, alpha, Group(None, chain))
                if found is not None:
                    ratios.append(ratio(chain, expand(found.runs)))
    about = f"Leakage shown over leakage reached, {STEPS} steps, `uniform` and `quantified`, alpha .2, 1 and 3."
    row = [kind, n, len(ratios), f"{np.median(ratios):.9f}", f"{max(ratios):.9f}"]
    table(f"tightness-{kind}-{n}", about, ["chains", "states", "plans", "median", "largest"], [row])
    assert max(ratios) <= (1 + 1e-6 if n == 2 else 1.05)
