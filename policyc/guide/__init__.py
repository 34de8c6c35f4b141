"""The guide: pages that ship with the package, every command of which the tests execute.

`reference` is no file: it is made of the offers and findings of this version.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from policyc_runtime.files import write_bytes

PAGES = {
    "tutorial": "from raw events to a signed certificate, in ten minutes",
    "promises": "which promise, which epsilon, which bound, which period",
    "events": "from stays, sessions and meters to events",
    "reading": "reading a certificate: nats, horizon and chain in plain words",
    "running": "running daily, and without end",
    "auditing": "auditing a release without the data",
    "reference": "all that a policy can name, and every finding",
}
DATA = "departures_january.csv.gz"


def read_page(name: str) -> str:
    """The Markdown of a page of `PAGES`."""
    if name == "reference":
        from policyc.guide.reference import reference

        return reference()
    return files("policyc.guide").joinpath(f"{name}.md").read_text(encoding="utf-8")


def _data() -> Traversable:
    """The events of the tutorial: beside the pages in a wheel, among the policies in a repository."""
    shipped = files("policyc.guide").joinpath(DATA)
    return shipped if shipped.is_file() else Path(__file__).parents[2] / "policies" / DATA


def write_files(directory: Path) -> list[str]:
    """Write the events that pages use; their names.

    Raises:
        FileExistsError: another file has such a name.
    """
    content, path = _data().read_bytes(), directory / DATA
    if path.exists():
        if path.read_bytes() == content:
            return [DATA]
        raise FileExistsError(f"{path}: another file has this name")
    write_bytes(path, content)
    return [DATA]
