"""An exploration for a terminal and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from policyc.emit.numbers import counted
from policyc.exploration.dropping import TakenPart, dropped_share, dropping_words
from policyc.exploration.points import Exploration, Point
from policyc.quantification.text import table, visible_lines, wrapped

MADE = "Totals, ratios, means and changes are made of these values, and their errors are not shown here."
NO_TIME = "not planned: the time was over (`--seconds` gives more)"


def render_exploration(found: Exploration, statistic: TakenPart | None) -> str:
    """A table for every axis, the others as the policy says."""
    policy = found.policy
    names = [release.name for release in policy.releases]
    parts = [f"{policy.name}: {policy.purpose}\n", _wrapped(meaning(found)) + "\n"]
    for number, axis in enumerate(found.axes):
        points = found.along(number)
        shares = [dropped_share(found, point.setting, statistic) for point in points]
        drops = ["dropped"] if axis.kind == "bound" and any(shares) else []
        same = _same_words(points, len(names))
        heads = [f"{name}, {word.strip()}" if word else name for name, word in zip(names, same, strict=True)]
        rows = []
        for at, (point, share) in enumerate(zip(points, shares, strict=True)):
            mark = " (policy)" if at == axis.declared else ""
            errors = [_number(one, word) for one, word in zip(point.releases, same, strict=False)] or ["-"] * len(names)
            rows.append([axis.shown[at] + mark, *errors, *([share or "-"] if drops else []), *_remark(point)])
        parts.append(_table([axis.name, *heads, *drops], rows))
    parts += [f"{name}: not altered, since {reason}\n" for name, reason in found.fixed.items()]
    dropping = dropping_words(policy, statistic)
    parts += [_wrapped(dropping) + "\n"] if dropping is not None else []
    parts += [f"{MADE}\n"] if policy.made else []
    parts += [late_words(found) + "\n"] if found.late else []
    return visible_lines("\n".join(parts))


def _same_words(points: Sequence[Point], releases: int) -> list[str]:
    """For each release the words before its errors, where they are the same at all points."""
    said = [{point.releases[i]["words"] for point in points if point.releases} for i in range(releases)]
    return [words.pop() if len(words) == 1 else "" for words in said]


def _number(release: Any, said: str) -> str:
    """An error without the words that the head of its column says."""
    return str(release["typical"]) if release["words"] == said else error_words(release)


def meaning(found: Exploration) -> str:
    """What the numbers are."""
    units = {release["unit"] for point in found.points.values() for release in point.releases}
    unit = f", in {next(iter(units))}" if len(units) == 1 else ""
    return (
        f"How far a published value is expected to be off{unit}, with one thing altered and all else as the policy "
        "says. Every number is what `policyc compile` says of that policy: it was planned, nothing lies between."
    )


def late_words(found: Exploration) -> str:
    """How much there was no time for."""
    return (
        f"For {found.late:,} of {counted(len(found.points), 'setting')} there was no time in "
        f"{counted(found.seconds, 'second')}: `--seconds` gives more, `--values` asks for less"
    )


def error_words(release: Any) -> str:
    """A stated error, with the words that belong before it."""
    return f"{release['words']}{release['typical']}"


def refusal_words(point: Point) -> str | None:
    """Why a point has no numbers."""
    if not point.computed:
        return NO_TIME
    if point.refused is None:
        return None
    code = f"{point.refused['code']}: " if point.refused["code"] else ""
    return f"refused: {code}{point.refused['message']}"


def _wrapped(text: str) -> str:
    """A paragraph in which no option is divided."""
    return wrapped(text.replace("-", "\1")).replace("\1", "-")


def _remark(point: Point) -> list[str]:
    refused = refusal_words(point)
    codes = dict.fromkeys(warning["code"] for warning in point.warnings)
    return [refused] if refused is not None else [", ".join(codes)] if codes else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose rows may have a remark behind them."""
    lines = table(head, [row[: len(head)] for row in rows]).splitlines()
    width = max(map(len, lines))
    remarks = ["", *("".join(row[len(head) :]) for row in rows)]
    said = zip(lines, remarks, strict=True)
    return "\n".join(f"{line:<{width}}  {remark}".rstrip() for line, remark in said) + "\n"


def exploration_json(found: Exploration, statistic: TakenPart | None) -> dict[str, Any]:
    """For programs: every point, as the plans say it."""
    return {
        "format": "policyc-exploration",
        "version": 1,
        "policy": found.policy.name,
        "objective": found.policy.objective,
        "axes": [{"name": axis.name, "values": axis.shown, "declared": axis.declared} for axis in found.axes],
        "fixed": dict(found.fixed),
        "dropping": dropping_words(found.policy, statistic),
        "points": [
            {
                "setting": {axis.name: axis.shown[at] for axis, at in zip(found.axes, point.setting, strict=True)},
                "writes": list(point.writes),
                "planned": point.computed,
                "releases": [dict(release) for release in point.releases],
                "refused": None if point.refused is None else dict(point.refused),
                "warnings": [dict(warning) for warning in point.warnings],
                "dropped": dropped_share(found, point.setting, statistic),
            }
            for point in found.points.values()
        ],
    }
