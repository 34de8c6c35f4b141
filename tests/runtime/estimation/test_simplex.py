"""The simplex search, held against scipy's bit by bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from policyc_runtime.estimation.simplex import least_by_simplex


def valley(point):
    return float((100 * (point[1:] - point[:-1] ** 2) ** 2 + (1 - point[:-1]) ** 2).sum() + (point[0] - 1) ** 2)


def steps(point):
    return float(np.floor(np.abs(point - 0.3) * 20).sum())


def walled(point):
    return math.inf if point[0] < 0.2 else float(((point - 0.1) ** 2).sum() + math.sin(5 * point[-1]))


class Asked:
    """A cost that notes the points it is asked for."""

    def __init__(self, cost):
        self.cost, self.points = cost, []

    def __call__(self, point):
        self.points.append(point.tobytes())
        return self.cost(point)


@pytest.mark.parametrize("cost", [valley, steps, walled])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("most", [7, 8, 30, 31, 32, 33, 34, 35, 300])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_asks_for_the_same_points_as_scipy_and_ends_with_the_same(cost, size, most) -> None:
    rng = np.random.default_rng(size)
    for begin in (np.zeros(size), *rng.normal(size=(6, size)) * 2):
        options = {"xatol": 0.01, "fatol": 0.003, "maxfev": most}
        theirs, ours = Asked(cost), Asked(cost)
        found = minimize(theirs, begin, method="Nelder-Mead", options=options)
        point, least = least_by_simplex(ours, begin, width=0.01, drop=0.003, most=most)
        assert theirs.points == ours.points
        assert (point.tobytes(), least) == (found.x.tobytes(), found.fun)
