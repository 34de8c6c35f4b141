"""Sensitivities of strategy matrices against every user of small streams."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc_check.mechanisms.binary_tree import Tree
from policyc_check.mechanisms.common_noise import FINE, PARTS, LessUsers
from policyc_check.mechanisms.dft import Frequencies
from policyc_check.mechanisms.filter_subsample import Means
from policyc_check.mechanisms.linear import Identity, NonNegative, Strategy
from policyc_check.mechanisms.toeplitz import Convolution
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_check.users.strategies import general_l2_square

HORIZON = 7
COEFFICIENTS = {
    "square root": [1024, 512, 384, 320, 280, 252, 231],
    "running total": [1] * HORIZON,
    "plain": [1],
    "steps": [5, 5, 1, 1, 1],
    "band": [10, 9],
}


def toeplitz(coefficients: list[int], horizon: int) -> NDArray[np.float64]:
    """The lower-triangular matrix with this first column."""
    padded = np.append(np.array(coefficients, dtype=float), np.zeros(horizon))
    return np.array([[padded[i - j] if i >= j else 0.0 for j in range(horizon)] for i in range(horizon)])


def supports(bound: int, spacing: int) -> list[tuple[int, ...]]:
    """Every largest or smaller set of steps one user may take part in."""
    return [
        steps
        for size in range(1, bound + 1)
        for steps in combinations(range(HORIZON), size)
        if all(b - a >= spacing for a, b in pairwise(steps))
    ]


def users(bound: int, spacing: int, values: tuple[float, ...]) -> NDArray[np.float64]:
    """Every user's series."""
    rows = [np.zeros(HORIZON)]
    for steps in supports(bound, spacing):
        for chosen in product(values, repeat=len(steps)):
            rows.append(np.zeros(HORIZON))
            rows[-1][list(steps)] = chosen
    return np.array(rows)


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize("spacing", [1, 2, 3])
@pytest.mark.parametrize("bound", [1, 2, 3, 5])
def test_early_and_dense_is_worst(name: str, bound: int, spacing: int) -> None:
    """For falling coefficients the sensitivity is exactly that of the worst user, found by trying all of them."""
    C = toeplitz(COEFFICIENTS[name], HORIZON)
    participation = Participation(bound, HORIZON, spacing)
    worst = round(((users(bound, spacing, (-1, 1)) @ C.T) ** 2).sum(axis=1).max())
    found = Convolution(np.array(COEFFICIENTS[name])).l2_square(participation)
    assert found == worst
    assert found <= general_l2_square(C.astype(np.int64), participation)


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize(("bound", "spacing"), [(2, 1), (2, 2), (3, 3)])
def test_replaced_users(name: str, bound: int, spacing: int) -> None:
    """Two users' series are no further apart than is said, of whatever signs, in one cell or several."""
    C, column = toeplitz(COEFFICIENTS[name], HORIZON), np.array(COEFFICIENTS[name])
    participation = Participation(bound, HORIZON, spacing)
    for values, signed in (((0.5, 1.0), False), ((-1.0, 1.0), True)):
        moved = users(bound, spacing, values) @ C.T
        worst = np.linalg.norm(moved[:, None] - moved[None], axis=-1).max()
        setting = Setting(participation, replaced=True, signed=signed)
        assert worst**2 <= setting.moved_square(lambda part: Convolution(column).l2_square(part)) * (1 + 1e-12)
        apart = np.sqrt((moved[:, None] ** 2 + moved[None] ** 2).sum(axis=-1)).max()  # the users are in two cells
        setting = Setting(participation, replaced=True, signed=signed, cells=2)
        assert apart**2 <= setting.moved_square(lambda part: Convolution(column).l2_square(part)) * (1 + 1e-12)


@pytest.mark.parametrize("bound", [1, 2, 3, 5])
@pytest.mark.parametrize("spacing", [1, 2, 3])
def test_tree(bound: int, spacing: int) -> None:
    """No user moves the nodes of a tree further than the bound, which is exact without spacing."""
    nodes = [
        [1.0 if start <= step < start + width else 0.0 for step in range(HORIZON)]
        for width in (1, 2, 4)
        for start in range(0, HORIZON - width + 1, width)
    ]
    worst = round(((users(bound, spacing, (-1, 1)) @ np.array(nodes).T) ** 2).sum(axis=1).max())
    found = Tree(HORIZON, 1).l2_square(Participation(bound, HORIZON, spacing))
    assert worst <= found <= 1.3 * worst
    assert found == worst or spacing > 1


@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (3, 1), (3, 2), (2, 4)])
def test_bound_of_any_matrix(bound: int, spacing: int) -> None:
    """No user moves the result of whole numbers of any signs further than the bound, exact where signs agree."""
    rng = np.random.default_rng(8)
    participation = Participation(bound, HORIZON, spacing)
    for C in (rng.integers(-9, 9, (5, HORIZON)), rng.integers(0, 9, (HORIZON, HORIZON)), np.eye(HORIZON, dtype=int)):
        worst = ((users(bound, spacing, (-1, 1)) @ C.T) ** 2).sum(axis=1).max()
        assert worst <= general_l2_square(C, participation)
    assert general_l2_square(2 * np.eye(HORIZON, dtype=int), participation) == 4 * participation.steps
    largest = (C**2).sum(axis=0).max()
    assert general_l2_square(C, Participation(1, HORIZON)) == largest


STRATEGIES: dict[str, Strategy] = {
    "identity": Identity(),
    "tree": Tree(HORIZON, 64),
    "falling": Convolution(np.array(COEFFICIENTS["square root"])),
    "band": Convolution(np.array([10, 9, 0, 0, 0, 0, 0])),
    **{f"means {block}": Means(HORIZON, block, 4096) for block in (1, 2, 3, 5, 20)},
    **{
        f"frequencies {length} {count}": Frequencies(length, HORIZON, count, 2**10)
        for length in (HORIZON, 3)
        for count in (None, 1, 2)
    },
}


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_user_moves_what_is_measured_further_than_is_said(name: str, signed: bool, replaced: bool) -> None:
    """Every strategy, as it is measured, for all users and pairs of users, one or two cells, in L1 and in L2.

    What a strategy says by its structure is also never above the general bound of its matrix by more than a third.
    """
    strategy = STRATEGIES[name]
    matrix = strategy.measured(np.eye(HORIZON, dtype=np.int64), 0)[0].astype(np.int64)
    for bound, spacing in ((1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (2, 4)):
        participation = Participation(bound, HORIZON, spacing)
        mine = users(bound, spacing, (-1.0, 1.0) if signed else (1.0,)) @ matrix.T
        for cells in (1, 2):
            setting = Setting(participation, signed=signed, replaced=replaced, cells=cells, wait=None)
            moves = strategy.moves(setting)
            if not replaced:
                apart = mine[:, None]
            elif cells == 1:
                apart = mine[:, None] - mine[None]
            else:  # the users are in two cells
                apart = np.concatenate(np.broadcast_arrays(mine[:, None], mine[None]), axis=-1)
            assert (apart**2).sum(axis=-1).max() <= moves.l2_square
            assert moves.l1 is None or np.abs(apart).sum(axis=-1).max() <= moves.l1
            if moves.alike is not None:
                changes, shift = moves.alike
                assert np.abs(apart).max() <= shift
                assert np.abs(apart).sum(axis=-1).max() <= changes * shift
                if not (signed and replaced):  # there, one change by 2 loses more than two by 1
                    assert (np.abs(apart) > 0).sum(axis=-1).max() <= changes
        if isinstance(strategy, NonNegative):
            assert (matrix >= 0).all()
            assert strategy.l2_square(participation) <= general_l2_square(matrix, participation) * 4 / 3


@pytest.mark.parametrize("period", [None, 2, 3])
@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (2, 1), (3, 1), (2, 2)])
def test_values_less_users_have_the_general_bound(bound: int, spacing: int, period: int | None) -> None:
    """Without a part it is that of the values themselves; with one, each user in its period moves as far as is said.

    Where users may be in half of a period, or of all steps, no part makes it more.
    """
    length = period or HORIZON
    own = min(bound, -(-length // spacing))
    touching = Participation(own, HORIZON, spacing)
    setting = Setting(touching, period=None if period is None else Fraction(period))
    values = LessUsers(0, period).measured(np.eye(HORIZON, dtype=np.int64), 0)[0]
    general = general_l2_square(values, touching)
    assert LessUsers(0, period).moves(setting).l2_square == general
    blocks = np.arange(HORIZON) // length
    inside = [user for user in users(own, spacing, (1.0,)) if np.unique(blocks[user > 0]).size == 1]
    for part in (1, PARTS // 4, PARTS // 2):
        said = LessUsers(part, period).moves(setting).l2_square
        shift = part * FINE
        assert max(((values @ x - shift * (blocks == blocks[x > 0][0])) ** 2).sum() for x in inside) == said
        assert said <= general or 2 * own * PARTS < part * length


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("cells", [1, 3])
def test_a_measurement_in_pieces_is_one_measurement(name: str, cells: int) -> None:
    """Rows belong to steps, and do not change when later steps come; blocks and means wait for theirs."""
    strategy, raw = STRATEGIES[name], np.random.default_rng(2).integers(-50, 99, (HORIZON, cells))
    numbers, counts = strategy.measured(raw, 0)
    assert counts.sum() == len(numbers)
    assert len(counts) == HORIZON
    starts = np.append(0, np.cumsum(counts))
    wait = {"frequencies 3": 3, "frequencies 7": 7, "means": 7}
    size = next((steps for words, steps in wait.items() if name.startswith(words)), 1)
    for first in range(0, HORIZON, size):
        stop = min(first + size, HORIZON)
        part, some = strategy.measured(raw[:stop], first)
        assert part.tolist() == numbers[starts[first] : starts[stop]].tolist()
        assert some.tolist() == counts[first:stop].tolist()


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("horizon", "block"), [(60, 4), (61, 7), (40, 13), (200, 3), (257, 1), (300, 7), (400, 40), (301, 280), (300, 4096)]
)
@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (9, 1), (5, 3), (4, 9)])
def test_means_have_the_general_bound(horizon: int, block: int, bound: int, spacing: int) -> None:
    """What is computed once for all places alike is the general bound of the whole matrix, and above it near ends."""
    means = Means(horizon, block, 4096)
    matrix = means.measured(np.eye(horizon, dtype=np.int64), 0)[0]
    participation = Participation(bound, horizon, spacing)
    found = means.l2_square(participation)
    if spacing == 1:
        general = general_l2_square(matrix, participation)
        assert found == general or (general <= found and horizon < 4 * block)
    generator, slots = np.random.default_rng(4), horizon - (bound - 1) * (spacing - 1)
    for _ in range(2000):  # steps in order, with so much room between them
        steps = np.sort(generator.choice(slots, bound, replace=False)) + np.arange(bound) * (spacing - 1)
        assert (matrix[:, steps].sum(axis=1) ** 2).sum() <= found
    for first in range(horizon - (bound - 1) * spacing):
        assert (matrix[:, first : first + bound * spacing : spacing].sum(axis=1) ** 2).sum() <= found


@pytest.mark.parametrize("block", [1, 7, 30])
def test_means_of_users_in_every_step(block: int) -> None:
    """Where steps near the ends count as well, what is said is hardly more than the general bound."""
    means = Means(300, block, 4096)
    matrix = means.measured(np.eye(300, dtype=np.int64), 0)[0]
    general = general_l2_square(matrix, Participation(300, 300))
    assert general <= means.l2_square(Participation(300, 300)) <= general * (1 + block / 300)


def test_streams_without_end() -> None:
    """A band has a sensitivity over any length: that of a stream with room for every participation."""
    band = np.array(COEFFICIENTS["band"])
    endless = Convolution(band).l2_square(Participation(3, None, 2))
    assert endless == Convolution(band).l2_square(Participation(3, 50, 2)) == 3 * (100 + 81)


def test_long_streams_are_exact() -> None:
    """100,000 steps and participations by the thousand are added up in whole numbers."""
    ones = np.ones(100_000, dtype=np.int64)
    assert Convolution(ones).l2_square(Participation(100_000, 100_000)) == sum(t * t for t in range(1, 100_001))
    few = Participation(1000, 100_000, 7)
    assert Convolution(ones).l2_square(few) == sum(min(t // 7 + 1, 1000) ** 2 for t in range(100_000))


@pytest.mark.parametrize("coefficients", [[1, 2], [1, -1], [1.0, 0.5], [[1]]])
def test_other_coefficients_are_refused(coefficients: list[float]) -> None:
    """Where the worst user is not known, nothing is claimed."""
    with pytest.raises(ValueError):
        Convolution(np.array(coefficients)).l2_square(Participation(2, 5))
