"""Documents that are written only when somebody asks: the PDF, and the record for the public registry.

They say nothing that certificate.json does not say, so one that lies in a directory is checked by rendering it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from policyc.emit.pdf import pdf_installed, render_pdf
from policyc.emit.registry import render_registry
from policyc_check.claims import Claim

if TYPE_CHECKING:
    from policyc.emit.blocks.wording import Json
    from policyc.emit.certificate import Beside

PDF, REGISTRY = "certificate.pdf", "registry.yaml"
ON_DEMAND = (PDF, REGISTRY)
ALTERED = "rendered again, it differs: it was altered, or other versions of policyc's libraries made it"


def render_on_demand(name: str, content: Json, beside: Beside) -> bytes:
    """One of the documents; KernelError E0871 when its extra is not installed."""
    return render_pdf(content, beside) if name == PDF else render_registry(content).encode()


def refreshed_on_demand(directory: Path, content: Json, beside: Beside) -> dict[str, bytes]:
    """The documents of a directory, rendered again; those that it does not have, or that cannot be, are left out."""
    there = [name for name in ON_DEMAND if (directory / name).exists()]
    return {name: render_on_demand(name, content, beside) for name in there if name != PDF or pdf_installed()}


def on_demand_claims(directory: Path, content: Json, beside: Beside) -> Iterator[Claim]:
    """One claim for each document that lies in a directory."""
    for name in ON_DEMAND:
        path = directory / name
        if not path.exists():
            continue
        claim = f"`{name}` says what the certificate says"
        if name == PDF and not pdf_installed():
            yield Claim(claim, None, "not checked: it needs the extra `pdf`: pip install 'policyc[pdf]'", str(path))
        elif path.read_bytes() == render_on_demand(name, content, beside):
            yield Claim(claim, True, "rendered again, equal byte for byte", str(path))
        else:
            yield Claim(claim, False, ALTERED, str(path), "E0803")
