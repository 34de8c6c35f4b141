"""Combinations of everything that a policy can say: what each is as a policy, and with which findings it may end.

A combination is one word a dimension. All of them are too many, so planes of two to four dimensions are taken whole,
and the others have values drawn by chance with a fixed seed.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from itertools import chain, islice, product
from pathlib import Path

import numpy as np

STEPS = 12
USERS = 40
CELLS = ("A", "B", "C")
START = datetime(2026, 1, 5, tzinfo=UTC)
BEFORE = datetime(2026, 10, 25, tzinfo=UTC)  # the night when the clock of Berlin is put back
LEVELS_WITH_GAPS = 12  # the last of all
BY_A_CLOCK = 40  # one of so many is tried by a clock too

_USER = "user_level(epsilon = 2.0, delta = 1e-4, neighbors = {})"
TARGETS = {
    "alpha": ("alpha_dpt(alpha = 1.0)",),
    "alpha, window": ("alpha_dpt(alpha = 1.0, window = 3 steps)",),
    "event": ("event_level(epsilon = 1.0)",),
    "w_event": ("w_event(epsilon = 1.0, window = 3 steps)",),
    "event, delta": ("event_level(epsilon = 1.0, delta = 1e-4)",),
    "w_event, delta": ("w_event(epsilon = 1.0, window = 3 steps, delta = 1e-4)",),
    "event, added": ("event_level(epsilon = 1.0, neighbors = add_remove)",),
    "alpha + event": ("alpha_dpt(alpha = 1.0)", "event_level(epsilon = 0.5)"),
    "alpha + w_event": ("alpha_dpt(alpha = 1.0)", "w_event(epsilon = 1.0, window = 3 steps)"),
    "alpha + event, added": ("alpha_dpt(alpha = 1.0)", "event_level(epsilon = 0.5, neighbors = add_remove)"),
    "alpha + w_event, delta": (
        "alpha_dpt(alpha = 1.0)",
        "w_event(epsilon = 1.0, window = 3 steps, delta = 1e-4, neighbors = add_remove)",
    ),
    "alpha + window": ("alpha_dpt(alpha = 1.0)", "alpha_dpt(alpha = 1.5, window = 3 steps)"),
    "event + w_event": ("event_level(epsilon = 0.5)", "w_event(epsilon = 1.0, window = 1 step)"),
    "add_remove": (_USER.format("add_remove"),),
    "replace": (_USER.format("replace"),),
    "pure": ("user_level(epsilon = 2.0, delta = 0, neighbors = add_remove)",),
    "pure, replaced": ("user_level(epsilon = 2.0, delta = 0, neighbors = replace)",),
    "rho": ("user_level(rho = 0.3, neighbors = add_remove)",),
    "rho, replaced": ("user_level(rho = 0.3, neighbors = replace)",),
    "event + user": ("event_level(epsilon = 0.5)", _USER.format("replace")),
    "w_event + user": (
        "w_event(epsilon = 1.0, window = 3 steps)",
        "user_level(epsilon = 3.0, delta = 0, neighbors = replace)",
    ),
    "alpha + user": ("alpha_dpt(alpha = 1.0)", "user_level(epsilon = 1.5, delta = 1e-4, neighbors = add_remove)"),
    "alpha + user, rho": ("alpha_dpt(alpha = 1.0)", "user_level(rho = 0.1, neighbors = add_remove)"),
    "event + period": (
        "event_level(epsilon = 0.5)",
        "user_level(epsilon = 1.0, delta = 0, neighbors = replace, per = 4h)",
    ),
    "alpha + period": (
        "alpha_dpt(alpha = 1.0)",
        "user_level(epsilon = 1.0, delta = 1e-4, neighbors = add_remove, per = 4h)",
    ),
    "event + part": (
        "event_level(epsilon = 0.5)",
        "user_level(epsilon = 0.4, delta = 0, neighbors = add_remove, per = 20min)",
    ),
    "alpha + part": (
        "alpha_dpt(alpha = 1.0)",
        "user_level(epsilon = 0.4, delta = 1e-4, neighbors = replace, per = 20min)",
    ),
}
USER_LEVEL = ("add_remove", "replace")
ADDED = ("pure", "pure, replaced", "rho", "rho, replaced")  # whose losses add up
MEASURED = ("event, delta", "w_event, delta", "event, added")  # whose noise is accounted for as that of a whole user
WINDOWS = ("event", "w_event", *MEASURED)
TOGETHER = (
    "event + w_event",
    "event + user",
    "w_event + user",
    "event + period",
    "event + part",
)  # kept by budgets, or by the noise of all steps
PURE = ("pure", "pure, replaced", "event", "w_event", "event, added", *TOGETHER)
BESIDE = (
    "event + user",
    "w_event + user",
    "alpha + user",
    "alpha + user, rho",
    "event + period",
    "alpha + period",
    "event + part",
    "alpha + part",
)  # all of a user beside steps, whose budgets keep it
SINGLE_STEPS = tuple(
    name for name in TARGETS if name not in MEASURED and (name in BESIDE or "user_level" not in TARGETS[name][0])
)
LEAKS = tuple(name for name in TARGETS if "alpha" in name)

RELEASES = {
    "count": ("r = count(s)",),
    "by cell": ("r = count(s) by place",),
    "by cell, otherwise": ("r = count(s) by place",),
    "sum": ("r = sum(s.speed, clamp = 0 .. 10)",),
    "sum by cell": ("r = sum(s.speed, clamp = 0 .. 10) by place",),
    "signed sum": ("r = sum(s.speed, clamp = -5 .. 10)",),
    "prefix": ("base = count(s)", "r = prefix(base)"),
    "window": ("base = count(s)", "r = window(base, 4 steps)"),
    "prefix by cell": ("base = count(s) by place", "r = prefix(base)"),
    "window of sums": ("base = sum(s.speed, clamp = 0 .. 10)", "r = window(base, 4 steps)"),
    "window of totals": ("base = count(s)", "total = prefix(base)", "r = window(total, 4 steps)"),
    "two": ("r = count(s) by place", "all = count(s)"),
    "count and sum": ("r = count(s)", "speed = sum(s.speed, clamp = 0 .. 10)"),
    "three": ("r = count(s)", "so_far = prefix(r)", "speed = sum(s.speed, clamp = 0 .. 10)"),
    "blocks": ("r = count(s)", "four = total(r, 4 steps)", "eight = total(four, 8 steps)"),
    "blocks by cell": ("r = count(s) by place", "four = total(r, 4 steps)", "each = ratio(four, population)"),
    "changes": ("r = count(s)", "moved = change(r, baseline = median(every = 2 steps, steps = 1 .. 5))"),
    "shares": ("r = count(s) by place", "all = count(s)", "share = ratio(r, all, times = 100)"),
    "a level": ("r = count(s) by zone",),
    "levels": ("r = count(s) by place", "zones = count(s) by zone", "of = ratio(r, zones)"),
    "agreeing levels": ("r = count(s) by place", "zones = count(s) by zone"),
    "levels along two ways": ("r = count(s) by place", "zones = count(s) by zone", "kinds = count(s) by kind"),
    "sums at a level": ("r = count(s) by zone", "speed = sum(s.speed, clamp = 0 .. 10) by zone"),
    "means": ("r = sum(s.speed, clamp = 0 .. 10)", "four = total(r, 4 steps)", "n = count(s)", "mean = mean(r, n)"),
}
MADE = ("total(", "change(", "ratio(", "mean(")  # of released values: they are not planned
ADAPTS = ("budget_distribution", "budget_absorption")
SKIPPING = ("subsample", "filter_subsample")
COUNTS = ("count", "by cell", "by cell, otherwise", "two", "a level")
TOTALS_OF_COUNTS = ("prefix", "window", "prefix by cell", "window of totals")
SUMS = ("sum by cell", "count and sum", "window of sums", "sums at a level")
AGREEING = ("agreeing levels", "levels along two ways")
COUNTS_AND_MADE = (*COUNTS, "blocks", "blocks by cell", "changes", "shares", "levels", *TOTALS_OF_COUNTS)
TOTALS = tuple(name for name in RELEASES if any("prefix" in text or "window" in text for text in RELEASES[name]))

MECHANISMS = (
    "auto",
    "laplace()",
    "gaussian()",
    "binomial()",
    "dft()",
    "dft(coefficients = 4)",
    "dft(choose = true)",
    "dft(coefficients = 3, noise = laplace)",
    "fast()",
    "fast(samples = 5, process_sd = 3)",
    "budget_distribution()",
    "budget_absorption()",
    "budget_absorption(window = 4 steps)",
    "binary_tree()",
    "subsample(rate = 0.5)",
    "subsample(rate = 0.5, sampling = fixed_size)",
    "subsample(rate = 0.25, sampling = stratified)",
    "filter_subsample(rate = 0.5)",
    "filter_subsample(rate = 0.5, filter = average)",
    "lmmse()",
    "lmmse(weight = 0.5)",
    "lmmse(weight = 0.6, decay = 0.95)",
    "lmmse(noise = binomial)",
    "toeplitz()",
    "common_noise()",
)
BUDGETED, ADAPTIVE = (
    ("auto", "laplace()"),
    ("budget_distribution()", "budget_absorption()", "budget_absorption(window = 4 steps)"),
)
GAUSSIAN = ("dft()", "dft(coefficients = 4)", "dft(choose = true)")
BUDGETS = ("auto", "uniform()", "bounded()", "quantified()", "optimal()", "sparse(every = 3 steps)")
ESTIMATES = (
    "auto",
    "none()",
    "mle()",
    "map(prior = initial)",
    "map(prior = uniform)",
    "map(prior = frequency)",
    "joint_map()",
    "filter()",
    "smoother()",
    "smoother(observation_noise = true)",
    "linear()",
)
DELIVERIES = ("realtime", "within(3 steps)", "offline")
SIGNALS = {
    "none": None,
    "declared": 'ar1(mean = 20, sd = 4, autocorrelation = 0.7, evidence = "e")',
    "learned": "ar1(learned = true)",
    "seasonal": "seasonal_ar1(period = 4 steps, mean = 20, seasonal_sd = 4, residual_sd = 2, autocorrelation = 0.5, "
    'evidence = "e")',
    "learned season": "seasonal_ar1(period = 4 steps, learned = true)",
    "noisy": "ar1(learned = true, observation_noise = true)",
    "binomial": 'binomial_ar1(mean = 20, autocorrelation = 0.7, evidence = "e")',
    "pilot": 'pilot(file("pilot.csv"), evidence = "e")',
    "autoregressive": 'ar(coefficients = [0.9, -0.4], sd = 4, mean = 20, evidence = "e")',
    "autocovariance": 'autocovariance(lags = [16, 10, 4], mean = 20, evidence = "e")',
}
OF_ONE_SERIES = ("declared", "seasonal", "binomial", "pilot", "autoregressive", "autocovariance")
CONSTRAINTS = {
    "none": (),
    "nonnegative": ("r >= 0",),
    "whole": ("r >= 0", "integer(r)"),
    "total": ("sum(r) == population", "r >= 0", "integer(r)"),
    "steady": ("r - previous(r) <= 8",),
    "few shown": ("suppress(r, below = 12)",),
    "whole shown": ("r >= 0", "integer(r)", "suppress(r, below = 15.5)"),
    "certain": ('suppress(r, error_above = "40 %", chance = 0.2)',),
}
HORIZONS = ("ends", "unbounded")
CHAINS = ("mixing", "ring", "groups", "shared", "half known", "drawn start")
OBJECTIVES = ("mean_squared_error", "mean_absolute_error")
PER = "per = 4h"  # three periods
PER_DAY = "per = 1d"  # in its place where days are those of a clock
CLOCKS = ("no clock", 'clock "Europe/Berlin"')
CELLS_PER_STEP = "cells_per_step = 2"
PARTICIPATIONS = (
    "4 steps, enforced = keep_first",
    "4 steps, per_step = 2, spacing = 2 steps, enforced = keep_first",
    '12 steps, assumed = "so it is"',
    f"2 steps, {PER}, enforced = keep_first",
    f"4 steps, {PER}, enforced = keep_first",
    f"3 steps, {CELLS_PER_STEP}, enforced = keep_first",
)
OF_PERIODS = tuple(text for text in PARTICIPATIONS if PER in text)
DENSE = ("auto", "common_noise()")  # where users are in many steps of a period
SERIES = ("auto", "none()", "filter()", "smoother()")


@dataclass(frozen=True)
class Combination:
    """A policy as one word a dimension; the plainest where nothing is said."""

    target: str = "event"
    release: str = "count"
    mechanism: str = "auto"
    budget: str = "auto"
    estimate: str = "auto"
    deliver: str = "realtime"
    signal: str = "none"
    constraint: str = "none"
    horizon: str = "ends"
    chain: str = "mixing"
    objective: str = OBJECTIVES[0]
    participation: str = PARTICIPATIONS[0]
    clock: str = CLOCKS[0]

    def named(self) -> str:
        """What differs from the plainest."""
        plain = Combination()
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        differs = [text for name, text in said.items() if text != getattr(plain, name) or name in ("target", "release")]
        return "; ".join(differs)

    @cached_property
    def through_chains(self) -> bool:
        """Whether sums are published of users of whose moves a promise is about."""
        return self.target in LEAKS and any("sum(s" in text for text in RELEASES[self.release])

    @cached_property
    def windowed(self) -> bool:
        """Whether a promise about steps is accounted for as one about all of a user, since budgets cannot say it."""
        if self.through_chains:
            return True
        if self.target not in (*WINDOWS, *TOGETHER):
            return False
        words = ("sum(s", *(() if self.target in TOGETHER else ("prefix", "window", "zone")))
        asked = self.agrees or any(word in text for text in RELEASES[self.release] for word in words)
        return asked or self.mechanism not in (*(() if self.target in MEASURED else BUDGETED), *ADAPTIVE)

    @cached_property
    def user_level(self) -> bool:
        """Whether all events of a user are promised, be it in a window."""
        return self.windowed or "user_level" in TARGETS[self.target][0]

    @cached_property
    def several(self) -> bool:
        """Whether a user counts in several cells."""
        return self.user_level and not self.windowed and CELLS_PER_STEP in self.participation

    @cached_property
    def periods(self) -> bool:
        """Whether a promise is about periods of a user."""
        return not self.windowed and PER in self.participation

    @cached_property
    def replaced(self) -> bool:
        """Whether neighbors replace a user."""
        replaced = any("neighbors = replace" in text for text in TARGETS[self.target])
        return replaced or (self.windowed and self.target != "event, added")

    @cached_property
    def unable(self) -> bool:
        """Whether the noise of the mechanism that is named cannot keep the promise."""
        gaussian = ("gaussian", "binary_tree", "filter_subsample", "lmmse", "toeplitz", "common_noise")
        if "budget_" in self.mechanism:
            return False
        unknown = "binomial" in self.mechanism or self.mechanism.startswith("subsample")
        if self.target in LEAKS:
            return unknown or self.mechanism.startswith(gaussian) or self.mechanism in GAUSSIAN
        if self.target not in ADDED and not (self.windowed and self.target in PURE):
            return False
        return unknown or (self.target in PURE and self.mechanism.startswith(gaussian))

    @cached_property
    def unasked(self) -> tuple[str, ...]:
        """Dimensions that mean nothing under this target."""
        if self.windowed:
            return ("participation",) if self.through_chains else ("participation", "chain")
        if self.user_level:
            return ("chain",)
        return ("participation", "signal") if self.target in LEAKS else ("participation", "signal", "chain")

    @cached_property
    def demands(self) -> bool:
        """Whether anything is demanded of values, not only which of them are shown."""
        return any(not text.startswith("suppress") for text in CONSTRAINTS[self.constraint])

    @cached_property
    def by_cell(self) -> bool:
        """Whether something is published by cell."""
        return any(" by " in text for text in RELEASES[self.release])

    @cached_property
    def levels(self) -> bool:
        """Whether something is published by what cells belong to."""
        return any(text.endswith("by zone") for text in RELEASES[self.release])

    @cached_property
    def agrees(self) -> bool:
        """Whether values are made to add up to those of another release."""
        return self.release in AGREEING

    @cached_property
    def gaps_in_levels(self) -> bool:
        """Whether values of levels that agree are left out, which has a plane of its own."""
        return self.agrees and any(text.startswith("suppress") for text in CONSTRAINTS[self.constraint])

    @cached_property
    def wait(self) -> int | None:
        """How many later steps a value waits for, None for all."""
        return {"realtime": 0, "within(3 steps)": 3, "offline": None}[self.deliver]

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """The cells of the stream, `otherwise` last; none where nothing needs them."""
        beside = self.target in BESIDE and self.by_cell and not self.windowed
        if self.target in LEAKS or "otherwise" in self.release or beside:
            return (*CELLS, "away")
        return CELLS if self.by_cell else ()

    def policy(self) -> str:
        """The policy."""
        cell = ""
        if self.cells:
            listed = ", ".join(f'"{name}"' for name in CELLS)
            cell = (
                'cell place in file("places.csv") levels(zone, kind)' if self.levels else f"cell place in {{{listed}}}"
            )
            cell += ' otherwise "away"' if self.cells[-1] == "away" else ""
        bound = f"2 steps, {PER}" if "period" in self.target else "4 steps"
        bound = "1 steps, per = 20min" if "part" in self.target else bound
        start = 'start "2026-01-05"' if self.clock == CLOCKS[0] else f'start "{BEFORE:%Y-%m-%d}" {self.clock}'
        lines = [
            'policy combined "a combination"',
            f"stream s {{ user u time t {cell} step 1h {start} population {USERS}",
            f"  horizon {'unbounded' if self.horizon == 'unbounded' else f'{STEPS} steps'} }}",
            *(f"release {text}" for text in RELEASES[self.release]),
            *(f"target {text}" for text in self._targets()),
            *(self._chains() if self.target in LEAKS else ()),
            *([f"participation at_most({self.participation})"] if self.user_level and not self.windowed else ()),
            *([f'participation at_most({bound}, assumed = "so it is")'] if self.target in BESIDE else ()),
            *([f"signal {SIGNALS[self.signal]}"] if SIGNALS[self.signal] else ()),
            f"deliver {self.deliver}",
            f"objective {self.objective}",
            f"budget {self.budget}",
            f"mechanism {self.mechanism}",
            f"estimate {self.estimate}",
        ]
        sums = ["sum(r) == zones", "sum(r) == kinds"][: len(RELEASES[self.release]) - 1] if self.agrees else []
        asked = (*CONSTRAINTS[self.constraint], *sums)
        if asked:
            lines.append(f"postprocess r {{ {', '.join(asked)} }}")
        if "suppress" in lines[-1] and any(text.startswith("speed = ") for text in RELEASES[self.release]):
            lines.append("postprocess speed { suppress(speed, where = r) }")
        text = "\n".join(lines) + "\n"
        return text if self.clock == CLOCKS[0] else text.replace(PER, PER_DAY)

    def _targets(self) -> Iterator[str]:
        for text in TARGETS[self.target]:
            about_periods = PER in self.participation and "user_level" in text
            yield f"{text.removesuffix(')')}, {PER})" if about_periods else text

    def _chains(self) -> Iterator[str]:
        mixing = "[[0.6, 0.2, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2], [0.2, 0.1, 0.1, 0.6]]"
        slow = "[[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]"
        ring = "[[0.6, 0.4, 0, 0], [0, 0.6, 0.4, 0], [0, 0, 0.6, 0.4], [0.4, 0, 0, 0.6]]"
        start = "[0.4, 0.3, 0.2, 0.1]" if self.chain == "drawn start" else "stationary"
        matrix = ring if self.chain == "ring" else mixing
        named = " for walkers" if self.chain in ("groups", "shared", "half known") else ""
        part, rest = ("share = 0.3, ", "share = 0.7, ") if self.chain == "shared" else ("", "")
        said = 'amounts = by_cell, evidence = "e"' if self.through_chains else 'evidence = "e"'
        yield f"correlation markov(forward = {matrix}, initial = {start}, {part}{said}){named}"
        if self.chain in ("groups", "shared"):
            yield f"correlation markov(forward = {slow}, initial = stationary, {rest}{said}) for riders"
        if self.chain == "half known":
            yield 'correlation none(evidence = "e") for riders'


def refusals(one: Combination) -> set[str]:
    """The findings with which `check` ends, exactly; or those with which planning may end. None: it compiles."""
    return checked(one) or set(_planned(one))


def compiles(one: Combination) -> bool:
    """Whether there are no `refusals`; the first one ends the search."""
    return next(chain(_unfit(one), _planned(one)), None) is None


def checked(one: Combination) -> set[str]:
    """The findings with which `check` ends, exactly."""
    return set(_unfit(one))


def _unfit(one: Combination) -> Iterator[str]:
    mechanism, estimate = one.mechanism.split("(")[0], one.estimate.split("(")[0]
    steps = not one.user_level
    adaptive = mechanism in ("budget_distribution", "budget_absorption")
    if steps and one.release not in (*COUNTS_AND_MADE, *AGREEING):
        yield "E0702"
    budgets = mechanism in ("auto", "laplace") or (adaptive and ("w_event" in one.target or "window" in one.mechanism))
    if steps and not budgets and not (one.target in LEAKS and one.unable):
        yield "E0702"
    if one.user_level and (one.budget != "auto" or (adaptive and not (one.windowed and budgets))):
        yield "E0702"
    if one.through_chains and mechanism not in ("auto", "laplace") and not one.unable:
        yield "E0702"
    events_added = one.through_chains and one.target in ("alpha + event, added", "alpha + w_event, delta")
    if events_added and one.by_cell:
        yield "E0314"
    often = one.several or (not one.windowed and "per_step = 2" in one.participation)
    if one.user_level and one.release == "by cell, otherwise" and (often or not one.replaced):
        yield "E0314"
    if one.unable:
        yield "E0313"
    if mechanism in ("dft", *SKIPPING) and (one.wait == 0 or (one.wait and mechanism != "dft")):
        yield "E0703"
    if estimate in ("smoother", "linear", "joint_map") and (one.wait == 0 or (one.wait and estimate == "joint_map")):
        yield "E0704"
    if one.wait is None and one.horizon == "unbounded":
        yield "E0705"
    several = one.several
    if one.agrees and several:
        yield "E0722"
    totals = (*TOTALS_OF_COUNTS, "window of sums")  # made of released values
    if (steps or one.through_chains) and one.release in totals and one.demands:
        yield "E0236"
    added = "add_remove" in TARGETS[one.target][0]
    if one.release == "blocks by cell" and one.user_level and added:
        yield "E0235"
    if several and not one.cells:
        yield "E0508"
    if one.windowed and one.target in BESIDE and one.constraint == "total" and one.cells == CELLS:
        yield "E0304"
    if steps and added and one.by_cell and one.cells == CELLS:
        yield "E0304"
    if one.constraint == "total" and ((one.user_level and added) or (several and one.by_cell) or events_added):
        yield "E0602"
    if one.constraint == "total" and not one.by_cell:
        yield "E0610"
    if mechanism in SKIPPING and one.user_level and one.release in TOTALS and not one.through_chains:
        yield "E0611"
    if one.user_level and estimate in ("map", "joint_map"):
        yield "E0756"


def _planned(one: Combination) -> Iterator[str]:
    chains = {"groups": 2, "half known": 2}.get(one.chain, 1) if one.target in LEAKS else 0
    beliefs = one.constraint == "total" and one.release not in (
        "two",
        "shares",
        "levels",
    )  # what the cells of all releases add up to
    mechanism, estimate = one.mechanism.split("(")[0], one.estimate.split("(")[0]
    beliefs = beliefs or (one.agrees and mechanism == "auto" and not one.user_level)  # noise that adds up to nothing
    plain = mechanism in ("gaussian", "laplace", "binomial", "common_noise") or (
        not one.user_level and mechanism == "auto"
    )
    plain = plain and (one.user_level or one.release != "window of totals")
    unsaid = one.agrees or not (plain and estimate == "none")  # whether errors are known is not said here
    if one.constraint == "certain" and unsaid:
        yield "E0752"
    if not one.user_level:
        if one.budget not in ("auto", "uniform()", *([] if chains == 0 else ["bounded()"])):
            yield from ("E0751", "E0760")
        if one.budget == "uniform()" and one.horizon == "unbounded":
            yield "E0751"
        needs_chain = estimate in ("joint_map", "filter", "smoother")
        usual = estimate in ("auto", "none", "mle") or (beliefs and chains == 1)
        usual = usual or (beliefs and chains == 0 and not needs_chain and "initial" not in one.estimate)
        if not usual or one.estimate in ("linear()", ESTIMATES[9]) or (estimate == "none" and one.demands):
            yield "E0752"
        if "budget_" in mechanism and one.estimate != "auto":
            yield "E0752"
        if estimate == "smoother" and one.wait is not None:
            yield "E0752"
        return
    own = [text for text in RELEASES[one.release] if not any(word in text for word in MADE)]
    single = len(own) == 1 + (one.release in TOTALS) + (one.release == "window of totals")
    known = single and one.signal in OF_ONE_SERIES  # of what it is the signal
    sums = any("sum(" in text for text in RELEASES[one.release])
    if estimate == "none" and one.demands:
        yield "E0752"
    if (estimate == "filter" and one.wait is None) or (estimate in ("smoother", "linear") and one.wait is not None):
        yield "E0752"
    if estimate in ("filter", "smoother") and mechanism in ("lmmse", "fast", "dft", *ADAPTS) and not known:
        yield "E0755"
    if estimate == "filter" and mechanism == "dft" and one.wait:  # it would wait again
        yield "E0755"
    if (estimate == "linear" and mechanism not in SKIPPING) or (estimate in ("none", "mle") and mechanism in SKIPPING):
        yield "E0755"
    if (mechanism == "fast" and one.by_cell) or (mechanism in ("binary_tree", "toeplitz") and one.horizon != "ends"):
        yield "E0755"
    if one.agrees and mechanism not in ("auto", "laplace", "gaussian", "binomial", *ADAPTS):
        yield "E0755"
    still = one.replaced or one.release == "signed sum" or (one.horizon != "ends" and not one.periods)
    if mechanism == "common_noise" and still:  # the number of users tells nothing, or nobody knows of how many steps
        yield "E0755"
    if mechanism == "subsample" and one.replaced and (one.by_cell or one.release == "signed sum"):
        yield "E0755"
    if mechanism == "subsample" and one.by_cell and one.several:
        yield "E0755"
    pure = one.target in PURE or one.through_chains
    if sums and ("binomial" in one.mechanism or "laplace" in one.mechanism) and not pure:
        yield "E0755"  # more coins, or more different losses, than fit a machine


def every_combination() -> list[Combination]:
    """All planes, without what comes twice."""
    drawn = random.Random(10)
    plain = Combination()

    def filled(**given: str) -> Combination:
        """A combination with these words, the others drawn; one that compiles, where twenty draws find it."""
        for _ in range(20):
            others = {
                "release": drawn.choice(list(RELEASES)),
                "mechanism": drawn.choice(["auto", *MECHANISMS]),
                "budget": drawn.choice(["auto", *BUDGETS]),
                "estimate": drawn.choice(["auto", "auto", *ESTIMATES]),
                "deliver": drawn.choice(DELIVERIES),
                "signal": drawn.choice(list(SIGNALS)),
                "constraint": drawn.choice(list(CONSTRAINTS)),
                "horizon": drawn.choice(["ends", *HORIZONS]),
                "chain": drawn.choice(CHAINS),
                "objective": drawn.choice(OBJECTIVES),
                "participation": drawn.choice(PARTICIPATIONS),
            }
            found = Combination(**{"target": drawn.choice(list(TARGETS)), **others, **given})
            found = replace(found, **{word: getattr(plain, word) for word in found.unasked})
            if not found.gaps_in_levels and compiles(found):
                break
        return found

    planes = (
        {"target": SINGLE_STEPS, "release": COUNTS, "estimate": ESTIMATES, "deliver": DELIVERIES},
        {"target": SINGLE_STEPS, "budget": BUDGETS, "constraint": CONSTRAINTS, "horizon": HORIZONS},
        {"target": SINGLE_STEPS, "mechanism": MECHANISMS},
        {"target": SINGLE_STEPS, "release": COUNTS_AND_MADE[len(COUNTS) :], "constraint": CONSTRAINTS},
        {"target": TARGETS, "release": RELEASES},
        {"target": LEAKS[:3], "release": SUMS, "mechanism": MECHANISMS},
        {"target": LEAKS, "release": SUMS[:1], "chain": CHAINS, "deliver": DELIVERIES},
        {"target": ("alpha",), "release": SUMS[:2], "estimate": ESTIMATES, "deliver": DELIVERIES},
        {"target": (*LEAKS, "replace"), "constraint": ("none", "whole", "total"), "estimate": ("auto",)}
        | {"release": AGREEING, "mechanism": ("auto", "laplace()", "budget_absorption(window = 4 steps)")},
        {"target": ("alpha", "event", "rho", "pure"), "constraint": ("none", "whole", "steady", "total")}
        | {"release": AGREEING[1:], "mechanism": ("auto",), "estimate": ("auto", "filter()")},
        {
            "target": ("alpha", "event", "rho"),
            "release": ("agreeing levels",),
            "constraint": ("none", "steady", "total"),
        }
        | {"estimate": ESTIMATES, "deliver": DELIVERIES, "mechanism": ("auto",)},
        {"target": USER_LEVEL, "release": RELEASES, "mechanism": MECHANISMS},
        {"target": USER_LEVEL, "mechanism": MECHANISMS, "estimate": ESTIMATES, "deliver": DELIVERIES},
        {"target": USER_LEVEL, "mechanism": MECHANISMS, "signal": SIGNALS},
        {"target": USER_LEVEL, "signal": SIGNALS, "constraint": CONSTRAINTS, "deliver": DELIVERIES},
        {"target": ADDED, "release": RELEASES, "mechanism": MECHANISMS},
        {"target": WINDOWS, "release": RELEASES, "mechanism": MECHANISMS},
        {"target": WINDOWS, "mechanism": MECHANISMS, "deliver": DELIVERIES, "signal": ("none", "declared", "learned")},
        {"target": ADDED, "mechanism": MECHANISMS, "deliver": DELIVERIES},
        {"target": ADDED, "estimate": ESTIMATES, "signal": SIGNALS},
        {"chain": CHAINS[2:5], "estimate": ESTIMATES, "deliver": DELIVERIES, "budget": ("auto", BUDGETS[5])}
        | {"target": ("alpha",), "release": ("by cell", "a level"), "constraint": ("total",), "mechanism": ("auto",)},
        {"participation": OF_PERIODS, "horizon": HORIZONS, "mechanism": DENSE, "estimate": SERIES, "signal": SIGNALS}
        | {"target": ("add_remove", "rho")},
        {"participation": OF_PERIODS, "horizon": HORIZONS, "mechanism": DENSE, "estimate": SERIES, "clock": CLOCKS[1:]}
        | {"target": ("add_remove", "rho")},
    )
    found = [filled(**dict(zip(plane, words, strict=True))) for plane in planes for words in product(*plane.values())]
    by_a_clock = (replace(one, clock=CLOCKS[1]) for one in found[::BY_A_CLOCK])
    words = product(("alpha", "event", "rho", "pure"), ("few shown", "whole shown", "certain"))
    gaps = [Combination(target=target, release="agreeing levels", constraint=rule) for target, rule in words]
    return list(dict.fromkeys([*found, *by_a_clock, *gaps]))


def a_sample() -> list[Combination]:
    """Few of them, in which every word of every dimension that compiles does so at least once, and some refused."""
    everything = every_combination()
    everything, gaps = everything[:-LEVELS_WITH_GAPS], everything[-LEVELS_WITH_GAPS::4]
    by_a_clock = [one for one in everything if one.clock != CLOCKS[0]]
    everything = [one for one in everything if one.clock == CLOCKS[0]]
    random.Random(3).shuffle(everything)
    everything += by_a_clock
    unseen = {(field.name, getattr(one, field.name)) for one in everything for field in fields(one)}
    chosen = []
    for one in everything:
        said = {(field.name, getattr(one, field.name)) for field in fields(one)}
        if said & unseen and compiles(one):
            chosen.append(one)
            unseen -= said
    by_days = (one for one in by_a_clock if one.user_level and compiles(one))
    shared = [one for one in by_a_clock if one.mechanism == "common_noise()" and one.horizon != "ends"]
    shared = [one for one in shared if compiles(one)][-2:]
    return [*chosen, *islice(by_days, 6), *shared, *gaps, *islice(filter(refusals, everything), 40)]


@cache
def _events(start: datetime, *, always: bool) -> tuple[tuple[str, ...], ...]:
    """Users who come and go between cells, with a speed: rows of a file; everybody at most once a step, or exactly."""
    generator = np.random.default_rng(5)
    rows = []
    for user in range(USERS):
        place = int(generator.integers(len(CELLS)))
        for step in range(STEPS):
            if generator.random() < 0.4:
                place = int(generator.integers(len(CELLS)))
            if always or generator.random() < 0.5:
                moment = start + timedelta(hours=step, minutes=int(generator.integers(60)))
                speed = f"{generator.normal(4, 4):.2f}"
                zone = "" if start == START else "Z"
                rows.append((f"u{user}", f"{moment:%Y-%m-%dT%H:%M:%S}{zone}", CELLS[place], speed))
    return tuple(rows)


def write_files(one: Combination, folder: Path) -> Path:
    """The policy, and a pilot that it may name, and events; the events' path."""
    (folder / "combined.policy").write_text(one.policy())
    start = START if one.clock == CLOCKS[0] else BEFORE - timedelta(hours=2)
    everywhere = not one.user_level and one.cells == CELLS  # where everybody has to be in one of the cells
    with (folder / "events.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("u", "t", "place", "speed"), *_events(start, always=everywhere)])
    (folder / "places.csv").write_text("place,zone,kind\nA,west,old\nB,west,new\nC,east,old\n")
    pilot = np.rint(20 + 5 * np.sin(np.arange(STEPS)))
    (folder / "pilot.csv").write_text("count\n" + "\n".join(f"{value:.0f}" for value in pilot) + "\n")
    return folder / "events.csv"
