"""The guide as a static site with search: every page, every finding, the language and the cookbook's policies.

And a certificate to look at, which is made while the site is built: it is what this version writes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from policyc.diagnostics.pages import all_codes
from policyc.diagnostics.pages import read_page as read_finding
from policyc.guide import DEPLOYMENTS, NOTEBOOK, PAGES, read_page, shipped
from policyc_check.errors import KernelError

EXAMPLE = ("fleet.policy", "fleet_transitions.csv")  # a policy of the gallery, and what it reads
CERTIFICATE, RUN = "fleet.certificate.html", "fleet.certificate.svg"
PAPER = '<rect width="100%" height="100%" fill="#fff"/>'  # readers may like it dark
LETTERS = "@media (max-width: 30rem){text{font-size:17px} .label{font-size:16px}}"  # to be read at a phone's width
STYLES, WHOLE_NAMES = "guide.css", ".md-typeset td:first-child code { word-break: normal; }\n"
HERE = "Make one:\n"  # where the page about certificates has one
SHIM = "iframe-worker.js"  # the generator adds one from the network unless there is one of this name
PICTURE = re.compile(r"!\[[^]]*\]\((\w+\.svg)\)")
NAMED_BLOCK = re.compile(r"^```(\S+) (\S+)$", re.MULTILINE)
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`[^`\n]+`|\b[EW][0-9]{4}\b")
READ = re.compile(r"`policyc guide (\w+)`")
REFUSED = re.compile(r"\(os error ([0-9]+)\)")  # as the generator passes on what the system says
EXPLAINED = re.compile(r"`?(?:policyc explain )?([EW][0-9]{4})`?")


def write_site(directory: Path) -> int:
    """Build the site into a new or empty directory; how many pages it has.

    Raises:
        FileExistsError: the directory has something in it, or is a file.
        KernelError: E0871, the extra is not installed.
        OSError: the system refused, this program or the generator; the directory is as it was.
    """
    if find_spec("zensical") is None:
        raise KernelError("E0871", "the site needs a library that is not installed", help="pip install 'policyc[site]'")
    if directory.exists() and not directory.is_dir():
        raise FileExistsError(f"{directory} is no directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty")
    try:
        return _build(Path(os.path.realpath(directory)))  # where a link leads, which stays
    except OSError as error:  # whose own name is of a place that is gone
        number = errno.ENOTDIR if error.errno == errno.EEXIST else error.errno
        raise OSError(number, os.strerror(number or errno.EIO), str(directory)) from None


def _build(directory: Path) -> int:
    """Build the site beside its place, then put it there; how many pages it has, OSError when the system refuses."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent, prefix=".site-") as work:
        written = _write_sources(Path(work) / "docs")
        Path(work, "mkdocs.yml").write_text(json.dumps(_settings()), encoding="utf-8")  # JSON is YAML
        command = [sys.executable, "-P", "-m", "zensical", "build", "--strict", "--config-file", f"{work}/mkdocs.yml"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  the extra's own
        if refused := REFUSED.search(done.stderr):
            raise OSError(int(refused[1]), os.strerror(int(refused[1])), work)
        if done.returncode:
            raise RuntimeError(f"the generator fails: {done.stdout}{done.stderr}")
        if directory.exists():
            directory.rmdir()  # an empty one is no place to move to everywhere
        Path(work, "site").replace(directory)
    return written


def _settings() -> dict[str, object]:
    """Of the generator: nothing from the network, links that hold among opened files, light or dark as readers like."""
    schemes = {"light": "default", "dark": "slate"}
    return {
        "site_name": "policyc",
        "site_description": "A compiler for privacy policies of counts over time",
        "use_directory_urls": False,
        "nav": [{"policyc": "index.md"}, *({name: f"{name}.md"} for name in PAGES)],
        "plugins": ["search", "offline"],
        "extra_css": [STYLES],
        "extra": {"polyfills": [SHIM], "generator": False},
        "theme": {
            "font": False,
            "features": ["content.code.copy", "navigation.footer", "search.highlight"],
            "palette": [{"media": f"(prefers-color-scheme: {name})", "scheme": schemes[name]} for name in schemes],
        },
        "markdown_extensions": ["tables", {"toc": {"permalink": True}}, "pymdownx.highlight", "pymdownx.superfences"],
    }


def _write_sources(docs: Path) -> int:
    """The pages as the generator reads them, with links where one names another; how many there are."""
    pages = {name: _linked(read_page(name), "") for name in PAGES}
    pages["index"] = _index()
    pages["language"] = pages["language"].replace("(policyc_grammar/policy.lark)", "(reference.md#grammar)")
    pages["cookbook"] = re.sub(
        rf"^## ({'|'.join(DEPLOYMENTS)})$", r"## \1\n\n[The policy](deployments/\1.md)", pages["cookbook"], flags=re.M
    )
    assert pages["reading"].count(HERE) == 1, "the page has a place for the example"
    pages["reading"] = pages["reading"].replace(HERE, _example())
    pages |= {f"findings/{code}": _linked(read_finding(code), "../") for code in all_codes()}
    pages |= {f"deployments/{name}": _deployment(name) for name in DEPLOYMENTS}
    for name, text in pages.items():
        place = docs / f"{name}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    pictures = {found for text in pages.values() for found in PICTURE.findall(text)}
    for name in {*pictures, SHIM}:
        (docs / name).write_bytes(files("policyc.guide").joinpath(name).read_bytes())
    (docs / STYLES).write_text(WHOLE_NAMES, encoding="utf-8")
    (docs / NOTEBOOK).write_bytes(shipped(NOTEBOOK))
    for name, content in _certificate().items():
        (docs / name).write_text(content, encoding="utf-8")
    return len(pages)


def _index() -> str:
    """The first page: what there is to read."""
    rows = "".join(f"- [{name}]({name}.md): {about}\n" for name, about in PAGES.items())
    return (
        "# policyc\n\nA compiler for the promises that one makes about counts over time. A policy says what a stream "
        "looks like, what is published and what is promised; policyc plans the noise, publishes, and writes "
        f"a certificate that others can check.\n\n{rows}\nThe same pages are read in a terminal: `policyc guide`.\n"
    )


def _example() -> str:
    """Of the page about certificates: one to look at, and what it promises is like in a picture."""
    return (
        f"Here is [one]({CERTIFICATE}), as `policyc compile` wrote it of a policy of the gallery: aircraft by the New "
        "York airport that they left from last. In it is an example run on simulated values, true in blue, noisy in "
        "brown and published in green:\n\n"
        f"[![An example run: true, noisy and published counts]({RUN})]({CERTIFICATE})\n\n{HERE}"
    )


def _certificate() -> dict[str, str]:
    """The certificate of the example and the picture of its run, by the names of their files."""
    from policyc.emit.pdf import standalone_svg
    from policyc.pipeline import compile_policy

    with TemporaryDirectory() as folder:
        for name in EXAMPLE:
            Path(folder, name).write_bytes(shipped(name))
        written = compile_policy(Path(folder, EXAMPLE[0])).save(Path(folder, "example.plan"))
        page, record = ((written / f"certificate.{kind}").read_text(encoding="utf-8") for kind in ("html", "json"))
    picture = standalone_svg(json.loads(record)["pictures"]["example"])
    return {CERTIFICATE: page, RUN: picture.replace("</style>", f"{LETTERS}</style>{PAPER}")}


def _deployment(name: str) -> str:
    """A policy of the cookbook, whole."""
    text = shipped(f"deployments/{name}.policy").decode()
    return f"# {name}\n\nA page of the [cookbook](../cookbook.md#{name}).\n\n```text\n{text}```\n"


def _linked(text: str, up: str) -> str:
    """The text with links from names of pages and findings, outside of blocks and headings."""
    parts = FENCED.split(text)
    for at in range(0, len(parts), 2):
        lines = parts[at].splitlines(keepends=True)
        parts[at] = "".join(line if line.startswith("#") else NAMED.sub(partial(_link, up), line) for line in lines)
    return NAMED_BLOCK.sub(r'```\1 title="\2"', "".join(parts))


def _link(up: str, found: re.Match[str]) -> str:
    word = found[0]
    if (page := READ.fullmatch(word)) and page[1] in PAGES:
        return f"[{word}]({up}{page[1]}.md)"
    if (code := EXPLAINED.fullmatch(word)) and code[1] in all_codes():
        return f"[{word}]({up}findings/{code[1]}.md)"
    return word
