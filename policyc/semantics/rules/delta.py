"""How often a promise may fail: is its delta small enough to be one?"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_FLOOR, Context, Decimal

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Stream
from policyc.semantics.targets import EventLevelTarget, UserLevelTarget, UserStepsTarget, WEventTarget

_NO_PROMISE = Decimal("0.01")  # delta from which a promise fails too often to be one, whoever is in the data
_SMALL = Decimal("1e-5")  # delta that needs no population to be called small
_FAR = 100  # how often delta should go into 1 / population


def check_delta(
    target: EventLevelTarget | WEventTarget | UserLevelTarget | UserStepsTarget, stream: Stream | None
) -> Iterator[Diagnostic]:
    """All findings about the delta of a promise, of a stream, or of the plans of an account."""
    population = None if stream is None else stream.population
    if target.delta is None or target.delta == 0:
        return
    if not 0 < target.delta < 1:
        yield Diagnostic(
            "E0305",
            f"delta is {target.delta:.10g}, and must be between 0 and 1",
            target.span,
            because="delta is the probability with which the promise may fail",
            help="write a number far below 1 / population, such as `delta = 1e-6`, or `delta = 0`",
        )
        return
    of_everybody = None if population is None else 1 / Decimal(population)
    near = of_everybody is not None and target.delta > of_everybody / _FAR
    labels = (Label(stream.population_span or stream.span, "the population"),) if stream is not None and near else ()
    enough = _SMALL if of_everybody is None else min(_SMALL, of_everybody / _FAR)
    remedy = f"write `delta = {_rounded_down(enough)}` or less"
    if of_everybody is not None and target.delta >= of_everybody:
        yield Diagnostic(
            "E0310",
            f"delta is not below 1 / population ({of_everybody:.3g})",
            target.span,
            because="publishing one user's whole record, drawn at random, would keep this promise at every run",
            help=remedy,
            labels=labels,
        )
    elif target.delta >= _NO_PROMISE:
        yield Diagnostic(
            "E0310",
            f"a promise that may fail with probability {target.delta:.10g} is none",
            target.span,
            because=f"publishing everything as it is in one run of {int(1 / target.delta):,} would keep it",
            help=remedy,
        )
    elif target.delta > enough:
        users = (
            "" if population is None or not near else f", one of {population:,} in {_often(target.delta * population)}"
        )
        yield Diagnostic(
            "W0301",
            f"delta is {target.delta:.10g}, and should be at most {_rounded_down(enough)}",
            target.span,
            because=f"publishing each user's whole record with that probability would keep the promise{users}",
            help=remedy,
            labels=labels,
        )


def _rounded_down(delta: Decimal) -> str:
    """One digit of it, no larger."""
    return f"{Context(prec=1, rounding=ROUND_FLOOR).create_decimal(delta):.0e}"


def _often(users: Decimal) -> str:
    """In how many runs one user is published, where so many are on average, below one."""
    return f"about {int(1 / users):,} runs" if users <= Decimal("0.5") else "most runs"
