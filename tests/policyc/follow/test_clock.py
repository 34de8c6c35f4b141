"""The machine's clock: set forward it is refused, set back it is waited for, and a signal is answered meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from scripted import BEGIN, HOUR, SECOND, Played, follow, planned

from policyc_runtime.errors import DataError
from policyc_runtime.follow import clock
from policyc_runtime.follow.clock import BLUR, MachineClock


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the clock shows, and how long the machine has been running."""
    shown = {"now": BEGIN, "passed": 5 * SECOND}
    monkeypatch.setattr(clock.moments, "now", lambda: shown["now"])
    monkeypatch.setattr(clock, "_passed", lambda: shown["passed"])
    return shown


def test_a_clock_that_is_set_forward_is_refused(hands: dict[str, int]) -> None:
    """By more than the lateness at once; what passes while the machine sleeps is no jump, nor are small corrections."""
    machine = MachineClock(30 * SECOND)
    for _ in range(9):
        hands["now"] += HOUR + 20 * SECOND
        hands["passed"] += HOUR
        assert machine.now() == hands["now"]
    hands["now"] += 31 * SECOND
    with pytest.raises(DataError, match="set forward by 31 s") as refused:
        machine.now()
    assert refused.value.code == "E0902"
    with pytest.raises(DataError):
        machine.wait_until(hands["now"] - 1, lambda: False)


def test_a_clock_that_is_set_back_is_waited_for_until_somebody_says_to_stop(hands: dict[str, int]) -> None:
    machine = MachineClock()
    hands["now"] -= HOUR
    assert machine.now() == hands["now"]
    answers = iter([False, True])
    assert not machine.wait_until(BEGIN, lambda: next(answers))
    assert machine.wait_until(hands["now"] - BLUR, lambda: True)


def test_a_wait_ends_at_a_random_moment_within_a_millisecond(
    hands: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sees a value come learns nothing of how long the work before its wait took."""

    def ticking() -> int:
        for hand in hands:
            hands[hand] += 1
        return hands["now"]

    monkeypatch.setattr(clock.moments, "now", ticking)
    ends = []
    for _ in range(500):
        moment = hands["now"] + 20
        assert MachineClock().wait_until(moment, lambda: False)
        ends.append(hands["now"] - moment)
    assert 0 <= min(ends) < 50 < BLUR - 50 < max(ends) <= BLUR
    assert abs(sum(ends) / len(ends) - BLUR / 2) < 5 * BLUR / (12 * len(ends)) ** 0.5


def test_what_was_not_published_when_it_was_stopped_is_published_later(tmp_path: Path) -> None:
    """Its noise is drawn already, and stays; nothing is published before its moment."""
    plan = planned(tmp_path)

    class Stopped(Played):
        """Told to stop while the first values wait for their moment."""

        def wait_until(self, moment: int, stopping: Callable[[], bool]) -> bool:
            super().wait_until(moment, stopping)
            return not self.stopped()

        def stopped(self) -> bool:
            return len(self.waits) > 1

    stopped = Stopped([], now=BEGIN + 9 * HOUR)
    follow(plan, tmp_path, stopped, stopping=stopped.stopped)
    assert list(tmp_path.glob("*.csv")) == []
    drawn = noise(tmp_path)
    assert len(drawn) == 8
    follow(plan, tmp_path, Played([], now=BEGIN + 9 * HOUR))
    assert {len(file.read_text().splitlines()) for file in tmp_path.glob("*.csv")} == {5}
    assert noise(tmp_path) == drawn


def noise(folder: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(folder / "l")) as ledger:
        return ledger.execute("SELECT step, noisy FROM entry ORDER BY number").fetchall()
