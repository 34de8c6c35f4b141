"""The certificates of the gallery: golden files, and one of them shown by the README."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policyc.emit.certificate import render_json, render_markdown
from policyc.emit.context import certificate_content
from policyc.emit.pdf import standalone_svg
from policyc.pipeline import Compilation

NAMES = ("bikeshare", "checkins", "departures", "fleet", "speeds", "traffic")  # wards has a test of its own
LONG = re.compile(r"\d\.\d{9,}|[0-9a-f]{64}")  # another machine's last digits, and hashes of them
CODE = "its SHA-256"  # another one after every change of any file
PAPER = '<rect width="100%" height="100%" fill="#fff"/>'


def thinned(value: Any) -> Any:
    """The content without the points of its pictures, which are in `steps.csv` or in the pictures' own tests."""
    if isinstance(value, dict):
        return {key: f"{len(item)} points" if key == "points" else thinned(item) for key, item in value.items()}
    return [thinned(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module", params=NAMES)
def certified(request: pytest.FixtureRequest, compiled_gallery: Callable[[str], Compilation]) -> tuple[str, Any]:
    """A policy's name, and the content of its certificate."""
    plan = compiled_gallery(request.param).plan
    return request.param, certificate_content(plan, {})


@pytest.mark.sampled(2)
def test_certificates_of_the_gallery_say_what_they_said(
    certified: tuple[str, Any], golden: Callable[[str, str], None], gallery: Path, request: pytest.FixtureRequest
) -> None:
    """Every word and every number of the gallery's certificates is as it was; long decimals and hashes are masked."""
    name, content = certified
    golden(f"certificates/gallery/{name}.md", LONG.sub("…", render_markdown(content)))
    golden(f"certificates/gallery/{name}.json", LONG.sub("…", render_json(thinned(content))))
    assert "candidates" in content["pictures"]
    assert {"posterior", "budgets" if content["correlation"]["chains"] else "noise"} <= content["pictures"].keys()
    if name == "fleet":
        content["integrity"]["code_sha256"] = CODE
        _compare(gallery / "fleet.certificate.md", render_markdown(content), request)
        picture = standalone_svg(content["pictures"]["example"]).replace("</style>", f"</style>{PAPER}") + "\n"
        _compare(gallery / "fleet.certificate.svg", picture, request)


def _compare(path: Path, text: str, request: pytest.FixtureRequest) -> None:
    """A certificate that readers see in the gallery is the one that compiling gives."""
    if request.config.getoption("--bless"):
        path.write_text(text, encoding="utf-8")
    assert LONG.sub("…", path.read_text(encoding="utf-8")) == LONG.sub("…", text)
