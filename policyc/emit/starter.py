"""A policy to start from: compiles as it stands, with a comment at every place that needs a decision."""

from __future__ import annotations

import re
from pathlib import Path

from policyc.semantics.rules.correlation import UNWRITTEN_EVIDENCE
from policyc_check.errors import KernelError
from policyc_runtime.files import write_text

STARTER = """\
# Say in one line what is published, for the person who signs.
policy {name} "Users per place, hourly"

stream events {{
  user        user_id  # the column that says whose privacy this is about
  time        seen_at  # when
  cell        place in {{"north", "south"}} otherwise "elsewhere"
  step        1h  # units: ms s min h d w
  horizon     168 steps  # or: horizon unbounded
  population  1_000  # how many users there are; published unprotected
  start       "2026-01-01"  # the moment of step 0
}}

release present = count(events) by place

# The promise: nobody learns more than alpha nats about where one user was at one time, even knowing how users move.
target alpha_dpt(alpha = 1.0)

# How ONE user moves from step to step: row = where now, column = where next (north, south, elsewhere).
# It must come from public knowledge, never from the data that is protected.
correlation markov(
  forward  = [[0.80, 0.10, 0.10],
              [0.10, 0.80, 0.10],
              [0.05, 0.05, 0.90]],
  initial  = stationary,
  evidence = "{evidence}",
)

deliver   offline  # or: realtime, within(12 steps)
objective mean_squared_error  # or: mean_absolute_error

postprocess present {{
  sum(present) == population,
  present >= 0,
  integer(present),
}}
"""


def write_starter(name: str, directory: Path | None = None) -> Path:
    """Write `NAME.policy` into a directory (the current one by default).

    Raises:
        KernelError: the name is no name, or the file exists.
        OSError: the system refused; nothing is left behind.
    """
    stem = name.removesuffix(".policy")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", stem):
        raise KernelError(
            "E0808", "a policy's name is one word of letters, digits and underscores", help="for example: traffic"
        )
    path = (directory or Path()) / f"{stem}.policy"
    try:
        write_text(path, STARTER.format(name=stem, evidence=UNWRITTEN_EVIDENCE), first=True)
    except FileExistsError:
        raise KernelError(
            "E0808", f"`{path}` exists already", because="it would be lost", help="choose another name"
        ) from None
    return path
