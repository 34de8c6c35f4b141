"""What is made of released values: how, in which rows, and what is known of its error."""

from __future__ import annotations

from policyc.emit.blocks.made_errors import made_error
from policyc.emit.blocks.suppression import left_out_words
from policyc.emit.blocks.wording import Json, JsonValue, lasting, listed, quoted
from policyc.emit.numbers import counted, exact
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_runtime.made_release import BlockTotal, Change
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import MadeRelease
from policyc_runtime.suppression_rule import ErrorAbove

PRIVACY = (
    "It sees released values and public numbers only, draws no noise and takes no share of any budget, so it costs no "
    "privacy; whoever has the released values can compute it again, and `policyc verify` does."
)
POPULATION = "population"


def made_blocks(plan: Plan) -> list[JsonValue]:
    """One entry for everything that is made of released values."""
    return [_made(plan, made) for made in plan.made]


def _made(plan: Plan, made: MadeRelease) -> Json:
    return {
        "release": made.name,
        "formula": formula(made),
        "what": what_is_made(plan, made),
        "rows": _rows(plan, made),
        "empty": _empty(made) + _left_out(plan, made),
        "accuracy": made_error(plan, made),
        "privacy": PRIVACY,
    }


def formula(made: MadeRelease) -> str:
    """How it is made, in the words of a policy: `total(hourly, 24 steps)`."""
    query = made.query
    if isinstance(query, BlockTotal):
        return f"total({query.of}, {made.steps} steps)"
    if isinstance(query, PrefixQuery):
        return f"prefix({query.of})"
    if isinstance(query, WindowQuery):
        return f"window({query.of}, {query.steps} steps)"
    if isinstance(query, Change):
        every = "" if query.every == 1 else f"every = {query.every} steps, "
        return f"change({query.of}, baseline = median({every}steps = {query.first} .. {query.last}))"
    times = f", times = {exact(query.times)}" if query.times != 1 else ""
    return f"{query.kind}({query.of}, {query.over or POPULATION}{times})"


def what_is_made(plan: Plan, made: MadeRelease) -> str:
    """The same in a sentence's words."""
    query, of = made.query, quoted(made.query.of)
    if isinstance(query, BlockTotal):
        return f"the total of the released values of {of} over every {counted(made.steps, 'step')}"
    if isinstance(query, PrefixQuery):
        return f"the running total of the released values of {of}"
    if isinstance(query, WindowQuery):
        return f"the total of the released values of {of} over the last {counted(query.steps, 'step')}, fewer at first"
    if isinstance(query, Change):
        every = "" if query.every == 1 else f" that are a multiple of {counted(query.every, 'step')} away"
        median = f"the median of those of the steps {query.first:,} to {query.last:,}{every}"
        return f"by how many percent the released value of {of} is above {median}"
    over = f"the population of {plan.stream.population:,}" if query.over is None else f"that of {quoted(query.over)}"
    times = f", times {exact(query.times)}" if query.times != 1 else ""
    return f"the released value of {of} divided by {over}{times}"


def _rows(plan: Plan, made: MadeRelease) -> str:
    """Which rows there are, and which steps are in none."""
    length = f"{counted(made.steps, 'step')} ({lasting(plan, made.steps)})"
    begin = "step 0" if made.first == 0 else f"step {made.first:,}"
    words = (
        f"one row of {length} each, the first from {begin} on" if made.steps > 1 else f"one row a step from {begin} on"
    )
    horizon = plan.stream.horizon
    left = 0 if horizon is None else max(horizon - made.first, 0) % made.steps
    if left:
        words += f"; the last {counted(left, 'step')} of the stream {'is' if left == 1 else 'are'} in none"
    waits = f", and is there once all {counted(made.steps, 'step')} are released" if made.steps > 1 else ""
    return f"{words}; a row says when its first step begins{waits}"


def _empty(made: MadeRelease) -> str:
    """Which rows have no value."""
    query = made.query
    if isinstance(query, BlockTotal | PrefixQuery | WindowQuery):
        whole = "block" if isinstance(query, BlockTotal) else "total"
        return (
            "It agrees exactly with the values that are published of each step: it is their sum, after the estimator, "
            f"the constraints and the rounding. A {whole} with a value that is left out has none"
        )
    if isinstance(query, Change):
        return "A row has no value where its baseline is below 1, or a value that it is made of is left out"
    if query.over is None:
        return "A row has no value where the one that it is made of is left out"
    return "A row has no value where the denominator is below 1, or a value that it is made of is left out"


def _left_out(plan: Plan, made: MadeRelease) -> str:
    """Which rows are left out beside these."""
    if not made.suppressions:
        return ""
    uncertain = any(isinstance(rule, ErrorAbove) for rule in made.suppressions)
    how = (
        "; how far off a value may be is taken from the noise of what it is made of, to first order"
        if uncertain
        else ""
    )
    return f". Left out are also {left_out_words(plan, made)}{how}, which follows from published values alone"


def made_sentence(plan: Plan) -> str:
    """What is made of released values, for the paragraph about what is published; empty without any."""
    if not plan.made:
        return ""
    names = listed([quoted(made.name) for made in plan.made])
    words = [
        f"{quoted(made.name)} is {what_is_made(plan, made)}."
        + (f" Left out of it are {left_out_words(plan, made)}." if made.suppressions else "")
        for made in plan.made
    ]
    follow = "follows" if len(plan.made) == 1 else "follow"
    return f" From released values alone {follow} {names}, at no cost in privacy. {' '.join(words)}"
