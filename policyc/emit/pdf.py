"""A certificate as PDF: its Markdown and its pictures, set by Typst with its own fonts.

Nothing is loaded from the network or the system: no package, no font. There is no date in it, so the same
certificate gives the same bytes; who signs by hand writes the day on the line that is there for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from policyc.emit.certificate import NOTHING_BESIDE, Beside, PolicyText, render_markdown
from policyc.emit.certificate import picture as rendered_picture
from policyc.emit.numbers import sentence_case
from policyc_check.errors import KernelError

if TYPE_CHECKING:
    from markdown_it.token import Token

    from policyc.emit.blocks.wording import Json

PREAMBLE = """\
#set document(title: {title}, date: none)
#set page(paper: "a4", margin: (x: 20mm, top: 20mm, bottom: 22mm), numbering: "1 / 1")
#set text(font: ("Libertinus Serif", "DejaVu Sans Mono"), size: 10pt, lang: "en")
#set par(leading: 0.62em, spacing: 0.9em)
#set heading(numbering: none)
#show heading.where(level: 1): set text(size: 19pt, weight: "regular")
#show heading.where(level: 2): it => block(above: 1.7em, below: 0.8em, sticky: true, text(13pt, it.body))
#show heading.where(level: 3): it => block(above: 1.2em, below: 0.6em, sticky: true, text(10pt, it.body))
#show raw: set text(font: "DejaVu Sans Mono", size: 0.82em)
#set table(stroke: (x, y) => (bottom: 0.5pt + luma(80%)), inset: (x: 4pt, y: 4pt), align: left)
#set table.cell(breakable: false)
#show table: set text(size: 8pt)
#show table: set par(justify: false)
"""
STYLE = (
    "<style>text{fill:#555;font-size:12px;font-family:'Libertinus Serif'} .label{font-size:12.5px}"
    ".name,.value{fill:#111} .end{text-anchor:end} .middle{text-anchor:middle} .grid{stroke:#e5e5e5}"
    ".axis{stroke:#555} .line{fill:none;stroke-width:2} .s0{stroke:#1f5f7a} .s1{stroke:#b5651d} .s2{stroke:#6a8a3a}"
    ".dot{fill:#1f5f7a;stroke:none} .level{stroke:#a33a3a;stroke-width:1.5;stroke-dasharray:6 4}"
    ".bar{fill:#555;fill-opacity:.35} .chosen{fill:#1f5f7a;fill-opacity:1}</style>"
)
COLORS = ("#1f5f7a", "#b5651d", "#6a8a3a")
BY_HAND = """\
#block(breakable: false)[
  == For signatures by hand
  #v(2.4em)
  #grid(columns: (1fr, 1fr, 0.7fr, 1fr), column-gutter: 1.4em, row-gutter: (0.5em, 3em, 0.5em),
    ..range(2).map(_ => (
      ..range(4).map(_ => line(length: 100%, stroke: 0.5pt)),
      [Name], [Role, organisation], [Date], [Signature],
    )).flatten())
]"""
LONGEST_WORD = 32
WIDE = 40  # characters of a cell, with its marks, from which its column takes what room there is


def render_pdf(content: Json, beside: Beside = NOTHING_BESIDE) -> bytes:
    """The PDF of a certificate.

    Args:
        content: of certificate.json.
        beside: who signed, and what an audit found.

    Raises:
        KernelError: E0871, the extra is not installed.
    """
    if not pdf_installed():
        message = "a PDF needs two libraries that are not installed"
        raise KernelError("E0871", message, help="pip install 'policyc[pdf]'")
    import typst
    from markdown_it import MarkdownIt

    pages = render_markdown(content, replace(beside, policy=None))
    tokens = MarkdownIt("commonmark").enable("table").parse(pages)
    product: Any = content["product"]
    title = json.dumps(f"Privacy certificate: {product['name']}", ensure_ascii=False)
    pictures = [_figure(picture) for picture in _pictures(content)]
    body = [PREAMBLE.replace("{title}", title), *_blocks(tokens), *(["== Pictures", *pictures] if pictures else [])]
    body.append(BY_HAND)
    if beside.policy is not None:
        body.append(_appendix(beside.policy))
    result: bytes = typst.compile("\n\n".join(body).encode(), format="pdf", ignore_system_fonts=True)
    return result


def pdf_installed() -> bool:
    """Whether the libraries of the extra `pdf` are there."""
    return find_spec("typst") is not None and find_spec("markdown_it") is not None


def _appendix(policy: PolicyText) -> str:
    """The policy, line by line as it is written."""
    lines = "\n".join(map(_breakable, policy.text.split("\n")))
    return (
        f"== Appendix: the policy\n\n{_code(policy.name)} {_text('as it was compiled, SHA-256')} "
        f"{_code(policy.sha256)}:\n\n#text(8.5pt)[#raw({json.dumps(lines, ensure_ascii=False)}, block: true)]"
    )


def _breakable(words: str) -> str:
    """The same words, a long one of which may be broken anywhere."""
    return " ".join(
        "\u200b".join(word[i : i + 8] for i in range(0, len(word), 8)) if len(word) > LONGEST_WORD else word
        for word in words.split(" ")
    )


def _text(words: str) -> str:
    """Words as a Typst string; a long one may be broken anywhere."""
    return f"#{json.dumps(_breakable(words), ensure_ascii=False)};"


def _code(words: str) -> str:
    if len(words) <= LONGEST_WORD:
        return f"#raw({json.dumps(words, ensure_ascii=False)});"
    return f'#text(font: "DejaVu Sans Mono", size: 0.82em)[{_text(words)}];'


def _inline(tokens: Sequence[Token]) -> str:
    marks = {"strong_open": "#strong[", "strong_close": "];", "em_open": "#emph[", "em_close": "];", "softbreak": " "}
    parts = []
    for token in tokens:
        if token.type == "code_inline":
            parts.append(_code(token.content))
        elif token.type in marks:
            parts.append(marks[token.type])
        else:
            parts.append(_text(token.content))
    return "".join(parts)


def _blocks(tokens: Sequence[Token]) -> Iterator[str]:
    """Headings, paragraphs, lists and tables: what the template of the certificate uses."""
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.type == "heading_open":
            yield f"{'=' * int(token.tag[1])} {_inline(tokens[position + 1].children or [])}"
        elif token.type == "paragraph_open":
            bullet = "- " if position and tokens[position - 1].type == "list_item_open" else ""
            yield bullet + _inline(tokens[position + 1].children or [])
        elif token.type == "table_open":
            end = next(i for i in range(position, len(tokens)) if tokens[i].type == "table_close")
            yield _table(tokens[position:end])
            position = end
        position += 1


def _table(tokens: Sequence[Token]) -> str:
    rows: list[list[str]] = []
    right: list[bool] = []
    for index, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in {"th_open", "td_open"}:
            rows[-1].append(f"[{_inline(tokens[index + 1].children or [])}]")
            if len(rows) == 1:
                right.append("right" in str(token.attrs.get("style", "")))
    lengths = [max(len(row[column]) for row in rows) for column in range(len(right))]
    columns = ", ".join("auto" if size < WIDE or end else "1fr" for size, end in zip(lengths, right, strict=True))
    align = ", ".join("right" if number else "left" for number in right)
    head, *body = [", ".join(row) for row in rows]
    cells = "".join(f"  {row},\n" for row in body)
    return f"#table(columns: ({columns},), align: ({align},),\n  table.header({head}),\n{cells})"


def _pictures(content: Json) -> Iterator[dict[str, Any]]:
    pictures: Any = content["pictures"]
    for _, value in sorted(pictures.items()):
        for picture in value if isinstance(value, list) else [value]:
            if len(picture.get("bars", (1, 2))) > 1:
                yield picture


def standalone_svg(picture: dict[str, Any]) -> str:
    """A picture of a certificate as an SVG file of its own, in the colors of paper."""
    text = str(rendered_picture(picture))
    head, rest = text.split(">", 1)
    if "xmlns=" not in head:
        head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f"{head}>{STYLE}{rest}"


def _figure(picture: dict[str, Any]) -> str:
    legend = [(s["name"], COLORS[i % len(COLORS)]) for i, s in enumerate(picture.get("series", ()))]
    if len(legend) < 2:
        legend = []
    if picture.get("level"):
        legend.append((picture["level"]["name"], "#a33a3a"))
    keys = "".join(f' #h(1em) #text(fill: rgb("{color}"))[{_text(sentence_case(str(name)))}]' for name, color in legend)
    caption = f"#strong[{_text(picture['title'])}]{keys}"
    image = f'#image(bytes({json.dumps(standalone_svg(picture), ensure_ascii=False)}), format: "svg", width: 100%)'
    return f"#block(breakable: false)[#text(9pt)[{caption}]\n\n{image}]"
