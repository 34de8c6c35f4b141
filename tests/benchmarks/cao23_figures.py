"""CAO23's figures as `Figure`s, from the rows of their tables."""

from __future__ import annotations

from collections.abc import Sequence

from paper_figures import ERROR, Rows
from report import Figure, Panel

EPSILON = "epsilon a step"
LEVEL, NATS = 0.01, 1.0  # the smoothing and the promise of the pictures where another thing is varied


def post_processing(rows: Rows, names: Sequence[str], first: int, *, level: str) -> list[Panel]:
    """CAO23's errors: figure 4 over epsilon or alpha, by smoothing; figure 5 over T; figure 6 over the smoothing."""
    longest = max(row[2] for row in rows)
    panels = []
    for s in dict.fromkeys(row[0] for row in rows):
        over_level = [row for row in rows if row[0] == s and row[2] == longest]
        if len(over_level) > 1:
            lines = {name: [(row[1], row[first + n]) for row in over_level] for n, name in enumerate(names)}
            panels.append(Panel(f"s = {s:g}, T = {longest}", lines, level, ERROR, log="y"))
    over_time = sorted((row for row in rows if row[0] == LEVEL and row[1] == NATS), key=lambda row: row[2])
    if len(over_time) > 1:
        lines = {name: [(row[2], row[first + n]) for row in over_time] for n, name in enumerate(names)}
        panels.append(Panel(f"figure 5: over T, {level} = {NATS:g}, s = {LEVEL:g}", lines, "T", ERROR, log="y"))
    over_s = [row for row in rows if row[1] == NATS and row[2] == longest]
    lines = {name: [(place, row[first + n]) for place, row in enumerate(over_s)] for n, name in enumerate(names)}
    title, ticks = f"figure 6: over the smoothing, {level} = {NATS:g}, T = {longest}", [f"s = {r[0]:g}" for r in over_s]
    return [*panels, Panel(title, lines, "smoothing", ERROR, log="y", names=ticks, joined=False)]


def one_user(rows: Rows, names: Sequence[str]) -> Figure:
    """CAO23's figure 3a; rows are (epsilon, errors)."""
    far = [row[1 + names.index("mle by ADMM")] / row[1 + names.index("map uniform")] for row in rows]
    return Figure(
        "CAO23, figure 3a: one user at three places",
        "Under either prior MAP errs less than MLE by ADMM; the picture has no numbers in words.",
        f"MLE by ADMM has {min(far):.2g} to {max(far):.2g} times the error of MAP with a uniform prior.",
        "The budgets are not in the paper's words: those of figure 4 are taken. Noise is for the sensitivity of one "
        "user who moves, 2, while the paper's is for 1. What `smoother` expects is rounded as everything is here.",
        [
            Panel(
                "n = 1, s = 0",
                {name: [(row[0], row[1 + place]) for row in rows] for place, name in enumerate(names)},
                EPSILON,
                ERROR,
                log="y",
            )
        ],
    )


def epsilon_figure(rows: Rows, names: Sequence[str]) -> Figure:
    """CAO23's figures 4a, 5 and 6 at epsilon."""
    ratios = [row[3 + names.index("mle by ADMM")] / row[3 + names.index("map uniform")] for row in rows]
    return Figure(
        "CAO23, figures 4a, 5 and 6: errors at epsilon-DP a step",
        "MAP errs nearly a hundred times less than MLE by ADMM at every budget.",
        f"MLE by ADMM has {min(ratios):.2g} to {max(ratios):.2g} times the error of MAP with a uniform prior; `ours` "
        "has at most MLE's.",
        "Where MAP is far below MLE the release says next to nothing, and the public prior alone does as well; the "
        "paper does not draw that. Where the release says something MAP is pulled away from it.",
        post_processing(rows, names, 3, level=EPSILON),
    )


def alpha_figure(rows: Rows, names: Sequence[str]) -> Figure:
    """CAO23's figures 4b, 5 and 6 at alpha."""
    ratios = [row[3 + names.index("ours")] / row[3 + names.index("mle")] for row in rows]
    return Figure(
        "CAO23, figures 4b, 5 and 6: errors at alpha-DP_T",
        "MAP on Algorithm 3's budgets errs far less than MLE; errors rise with the horizon.",
        f"`ours` has {min(ratios):.2g} to {max(ratios):.2g} of MLE's error.",
        "The same as for figure 4a: MAP's gain is that of the public prior. Ours has other budgets and noise that "
        "adds up to zero at the same promise, and expects values in place of the most probable ones.",
        post_processing(rows, names, 3, level="alpha"),
    )


def possibility(rows: Rows, names: Sequence[str]) -> Figure:
    """CAO23's figure 3b."""
    settings = [f"n = {row[0]}, s = {row[1]:g}" for row in rows]
    return Figure(
        "CAO23, figure 3b: steps that cannot follow those before",
        "Many steps of MLE by ADMM lie below the cut-off of 1e-10; its MAP is said to keep what correlations allow.",
        f"Of the paper's MAP {max(row[2 + names.index('map uniform')] for row in rows):.0f} % of steps at worst, of "
        "`joint_map` none where 200 users are counted.",
        "The paper draws one user; its MAP knows of each step alone where users are, and not how they move from one "
        "step to the next, which only `joint_map` does.",
        [
            Panel(
                "share of impossible steps",
                {name: [(place, row[2 + n]) for place, row in enumerate(rows)] for n, name in enumerate(names)},
                "",
                "percent",
                names=settings,
                joined=False,
            )
        ],
    )
