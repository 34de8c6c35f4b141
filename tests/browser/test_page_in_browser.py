"""Certificates as a browser shows and prints them."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from policyc import compile_policy

pytestmark = pytest.mark.law

Browse = Callable[..., subprocess.CompletedProcess[str]]
POLICIES = ("fleet", "departures", "wards")

FRAME = """<!doctype html><meta charset="utf-8"><body><iframe style="border:0" width="{width}" height="30000"></iframe>
<pre id="found"></pre><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument.documentElement;
  const parts = "main p, main h1, main h2, main li, main dd, main figcaption, main .wide, main figure";
  const wide = [...frame.contentDocument.querySelectorAll(parts)]
    .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).length;
  document.getElementById("found").textContent =
    JSON.stringify({{scroll: page.scrollWidth, client: page.clientWidth, wide: wide}});
}};
frame.srcdoc = {page};
</script></body>"""


@pytest.fixture(scope="module", params=POLICIES)
def directory(request: pytest.FixtureRequest, gallery: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan directory of a policy of the gallery."""
    folder = tmp_path_factory.mktemp("browser")
    return compile_policy(gallery / f"{request.param}.policy").save(folder / f"{request.param}.plan")


@pytest.mark.parametrize("width", [390, 1200])
def test_no_console_error_and_nothing_overflows(browse: Browse, directory: Path, tmp_path: Path, width: int) -> None:
    """A phone and a desk: the page is as wide as its window, no text leaves its box, the console is silent."""
    page = json.dumps((directory / "certificate.html").read_text(encoding="utf-8")).replace("</", "<\\/")
    wrapper = tmp_path / "frame.html"
    wrapper.write_text(FRAME.format(width=width, page=page), encoding="utf-8")
    shown = browse("--dump-dom", "--window-size=1400,1000", wrapper.as_uri())
    match = re.search(r'<pre id="found">(.*?)</pre>', shown.stdout, re.DOTALL)
    assert match is not None, "the frame was never loaded"
    found = json.loads(html.unescape(match.group(1)))
    assert found["client"] == width
    assert found["scroll"] <= found["client"]
    assert found["wide"] == 0
    assert "CONSOLE" not in shown.stderr


def answers(c: Any) -> dict[str, str]:
    """What an auditor asks first, and the sentence of the certificate that answers it."""
    promise, user = c["promises"][0], c["promises"][0]["kind"] == "user_level"
    return {
        "unit": promise["sentence"],
        "neighbors": promise["neighbors"],
        "adversary": promise["sentence"],
        "time span": promise["sentence"],
        "total over all releases": promise["sentence"] if user else c["not_covered"][0]["text"],
        "assumptions": c["assumptions"][0]["statement"],
        "what if they fail": c["assumptions"][0]["if_it_fails"],
        "randomness": c["operation"]["randomness"],
        "reruns": c["operation"]["rerun"],
        "accuracy": c["accuracy"][0]["sentence"],
    }


@pytest.mark.parametrize("directory", POLICIES[:2], indirect=True)  # two groups of users take a page more
def test_ten_questions_are_answered_on_the_first_two_printed_pages(
    browse: Browse, directory: Path, tmp_path: Path
) -> None:
    """Printed on A4, the answers to what an auditor asks first stand on two pages."""
    pdf = tmp_path / "printed.pdf"
    page = (directory / "certificate.html").absolute().as_uri()
    browse("--no-pdf-header-footer", f"--print-to-pdf={pdf}", page)
    printed = PdfReader(pdf)
    assert [round(float(side) / 72 * 25.4) for side in printed.pages[0].mediabox[2:]] == [210, 297]
    text = re.sub(r"\s", "", "".join(page.extract_text() for page in printed.pages[:2]))
    content = json.loads((directory / "certificate.json").read_text(encoding="utf-8"))
    for question, sentence in answers(content).items():
        assert re.sub(r"[\s`]", "", sentence) in text, question
