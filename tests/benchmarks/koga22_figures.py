"""KOGA22's figures and its table as `Figure`s, from the rows of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paper_figures import STEP, Rows, numbered
from report import Figure, Panel


def denser_moments(rows: Rows, *, noisy: bool) -> Figure:
    """KOGA22's figure 2; rows are (moments apart, T, errors)."""
    names = ("gaussian", "KOGA22, sampled", "KOGA22, filtered", "ours, auto")
    last = rows[-1]
    return Figure(
        f"KOGA22, figure 2{'b' if noisy else 'a'}: errors by density of moments"
        + (", with observation noise" if noisy else ""),
        "Errors fall as the signal is sampled more densely; filtering "
        + ("helps under observation noise." if noisy else "does not help where there is no observation noise."),
        f"At {last[1]:,} moments: sampled {last[3]:.3g}, filtered {last[4]:.3g}, ours {last[5]:.3g}.",
        "The directions agree. The densities and the promise are those of the authors' code, as their text on the web "
        "prints none; the filtered one needs the densest moments before it pays, by their own calibration.",
        [
            Panel(
                "mean absolute error",
                {name: [(row[1], row[2 + place]) for row in rows] for place, name in enumerate(names)},
                "moments",
                "mean absolute error",
                log="xy",
            )
        ],
    )


def outputs(truth: Any, shown: Mapping[str, Any], errors: Mapping[str, float], *, noisy: bool) -> Figure:
    """KOGA22's figure 1 and the one of its appendix; one output of each method, (T,)."""
    told = ", ".join(f"{name} {error:.3g}" for name, error in errors.items())
    return Figure(
        "KOGA22, figure 1: one output of each method, with observation noise"
        if noisy
        else "KOGA22, appendix 2: one output of each method, without observation noise",
        "Under observation noise the filtered output lies closest to the signal."
        if noisy
        else "The pictures have no numbers or claims in words.",
        f"Mean absolute error of these outputs: {told}.",
        "One draw of each. DFT keeps as many coefficients as err least, at the same promise by exact accounting; how "
        "many the paper keeps is lost in its text on the web, as is the density of its picture. The authors' own "
        "calibration of the filter pays at the densest moments only: figure 2 has all densities.",
        [
            Panel(name, {"signal": numbered(truth, 0), "output": numbered(values, 0)}, STEP, "value")
            for name, values in shown.items()
        ],
    )


def real_series(rows: Rows, names: Sequence[str]) -> Figure:
    """KOGA22's table 2; rows are (series, errors)."""
    told = "; ".join(f"{row[0]}: sampled {row[3]:.3g}, Gaussian {row[1]:.3g}, ours {row[-1]:.3g}" for row in rows)
    return Figure(
        "KOGA22, table 2: mean absolute errors on real series",
        "PeMS / Gowalla / Foursquare: Gaussian 93.0 / 33.0 / 57.4, DFT 55.7 / 39.3 / 42.9, sampled 42.8 / 16.7 / 29.5, "
        "sampled after filtering 60.9 / 21.2 / 39.6.",
        told + ".",
        "Gowalla and Foursquare are not free to pass on: aircraft that left New York stand in. The road's sensor is "
        "another one, of 2016. Gaussian noise and DFT are calibrated exactly here, which the paper's are not. "
        "Straight lines between samples miss the course of a day where it has four steps.",
        [
            Panel(
                "mean absolute error",
                {name: [(place, row[1 + n]) for place, row in enumerate(rows)] for n, name in enumerate(names)},
                "",
                "mean absolute error",
                log="y",
                names=[row[0] for row in rows],
                joined=False,
            )
        ],
    )
