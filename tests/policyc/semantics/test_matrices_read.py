from __future__ import annotations

import hashlib
from decimal import Decimal

import numpy as np
import pytest

POLICY = """\
policy p "one line"
stream s {{ user u time t cell room in {{"a", "b"}} otherwise "away" step 5min horizon 288 steps population 500 }}
release r = count(s) by room
target alpha_dpt(alpha = 1.0)
correlation markov(forward = {matrix}, initial = stationary, evidence = "e")
"""
ROWS = [["0.8", "0.1", "0.1"], ["0.2", "0.7", "0.1"], ["0.1", "0.1", "0.8"]]
GOOD = "\n".join(",".join(row) for row in ROWS) + "\n"


@pytest.fixture
def read(findings, tmp_path):
    """`read(content)`: the forward matrix and the findings of a policy whose matrix file has that content."""

    def read(content, name="m.csv"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        policy, found = findings(POLICY.format(matrix=f'file("{name}")'))
        return (policy.chains[0].forward if policy else None), found

    return read


def codes(found):
    return [finding.code for finding in found]


def test_a_file_without_header_is_read_in_state_order(read):
    """Entries keep every digit of their text."""
    matrix, found = read(GOOD.replace("0.7,0.1", "0.70000000000000000001,0.09999999999999999999"))
    assert not found
    assert matrix is not None
    assert matrix[1][1] == Decimal("0.70000000000000000001")


def test_a_header_in_another_order_moves_rows_and_columns(read):
    """The header names rows and columns; the matrix comes out in the policy's order."""
    straight, _ = read("a,b,away\n" + GOOD)
    order = [2, 0, 1]
    moved = "away,a,b\n" + "\n".join(",".join(ROWS[i][j] for j in order) for i in order)
    matrix, found = read(moved)
    assert not found
    assert matrix == straight


def test_a_header_of_numbers_is_a_header(findings, tmp_path):
    """Cells may be called 1 and 2: one more row than columns is a header."""
    (tmp_path / "m.csv").write_text("2,1\n0.9,0.1\n0.3,0.7\n")
    text = POLICY.format(matrix='file("m.csv")').replace('{"a", "b"} otherwise "away"', '{"1"} otherwise "2"')
    policy, found = findings(text)
    assert not found
    assert policy.chains[0].forward[0] == (Decimal("0.7"), Decimal("0.3"))


def test_a_header_with_other_names_is_refused(read):
    """A matrix about other places is not used for these."""
    _, found = read("a,c,away\n" + GOOD)
    assert codes(found) == ["E0404"]
    assert "`c`" in found[0].message


def test_a_row_that_is_off_by_a_thousandth_is_named_and_kept(read):
    """The row number and its sum are shown, and nothing is renormalised."""
    matrix, found = read(GOOD.replace("0.7", "0.701"))
    assert codes(found) == ["E0401"]
    assert "row 2" in found[0].message
    assert "1.001" in found[0].message
    assert matrix is not None
    assert sum(matrix[1]) == Decimal("1.001")


def test_a_row_within_a_billionth_is_fine(read):
    """Rows may miss 1 by the rounding of nine digits, not by more."""
    assert not read(GOOD.replace("0.7", "0.7000000009"))[1]
    assert codes(read(GOOD.replace("0.7", "0.7000000011"))[1]) == ["E0401"]


@pytest.mark.parametrize("entry", ["nan", "inf", "-inf", "seven", "", "0,7", "1e99999999999999999999"])
def test_an_entry_that_is_no_number_is_refused(read, entry):
    """Nothing that is not a finite number gets past, whatever it does to the shape."""
    _, found = read(GOOD.replace("0.7", entry))
    assert set(codes(found)) <= {"E0401", "E0402", "E0403"}
    assert found


def test_a_negative_entry_is_refused(read):
    """A row that sums to 1 with a negative entry is no distribution."""
    assert codes(read(GOOD.replace("0.2,0.7,0.1", "0.4,0.7,-0.1"))[1]) == ["E0402"]


def test_every_wrong_row_is_named_up_to_five(read):
    """Several wrong rows are reported at once."""
    _, found = read(GOOD.replace("0.8", "0.9").replace("0.7", "nan"))
    assert codes(found) == ["E0401", "E0401", "E0402"]


@pytest.mark.parametrize("content", [GOOD + "0.1,0.1,0.8\n", "0.8,0.2\n0.1,0.8,0.1\n0.1,0.1,0.8\n", "0.5,0.5\n"])
def test_a_table_that_is_not_square_is_refused(read, content):
    """Oblong and ragged tables have no meaning as a chain."""
    assert set(codes(read(content)[1])) & {"E0403", "E0404"}


def test_a_matrix_of_another_size_is_refused(read):
    """The stream has three states, and a matrix of two says nothing about the third."""
    assert codes(read("0.5,0.5\n0.5,0.5\n")[1]) == ["E0404"]


@pytest.mark.parametrize(
    ("content", "word"),
    [("", "empty"), (b"\xff\xfe0\x00", "UTF-8"), ("\n \n", "empty"), (b"\x93NUMPY\x01\x00broken", "NumPy")],
)
def test_a_file_that_is_no_table_is_refused(read, content, word):
    """The message says what the file is instead."""
    _, found = read(content)
    assert codes(found) == ["E0212"]
    assert word in found[0].message


def test_a_byte_order_mark_and_windows_line_ends_are_read_over(read):
    """What a spreadsheet writes is a matrix too."""
    assert not read("\ufeff" + GOOD.replace("\n", "\r\n"))[1]


@pytest.mark.parametrize("name", ["absent.csv", "folder"])
def test_a_file_that_is_not_there_is_refused(findings, tmp_path, name):
    """Missing files and folders are named, with the nearest file that exists."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "absents.csv").write_text(GOOD)
    _, found = findings(POLICY.format(matrix=f'file("{name}")'))
    assert codes(found) == ["E0212"]
    assert name != "absent.csv" or "absents.csv" in found[0].help


@pytest.mark.parametrize("name", ["../m.csv", "/etc/m.csv", "a/../../m.csv", "C:m.csv", "a\\\\m.csv"])
def test_a_file_outside_the_folder_is_refused(findings, name):
    """A policy reads nothing beyond its own folder."""
    assert codes(findings(POLICY.format(matrix=f'file("{name}")'))[1]) == ["E0213"]


def test_a_link_out_of_the_folder_is_refused(findings, tmp_path):
    """A link counts as the place it leads to."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "m.csv").write_text(GOOD)
    (tmp_path / "link.csv").symlink_to("/dev/null")
    assert codes(findings(POLICY.format(matrix='file("link.csv")'))[1]) == ["E0212"]


def test_a_file_that_is_too_large_is_refused(findings, tmp_path):
    """More than 64 MiB is not read at all."""
    with (tmp_path / "m.csv").open("wb") as file:
        file.truncate(64 * 2**20 + 1)
    _, found = findings(POLICY.format(matrix='file("m.csv")'))
    assert codes(found) == ["E0212"]
    assert "64 MiB" in found[0].message


def test_a_numpy_file_is_read(read, tmp_path):
    """NPY files hold the same matrix, digit by digit of the shortest text."""
    np.save(tmp_path / "m.npy", np.array(ROWS, dtype=float))
    matrix, found = read((tmp_path / "m.npy").read_bytes(), "m.npy")
    assert not found
    assert matrix == tuple(tuple(Decimal(x) for x in row) for row in ROWS)


@pytest.mark.parametrize("array", [np.zeros(3), np.array([["x"]]), np.array([[None]], dtype=object), np.zeros((0, 0))])
def test_a_numpy_file_of_something_else_is_refused(read, tmp_path, array):
    """Vectors, texts and pickled objects are no matrices; nothing in the file is run."""
    np.save(tmp_path / "m.npy", array, allow_pickle=True)
    assert set(codes(read((tmp_path / "m.npy").read_bytes(), "m.npy")[1])) <= {"E0212", "E0403"}


def test_the_hash_of_every_file_is_recorded(findings, tmp_path):
    """The plan can say which content was read."""
    (tmp_path / "m.csv").write_text(GOOD)
    (tmp_path / "cells.csv").write_text("room\na\nb\n")
    text = POLICY.format(matrix='file("m.csv")').replace('{"a", "b"}', 'file("cells.csv")')
    policy, found = findings(text)
    assert not found
    assert policy.stream.cell.states == ("a", "b", "away")
    assert [(f.name, f.sha256) for f in policy.files] == [
        (name, hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()) for name in ("cells.csv", "m.csv")
    ]


def test_a_broken_stream_does_not_hide_a_bad_matrix(findings):
    """What can be said about one statement does not wait for another."""
    text = POLICY.format(matrix="[[0.5, 0.4], [0.5, 0.5]]").replace("5min", "5m")
    assert codes(findings(text)[1]) == ["E0210", "E0401"]
