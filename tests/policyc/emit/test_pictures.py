from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from policyc import compile_policy
from policyc.emit.accounting import Accounting
from policyc.emit.bars import bar_picture
from policyc.emit.blocks.mechanism import choice
from policyc.emit.blocks.pictures import pictures, user_level_pictures
from policyc.emit.context import certificate_content
from policyc.emit.pictures import WIDEST_LETTER, line_picture, nice_ticks, thinned
from policyc.pipeline import Compilation
from policyc_check.plan.claims import Degradation
from policyc_check.users.claims import kept_by_noise, promised_user_level
from policyc_runtime.plan import Plan

LINE = {
    "id": "leakage",
    "title": "Leakage <of> steps",
    "description": "a & b",
    "x": "step",
    "y": "nats",
    "stepped": False,
    "level": {"name": "alpha", "value": "1"},
    "series": [{"name": "total", "points": [[0, "0.5"], [1, "0.75"], [2, "1"]]}],
}
BARS = {
    "id": "candidates-1",
    "title": "Errors",
    "description": "of all",
    "x": "error",
    "bars": [{"name": "a<b", "value": "2", "chosen": True}, {"name": "c", "value": "0", "chosen": False}],
}


def test_thinning_keeps_ends_and_extremes() -> None:
    """A long series keeps its ends, its largest and its smallest value, and at most 600 points."""
    values = np.sin(np.arange(100_000) / 7.0)
    values[54_321], values[12_345] = 9.0, -9.0
    kept = thinned(values)
    assert len(kept) <= 600
    assert {0, 99_999, 54_321, 12_345} <= set(kept.tolist())
    assert np.array_equal(kept, np.unique(kept))


def test_a_short_series_is_kept_whole() -> None:
    """600 points and fewer are all drawn."""
    assert thinned(np.zeros(600)).tolist() == list(range(600))


@pytest.mark.parametrize("picture", [line_picture(LINE), bar_picture(BARS)])
def test_pictures_are_accessible_and_sound(picture: str) -> None:
    """A picture is well-formed, has a title and a description that name it, and escapes what it is given."""
    root = ET.fromstring(picture)
    assert root.attrib["role"] == "img"
    labels = root.attrib["aria-labelledby"].split()
    assert [root[0].attrib["id"], root[1].attrib["id"]] == labels
    assert root[0].text
    assert root[1].text


def test_the_height_is_to_scale() -> None:
    """Twice the value is drawn twice as high above the axis."""
    root = ET.fromstring(line_picture({**LINE, "level": None}))
    path = next(part.attrib["d"] for part in root if part.tag == "path")
    heights = [226.0 - float(piece.split(" ")[1]) for piece in path[1:].split("L")]
    assert heights[2] / heights[0] == pytest.approx(2.0, rel=2e-3)


@pytest.mark.parametrize("flat", [[[0, "0.5"]], [[0, "0"], [1, "0"]]])
def test_flat_and_single_values_are_drawn(flat: list[list[object]]) -> None:
    """One step, and budgets of zero, still make a picture."""
    ET.fromstring(line_picture({**LINE, "level": None, "stepped": True, "series": [{"name": "x", "points": flat}]}))


def test_ticks_are_round_and_reach_the_top() -> None:
    """Axis marks are round numbers from zero to at least the highest value."""
    assert nice_ticks(1.0, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert nice_ticks(0.0) == [0.0, 1.0]
    assert nice_ticks(287.0, 5)[-1] >= 287


def test_a_picture_may_start_above_zero() -> None:
    """With a `low` the smallest value is drawn near the axis, and no tick lies below it."""
    root = ET.fromstring(line_picture({**LINE, "level": None, "low": "0.5"}))
    path = next(part.attrib["d"] for part in root if part.tag == "path")
    assert float(path[1:].split("L")[0].split(" ")[1]) == 226.0
    ticks = [float(part.text or "") for part in root if part.attrib.get("class") == "tick end"]
    assert min(ticks) >= 0.5


def test_an_outlier_is_cut_and_marked() -> None:
    """A bar far longer than the others does not make them invisible: it is cut, and says so."""
    bars = [{"name": "a", "value": "10", "chosen": True}, {"name": "b", "value": "4000", "chosen": False}]
    root = ET.fromstring(bar_picture({**BARS, "bars": bars}))
    widths = [float(part.attrib["width"]) for part in root if part.tag == "rect"]
    assert widths[0] == pytest.approx(widths[1] / 4, rel=0.01)
    assert "▸ 4000" in [part.text for part in root]


def test_words_of_bars_say_whether_some_are_cut(compiled_gallery: Callable[[str], Compilation]) -> None:
    """As the picture itself has them: of one that shows all bars whole nothing is said."""
    told = set()
    for name in ("departures", "speeds", "traffic"):
        content: Any = certificate_content(compiled_gallery(name).plan, {})
        for part in content["pictures"].values():
            for picture in part if isinstance(part, list) else [part]:
                if isinstance(picture, dict) and "bars" in picture:
                    told.add("cut short" in picture["description"])
                    assert ("▸" in bar_picture(picture)) == ("cut short" in picture["description"]), picture["title"]
    assert told == {False, True}


def test_steps_are_marked_by_their_dates_where_they_are_known() -> None:
    """With a start, marks are dates and stand where these steps begin; labels begin with a capital."""
    points = [[str(step), "1"] for step in range(365)]
    dated = {"dates": {"start": "2026-01-01", "step_milliseconds": "86400000"}, "level": None}
    root = ET.fromstring(line_picture({**LINE, **dated, "series": [{"name": "x", "points": points}]}))
    marks = {part.text: float(part.attrib["x"]) for part in root if part.attrib.get("class") == "tick middle"}
    assert {"2026-01", "2026-07"} < marks.keys()
    july = (181 / 364) * (720 - 64 - 20) + 64
    assert marks["2026-07"] == pytest.approx(july, abs=0.06)
    assert [part.text for part in root if part.attrib.get("class") == "label middle"] == ["Step", "Nats"]


@pytest.mark.law
def test_releases_of_different_size_do_not_share_an_axis(compiled_gallery: Callable[[str], Compilation]) -> None:
    """Each release has a picture of its noise, named after it, in its own unit."""
    plan = compiled_gallery("speeds").plan
    pictures = certificate_content(plan, {})["pictures"]["noise"]
    assert [picture["series"][0]["name"] for picture in pictures] == [release.name for release in plan.releases]
    assert all(len(picture["series"]) == 1 for picture in pictures)
    assert len({picture["id"] for picture in pictures}) == len(plan.releases)


def test_candidates_are_told_by_what_differs_and_by_their_typical_error(planned_traffic: Plan) -> None:
    """A bar is as long as the root of the squared error; the mechanism that all have stands in no name."""
    (release,) = planned_traffic.releases
    one = release.candidates[0]
    two = [one.model_copy(update={"schedule": f"s{n}", "predicted_error": float(n * n)}) for n in (3, 4)]
    changed = release.model_copy(update={"candidates": tuple(two)})
    plan = planned_traffic.model_copy(update={"releases": (changed,), "objective": "mean_squared_error"})
    (picture,) = pictures(Accounting(plan))["candidates"]
    assert [(bar["name"], bar["value"]) for bar in picture["bars"]] == [("s3", "3"), ("s4", "4")]
    assert picture["x"] == "typical error of a published value, in users"
    rows = choice(plan)[0]["candidates"]
    assert {(row["typical"], row["predicted_error"]) for row in rows} == {("3", "9"), ("4", "16")}


@pytest.mark.parametrize("high", ["1", "52000", "7300000"])
def test_the_turned_name_of_an_axis_stands_beside_the_longest_tick(high: str) -> None:
    """Also with the letters of a small screen; a short tick leaves the picture as wide as it was."""
    points = [[0, "0"], [1, high]]
    root = ET.fromstring(line_picture({**LINE, "level": None, "series": [{"name": "x", "points": points}]}))
    ticks = [part for part in root if part.attrib.get("class") == "tick end"]
    begins = min(float(part.attrib["x"]) - WIDEST_LETTER * len(part.text or "") for part in ticks)
    (turned,) = [part.attrib["transform"] for part in root if "transform" in part.attrib]
    baseline = float(turned.split("(")[1].split(" ")[0])
    left, _, width, _ = map(float, root.attrib["viewBox"].split())
    assert left + 13 <= baseline <= begins - 5
    assert left + width == 720
    assert (left == 0) is (high == "1")


def test_the_first_date_is_not_cut_off() -> None:
    """A date with its time at the left edge has room, also in the letters of a small screen."""
    points = [[str(step), "1"] for step in range(1440)]
    dated = {"dates": {"start": "2026-03-02T06:00", "step_milliseconds": "60000"}, "level": None}
    root = ET.fromstring(line_picture({**LINE, **dated, "series": [{"name": "x", "points": points}]}))
    marks = {part.text or "": float(part.attrib["x"]) for part in root if part.attrib.get("class") == "tick middle"}
    assert "2026-03-02 06:00" in marks
    left = float(root.attrib["viewBox"].split()[0])
    assert all(left <= x - WIDEST_LETTER * len(name) / 2 for name, x in marks.items())


def test_no_point_between_those_that_are_told_is_promised_more_than_is_true(tmp_path: Path) -> None:
    """Of numbers of periods that no page names, the line is at or above what the noise keeps."""
    policy = tmp_path / "town.policy"
    policy.write_text("""policy town "People"
stream events { user person time at step 1h horizon 504 steps start "2026-09-07" }
release present = count(events)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove, per = 1d)
participation at_most(4 steps, per = 1d, enforced = keep_first)
deliver realtime
""")
    plan = compile_policy(policy).plan
    (series,) = user_level_pictures(plan, None)["participation"]["series"]
    steps, nats = np.array(series["points"], dtype=float).T
    (target,) = promised_user_level(plan)
    for periods in range(2, 22):
        told = Decimal(float(np.interp(4 * periods, steps, nats)))
        point = Degradation(participation=4 * periods, epsilon=told)
        assert kept_by_noise(plan, target, point, 4 * periods)[0], periods
