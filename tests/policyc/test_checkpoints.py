"""One more step of a long stream: what the last run noted spares reading all of it, and never decides what is drawn."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from policyc import compile_policy
from policyc_check.errors import KernelError
from policyc_runtime import file_identity, ledger_reader, load_plan, taken_steps
from policyc_runtime.carried import goes_on, left_as_text, left_of_text
from policyc_runtime.errors import LedgerError, ReleaseError
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_checkpoint import Content, read_checkpoint, write_checkpoint
from policyc_runtime.ledger_claims import claims_of
from policyc_runtime.ledger_private import checkpoint_file, history_file, steps_file
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.output import drafted_release, note_left, put_in_place, write_release
from policyc_runtime.published_values import Release
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release

STREAM = """
policy visits "visitors"
stream seen {{
  user person
  time at
  cell place in {{"A", "B"}}{away}
  step 1h
  horizon 24 steps
  start "2026-01-01"
{users}
}}
release there = count(seen) by place
{second}
{promise}
deliver {deliver}
objective mean_squared_error
{more}
"""
WINDOW = "target w_event(epsilon = 4.0, window = 4 steps)"
USER = """target user_level(epsilon = 4.0, delta = 1e-4, neighbors = add_remove)
participation at_most(5 steps, enforced = keep_first)"""
CHAIN = """target alpha_dpt(alpha = 4.0)
correlation markov(
  forward = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], initial = stationary, evidence = "x")"""
SUM = "postprocess there { sum(there) == population, there >= 0 }"
RISING = "postprocess all { all >= previous(all) - 3, suppress(all, below = 4) }"
LATEST = {
    "window": (WINDOW, "realtime", "budget uniform()\nestimate none()"),
    "constraints": (WINDOW, "realtime", f"estimate mle()\n{SUM}"),
    "the step before": (WINDOW, "realtime", f"estimate mle()\n{RISING}"),
    "gaussian": (USER, "realtime", "mechanism gaussian()\nestimate none()"),
    "binomial": (USER, "realtime", "mechanism binomial()\nestimate none()"),
    "prior": (CHAIN, "realtime", f"budget uniform()\nestimate map(prior = uniform)\n{SUM}"),
}
TOTALS = "release sofar = prefix(there)\nrelease lately = window(there, 3 steps)"
LEFT = {
    "tree": (USER, "realtime", f"mechanism binary_tree()\nestimate none()\n{TOTALS}"),
    "tree, rising": (USER, "realtime", f"mechanism binary_tree()\nestimate mle()\n{RISING}"),
    "totals": (USER, "realtime", f"mechanism gaussian()\nestimate none()\n{TOTALS}"),
}
LATEST |= LEFT
FILTERED = {
    "filter": (CHAIN, "realtime", f"budget uniform()\nestimate filter()\n{SUM}"),
    "filter, seldom": (CHAIN, "realtime", f"budget sparse(every = 4 steps)\nestimate filter()\n{SUM}"),
    "filter, rising": (
        CHAIN,
        "realtime",
        "budget uniform()\nestimate filter()\npostprocess there { sum(there) == population, there >= 0, "
        "there >= previous(there) - 3 }",
    ),
}
WHOLE = {
    "offline": (WINDOW, "offline", "estimate none()"),
    "absorption": (WINDOW, "realtime", "mechanism budget_absorption()\nestimate none()"),
    "toeplitz": (USER, "realtime", "mechanism toeplitz()\nestimate none()"),
    "made of what is released": (CHAIN, "realtime", f"budget uniform()\nestimate none()\n{TOTALS}"),
    "left out": (USER, "realtime", f"mechanism gaussian()\nestimate none()\n{TOTALS}\n{RISING}"),
    "frequency": (CHAIN, "realtime", f"budget uniform()\nestimate map(prior = frequency)\n{SUM}"),
}
CUTS = [1, 2, 5, 5, 9, 12]


def compiled(folder: Path, promise: str, deliver: str, more: str) -> Path:
    """The directory of a plan."""
    public = {"away": "", "users": ""} if promise == USER else {"away": ' otherwise "away"', "users": "  population 30"}
    second = "" if promise == CHAIN else "release all = count(seen)"
    text = STREAM.format(promise=promise, deliver=deliver, more=more, second=second, **public)
    (folder / "visits.policy").write_text(text)
    return compile_policy(folder / "visits.policy").save(folder / "visits.plan")


def events(folder: Path, first: int, stop: int) -> Path:
    """Rows of some steps."""
    rows = [
        f"u{n % 29},2026-01-01T{hour:02}:{n:02}:00,{'AB'[n * hour % 3 % 2]}" for hour in range(24) for n in range(9)
    ]
    path = folder / "events.csv"
    path.write_text("\n".join(["person,at,place", *rows[9 * first : 9 * stop]]) + "\n")
    return path


def stepwise(folder: Path, *, latest: int | None) -> list[Release]:
    """A stream released in pieces on new rows, with noise from a seed; what every run returned."""
    plan, done = load_plan(folder / "visits.plan"), []
    randomness = SimulationRandomness(3)
    for before, stop in zip([0, *CUTS], CUTS, strict=False):
        done.append(
            release(
                plan,
                events(folder, min(before, stop - 1), stop),
                folder / "visits.plan" / "ledger.sqlite",
                continued=True,
                steps=stop,
                output=folder / "out.csv",
                randomness=randomness,
                latest=latest,
            )
        )
        write_release(done[-1], folder / "out.csv")
    return done


def entries(folder: Path) -> list[tuple[object, ...]]:
    """What the ledger says was drawn and published."""
    with LedgerReader.open_read_only(folder / "visits.plan" / "ledger.sqlite") as book:
        return [(e.step, e.release, e.noisy, e.published, e.epsilon, e.scale, e.process, e.known) for e in book.entries]


@pytest.mark.sampled(1, laws=6)
@pytest.mark.parametrize("name", [*LATEST, *WHOLE])
def test_the_latest_steps_alone_are_drawn_and_published_as_with_all_before_them(name: str, tmp_path: Path) -> None:
    """The same noise gives the same ledger and the same bytes, whether earlier steps are read or not."""
    found = {}
    compiled(tmp_path, *{**LATEST, **WHOLE}[name])
    assert goes_on(load_plan(tmp_path / "visits.plan")) == (name in LATEST)
    for latest in (1, 2, None):
        folder = tmp_path / str(latest)
        shutil.copytree(tmp_path / "visits.plan", folder / "visits.plan")
        done = stepwise(folder, latest=latest)
        files = {file.name: file.read_bytes() for file in folder.glob("out*.csv")}
        assert files
        found[latest] = files, entries(folder)
        begins = [max(0, stop - latest) if latest and name in LATEST else 0 for stop in [0, *CUTS[:-1]]]
        assert [one.first for one in done] == begins
        assert [one.before for one in done] == [0, 1, 2, 5, 5, 9]
    assert found[1] == found[2] == found[None]


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("soon_forgotten")
@pytest.mark.parametrize("name", FILTERED)
def test_a_filter_reads_what_it_has_not_forgotten_and_publishes_the_same(name: str, tmp_path: Path) -> None:
    """The same ledger and bytes whether values of long ago are read or not; before users are settled on, all are."""
    found, begins = {}, {}
    compiled(tmp_path, *FILTERED[name])
    assert goes_on(load_plan(tmp_path / "visits.plan"))
    for latest in (1, 2, None):
        folder = tmp_path / str(latest)
        shutil.copytree(tmp_path / "visits.plan", folder / "visits.plan")
        done = stepwise(folder, latest=latest)
        found[latest] = {file.name: file.read_bytes() for file in folder.glob("out*.csv")}, entries(folder)
        begins[latest] = [one.first for one in done]
        assert [one.before for one in done] == [0, 1, 2, 5, 5, 9]
    assert found[1] == found[2] == found[None]
    assert begins[None] == [0] * len(CUTS)
    assert begins[1][:3] == [0, 0, 0], "what users move like was not settled before step 4"
    assert 0 < begins[1][-1] < CUTS[-2]
    assert begins[1] == sorted(begins[1])
    assert all(few >= more for few, more in zip(begins[1], begins[2], strict=True))


def stepped(folder: Path, stop: int, seed: int = 4) -> Release:
    """One more step, its noise from a seed of its own."""
    given = {"continued": True, "steps": stop, "output": folder / "out.csv", "latest": 1}
    book, randomness = folder / "visits.plan" / "ledger.sqlite", SimulationRandomness(seed)
    plan = load_plan(folder / "visits.plan")
    done = release(plan, events(folder, stop - 1, stop), book, randomness=randomness, **given)
    write_release(done, folder / "out.csv")
    return done


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["tree", "totals"])
def test_what_was_left_is_believed_of_this_ledger_as_it_is_alone(name: str, tmp_path: Path) -> None:
    """A note that is altered, cut, older or of another run: all is read, and the same bytes are published."""
    begun, other = tmp_path / "begun", tmp_path / "other"
    begun.mkdir()
    compiled(begun, *LEFT[name])
    shutil.copytree(begun, other)
    stepwise(begun, latest=1)
    stepwise(other, latest=1)
    older = checkpoint_file(ledger(begun)).read_bytes()
    stepped(begun, 13)
    kept = checkpoint_file(ledger(begun)).read_bytes()
    said = json.loads(kept)
    moved = left_as_text({name: [rows + 1 for rows in each] for name, each in left_of_text(said["left"]).items()})
    assert moved != said["left"]
    notes = {
        "kept": kept,
        "altered": json.dumps({**said, "left": moved}).encode(),
        "moved": json.dumps({**said, "first": said["first"] - 1}).encode(),
        "cut": kept[:-20],
        "gone": None,
        "older": older,
        "of another run": checkpoint_file(ledger(other)).read_bytes(),
        "of nothing": json.dumps({**said, "left": "{}"}).encode(),
    }
    found = {}
    for kind, note in notes.items():
        folder = Path(shutil.copytree(begun, tmp_path / kind))
        place = checkpoint_file(ledger(folder))
        place.unlink() if note is None else place.write_bytes(note)
        done = stepped(folder, 14)
        assert done.first == (12 if kind == "kept" else 0)
        assert stepped(folder, 15).first == 13
        found[kind] = {file.name: file.read_bytes() for file in folder.glob("out*.csv")}, entries(folder)
        assert list(found[kind]) == list(found["kept"])
        assert found[kind] == found["kept"]


def test_what_was_left_decides_what_is_published_and_only_the_key_forges_it(tmp_path: Path) -> None:
    """A note with other numbers, under the key, gives other values; `verify` says which do not follow."""
    compiled(tmp_path, *LEFT["totals"])
    stepwise(tmp_path, latest=1)
    note = read_checkpoint(ledger(tmp_path))
    assert note is not None
    left = {name: [rows + 1 for rows in arrays] for name, arrays in left_of_text(note.left).items()}
    assert set(left) >= {"sofar", "lately"}
    write_checkpoint(ledger(tmp_path), note._replace(left=left_as_text(left)))
    assert stepped(tmp_path, 13).first == 11
    with LedgerReader.open_read_only(ledger(tmp_path)) as book:
        claims = list(claims_of(book, load_plan(tmp_path / "visits.plan")))
    assert [claim.name for claim in claims if claim.holds is False]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("once")
    compiled(folder, *LATEST["window"])
    for stop in (4, 6):
        assert run(folder, stop).returncode == 0
    return folder


@pytest.fixture
def folder(once: Path, tmp_path: Path) -> Path:
    """A plan of which six steps were released in two runs by the command line."""
    return Path(shutil.copytree(once, tmp_path / "here"))


def policyc(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "policyc", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def run(folder: Path, stop: int, *more: str) -> subprocess.CompletedProcess[str]:
    events(folder, 0 if stop < 5 else stop - 1, stop)
    given = ("--input", "events.csv", "--continued", "--output", "out.csv", "--steps", str(stop), "--no-report", *more)
    return policyc("run", "visits.plan", *given, cwd=folder)


def ledger(folder: Path) -> Path:
    return folder / "visits.plan" / "ledger.sqlite"


def lines(folder: Path) -> int:
    return len((folder / "out-all.csv").read_text().splitlines())


@pytest.mark.law
def test_a_checkpoint_that_is_cut_altered_or_gone_makes_a_run_read_everything(folder: Path) -> None:
    """Whatever becomes of the note, the run goes on, and leaves one again."""
    note = checkpoint_file(ledger(folder))
    kept = note.read_bytes()
    other = json.loads(kept)
    other["outputs"] = dict.fromkeys(other["outputs"], "0" * 64)
    for stop, content in enumerate((b"", kept[:-9], kept[:-1] + b" }", json.dumps(other).encode(), None, kept), 7):
        note.unlink() if content is None else note.write_bytes(content)
        done = run(folder, stop)
        assert done.returncode == 0, done.stderr
        assert f"1 new, {stop - 1} from before" in done.stdout
        assert lines(folder) == stop + 1
        assert read_checkpoint(ledger(folder)) is not None
    assert policyc("verify", "visits.plan", "--release", "out.csv", cwd=folder).returncode == 0


def rewritten(folder: Path, statement: str) -> None:
    """Alter an entry behind the rules of its table, and let seal, pin and note name the file as it is then."""
    path = ledger(folder)
    book = sqlite3.connect(path)
    ((rule,),) = book.execute("SELECT sql FROM sqlite_master WHERE name = 'entry_fixed'").fetchall()
    book.execute("DROP TRIGGER entry_fixed")
    book.execute(statement)
    book.execute(rule)
    book.commit()
    book.close()
    sha256 = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout.split()[0]
    for file in (path.with_name("ledger.sqlite.seal"), path.with_name("ledger.pin"), checkpoint_file(path)):
        said = {**json.loads(file.read_text()), "sha256": sha256}
        file.write_text(json.dumps(said, sort_keys=True) + ("" if file == checkpoint_file(path) else "\n"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", [0, 5])
def test_an_altered_entry_is_refused_though_every_file_around_it_names_the_altered_one(step: int, folder: Path) -> None:
    """Without the key nobody can write a note that fits, and the chain is read."""
    rewritten(folder, f"UPDATE entry SET published = '[1]' WHERE step = {step} AND release = 'all'")
    for done in (run(folder, 7), policyc("verify", "visits.plan", cwd=folder)):
        assert done.returncode == 1
        assert "error[E0823]" in done.stderr
    assert lines(folder) == 7


@pytest.mark.law
def test_whoever_has_the_key_deceives_a_run_and_not_verify(folder: Path) -> None:
    """A note that fits an altered ledger spares the chain in a run; `verify` reads it, and names the entry."""
    rewritten(folder, "UPDATE entry SET published = '[1]' WHERE step = 0 AND release = 'all'")
    from policyc_runtime import ledger_checkpoint

    path = ledger(folder)
    said = json.loads(checkpoint_file(path).read_text())
    said.pop("hmac")
    ledger_checkpoint.write_checkpoint(path, ledger_checkpoint.Checkpoint(**said))
    assert run(folder, 7).returncode == 0
    done = policyc("verify", "visits.plan", cwd=folder)
    assert "error[E0823]" in done.stderr
    assert "entry 2, step 0 of `all`" in done.stderr


@pytest.mark.law
def test_an_older_copy_of_the_ledger_is_refused_with_its_own_checkpoint(folder: Path) -> None:
    """Ledger and note put back together fit each other, and not the seal."""
    older = [ledger(folder), checkpoint_file(ledger(folder))]
    kept = [file.read_bytes() for file in older]
    assert run(folder, 7).returncode == 0
    for file, content in zip(older, kept, strict=True):
        file.write_bytes(content)
    assert "error[E0848]" in run(folder, 8).stderr
    assert lines(folder) == 8


@pytest.mark.law
def test_an_altered_output_is_refused_and_one_that_is_gone_is_written_whole(folder: Path) -> None:
    """New steps are added to nothing but what the last run wrote."""
    file = folder / "out-all.csv"
    kept = file.read_text()
    file.write_text(kept.replace(kept.splitlines()[2], kept.splitlines()[2] + "1"))
    assert "error[E0827]" in run(folder, 7).stderr
    file.unlink()
    assert run(folder, 7).returncode == 0
    assert lines(folder) == 8
    assert policyc("verify", "visits.plan", "--release", "out.csv", cwd=folder).returncode == 0


def test_an_output_that_another_run_wrote_meanwhile_is_not_added_to(folder: Path) -> None:
    """It is refused, with nothing lost: the next run writes it whole."""
    plan, out = load_plan(folder / "visits.plan"), folder / "out.csv"
    given = {"continued": True, "output": out, "latest": 1}
    first = release(plan, events(folder, 6, 7), ledger(folder), steps=7, **given)
    second = release(plan, events(folder, 7, 8), ledger(folder), steps=8, **given)
    assert (first.first, second.first) == (5, 0)
    write_release(second, out)
    with pytest.raises(ReleaseError, match="cannot be written") as refused:
        write_release(first, out)
    assert "wrote to it" in (refused.value.because or "")
    assert run(folder, 9).returncode == 0
    assert lines(folder) == 10


@pytest.mark.law
def test_changed_rows_of_the_last_step_are_refused(folder: Path) -> None:
    """What a run on new rows is given again is compared, as ever."""
    (folder / "events.csv").write_text("person,at,place\nu1,2026-01-01T05:00:00,A\nu1,2026-01-01T06:00:00,A\n")
    given = ("--input", "events.csv", "--continued", "--output", "out.csv", "--steps", "7", "--no-report")
    assert "error[E0825]" in policyc("run", "visits.plan", *given, cwd=folder).stderr


@pytest.mark.law
def test_a_lost_key_is_refused(folder: Path) -> None:
    """A note that nobody can check is none, and the ledger says what is missing."""
    (folder / "visits.plan" / "private" / "ledger.sqlite.key").unlink()
    assert "error[E0822]" in run(folder, 7).stderr
    with pytest.raises(KernelError):
        Ledger.open(ledger(folder), load_plan(folder / "visits.plan"))


def known_to_all(folder: Path, hours: Sequence[int]) -> Path:
    """Rows of seven users who come in every one of some hours."""
    rows = [f"{user},2026-01-01T{hour:02}:10:00,A" for hour in hours for user in "abcdefg"]
    path = folder / "events.csv"
    path.write_text("\n".join(["person,at,place", *rows]) + "\n")
    return path


@pytest.mark.parametrize("name", ["totals", pytest.param("tree", marks=pytest.mark.law)])
@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_new_rows_alone_do_not_go_on_from_steps_that_nobody_took_in(
    name: str, quiet: bool, lost: bool, tmp_path: Path
) -> None:
    """A run had the whole history, or what runs took in is lost: who came in 4 of 5 steps must not come in 5 more.

    The bound of users holds over all steps only where it is known who came before. The remedy that is said works.
    """
    plan = load_plan(compiled(tmp_path, *LATEST[name]))
    ledger, output = tmp_path / "visits.plan" / "ledger.sqlite", tmp_path / "out.csv"

    def run(hours: Sequence[int], steps: int, *, continued: bool) -> Release:
        randomness = SimulationRandomness(3)
        data = known_to_all(tmp_path, hours)
        done = release(
            plan, data, ledger, continued=continued, steps=steps, output=output, randomness=randomness, latest=1
        )
        write_release(done, output)
        return done

    whole = range(3 if quiet else 4)
    run(whole, 4, continued=lost)
    if lost:
        history_file(ledger).unlink()
    with pytest.raises(LedgerError, match="no rows for step 0 any more") as refused:
        run(range(4, 9), 9, continued=True)
    assert refused.value.code == "E0825"
    assert "run once with the whole history from step 0 on and `--continued`" in str(refused.value.help)
    done = run([*whole, *range(4, 9)], 9, continued=True)
    assert done.steps.stop == 9
    with closing(sqlite3.connect(history_file(ledger))) as file:
        most = file.execute("SELECT max(n) FROM (SELECT count(*) AS n FROM kept GROUP BY person)").fetchone()[0]
    assert most == 5


@pytest.mark.parametrize("file", ["checkpoint", "seal", "pin"])
def test_brackets_without_end_are_a_note_of_nobody(file: str, tmp_path: Path) -> None:
    """What is no note is none, or is refused: never an internal error."""
    compiled(tmp_path, *LATEST["gaussian"])
    stepwise(tmp_path, latest=1)
    ledger = tmp_path / "visits.plan" / "ledger.sqlite"
    places = {"seal": ledger.with_name("ledger.sqlite.seal"), "pin": ledger.with_name("ledger.pin")}
    place = places.get(file, checkpoint_file(ledger))
    assert place.exists()
    place.write_text("[" * 200_000)
    try:
        more = release(
            load_plan(tmp_path / "visits.plan"),
            events(tmp_path, 12, 13),
            ledger,
            continued=True,
            steps=13,
            output=tmp_path / "out.csv",
            randomness=SimulationRandomness(4),
            latest=1,
        )
        assert (file, more.steps.stop) == ("checkpoint", 13)
    except LedgerError:
        assert file != "checkpoint"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    compiled(folder, *LEFT["totals"])
    stepwise(folder, latest=1)
    return folder


@pytest.fixture
def stream(released: Path, tmp_path: Path) -> Path:
    """A stream of which 13 steps were released, its files as the last run left them."""
    folder = Path(shutil.copytree(released, tmp_path / "stream"))
    stepped(folder, 13)
    return folder


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which files a run reads from their beginning on, from now on."""
    found: list[str] = []
    sha256, digests, content = ledger_reader.file_sha256, taken_steps._digests, Content.of.__func__

    def ledger_read(*given: Any) -> str:
        found.append("ledger")
        return sha256(*given)

    def steps_read(file: sqlite3.Connection, steps: int, taken: taken_steps.Taken | None = None) -> tuple[str, str]:
        found.extend(["steps"] if taken is None else [])
        return digests(file, steps, taken)

    def output_read(kind: type[Content], file: BinaryIO, *earlier: Any) -> Content:
        found.extend([] if earlier else ["output"])
        return content(kind, file, *earlier)

    monkeypatch.setattr(ledger_reader, "file_sha256", ledger_read)
    monkeypatch.setattr(taken_steps, "_digests", steps_read)
    monkeypatch.setattr(Content, "of", classmethod(output_read))
    return found


def places(folder: Path) -> dict[str, Path]:
    """Files of a stream that its next run looks at."""
    book = ledger(folder)
    private = {"history": history_file(book), "steps": steps_file(book), "note": checkpoint_file(book)}
    return {"ledger": book, "output": folder / "out-all.csv", **private}


def written_again(file: Path, content: bytes) -> None:
    """Other bytes in the same file, whose times of writing are put back."""
    times = file.stat()
    with file.open("rb+") as handle:
        handle.truncate()
        handle.write(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file.stat().st_mtime_ns == times.st_mtime_ns


def one_digit_off(file: Path) -> bytes:
    """The bytes of a file with another digit in something it says."""
    content = file.read_bytes()
    begins = {"ledger.sqlite": b"[", ".csv": b"\n2,", ".steps": b"[", ".history": b"taken[", ".checkpoint": b"sha256"}
    at = content.index(next(text for name, text in begins.items() if file.name.endswith(name)))
    at = next(place for place in range(at + 4, len(content)) if chr(content[place]).isdigit())
    return content[:at] + (b"1" if content[at : at + 1] != b"1" else b"2") + content[at + 1 :]


def linked(file: Path) -> None:
    """A link to another place, where the same bytes lie."""
    there = file.with_name(f"{file.name}.there")
    shutil.copy2(file, there)
    file.unlink()
    file.symlink_to(there)


SAME_BYTES = {
    "copied": lambda file: Path(shutil.copy2(file, file.with_name("copy"))).replace(file),
    "touched": lambda file: os.utime(file, ns=(0, file.stat().st_mtime_ns)),
    "written again": lambda file: written_again(file, file.read_bytes()),
    "linked to": lambda file: os.link(file, file.with_name("other")),
    "a link": linked,
}


def test_files_that_nobody_touched_are_not_read(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger alone is read, at the end, for its seal."""
    read = reads(monkeypatch)
    assert stepped(stream, 14).first == 12
    assert read == ["ledger"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("file", ["ledger", "output", "steps"])
@pytest.mark.parametrize("how", SAME_BYTES)
def test_a_file_that_somebody_touched_is_read(
    how: str, file: str, stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes are known by their digest, and the run adds to them as to those that nobody touched."""
    other = Path(shutil.copytree(stream, stream.with_name("other")))
    SAME_BYTES[how](places(stream)[file])
    stepped(other, 14)
    read = reads(monkeypatch)
    assert stepped(stream, 14).first == 12
    assert read == (["ledger", "ledger"] if file == "ledger" else [file, "ledger"])
    assert entries(stream) == entries(other)
    assert places(stream)["output"].read_bytes() == places(other)["output"].read_bytes()
    del read[:]
    assert stepped(stream, 15).first == 13
    assert read == ["ledger"]


REFUSED = {"ledger": "E0848", "output": "E0827", "steps": "E0840", "history": "E0840"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("through", ["the file", "a hard link", "memory"])
@pytest.mark.parametrize("file", [*REFUSED, "note"])
def test_one_byte_is_seen_though_times_are_put_back(file: str, through: str, stream: Path) -> None:
    """What is altered is refused, with nothing drawn; without its note a run reads everything."""
    place, before = places(stream)[file], entries(stream)
    content, times = one_digit_off(place), place.stat()
    assert len(content) == times.st_size
    if through == "memory":
        with place.open("rb+") as handle, mmap.mmap(handle.fileno(), 0) as memory:
            memory[:] = content
        os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
    else:
        if through == "a hard link":
            os.link(place, stream / "link")
        written_again(place if through == "the file" else stream / "link", content)
    if file == "note":
        assert stepped(stream, 14).first == 0
        return
    with pytest.raises(KernelError) as refused:
        stepped(stream, 14)
    assert refused.value.code in {REFUSED[file], "E0823" if file == "ledger" else REFUSED[file]}
    if file != "ledger":
        assert entries(stream) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("file", [*REFUSED, "note"])
def test_an_older_copy_is_seen_though_it_has_the_times_of_the_newest(file: str, stream: Path) -> None:
    """It is refused; of an output, or a note, everything is read and written whole."""
    place = places(stream)[file]
    older = place.read_bytes()
    stepped(stream, 14)
    newest = place.stat()
    place.write_bytes(older)
    os.utime(place, ns=(newest.st_atime_ns, newest.st_mtime_ns))
    if file in ("output", "note"):
        assert stepped(stream, 15).first == 0
        assert lines(stream) == 16
        return
    with pytest.raises(LedgerError) as refused:
        stepped(stream, 15)
    assert refused.value.code == REFUSED[file]


def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that does not tell every change."""
    monkeypatch.setattr(file_identity, "tells_changes", lambda *_: False)


@pytest.mark.parametrize("altered", [False, True])
def test_where_the_system_does_not_tell_every_change_files_are_read(
    altered: bool, stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on by digests, as fast as that goes, and finds what was altered."""
    untold(monkeypatch)
    stepped(stream, 14)
    note = read_checkpoint(ledger(stream))
    assert note is not None
    assert note.identity == ""
    assert {identity for identity, *_ in note.outputs.values()} == {""}
    assert taken_steps.taken_in(ledger(stream)).identity == ""
    if altered:
        written_again(places(stream)["steps"], one_digit_off(places(stream)["steps"]))
        with pytest.raises(LedgerError, match="cannot be used"):
            stepped(stream, 15)
        return
    read = reads(monkeypatch)
    assert stepped(stream, 15).first == 13
    assert sorted(read) == ["ledger", "ledger", *["output"] * 4, "steps"]


MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not MEMORY.is_dir(), reason="needs a file system in memory")
def test_a_write_through_memory_is_seen_where_the_system_does_not_tell_it(stream: Path) -> None:
    """Of a file in memory that is written to as memory no time changes: its bytes are read."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as there:
        folder = Path(shutil.copytree(stream, Path(there) / "here"))
        stepped(folder, 14)
        file = places(folder)["output"]
        content = one_digit_off(file)
        with file.open("rb+") as handle, mmap.mmap(handle.fileno(), 0) as memory:
            assert memory[0]
            told = file_identity.Identity.of(file.stat())
            memory[:] = content
        if file_identity.Identity.of(file.stat()) != told:
            pytest.skip("this one tells it")
        with pytest.raises(ReleaseError, match="differ from step 2"):
            stepped(folder, 15)


def test_a_full_disk_is_an_error_of_the_probe(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page that is written to through memory has its room before: else the system would end the process."""
    file, known, holes = places(stream)["output"], mmap.mmap, []

    def mapped(descriptor: int, length: int) -> mmap.mmap:
        holes.append(os.lseek(descriptor, 0, os.SEEK_HOLE) < os.fstat(descriptor).st_size)
        return known(descriptor, length)

    monkeypatch.setattr(file_identity.mmap, "mmap", mapped)
    assert file_identity.tells_changes(file, file.stat().st_dev)
    assert holes == [False]


def test_what_is_told_is_noted_once_the_clock_went_on(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change within the same tick could not be told, nor one before the note; both make the file be read."""
    file = places(stream)["output"]
    left = file_identity.Identity.of(file.stat())
    assert file_identity.settled({file: left}) == {file}
    assert file_identity.tells_changes(file, left.device, left.changed)
    assert not file_identity.tells_changes(file, left.device, time.time_ns() + 10**12)
    written_again(file, file.read_bytes())
    assert file_identity.settled({file: left}) == set()
    assert file_identity.tells_changes(file, left.device + 1) is False
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(file_identity, "tells_changes", lambda *given: asked.append(given) is None)
    left = file_identity.Identity.of(file.stat())
    assert file_identity.settled({file: left}) == {file}
    assert asked == [(file, left.device, left.changed)]


def test_a_draft_that_is_altered_before_it_is_placed_is_not_taken_for_the_runs(stream: Path) -> None:
    """Renaming a file changes the moment of its change, so it is held against the draft that was written."""
    plan, out = load_plan(stream / "visits.plan"), stream / "out.csv"
    given = {"continued": True, "output": out, "randomness": SimulationRandomness(4), "latest": 1}
    done = release(plan, events(stream, 13, 14), ledger(stream), steps=14, **given)
    with drafted_release(done, out) as drafts:
        new = next(draft.new for draft in drafts if draft.file == places(stream)["output"])
        written_again(new, new.read_bytes().replace(b"\n2,", b"\n9,", 1))
        placed = put_in_place(drafts)
    note_left(done, placed)
    with pytest.raises(ReleaseError, match="differ from step 2"):
        stepped(stream, 15)


def test_a_log_planted_beside_the_ledger_is_refused(stream: Path) -> None:
    """Sqlite reads through a write-ahead log, whatever the file under it says: nothing would be told of that."""
    book, copy = ledger(stream), stream / "copy.sqlite"
    shutil.copyfile(book, copy)
    with closing(sqlite3.connect(copy)) as file:
        file.execute("PRAGMA journal_mode = WAL")
        ((rule,),) = file.execute("SELECT sql FROM sqlite_master WHERE name = 'entry_fixed'").fetchall()
        file.execute("DROP TRIGGER entry_fixed")
        file.execute("UPDATE entry SET published = '[1]' WHERE step = 12 AND release = 'all'")
        file.execute(rule)
        file.commit()
        shutil.copyfile(f"{copy}-wal", f"{book}-wal")
    with pytest.raises(LedgerError) as refused:
        stepped(stream, 14)
    assert refused.value.code in ("E0823", "E0848")


def test_steps_that_a_killed_run_added_are_taken_in_anew(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between adding steps and telling the ledger: the next run takes them in, once."""
    other = Path(shutil.copytree(stream, stream.with_name("other")))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "note_history", killed)
        with pytest.raises(KeyboardInterrupt):
            stepped(stream, 14)
    with closing(sqlite3.connect(steps_file(ledger(stream)))) as file:
        assert file.execute("SELECT max(step) FROM step").fetchone() == (13,)
    assert taken_steps.taken_in(ledger(stream)).steps == 13
    assert list(stepped(stream, 14).steps) == [12, 13]
    stepped(other, 14)
    assert entries(stream) == entries(other)
    assert taken_steps.steps_are_whole(ledger(stream))


def test_steps_that_another_run_added_meanwhile_are_not_taken_for_ones_own(
    stream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed before it told the ledger may have written over them: that is said, the next goes on."""
    note = Ledger.note_history

    def overwritten(book: Ledger, mark: str, coming: str) -> None:
        note(book, mark, coming)
        if coming:
            with closing(sqlite3.connect(steps_file(book.path))) as file:
                file.execute("UPDATE step SET digest = 'x' WHERE step = 13")
                file.commit()

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "note_history", overwritten)
        with pytest.raises(LedgerError, match="another run took in data"):
            stepped(stream, 14)
    assert stepped(stream, 14).steps.stop == 14
    assert taken_steps.steps_are_whole(ledger(stream))


@pytest.mark.parametrize("how", ["altered", "gone", "cut", "emptied"])
def test_verify_reads_all_steps_that_were_taken_in(how: str, stream: Path) -> None:
    """The history's own digest of them is computed again, whatever the system tells of their file."""
    file = places(stream)["steps"]
    plan = load_plan(stream / "visits.plan")

    def failing() -> list[str | None]:
        with LedgerReader.open_read_only(ledger(stream)) as book:
            return [claim.code for claim in claims_of(book, plan) if claim.holds is False and claim.code != "E0828"]

    assert failing() == []
    if how == "gone":
        file.unlink()
    elif how == "altered":
        written_again(file, one_digit_off(file))
    elif how == "emptied":
        file.write_bytes(b"")
    else:
        with closing(sqlite3.connect(file)) as steps:
            steps.execute("DELETE FROM step WHERE step = 3")
            steps.commit()
    assert failing() == ["E0840"]
    with pytest.raises(LedgerError) as refused:
        stepped(stream, 14)
    assert refused.value.code == "E0840"
