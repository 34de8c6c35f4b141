"""Opening policy files: anything that is no text of a page is one finding, never an exception of another kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc.diagnostics import PolicyError
from policyc.diagnostics.text import render_text
from policyc.syntax import parse_policy, read_source


def refused(path: Path | str) -> str:
    with pytest.raises(PolicyError) as caught:
        read_source(path)
    (diagnostic,) = caught.value.diagnostics
    assert render_text([diagnostic], caught.value.source)
    return f"{diagnostic.code}: {diagnostic.message}"


def test_bom_and_line_ends(tmp_path: Path) -> None:
    """A byte order mark is dropped, and CRLF and CR are newlines."""
    file = tmp_path / "a.policy"
    file.write_bytes(b'\xef\xbb\xbfpolicy p "x"\r\n# c\rdeliver offline\r\n')
    source = read_source(file)
    assert source.text == 'policy p "x"\n# c\ndeliver offline\n'
    assert source.name == "a.policy"
    assert len(parse_policy(source).statements) == 2


def test_relative_names_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages name the file as it was given, but never an absolute path."""
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/a.policy").write_text('policy p "x"')
    assert read_source("sub/a.policy").name == "sub/a.policy"
    assert read_source(tmp_path / "sub" / "a.policy").name == "a.policy"


@pytest.mark.parametrize("name", ["events.csv", "events.CSV", "events.csv.gz", "events.tsv", "events.parquet"])
def test_data_is_no_policy_and_never_shown(tmp_path: Path, name: str) -> None:
    """A file of data named as a policy is refused by its name: findings would show its rows."""
    (tmp_path / name).write_text("user,at\nannie,2024-03-01T00:32:00\n")
    assert refused(tmp_path / name) == "E0102: this is data, not a policy"


def test_missing_and_directory(tmp_path: Path) -> None:
    """A missing file, a directory and an impossible path are said in plain words."""
    assert refused(tmp_path / "none.policy") == "E0101: there is no such file"
    assert refused(tmp_path) == "E0101: this is a directory"
    assert refused("a\0b") == "E0101: the file cannot be read: the path is not valid"
    assert refused("x" * 5000).startswith("E0101: ")
    (tmp_path / "file").write_text("x")
    assert refused(tmp_path / "file" / "a.policy").startswith("E0101: the file cannot be read: not a directory")


def test_no_text(tmp_path: Path) -> None:
    """Binary files, other encodings and large files are told apart; the first wrong byte is named."""
    cases = {
        b"policy\n\x00p": "E0102: this is not text: byte 1 of line 2 is NUL, the character U+0000",
        'policy p "x"\n# größe'.encode("latin-1"): "E0103: this is not UTF-8: byte 5 of line 2 is 0xf6",
        'policy p "x"'.encode("utf-16"): "E0103: this is not UTF-8: byte 1 of line 1 is 0xff",
        b"#" * (1 << 20) + b"\n": "E0104: the file is larger than 1 MiB",
        b"\x00" * (10 << 20): "E0104: the file is larger than 1 MiB",
    }
    for i, (data, expected) in enumerate(cases.items()):
        file = tmp_path / f"{i}.policy"
        file.write_bytes(data)
        assert refused(file) == expected


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "\ufeff", "   \t"])
def test_empty(text: str, tmp_path: Path) -> None:
    """A policy without a statement is refused by the parser."""
    file = tmp_path / "a.policy"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        parse_policy(read_source(file))
    assert [d.code for d in caught.value.diagnostics] == ["E0105"]


@pytest.mark.parametrize(("text", "language"), [('{"policy": "x"}', "JSON"), ("\n [1]", "JSON"), ("<html>", "XML")])
def test_files_of_other_languages(text: str, language: str, tmp_path: Path) -> None:
    """A plan or a page in place of a policy is one finding, with the language it seems to be."""
    file = tmp_path / "a.policy"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        parse_policy(read_source(file))
    (found,) = caught.value.diagnostics
    assert found.code == "E0108"
    assert language in str(found.because)
    assert caught.value.__notes__ == [f"  = because: {found.because}", f"  = help: {found.help}"]  # as a traceback says
    assert found.span.start == text.index(text.strip()[0])
