"""Settings, streams and runs that the tests of every stream mechanism share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import product

import numpy as np
from numpy.typing import NDArray

from policyc.offers import calibrate
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms import StreamMechanism, stream_mechanism_kinds
from policyc_runtime.mechanisms.mechanism import StepRecord
from policyc_runtime.randomness import Randomness, SimulationRandomness

KINDS = sorted(stream_mechanism_kinds())
OPTIONS = {"dft, laplace": {"noise": "laplace", "coefficients": 1}, "lmmse, binomial": {"noise": "binomial"}}
NAMES = [*KINDS, *OPTIONS]  # kinds, and what else their options make of them
WORKLOADS = (("identity", None), ("prefix", None), ("window", 4))
WAITS = (0, None, 3)

Series = NDArray[np.int64]


def kind_of(name: str) -> type[StreamMechanism]:
    """The mechanism of one of the names."""
    return stream_mechanism_kinds()[name.split(",")[0]]


def calibrated(name: str, setting: Setting, epsilon: str = "1", delta: str = "1e-6") -> StreamMechanism:
    """One of the names, with noise for a promise."""
    return calibrate(kind_of(name), setting, Decimal(epsilon), Decimal(delta), OPTIONS.get(name, {}))


def settings(
    kind: type[StreamMechanism], *, steps: int = 12, bound: int = 3, spacing: int = 1, contribution: int = 1
) -> Iterator[Setting]:
    """Every combination of delivery and workload to which a mechanism applies, over a horizon of so many steps."""
    for wait, (workload, window) in product(WAITS, WORKLOADS):
        setting = Setting(
            participation=Participation(bound, steps, spacing),
            contribution=contribution,
            wait=wait,
            workload=workload,  # type: ignore[arg-type]
            window=window,
        )
        if kind.reason_against(setting) is None:
            yield setting


def one_setting(kind: type[StreamMechanism], *, steps: int = 12, bound: int = 3, contribution: int = 1) -> Setting:
    """The first of them."""
    return next(settings(kind, steps=steps, bound=bound, contribution=contribution))


def truth(setting: Setting, raw: Series) -> NDArray[np.float64]:
    """What is released of raw values, without noise."""
    if setting.workload == "identity":
        return raw.astype(float)
    totals = np.cumsum(raw, axis=0).astype(float)
    if setting.workload == "prefix":
        return totals
    assert setting.window is not None
    earlier = np.zeros_like(totals)
    earlier[setting.window :] = totals[: -setting.window]
    return totals - earlier


def run(
    mechanism: StreamMechanism, setting: Setting, raw: Series, randomness: Randomness, every: int | None = None
) -> list[StepRecord]:
    """The records of a whole stream, measured at once, or as soon as `every` more steps are there.

    In pieces, records and mechanism go through JSON before every piece, as in a run that was interrupted.
    """
    records: list[StepRecord] = []
    for stop in range(every, len(raw) + every, every) if every else [len(raw)]:
        ready = mechanism.ready(setting, min(stop, len(raw)))
        if ready <= len(records):
            continue
        if every:
            records = [tuple(record) for record in json.loads(json.dumps(records))]
            mechanism = type(mechanism).model_validate_json(mechanism.model_dump_json())
        records += mechanism.measure(setting, raw[:ready], records, randomness)
    return records


def simulated(seed: int) -> SimulationRandomness:
    """A generator for tests."""
    return SimulationRandomness(seed)


def documented(kind: type) -> str:
    """What a mechanism says of itself: in the check, whose record it is, and where it is drawn."""
    record = next(base for base in kind.__mro__ if base.__module__.startswith("policyc_check.mechanisms."))
    return f"{record.__doc__}\n{kind.__doc__}"
