"""A plan that somebody wrote by hand, with a right digest: refused with one message, at once, by every command."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from policyc import cli, compile_policy
from policyc.diagnostics import PolicyError
from policyc.emit.difference import compare_plans
from policyc.emit.directory import rewrite_certificate
from policyc_runtime.empirical import audit
from policyc_runtime.errors import KernelError
from policyc_runtime.plan import Plan, load_plan

SECONDS = 20
STREAM = """policy wards "stays"
stream stays {
  user patient
  time at
  cell ward in {"A", "B"} otherwise "away"
  step 1d
  horizon 12 steps
  population 200
  start "2026-01-01"
}
"""
USERS = f"""{STREAM.replace('  cell ward in {"A", "B"} otherwise "away"', "").replace("  population 200", "")}
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, enforced = keep_first)
release present = count(stays)
"""
CHAIN = """correlation markov(
  forward = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]], initial = stationary, evidence = "public counts")
postprocess present { sum(present) == population, present >= 0, integer(present) }
"""
POLICIES = {
    "alpha": STREAM + "release present = count(stays) by ward\ntarget alpha_dpt(alpha = 1.0)\n" + CHAIN,
    "w_event": STREAM
    + "release present = count(stays) by ward\ntarget w_event(epsilon = 1.0, window = 3 steps)\n"
    + 'correlation none(evidence = "one stay")\nmechanism budget_absorption()\ndeliver realtime\n',
    "gaussian": USERS + "release total = prefix(present)\nmechanism gaussian()\n",
    "laplace": USERS + "mechanism laplace()\n",
    "binomial": USERS + "mechanism binomial()\n",
    "dft": USERS + "mechanism dft(coefficients = 4)\n",
    "fast": USERS + "mechanism fast(samples = 6)\n",
    "lmmse": USERS + "mechanism lmmse(weight = 0.5)\ndeliver realtime\n",
    "binary_tree": USERS + "mechanism binary_tree()\n",
    "subsample": USERS + "mechanism subsample(rate = 0.5)\n",
    "filter_subsample": USERS + "mechanism filter_subsample(rate = 0.5)\n",
}
WHOLE = (0, -1, 2, 2**31, 2**53, 2**62, 2**63, True, 1.5, None, 10**6, 10**7)
REAL = (0.0, -1.0, 1e-300, 1e100, 1e300, None, 7)
EXACT = (
    "0", "-1", "1", "1E-400", "1E-12", "1E+15", "1E+30", "1E+400", "1E+99999999", "1E-99999999", "NaN", "Infinity",
    "0." + "3" * 400, "9" * 5000, "", None, 3,
)  # fmt: skip
TEXT = ("", "99 claims hold\n", "\x1b[2J", "\u202e", "x" * 10**6, "9" * 5000, "../x", None, 1)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, item in items:
            yield from leaves(item, (*path, key))


def extremes(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value, 1, None)
    if isinstance(value, int):
        return WHOLE
    if isinstance(value, float):
        return REAL
    if value is None:
        return (1, 0, 2**62, "x", "1E+30", {}, [])
    try:
        Decimal(value)
    except ArithmeticError:
        return TEXT
    return EXACT


def replaced(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def commands(directory: Path, original: Plan) -> dict[str, Callable[[], object]]:
    """What every command that reads a plan does with it."""

    def compared() -> None:
        compare_plans(original, load_plan(directory))
        compare_plans(load_plan(directory), original)

    return {
        "verify": lambda: [claim.holds for claim in cli._claims(directory, None, None, [])],
        "show": lambda: cli.show(directory, cli.TableFormat.TABLE),
        "simulate": lambda: cli.simulate(directory, 0, 1, None, None, None),
        "diff": compared,
        "audit": lambda: audit(load_plan(directory), "2026-01-01", 2),
        "certificate": lambda: rewrite_certificate(directory),
    }


def resealed(content: Any) -> str:
    """The text of a plan with a right digest, where its fields are those of a plan at all."""
    try:
        return Plan.model_validate_json(json.dumps(content)).sealed().to_json()
    except ValueError:
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", POLICIES)
def test_extremes_are_refused_at_once(name: str, tmp_path: Path, full: bool) -> None:
    """Each leaf of a plan at its extremes, resealed: every command ends in seconds, with a refusal or a true result."""
    if not full and name not in ("alpha", "gaussian"):
        pytest.skip("all mechanisms with --full")
    (tmp_path / "p.policy").write_text(POLICIES[name])
    made = compile_policy(tmp_path / "p.policy")
    directory = made.save(tmp_path / "p.plan")
    content = json.loads(made.plan.to_json())
    tried = [(path, value) for path, old in leaves(content) if path != ("digest",) for value in extremes(old)]
    if not full:
        tried = random.Random(20261121).sample(tried, 100)
    files = {path: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    assert all(claim.holds for claim in cli._claims(directory, None, None, []))
    wrong = []
    for path, value in tried:
        for file, original in files.items():
            if file.read_bytes() != original:
                file.write_bytes(original)
        text = resealed(replaced(content, path, value))
        (directory / "plan.json").write_text(text)
        same = text == made.plan.to_json()
        for command, act in commands(directory, made.plan).items():
            try:
                with at_most(SECONDS):
                    result = act()
            except (KernelError, PolicyError):
                if command == "verify":
                    break  # what cannot be read by one command is read by none
                continue
            except Exception as error:
                wrong.append((command, path, str(value)[:20], repr(error)[:200]))
                continue
            if command == "verify" and not same and isinstance(result, list) and all(result):
                wrong.append((command, path, str(value)[:20], "believed"))
    assert not wrong, "\n".join(map(str, wrong))
