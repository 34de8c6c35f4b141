"""A report of a run: what is out, what was found to hold of it, what is left of the promise, and pictures.

It is made of what is published, of the plan and of what `verify` found: nothing protected is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policyc.emit.blocks.wording import Json, quoted, steps_axis
from policyc.emit.certificate import templates
from policyc.emit.numbers import about, grouped
from policyc.emit.stored_files import sha256
from policyc_check.errors import KernelError
from policyc_runtime.files import write_together
from policyc_runtime.ledger import Ledger
from policyc_runtime.noise_tails import error_bounds
from policyc_runtime.output_place import output_paths, require_writable, unwritable
from policyc_runtime.plan import Plan
from policyc_runtime.published_values import NOT_A_RELEASE, Release, Series
from policyc_runtime.released_file import stored_release

KIND = "policyc run report"
CHANCE = 0.05  # of an error beyond the band
MOST_PICTURES, MOST_STEPS = 12, 600
ROOM = 0.08  # below the lowest value, of what lies between it and the highest
MARKED_WITHIN = 1000  # bytes of a report that say what it is
Array = NDArray[np.float64]


def run_report(
    plan: Plan,
    ledger: Path,
    output: Path,
    promises: Sequence[str],
    claims: Sequence[Mapping[str, object]],
    moment: str,
    account: Mapping[str, object] | None,
) -> dict[str, Any]:
    """The content of a report.

    Args:
        plan: that was run.
        ledger: of the run.
        output: the path that was given to the run.
        promises: the sentences of the certificate.
        claims: what `verify` found, one record a claim.
        moment: of this report, ISO.
        account: what the account of the data set says is spent and left, if there is one.

    Raises:
        KernelError: the ledger or the output cannot be read, or there is nothing in it.
    """
    with Ledger.open_read_only(ledger) as book:
        released = stored_release(plan, book, book.steps)
        head, entries = book.hashes[-1] if book.hashes else "", len(book.entries)
    if not released.times:
        message, remedy = "nothing is released yet, so there is nothing to report", "run the plan first: `policyc run`"
        raise KernelError("E0827", message, where=str(ledger), help=remedy)
    files = output_paths(released.files, output)
    horizon, steps = plan.stream.horizon, len(released.times)
    return {
        "kind": KIND,
        "policy": plan.policy.name,
        "purpose": plan.policy.purpose,
        "plan_digest": plan.digest,
        "reported": moment,
        "is_release": released.is_release,
        "steps": {
            "released": steps,
            "of": horizon,
            "left": None if horizon is None else horizon - steps,
            "first": released.times[0] or None,
            "last": released.times[-1] or None,
        },
        "files": [{"release": n, "file": f.name, "sha256": sha256(f.read_bytes())} for n, f in files.items()],
        "ledger": {"head": head, "entries": entries},
        "promises": list(promises),
        "account": account,
        "claims": list(claims),
        "pictures": list(_pictures(plan, released)),
        "undrawn": max(0, sum(1 for _ in _series(released)) - MOST_PICTURES),
    }


def _pictures(plan: Plan, released: Release) -> Iterator[dict[str, Any]]:
    """One picture a series, as far as a page takes them; none of what is left out altogether."""
    for series, cell in islice(_series(released), MOST_PICTURES):
        picture = _picture(plan, series, cell)
        if picture["series"]:
            yield picture


def _series(released: Release) -> Iterator[tuple[Series, int]]:
    """Every cell of every release, in order."""
    return ((series, cell) for series in released.series.values() for cell in range(series.released.shape[1]))


def _picture(plan: Plan, series: Series, cell: int) -> dict[str, Any]:
    """Noisy and published values of a cell, and the band that the true value is in but for a chance of `CHANCE`."""
    part = next(part for part in plan.releases if part.name == series.name)
    steps = len(series.released)
    shown = range(max(0, steps - MOST_STEPS), steps)
    published = _with_gaps(series.released[:, cell])
    noisy = np.where(series.skipped, np.nan, _with_gaps(series.noisy[:, cell]))
    columns = {"published": published}
    if not np.array_equal(noisy, published, equal_nan=True):
        columns["noisy"] = noisy
    lines = [_line(name, values, shown) for name, values in columns.items() if not np.isnan(values[shown]).all()]
    bounds = error_bounds(plan, part, CHANCE, steps)
    band: list[list[str]] = []
    if bounds is not None:
        ends = [(t, published[t] - bounds[t], published[t] + bounds[t]) for t in shown if not np.isnan(published[t])]
        band = [[str(t), about(low, 6), about(high, 6)] for t, low, high in ends]
    of = f", {series.column} {series.cells[cell]}" if series.column is not None else ""
    last = f" The last {grouped(len(shown))} of {grouped(steps)} steps are shown." if len(shown) < steps else ""
    known = (
        f"about {about(100 * (1 - CHANCE))} of 100 true values are in the band, as the plan expects"
        if band
        else "how far true values are from them is not known beforehand"
    )
    heights = [float(y) for line in lines for _, y in line["points"]] + [
        float(end) for _, *ends in band for end in ends
    ]
    lowest, highest = min(heights, default=0.0), max(heights, default=1.0)
    below = lowest - ROOM * (highest - lowest)
    return {
        "id": f"{series.name}-{cell}",
        "title": f"{series.name}{of}",
        "description": f"Published values of {quoted(series.name)}{of}; {known}.{last}",
        **steps_axis(plan),
        "y": "value",
        "stepped": False,
        "level": None,
        "low": about(max(0.0, below) if lowest >= 0 else below, 6),
        "band": band,
        "series": lines,
    }


def _line(name: str, values: Array, shown: range) -> dict[str, Any]:
    points = [[str(t), about(float(values[t]), 6)] for t in shown if not np.isnan(values[t])]
    return {"name": name, "points": points, **({"gaps": True} if len(points) < len(shown) else {})}


def _with_gaps(values: Any) -> Array:
    """Values as floats, NaN where they are left out."""
    return np.where(np.ma.getmaskarray(values), np.nan, np.ma.getdata(values))


def render_report(content: Json) -> str:
    """One self-contained page: no script, no network, pictures inside."""
    return (
        templates().get_template("run_report.html.jinja").render(c=content, grouped=grouped, mark=NOT_A_RELEASE) + "\n"
    )


def report_paths(output: Path) -> tuple[Path, Path]:
    """Where the page and the record lie: beside the output, with its name."""
    stem = output.name.removesuffix(".gz").rsplit(".", 1)[0] or output.name
    return output.with_name(f"{stem}.report.html"), output.with_name(f"{stem}.report.json")


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return KIND.encode() in file.read(MARKED_WITHIN)


def write_run_report(content: Mapping[str, Any], output: Path) -> tuple[Path, Path]:
    """Write page and record, both or none.

    Raises:
        ReleaseError: E0826, another file has the name of one of them, or nothing may be written there.
    """
    page, record = report_paths(output)
    for path in (page, record):
        require_writable(path)
        if path.exists() and not _is_report(path):
            raise unwritable(path, "another file is there, which is no report", "move it away, or name another output")
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_together({page: render_report(dict(content)).encode(), record: text.encode()})
    return page, record
