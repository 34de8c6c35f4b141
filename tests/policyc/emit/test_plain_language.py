"""The first page by the rules of plain language: short sentences, no word unexplained, the number people understand."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import policyc.emit
from policyc import compile_policy
from policyc.emit.blocks.first_page import WORDS
from policyc.emit.certificate import first_page, render_markdown
from policyc.emit.context import certificate_content

TEMPLATES = Path(str(policyc.emit.__file__)).parent / "templates"
GOLDENS = Path(__file__).parents[2] / "goldens" / "certificates"
PAGES = sorted(GOLDENS.rglob("*.md"))
GALLERY = Path(__file__).parents[3] / "policies"
MOST_WORDS = 35
TERMS = {  # what is no everyday word, as pages write it, and the entry that explains it
    r"\bnats\b": "nats",
    r"\bhorizon\b": "horizon",
    r"\bdelta\b": "delta",
    r"\bthe stated chains?\b": "the stated chain",
    r"\brho\b": "rho",
    r"\b[Bb]udgets?\b": "budgets",
    r"\b[Ll]edger\b": "ledger",
}
OF_THE_TRADE = (
    r"\b(?:estimator|post-?processing|mean squared|standard deviation|variance|clamp|sensitivity|laplace|gaussian)\w*"
)


def sentences(page: str) -> list[str]:
    """Of paragraphs, items and cells of tables."""
    pieces = [piece for line in page.splitlines() for piece in line.strip("|-# ").split(" | ")]
    return [one for piece in pieces for one in re.split(r"(?<=[.!?])[)*_]*\s+", piece)]


def test_no_template_has_words_of_the_first_page() -> None:
    """All that HTML and Markdown say there is in the words of the blocks: what is left of a template is its signs."""
    for name, start, end in (("html", '<section class="first">', "</section>"), ("md", "#", "{% if c.notices %}")):
        template = (TEMPLATES / f"certificate.{name}.jinja").read_text()
        first = template[template.index(start) :]
        first = re.sub(r"{{.*?}}|{%.*?%}|<[^>]*>", " ", first[: first.index(end)], flags=re.DOTALL)
        assert re.findall(r"\w+", first) == [], name


def test_every_word_of_the_first_page_is_used() -> None:
    """None is kept that stands nowhere."""
    used = "".join(path.read_text() for path in TEMPLATES.glob("certificate.*.jinja"))
    for block, words in WORDS.items():
        for name in words:
            assert f"page.{block}.{name}" in used


def require_short_sentences(page: str) -> None:
    """At most 35 words each; names in code that have blanks are one."""
    for sentence in sentences(page):
        words = re.sub(r"`[^`]*`", "name", sentence).split()
        assert len(words) <= MOST_WORDS, sentence


def require_explained(page: str) -> None:
    """Terms stand in the list of words, those of the trade nowhere, but as names in code."""
    plain = re.sub(r"`[^`]*`", "", page)
    explained = {term.strip("*").replace("\\_", "_") for term in re.findall(r"^- (\*[^*]+\*):", page, re.MULTILINE)}
    for pattern, term in TERMS.items():
        if re.search(pattern, plain):
            assert any(entry.startswith(term) for entry in explained), (term, explained)
    assert re.findall(OF_THE_TRADE, plain, re.IGNORECASE) == []


def require_odds(page: str) -> None:
    """Once a promise; of pure ones by the odds that the page tells, of others above the even odds it starts at."""
    told = re.findall(r"^\*\*(Who is|A guess that is right in) 50 % .* ([0-9.]+) % (?:sure )?after\.\*\*$", page, re.M)
    promised = page.split("## What is promised")[1].split("## In these words")[0]
    nats = re.findall(r"tells at most (?:([0-9.]+) nats|rho [0-9.]+)(?: at (delta) [0-9.]+)? about", promised)
    assert len(told) == len(nats) > 0
    for (who, after), (epsilon, delta) in zip(told, nats, strict=True):
        assert 50 < float(after) <= 100
        if epsilon and not delta:
            odds = math.exp(float(epsilon))
            assert float(after) >= 100 * odds / (1 + odds) - 1e-9 or who != "Who is"  # guesses: by the noise's curve
            assert float(after) <= 100 * odds / (1 + odds) * 1.01


RULES = (require_short_sentences, require_explained, require_odds)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages_of_the_gallery_keep_it(path: Path, rule: Callable[[str], None]) -> None:
    """As they stand in the golden files, one of each policy of the gallery."""
    rule(first_page(path.read_text()))


def test_each_policy_of_the_gallery_has_a_page() -> None:
    assert {path.stem for path in GALLERY.glob("*.policy")} <= {path.stem for path in PAGES}


@pytest.mark.law
@pytest.mark.parametrize("policy", sorted(GALLERY.glob("deployments/*.policy")), ids=lambda path: path.stem)
def test_pages_of_the_deployments_keep_it(policy: Path) -> None:
    """Of other promises, sums, levels and values left out, and of longer lists."""
    page = first_page(render_markdown(certificate_content(compile_policy(policy).plan, {})))
    for rule in RULES:
        rule(page)


def test_what_is_said_of_the_noise_is_said_once() -> None:
    """Of all releases of which it is so; errors are told under the name of each."""
    page = first_page((GOLDENS / "gallery" / "speeds.md").read_text())
    assert page.count("Noise is added to every value") == 1
    assert "Noise is added to every value of `speed` and `cars` first;" in page
    named = re.findall(r"^`(\w+)`\. ", page.split("## How accurate")[1], re.MULTILINE)
    assert named == ["speed", "cars", "so_far"]


def test_no_sentence_stands_in_two_modules() -> None:
    """Twelve words in a row of one block's module are in no other's: what several say stands in `sentences`."""
    found: dict[str, set[str]] = {}
    for path in (TEMPLATES.parent / "blocks").glob("*.py"):
        for text in strings(ast.parse(path.read_text())):
            words = re.findall(r"[\w'-]+", text)
            for first in range(len(words) - 11):
                found.setdefault(" ".join(words[first : first + 12]), set()).add(path.name)
    assert [text for text, modules in found.items() if len(modules) > 1] == []


def strings(tree: ast.AST) -> Iterator[str]:
    """Of a module, with a word in the place of a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "value" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
