"""The pictures and tables of the page `promises`: what the compiler predicts of the policies that stand on it.

They ship as files, which `pytest --bless tests/policyc/test_guide_pictures.py` writes again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

from policyc.emit.pictures import ChoiceFrame, choice_picture
from policyc.exploration.axes import Value
from policyc.exploration.points import explore
from policyc.exploration.processes import planned
from policyc.guide import read_page

SECONDS = 600  # more than enough: nothing may be missing
DAY = 86_400_000
CHOICES: dict[str, tuple[Value, ...]] = {
    "epsilon": tuple(map(Decimal, ("0.1", "0.2", "0.5", "1", "2", "3", "5"))),
    "bound": (1, 7, 30, 91, 182, 365),
    "period": (DAY, 7 * DAY, 28 * DAY, 91 * DAY, None),
}
PROMISES = {
    "event_level": ["target event_level(epsilon = 1.0)"],
    "alpha_dpt": [],
    "w_event": ["target w_event(epsilon = 1.0, window = 12 steps)"],
    "per = 1h": [
        "target user_level(epsilon = 1.0, delta = 1e-6, neighbors = replace, per = 1h)",
        "participation at_most(12 steps, per = 1h, enforced = keep_first)",
    ],
    "user_level": [
        "target user_level(epsilon = 1.0, delta = 1e-6, neighbors = replace)",
        "participation at_most(288 steps, enforced = keep_first)",
    ],
}
"""The statements in place of those of the page, by the name under the picture; none where these stay."""
OTHERWISE = ' otherwise "elsewhere"'  # promises about users count those in a room alone


@dataclass(frozen=True)
class Picture:
    """One picture: the file, and the table that says the same.

    Args:
        svg: the file.
        table: Markdown, a row for each choice.
    """

    svg: str
    table: str


def pictures(folder: Path) -> dict[str, Picture]:
    """Every picture of the page by its name, computed anew in some twenty seconds.

    Args:
        folder: an empty one, in which the page's policies are written.
    """
    for name, text in re.findall(r"```policy (\S+)\n(.*?)```", read_page("promises"), re.DOTALL):
        (folder / name).write_text(text, encoding="utf-8")
    return {
        "promise": _of_promises((folder / "rooms.policy").read_text(encoding="utf-8")),
        **{axis: _of_choices(folder / "departures.policy", axis, values) for axis, values in CHOICES.items()},
    }


def _of_promises(text: str) -> Picture:
    """The same count under each promise."""
    stays = text[: text.index("target ")]
    texts = []
    for lines in PROMISES.values():
        whole = f"{stays}{chr(10).join(lines)}\ndeliver realtime\n" if lines else text
        texts.append(whole.replace(OTHERWISE, "") if "user_level" in whole else whole)
    shown = [" and ".join(f"`{line}`" for line in lines) or "(as it stands)" for lines in PROMISES.values()]
    found = planned(texts, "rooms.policy", Path(), SECONDS)
    said = {"x": "promise, each at 1 nat", "now": list(PROMISES).index("alpha_dpt"), "of": "one room", "joined": False}
    return _picture("promise", said, list(PROMISES), found, [shown])


def _of_choices(path: Path, axis: str, values: Sequence[Value]) -> Picture:
    """The policy with one thing altered."""
    found = explore(path, {axis: values}, SECONDS)
    counted = axis == "bound"
    names = [name.partition(" ")[0] if counted else name for name in found.axes[0].shown]
    points = [{"releases": point.releases, "refused": point.refused} for point in found.along(0)]
    said = {"x": f"{axis}, steps" if counted else axis, "now": found.axes[0].declared, "of": "a day"}
    return _picture(axis, said, names, points, [])


def _picture(
    name: str,
    said: Mapping[str, Any],
    choices: Sequence[str],
    found: Sequence[Mapping[str, Any] | None],
    columns: Sequence[Sequence[str]],
) -> Picture:
    """Draw what was planned of each choice; none may be refused."""
    releases = [point["releases"][0] for point in found if point is not None and point["refused"] is None]
    assert len(releases) == len(choices), (name, found)
    assert all(release["typical"] == release["noise"] for release in releases), "the page says: of the noise alone"
    errors = [release["off"] for release in releases]
    drawn = choice_picture(
        {
            "id": name,
            "title": f"Error against {name}",
            "description": f"By how much a count of {said['of']} is expected to be off for each {name}.",
            "x": said["x"],
            "y": "a count is off by about",
            "names": choices,
            "values": errors,
            "now": said["now"],
            "joined": said.get("joined", True),
        },
        ChoiceFrame(len(choices), min(errors), max(errors)),
    )
    head = [name, *["instead of `target` and `correlation` above" for _ in columns], "a count is off by about"]
    rows = zip(choices, *columns, [release["typical"] for release in releases], strict=True)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return Picture(_standalone(drawn), "".join(f"| {' | '.join(line)} |\n" for line in lines))


def _standalone(drawn: str) -> str:
    """The picture as a file of its own, in the certificates' colors by day and by night."""
    css = files("policyc.emit").joinpath("templates/certificate.css").read_text(encoding="utf-8")
    colors = re.findall(r"^(?::root|@media \(prefers-color-scheme: dark\)) \{.*?^\}\n", css, re.DOTALL | re.MULTILINE)
    rules = [line for line in css.splitlines(keepends=True) if line.startswith(("svg text", "svg ."))]
    rules.append("svg .now { fill: var(--s1); }\n")
    style = f"<style>\n{''.join(colors)}svg {{ font-family: var(--sans); }}\n{''.join(rules)}</style>"
    head, rest = drawn.split(">", 1)
    width, height = re.findall(r'viewBox="\S+ 0 (\S+) (\S+)"', head)[0]
    head = head.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"', 1)
    return f"{head}>{style}{rest}\n"
