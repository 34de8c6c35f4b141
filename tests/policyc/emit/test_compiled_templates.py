"""Compiled templates are kept, and used only where they are those of the text and of the module that compiles it."""

from __future__ import annotations

import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from policyc.emit.compiled_templates import CompiledTemplates


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module beside which something may be kept."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    file = tmp_path / "module.py"
    file.write_text("options = 1")
    Path(cache_from_source(str(file))).parent.mkdir()
    return file


def filled(module: Path, text: str, *, compiles: bool) -> str:
    """The text that a template makes of 7, by an environment that may compile it or not."""
    environment = Environment(loader=DictLoader({"page": text}), bytecode_cache=CompiledTemplates(str(module)))
    if not compiles:
        environment._generate = None  # type: ignore[method-assign,assignment]
    return environment.get_template("page").render(value=7)


def kept(module: Path) -> list[Path]:
    return sorted(Path(cache_from_source(str(module))).parent.iterdir())


def test_a_template_is_compiled_once(module: Path) -> None:
    assert filled(module, "seen {{ value }}", compiles=True) == "seen 7"
    assert filled(module, "seen {{ value }}", compiles=False) == "seen 7"
    assert len(kept(module)) == 1


def test_another_text_or_other_options_are_compiled_again(module: Path) -> None:
    assert filled(module, "seen {{ value }}", compiles=True) == "seen 7"
    with pytest.raises(TypeError):
        filled(module, "heard {{ value }}", compiles=False)
    assert filled(module, "heard {{ value }}", compiles=True) == "heard 7"
    module.write_text("options = 2")
    with pytest.raises(TypeError):
        filled(module, "heard {{ value }}", compiles=False)


@pytest.mark.parametrize("size", [0, 10, 32, 50])
def test_what_is_cut_off_is_compiled_again(module: Path, size: int) -> None:
    filled(module, "seen {{ value }}", compiles=True)
    (file,) = kept(module)
    file.write_bytes(file.read_bytes()[:size])
    assert filled(module, "seen {{ value }}", compiles=True) == "seen 7"
    assert filled(module, "seen {{ value }}", compiles=False) == "seen 7"


def test_nothing_is_kept_where_python_keeps_nothing(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert filled(module, "seen {{ value }}", compiles=True) == "seen 7"
    assert not kept(module)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    Path(cache_from_source(str(module))).parent.rmdir()
    assert filled(module, "seen {{ value }}", compiles=True) == "seen 7"
