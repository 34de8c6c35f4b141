"""Whatever is altered in a plan's directory, its ledger or its release, `policyc verify` finds it."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from policyc import compile_policy
from policyc.emit import sign, signature_claims, signatures, signing_keys, verify_directory
from policyc.emit.directory import write_on_demand
from policyc_check.errors import KernelError
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.output import write_release
from policyc_runtime.plan import load_plan
from policyc_runtime.refusal import plan_claims
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims

POLICY = """
policy traffic "vehicles per segment"
stream passages {
  user vehicle
  time seen_at
  cell segment in {"A", "B"} otherwise "away"
  step 5min
  horizon 6 steps
  start "2026-01-01"
  population 200
}
release occupancy = count(passages) by segment
target alpha_dpt(alpha = 1.0)
correlation markov(
  forward = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]],
  initial = stationary, evidence = "public counts")
deliver offline
objective mean_squared_error
budget quantified()
estimate none()
postprocess occupancy { sum(occupancy) == population, occupancy >= 0, integer(occupancy) }
"""
COUNTS = "step,segment,count\n" + "".join(f"{t},A,{50 + t}\n{t},B,{60 - t}\n{t},away,90\n" for t in range(6))
Some = Callable[[Iterable[Any], int], list[Any]]
LEDGER, RELEASE, PARQUET = "ledger.sqlite", "occupancy.csv", "occupancy.parquet"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with everything: plan, certificate in every form, signature, ledger, release."""
    folder = tmp_path_factory.mktemp("tampering")
    (folder / "traffic.policy").write_text(POLICY)
    (folder / "counts.csv").write_text(COUNTS)
    compilation = compile_policy(folder / "traffic.policy")
    directory = compilation.save(folder / "traffic.plan")
    signing_keys.new_key(folder / "officer")
    sign(directory, folder / "officer", str, signatures.Signer("Ada Bell", "2026-11-21", "officer", "Town"))
    write_on_demand(directory, "registry.yaml")
    released = release(compilation.plan, folder / "counts.csv", directory / LEDGER, counts=True, pin=None)
    write_release(released, directory / RELEASE)
    write_release(released, directory / PARQUET)
    return directory


@pytest.fixture
def directory(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "traffic.plan"))


def claims(directory: Path) -> Iterator[Any]:
    plan = load_plan(directory)
    yield from plan_claims(plan)
    yield from chain.from_iterable(
        check()
        for check in (
            lambda: verify_directory(directory),
            lambda: signature_claims(directory),
            lambda: ledger_claims(plan, directory / LEDGER),
            lambda: release_claims(plan, directory / LEDGER, directory / RELEASE),
            lambda: release_claims(plan, directory / LEDGER, directory / PARQUET),
        )
    )


def found(directory: Path) -> bool:
    """Whether verification finds anything wrong; it never fails in another way."""
    try:
        return any(claim.holds is False for claim in claims(directory))
    except KernelError:
        return True


def files(directory: Path) -> list[Path]:
    """Every file that an auditor is given; private ones stay with the data's owner."""
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.parent.name != "private")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, item in items:
            yield from leaves(item, (*path, key))


def altered(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    try:
        return str(Decimal(value) + Decimal("1e-30"))
    except ArithmeticError:
        return f"{value}x"


def test_nothing_is_found_where_nothing_was_altered(directory: Path) -> None:
    """Every claim about the untouched directory holds, and every file of it is covered by one."""
    made = list(claims(directory))
    assert all(claim.holds for claim in made)
    covered = {Path(claim.where.split(":")[0]).name for claim in made if claim.where}
    assert {path.name for path in files(directory)} - covered == set()


@pytest.mark.parametrize("name", ["plan.json", "certificate.json", "certificate.dsse.json"])
def test_every_altered_leaf_of_a_json_file_is_found(name: str, directory: Path, some: Some) -> None:
    """Each leaf, altered alone and written as the file was written, is found."""
    path = directory / name
    content = json.loads(path.read_text())
    missed = []
    for place, value in some(leaves(content), 5):
        inner = other = json.loads(json.dumps(content))
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = altered(value)
        path.write_text(json.dumps(other, indent=1, ensure_ascii=False, sort_keys=name != "plan.json") + "\n")
        if not found(directory):
            missed.append(place)
    assert missed == []


@pytest.mark.parametrize("name", ["steps.csv", RELEASE])
def test_every_altered_cell_of_a_table_is_found(name: str, directory: Path, some: Some) -> None:
    """Each field of each row, altered alone, is found."""
    path = directory / name
    lines = path.read_text().splitlines()
    missed = []
    places = [(row, column) for row, line in enumerate(lines) for column, _ in enumerate(line.split(","))]
    for row, column in some(places, 5):
        fields = lines[row].split(",")
        fields[column] = str(altered(fields[column]))
        path.write_text("\n".join([*lines[:row], ",".join(fields), *lines[row + 1 :]]) + "\n")
        if not found(directory):
            missed.append((row, column))
    assert missed == []


def test_every_altered_field_of_the_ledger_is_found(directory: Path, some: Some) -> None:
    """Each field of each row of each table, each missing row, trigger and table is found."""
    path = directory / LEDGER
    original = path.read_bytes()
    with sqlite3.connect(path) as book:
        rows = list(book.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        triggers, rules = [name for name, _ in rows], [sql for _, sql in rows]
        fields = [
            (table, rowid, column)
            for table in ("meta", "head", "entry")
            for (rowid,) in book.execute(f"SELECT rowid FROM {table}")
            for (_, column, *_) in book.execute(f"PRAGMA table_info({table})")
        ]
    book.close()
    change = "UPDATE {0} SET {2} = CASE typeof({2}) WHEN 'integer' THEN {2} + 100 ELSE {2} || 'x' END WHERE rowid = {1}"
    free = [f"DROP TRIGGER {name}" for name in triggers]
    changes = [[drop] for drop in free]
    changes += [[*free, change.format(*field), *rules] for field in fields if field[2] != "id"]
    changes += [[*free, f"DELETE FROM entry WHERE step = {step}", *rules] for step in (0, 5)]
    assert len(changes) > 60
    for statements in some(changes, 10):
        path.write_bytes(original)
        with sqlite3.connect(path) as book:
            for statement in statements:
                book.execute(statement)
        book.close()
        assert found(directory), statements[-1]


@pytest.mark.law
def test_flipped_bits_are_found(directory: Path, full: bool) -> None:
    """Random bits of all files are found, also in bytes of the database and of Parquet that no value uses."""
    rng = random.Random(20261121)
    contents = {path: path.read_bytes() for path in files(directory)}
    assert {LEDGER, f"{LEDGER}.seal", "ledger.pin", RELEASE, PARQUET, "plan.json"} <= {path.name for path in contents}
    missed = []
    for number in range(1000 if full else 300):
        path = list(contents)[number % len(contents)]
        original = contents[path]
        place = rng.randrange(len(original))
        path.write_bytes(original[:place] + bytes([original[place] ^ (1 << rng.randrange(8))]) + original[place + 1 :])
        if not found(directory):
            missed.append((path.name, place))
        path.write_bytes(original)
    assert missed == []


def test_a_missing_file_is_found(directory: Path) -> None:
    """Taking away any file is found, but for a registry record, which nobody needs to have."""
    for path in files(directory):
        if path.name != "registry.yaml":
            content = path.read_bytes()
            path.unlink()
            assert found(directory), path.name
            path.write_bytes(content)


@pytest.mark.parametrize("name", [RELEASE, PARQUET])
def test_an_output_that_was_cut_off_says_what_to_do(name: str, directory: Path) -> None:
    """It is the output that cannot be read, not the data; and the ledger has every value of it."""
    file = directory / name
    content = file.read_bytes()
    end = content.rindex(b",") if name == RELEASE else -4  # a number that is cut short may be one all the same
    file.write_bytes(content[:end])
    (claim,) = release_claims(load_plan(directory), directory / LEDGER, file)
    assert (claim.holds, claim.code) == (False, "E0827")
    assert claim.detail.startswith("the output cannot be read; ")
    assert "move the file away and run again" in claim.detail
