"""Slow and literal ways to the same numbers, each by another route than the kernel's."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def reference() -> dict:
    return json.loads((Path(__file__).parents[2] / "data" / "leakage.json").read_text())


def smoothed_permutation(n: int, s: float) -> Floats:
    return (np.roll(np.eye(n), 1, axis=1) + s) / (1 + n * s)


def reference_matrices() -> dict[str, Floats]:
    def matrix(entry: object) -> Floats:
        if isinstance(entry, dict):
            rule = entry["permutation_matrix_smoothed"]
            return smoothed_permutation(rule["n"], float(rule["s"]))
        return np.array(entry, dtype=np.float64)

    return {name: matrix(entry) for name, entry in reference()["matrices"].items()}


def algorithm_1(P: Floats, alpha: float) -> float:
    """Algorithm 1 of CAO17, literally: for each pair drop columns that break Inequality (21) until none does."""
    best = 0.0
    growth = math.exp(alpha) - 1
    for q, d in itertools.permutations(P, 2):
        kept = [j for j in range(len(q)) if q[j] > d[j]]
        while True:
            q_sum, d_sum = sum(q[j] for j in kept), sum(d[j] for j in kept)
            ratio = (q_sum * growth + 1) / (d_sum * growth + 1)
            update = [j for j in kept if q[j] > ratio * d[j]]
            if len(update) == len(kept):
                break
            kept = update
        best = max(best, math.log(ratio))
    return best


def linear_program(q: Floats, d: Floats, alpha: float) -> float:
    """The problem (18)-(20) of CAO17 for one pair, made linear by fixing d x = 1, solved by HiGHS."""
    from scipy.optimize import linprog

    n = len(q)
    bounds = np.block([[np.eye(n), -math.exp(alpha) * np.ones((n, 1))], [-np.eye(n), np.ones((n, 1))]])
    found = linprog(
        -np.append(q, 0), bounds, np.zeros(2 * n), np.append(d, 0)[None, :], [1.0], (0, None), method="highs"
    )
    return math.log(-found.fun)


def brute_force(P: Sequence[Sequence[float]], alpha: float) -> float:
    """The maximum over all pairs and all column sets, in 60-digit decimals of the very floats."""
    with localcontext(prec=60, Emax=10**9, Emin=-(10**9)):
        E = Decimal(alpha).exp() - 1
        rows = [[Decimal(float(p)) for p in row] for row in P]
        best = Decimal(1)
        for q, d in itertools.permutations(rows, 2):
            for S in itertools.product((0, 1), repeat=len(q)):
                Q, D = (sum(p for p, s in zip(row, S, strict=True) if s) for row in (q, d))
                best = max(best, (Q * E + 1) / (D * E + 1))
        return float(best.ln())


def exact_total_leakage(epsilons: Sequence[float], P: Floats, initial: Floats) -> tuple[Floats, Floats]:
    """True backward and total leakage of randomized response on one user's state, over all output sequences."""
    T, n = len(epsilons), len(P)
    response = [np.full((n, n), 1.0) + (math.exp(e) - 1) * np.eye(n) for e in epsilons]  # [state, output], unnormalised
    laws = [initial]
    for _ in range(T - 1):
        laws.append(laws[-1] @ P)
    backward, total = np.zeros(T), np.zeros(T)
    for outputs in itertools.product(range(n), repeat=T):
        before = [laws[0] * response[0][:, outputs[0]]]  # joint of state and outputs so far
        for t in range(1, T):
            before.append((before[-1] @ P) * response[t][:, outputs[t]])
        after = np.ones(n)
        for t in range(T - 1, -1, -1):
            reached = laws[t] > 0
            past = before[t][reached] / laws[t][reached]
            backward[t] = max(backward[t], math.log(past.max() / past.min()))
            whole = past * after[reached]
            total[t] = max(total[t], math.log(whole.max() / whole.min()))
            after = P @ (response[t][:, outputs[t]] * after)
    return backward, total


def exact_window_leakage(epsilons: Sequence[float], P: Floats, initial: Floats, width: int) -> Floats:
    """True leakage about every `width` states in a row, of randomized response, over all output sequences."""
    T, n = len(epsilons), len(P)
    response = [np.full((n, n), 1.0) + (math.exp(e) - 1) * np.eye(n) for e in epsilons]  # [state, output], unnormalised
    result = np.zeros(T - width + 1)
    paths = list(itertools.product(range(n), repeat=T))
    priors = [initial[p[0]] * math.prod(P[a, b] for a, b in itertools.pairwise(p)) for p in paths]
    for start in range(T - width + 1):
        law: dict[tuple[int, ...], float] = {}
        for path, prior in zip(paths, priors, strict=True):
            window = path[start : start + width]
            law[window] = law.get(window, 0.0) + prior
        for outputs in itertools.product(range(n), repeat=T):
            joint = dict.fromkeys(law, 0.0)
            for path, prior in zip(paths, priors, strict=True):
                likelihood = math.prod(response[t][path[t], outputs[t]] for t in range(T))
                joint[path[start : start + width]] += prior * likelihood
            given = [joint[window] / law[window] for window in law if law[window] > 0]
            result[start] = max(result[start], math.log(max(given) / min(given)))
    return result
