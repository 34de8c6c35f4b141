"""What the noise of a release makes of its true values: of every step, of a whole stream, or of totals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policyc.emit.map_model.literals import sequence
from policyc.emit.map_model.measured import AGAIN, Likelihood, Measured, stated
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_check.users.claims import unit_of
from policyc_runtime.planned_release import AdaptiveRelease, DerivedRelease, Scheduled

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan
    from policyc_runtime.schedule import Schedule


def likelihood_of(plan: Plan, release: ReleasePlan, suffix: str) -> Likelihood:
    """The likelihood of a release: of its own mechanism, or of that of the release it is made of."""
    if isinstance(release, Scheduled):
        return _of_steps(release, suffix)
    base, totals = measured_release(plan, release)
    found = stated(base.mechanism, Measured(plan, base, unit_of(plan, base), suffix))
    if isinstance(base.query, PrefixQuery | WindowQuery) and found.of_steps:
        totals = [*totals, base]
    if not totals:
        return found
    widths = [one.query.steps if isinstance(one.query, WindowQuery) else None for one in totals]
    undone = ["the running total" if width is None else f"the total of {width:,} steps" for width in widths]
    what = "its steps" if base is release else f"noisy values of `{base.name}`"
    words = f"{' and '.join(undone)} is undone, which gives {what}; of these: {found.words}"
    return replace(found, words=words, totals=tuple(map(str, widths)))


def measured_release(plan: Plan, release: ReleasePlan) -> tuple[ReleasePlan, list[ReleasePlan]]:
    """The release whose noisy values these are made of, and the totals between, this one first; itself if it is one."""
    totals: list[ReleasePlan] = []
    while isinstance(release, DerivedRelease):
        totals.append(release)
        release = plan.release_named(release.query.of)
    return release, totals


def _of_steps(release: Scheduled, suffix: str) -> Likelihood:
    """Discrete Laplace noise whose scale follows from the budget of every step."""
    schedule = release.schedule
    words = "discrete Laplace noise of a known scale a step: sum of |r - noisy| / scale"
    if release.balanced:
        words += "; it adds up to zero over the cells of a step, which changes nothing where the sum is known"
    if isinstance(release, AdaptiveRelease):
        words = AGAIN
    if all(len(segment.scales) == segment.repeats == 1 for segment in schedule.segments):
        scales = [str(float(segment.scales[0])) for segment in schedule.segments]
        lines = sequence(scales, f"SCALES{suffix} = [(", ", 1)]")
    else:
        lines = [f"SCALES{suffix} = ["]
        for segment in schedule.segments:
            lines += sequence([str(float(scale)) for scale in segment.scales], "    (", f", {segment.repeats}),")
        lines.append("]")
    return Likelihood(
        "laplace_steps",
        words,
        (f"# noise scales: (those of a pattern of steps, how often it comes){_skipping(schedule)}", *lines),
        laplace=True,
        variance=f"2 * scale(len(steps) // 2, SCALES{suffix}) ** 2",
        options={"skips": bool(_skipping(schedule))},
    )


def _skipping(schedule: Schedule) -> str:
    skips = any(scale == 0 for segment in schedule.segments for scale in segment.scales)
    return "; 0 where nothing is released" if skips else ""
