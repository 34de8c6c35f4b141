"""Whether a series can move as `signal` declares it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

from policyc.diagnostics import Diagnostic
from policyc.semantics.policy import Policy, Signal

FEW = 4  # numbers that a help line writes out
NEAR = 0.99  # of the unit circle, where a suggestion puts the largest root


def check_signal(policy: Policy) -> Iterator[Diagnostic]:
    """E0226 for a process that is not stationary, E0227 for a list that is no autocovariance."""
    signal = policy.signal
    if signal is None:
        return
    lags, coefficients, one = (signal.arguments.get(name) for name in ("lags", "coefficients", "autocorrelation"))
    if isinstance(lags, tuple):
        yield from _covariances(signal, [float(number) for number in lags])
    elif isinstance(coefficients, tuple):
        yield from _coefficients(signal, [float(number) for number in coefficients])
    elif isinstance(one, Decimal) and not 0 <= one < 1:
        falling = one < 0 and signal.kind == "ar1"
        yield Diagnostic(
            "E0226",
            f"an autocorrelation of {one} is none of such a process",
            signal.span,
            because="it is the correlation of neighboring values: 0 of values that know nothing of each other, below "
            "1, where they hardly move",
            help=f"write `ar(coefficients = [{one}], sd = ...)`, which swings from one side of the mean to the other"
            if falling and one > -1
            else "write `autocorrelation = 0.9`, say",
        )


def _coefficients(signal: Signal, told: list[float]) -> Iterator[Diagnostic]:
    from policyc_runtime.estimation.arma import largest_root, stationary  # start-up: most policies say no such thing

    if stationary(told):
        return
    root = largest_root(told)
    nearer = [number * (NEAR / max(root, NEAR)) ** place for place, number in enumerate(told, start=1)]
    grows = f"grows by the factor {root:.4g} a step" if root > 1 + 1e-6 else "never fades"
    yield Diagnostic(
        "E0226",
        "this process is not stationary",
        signal.span,
        because=f"what disturbs a value {grows}, so that values have no mean and no standard deviation to declare",
        help=f"write `coefficients = [{_listed(nearer)}]`, whose roots lie that much nearer to 0"
        if len(told) <= FEW
        else f"multiply the coefficient of i steps before by {NEAR / max(root, NEAR):.4g} to the power i, say",
    )


def _covariances(signal: Signal, lags: list[float]) -> Iterator[Diagnostic]:
    import numpy as np  # start-up: most policies say no such thing

    from policyc_runtime.estimation.arma import SAME, least_density, stationary

    least, place = least_density(lags)
    if lags[0] > 0 and least >= -SAME * lags[0]:
        return
    if lags[0] <= 0:
        because, remedy = "the first number is the variance of the values, which is above 0", "write it first"
    else:
        period = f" of {2 * math.pi / place:.3g} steps" if place > 1e-3 else " that never ends"
        because = (
            f"a wave with a period{period} would have the variance {least:.4g}, as covariances are 0 beyond the list"
        )
        remedy = f"write a first number of at least {_up(lags[0] - least)}"
        rows = np.array([[lags[abs(i - j)] for j in range(len(lags) - 1)] for i in range(len(lags) - 1)])
        if np.linalg.eigvalsh(rows)[0] > SAME * lags[0]:
            found = np.linalg.solve(rows, lags[1:]).tolist()
            if stationary(found):
                listed = (
                    f"[{_listed(found)}], sd = {math.sqrt(lags[0]):.6g}" if len(found) <= FEW else "[...], sd = ..."
                )
                remedy += f"; or `ar(coefficients = {listed})`, whose covariances begin so and fade beyond the list"
    yield Diagnostic("E0227", "no series has these autocovariances", signal.span, because=because, help=remedy)


def _up(number: float) -> str:
    digits = 3 - math.floor(math.log10(number))
    return f"{Decimal(math.ceil(number * 10.0**digits)).scaleb(-digits).normalize():f}"


def _listed(numbers: list[float]) -> str:
    """Without zeros at the end, such as rounding leaves."""
    digits = [round(number, 6) + 0.0 for number in numbers]
    while len(digits) > 1 and digits[-1] == 0:
        digits.pop()
    return ", ".join(f"{number:g}" for number in digits)
