"""Noise of every value's own, and a draw that all values share in place of the number of users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from policyc.offers.offer import Option, Options, StreamOffer

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism

DENSE = 0.25  # of all values those of one user, from which on several weights are worth comparing
DENSE_WEIGHTS = ("0.3", "0.1", "0.03")
SPARSE_WEIGHT = "0.03"
USUAL_WEIGHT = 0.3
PERIOD_WEIGHT = Decimal(1)  # of periods, which are short, and whose draws a filter tells from what goes on beyond them


class CommonNoiseOffer(StreamOffer):
    """For users who may be in many of all steps (LEB24)."""

    name = "common_noise"
    says = "little noise on every value, and a draw that all share, or all of a period, for users who are in many steps"
    options = (Option("weight", "fraction", "weight = 0.3"),)

    def variants(self, setting: Setting) -> Sequence[Options]:
        """Weights worth comparing: the smaller the weight, the less the values share."""
        present, values = _values(setting)
        weights = [Decimal(weight) for weight in (DENSE_WEIGHTS if present >= DENSE * values else (SPARSE_WEIGHT,))]
        if setting.period is not None and present >= DENSE * values:
            weights.insert(0, PERIOD_WEIGHT)
        return tuple({"weight": weight} for weight in weights if weight * present > 1)

    def plain(self, setting: Setting, options: Options) -> StreamMechanism:
        """A split for which `weight` times own variance and common variance together are least."""
        made: StreamMechanism = self._split(setting, options)[0]
        return made

    def _split(self, setting: Setting, options: Options) -> tuple[Any, float]:
        """That with an own deviation of 1, and its own variance, in units of what plain noise has."""
        from policyc_check.mechanisms.common_noise import PARTS, LessUsers  # start-up: `check` calculates nothing
        from policyc_runtime.mechanisms.common_noise import blocks

        present, _ = _values(setting)
        usual = USUAL_WEIGHT if setting.period is None else PERIOD_WEIGHT
        weight = float(options.get("weight", usual))  # type: ignore[arg-type]

        def split(steps: int | None) -> tuple[float, float, int, int, int, int | None]:
            draws = LessUsers(1, steps).draws(replace(setting, touched=1))
            values = draws * (steps or setting.horizon or 0) * setting.cells
            return *best_split(weight, present, values, PARTS, draws), draws, values, steps

        _, own, part, draws, values, steps = min(map(split, blocks(setting)), key=itemgetter(0))
        share = part / PARTS
        moved = (present * (1 - 2 * share) + values * share**2) / present
        # of common to own deviation
        ratio = math.sqrt(draws) / (setting.contribution * math.sqrt((own - moved) * present))
        record: Any = self.record()
        common = Decimal(repr(ratio))
        return record.model_construct(
            name=self.name,
            stddev=Decimal(1),
            part=Decimal(part) / PARTS,
            common_stddev=common,
            common_steps=steps,
        ), own

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """The least noise of the split."""
        from policyc.offers.calibration import (  # start-up: `policyc check` calculates nothing
            gaussian_stddev,
            l2_sensitivity,
            least_noise,
        )
        from policyc_check.rounding import rounded_down

        plain, own = self._split(setting, options)
        nats, failing = rounded_down(epsilon), rounded_down(delta)

        def holds(size: float) -> bool:
            return bool(size >= plain.least_size and plain.of_size(size).profile(setting).delta(nats) <= failing)

        near = math.sqrt(own) * gaussian_stddev(nats, failing, l2_sensitivity(setting))
        made: StreamMechanism = plain.of_size(least_noise(holds, near))
        return made


def _values(setting: Setting) -> tuple[int, int]:
    """How many of the values of a period, or of all steps, one user raises, and how many there are."""
    from policyc_runtime.mechanisms.common_noise import sharing  # start-up: `policyc check` calculates nothing

    return setting.participation.steps * setting.spread, (sharing(setting) or 0) * setting.cells


def best_split(weight: float, present: int, values: int, parts: int, draws: int = 1) -> tuple[float, float, int]:
    """How much own noise, and how large a part of it is common.

    With own variance r, in units of what plain noise has, p the part and m draws, the common variance is
    m p^2 / (k g) with g = 1 - (k (1 - 2 p) + n p^2) / (r k): of one draw best at p = 1 - r, or 1/2 where r is below.

    Args:
        weight: of own variance beside common variance, in (0, 1].
        present: k, values that one user may raise.
        values: n, all that have one of the draws in common that one user moves.
        parts: of 1, in whole numbers of which p is.
        draws: m, those.

    Returns:
        weight times r and the common variance together, r, and p, in 1 / parts, 1 to parts / 2.
    """
    best: tuple[float, float, int] = (math.inf, 1.0, 1)
    for part in range(1, parts // 2 + 1):
        p = part / parts
        moved = (present * (1 - 2 * p) + values * p * p) / present
        if moved >= 1:
            break
        # weight r + m p^2 / (k (1 - moved / r)) is least at this r
        own = moved + p * math.sqrt(moved * draws / (present * weight))
        best = min(best, (weight * own + p * p * draws / (present * (1 - moved / own)), own, part))
    return best
