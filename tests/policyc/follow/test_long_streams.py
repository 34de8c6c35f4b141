"""One more step of a long stream: what the last one left is looked at, not all that lies before it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from scripted import BEGIN, HOUR, MOVING, VISITS, Played, follow, planned

from policyc_runtime.errors import DataError, ReleaseError
from policyc_runtime.follow import follower
from policyc_runtime.follow.released_lines import released_lines
from policyc_runtime.follow.sinks import FileSink
from policyc_runtime.ledger_checkpoint import read_checkpoint
from policyc_runtime.ledger_private import checkpoint_file
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.published_values import Release
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release

ALONE = f"{VISITS}mechanism gaussian()\nestimate none()\n"
BEFORE = "postprocess there { there >= previous(there) - 3, suppress(there, below = 2) }\n"
TREE = f"{VISITS}mechanism binary_tree()\nestimate none()\n"
EARLIER = TREE.replace("binary_tree", "toeplitz")
ONE_STEP = {"alone": ALONE, "the step before": ALONE.replace("none()", "mle()") + BEFORE, "nodes before": TREE}
HORIZON = 6


class Lines:
    """A sink that keeps what it is given, and fails at one step."""

    name = "lines"

    def __init__(self, fails: int = -1) -> None:
        self.fails = fails
        self.seen: list[int] = []  # the first step of each release
        self.text = ""
        self._more = ""

    def ready(self, release: Release, noted: int, pieces: ExitStack) -> None:
        if release.steps.stop == self.fails:
            raise DataError("E0870", "nobody takes it")
        self.seen.append(release.first)
        self._more = "".join(released_lines(release, noted, release.steps.stop))

    def publish(self) -> None:
        self.text += self._more

    def close(self) -> None:
        pass


def made(folder: Path, text: str) -> Plan:
    return planned(folder, text.replace("horizon 4 steps", f"horizon {HORIZON} steps"))


def stepwise(plan: Plan, folder: Path, lines: Lines, first: int = 0) -> None:
    """Some steps that close one after the other, by the clock, from the `first` on."""
    place = BEGIN + first * HOUR + HOUR // 2
    script = [(place + step * HOUR, "{") for step in range(HORIZON - first)] + [(BEGIN + (HORIZON + 1) * HOUR, "")]
    follow(plan, folder, Played(script, now=place), [FileSink(str(folder / "out.csv")), lines])


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("out*.csv")}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ONE_STEP)
def test_a_step_reads_the_one_before_it_and_publishes_the_same(name, tmp_path, monkeypatch):
    """The same bytes in files and lines as where everything is read at every step."""
    found = []
    plan = made(tmp_path, ONE_STEP[name])
    for noted in (True, False):
        folder, lines = tmp_path / str(noted), Lines()
        folder.mkdir()
        if not noted:
            monkeypatch.setattr(follower, "note_left", lambda *_: None)
        stepwise(plan, folder, lines)
        assert lines.seen == ([0, 0, *range(HORIZON - 1)] if noted else [0] * (HORIZON + 1))
        found.append((files(folder), lines.text))
    assert len(found[0][0]) == 2
    assert found[0] == found[1]


@pytest.mark.usefixtures("soon_forgotten")
def test_a_step_of_a_filter_reads_what_it_has_not_forgotten_and_publishes_the_same(tmp_path, monkeypatch):
    """As above, once users are settled on; before that, all are read."""
    found, horizon = [], 12
    total = "estimate filter()\npostprocess occupancy { sum(occupancy) == population }\n"
    plan = planned(tmp_path, MOVING.replace("horizon 4 steps", f"horizon {horizon} steps") + total)
    for noted in (True, False):
        folder, lines = tmp_path / str(noted), Lines()
        folder.mkdir()
        if not noted:
            monkeypatch.setattr(follower, "note_left", lambda *_: None)
        script = [(BEGIN + step * HOUR + HOUR // 2, "{") for step in range(horizon)]
        played = Played([*script, (BEGIN + (horizon + 1) * HOUR, "")], now=BEGIN + HOUR // 2)
        follow(plan, folder, played, [FileSink(str(folder / "out.csv")), lines])
        assert lines.seen[:4] == [0] * 4
        assert lines.seen == sorted(lines.seen)
        assert (0 < lines.seen[-1] < horizon - 2) == noted
        found.append((files(folder), lines.text))
    assert found[0] == found[1]


def test_a_place_that_is_behind_is_given_all_that_it_misses(tmp_path):
    """Noise was committed and one place took nothing: started again, it has every line."""
    plan, lines = made(tmp_path, ALONE), Lines(fails=4)
    with pytest.raises(DataError, match="nobody takes it"):
        stepwise(plan, tmp_path, lines)
    again = Lines()
    again.text = lines.text
    stepwise(plan, tmp_path, again, first=5)
    assert again.seen[0] <= 3
    assert again.seen[-1] == HORIZON - 2
    steps = [line.split('"step": ')[1].split(",")[0] for line in again.text.splitlines()]
    assert steps == [str(step) for step in range(HORIZON) for _ in range(2)]
    assert len((tmp_path / "out-there.csv").read_text().splitlines()) == HORIZON + 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("altered", ["out-there.csv", "checkpoint", "l"])
def test_what_was_altered_meanwhile_is_found(altered, tmp_path):
    """Without the note everything is read; a file or a ledger with other values is refused."""
    plan = made(tmp_path, ALONE)
    with pytest.raises(DataError):
        stepwise(plan, tmp_path, Lines(fails=4))
    note = checkpoint_file(tmp_path / "l")
    assert read_checkpoint(tmp_path / "l") is not None
    place = {"checkpoint": note}.get(altered, tmp_path / altered)
    content = place.read_bytes()
    if altered == "out-there.csv":
        place.write_bytes(content.replace(b"\n1,", b"\n7,"))
    else:
        place.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    if altered == "checkpoint":
        lines = Lines()
        stepwise(plan, tmp_path, lines, first=5)
        assert lines.seen[0] == 0
        assert len((tmp_path / "out-there.csv").read_text().splitlines()) == HORIZON + 1
        return
    with pytest.raises(Exception, match="differ|cannot be used|altered|last run left") as refused:
        stepwise(plan, tmp_path, Lines(), first=5)
    assert refused.value.code in {"E0820", "E0823", "E0827", "E0848"}


def test_noise_that_looks_back_has_all_that_it_looks_at(tmp_path):
    """A mechanism of many steps reads all of them, with the chain as the note says; the ledger is a run's."""
    plan, lines = made(tmp_path, EARLIER), Lines()
    stepwise(plan, tmp_path, lines)
    assert set(lines.seen) == {0}
    with LedgerReader.open_read_only(tmp_path / "l", checkpoint=read_checkpoint(tmp_path / "l")) as trusted:
        with LedgerReader.open_read_only(tmp_path / "l") as book:
            assert trusted.entries == book.entries
            assert trusted.state == book.state
        assert trusted.steps == HORIZON


def test_the_last_steps_alone_are_added_to_the_file_of_their_run(tmp_path):
    """Returned without an output, they are written to none: a file that begins in the middle is none of a run's."""
    plan = made(tmp_path, ALONE)
    follow(plan, tmp_path, Played([(BEGIN + 5 * HOUR, "")], now=BEGIN + 4 * HOUR + HOUR // 2), sinks=[])
    (tmp_path / "e.csv").write_text("person,at,money\na,2026-01-01T05:00:00Z,1\n")
    given = {"continued": True, "steps": 6, "pin": None, "latest": 1, "randomness": SimulationRandomness(3)}
    done = release(plan, tmp_path / "e.csv", tmp_path / "l", **given)
    assert done.steps == range(3, 6)
    with pytest.raises(ReleaseError, match="cannot be written") as refused:
        write_release(done, tmp_path / "out.csv")
    assert "`output`" in str(refused.value.help)
    assert not files(tmp_path)


@pytest.mark.law
@pytest.mark.parametrize("policy", [ALONE, TREE], ids=["alone", "tree"])
def test_a_step_after_ten_thousand_takes_what_one_after_a_thousand_takes(policy, tmp_path):
    """In seconds of processor time, of which reading everything would add 0.4."""
    text = policy.replace("step 1h", "step 1min").replace("horizon 4 steps", "horizon 20_000 steps")
    plan, minute, took = planned(tmp_path, text), HOUR // 60, {}
    for steps in (1000, 10_000):
        begins = BEGIN + steps * minute + minute // 2
        script = [(begins + step * minute, "{") for step in range(8)] + [(begins + 9 * minute, "")]
        marks: list[float] = []
        played = Played(script, now=begins)
        sink = Lines()
        sink.publish = lambda marks=marks: marks.append(time.process_time())  # type: ignore[method-assign]
        follow(plan, tmp_path, played, [FileSink(str(tmp_path / "out.csv")), sink])
        took[steps] = min(after - before for before, after in zip(marks[-7:], marks[-6:], strict=False))
    print(took)
    assert took[10_000] < took[1000] + 0.08
