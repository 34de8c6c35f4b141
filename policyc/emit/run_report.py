"""A report of a run: what is out, what was found to hold of it, what is left of the promise, and pictures.

It is made of what is published, of the plan and of what `verify` found: nothing protected is read.
"""

from __future__ import annotations

import hashlib
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
from policyc.emit.signatures import CERTIFICATE
from policyc.emit.stored_files import content_of
from policyc_check.errors import KernelError
from policyc_runtime.files import is_no_file, write_together
from policyc_runtime.noise_tails import error_bounds
from policyc_runtime.output_place import output_paths, require_writable, unwritable
from policyc_runtime.plan import Plan
from policyc_runtime.published_values import NOT_A_RELEASE, Release, Series

KIND = "policyc run report"
CHANCE = 0.05  # of an error beyond the band
MOST_PICTURES, MOST_STEPS = 12, 600
ROOM = 0.08  # below the lowest value, of what lies between it and the highest
MARKED_WITHIN = 1000  # bytes of a report that say what it is
Array = NDArray[np.float64]


def run_report(
    plan: Plan,
    released: Release,
    output: Path,
    promises: Sequence[str],
    claims: Sequence[Mapping[str, object]] | None,
    moment: str,
    account: Mapping[str, object] | None,
) -> dict[str, Any]:
    """The content of a report.

    Args:
        plan: that was run.
        released: what its ledger has.
        output: the path that was given to the run.
        promises: the sentences of the certificate.
        claims: what `verify` found, one record a claim; None where it was not asked.
        moment: of this report, ISO.
        account: what the account of the data set says is spent and left, if there is one.

    Raises:
        KernelError: nothing is released, or the output cannot be read.
    """
    if not released.times:
        message, remedy = "nothing is released yet, so there is nothing to report", "run the plan first: `policyc run`"
        raise KernelError("E0827", message, where=str(output), help=remedy)
    files = output_paths(released.files, output)
    horizon, steps = plan.stream.horizon, released.steps.stop
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
            "first": released.begins or None,
            "last": released.times[-1] or None,
        },
        "files": [{"release": name, "file": file.name, "sha256": _sha256(file)} for name, file in files.items()],
        "ledger": {"head": released.head, "entries": released.entries},
        "promises": list(promises),
        "account": account,
        "claims": None if claims is None else list(claims),
        "pictures": list(_pictures(plan, released)),
        "undrawn": max(0, sum(1 for _ in _series(released)) - MOST_PICTURES),
    }


def _pictures(plan: Plan, released: Release) -> Iterator[dict[str, Any]]:
    """One picture a series, as far as a page takes them; none of what is left out altogether."""
    shown = released.steps[-MOST_STEPS:]
    bounds: dict[str, Array | None] = {}
    for series, cell in islice(_series(released), MOST_PICTURES):
        if series.name not in bounds:
            bounds[series.name] = error_bounds(plan, plan.release_named(series.name), CHANCE, shown.stop, shown.start)
        picture = _picture(plan, series, cell, shown, bounds[series.name])
        if picture["series"]:
            yield picture


def _series(released: Release) -> Iterator[tuple[Series, int]]:
    """Every cell of every release, in order."""
    return ((series, cell) for series in released.series.values() for cell in range(series.released.shape[1]))


def _picture(plan: Plan, series: Series, cell: int, shown: range, bounds: Array | None) -> dict[str, Any]:
    """Noisy and published values of a cell, and the band that the true value is in but for a chance of `CHANCE`."""
    steps = shown.stop
    here = slice(-len(shown), None)
    published = _with_gaps(series.released[here, cell])
    noisy = np.where(series.skipped[here], np.nan, _with_gaps(series.noisy[here, cell]))
    columns = {"published": published}
    if not np.array_equal(noisy, published, equal_nan=True):
        columns["noisy"] = noisy
    lines = [_line(name, values, shown) for name, values in columns.items() if not np.isnan(values).all()]
    band: list[list[str]] = []
    if bounds is not None:
        reach = zip(shown, published, bounds.tolist(), strict=True)
        ends = [(t, value - bound, value + bound) for t, value, bound in reach if not np.isnan(value)]
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
    points = [[str(t), about(value, 6)] for t, value in zip(shown, values.tolist(), strict=True) if not np.isnan(value)]
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


def require_places(plan: Plan, output: str) -> None:
    """Nothing when the files of a run, page and record can be written.

    Raises:
        ReleaseError: E0826, as `write_run_report` says.
    """
    names = [*(one.name for one in plan.releases), *(one.name for one in plan.made)]
    for file in output_paths(names, output).values():
        require_writable(file)
    _require_own(Path(output))


def _require_own(output: Path) -> None:
    for path in report_paths(output):
        require_writable(path)
        if path.is_dir() or is_no_file(path) or (path.exists() and not _is_report(path)):
            raise unwritable(
                path,
                "a directory is there" if path.is_dir() else "another file is there, which is no report",
                "move it away, name another output, or run with `--no-report`",
            )


def says_the_same(content: Mapping[str, Any], output: Path) -> bool:
    """Whether page and record are there and say this, beside when they were written and which claims held then."""
    page, record = report_paths(output)
    try:
        said = json.loads(record.read_bytes())
        fails = any(claim["holds"] is False for claim in said["claims"] or ())
        same = all(said[key] == value for key, value in content.items() if key not in ("reported", "claims"))
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return page.exists() and same and not fails


def stated_promises(directory: Path) -> list[str]:
    """The sentences of the certificate that lies there; whether it says what the plan gives is one of the claims."""
    try:
        return [str(one["sentence"]) for one in json.loads(content_of(directory, CERTIFICATE) or b"")["promises"]]
    except (ValueError, KeyError, TypeError):
        return []


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        return KIND.encode() in file.read(MARKED_WITHIN)


def write_run_report(content: Mapping[str, Any], output: Path) -> tuple[Path, Path]:
    """Write page and record, both or none.

    Raises:
        ReleaseError: E0826, another file has the name of one of them, or nothing may be written there.
    """
    _require_own(output)
    page, record = report_paths(output)
    lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in content.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_together({page: render_report(dict(content)).encode(), record: text.encode()})
    return page, record
