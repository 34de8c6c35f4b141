"""`deliver within(d steps)`: a value waits for d later steps, so that it does not matter how often the plan is run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_runtime.errors import DataError, LedgerError, ReleaseError
from policyc_runtime.estimates import published_values
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims

STEPS, DELAY = 30, 3
SERIES = """
policy visits "visitors"
stream seen {{ user person time at step 1h horizon 30 steps start "2026-01-01" }}
release there = count(seen)
target user_level(epsilon = 2.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, assumed = "tickets")
signal ar1({signal})
mechanism gaussian()
estimate filter()
deliver within({delay} steps)
{rules}
"""
CHAIN = """
policy moves "moves"
stream seen {{ user person time at cell place in {{"a", "b"}} otherwise "away" step 1h horizon 30 steps
  population 300 start "2026-01-01" }}
release there = count(seen) by place
target alpha_dpt(alpha = 2.0)
correlation markov(forward = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], initial = stationary, evidence = "e")
estimate filter()
deliver within({delay} steps)
{rules}
"""
DECLARED = 'mean = 300, sd = 60, autocorrelation = 0.9, evidence = "e"'
TOTAL = "sum(there) == population, there >= 0"
CASES = {
    "declared": (SERIES, {"signal": DECLARED, "rules": ""}),
    "learned": (SERIES, {"signal": "learned = true", "rules": ""}),
    "whole numbers": (SERIES, {"signal": DECLARED, "rules": "postprocess there { there >= 0, integer(there) }"}),
    "coupled": (SERIES, {"signal": DECLARED, "rules": "postprocess there { there - previous(there) <= 5 }"}),
    "chain": (CHAIN, {"rules": f"postprocess there {{ {TOTAL} }}"}),
    "coupled chain": (CHAIN, {"rules": f"postprocess there {{ {TOTAL}, there - previous(there) <= 30 }}"}),
}


def planned(folder: Path, case: str, delay: int = DELAY) -> Plan:
    text, words = CASES[case]
    (folder / "p.policy").write_text(text.format(delay=delay, **words))
    return compile_policy(folder / "p.policy").plan


def counts(plan: Plan) -> np.ndarray:
    generator = np.random.default_rng(4)
    if plan.stream.population is None:
        return 300 + np.cumsum(generator.integers(-20, 21, (STEPS, 1)), axis=0)
    return generator.multinomial(300, [0.5, 0.3, 0.2], STEPS)


@pytest.mark.sampled(1, laws=2)
@pytest.mark.parametrize("case", CASES)
def test_daily_runs_publish_what_one_run_publishes(case: str, tmp_path: Path) -> None:
    """One more step a day: the values are, to the last bit, those that one run makes of the same noise."""
    plan = planned(tmp_path, case)
    data = counts(plan)
    daily = SimulationRandomness(3)
    seen = np.zeros((0, data.shape[1]))
    for steps in range(1, STEPS + 1):
        if steps <= DELAY:
            with pytest.raises(DataError, match="nothing can be released"):
                release(plan, data[:steps], tmp_path / "daily", steps=steps, randomness=daily, pin=None)
            continue
        done = release(plan, data[:steps], tmp_path / "daily", steps=steps, randomness=daily, pin=None)
        assert len(done.times) == len(done.released) == (steps if steps == STEPS else steps - DELAY)
        assert np.array_equal(done.released[: len(seen)], seen), "what was published does not change"
        seen = done.released
    (part,) = plan.releases
    whole = published_values(plan, part, np.asarray(done.noisy, dtype=float), np.empty((0, data.shape[1])))
    assert np.array_equal(seen, whole)


@pytest.mark.parametrize("case", ["declared", "chain"])
def test_a_value_depends_on_exactly_so_many_later_steps(case: str, tmp_path: Path) -> None:
    """With the noise of a seed, the value of step 10 changes with the data of step 13 and not with that of step 14."""
    plan = planned(tmp_path, case)
    found = []
    for number, changed in enumerate((None, 10 + DELAY, 11 + DELAY)):
        data = counts(plan)
        if changed is not None:
            data[changed, 0] += 40 if case == "chain" else 4_000  # values have three digits after the point
            data[changed, 1:2] -= 40
        done = release(plan, data, tmp_path / str(number), steps=20, randomness=SimulationRandomness(3), pin=None)
        found.append(done.released[10].tolist())
    assert found[0] != found[1]
    assert found[0] == found[2]


@pytest.mark.parametrize("case", ["declared", "chain"])
def test_waiting_steps_have_noise_once(case: str, tmp_path: Path) -> None:
    """What was drawn ahead is what is released; ledger and file verify at any time, and changed data is refused."""
    plan, book, out = planned(tmp_path, case), tmp_path / "l", tmp_path / "o.csv"
    data = counts(plan)
    for steps in (10, 11, STEPS):
        done = release(plan, data[:steps], book, steps=steps, output=out, pin=None)
        write_release(done, out)
        claims = [*ledger_claims(plan, book), *release_claims(plan, book, out)]
        assert [claim for claim in claims if not claim.holds] == []
        assert any("before its values could be published" in claim.name for claim in claims)
        with LedgerReader.open_read_only(book) as ledger:
            drawn = ledger.drawn("there")
            assert [entry.step for entry in drawn] == list(range(steps))
            assert ledger.steps == len(done.times)
        if steps == 10:
            noisy = [entry.noisy for entry in drawn]
            other = data.copy()
            other[9, 0] += 1
            other[9, 1:2] -= 1
            with pytest.raises(LedgerError, match="step 9 changed"):
                release(plan, other[:11], book, steps=11, pin=None)
    assert [entry.noisy for entry in drawn][:10] == noisy


def test_transactions_change_nothing(tmp_path: Path) -> None:
    """Cut into transactions of two steps, the values are those that one transaction makes of the same noise."""
    plan = planned(tmp_path, "declared")
    done = release(plan, counts(plan), tmp_path / "l", steps=STEPS, steps_a_transaction=2, pin=None)
    (part,) = plan.releases
    assert np.array_equal(done.released, published_values(plan, part, done.noisy.astype(float), np.empty((0, 1))))
    assert all(claim.holds for claim in ledger_claims(plan, tmp_path / "l"))


@pytest.mark.parametrize("case", ["declared", "chain"])
def test_noise_that_was_drawn_ahead_is_kept_when_no_values_can_be_made(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimator that fails leaves the noise of the steps that wait in the ledger: no later run draws it again."""
    plan, ledger = planned(tmp_path, case), tmp_path / "l"
    data = counts(plan)
    release(plan, data[:8], ledger, randomness=SimulationRandomness(1), pin=None)

    def no_values(*_: object, **__: object) -> np.ndarray:
        raise ReleaseError("E0830", "no values", because="none are allowed", help="none")

    kept = []
    for seed in (2, 3):
        with monkeypatch.context() as failing:
            failing.setattr(sys.modules["policyc_runtime.run"], "published_values", no_values)
            with pytest.raises(ReleaseError):
                release(plan, data[:12], ledger, randomness=SimulationRandomness(seed), pin=None)
        with LedgerReader.open_read_only(ledger) as book:
            kept.append([(entry.step, entry.noisy) for entry in (*book.entries, *book.ahead)])
    assert kept[0] == kept[1]
    assert max(step for step, _ in kept[0]) == 11
    assert all(noisy != "null" for _, noisy in kept[0])
