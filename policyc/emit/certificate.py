"""The three forms of a certificate. HTML and Markdown are functions of the JSON content, and of what lies beside it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from policyc.emit.bars import bar_picture
from policyc.emit.blocks.first_page import WORDS
from policyc.emit.blocks.wording import Json
from policyc.emit.compiled_templates import CompiledTemplates
from policyc.emit.numbers import sentence_case
from policyc.emit.pictures import line_picture

if TYPE_CHECKING:
    from policyc.emit.signatures import Signature


LAST_OF_FIRST_PAGE = f"## {WORDS['signed']['heading']}"


def render_json(content: Json) -> str:
    """The text of certificate.json: sorted keys, one value a line."""
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True)
class PolicyText:
    """The policy that was compiled: the name of its file, its SHA-256, and its text.

    Characters that nobody sees, or that turn others around, stand in the text by their codes.
    """

    name: str
    sha256: str
    text: str

    @classmethod
    def of(cls, name: str, sha256: str, content: bytes) -> PolicyText:
        """The text of a file's bytes."""
        words = content.decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
        shown = (
            letter if letter in "\n\t" or letter.isprintable() else f"\\u{{{ord(letter):04x}}}" for letter in words
        )
        return cls(name, sha256, "".join(shown).strip("\n"))


@dataclass(frozen=True)
class Beside:
    """What lies beside a certificate and is shown in its pages: who signed, what an audit found, and the policy."""

    signatures: tuple[Signature, ...] = ()
    audit: Json | None = None
    policy: PolicyText | None = None


NOTHING_BESIDE = Beside()


def render_html(content: Json, beside: Beside = NOTHING_BESIDE) -> str:
    """One self-contained page: no script, no network, pictures inside."""
    return templates().get_template("certificate.html.jinja").render(c=content, beside=beside) + "\n"


def render_markdown(content: Json, beside: Beside = NOTHING_BESIDE) -> str:
    """The same words without pictures."""
    text = templates().get_template("certificate.md.jinja").render(c=content, beside=beside)
    pages = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    return pages if beside.policy is None else f"{pages}\n{_appendix(beside.policy)}"


def first_page(pages: str) -> str:
    """What a signer reads of a certificate's Markdown: from the title to who signed before."""
    last = pages.index(f"\n{LAST_OF_FIRST_PAGE}\n") + len(LAST_OF_FIRST_PAGE)
    end = pages.find("\n## ", last)
    return pages[: len(pages) if end < 0 else end].rstrip() + "\n"


def _appendix(policy: PolicyText) -> str:
    """The policy as a block of code, fenced so that nothing in it ends the block."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", policy.text)), default=0))
    return (
        f"## Appendix: the policy\n\n`{policy.name}` as it was compiled, SHA-256 `{policy.sha256}`:\n\n"
        f"{fence}policy\n{policy.text}\n{fence}\n"
    )


@cache
def templates() -> jinja2.Environment:
    """All templates of this package, and how numbers and words are shown in them."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("policyc.emit"),
        autoescape=jinja2.select_autoescape(["html.jinja"], default_for_string=True, default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=CompiledTemplates(__file__),
        optimized=False,  # it would look for constants longer than it takes to fill a template once
    )
    environment.filters |= {
        "sentence": sentence_case,
        "prose": prose,
        "breaking": breaking,
        "apart": apart,
        "cell": cell,
        "picture": picture,
        "md": markdown,
    }
    environment.globals["page"] = WORDS
    return environment


def prose(text: str) -> Markup:
    """Plain words with `code` set apart, safe in HTML."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped first


def breaking(text: str) -> Markup:
    """A long hash, which may be broken into lines anywhere (by the style sheet)."""
    return Markup('<code class="hash">{}</code>').format(text)


def apart(text: str) -> Markup:
    """Words of others, which may be written from right to left without turning what stands around them."""
    return Markup("<bdi>{}</bdi>").format(text)


def cell(value: str | None) -> str:
    """A value in a table; a dash where there is none."""
    return "–" if value is None else value


def picture(content: dict[str, Any]) -> Markup:
    """A picture as inline SVG; names in it are escaped where they are set."""
    return Markup(bar_picture(content) if "bars" in content else line_picture(content))  # noqa: S704


def markdown(text: str | None) -> str:
    """Words that Markdown does not take for its own signs; `code` stays code."""
    if text is None:
        return "–"
    pieces = str(text).replace("\n", " ").split("`")
    for index in range(0, len(pieces), 2):
        words = pieces[index].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        pieces[index] = re.sub(r"([\\*_\[\]|#])", r"\\\1", words)
    return "`".join(piece.replace("|", "\\|") if index % 2 else piece for index, piece in enumerate(pieces))
