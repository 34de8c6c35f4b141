"""The guide as a site: it builds, every link leads somewhere, nothing is loaded from the network."""

from __future__ import annotations

import errno
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from subprocess import CompletedProcess
from urllib.parse import unquote, urlsplit

import pytest
from prompt import policyc

from policyc.diagnostics.pages import all_codes
from policyc.guide import DEPLOYMENTS, PAGES
from policyc.guide import site as building
from policyc_check.errors import KernelError

LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}


class Page(HTMLParser):
    """What a page loads, where its links lead, and what they can lead to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.places = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif (tag, name) in LOADED and value:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once into an empty directory; 404.html is for servers, whose root it is relative to."""
    pytest.importorskip("zensical", reason="the extra `site` is not installed")
    directory = tmp_path_factory.mktemp("built") / "guide"
    directory.mkdir()
    done = policyc("guide", "--site", str(directory), cwd=directory.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{directory / 'index.html'}: the first of {len(PAGES) + len(all_codes()) + 11} pages\n"
    assert [path.name for path in directory.parent.iterdir()] == ["guide"]
    (directory / "404.html").unlink()
    return directory


@pytest.mark.law
def test_every_page_and_finding_is_in_the_site(site: Path) -> None:
    """And the cookbook's policies, and nothing else that is a page."""
    made = {str(path.relative_to(site)).removesuffix(".html") for path in site.rglob("*.html")} - {"fleet.certificate"}
    findings = {f"findings/{code}" for code in all_codes()}
    assert made == {"index", *PAGES, *findings, *(f"deployments/{name}" for name in DEPLOYMENTS)}
    searched = (site / "search.js").read_text(encoding="utf-8")
    assert all(f'"{name}.html' in searched for name in made)


@pytest.mark.law
def test_every_link_leads_somewhere(site: Path) -> None:
    """Among pages and to places in them, in findings, the reference and the language too."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    followed = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            assert not parts.scheme, (path, link)
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert to.is_file(), (path, link)
            if parts.fragment and to in pages:
                assert unquote(parts.fragment) in pages[to].places, (path, link)
            followed += 1
    assert followed > 1000


@pytest.mark.law
def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    """Scripts, styles, pictures and fonts of pages, and what styles load, are files of the site."""
    for path in site.rglob("*.html"):
        for loaded in Page(path.read_text(encoding="utf-8")).loaded:
            assert not urlsplit(loaded).netloc, (path, loaded)
            assert (path.parent / urlsplit(loaded).path).is_file(), (path, loaded)
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//", text), path


@pytest.mark.law
def test_a_phone_shows_whole_names_and_letters_to_be_read(site: Path) -> None:
    """Names in tables are not broken, and the picture of a run has larger letters where it is drawn small."""
    assert any(one.endswith("guide.css") for one in Page((site / "reference.html").read_text(encoding="utf-8")).loaded)
    assert "word-break: normal" in (site / "guide.css").read_text(encoding="utf-8")
    assert building.LETTERS in (site / "fleet.certificate.svg").read_text(encoding="utf-8")


@pytest.mark.law
def test_what_a_page_names_is_linked_and_blocks_are_as_they_were(site: Path) -> None:
    """A finding and a page in text; in a block of commands they stay text, and a policy keeps its file's name."""
    limits = (site / "limits.html").read_text(encoding="utf-8")
    assert '<a href="findings/E0702.html">E0702</a>' in limits
    assert "explain E0415" in re.sub(r"<[^>]+>", "", limits)
    assert "spent.policy</span>" in limits
    assert '<a href="reading.html"><code>policyc guide reading</code></a>' in (site / "tutorial.html").read_text()
    shown = {path.name for path in site.glob("*.svg")} - {"fleet.certificate.svg"}
    promises = (site / "promises.html").read_text(encoding="utf-8")
    assert shown == set(re.findall(r'<img [^>]*src="(\w+\.svg)"', promises))
    assert len(shown) == 4
    assert not re.findall(r"^```", "\n".join(p.read_text() for p in site.rglob("*.html")), re.MULTILINE)


@pytest.mark.law
def test_a_certificate_of_the_gallery_is_there_to_be_read(site: Path, gallery: Path, tmp_path: Path) -> None:
    """It is what `compile` writes, to the byte, and the page about certificates leads to it and shows its example."""
    assert policyc("compile", gallery / "fleet.policy", "--output", "fleet.plan", cwd=tmp_path).returncode == 0
    written = (tmp_path / "fleet.plan" / "certificate.html").read_bytes()
    assert (site / "fleet.certificate.html").read_bytes() == written
    reading = (site / "reading.html").read_text(encoding="utf-8")
    page = Page(reading)
    assert page.links.count("fleet.certificate.html") == 2
    assert page.loaded.count("fleet.certificate.svg") == 1
    picture = (site / "fleet.certificate.svg").read_text(encoding="utf-8")
    picture = picture.replace(building.LETTERS, "")  # the gallery's is drawn as wide as it is
    assert picture.split() == (gallery / "fleet.certificate.svg").read_text(encoding="utf-8").split()
    assert "Make one:" in reading


def test_a_directory_with_something_in_it_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does a file; other arguments beside it are wrong usage."""
    monkeypatch.setattr(building, "find_spec", lambda _: object())
    (tmp_path / "kept").write_text("kept")
    for place in (tmp_path, tmp_path / "kept"):
        with pytest.raises(FileExistsError):
            building.write_site(place)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    for more in (["tutorial"], ["--files", "."]):
        assert policyc("guide", "--site", "new", *more, cwd=tmp_path).returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_what_the_system_refuses_the_generator_is_no_mistake_of_policyc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said of the directory that was named, and nothing is left; any other failure is a mistake."""
    said = [f"RuntimeError: {os.strerror(errno.ENOSPC)} (os error {errno.ENOSPC})\n", "RuntimeError: no such page\n"]
    monkeypatch.setattr(building, "find_spec", lambda _: object())
    monkeypatch.setattr(building.subprocess, "run", lambda *_, **__: CompletedProcess([], 1, "", said.pop(0)))
    with pytest.raises(OSError) as refused:
        building.write_site(tmp_path / "guide")
    assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, str(tmp_path / "guide"))
    with pytest.raises(RuntimeError, match="no such page"):
        building.write_site(tmp_path / "guide")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(NotADirectoryError) as refused:
        building.write_site(tmp_path / "file" / "guide")
    assert refused.value.filename == str(tmp_path / "file" / "guide")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_the_extra_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setattr(building, "find_spec", lambda _: None)
    with pytest.raises(KernelError) as refused:
        building.write_site(tmp_path / "guide")
    assert refused.value.code == "E0871"
    assert "policyc[site]" in (refused.value.help or "")
    assert list(tmp_path.iterdir()) == []
