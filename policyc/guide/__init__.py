"""The guide: pages that ship with the package, every command of which the tests execute.

`reference` is no file: it is made of the offers and findings of this version.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

PAGES = {
    "tutorial": "from raw events to a signed certificate, in ten minutes",
    "promises": "which promise, which epsilon, which bound, which period",
    "events": "from stays, sessions and meters to events",
    "reading": "reading a certificate: nats, horizon and chain in plain words",
    "running": "running daily, as it comes, and where the data lie",
    "auditing": "auditing a release without the data",
    "cookbook": "ten deployments that exist, as one page each",
    "limits": "what cannot be said, and what to write instead",
    "reference": "all that a policy can name, and every finding",
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
    return files("policyc.guide").joinpath(f"{name}.md").read_text(encoding="utf-8")


def _shipped(name: str) -> bytes:
    """A file that pages use: beside the pages in a wheel, among the policies in a repository."""
    shipped = files("policyc.guide").joinpath(name)
    return (shipped if shipped.is_file() else Path(__file__).parents[2] / "policies" / name).read_bytes()


def write_files(directory: Path, deployment: str | None = None) -> list[str]:
    """Write the events that pages use and the notebook, or a deployment: its policy, cells and events.py; their names.

    Raises:
        FileExistsError: another file has such a name; then nothing is written.
    """
    from policyc_runtime.files import write_bytes

    if deployment is None:
        contents = {name: _shipped(name) for name in (DATA, NOTEBOOK)}
    else:
        policy = _shipped(f"deployments/{deployment}.policy")
        cells = re.findall(r'file\("([^"]+)"\)', policy.decode())
        names = [f"{deployment}.policy", *cells, "events.py"]
        contents = {name: _shipped(f"deployments/{name}") for name in names}
    missing = [name for name in contents if not (directory / name).exists()]
    for name in contents.keys() - set(missing):
        if (directory / name).read_bytes() != contents[name]:
            raise FileExistsError(f"{directory / name}: another file has this name")
    for name in missing:
        write_bytes(directory / name, contents[name])
    return list(contents)
