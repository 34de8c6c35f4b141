"""Matrices and vectors of probabilities, written in the policy or in a file, and what is wrong with them.

Values stay exact decimals. Nothing is renormalised or rounded: a wrong row is a wrong promise, so it is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation, localcontext

from policyc.diagnostics import Span
from policyc.semantics.files import decode, read_bytes
from policyc.semantics.policy import Matrix, Vector
from policyc.semantics.scope import Scope
from policyc.syntax.tree import Call, Name, Number, Sequence, Value

TOLERANCE = Decimal("1e-9")
_SHOWN = 5
_NOT_A_NUMBER = Decimal("NaN")
_UNTRAPPED = Context(prec=50, traps=[])


@dataclass(frozen=True)
class Written:
    """A matrix as written: rows of any length, where each stands, and the names in a file's header."""

    rows: Matrix
    spans: tuple[Span, ...]
    header: tuple[str, ...] | None = None


def read_matrix(scope: Scope, value: Value, what: str, states: tuple[str, ...] | None) -> Matrix | None:
    """A row-stochastic matrix in state order; None when it cannot even be laid out as one.

    Args:
        scope: collects the findings.
        value: `[[...], [...]]` or `file("...")`.
        what: `forward` or `backward`.
        states: the stream's states, or None when the stream is broken (their number is then not checked).
    """
    found = read_named_matrix(scope, value, what, states)
    return None if found is None else found[0]


def read_named_matrix(
    scope: Scope, value: Value, what: str, states: tuple[str, ...] | None
) -> tuple[Matrix, tuple[str, ...] | None] | None:
    """The same, and the names of its states, where they are known or stand in a header."""
    written = _inline(scope, value, what) if isinstance(value, Sequence) else _from_file(scope, value, what)
    if written is None:
        return None
    square = _check_shape(scope, value, what, written)
    _check_rows(scope, what, written)
    if not square or (states is not None and not _check_states(scope, value, what, written, states)):
        scope.broken = True
        return None
    return _in_state_order(written, states), states or written.header


def read_vector(scope: Scope, value: Value, what: str, states: tuple[str, ...] | None) -> Vector | None:
    """An initial law: a list of probabilities, one a state, that sum to 1 (E0406)."""
    if not isinstance(value, Sequence) or any(isinstance(item, Sequence) for item in value.items):
        scope.refuse(
            "E0208", f"`{what}` needs a list of probabilities", value.span, hint="write `initial = stationary`, say"
        )
        return None
    vector = tuple(_entry(item) for item in value.items)
    bad = [i + 1 for i, p in enumerate(vector) if not p.is_finite() or p < 0]
    total = _total(vector)
    problem = None
    if bad:
        problem = f"entry {bad[0]} of `{what}` is not a probability"
    elif states is not None and len(vector) != len(states):
        problem = f"`{what}` has {len(vector)} entries, and the stream has {len(states)} states"
    elif abs(total - 1) > TOLERANCE:
        problem = f"`{what}` sums to {show(total)}, not 1"
    if problem is None:
        return vector
    order = f", in the order {', '.join(f'`{s}`' for s in states[:8])}" if states else ""
    scope.refuse(
        "E0406",
        problem,
        value.span,
        because="the backward matrix is computed from it; a wrong start changes the guarantee",
        hint=f"write one probability a state{order}, or `initial = stationary`",
    )
    return None


def is_stochastic(matrix: Matrix) -> bool:
    """Whether every row is a probability distribution; rules that compute with a matrix ask first."""
    return all(
        all(p.is_finite() and p >= 0 for p in row) and abs(_total(row) - 1) <= TOLERANCE for row in matrix
    ) and bool(matrix)


def show(value: Decimal) -> str:
    """A number for a message: ten digits at most."""
    return f"{value:.10g}"


def _entry(value: Value) -> Decimal:
    """One entry; anything that is not a number becomes NaN, which the row check reports with its place."""
    return value.value if isinstance(value, Number) else _NOT_A_NUMBER


def _inline(scope: Scope, value: Sequence, what: str) -> Written | None:
    rows = [item for item in value.items if isinstance(item, Sequence)]
    if not rows or len(rows) != len(value.items):
        scope.refuse(
            "E0403", f"`{what}` is not a matrix", value.span, hint="write one list a row: `[[0.8, 0.2], [0.1, 0.9]]`"
        )
        return None
    return Written(tuple(tuple(_entry(i) for i in row.items) for row in rows), tuple(row.span for row in rows))


def _from_file(scope: Scope, value: Value, what: str) -> Written | None:
    if isinstance(value, Name) and value.text == "learned":
        value = Call(value.span, value, ())
    if isinstance(value, Call) and value.function.text == "learned":
        report_learned(scope, value.span)
        return None
    if not isinstance(value, Call) or value.function.text != "file":
        scope.refuse(
            "E0208", f"`{what}` needs a matrix", value.span, hint='write `[[0.8, 0.2], [0.1, 0.9]]` or `file("m.csv")`'
        )
        return None
    read = read_bytes(scope, value)
    if read is None:
        return None
    name, content = read
    if name.lower().endswith(".npy") or content.startswith(b"\x93NUMPY"):
        return _from_npy(scope, value, name, content)
    decoded = decode(scope, value, name, content)
    return None if decoded is None else _from_csv(scope, value, name, decoded)


def report_learned(scope: Scope, span: Span) -> None:
    """A chain learned from the protected stream itself (E0408)."""
    scope.refuse(
        "E0408",
        "a correlation cannot be learned from the protected stream",
        span,
        because="the matrix would be computed from the users' own moves without any budget, and then published with "
        "the plan",
        hint="take it from a public source and name that source as `evidence`",
    )


def _from_csv(scope: Scope, call: Call, name: str, content: str) -> Written | None:
    """Rows of a CSV file; a first row of names is its header. Numbers are read from their text, exactly."""
    import csv

    span = call.span
    try:
        lines = [[cell.strip() for cell in row] for row in csv.reader(content.splitlines(keepends=True), strict=True)]
    except csv.Error:
        scope.refuse("E0212", f"file `{name}` is not CSV text", span, hint="write one row a line, with commas between")
        return None
    lines = [row for row in lines if any(row)]
    values = [[_decimal(cell) for cell in row] for row in lines]
    header = None
    width = len(values[0]) if values else 0
    named = values and any(cell is None for cell in values[0])
    # Cells may be called 1, 2, 3: a square matrix under one more row of distinct values has a header too.
    numbered = len(values) == width + 1 and len(set(lines[0])) == width if values else False
    if named or numbered:
        header = tuple(lines[0])
        values = values[1:]
    rows = tuple(tuple(_NOT_A_NUMBER if cell is None else cell for cell in row) for row in values)
    return Written(rows, (span,) * len(rows), header)


def _decimal(cell: str) -> Decimal | None:
    try:
        return Decimal(cell)
    except InvalidOperation:
        return None


def _from_npy(scope: Scope, call: Call, name: str, content: bytes) -> Written | None:
    import io

    import numpy as np

    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.ndim != 2:
            raise ValueError
        rows = tuple(tuple(Decimal(repr(float(x))) for x in row) for row in array.tolist())
    except (ValueError, EOFError, OSError, MemoryError, SyntaxError, KeyError, TypeError):
        scope.refuse(
            "E0212",
            f"file `{name}` is not a NumPy file with one matrix of numbers",
            call.span,
            hint="save a two-dimensional array of floats with `numpy.save`, or write a CSV file",
        )
        return None
    return Written(rows, (call.span,) * len(rows))


def _check_shape(scope: Scope, value: Value, what: str, written: Written) -> bool:
    """Whether the matrix is square (E0403)."""
    rows = written.rows
    widths = [len(row) for row in rows]
    size = len(rows)
    problem, remedy = None, "write as many columns as rows, one for each state of the stream"
    if not rows:
        problem = f"`{what}` has no rows"
    elif len(set(widths)) > 1:
        odd = next(i for i, width in enumerate(widths) if width != widths[0])
        problem = f"row {odd + 1} of `{what}` has {widths[odd]} entries, and row 1 has {widths[0]}"
    elif widths[0] != size:
        problem = f"`{what}` has {size} rows and {widths[0]} columns"
        if size < widths[0]:
            remedy = "a row is missing, if every column is of a state of the stream: write one row for each state"
    if problem is None:
        return True
    scope.refuse(
        "E0403",
        problem,
        value.span,
        because="entry j of row i is the probability of moving from state i to state j, so rows and columns are the "
        "same states",
        hint=remedy,
    )
    return False


def _check_rows(scope: Scope, what: str, written: Written) -> None:
    """Every row a probability distribution: E0402 for an entry, E0401 for a sum."""
    wrong = 0
    for index, (row, span) in enumerate(zip(written.rows, written.spans, strict=True)):
        place = f"row {index + 1} of `{what}`"
        bad = next((j for j, p in enumerate(row) if not p.is_finite() or p < 0), None)
        total = _total(row) if bad is None else Decimal(1)
        if bad is None and abs(total - 1) <= TOLERANCE:
            continue
        wrong += 1
        if wrong > _SHOWN:
            continue
        if bad is not None:
            kind = "negative" if not row[bad].is_nan() and row[bad] < 0 else "not a finite number"
            scope.report(
                "E0402",
                f"entry {bad + 1} of {place} is {kind}",
                span,
                because="every entry is a probability; leakage computed from anything else means nothing",
                hint="write a number from 0 to 1",
            )
        else:
            scope.report(
                "E0401",
                f"{place} sums to {show(total)}, not 1",
                span,
                because="the guarantee is computed from this matrix, so a wrong row is a wrong guarantee",
                hint="correct the row; policyc never renormalises",
            )
    if wrong > _SHOWN:
        extra = f"{wrong - _SHOWN} more rows of `{what}` are wrong in the same way"
        scope.report("E0401", extra, written.spans[0], hint="correct every row; policyc never renormalises")


def _total(row: Vector) -> Decimal:
    with localcontext(_UNTRAPPED):
        return sum(row, Decimal(0))


def _check_states(scope: Scope, value: Value, what: str, written: Written, states: tuple[str, ...]) -> bool:
    """Whether the matrix speaks of the stream's states: by number, and by name when a header gives names (E0404)."""
    named = ", ".join(f"`{s}`" for s in states[:8]) + (", ..." if len(states) > 8 else "")
    header = written.header
    if header is not None and (len(set(header)) != len(header) or set(header) != set(states)):
        strange = [h for h in header if h not in states]
        absent = [s for s in states if s not in header]
        problem = f"`{what}` names its states differently from the stream"
        if strange:
            problem = f"`{what}` has a state `{strange[0][:40]}` that the stream does not have"
        elif absent:
            problem = f"`{what}` has no state `{absent[0][:40]}`"
    elif len(written.rows) != len(states):
        problem = f"`{what}` has {len(written.rows)} states, and the stream has {len(states)}"
    else:
        return True
    scope.refuse(
        "E0404",
        problem,
        value.span,
        because="the matrix must say how a user moves between exactly the states in which users are counted",
        hint=f"give one row and one column for each of {named}, in this order",
    )
    return False


def _in_state_order(written: Written, states: tuple[str, ...] | None) -> Matrix:
    """Rows and columns moved into the stream's order when a header has another."""
    if written.header is None or states is None or written.header == states:
        return written.rows
    order = [written.header.index(state) for state in states]
    return tuple(tuple(written.rows[i][j] for j in order) for i in order)
