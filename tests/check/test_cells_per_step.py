"""Users who count in several cells of a step: how far they move what is measured, against every one of them."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc_check.mechanisms.binary_tree import Tree
from policyc_check.mechanisms.common_noise import FINE, GRID, LessUsers
from policyc_check.mechanisms.dft import Frequencies
from policyc_check.mechanisms.fast import Fast
from policyc_check.mechanisms.filter_subsample import Means
from policyc_check.mechanisms.linear import Identity, Strategy
from policyc_check.mechanisms.lmmse import Lmmse
from policyc_check.mechanisms.subsample import Subsample
from policyc_check.mechanisms.toeplitz import Convolution
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting

HORIZON = 4
STRATEGIES: dict[str, Strategy] = {
    "identity": Identity(),
    "tree": Tree(HORIZON, 64),
    "falling": Convolution(np.array([1024, 512, 384, 320])),
    "means": Means(HORIZON, 2, 4096),
    "frequencies": Frequencies(HORIZON, HORIZON, None, 2**10),
    "blocks of frequencies": Frequencies(2, HORIZON, 1, 2**10),
}


def users(bound: int, spread: int, cells: int, values: tuple[int, ...]) -> NDArray[np.int64]:
    """Every user: (users, steps, cells), in up to `bound` steps, in each in up to `spread` cells, once in each."""
    rows = [np.zeros(cells, dtype=np.int64)]
    for size in range(1, spread + 1):
        for places in combinations(range(cells), size):
            for chosen in product(values, repeat=size):
                rows.append(np.zeros(cells, dtype=np.int64))
                rows[-1][list(places)] = chosen
    found = []
    for steps in combinations(range(HORIZON), bound):
        for chosen_rows in product(rows, repeat=bound):
            found.append(np.zeros((HORIZON, cells), dtype=np.int64))
            found[-1][list(steps)] = chosen_rows
    return np.unique(np.array(found), axis=0)


def furthest(moved: NDArray[np.int64], *, replaced: bool) -> tuple[int, int, int]:
    """Over all users, or pairs: largest L2 squared, L1, and number of values that differ."""
    l2 = l1 = many = 0
    for other in moved if replaced else moved[:1] * 0:
        apart = moved - other
        l2 = max(l2, int((apart**2).sum(axis=1).max()))
        l1 = max(l1, int(np.abs(apart).sum(axis=1).max()))
        many = max(many, int((apart != 0).sum(axis=1).max()))
    return l2, l1, many


CROWDED = [(3, 2, 1, 3, 2), (4, 3, 1, 3, 2), (5, 3, 2, 4, 3), (3, 2, 1, 4, 3), (4, 3, 1, 2, 2)]


@pytest.mark.parametrize(("horizon", "bound", "spacing", "cells", "spread"), CROWDED)
def test_two_users_whom_the_horizon_makes_share_steps(
    horizon: int, bound: int, spacing: int, cells: int, spread: int
) -> None:
    """No pair of users differs in more values than is said, and without spacing one does in as many."""
    most = 0
    places = [set(one) for size in range(1, spread + 1) for one in combinations(range(cells), size)]
    apart = max(len(one ^ other) for one in places for other in places)  # in a step that both are in
    sizes = range(1, bound + 1)
    steps = [s for n in sizes for s in combinations(range(horizon), n) if all(b - a >= spacing for a, b in pairwise(s))]
    for mine, other in product(steps, repeat=2):
        shared = len(set(mine) & set(other))
        most = max(most, shared * apart + (len(mine) + len(other) - 2 * shared) * spread)
    setting = Setting(Participation(bound, horizon, spacing), replaced=True, cells=cells, spread=spread)
    assert most <= setting.changes
    assert most == setting.changes or spacing > 1


SETTINGS = [(2, 2, 3, False), (1, 3, 3, False), (2, 2, 2, False), (1, 2, 3, True), (2, 2, 4, False)]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_user_moves_what_is_measured_further_than_is_said(name: str, replaced: bool) -> None:
    """Every strategy for all users and pairs of users; the identity's bound is reached."""
    strategy = STRATEGIES[name]
    matrix = strategy.measured(np.eye(HORIZON, dtype=np.int64), 0)[0].astype(np.int64)
    for bound, spread, cells, signed in SETTINGS:
        if replaced and cells == 4:
            continue  # some millions of pairs
        setting = Setting(
            Participation(bound, HORIZON), signed=signed, replaced=replaced, cells=cells, wait=None, spread=spread
        )
        found = users(bound, spread, cells, (-1, 1) if signed else (1,))
        moved = np.einsum("ij,ujc->uic", matrix, found).reshape(len(found), -1)
        l2, l1, many = furthest(moved, replaced=replaced)
        moves = strategy.moves(setting)
        assert l2 <= moves.l2_square
        assert moves.l1 is None or l1 <= moves.l1
        if name == "identity":
            assert (l2, l1) == (moves.l2_square, moves.l1)
            assert moves.alike is not None
            assert (signed and replaced) or many == moves.alike[0]


def test_a_common_part_hides_users_in_several_cells() -> None:
    """X - p n over all users, n being their number: the bound is reached, for every p."""
    for part in (0, 100, 512):
        for bound, spread, cells, _ in (one for one in SETTINGS if not one[3]):
            setting = Setting(Participation(bound, HORIZON), cells=cells, wait=None, spread=spread)
            found = users(bound, spread, cells, (1,)) * GRID - part * FINE
            worst = int((found**2).sum(axis=(1, 2)).max())
            assert worst == LessUsers(part).moves(setting).l2_square


def test_a_prediction_hides_users_in_several_cells() -> None:
    """The weighted values of all users, of the weights that fall fastest."""
    mechanism = Lmmse.model_validate(
        {"name": "lmmse", "weight": "0.5", "decay": "0.9", "stddev": "3", "grid": 1024, "signal": None}
    )
    for bound, spread, cells, _ in (one for one in SETTINGS if not one[3]):
        setting = Setting(Participation(bound, HORIZON), cells=cells, spread=spread)
        weights = np.array([float(mechanism.weight_at(step)) for step in range(HORIZON)])
        found = users(bound, spread, cells, (1,)) * weights[:, None]
        assert (found**2).sum(axis=(1, 2)).max() <= float(mechanism.l2_square(setting)) * (1 + 1e-12)


def test_a_series_that_is_followed_has_one_cell() -> None:
    """Samples are steps: in several cells one would show several values of a user."""
    mechanism = Fast.model_validate({"name": "fast", "scale": "1", "samples": 1, "process_sd": "1"})
    assert mechanism.largest_loss(Setting(Participation(2, HORIZON))) == 1
    with pytest.raises(ValueError, match="one series"):
        mechanism.largest_loss(Setting(Participation(2, HORIZON), cells=3))


def test_chosen_steps_are_refused_where_one_shows_several_values() -> None:
    """Whoever is in several cells of a step is shown in all of them at once, which its law does not say."""
    mechanism = Subsample.model_validate({"name": "subsample", "rate": "0.5", "stddev": "3", "sampling": "poisson"})
    with pytest.raises(ValueError, match="one value of a step"):
        mechanism.profile(Setting(Participation(2, HORIZON), cells=3, wait=None, spread=2))
