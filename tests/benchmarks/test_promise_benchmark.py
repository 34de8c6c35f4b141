"""How much less error `auto` has than the published way at the same promise, and whether it was foretold.

`pytest -m law -s -k promise` prints a small part; `--full` measures T = 300.
"""

from __future__ import annotations

import numpy as np
import pytest
from paper_settings import BASE, MAP_UNIFORM, MLE, PAPER, Setting, lazy, mean_error, noisy_counts, published, smoothed

pytestmark = pytest.mark.law

HEADS = ["chain", "n", "alpha", "paper's MAP", "mle", "auto", "auto / MAP", "goal", "auto / mle"]
HEADS += ["predicted / measured", "standard error", "schedule of auto"]
ROWS = (  # name, chain, users, alpha, most error as a part of the paper's MAP
    ("base, s = 0.1", smoothed(BASE, 0.1), 200, 1.0, 0.70),
    ("base, s = 0.1", smoothed(BASE, 0.1), 200, 2.0, 0.57),
    ("lazy, stay 0.9", lazy(3, 0.9), 200, 1.0, 0.55),
    ("lazy, stay 0.9", lazy(3, 0.9), 200, 2.0, 0.42),
    ("lazy, stay 0.99", lazy(3, 0.99), 200, 1.0, 0.55),
    ("lazy, stay 0.99", lazy(3, 0.99), 200, 2.0, 0.40),
    ("lazy, stay 0.99", lazy(3, 0.99), 10_000, 1.0, 0.17),
)


def test_error_at_the_same_promise(full, table, tmp_path):
    """`auto` beside CAO23's MAP and MLE on CAO17's budgets: far less error, and within 10 % of what the plan foretold.

    The mean of a slow chain's few independent steps is known roughly only: four standard errors are allowed beside.
    """
    rows, horizon, seeds = (ROWS, 300, 24) if full else (ROWS[1:2], 60, 12)
    lines = []
    for name, moves, users, alpha, most in rows:
        setting = Setting(moves, users, horizon)
        auto, paper = setting.plan(tmp_path, alpha), setting.plan(tmp_path, alpha, PAPER)
        truths = [setting.truth(seed) for seed in range(seeds)]
        noisy = [noisy_counts(paper, truth, seed) for seed, truth in enumerate(truths)]
        map_error = mean_error([published(paper, values, MAP_UNIFORM) for values in noisy], truths)
        mle_error = mean_error([published(paper, values, MLE) for values in noisy], truths)
        each = [np.mean((published(auto, noisy_counts(auto, x, k)) - x) ** 2) for k, x in enumerate(truths)]
        error, doubt = float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(seeds))
        part = auto.releases[0]
        told = part.predicted.published
        ratios = [error / map_error, most, error / mle_error, told / error, doubt / error]
        lines.append([name, users, alpha, map_error, mle_error, error, *ratios, part.schedule.name])
        assert error <= most * map_error
        assert error <= 0.75 * mle_error
        assert abs(told - error) <= 0.1 * error + 4 * doubt
    table(
        "same_promise",
        f"Mean squared error of one value under alpha-DP_T, T = {horizon}, {seeds} seeds.",
        HEADS,
        lines,
    )
