"""The pages behind the codes: why a finding is one, a policy that has it, the corrected policy."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_PAGES = files("policyc.diagnostics").joinpath("pages")


@cache
def all_codes() -> tuple[str, ...]:
    """Every code that has a page, in order: errors, then warnings."""
    return tuple(sorted(page.name.removesuffix(".md") for page in _PAGES.iterdir() if page.name.endswith(".md")))


def read_page(code: str) -> str:
    """The page of a code, in Markdown.

    Raises:
        LookupError: no such code.
    """
    if code not in all_codes():
        raise LookupError(code)
    return _PAGES.joinpath(f"{code}.md").read_text(encoding="utf-8")


def page_title(code: str) -> str:
    """The first line of a page, without the code.

    Raises:
        LookupError: no such code.
    """
    return read_page(code).split("\n", 1)[0].removeprefix(f"# {code}:").strip()
