"""How users are said to move: is it one chain a group, does it say enough, and can a promise hold under it?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.chains import (
    FURTHEST_POWER,
    closed_classes,
    largest_reversal_error,
    reached_from,
    states_of,
    states_that_never_meet,
    supports,
    transposed,
)
from policyc.semantics.matrices import is_stochastic
from policyc.semantics.policy import MarkovCorrelation, Matrix, Policy
from policyc.semantics.targets import AlphaDPTTarget

UNWRITTEN_EVIDENCE = "say where these numbers come from"  # as the policy to start from has it
LARGEST_MISS = 1e-9  # of shares, beside 1
_SAME = 1e-6
_DAY = 288


def check_correlation(policy: Policy) -> Iterator[Diagnostic]:
    """All findings about the `correlation` statements; a matrix already found wrong is not computed with."""
    yield from _one_each(policy)
    yield from _shares(policy)
    yield from _amounts(policy)
    yield from _unwritten(policy)
    for chain in policy.chains:
        matrices = [m for m in (chain.forward, chain.backward) if m is not None]
        if not all(is_stochastic(m) for m in matrices):
            continue
        yield from _start(policy, chain)
        yield from _two_starts(chain)
        yield from _reversal(chain)
        yield from _supremum(policy, chain)
        yield from _settled(policy, chain)


def _one_each(policy: Policy) -> Iterator[Diagnostic]:
    """One correlation a group: a second one would leave open which is meant (E0410)."""
    groups: dict[str | None, Span] = {}
    for correlation in policy.correlations:
        group = correlation.group
        clash = groups.get(group)
        problem = f"group `{group}` has two correlations" if group is not None else "there are two correlations"
        if clash is None and groups and (group is None or None in groups):
            # A chain for everybody beside one for a group: the group would have both.
            clash = next(iter(groups.values()))
            problem = "a correlation for everybody stands beside one for a group"
        if clash is not None:
            yield Diagnostic(
                "E0410",
                problem,
                correlation.span,
                because="the promise must hold against one statement of how a user moves, and here there are two",
                help="keep one, or give each its own group: `correlation markov(...) for commuters`",
                labels=(Label(clash, "the first one"),),
            )
        groups.setdefault(group, correlation.span)


def _shares(policy: Policy) -> Iterator[Diagnostic]:
    """E0414: shares say how many of all users are in each group, or nothing."""
    told = [chain for chain in policy.chains if chain.share is not None]
    if not told:
        return
    whole = sum((chain.share for chain in told if chain.share is not None), Decimal(0))
    silent = next((known for known in policy.correlations if known not in told), None)
    if told[0].group is None:
        problem, at, write = "a share is said of a chain without a group", told[0].span, "leave `share` out"
    elif silent is not None:
        problem, at = f"of group `{silent.group}` no share is said", silent.span
        write = "say the share of every group, or of none; a group without a chain has none, as no law says where it is"
    elif abs(whole - 1) > LARGEST_MISS:
        problem, at, write = f"the shares of the groups sum to {whole}", told[-1].span, "make them sum to 1"
    else:
        return
    yield Diagnostic(
        "E0414",
        problem,
        at,
        because="shares divide the population between the groups: by them estimates know what all counts together say",
        help=write,
    )


def _amounts(policy: Policy) -> Iterator[Diagnostic]:
    """E0415: what leaks of sums through a chain is known where it says what amounts depend on."""
    summed = next((release for release in policy.releases if release.kind == "sum"), None)
    silent = next((chain for chain in policy.chains if chain.amounts is None), None)
    promised = any(isinstance(target, AlphaDPTTarget) for target in policy.targets)
    if summed is None or silent is None or not promised:
        return
    yield Diagnostic(
        "E0415",
        f"the chain does not say what `{summed.column}` depends on, and `{summed.name}` adds it up",
        silent.span,
        because="who has habits, and spends much at one step as at others, is told of by the sums of all steps, beside "
        "any chain of places",
        help="write `amounts = by_cell` in every chain, if the amount of an event depends on its cell and on nothing "
        "else; else publish `count(...)`, or promise `user_level(...)` or `event_level(...)` alone",
        labels=(Label(summed.span, "summed here"),),
    )


def _unwritten(policy: Policy) -> Iterator[Diagnostic]:
    """W0402: the placeholder of the policy to start from was left as it is."""
    for correlation in policy.correlations:
        if correlation.evidence.strip().lower() == UNWRITTEN_EVIDENCE:
            yield Diagnostic(
                "W0402",
                "`evidence` is still to be written",
                correlation.span,
                because="the promise holds only while users move as stated, and the certificate would quote these "
                "words as what vouches for that",
                help='name the public source of the matrix, such as `evidence = "city traffic model 2023, published"`, '
                "and take its numbers",
            )


def _start(policy: Policy, chain: MarkovCorrelation) -> Iterator[Diagnostic]:
    """Whether both directions are known: E0405 without a start, E0407 when `stationary` names no single law."""
    given = chain.forward if chain.forward is not None else chain.backward
    if chain.initial is None and (chain.forward is None or chain.backward is None):
        direction, other = ("forward", "backward") if chain.forward is not None else ("backward", "forward")
        yield Diagnostic(
            "E0405",
            f"only the {direction} matrix is known",
            chain.span,
            because=f"leakage flows both ways in time, and the {other} matrix follows from this one only together with "
            "where users start",
            help=f"add `initial = stationary`, or the {other} matrix",
        )
    stationary = chain.initial == "stationary" or (
        chain.initial is None and None not in (chain.forward, chain.backward)
    )
    if not stationary or given is None:
        return
    classes = closed_classes(supports(given))
    if len(classes) > 1:
        first, second = (_state(policy, (c & -c).bit_length() - 1) for c in classes[:2])
        yield Diagnostic(
            "E0407",
            "this chain has more than one stationary law",
            chain.span,
            because=f"a user who is in {first} never comes to {second}, nor back, so where users start decides where "
            "they end",
            help="write the start as a list of one probability a state, or correct the matrix",
        )


def _state(policy: Policy, index: int) -> str:
    """A state by its name, or by its number when the stream has no cell."""
    cell = policy.stream.cell
    if cell is None or index >= len(cell.states):
        return f"state {index + 1}"
    return f"`{cell.states[index]}`"


def _two_starts(chain: MarkovCorrelation) -> Iterator[Diagnostic]:
    """E0412: a start that is not stationary has backward matrices of its own."""
    if chain.backward is None or chain.initial in {None, "stationary"}:
        return
    instead = "write `forward` in its place" if chain.forward is None else "leave `backward` out"
    yield Diagnostic(
        "E0412",
        "`backward` contradicts a start that is not stationary",
        chain.span,
        because="the law of where a user was then differs from step to step, and follows from `forward` and `initial`",
        help=f"{instead}, or write `initial = stationary`",
    )


def _reversal(chain: MarkovCorrelation) -> Iterator[Diagnostic]:
    """E0413: two matrices that do not describe one chain.

    One backward matrix for all steps is that of a chain whose law stays the same, said or not.
    """
    if chain.forward is None or chain.backward is None or chain.initial not in {None, "stationary"}:
        return
    if len(chain.forward) != len(chain.backward):
        return
    worst = largest_reversal_error(chain.forward, chain.backward)
    if worst is None or worst[0] <= _SAME:
        return
    difference, i, j = worst
    yield Diagnostic(
        "E0413",
        f"`backward` is not the reversal of `forward`: entry {j + 1} of row {i + 1} is off by {difference:.2g}",
        chain.span,
        because="no user moves by both: the past of one who moves as `forward` says follows from it, and can tell more "
        "than would be accounted for",
        help="leave `backward` out and write `initial = stationary`: it is then computed from `forward`",
    )


def _supremum(policy: Policy, chain: MarkovCorrelation) -> Iterator[Diagnostic]:
    """E0701: over an unbounded horizon the leakage must stop growing.

    Without two rows that stay disjoint in every power there is a power whose temporal loss function is below identity,
    so that lag gives every budget, or every small one, a finite supremum. With two such rows, no lag does.
    """
    target = next((t for t in policy.targets if isinstance(t, AlphaDPTTarget)), None)
    if target is None or policy.stream.horizon is not None:
        return
    for direction, rows in _directions(chain):
        pair = states_that_never_meet(rows)
        if pair is None:
            continue
        first, second = (_state(policy, i) for i in pair)
        whose = f" of {chain.group}" if chain.group is not None else ""
        yield Diagnostic(
            "E0701",
            "this promise cannot hold for ever",
            target.span,
            note="needs leakage that stops growing",
            because=f"rows {first} and {second} of the {direction} matrix{whose} share no state, at any power up to "
            f"{FURTHEST_POWER}; leakage grows by epsilon at every step (CAO17, Theorem 5)",
            help=f"give a horizon: `horizon {_DAY} steps` allows epsilon {float(target.alpha) / _DAY:.2g} a step; a "
            "matrix in which any two states can lead to a common one would hold for ever",
            labels=(
                Label(policy.stream.horizon_span, "the stream never ends"),
                Label(chain.span, "users move like this"),
            ),
        )
        return


def _settled(policy: Policy, chain: MarkovCorrelation) -> Iterator[Diagnostic]:
    """E0706: over an unbounded horizon the law of where users are must be seen to become the same at all steps."""
    asked = policy.stream.horizon is None and any(isinstance(target, AlphaDPTTarget) for target in policy.targets)
    if not asked or chain.forward is None or not isinstance(chain.initial, tuple):
        return
    from policyc_check.steps.chains import Chain  # start-up: hardly any policy asks for it

    rows = supports(chain.forward)
    (start,) = supports((chain.initial,))
    left = [i for i in states_of(reached_from(rows, start)) if not any(c >> i & 1 for c in closed_classes(rows))]
    forward, initial = ([[float(p) for p in row] for row in matrix] for matrix in (chain.forward, (chain.initial,)))
    if len(initial[0]) != len(rows):
        return  # reported when it was read
    if left:
        why = f"who leaves {_state(policy, left[0])} need not come back, so that it becomes ever rarer to be there"
    elif Chain(forward=forward, initial=initial[0]).settled == math.inf:
        why = "from this start the law of where users are takes turns, or still moves after 2,000 steps"
    else:
        return
    yield Diagnostic(
        "E0706",
        "from this start users never come to be where they are by one law",
        chain.span,
        because=f"{why}; what the place of a user says of the one before is then another thing at every step, and no "
        "finite number of inequalities shows what leaks",
        help="write `initial = stationary`, or give a horizon",
        labels=(Label(policy.stream.horizon_span, "the stream never ends"),),
    )


def _directions(chain: MarkovCorrelation) -> Iterator[tuple[str, list[int]]]:
    """The supports of both matrices; a missing one follows from the other when the start is stationary."""
    given: tuple[tuple[str, Matrix | None, Matrix | None], ...] = (
        ("forward", chain.forward, chain.backward),
        ("backward", chain.backward, chain.forward),
    )
    for direction, matrix, other in given:
        if matrix is not None:
            yield direction, supports(matrix)
        elif other is not None:
            rows = supports(other)
            classes = closed_classes(rows)
            if len(classes) == 1:
                yield direction, transposed(rows, classes[0])
