"""What an attack proves: a lower bound of epsilon from how often a test is right and how often it is wrong.

An (epsilon, delta) promise says of every event E that Pr(E with) <= exp(epsilon) Pr(E without) + delta. An event that
is counted in runs on two neighboring streams therefore proves log((p - delta) / q), where p is a lower confidence bound
of the one probability and q an upper one of the other (Clopper and Pearson, exact for any number of runs). The event is
that a score reaches a threshold; the threshold is chosen on one half of the runs and the event counted on the other, so
that choosing proves nothing.

Source: CP34
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
THRESHOLDS = 100  # tried on the first half of the runs


@dataclass(frozen=True)
class Counts:
    """How often a test said `with`, in `runs` runs on either stream: rightly (`hits`) and wrongly (`false_alarms`)."""

    runs: int
    hits: int
    false_alarms: int

    def proven_epsilon(self, delta: float, confidence: float) -> float:
        """A lower bound of epsilon (nats) at this delta, true with this confidence; -inf where nothing is proven.

        Args:
            delta: in [0, 1).
            confidence: in (0, 1); each of the two probabilities is bounded with half of what may fail.
        """
        failing = (1 - confidence) / 2
        low = _lower(self.hits, self.runs, failing) - delta
        high = 1 - _lower(self.runs - self.false_alarms, self.runs, failing)
        return math.log(low / high) if low > 0 else -math.inf


def _lower(count: int, runs: int, failing: float) -> float:
    """The probability that is exceeded unless something of probability `failing` happened."""
    from scipy.special import betaincinv

    return float(betaincinv(count, runs - count + 1, failing)) if count else 0.0


def counted(with_user: Scores, without: Scores, delta: float, confidence: float) -> Counts:
    """Count the best event of the first half of the runs on the second half.

    Args:
        with_user: the score of every run on the one stream, (runs,), larger where it looks like that stream.
        without: the same on its neighbor.
        delta: at which epsilon is to be proven.
        confidence: as of `proven_epsilon`.
    """
    half = len(with_user) // 2
    tried = np.unique(np.quantile(np.concatenate([with_user[:half], without[:half]]), np.linspace(0, 1, THRESHOLDS)))
    events = [_event(with_user[:half], without[:half], threshold) for threshold in tried]
    best = max(range(len(tried)), key=lambda i: events[i].proven_epsilon(delta, confidence))
    return _event(with_user[half:], without[half:], tried[best])


def _event(with_user: Scores, without: Scores, threshold: float) -> Counts:
    return Counts(len(with_user), int((with_user >= threshold).sum()), int((without >= threshold).sum()))
