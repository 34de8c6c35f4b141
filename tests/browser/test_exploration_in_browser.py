"""The sliders of an exploration: where they stand, the page shows exactly what was planned."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from policyc.exploration.page import write_exploration
from policyc.exploration.points import Exploration, explore

pytestmark = pytest.mark.law

POLICY = """policy visits "Visits </script> to places"
stream visits {
  user     account
  time     arrived_at
  step     1d
  horizon  24 steps
  start    "2020-01-01"
}
release visits_a_day = count(visits)
release lengths = sum(visits.minutes, clamp = 0 .. 90)
target user_level(epsilon = 1.5, delta = 0, neighbors = add_remove)
participation at_most(4 steps, enforced = keep_first)
mechanism laplace()
estimate none()
deliver realtime
"""
MOVED = """<!doctype html><meta charset="utf-8"><body><iframe style="border:0" width="{width}" height="4000"></iframe>
<pre id="found"></pre><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument;
  const sliders = [...page.querySelectorAll("#sliders input")];
  const move = (setting) => sliders.forEach((slider, axis) => {{
    slider.value = setting[axis];
    slider.dispatchEvent(new Event("input"));
  }});
  const told = {settings}.map((setting) => {{
    move(setting);
    return {{
      at: sliders.map((slider) => slider.parentElement.querySelector("output").textContent),
      rows: [...page.querySelectorAll("#errors tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent)),
      state: page.getElementById("state").textContent,
      writes: page.getElementById("writes").textContent,
      now: [...page.querySelectorAll("[data-release]")].map((curves) => [...curves.querySelectorAll("circle.now")]
        .map((dot) => dot.getAttribute("visibility") === "hidden" ? null : dot.getAttribute("cy"))),
      wide: page.documentElement.scrollWidth,
    }};
  }});
  page.getElementById("back").click();
  const back = sliders.map((slider) => Number(slider.value));
  const choose = page.getElementById("release");
  choose.value = "1";
  choose.dispatchEvent(new Event("change"));
  const seen = [...page.querySelectorAll("[data-release]")].map((curves) => !curves.hidden);
  document.getElementById("found").textContent = JSON.stringify({{told, back, seen}});
}};
frame.srcdoc = {page};
</script></body>"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    """All settings but those that are refused have numbers."""
    path = tmp_path_factory.mktemp("explored") / "visits.policy"
    path.write_text(POLICY)
    explored = explore(path, {"epsilon": [Decimal("0.5"), Decimal(400)], "bound": [2, 30], "period": [604_800_000]}, 99)
    assert not explored.late
    return explored


@pytest.mark.parametrize("width", [390, 1280])
def test_sliders_show_what_was_planned(
    browse: Callable[..., subprocess.CompletedProcess[str]], found: Exploration, tmp_path: Path, width: int
) -> None:
    """Every setting, in turn: values, errors, refusals, lines to write, and points on the curves; then back."""
    write_exploration(found, None, tmp_path / "page.html")
    page = json.dumps((tmp_path / "page.html").read_text(encoding="utf-8")).replace("</", "<\\/")
    settings = list(found.points)
    wrapper = tmp_path / "frame.html"
    wrapper.write_text(MOVED.format(width=width, settings=json.dumps(settings), page=page), encoding="utf-8")
    shown = browse("--dump-dom", "--window-size=1400,1000", wrapper.as_uri())
    match = re.search(r'<pre id="found">(.*?)</pre>', shown.stdout, re.DOTALL)
    assert match is not None
    assert match.group(1), shown.stderr
    seen = json.loads(html.unescape(match.group(1)))
    assert "CONSOLE" not in shown.stderr
    assert seen["back"] == list(found.declared)
    assert seen["seen"] == [False, True]
    assert len(seen["told"]) == len(settings) == 18
    for setting, told in zip(settings, seen["told"], strict=True):
        point = found.points[setting]
        assert told["wide"] <= width
        assert told["at"] == [axis.shown[at] for axis, at in zip(found.axes, setting, strict=True)]
        if point.refused is None:
            for row, release in zip(told["rows"], point.releases, strict=True):
                words = f"{release['typical']} {release['unit']}".replace("`", "")
                assert row == [release["name"], words, release["noise"], release["mechanism"], release["estimator"]]
            assert told["writes"].splitlines() == list(point.writes)
            assert all(all(dots) for dots in told["now"])
        else:
            assert point.refused["code"] in told["state"]
            assert point.refused["message"].replace("`", "") in told["state"]
            assert {cell for row in told["rows"] for cell in row[1:]} == {"–"}
            assert not any(any(dots) for dots in told["now"])
    heights = {
        (release["error"], told["now"][number][axis])
        for setting, told in zip(settings, seen["told"], strict=True)
        for number, release in enumerate(found.points[setting].releases[:1])
        for axis in range(len(found.axes))
    }
    assert len({error for error, _ in heights}) == len(heights)  # one height for every error, on every curve
