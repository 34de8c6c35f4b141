"""One way to tell two neighboring streams apart, with what is claimed about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from policyc_runtime.laboratory.empirical.proof import Scores
from policyc_runtime.randomness import Randomness

Played = tuple[Scores, Scores]
Progress = Callable[[int], None]
"""Told how many runs were played since it was told last."""


@dataclass(frozen=True)
class Attack:
    """An attack by somebody who knows everything but one secret, and sees what a plan's mechanism gives away.

    Args:
        id: `step`, `promise` or `noise`.
        secret: what is to be told apart, in words.
        statistic: the score, in words.
        epsilon: claimed, nats.
        delta: claimed.
        play: gives the scores of runs on either stream, (runs,) each, from how many runs, how many times the noise,
            and the generator.
        least_runs: where the attack is cheap and small budgets need more runs.
    """

    id: str
    secret: str
    statistic: str
    epsilon: Decimal
    delta: Decimal
    play: Callable[[int, float, Randomness, Progress], Played]
    least_runs: int = 0
