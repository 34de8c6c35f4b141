"""Files that somebody wrote by hand: read in one way, held against bounds, refused at once with one message."""

from __future__ import annotations

import json
import os
import time
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import ValidationError

from policyc.syntax import scan
from policyc_check import records
from policyc_check.errors import PlanFormatError
from policyc_check.files import read_ordinary
from policyc_check.records import Record
from policyc_runtime.files import read_inside
from policyc_runtime.json_text import MOST_VALUES, read_json
from policyc_runtime.plan import FileRecord, load_plan


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "given twice"),
        ('[{"x": {"a": 1, "a": 2}}]', "given twice"),
        ("[NaN]", "NaN"),
        ("[-Infinity]", "Infinity"),
        ("[" * 100_000, "nest too deep"),
        ('{"a":' * 100_000, "nest too deep"),
        (f"[{'9' * 5000}]", "digits"),
        ("[" + "1," * MOST_VALUES + "1]", "values"),
        ("[1", "not JSON"),
        ("", "not JSON"),
        (b"\xff", "UTF-8"),
    ],
    ids=range(11),
)
def test_json_that_reads_in_two_ways_or_has_no_end_is_refused(text: str | bytes, reason: str) -> None:
    """Keys given twice, numbers that are none, and sizes that would take memory are refused within two seconds."""
    began = time.monotonic()
    with pytest.raises(ValueError, match=reason):
        read_json(text)
    assert time.monotonic() - began < 2


def test_other_json_is_what_it_was() -> None:
    """What `json` writes is read back."""
    content = {"a": [1, 2.5, None, True, "ü"], "b": {"a": {}, "c": []}}
    assert read_json(json.dumps(content)) == content


class Example(Record):
    decimal: Decimal = Decimal(0)
    rows: tuple[tuple[Decimal, ...], ...] = ()
    whole: int = 0
    real: float = 0.0
    text: str = ""


@pytest.mark.parametrize(
    "fields",
    [
        {"decimal": "1E+99999999"},
        {"decimal": "1E-99999999"},
        {"decimal": "NaN"},
        {"decimal": "-Infinity"},
        {"decimal": "1E+31"},
        {"decimal": "0E+99999999"},
        {"decimal": "0." + "1" * 5000},
        {"rows": [["0.5", "1E+400"]]},
        {"whole": 2**63},
        {"whole": -(10**30)},
        {"real": 1e300},
        {"text": "99 claims hold\n"},
        {"text": "\x1b[2J"},
        {"text": "\u202eecila"},
        {"text": "x" * 2_000_000},
    ],
    ids=range(15),
)
def test_numbers_and_texts_of_records_have_bounds(fields: dict[str, object]) -> None:
    """What cannot be computed with, or would write more than itself on a screen, is in no record."""
    with pytest.raises(ValidationError):
        Example.model_validate(fields)


def test_what_policies_can_say_has_room() -> None:
    """The largest and the smallest numbers of a policy, and an exact decimal of any float, are within the bounds."""
    for number in ("1e15", "1e-400", "-1e15", "0", str(Decimal.from_float(5e-300))):
        Example.model_validate({"decimal": number, "rows": [[number]]})
    Example.model_validate({"whole": 10**12, "real": -1e60, "text": "Ärzte, 医者: 5 °C"})


def test_the_kernel_and_the_compiler_refuse_the_same_characters() -> None:
    """What no policy may have, no plan may have; line ends, which a policy has between its words, are in no text."""
    characters = [chr(code) for code in range(0x110000)]
    kernel = {c for c in characters if records.INVISIBLE.search(c)}
    compiler = {c for c in characters if scan.INVISIBLE.search(c)}
    assert kernel - compiler == {"\t", "\n", "\r"}
    assert compiler <= kernel


@pytest.mark.parametrize(
    "name", ["../x.csv", "/etc/passwd", "a/../../x.csv", "C:/x.csv", "..\\x.csv", "", ".", "x\n.csv", "x\x00"]
)
def test_files_of_a_policy_lie_in_its_folder(name: str) -> None:
    """A plan names no file elsewhere."""
    with pytest.raises(ValidationError):
        FileRecord(name=name, sha256="0" * 64)


def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path) -> None:
    """A pipe that nobody writes, a device without end, a folder, a link out or to itself, and a large file."""
    inside, outside = tmp_path / "plan", tmp_path / "other"
    inside.mkdir()
    outside.write_bytes(b"x" * 100)
    os.mkfifo(inside / "pipe")
    (inside / "folder").mkdir()
    (inside / "zero").symlink_to("/dev/zero")
    (inside / "out").symlink_to(outside)
    (inside / "loop").symlink_to(inside / "loop")
    (inside / "good").write_bytes(b"good")
    (inside / "near").symlink_to(inside / "good")
    for name in ("pipe", "folder", "zero", "out", "loop", "missing"):
        with pytest.raises(OSError, match="."):
            read_inside(inside / name, inside)
    with pytest.raises(OSError, match="larger"):
        read_ordinary(outside, most=99)
    assert read_ordinary(outside) == b"x" * 100
    assert read_inside(inside / "near", inside) == b"good"


def test_a_plan_that_is_no_ordinary_file_is_refused(tmp_path: Path) -> None:
    """A pipe, a device and a folder in the place of plan.json are refused at once."""
    place = tmp_path / "plan.json"
    for make in (lambda: os.mkfifo(place), lambda: place.symlink_to("/dev/zero"), place.mkdir):
        make()
        with pytest.raises(PlanFormatError) as refused:
            load_plan(tmp_path)
        assert refused.value.code == "E0802"
        place.rmdir() if place.is_dir() else place.unlink()
