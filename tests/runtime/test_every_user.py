"""No mechanism states less than what a user moves: all users of small streams, through the mechanism's own `measure`.

See `every_user.py`. By default a part of the combinations is tried, spread evenly; with `--full` all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from every_user import Query, least_delta, least_rho, setting_for, worst_users

from policyc.offers import calibrate
from policyc_check.errors import KernelError
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms import stream_mechanism_kinds

COUNT = Query()
SUMS = (Query((0, 3)), Query((2, 3)), Query((-2, 3)), Query((-3, -1)))
EPSILONS = (0.05, 0.3, 0.7, 1.0, 1.5)  # in units of what is promised
SOME = 30  # settings of each mechanism and its options that every test run can afford

LINEAR: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "gaussian": [("gaussian", {})],
    "laplace": [("laplace", {})],
    "binomial": [("binomial", {})],
    "binary_tree": [("binary_tree", {})],
    "toeplitz": [("toeplitz", {})],
    "filter_subsample": [
        ("filter_subsample", {"rate": Decimal(rate), "filter": kind})
        for kind in ("triangle", "average")
        for rate in ("0.3", "0.5", "1")
    ],
    "dft": [("dft", {"coefficients": c, "choose": choose}) for c, choose in ((None, False), (1, False), (2, True))],
    "dft, laplace": [("dft", {"noise": "laplace", "coefficients": c}) for c in (None, 1, 2, 3)],
    "lmmse": [
        ("lmmse", {"weight": Decimal(weight), "decay": Decimal(decay)})
        for weight, decay in (("0.05", "1"), ("0.6", "1"), ("0.8", "0.7"))
    ],
    "lmmse, binomial": [
        ("lmmse", {"noise": "binomial", "weight": Decimal(weight), "decay": Decimal(decay)})
        for weight, decay in (("0.01", "1"), ("0.05", "1"), ("0.3", "0.8"))
    ],
}
LIMITED = ("laplace", "dft, laplace")  # mechanisms that have a largest loss
UNLIMITED = ("binomial", "lmmse, binomial")  # and those that do not even have a rho
PROMISED = {"lmmse, binomial": Decimal("0.2")}  # where noise is large, tiny weights are left of a count
SHAPES = [(1, 1, 1), (2, 2, 1), (3, 2, 2), (4, 2, 1), (4, 4, 1), (5, 2, 3), (6, 3, 2), (7, 3, 1), (7, 7, 1), (3, 9, 5)]
DELIVERIES = [("identity", None, 0), ("identity", None, None), ("identity", None, 2)]
TOTALS = [("prefix", None, 0), ("prefix", None, None), ("window", 2, 0)]


def settings(steps: int, *, sums: bool, in_a_row: bool = False) -> Iterator[tuple[Query, Setting]]:
    """Small settings over so many steps; those that would take too long are left out."""
    for (length, bound, spacing), (workload, window, wait) in product(SHAPES, DELIVERIES + TOTALS):
        if length != steps or (in_a_row and (spacing > 1 or bound >= length)):
            continue
        for query, per_step, cells, replaced in product(
            (COUNT, *SUMS) if sums else (COUNT,), (1, 2), (1, 2, 3), (0, 1)
        ):
            states = (per_step + 1) ** (2 if replaced else 1)
            ends = max(1, max(map(abs, query.clamp or (1,)))) * per_step * (2 if replaced else 1)
            if (states * (states + 1) / 2) ** (steps if cells > 1 else 0) > 2e6 or (2 * ends + 1) ** steps > 3e5:
                continue
            yield (
                query,
                setting_for(
                    query,
                    steps=steps,
                    bound=min(bound, steps),
                    spacing=spacing,
                    per_step=per_step,
                    cells=cells,
                    replaced=bool(replaced),
                    in_a_row=in_a_row,
                    workload=workload,
                    window=window,
                    wait=wait,
                ),
            )


def cases(name: str, full: bool, *, in_a_row: bool = False) -> Iterator[tuple[str, dict[str, Any], Query, Setting]]:
    """Mechanisms of one name with options and settings to which they apply, spread evenly."""
    found = [
        (kind, options, query, setting)
        for (kind, options), steps in product(LINEAR[name], sorted({shape[0] for shape in SHAPES}))
        for query, setting in settings(steps, sums=True, in_a_row=in_a_row)
        if stream_mechanism_kinds()[kind].reason_not_here(setting) is None
    ]
    yield from found if full else found[:: max(1, len(found) // SOME)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("in_a_row", [False, True])
def test_no_user_moves_more_than_the_stated_curve_hides(name: str, in_a_row: bool, full: bool) -> None:
    """Of all neighbors, those who move most in L1 and in L2 are hidden as well as the stated curve says.

    Where a largest loss or a rho is stated, none of them loses more. So it is of those that differ `in_a_row` alone.
    """
    tried, promised = 0, PROMISED.get(name, Decimal(1))
    bases = range(101) if name == "lmmse, binomial" else (0, 7)  # roundings of a part of a count depend on the count
    for kind, options, query, setting in cases(name, full, in_a_row=in_a_row):
        steps = setting.horizon
        assert steps is not None
        try:
            mechanism = calibrate(stream_mechanism_kinds()[kind], setting, promised, Decimal("1e-5"), options)
        except KernelError:  # so low a rate, or noise beyond its room
            continue
        profile = mechanism.profile(setting)
        largest, rho = mechanism.largest_loss(setting), mechanism.rho(setting)
        assert (largest is None) == (name not in LIMITED)
        assert (rho is None) == (name in UNLIMITED)
        for worst in worst_users(mechanism, query, setting, steps, bases):
            for epsilon in (*(part * float(promised) for part in EPSILONS), 0.98 * worst.pure_loss):
                claimed = profile.delta(epsilon)
                assert least_delta(worst.moves, epsilon) <= claimed, (mechanism, query, setting, worst.user, epsilon)
            assert largest is None or worst.pure_loss <= float(largest) * (1 + 1e-12), (mechanism, query, setting)
            assert rho is None or least_rho(worst.moves) <= float(rho) * (1 + 1e-12), (mechanism, query, setting)
        tried += 1
    assert tried >= SOME / 4
