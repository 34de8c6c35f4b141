"""What papers' figures show and say, beside what the benchmarks find: `Figure`s from the rows of their tables.

Papers print few numbers beside their pictures: where they do, `paper` has them; else it says what their words claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from report import Figure, Panel
from zkl22 import Band

Rows = Sequence[Sequence[Any]]

UNREAD = (
    "The paper's matrices are formulas that its text on the web has lost; those here are of the kinds that it "
    "describes."
)
STEP, NATS, ERROR = "step", "nats", "mean squared error"
RE = "relative error"
PICTURES = (
    "Pictures alone: means of ten runs and the values between which they lie, without a number or a claim in words."
)


def numbered(values: Sequence[float], first: int = 1) -> list[tuple[float, float]]:
    """Points at 1, 2, ..."""
    return [(float(place), float(value)) for place, value in enumerate(values, start=first)]


def leakage_over_time(rows: Rows) -> Figure:
    """CAO17's figure 3."""
    kinds = dict.fromkeys(row[1] for row in rows)
    panels = [
        Panel(f"{kind} leakage", {row[0]: numbered(row[2:]) for row in rows if row[1] == kind}, STEP, NATS)
        for kind in kinds
    ]
    whole = next(row for row in rows if row[:2] == ["strongest", "total"])
    return Figure(
        "CAO17, figure 3: leakage over ten steps of Lap(1 / 0.1)",
        "Backward and forward leakage grow in a straight line under the strongest correlation, up to 10 x 0.1 = 1.0, "
        "and stay at 0.1 without any; the moderate one lies between. All ten steps together tell 1.0.",
        f"Strongest: {whole[-1]:.4g} at every step in total; none: 0.1; moderate: up to {rows[3][-1]:.3g} backward.",
        f"They agree where the paper prints values. {UNREAD}",
        panels,
    )


def suprema(curves: Mapping[str, Sequence[float]], limits: Mapping[str, float]) -> Figure:
    """CAO17's figure 4."""
    panels = [
        Panel(
            name,
            {"leakage": numbered(curve[:100])}
            | ({"supremum": [(1.0, limits[name]), (100.0, limits[name])]} if np.isfinite(limits[name]) else {}),
            STEP,
            NATS,
        )
        for name, curve in curves.items()
    ]
    found = ", ".join("none" if np.isinf(limit) else f"{limit:.4g}" for limit in limits.values())
    return Figure(
        "CAO17, figure 4: the largest backward leakage",
        "In (a) and (b) leakage has no supremum; in (c) and (d) it has one, which the steps reach.",
        f"Suprema: {found}.",
        f"They do not differ: steps reach each supremum to six digits, and pass 10 nats where there is none. {UNREAD}",
        panels,
    )


def runtime(by_states: Rows, by_leakage: Rows) -> Figure:
    """CAO17's figure 5; rows are (states or leakage, seconds by Algorithm 1, by HiGHS, by ours)."""
    names = ("Algorithm 1", "HiGHS, all pairs of rows", "ours, a first value", "ours, any further value")
    largest, lost = by_states[-1], [row[0] for row in by_leakage if np.isnan(row[2])]
    silent = (
        f" HiGHS has no answer from {lost[0]:g} nats on; in the paper lp_solve has none from 10 on." if lost else ""
    )
    told = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in zip(names, largest[1:], strict=True))
    return Figure(
        "CAO17, figure 5: seconds for one value of the loss function",
        "At 150 states and a leakage of 10 nats Algorithm 1 takes 11 seconds, Gurobi about 47 minutes, lp_solve "
        "38 hours. Algorithm 1 takes longer the larger the leakage, up to about 10 nats; the solvers do not.",
        f"At {largest[0]} states: {told}.",
        "Another machine, and HiGHS in place of solvers that have to be bought or are old. Ours does not go through "
        "all pairs: it leaves out those that cannot be the worst, and keeps the corners of the function, so that a "
        "further value is looked up. Algorithm 1 and HiGHS were timed on some pairs of rows, times the number of all."
        + silent,
        [
            Panel(
                title,
                {name: [(row[0], row[1 + place]) for row in rows] for place, name in enumerate(names)},
                x,
                "seconds",
                log="y",
            )
            for title, x, rows in (
                ("at a leakage of 10 nats", "states", by_states),
                ("at 50 states", "leakage before, nats", by_leakage),
            )
        ],
    )


def growth(curves: Mapping[tuple[int, str, float, float], Sequence[float]], lasting: Mapping[Any, int]) -> Figure:
    """CAO17's figure 6."""
    panels = []
    for epsilon in (1.0, 0.1):
        for words in ("s / n", "s"):
            lines = {
                f"n = {n}, s = {s:g}": numbered(curve[: 15 if epsilon == 1 else 150])
                for (n, how, s, e), curve in curves.items()
                if how == words and e == epsilon and (n == 50 or s == 0.005)
            }
            panels.append(Panel(f"epsilon = {epsilon:g}, smoothed with {words}", lines, STEP, NATS, log="y"))
    steps = [lasting[50, 0.005, words, epsilon] for words in ("s / n", "s") for epsilon in (1.0, 0.1)]
    return Figure(
        "CAO17, figure 6: growth of backward leakage",
        "At s = 0.005 and n = 50 leakage grows for almost 8 steps at epsilon = 1 and for about 80 at 0.1, and is "
        "then not much lower; it is less where n = 200.",
        f"To 95 % of the last value: {steps[0]} and {steps[1]} steps smoothed with s / n, {steps[2]} and {steps[3]} "
        "with s.",
        "The paper's equation 25 reads as adding s to every entry; the steps that it reports are likely of s / n. "
        '"Noticeable" growth is to 95 % here, and by eye there.',
        panels,
    )


def budgets(found: Mapping[str, Sequence[float]], leaked: Mapping[str, Sequence[float]]) -> Figure:
    """CAO17's figure 7."""
    most = {name: max(curve) for name, curve in leaked.items()}
    return Figure(
        "CAO17, figure 7: budgets for 1-DP_T over 30 steps, and what they leak",
        "Algorithm 3 reaches the promised 1 exactly at every step; Algorithm 2 stays below it.",
        "; ".join(f"{name}: at most {value:.4g}" for name, value in most.items()) + " nats.",
        f"They do not differ in what is claimed; `uniform` and `optimal` are ours. {UNREAD}",
        [
            Panel("budgets", {name: numbered(values) for name, values in found.items()}, STEP, NATS),
            Panel("leakage", {name: numbered(values) for name, values in leaked.items()}, STEP, NATS),
        ],
    )


def noise(rows: Rows) -> Figure:
    """CAO17's figure 8; rows are (states, s, T, noises by schedule, without correlation)."""
    names = ("Algorithm 2", "Algorithm 3", "uniform", "optimal", "no correlation")
    over_t = [row for row in rows if row[0] == 2 and row[1] == 0.001]
    over_s = [row for row in rows if row[0] == 2 and row[2] == 10]
    return Figure(
        "CAO17, figure 8: noise for 2-DP_T",
        "Algorithm 3 has less noise than Algorithm 2 where T is short, and Algorithm 2 has the same whatever T is; "
        "noise is far above that without correlation, 0.5, at s = 0.01.",
        f"At T = 5: {over_t[0][3]:.3g} of Algorithm 2, {over_t[0][4]:.3g} of Algorithm 3, {over_t[0][6]:.3g} of ours.",
        "The claims hold. Its sizes of n and the scale of the picture are lost in the text on the web. " + UNREAD,
        [
            Panel(
                "over the horizon, s = 0.001",
                {name: [(row[2], row[3 + place]) for row in over_t] for place, name in enumerate(names)},
                "T",
                "mean absolute noise",
                log="y",
            ),
            Panel(
                "over s, ten steps",
                {name: [(row[1], row[3 + place]) for row in over_s] for place, name in enumerate(names)},
                "s",
                "mean absolute noise",
                log="xy",
            ),
        ],
    )


def sequences(number: str, about: str, truth: Any, found: Mapping[str, Band], paper: str = PICTURES) -> Figure:
    """ZKL22's figures 6, 14 and 16 to 19: means of ten runs, and between which values they lie."""
    panels = [
        Panel(
            name,
            {"truth": numbered(truth, 0), "mean of the runs": numbered(band.mean, 0)},
            STEP,
            "value",
            band=[
                (float(t), float(low), float(high))
                for t, (low, high) in enumerate(zip(band.low, band.high, strict=True))
            ],
        )
        for name, band in found.items()
    ]
    width = {name: float((band.high - band.low).mean()) for name, band in found.items()}
    lmmse = next(name for name in width if name.startswith("lmmse"))
    ours = next(name for name in width if name.startswith("ours"))
    return Figure(
        f"ZKL22, figure {number}: ten runs of each method",
        paper,
        f"Mean width of the band: {width['baseline-Normal']:,.0f} of plain noise, {width[lmmse]:,.0f} of `lmmse` at "
        f"its best weight, {width[ours]:,.0f} of ours.",
        about,
        panels,
    )
