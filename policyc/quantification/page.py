"""The report as files: a page of its own, its numbers for programs, a table of steps, and a picture."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from policyc.emit.certificate import templates
from policyc.emit.pdf import standalone_svg
from policyc.quantification.files import ForeignFileError
from policyc.quantification.meaning import meaning
from policyc.quantification.pictures import pictures
from policyc.quantification.record import record
from policyc.quantification.report import HEADS, Report
from policyc.quantification.text import tolerance
from policyc_runtime.files import followed, write_bytes, write_together

PAGE, NUMBERS, STEPS = "leakage.html", "leakage.json", "steps.csv"
PAPER = '<rect width="100%" height="100%" fill="#fff"/>'


def render_page(report: Report) -> str:
    """One self-contained page: no script, no network, pictures inside."""
    template = templates().get_template("leakage.html.jinja")
    return template.render(c=_content(report)) + "\n"


def _content(report: Report) -> dict[str, Any]:
    heads = [HEADS[a] for a in report.knows]
    personal = report.found.knowledge.personal
    chains = report.persons()
    return {
        "title": report.title,
        "budgets": report.spent,
        "chains": report.chains,
        "meaning": meaning(report),
        "tolerance": None if report.alpha is None else tolerance(report),
        "tables": [
            {"title": "What is told at most, by what the adversary knows (nats)", "first": "unit of privacy",
             "heads": heads, "rows": report.tolerances()},
            {"title": "About one step (nats)", "first": "", "heads": heads, "rows": report.growth()},
            *([{"title": f"About one step, of {len(chains)} of {len(report.found.chains):,} (nats)",
                "first": "user" if personal else "group", "heads": heads, "rows": chains}] if chains else []),
            *([{"title": "At most this about one step (nats)", "first": "of", "heads": heads, "rows": parts}]
              if (parts := report.quantiles()) else []),
            {"title": f"Steps (nats); all of them are in {STEPS}", "first": "step",
             "heads": ["budget", *(HEADS[a] for a in report.knowing)], "rows": report.steps()},
        ],
        "pictures": pictures(report),
    }  # fmt: skip


def render_table(report: Report) -> str:
    """One row a step, as CSV: its budget, and the leakage for each adversary who is shown."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = {"backward": "backward_leakage", "forward": "forward_leakage", "both": "total_leakage"}
    writer.writerow(["step", "epsilon", *(names[a] for a in report.knowing)])
    first = report.found.spent.first
    columns = [report.columns[a].tolist() for a in ("none", *report.knowing)]
    writer.writerows((first + t, *row) for t, row in enumerate(zip(*columns, strict=True)))
    return buffer.getvalue()


def write_report(report: Report, directory: Path) -> list[str]:
    """Write page, numbers and table of steps, all or none; their names."""
    contents = {
        PAGE: render_page(report),
        NUMBERS: json.dumps(record(report), ensure_ascii=False, indent=1) + "\n",
        STEPS: render_table(report),
    }
    directory.mkdir(parents=True, exist_ok=True)
    write_together({directory / name: text.encode() for name, text in contents.items()})
    return list(contents)


def write_picture(report: Report, path: Path) -> None:
    """Write the leakage about each step as SVG.

    Raises:
        ForeignFileError: E0897, nothing that can be drawn.
    """
    drawn = pictures(report)
    if not drawn:
        remedy = "leave `--picture` out: the tables say what has no limit"
        raise ForeignFileError("E0897", "no leakage has a bound that could be drawn", where=str(path), help=remedy)
    text = standalone_svg(drawn[0]).replace("</style>", f" .s3{{stroke:#777}}</style>{PAPER}") + "\n"
    write_bytes(followed(path), text.encode())
