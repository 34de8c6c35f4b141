"""What is made of released values: is there a row, a baseline, and a number of users that may be used?"""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Made, Policy
from policyc.semantics.targets import UserLevelTarget


def check_made(policy: Policy) -> Iterator[Diagnostic]:
    """Totals without a block, baselines without steps, and the population where it is protected."""
    for one in policy.made:
        yield from _blocks(policy, one)
        yield from _baselines(policy, one)
        yield from _populations(policy, one)
        yield from _constraints(policy, one)


def _blocks(policy: Policy, one: Made) -> Iterator[Diagnostic]:
    horizon = policy.stream.horizon
    if one.kind != "total" or horizon is None or one.steps <= horizon:
        return
    yield Diagnostic(
        "E0230",
        f"a block of {one.steps} steps is longer than the stream",
        one.span,
        because="a total is published of whole blocks of steps, and there would be none",
        help=f"write `total({one.of}, {horizon} steps)` or fewer",
        labels=(Label(policy.stream.horizon_span, "the stream ends here"),),
    )


def _constraints(policy: Policy, one: Made) -> Iterator[Diagnostic]:
    """E0236: of totals that are measured elsewhere."""
    block = policy.constraints_of(one.name)
    if block is None or not (block.constraints or block.integer or block.agreements):
        return
    yield Diagnostic(
        "E0236",
        f"`{one.name}` is made of released values here, and has no constraints of its own",
        block.span,
        because="beside budgets of steps a running total or window adds up what is published, and has to agree with it",
        help=f"write them for `{one.of}`: `postprocess {one.of} {{ ... }}`; only `suppress` may stand here",
        labels=(Label(one.span, "made here"),),
    )


def _baselines(policy: Policy, one: Made) -> Iterator[Diagnostic]:
    horizon, told = policy.stream.horizon, one.baseline
    if told is None:
        return
    length = told.last - told.first + 1
    if length < told.every:
        yield Diagnostic(
            "E0234",
            f"not every value has a baseline: {length} steps are fewer than {told.every}",
            one.span,
            because=f"the baseline of a value is the median of those that are whole multiples of {told.every} steps "
            "before it",
            help=f"write `steps = {told.first} .. {told.first + told.every - 1}` or more, or a smaller `every`",
        )
    elif horizon is not None and told.last + one.steps >= horizon:
        end = horizon // one.steps * one.steps - one.steps - 1
        yield Diagnostic(
            "E0234",
            f"no value follows the baseline, whose last step is {told.last}",
            one.span,
            because="changes are published of the steps after it",
            help=f"end it at step {end} at the latest" if end >= told.first else "make the stream longer",
            labels=(Label(policy.stream.horizon_span, f"the last step is {horizon - 1}"),),
        )


def _populations(policy: Policy, one: Made) -> Iterator[Diagnostic]:
    if one.kind not in ("ratio", "mean") or one.over is not None:
        return
    if policy.stream.population is None:
        yield Diagnostic(
            "E0235",
            f"`{one.name}` divides by the population, which the stream does not say",
            one.span,
            because="a number of users that nobody states is known from the protected data alone",
            help="add `population 12_000` to the stream, a public number, or divide by a count",
        )
        return
    target = next((t for t in policy.targets if isinstance(t, UserLevelTarget) and t.neighbors == "add_remove"), None)
    if target is not None:
        yield Diagnostic(
            "E0235",
            f"`{one.name}` divides by the number of users, which is protected here",
            one.span,
            because="under add/remove neighbors whether one user more is there is hidden: what is divided by their "
            "exact number would tell it",
            help="use `neighbors = replace`, or divide by a released count",
            labels=(Label(target.span, "promised here"),),
        )
