"""An exploration as a page of its own: sliders that move over what was planned, and curves through it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from policyc.emit.certificate import templates
from policyc.emit.pictures import ChoiceFrame, choice_picture
from policyc.exploration.dropping import TakenPart, dropped_share, dropping_words
from policyc.exploration.points import Exploration, Point
from policyc.exploration.text import MADE, error_words, exploration_json, late_words, refusal_words
from policyc_runtime.files import followed, write_bytes, write_together

Span = tuple[float, float]
PAGE, NUMBERS = "explore.html", "explore.json"


def render_page(found: Exploration, statistic: TakenPart | None) -> str:
    """One self-contained page: its script is in it, and takes nothing from anywhere."""
    policy = found.policy
    names = [release.name for release in policy.releases]
    spans = [_span(found, number) for number in range(len(names))]
    figures = [_figures(found, number, span) for number, span in enumerate(spans)]
    content = {
        "title": policy.name,
        "purpose": policy.purpose,
        "axes": [{"name": axis.name, "shown": axis.shown, "declared": axis.declared} for axis in found.axes],
        "releases": [{"name": name, "figures": drawn} for name, drawn in zip(names, figures, strict=True)],
        "now": _told(found, found.points[found.declared], statistic, spans),
        "fixed": found.fixed,
        "dropping": dropping_words(policy, statistic),
        "made": MADE if policy.made else None,
        "late": late_words(found) if found.late else None,
        "share": statistic is not None,
        "data": _data(found, statistic, spans),
    }
    return templates().get_template("explore.html.jinja").render(c=content) + "\n"


def _span(found: Exploration, release: int) -> Span:
    """The least and the largest error of a release at all points."""
    errors = [point.releases[release]["off"] for point in found.points.values() if point.releases]
    above = [error for error in errors if error > 0]
    return (min(above), max(above)) if above else (1.0, 1.0)


def _figures(found: Exploration, release: int, span: Span) -> list[Markup]:
    """The curve of one release over each axis, through the policy as it stands."""
    name = found.policy.releases[release].name
    pictures = [
        {
            "id": f"curve-{release}-{number}",
            "title": f"{name} by {axis.name}",
            "description": f"The expected error of a value of {name} at each {axis.name} that was planned.",
            "x": f"{axis.name}, steps" if counted else axis.name,
            "y": "expected error",
            "names": [shown.removesuffix(" steps").removesuffix(" step") if counted else shown for shown in axis.shown],
            "values": [point.releases[release]["off"] if point.releases else None for point in found.along(number)],
            "now": axis.declared,
        }
        for number, axis in enumerate(found.axes)
        for counted in [axis.kind in {"bound", "window"}]
    ]
    frames = [ChoiceFrame(len(axis.values), *span) for axis in found.axes]
    drawn = [choice_picture(picture, frame) for picture, frame in zip(pictures, frames, strict=True)]
    return [Markup(svg) for svg in drawn]  # noqa: S704  escaped there


def _told(found: Exploration, point: Point, statistic: TakenPart | None, spans: Sequence[Span]) -> dict[str, Any]:
    """What the page says of a point: words, and how high it lies in the curves."""
    refused = refusal_words(point)
    if point.refused is not None and point.refused["help"]:
        refused = f"{refused} ({point.refused['help']})"
    return {
        "writes": list(point.writes),
        "refused": None if refused is None else refused.replace("`", ""),
        "warnings": [f"{warning['code']}: {warning['message']}".replace("`", "") for warning in point.warnings],
        "dropped": dropped_share(found, point.setting, statistic),
        "releases": [[_error(one), one["noise"] or "–", one["mechanism"], one["estimator"]] for one in point.releases],
        "heights": [ChoiceFrame(1, *span).y(one["off"]) for one, span in zip(point.releases, spans, strict=False)],
    }


def _error(release: Mapping[str, Any]) -> str:
    """A stated error with its unit, and what it is of where it is not that of published values."""
    unit = release["unit"].replace("`", "")
    if release["kind"] == "noise":
        return f"{release['typical']} {unit}, before post-processing"
    return f"{error_words(release)} {unit}"


def _data(found: Exploration, statistic: TakenPart | None, spans: Sequence[Span]) -> Markup:
    """What the script moves over, as JSON that ends no element."""
    counts = [len(axis.values) for axis in found.axes]
    frames = [ChoiceFrame(count, 1, 1) for count in counts]
    data = {
        "axes": [
            {"shown": axis.shown, "declared": axis.declared, "places": [*map(frame.x, range(count))]}
            for axis, frame, count in zip(found.axes, frames, counts, strict=True)
        ],
        "points": {
            " ".join(map(str, setting)): _told(found, point, statistic, spans)
            for setting, point in found.points.items()
        },
    }  # fmt: skip
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704


def write_exploration(found: Exploration, statistic: TakenPart | None, place: Path) -> list[str]:
    """Write the page to a file that ends in `.html`, else page and numbers into a directory; what was written."""
    page = render_page(found, statistic).encode()
    if place.suffix.lower() in {".html", ".htm"}:
        write_bytes(followed(place), page)
        return [str(place)]
    numbers = json.dumps(exploration_json(found, statistic), ensure_ascii=False, indent=1) + "\n"
    place.mkdir(parents=True, exist_ok=True)
    write_together({place / PAGE: page, place / NUMBERS: numbers.encode()})
    return [str(place / PAGE), str(place / NUMBERS)]
