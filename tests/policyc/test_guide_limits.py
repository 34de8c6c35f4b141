"""The guide's page of limits: what it says is refused is refused, with the finding that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyc import PolicyError, compile_policy
from policyc.guide import read_page

CHAIN = """correlation markov(forward = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], initial = stationary,
  evidence = "survey")
"""
ALPHA = f"target alpha_dpt(alpha = 1.0)\n{CHAIN}"
COUNT = "release visitors = count(visits) by room\n"
PROMISE = "target user_level(epsilon = 1.0, delta = 1e-6, neighbors = replace"
BOUND = "participation at_most(48 steps, enforced = keep_first)\n"
ROOMS = 'in {"hall", "library"}'
ELSEWHERE = f'{ROOMS} otherwise "elsewhere"'


def stream(rooms: str = ROOMS, step: str = "5min", horizon: str = "288 steps") -> str:
    """The stream of a policy."""
    return (
        f'policy p "p"\nstream visits {{ user visitor time seen_at cell room {rooms} step {step} horizon {horizon} '
        f'population 1_000 start "2026-01-05" }}\n'
    )


REFUSED = {
    "publish a `sum` under": (
        "E0415",
        stream(ELSEWHERE) + "release s = sum(visits.a, clamp = 0 .. 5) by room\n" + ALPHA,
    ),
    "constrain a running total": (
        "E0236",
        f"{stream(ELSEWHERE)}{COUNT}release w = window(visitors, 7 steps)\npostprocess w {{ w >= 0 }}\n{ALPHA}",
    ),
    "give `alpha_dpt` a delta,": ("E0205", stream(ELSEWHERE) + COUNT + ALPHA.replace("1.0)", "1.0, delta = 1e-6)")),
    "give `alpha_dpt` a delta, or Gaussian": ("E0313", stream(ELSEWHERE) + COUNT + ALPHA + "mechanism gaussian()\n"),
    "count several events": (
        "E0702",
        f'{stream(ELSEWHERE)}{COUNT}{ALPHA}{PROMISE})\nparticipation at_most(48 steps, per_step = 2, assumed = "x")\n',
    ),
    "drop events beside": ("E0510", f"{stream(ELSEWHERE)}{COUNT}{ALPHA}{PROMISE})\n{BOUND}"),
    "name noise that cannot keep": (
        "E0313",
        f"{stream()}{COUNT}{PROMISE.replace('1e-6', '0')})\n{BOUND}mechanism gaussian()\n",
    ),
    "promise something about all of a user without a bound": (
        "E0501",
        f"{stream(horizon='unbounded')}{COUNT}{PROMISE})\ndeliver realtime\n",
    ),
    "count users who are in no cell": (
        "E0314",
        f"{stream(ELSEWHERE)}{COUNT}{PROMISE.replace('replace', 'add_remove')})\n{BOUND}",
    ),
    "sum what users in no cell do": (
        "E0314",
        f"{stream(ELSEWHERE)}release s = sum(visits.a, clamp = 0 .. 5) by room\n{PROMISE})\n{BOUND}",
    ),
    "keep a random part": (
        "E0504",
        f"{stream()}{COUNT}{PROMISE})\n{BOUND.replace('keep_first', 'keep_sample')}deliver realtime\n",
    ),
}
OTHERWISE = {"share a data set's account"}  # refused of an account: tests of accounts have it


def rows() -> list[list[str]]:
    """What one cannot say, and the finding, of every row of the page's tables."""
    lines = [line for line in read_page("limits").splitlines() if line.startswith("| ") and "---" not in line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [[row[0], row[-1]] for row in cells if row[0] != "one cannot"]


def test_every_row_has_a_policy() -> None:
    """And every policy a row that names its finding."""
    for said, _ in rows():
        assert any(said.startswith(start) for start in [*REFUSED, *OTHERWISE]), said
    for start, (code, _) in REFUSED.items():
        (finding,) = (found for said, found in rows() if said.startswith(start))
        assert code in finding, start


@pytest.mark.parametrize("start", REFUSED)
def test_what_a_row_says_cannot_be_said_is_refused(start: str, tmp_path: Path) -> None:
    """With that finding among the errors."""
    code, text = REFUSED[start]
    (tmp_path / "p.policy").write_text(text)
    with pytest.raises(PolicyError) as refused:
        compile_policy(tmp_path / "p.policy")
    assert code in {finding.code for finding in refused.value.diagnostics}
