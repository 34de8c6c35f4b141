"""Whether a plan agrees with itself where no promise rests on it: in what it says twice.

Each claim is about numbers that readers are shown, and that nothing is computed from in the check.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from policyc_check.claims import Claim
from policyc_check.errors import KernelError
from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.plan import Plan
from policyc_check.plan.stream import MONTH

LARGEST_GAP = 1e-6  # entries of a matrix that is only compared may be rounded
UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def consistency_claims(plan: Plan) -> Iterator[Claim]:
    """The length of a step, and both directions of a chain."""
    yield from _step(plan)
    for index, record in enumerate(plan.correlation.chains):
        yield from _reversed(record, f"correlation.chains.{index}")


def reversal_gap(record: ChainRecord) -> float | None:
    """How far `backward` is from the reversal of `forward`, its largest entry; None where only one is stated.

    States that are never visited have no reversal.

    Raises:
        InvalidMatrixError: either is no chain, or there is no single reversal.
    """
    if record.forward is None or record.backward is None:
        return None
    chain = record.chain()
    stated = record.model_copy(update={"forward": None, "initial": None}).chain().backward
    if stated.shape != chain.backward.shape:
        return math.inf
    return float(np.abs(stated - chain.backward)[chain.marginal(0) > 0].max())


def _step(plan: Plan) -> Iterator[Claim]:
    text, length = plan.stream.step_text, plan.stream.step_milliseconds
    duration = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s*(ms|s|min|h|d|w)", "31d" if text == MONTH else text)  # the longest
    if not duration or Fraction(duration[1].replace("_", "")) * UNITS[duration[2]] != length:
        yield Claim("a step is as long as is said", False, f"`{text}` is not {length:,} ms", "stream.step_text")


def _reversed(record: ChainRecord, place: str) -> Iterator[Claim]:
    name = "both directions of a chain are of one chain"
    if record.backward is not None and record.initial not in {None, "stationary"}:
        detail = "a start that is not stationary has backward matrices of its own; `backward` contradicts them"
        yield Claim(name, False, detail, place)
        return
    try:
        gap = reversal_gap(record) or 0.0
    except KernelError as error:
        yield Claim(name, False, error.message, place, error.code)
        return
    if not gap <= LARGEST_GAP:
        detail = f"`backward` is not the reversal of `forward`, by {gap:.2g}: correct the policy and compile again"
        yield Claim(name, False, detail, place, "E0844")
