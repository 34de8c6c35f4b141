"""ZKL22's figures 4, 5, 7 to 13 and 15 as `Figure`s, from the rows of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paper_figures import RE, STEP, Rows, numbered
from report import Figure, Panel

CONTROLLER = (
    "A controller that is fed with the baseline's profiles does much worse, and with those of the method well enough; "
    "numbers are in other papers."
)
NO_TRAFFIC = "New York's traffic counts are not free: bicycles stand in for them."


SAID = {
    "4": "The method beats FAST, more so the stronger the promise; DFT over the whole series is better mostly, and "
    "alike where the promise is strong.",
    "7": "The method beats BD and BA, which may not even beat baseline-Laplace: half of their budget goes into "
    "measuring how the series moves.",
    "8": "The method is far better than the binary tree, which is worse than baseline-Laplace.",
    "15": "As figure 4, on the counts of bicycles; pictures alone.",
}


def by_promise(figure: str, rows: Rows, names: Sequence[str], *, matched: bool) -> Figure:
    """Figures 4, 7, 8 and 15; rows are (epsilon a step, Laplace variance, errors)."""
    number = figure.partition(" ")[0]
    place, x = (1, "variance of the Laplace noise") if matched and number != "7" else (0, "epsilon a step")
    strongest = min(rows, key=lambda row: row[0])
    told = ", ".join(f"{name} {error:.3g}" for name, error in zip(names, strongest[2:], strict=True))
    why = (
        "Gaussian noise is as large as Laplace noise here, and promises more; "
        if matched
        else "Laplace noise, FAST and DFT keep delta at 0, the others (epsilon, 1e-7): at one epsilon they are not "
        "equally private; "
    )
    tree = " The tree has Gaussian noise here, for all steps of a user." if number == "8" else ""
    return Figure(
        f"ZKL22, figure {figure}: errors of the methods",
        SAID[number],
        f"At {strongest[0]:g} nats a step: {told}.",
        why + "DFT has all the noise that its promise needs, which in the paper it lacks by the root of T."
        f"{tree} {'' if number == '15' else NO_TRAFFIC}",
        [
            Panel(
                "error by promise",
                {name: [(row[place], row[2 + n]) for row in rows] for n, name in enumerate(names)},
                x,
                RE,
                log="xy",
            )
        ],
    )


def online_dft(rows: Rows) -> Figure:
    """Figure 5; rows are (delay, error), the first and last of plain noise and ours."""
    (_, plain), *delays, (_, ours) = rows
    names = [str(delay) for delay, _ in delays]
    lines = {
        "online DFT": [(place, error) for place, (_, error) in enumerate(delays)],
        "plain noise": [(place, plain) for place in range(len(delays))],
        "ours, no delay": [(place, ours) for place in range(len(delays))],
    }
    return Figure(
        "ZKL22, figure 5: DFT of blocks, by delay",
        "At no delay like baseline-Laplace; the longer the delay the smaller the error.",
        f"From {delays[0][1]:.3g} at a delay of {names[0]} steps to {delays[-1][1]:.3g} of the whole series; plain "
        f"noise has {plain:.3g}, ours {ours:.3g} without any delay.",
        f"{NO_TRAFFIC} The paper's DFT has less noise than its promise needs, by the root of T; here it has enough, "
        "and is plain noise where all frequencies are worth keeping.",
        [Panel("error by delay", lines, "delay in steps", RE, names=names)],
    )


def by_weight(rows: Rows, weights: Sequence[str]) -> Figure:
    """Figure 9; rows are (epsilon a step, rho, errors by weight, the best, ours)."""
    panels = [
        Panel(
            f"epsilon / T = {epsilon:g}",
            {
                f"rho = {row[1]}": [(float(w), error) for w, error in zip(weights, row[2:], strict=False)]
                for row in rows
                if row[0] == epsilon
            },
            "weight; 1 is plain noise",
            RE,
            log="y",
        )
        for epsilon in dict.fromkeys(row[0] for row in rows)
    ]
    best = "; ".join(f"{row[0]:g}, rho {row[1]}: {row[-2]}" for row in rows)
    return Figure(
        "ZKL22, figure 9: weight and correlation",
        "Some weight always beats the baseline. Under a strong promise small weights gain much, more so the stronger "
        "the correlation; under a weak one weights near 1 gain little.",
        f"Best weights by epsilon / T: {best}. Exact Gaussian noise and our filter err no more than the best of them.",
        "The claims hold. The paper does not print its budgets, so heights cannot be set side by side.",
        panels,
    )


def learned(rows: Rows) -> Figure:
    """Figure 10; rows are (rho, epsilon a step, errors of five ways)."""
    ways = ("baseline-Normal", "lmmse, learned", "lmmse, known", "ours, learned", "ours, known")
    panels = [
        Panel(
            f"rho = {rho}",
            {way: [(row[1], row[2 + n]) for row in rows if row[0] == rho] for n, way in enumerate(ways)},
            "epsilon / T",
            RE,
            log="xy",
        )
        for rho in dict.fromkeys(row[0] for row in rows)
    ]
    cost = max(row[3] / row[4] for row in rows)
    return Figure(
        "ZKL22, figure 10: parameters that are learned",
        "Learning the process from noisy values costs accuracy, and still the method errs much less than the baseline.",
        f"Learning costs at most a factor of {cost:.3g}; plain noise errs up to "
        f"{max(row[2] / row[3] for row in rows):.3g} times as much.",
        "The claims hold. Budgets are not printed; the best weight is taken here, and which one there is not said.",
        panels,
    )


def falling_weights(rows: Rows, rates: Sequence[float]) -> Figure:
    """Figure 11; rows are (epsilon a step, plain noise, errors by r)."""
    panels = [
        Panel(
            f"epsilon / T = {epsilon:g}",
            {
                "lmmse, squared weights r^(t-1)": list(zip(rates, errors, strict=True)),
                "baseline-Normal": [(rate, normal) for rate in rates],
            },
            "r",
            RE,
        )
        for epsilon, normal, *errors in rows
    ]
    first = [next((rate for rate, e in zip(rates, row[2:], strict=True) if e <= row[1]), None) for row in rows]
    said = ", ".join(f"{rate or 'none of these'} at {row[0]:g}" for rate, row in zip(first, rows, strict=True))
    return Figure(
        "ZKL22, figure 11: weights that fall",
        "Whatever the promise, the method is better from some r on; the weaker the promise, the larger that r.",
        f"The first r that is no worse than plain noise, by epsilon / T: {said}.",
        f"{NO_TRAFFIC} How fast values move decides the r.",
        panels,
    )


def drifting(paths: Mapping[float, Any], rows: Rows) -> Figure:
    """Figure 12; rows have the slope, that by the formula, and the variance."""
    return Figure(
        "ZKL22, figure 12: sequences that drift",
        "Each path is normal with variance 10 / (1 - 0.64) = 27.8, and a mean that rises with eta.",
        f"Variance {max(row[3] for row in rows):.4g} over 200 paths; slope {rows[-1][1]:.3g} at eta = {rows[-1][0]:g}.",
        "They do not differ but for chance.",
        [Panel("a path each", {f"eta = {eta:g}": numbered(path, 0) for eta, path in paths.items()}, STEP, "value")],
    )


def drift(rows: Rows) -> Figure:
    """Figure 13; rows are (epsilon a step, eta, plain noise, best lmmse, its weight, ours)."""
    names = {"baseline-Normal": 2, "lmmse, best weight": 3, "ours": 5}
    panels = [
        Panel(
            f"epsilon / T = {epsilon:g}",
            {name: [(row[1], row[place]) for row in rows if row[0] == epsilon] for name, place in names.items()},
            "eta",
            RE,
        )
        for epsilon in dict.fromkeys(row[0] for row in rows)
    ]
    cost = max(row[3] for row in rows if row[0] == rows[0][0]) / rows[0][3]
    return Figure(
        "ZKL22, figure 13: error under drift",
        "The method always errs much less than the baseline; drift matters little, most at epsilon = 0.001 T.",
        f"At {rows[0][0]:g} T drift costs `lmmse` up to a factor of {cost:.3g}; plain noise errs "
        f"{min(row[2] / row[3] for row in rows):.3g} to {max(row[2] / row[3] for row in rows):.3g} times as much.",
        "The claims hold. Weights of `lmmse` are tuned on the truth, ours on nothing.",
        panels,
    )
