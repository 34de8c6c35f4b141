"""The guide's site in a browser, from opened files: search finds, and nothing is loaded from elsewhere."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.law

SEARCHED = """<script>
addEventListener("load", async () => {
  const until = async (found) => {
    for (let tries = 0; tries < 200 && !found(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 50));
    return found();
  };
  const dialog = () => [...document.querySelectorAll("*")].find((one) => one.shadowRoot)?.shadowRoot;
  (await until(() => document.querySelector(".md-search__button"))).click();
  const input = await until(() => dialog()?.querySelector("input"));
  input.value = "WORDS";
  input.dispatchEvent(new Event("input", {bubbles: true}));
  await until(() => dialog().querySelector("ol a"));
  const told = {
    found: [...dialog().querySelectorAll("ol a")].map((link) => link.href),
    loaded: performance.getEntriesByType("resource").map((one) => one.name),
    missing: [...document.querySelectorAll("img")].filter((one) => one.naturalWidth === 0).length,
  };
  const pre = Object.assign(document.createElement("pre"), {id: "found", textContent: JSON.stringify(told)});
  document.body.append(pre);
});
</script></body>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once."""
    pytest.importorskip("zensical", reason="the extra `site` is not installed")
    from policyc.guide.site import write_site

    directory = tmp_path_factory.mktemp("searched") / "guide"
    write_site(directory)
    return directory


@pytest.mark.parametrize(
    ("page", "words", "first"),
    [("promises", "even odds", None), ("index", "horizon", "reading"), ("findings/E0310", "E0702", "findings/E0702")],
)
def test_search_finds_from_an_opened_file(
    browse: Callable[..., subprocess.CompletedProcess[str]], site: Path, page: str, words: str, first: str | None
) -> None:
    """On a page, on the first page and on a finding's, by words and by a code; without a word of complaint."""
    path = site / f"{page}.html"
    searched = path.with_name(f"searched-{path.name}")
    text = path.read_text(encoding="utf-8")
    searched.write_text(text.replace("</body>", SEARCHED.replace("WORDS", words)), encoding="utf-8")
    shown = browse("--virtual-time-budget=20000", "--dump-dom", searched.as_uri())
    match = re.search(r'<pre id="found">(.*?)</pre>', shown.stdout, re.DOTALL)
    assert match is not None, shown.stderr
    told = json.loads(html.unescape(match[1]))
    assert told["found"]
    assert all(link.startswith(site.as_uri()) for link in told["found"])
    if first is not None:
        assert f"/{first}.html" in told["found"][0]
    assert all(one.startswith("file:") for one in told["loaded"])
    assert told["missing"] == 0  # every picture was drawn
    assert "CONSOLE" not in shown.stderr
