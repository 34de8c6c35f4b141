"""The settings that are looked at, and what the compiler says of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from policyc.exploration.alteration import Alterable, UnalterableError
from policyc.exploration.axes import Axis, Value, axes_of
from policyc.exploration.processes import planned
from policyc.semantics.checked import check_file
from policyc.semantics.policy import Policy

Setting = tuple[int, ...]
MOST_POINTS = 2_000


@dataclass(frozen=True)
class Point:
    """One setting.

    Args:
        setting: the index of the value on each axis.
        writes: the lines of its policy that are not in the declared one.
        releases: for each its stated error and what was chosen, as `worker.outcome` has it; empty where refused.
        refused: why there is no plan: a finding's `code` (empty where it is none), `message` and `help`.
        warnings: findings of the same form.
        computed: whether there was time for it.
    """

    setting: Setting
    writes: tuple[str, ...]
    releases: tuple[Mapping[str, Any], ...] = ()
    refused: Mapping[str, str] | None = None
    warnings: tuple[Mapping[str, str], ...] = ()
    computed: bool = True


@dataclass(frozen=True)
class Exploration:
    """A policy, what was altered, and every point by its setting.

    Args:
        policy: as declared.
        axes: what was altered.
        fixed: what was not, and why.
        points: by setting; those without time are among them.
        seconds: the cap on time.
    """

    policy: Policy
    axes: tuple[Axis, ...]
    fixed: Mapping[str, str]
    points: Mapping[Setting, Point]
    seconds: int

    @property
    def declared(self) -> Setting:
        """The setting of the policy as it stands."""
        return tuple(axis.declared for axis in self.axes)

    def along(self, number: int, setting: Setting | None = None) -> list[Point]:
        """The points of one axis, the others as in a setting (that of the policy)."""
        at = setting or self.declared
        values = range(len(self.axes[number].values))
        return [self.points[(*at[:number], value, *at[number + 1 :])] for value in values]

    @property
    def late(self) -> int:
        """How many points there was no time for."""
        return sum(not point.computed for point in self.points.values())


def settings_of(axes: Sequence[Axis]) -> list[Setting]:
    """All settings, the most wanted first: one axis alone, then promise and bound together, then the nearest others."""

    def distance(setting: Setting) -> tuple[int, int, int]:
        apart = [abs(at - axis.declared) for at, axis in zip(setting, axes, strict=True)]
        moved = [axis.kind for axis, far in zip(axes, apart, strict=True) if far]
        others = sum(kind not in {"amount", "bound"} for kind in moved)
        return min(len(moved), 2), others if len(moved) > 1 else 0, sum(apart)

    return sorted(product(*(range(len(axis.values)) for axis in axes)), key=distance)[:MOST_POINTS]


def explore(
    path: Path,
    chosen: Mapping[str, Sequence[Value]] | None,
    seconds: int,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Exploration:
    """Plan a policy with its promise, bound, windows, step and period altered.

    Args:
        path: of the policy.
        chosen: values of some axes by name; the others then stay.
        seconds: the cap on time; the policy as it stands is planned however long that takes.
        progress: told how far it is and of how much, of points or of the time, whichever is further.

    Raises:
        PolicyError: the policy as it stands has errors.
    """
    _, parsed, policy, _ = check_file(path)
    axes, fixed = axes_of(policy, chosen)
    alterable = Alterable(parsed, policy, axes)
    settings = settings_of(axes)
    texts: dict[Setting, str] = {}
    points: dict[Setting, Point] = {}
    for setting in settings:
        try:
            texts[setting] = alterable.text(setting)
        except UnalterableError as error:
            points[setting] = Point(setting, (), refused={"code": "", "message": str(error), "help": ""})
    wanted = list(dict.fromkeys(texts.values()))
    found = dict(
        zip(wanted, planned(wanted, policy.source.name, path.parent.absolute(), seconds, progress), strict=True)
    )
    for setting, text in texts.items():
        writes = tuple(alterable.writes(setting))
        said = found[text]
        if said is None:
            points[setting] = Point(setting, writes, computed=False)
        else:
            points[setting] = Point(setting, writes, tuple(said["releases"]), said["refused"], tuple(said["warnings"]))
    return Exploration(policy, tuple(axes), fixed, {setting: points[setting] for setting in settings}, seconds)
