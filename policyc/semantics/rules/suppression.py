"""What is left out of a release: can a reader put it back, and what is left of totals?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Made, Policy, Release
from policyc.semantics.postprocessing import Agreement, Postprocess, Suppression
from policyc.semantics.targets import UserLevelTarget

KEPT = "the promise is not touched: values that are left out protect nobody, they keep readers from noise"


def check_suppression(policy: Policy) -> Iterator[Diagnostic]:
    """E0712 where another release says nothing, W0706 where values that are shown tell one that is not.

    W0707 where totals are left out for good.
    """
    by_name = {release.name: release for release in policy.releases}
    for block in policy.postprocess:
        yield from _says_nothing(policy, block, by_name)
        yield from _made_of_shown(policy, block)
    for block in policy.postprocess:
        if not block.suppressions or block.release not in by_name:
            continue
        release, first = by_name[block.release], block.suppressions[0]
        yield from _filled_in(policy, block, release, first)
        yield from _added_up(policy, release, first)
        totals = [(total, total.base) for total in policy.releases] + [(total, total.of) for total in policy.made]
        for total, of in totals:
            if of == release.name and total.kind == "prefix":
                yield Diagnostic(
                    "W0707",
                    f"`{total.name}` ends where the first value of `{release.name}` is left out",
                    first.span,
                    because="the difference of two running totals would show what is left out, so every total of such "
                    "a value is left out too",
                    help=f"publish `window({release.name}, 7 steps)` in its place, which comes back when the gap has "
                    f"left it; or leave no values of `{release.name}` out",
                    labels=(Label(total.span, "made of it"),),
                )


def check_shown(release: str, rule: Suppression, least: float) -> Iterator[Diagnostic]:
    """W0708 where no value has so small an error; `least` is the smallest that is kept with the chance of the rule."""
    if rule.error_above is None or rule.relative or least <= float(rule.error_above):
        return
    yield Diagnostic(
        "W0708",
        f"no value of `{release}` is shown: the smallest `error_above` that is kept with this `chance` is {least:.4g}",
        rule.span,
        because="the error of a value follows from its noise alone, not from the value, and the noise from the promise",
        help=f"write `error_above = {math.ceil(least):_}` or more; or a part of the value, such as "
        '`error_above = "25 %"`, which large values keep; or allow a larger chance or epsilon',
    )


def _says_nothing(policy: Policy, block: Postprocess, by_name: dict[str, Release]) -> Iterator[Diagnostic]:
    """E0712: `where` names a release with other cells, one of which nothing is left out, or one that asks back."""
    made = {one.name: one for one in policy.made}
    release = by_name.get(block.release) or made[block.release]
    for rule in block.suppressions:
        other = by_name.get(rule.where or "") or made.get(rule.where or "")
        if other is None:
            continue
        asked = policy.constraints_of(other.name)
        because = "a value is left out where that of the same cell and step is"
        if other.by != release.by:
            problem = f"`{other.name}` has other cells than `{release.name}`"
            remedy = "name a release that is split in the same way"
        elif not _comes_before(policy, other, release):
            problem = f"`{other.name}` does not come before `{release.name}` with rows of the same steps"
            remedy = f"name another release, or write a threshold of its own: `suppress({release.name}, below = 90)`"
        elif asked is None or not asked.suppressions:
            problem = f"nothing is left out of `{other.name}`"
            remedy = f"write `postprocess {other.name} {{ suppress({other.name}, below = 90) }}` too, or leave this out"
        elif isinstance(other, Release) and release.name in _followed(policy, other, by_name):
            problem = f"`{other.name}` is shown where `{release.name}` is, and `{release.name}` where `{other.name}` is"
            because, remedy = "neither of the two says when", "keep one `where`, and a threshold for the other release"
        else:
            continue
        label = Label(other.span, "this release")
        yield Diagnostic("E0712", problem, rule.span, because=because, help=remedy, labels=(label,))


def _comes_before(policy: Policy, other: Release | Made, release: Release | Made) -> bool:
    """Whether a release has rows of the same steps, and of no earlier ones than another, which may ask for them."""
    if isinstance(other, Made):
        later = policy.made[policy.made.index(other) + 1 :]
        return release in later and other.steps == getattr(release, "steps", 1) and other.first <= release.first
    return getattr(release, "steps", 1) == 1


def _followed(policy: Policy, release: Release, by_name: dict[str, Release]) -> set[str]:
    """The releases that must be shown where one is, directly or not: a total is shown where what it is made of is."""
    found: set[str] = set()
    ahead = [release.name]
    while ahead:
        name = ahead.pop()
        block = policy.constraints_of(name)
        asked = [by_name[name].base, *(rule.where for rule in (block.suppressions if block else ()))]
        new = {other for other in asked if other in by_name and other is not None} - found
        found |= new
        ahead += new
    return found


def _filled_in(policy: Policy, block: Postprocess, release: Release, first: Suppression) -> Iterator[Diagnostic]:
    """W0706: the values of a step add up to something public, so that one that is missing can be computed."""
    equation = next((row for row in block.constraints if row.relation == "==" and len(row.current) > 1), None)
    steps = not any(isinstance(target, UserLevelTarget) for target in policy.targets)
    balanced = (
        steps and release.by is not None and policy.stream.population is not None and policy.mechanism.name == "auto"
    )
    level = _levels(policy, block)
    if equation is None and not balanced and level is None:
        return
    words = "noisy values add up to the public population" if equation is None else f"`{equation.text[:60]}` holds"
    if level is not None:
        yield Diagnostic(
            "W0706",
            f"where a value is left out of `{release.name}`, those of `{level[0]}` may tell it",
            first.span,
            because=f"`{level[1].text[:60]}` holds, so a single gap is what is missing to the sum, and a sum of values "
            f"that are shown is no gap; {KEPT}",
            help="leave it so, or drop the constraint",
            labels=(Label(level[1].span, "by this"),),
        )
        return
    yield Diagnostic(
        "W0706",
        f"where one value of a step is left out of `{release.name}`, the others tell it",
        first.span,
        because=f"{words}, so a single gap is what is missing to the sum; {KEPT}",
        help="leave it so, or drop the constraint" if equation else "leave it so, or write `mechanism laplace()`",
        labels=() if equation is None else (Label(equation.span, "by this"),),
    )


def _levels(policy: Policy, block: Postprocess) -> tuple[str, Agreement] | None:
    """A release whose values add up to those of the block's, or the other way round, and what says so."""
    own = [(one.parent, one) for one in block.agreements]
    others = [(one.release, each) for one in policy.postprocess for each in one.agreements]
    return next(iter([*own, *((name, one) for name, one in others if one.parent == block.release)]), None)


def _added_up(policy: Policy, release: Release, first: Suppression) -> Iterator[Diagnostic]:
    """W0706: a total is left out, and what it may be made of is shown."""
    base = next((other for other in policy.releases if other.name == release.base), None)
    if base is None or _leaves_out(policy, base.name):
        return
    yield Diagnostic(
        "W0706",
        f"what is left out of `{release.name}` can be added up from `{base.name}`",
        first.span,
        because=f"all values of `{base.name}` are shown, and totals are made of their noisy values unless they are "
        f"measured by themselves; {KEPT}",
        help=f"leave small values of `{base.name}` out; its totals are then left out too",
        labels=(Label(base.span, "shown whole"),),
    )


def _made_of_shown(policy: Policy, block: Postprocess) -> Iterator[Diagnostic]:
    """W0706: a total of published values is left out, and all of these are shown."""
    made = {one.name: one for one in policy.made}
    total = made.get(block.release)
    if total is None or total.kind not in ("total", "prefix", "window") or not block.suppressions:
        return
    source: Release | Made = total
    while isinstance(source, Made):
        name = source.of
        if _leaves_out(policy, name):
            return
        source = made.get(name) or next(release for release in policy.releases if release.name == name)
    yield Diagnostic(
        "W0706",
        f"what is left out of `{total.name}` can be added up from `{total.of}`",
        block.suppressions[0].span,
        because=f"all values of `{total.of}` are shown, and `{total.name}` is made of these alone; {KEPT}",
        help=f"leave small values of `{total.of}` out; a total of one that is left out is left out too",
        labels=(Label(source.span, "shown whole"),),
    )


def _leaves_out(policy: Policy, name: str) -> bool:
    """Whether values of a release are left out by a rule of its own."""
    demands = policy.constraints_of(name)
    return demands is not None and bool(demands.suppressions)
