"""The three forms of a certificate. HTML and Markdown are functions of the JSON content, and of what lies beside it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from policyc.emit.blocks.wording import Json
from policyc.emit.numbers import sentence_case
from policyc.emit.pictures import bar_picture, line_picture

if TYPE_CHECKING:
    from policyc.emit.signatures import Signature


def render_json(content: Json) -> str:
    """The text of certificate.json: sorted keys, one value a line."""
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True)
class Beside:
    """What lies beside a certificate and is shown in its pages: who signed, and what an audit found."""

    signatures: tuple[Signature, ...] = ()
    audit: Json | None = None


NOTHING_BESIDE = Beside()


def render_html(content: Json, beside: Beside = NOTHING_BESIDE) -> str:
    """One self-contained page: no script, no network, pictures inside."""
    return _templates().get_template("certificate.html.jinja").render(c=content, beside=beside) + "\n"


def render_markdown(content: Json, beside: Beside = NOTHING_BESIDE) -> str:
    """The same words without pictures."""
    text = _templates().get_template("certificate.md.jinja").render(c=content, beside=beside)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("policyc.emit"),
        autoescape=jinja2.select_autoescape(["html.jinja"], default_for_string=True, default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "sentence": sentence_case,
        "prose": prose,
        "breaking": breaking,
        "cell": cell,
        "picture": picture,
        "md": markdown,
    }
    return environment


def prose(text: str) -> Markup:
    """Plain words with `code` set apart, safe in HTML."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped first


def breaking(text: str) -> Markup:
    """A long hash, which may be broken into lines anywhere (by the style sheet)."""
    return Markup('<code class="hash">{}</code>').format(text)


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
