"""How people move, as adversaries know it: by a policy, by a plan, by matrices, or one chain a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policyc.progress import counted
from policyc.quantification.files import Foreign, ForeignFileError, listed, shortened
from policyc_check.errors import InvalidMatrixError
from policyc_check.plan.correlation import ChainRecord
from policyc_check.rounding import UNIT
from policyc_check.steps.chains import Chain

if TYPE_CHECKING:
    from policyc.diagnostics import Diagnostic, Source
    from policyc_check.plan.plan import Plan
    from policyc_check.records import Matrix

CODE = "E0898"
APART = "E0899"
MOST_STATES = 2_000
_REMEDY = (
    "give CSV with the columns `user,from,to,probability`, whose rows of one user and `from` sum to 1, or JSON such as "
    '`{"a": [[0.9, 0.1], [0.2, 0.8]]}`'
)
_WHO = ("user", "cluster", "group")


@dataclass(frozen=True)
class Known:
    """What is known of those who share a chain.

    Args:
        name: of the group or person; None for everybody.
        chain: None where steps are independent.
        lags: of the bounds through powers of the chain that a plan uses.
    """

    name: str | None
    chain: Chain | None
    lags: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Knowledge:
    """All chains that there are, and where they are from.

    Args:
        known: one a group or person.
        source: in words.
        title: of the stream they are about, if one is named.
        personal: whether each is one person's (or one cluster's), rather than a group of a policy.
    """

    known: tuple[Known, ...]
    source: str
    title: str | None = None
    personal: bool = False


def of_plan(plan: Plan, path: str) -> Knowledge:
    """What a plan says about how users move."""
    known = tuple(Known(record.group, record.chain(), record.lags) for record in plan.correlation.chains)
    independent = tuple(Known(one.group, None) for one in plan.correlation.independent)
    return Knowledge((*known, *independent) or (Known(None, None),), path, plan.policy.name)


def of_policy(
    path: Path, plan: Plan | None, show: Callable[[tuple[Diagnostic, ...], Source], None]
) -> tuple[Knowledge, tuple[str, ...] | None]:
    """What a policy says about how users move, and the states of its stream, where they are named.

    Args:
        path: the policy; a page with a stream and its correlation will do.
        plan: whose budgets are judged, if they are of a plan: it must be about the same stream.
        show: is given what is remarkable.

    Raises:
        PolicyError: the policy says nothing of it, or something wrong.
        ForeignFileError: E0899, the plan is of another stream.
    """
    from policyc.semantics.movement import check_movement
    from policyc.semantics.policy import MarkovCorrelation

    source, policy, findings = check_movement(path)
    show(findings, source)
    states = None if policy.stream.cell is None else policy.stream.cell.states
    if plan is not None:
        _same_stream(plan, policy.stream.name, states, policy.stream.step_text, source.name)
    known = []
    for said in policy.correlations:
        if isinstance(said, MarkovCorrelation):
            chain = _chain(said.forward, said.backward, said.initial)
            known.append(Known(said.group, chain))
        else:
            known.append(Known(said.group, None))
    return Knowledge(tuple(known), source.name, policy.name), states


def _same_stream(plan: Plan, name: str, states: tuple[str, ...] | None, step: str, source: str) -> None:
    cell = plan.stream.cell
    for what, of_plan_, of_policy_ in (
        ("stream", plan.stream.name, name),
        ("step", plan.stream.step_text, step),
        ("states", None if cell is None else cell.states, states),
    ):
        if of_plan_ != of_policy_:
            theirs, ours = (_in_words(value) for value in (of_plan_, of_policy_))
            raise ForeignFileError(
                APART,
                f"the plan is of another stream: its {what} {'are' if what == 'states' else 'is'} {theirs}, and the "
                f"policy's {ours}",
                where=source,
                because="a chain tells how much budgets leak only where it is about the steps that spent them",
                help="name the policy of this plan, or leave `--policy` out: the plan says itself how users move",
            )


def _in_words(value: Any) -> str:
    return "none" if value is None else listed(value) if isinstance(value, tuple) else f"`{shortened(value)}`"


def of_matrices(forward: Path | None, backward: Path | None) -> tuple[Knowledge, tuple[str, ...] | None]:
    """Chains as an adversary takes them, and the names of their states; one alone is turned around by Bayes' rule.

    Both together are taken as they are: what an adversary holds for true need not fit together.

    Raises:
        PolicyError: a file holds no transition matrix.
        ForeignFileError: E0899, the two are of different states.
        InvalidMatrixError: E0805, the one cannot be turned around; names its file.
    """
    from policyc.semantics.movement import matrix_of

    ahead, names = (None, None) if forward is None else matrix_of(forward, "forward")
    back, names = (None, names) if backward is None else matrix_of(backward, "backward", names)
    if ahead is not None and back is not None and len(ahead) != len(back):
        raise ForeignFileError(
            APART,
            f"`forward` has {len(ahead)} states, and `backward` {len(back)}",
            where=str(backward),
            help="give both matrices of the same states, in the same order",
        )
    source = " and ".join(str(path) for path in (forward, backward) if path is not None)
    try:
        chain = _with_laws(_chain(ahead, back, "stationary", as_they_are=True))
    except InvalidMatrixError as error:
        error.where = source
        raise
    return Knowledge((Known(None, chain),), source), names


def _chain(forward: Matrix | None, backward: Matrix | None, initial: Any, *, as_they_are: bool = False) -> Chain:
    """A chain of exact decimals; beside `forward` a `backward` counts only where both are taken as they are."""

    def made(ahead: Matrix | None, back: Matrix | None) -> Chain:
        return ChainRecord(
            group=None, forward=ahead, backward=back, initial=initial, evidence="", lags=(1,)
        ).chain()  # fmt: skip

    if forward is None or backward is None or not as_they_are:
        return made(forward, backward)
    ahead, back = made(forward, None), made(None, backward)
    return Chain(ahead.forward, back.backward, relative_error=1.01 * UNIT)


def of_persons(path: Path, states: Sequence[str] | None) -> Knowledge:
    """One chain a person, or a cluster of persons.

    Args:
        path: CSV with the columns user, from, to, probability, or JSON with a matrix by user.
        states: those of the stream, where they are known: others are refused.

    Raises:
        ForeignFileError: E0898, it holds no such chains; E0899, they are not on the states of the stream.
    """
    file = Foreign(path, CODE, _REMEDY)
    found = _of_json(file, file.json(), states) if file.is_json else _of_csv(file, states)
    return Knowledge(tuple(found), file.name, personal=True)


def _of_csv(file: Foreign, states: Sequence[str] | None) -> list[Known]:
    """Of a user without a row for a state and without a move there nothing is said about it: he is never there."""
    rows = file.rows()
    line, cells = next(rows)
    header = [cell.lower() for cell in cells]
    who = next((name for name in _WHO if name in header), None)
    if who is None or any(header.count(name) != 1 for name in (who, "from", "to", "probability")):
        raise file.refused(
            f"the columns are {listed(cells)}, not `user`, `from`, `to` and `probability`", f"line {line}"
        )
    columns = [header.index(name) for name in (who, "from", "to", "probability")]
    moves: dict[str, dict[tuple[str, str], Decimal]] = {}
    known = frozenset(states or ())
    numbers: dict[str, Decimal] = {}
    for line, row in rows:
        if len(row) != len(cells):
            raise file.refused(f"a row has {len(row)} values, and the first has {len(cells)}", f"line {line}")
        user, origin, target, text = (row[column] for column in columns)
        if not user or not origin or not target:
            raise file.refused("a row does not say who moves from where to where", f"line {line}")
        strange = [state for state in (origin, target) if states is not None and state not in known]
        if strange:
            raise _apart(file, f"the stream has no state {listed(strange[:1])}", f"line {line}", states)
        if text not in numbers:
            numbers[text] = _probability(file, file.number(text, f"line {line}"), f"line {line}")
        own = moves.setdefault(user, {})
        if (origin, target) in own:
            raise file.refused("the same move of the same user stands there twice", f"line {line}")
        own[origin, target] = numbers[text]
    if not moves:
        raise file.refused("there is no row below the names of the columns")
    kept: dict[tuple[tuple[Decimal, ...], ...], Chain] = {}
    users = counted("users", moves.items(), len(moves))
    return [Known(user, _kept(file, user, _square(file, user, own), kept)) for user, own in users]


def _square(file: Foreign, user: str, own: dict[tuple[str, str], Decimal]) -> tuple[tuple[Decimal, ...], ...]:
    """The matrix of one user, on the states that he can be in."""
    visited = list(dict.fromkeys([*(origin for origin, _ in own), *(target for (_, target), p in own.items() if p)]))
    if len(visited) > MOST_STATES:
        raise file.refused(f"{len(visited):,} states; at most {MOST_STATES:,} are computed with", _of(user))
    zero = Decimal(0)
    matrix = tuple(tuple(own.get((origin, target), zero) for target in visited) for origin in visited)
    without = next((visited[i] for i, row in enumerate(matrix) if not any(row)), None)
    if without is not None:
        raise file.refused(f"nothing says where one moves from `{shortened(without)}`", _of(user))
    return matrix


def _of_json(file: Foreign, content: Any, states: Sequence[str] | None) -> list[Known]:
    if not isinstance(content, dict) or not content:
        raise file.refused("the file holds no matrices by user")
    found = []
    kept: dict[tuple[tuple[Decimal, ...], ...], Chain] = {}
    for user, said in counted("users", content.items(), len(content)):
        if isinstance(said, dict):
            strange = [name for name in said if name not in {"forward", "backward"}]
            if strange or not said:
                raise file.refused(f"a user has `forward` and `backward`, and not {listed(strange)}", _of(user))
            sides = {name: _matrix(file, rows, user, states) for name, rows in said.items()}
            if len({len(matrix) for matrix in sides.values()}) > 1:
                raise file.refused("`forward` and `backward` have different numbers of states", _of(user))
            both = partial(_chain, sides.get("forward"), sides.get("backward"), "stationary", as_they_are=True)
            found.append(Known(user, _told(file, user, both)))
        else:
            found.append(Known(user, _kept(file, user, _matrix(file, said, user, states), kept)))
    return found


def _matrix(file: Foreign, rows: Any, user: str, states: Sequence[str] | None) -> tuple[tuple[Decimal, ...], ...]:
    whole = isinstance(rows, list) and rows and all(isinstance(row, list) for row in rows)
    if not whole or any(len(row) != len(rows) for row in rows):
        raise file.refused("a matrix is a list of as many lists as each of them has numbers", _of(user))
    if len(rows) > MOST_STATES:
        raise file.refused(f"{len(rows):,} states; at most {MOST_STATES:,} are computed with", _of(user))
    if states is not None and len(rows) != len(states):
        problem = f"a matrix has {len(rows)} states, and the stream has {len(states)}"
        raise _apart(file, problem, _of(user), states)
    for row in rows:
        for value in row:
            if not isinstance(value, Decimal):
                raise file.refused(f"`{shortened(str(value))}` is not a number", _of(user))
            _probability(file, value, _of(user))
    return tuple(tuple(row) for row in rows)


def _probability(file: Foreign, value: Decimal, place: str) -> Decimal:
    if not 0 <= value <= 1:
        raise file.refused(f"{value:.10g} is no probability", place)
    return value


def _kept(
    file: Foreign,
    user: str,
    matrix: tuple[tuple[Decimal, ...], ...],
    kept: dict[tuple[tuple[Decimal, ...], ...], Chain],
) -> Chain:
    """The chain of a matrix, once for all who share it."""
    if matrix not in kept:
        kept[matrix] = _told(file, user, lambda: _chain(matrix, None, "stationary"))
    return kept[matrix]


def _told(file: Foreign, user: str, make: Callable[[], Chain]) -> Chain:
    """A chain, or the refusal of whose it is."""
    try:
        return _with_laws(make())
    except InvalidMatrixError as error:
        raise file.refused(error.message, _of(user), help=error.help) from None


def _with_laws(chain: Chain) -> Chain:
    """The same chain, once its laws backward and forward are seen to be there; InvalidMatrixError E0805 if not."""
    for side in (chain.backward_side(), chain.forward_side()):
        side.law(1, 1)
    return chain


def _of(user: str) -> str:
    return f"user `{shortened(user)}`"


def _apart(file: Foreign, problem: str, place: str, states: Sequence[str] | None) -> ForeignFileError:
    return ForeignFileError(
        APART, problem, where=f"{file.name}: {place}", help=f"write chains on the states {listed(states or ())}"
    )
