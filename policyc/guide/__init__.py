"""The guide: pages that ship with the package, every command of which the tests execute.

`reference` is no file: it is made of the grammar, the offers and the findings of this version. `python` is the
notebook, and `language` the reference that the language has beside its grammar.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

PAGES = {
    "tutorial": "from raw events to a signed certificate, in ten minutes",
    "promises": "which promise, which epsilon, which bound, which period, with pictures of the error",
    "events": "from stays, sessions and meters to events",
    "reading": "reading a certificate: nats, horizon and chain in plain words",
    "running": "running daily, as it comes, and where the data lie",
    "auditing": "auditing a release without the data",
    "cookbook": "ten deployments that exist, as one page each",
    "limits": "what cannot be said, and what to write instead",
    "python": "the Python interface, as a notebook",
    "language": "the policy language, statement by statement",
    "reference": "all that a policy can name, the grammar, and every finding",
}
DATA = "departures_january.csv.gz"
NOTEBOOK = "python.ipynb"
DEPLOYMENTS = (
    "mobility",
    "symptoms",
    "vaccination",
    "pageviews",
    "pageviews_2017",
    "editors",
    "flows",
    "broadband",
    "load_shape",
    "census",
)


def read_page(name: str) -> str:
    """The Markdown of a page of `PAGES`."""
    if name == "reference":
        from policyc.guide.reference import reference

        return reference()
    if name == "python":
        cells = json.loads(shipped(NOTEBOOK))["cells"]
        return "\n\n".join(map(_cell, cells)) + "\n"
    if name == "language":
        return shipped("language.md").decode()
    return files("policyc.guide").joinpath(f"{name}.md").read_text(encoding="utf-8")


def _cell(cell: dict[str, Any]) -> str:
    """A cell of the notebook as Markdown."""
    text = "".join(cell["source"])
    return text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"


def shipped(name: str) -> bytes:
    """A file that pages use: beside the pages in a wheel, elsewhere in a repository."""
    beside = files("policyc.guide").joinpath(name)
    if beside.is_file():
        return beside.read_bytes()
    root = Path(__file__).parents[2]
    return (root / "grammar" / "README.md" if name == "language.md" else root / "policies" / name).read_bytes()


def write_files(directory: Path, deployment: str | None = None) -> list[str]:
    """Write the events that pages use and the notebook, or a deployment: its policy, cells and events.py; their names.

    Raises:
        FileExistsError: another file has such a name; then nothing is written.
    """
    from policyc_runtime.files import write_bytes

    if deployment is None:
        contents = {name: shipped(name) for name in (DATA, NOTEBOOK)}
    else:
        policy = shipped(f"deployments/{deployment}.policy")
        cells = re.findall(r'file\("([^"]+)"\)', policy.decode())
        names = [f"{deployment}.policy", *cells, "events.py"]
        contents = {name: shipped(f"deployments/{name}") for name in names}
    missing = [name for name in contents if not (directory / name).exists()]
    for name in contents.keys() - set(missing):
        if (directory / name).read_bytes() != contents[name]:
            raise FileExistsError(f"{directory / name}: another file has this name")
    for name in missing:
        write_bytes(directory / name, contents[name])
    return list(contents)
