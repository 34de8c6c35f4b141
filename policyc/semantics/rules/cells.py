"""Which cells there are, and in how many of a step one user counts."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic, Span
from policyc.semantics.policy import Policy
from policyc.semantics.targets import UserLevelTarget

UNWRITTEN_CELLS = ("first place", "second place")  # as the policy to start from has them


def check_cells(policy: Policy) -> Iterator[Diagnostic]:
    """Cells that are still to be written (W0201); whether `cells_per_step` means something where it is said (E0508)."""
    bound, cell = policy.participation, policy.stream.cell
    if cell is not None and tuple(cell.cells) == UNWRITTEN_CELLS:
        yield Diagnostic(
            "W0201",
            "the cells are still to be written",
            cell.span,
            because=f"`policyc init` does not read them from the data, so `{cell.column}` has two that nobody is in",
            help='write the values to count by, as they are publicly known: `in {"A", "B"}` or `in file("cells.csv")`',
        )
    said: list[tuple[int, Span]] = [
        (release.cells_per_step, release.span) for release in policy.releases if release.cells_per_step is not None
    ]
    if bound is not None and bound.cells_per_step is not None:
        said.append((bound.cells_per_step, bound.span))
    for release in policy.releases:
        if release.cells_per_step is not None and release.by is None:
            yield _meaningless(
                release.span,
                f"`{release.name}` has one value a step, and `cells_per_step` is about several",
                "who is in several cells counts once in all of them together",
                f"add `by {cell.column}`, or leave `cells_per_step` out" if cell is not None else
                'add `cell my_column in {"A", "B"}` to the stream and `by my_column` here, or leave it out',
            )  # fmt: skip
            return
    for cells, span in said:
        if cell is None:
            yield _meaningless(
                span,
                "the stream has no cell to be in",
                "`cells_per_step` says in how many cells of a step a user counts",
                'add `cell my_column in {"A", "B"}` to the stream, or leave `cells_per_step` out',
            )
        elif policy.measured_through_chains or not any(isinstance(t, UserLevelTarget) for t in policy.targets):
            yield _meaningless(
                span,
                "this promise takes a user to be in one cell of a step",
                "it compares two cells that one user may be in",
                "promise `user_level(...)`, or leave `cells_per_step` out",
            )
        elif cells > len(cell.cells):
            yield _meaningless(
                span,
                f"nobody can be in {cells:,} of {len(cell.cells):,} cells",
                "a bound beyond all cells bounds nothing, and one of the two numbers is not what was meant",
                f"write `cells_per_step = {len(cell.cells)}` or less",
            )
        elif bound is not None and bound.per_step > 1:
            yield _meaningless(
                bound.span,
                "`per_step` and `cells_per_step` say two things of one step",
                "with `cells_per_step` a user counts once in each of so many cells; with `per_step` with so many "
                "events, which may all be in one",
                "keep the one that is meant",
            )
        else:
            continue
        return


def _meaningless(span: Span, message: str, because: str, remedy: str) -> Diagnostic:
    return Diagnostic("E0508", message, span, because=because, help=remedy)
