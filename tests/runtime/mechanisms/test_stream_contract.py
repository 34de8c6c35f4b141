"""What every mechanism that accounts for a whole stream must keep, whatever it is: found by being in the folder."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from pydantic import TypeAdapter
from stream_settings import KINDS, NAMES, calibrated, documented, kind_of, one_setting, run, settings, simulated, truth

from policyc.offers import calibrate, mechanism_offers
from policyc_check.rounding import rounded_down
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.carried import left_as_text, left_of_text
from policyc_runtime.mechanisms import AnyMechanism
from policyc_runtime.mechanisms.mechanism import Left
from policyc_runtime.sources_cited import SOURCES

PROMISES = [(Decimal("0.1"), Decimal("1e-4")), (Decimal(1), Decimal("1e-6")), (Decimal(5), Decimal("1e-9"))]
VALUES = 100_000
LONG = 1000


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", NAMES)
def test_calibrated_noise_keeps_the_promise_and_wastes_nothing(name: str) -> None:
    """Delta at the promised epsilon is at most the promised one, exactly; with 1e-9 less noise it is not."""
    for setting in settings(kind_of(name)):
        for epsilon, delta in PROMISES:
            mechanism = calibrated(name, setting, str(epsilon), str(delta))
            nats = rounded_down(epsilon)
            assert Fraction(mechanism.profile(setting).delta(nats)) <= Fraction(delta)
            assert Fraction(mechanism.with_noise(1 - 1e-9).profile(setting).delta(nats)) > Fraction(delta)


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_keeps_the_promise(name: str) -> None:
    """So do the options that are tried under `auto`."""
    setting = one_setting(kind_of(name))
    for options in mechanism_offers()[name.split(",")[0]].variants(setting):
        mechanism = calibrate(kind_of(name), setting, Decimal(1), Decimal("1e-6"), options)
        assert Fraction(mechanism.profile(setting).delta(1.0)) <= Fraction("1e-6")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", NAMES)
def test_more_promise_means_less_noise(name: str) -> None:
    """Variance falls with epsilon and delta, and rises with participation and contribution."""
    kind = kind_of(name)
    setting = one_setting(kind)

    def noise(setting: Setting, epsilon: str, delta: str) -> float:
        return float(np.nanmean(calibrated(name, setting, epsilon, delta).variances(setting, 12)))

    middle = noise(setting, "1", "1e-6")
    assert noise(setting, "2", "1e-6") < middle < noise(setting, "0.5", "1e-6")
    assert noise(setting, "1", "1e-4") <= middle <= noise(setting, "1", "1e-9")
    assert noise(one_setting(kind, bound=6), "1", "1e-6") > middle
    assert noise(one_setting(kind, contribution=5), "1", "1e-6") > 4 * middle
    if kind.reason_against(replace(setting, replaced=True)) is None:
        assert noise(replace(setting, replaced=True), "1", "1e-6") >= middle


@pytest.mark.parametrize("name", NAMES)
def test_more_noise_tells_less(name: str) -> None:
    """Delta falls with noise, and rises with participation."""
    setting = one_setting(kind_of(name))
    mechanism = calibrated(name, setting)
    middle = mechanism.profile(setting).delta(0.5)
    assert mechanism.with_noise(1.5).profile(setting).delta(0.5) < middle
    assert mechanism.with_noise(0.7).profile(setting).delta(0.5) > middle
    wider = replace(setting, participation=Participation(6, 12, 1))
    assert mechanism.profile(wider).delta(0.5) > middle


def errors_of(name: str, factor: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of about 100,000 values of still streams, and the variances that are claimed for them."""
    kind = kind_of(name)
    setting = next(iter(settings(kind, steps=LONG)), None) or one_setting(kind, steps=LONG, bound=LONG // 20)
    claimed = calibrated(name, setting)
    mechanism = claimed if factor == 1 else claimed.with_noise(factor)
    raw = np.full((LONG, 1), 50, dtype=np.int64)
    randomness = simulated(seed)
    found = []
    for _ in range(VALUES // LONG):
        values = mechanism.values(setting, run(mechanism, setting, raw, randomness))
        found.append((values - truth(setting, raw)).ravel())
    return np.array(found), claimed.variances(setting, LONG)


MEASURED = [name if name != "lmmse" else pytest.param(name, marks=pytest.mark.law) for name in KINDS]  # takes seconds


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MEASURED)
def test_noise_is_as_large_as_is_said_and_neither_5_percent_less_nor_more(name: str) -> None:
    """The mean square error of 100,000 values fits the variance; with 0.95 or 1.05 times the noise it does not."""
    for factor, accepted in ((1.0, True), (0.95, False), (1.05, False)):
        found, variances = errors_of(name, factor, seed=round(factor * 100))
        runs = np.nanmean(found**2 / variances, axis=1)  # values of one run may depend on each other, runs do not
        score = (runs.mean() - 1) / (runs.std(ddof=1) / np.sqrt(len(runs)))
        assert bool(abs(score) < 4) is accepted


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MEASURED)
def test_values_have_no_bias(name: str) -> None:
    """On a stream that does not move, noisy values are right on average."""
    found, _ = errors_of(name, 1.0, seed=3)
    runs = np.nanmean(found, axis=1)
    assert abs(runs.mean()) < 4 * runs.std(ddof=1) / np.sqrt(len(runs)) + 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_the_same_generator_gives_the_same_records(name: str) -> None:
    """Under a seeded generator a run replays exactly, another seed gives another one, and raw values are left alone."""
    setting = one_setting(kind_of(name), steps=40)
    mechanism = calibrated(name, setting)
    raw = np.arange(40, dtype=np.int64)[:, None]
    first, second, other = (run(mechanism, setting, raw, simulated(seed)) for seed in (1, 1, 2))
    assert first == second
    assert first != other
    assert (raw[:, 0] == np.arange(40)).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_run_in_pieces_keeps_what_it_has(name: str) -> None:
    """Interrupted and resumed from what the ledger holds, a run is the one that was not interrupted."""
    setting = one_setting(kind_of(name), steps=24)
    mechanism = calibrated(name, setting)
    raw = (50 + np.arange(24, dtype=np.int64) ** 2)[:, None]
    kept: list[tuple[int, ...]] = []
    randomness = simulated(4)
    for stop in range(1, 25):
        ready = mechanism.ready(setting, stop)
        assert 0 <= ready <= stop
        if ready > len(kept):
            kept += mechanism.measure(setting, raw[:ready], list(kept), randomness)
        assert len(kept) == max(ready, len(kept))
    assert kept == run(mechanism, setting, raw, simulated(4), every=1)
    assert len(run(mechanism, setting, raw, simulated(4), every=7)) == 24
    assert mechanism.measure(setting, raw, kept, simulated(5)) == []


@pytest.mark.parametrize("name", NAMES)
def test_records_alone_give_the_values(name: str) -> None:
    """Records are whole numbers that go through JSON; values come from them, and do not change when others follow."""
    setting = one_setting(kind_of(name), steps=24)
    mechanism = calibrated(name, setting)
    records = run(mechanism, setting, np.full((24, 1), 9, dtype=np.int64), simulated(6))
    read = [tuple(record) for record in json.loads(json.dumps(records))]
    assert read == records
    assert all(type(number) is int for record in records for number in record)
    values = mechanism.values(setting, read)
    assert values.shape == (24, 1)
    if setting.wait == 0:
        for steps in (1, 5, 23):
            assert np.array_equal(mechanism.values(setting, read[:steps]), values[:steps], equal_nan=True)
    if mechanism.whole_values:
        assert (np.isnan(values) | (values == np.rint(values))).all()


@pytest.mark.parametrize("name", NAMES)
def test_before_the_first_step_there_are_no_values(name: str) -> None:
    """No records give no values: a stream that is followed from its start is looked at before it has any."""
    for setting in settings(kind_of(name)):
        if setting.wait is not None:
            assert calibrated(name, setting).values(setting, []).shape == (0, setting.cells)


def written(left: Left) -> list[np.ndarray]:
    """What was left, through JSON."""
    return left_of_text(left_as_text({"there": left})).get("there", [])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_what_was_left_stands_in_for_all_steps_before(name: str) -> None:
    """However a stream is cut, with what was left through JSON: the same values to the bit, and the same records.

    Of raw values and records before, where they are not asked for, nothing is looked at.
    """
    kind, steps, generator = kind_of(name), 21, np.random.default_rng(9)
    given = list(settings(kind, steps=steps, bound=5))
    for plain in [*given, *(replace(one, window=width) for one in given if one.window for width in (1, 3, 16, 40))]:
        setting = plain if kind.reason_against(replace(plain, cells=2)) else replace(plain, cells=2)
        mechanism = calibrated(name, setting)
        if not mechanism.goes_on or setting.wait is None:
            continue
        raw = generator.integers(0, 1000, (steps, setting.cells))
        records = run(mechanism, setting, raw, simulated(8))
        whole = mechanism.values(setting, records)
        for cuts in [
            range(0, steps + 1),
            *((0, cut, steps) for cut in range(steps)),
            *((0, c, c + 3, steps) for c in range(18)),
        ]:
            left: Left = ()
            for first, stop in pairwise(cuts):
                values, left = mechanism.values_after(setting, first, written(left), records[first:stop])
                assert values.tobytes() == whole[first:stop].tobytes()
        for first in range(steps):
            for stop in range(first + 1, steps + 1):
                since = mechanism.looks_back(setting, first, stop)
                assert 0 <= since <= first
                known = raw[:stop] * (np.arange(stop) >= since)[:, None]
                new = mechanism.measure(setting, known, [()] * first, simulated(4))
                assert new == mechanism.measure(setting, raw[:stop], records[:first], simulated(4))


@pytest.mark.parametrize("name", NAMES)
def test_several_cells_are_measured(name: str) -> None:
    """Where a mechanism takes cells, every cell has its value."""
    setting = replace(one_setting(kind_of(name)), cells=3)
    if kind_of(name).reason_against(setting) is not None:
        return
    mechanism = calibrated(name, setting)
    raw = np.array([[10**6, 2 * 10**6, 3 * 10**6]] * 12, dtype=np.int64)
    values = mechanism.values(setting, run(mechanism, setting, raw, simulated(7)))
    assert values.shape == (12, 3)
    assert (np.diff(np.nanmean(values, axis=0)) > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_reads_the_mechanism_back(name: str) -> None:
    """Written into a plan and read again, it is the same record."""
    mechanism = calibrated(name, one_setting(kind_of(name)))
    read: object = TypeAdapter(AnyMechanism).validate_python(json.loads(mechanism.model_dump_json()))
    assert read == mechanism


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_mechanism_cites_its_source(name: str) -> None:
    """Every mechanism says where it comes from, with keys that exist."""
    found = re.search(r"Source: ([A-Z0-9, ]+)", documented(kind_of(name)) or "")
    assert found is not None
    assert set(re.split(r",\s*", found.group(1).strip())) <= set(SOURCES)
