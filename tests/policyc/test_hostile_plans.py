"""A plan that somebody wrote by hand, with a right digest: refused with one message, at once, by every command.

So are an audit and signatures beside a plan.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from policyc import cli, compile_policy
from policyc.cli import plans, releases
from policyc.cli.exit import guarded
from policyc.diagnostics import PolicyError
from policyc.emit import sign, signature_claims, signing_keys
from policyc.emit.audit import _audit
from policyc.emit.beside import read_beside
from policyc.emit.difference import compare_plans
from policyc.emit.directory import rewrite_certificate
from policyc.emit.signatures import ENVELOPE, Signer
from policyc_check.claims import Claim
from policyc_check.errors import KernelError
from policyc_runtime.laboratory.empirical import AUDIT, AuditRecord, audit
from policyc_runtime.laboratory.events import write_events
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.release import release

Some = Callable[[Iterable[Any], int], list[Any]]
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
    "w_event, added": STREAM.replace(' otherwise "away"', "").replace("  population 200\n", "")
    + "release present = count(stays) by ward\ntarget w_event(epsilon = 1.0, window = 3 steps, delta = 1e-6, "
    + "neighbors = add_remove)\nmechanism budget_distribution()\ndeliver realtime\n",
    "gaussian": USERS + "release total = prefix(present)\nmechanism gaussian()\n",
    "laplace": USERS + "mechanism laplace()\n",
    "binomial": USERS + "mechanism binomial()\n",
    "dft": USERS + "mechanism dft(coefficients = 4)\n",
    "fast": USERS + "mechanism fast(samples = 6)\n",
    "lmmse": USERS + "mechanism lmmse(weight = 0.5)\ndeliver realtime\n",
    "autoregressive": USERS + "signal ar(coefficients = [0.9, -0.4], sd = 9, mean = 40)\nmechanism lmmse()\n",
    "autocovariance": USERS
    + "signal autocovariance(lags = [81, 40, 10], mean = 40)\nmechanism gaussian()\nestimate smoother()\n",
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


def commands(directory: Path, original: Plan, events: Path) -> dict[str, Callable[[], object]]:
    """What every command that reads a plan does with it; `release` is what is behind `run`, without its files."""
    output = directory.parent / "out.csv"

    def run() -> None:
        cli.run(directory, str(events), str(output), None, steps=3)

    def released() -> None:
        done = release(load_plan(directory), events, directory.parent / "ledger", steps=3, output=output, pin=None)
        write_release(done, output)

    def compared() -> None:
        compare_plans(original, load_plan(directory))
        compare_plans(load_plan(directory), original)

    return {
        "verify": lambda: [claim.holds for claim in releases.claims_of(directory, None, None, [])],
        "show": lambda: cli.show(directory, plans.TableFormat.TABLE),
        "simulate": lambda: cli.simulate(directory, 0, 1, None, None, None),
        "simulate --events": lambda: cli.simulate(directory, 0, 1, None, str(directory.parent / "drawn.csv"), 3),
        "run": run,
        "release": released,
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", POLICIES)
def test_extremes_are_refused_at_once(name: str, tmp_path: Path, full: bool, some: Some) -> None:
    """Each leaf of a plan at its extremes, resealed: every command ends in seconds, with a refusal or a true result."""
    if not full and name not in ("alpha", "gaussian"):
        pytest.skip("all mechanisms with --full")
    (tmp_path / "p.policy").write_text(POLICIES[name])
    made = compile_policy(tmp_path / "p.policy")
    directory = made.save(tmp_path / "p.plan")
    write_events(made.plan, 1, tmp_path / "events.csv", steps=3)
    content = json.loads(made.plan.to_json())
    kept = {tmp_path / "p.policy", tmp_path / "events.csv", directory}
    tried = [(path, value) for path, old in leaves(content) if path != ("digest",) for value in extremes(old)]
    if not full:
        tried = random.Random(20261121).sample(tried, 100)
    files = {path: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    assert all(claim.holds for claim in releases.claims_of(directory, None, None, []))
    wrong = []
    for path, value in some(tried, 4):
        for path_made in [*tmp_path.iterdir(), *directory.iterdir()]:
            if path_made not in kept and path_made not in files:
                shutil.rmtree(path_made) if path_made.is_dir() else path_made.unlink()
        for file, original in files.items():
            if file.read_bytes() != original:
                file.write_bytes(original)
        text = resealed(replaced(content, path, value))
        (directory / "plan.json").write_text(text)
        same = text == made.plan.to_json()
        for command, act in commands(directory, made.plan, tmp_path / "events.csv").items():
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


LISTS = ([], {}, None, 1, "x", [[]], [None])
BYTES = (b"", b"\x00", b"\xff\xfe", b"[", b"[" * 100_000, b'{"a":' * 50_000, b"NaN", b"1e999", b"null", b"{}", b"[]")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan with an audit, and somebody's signature."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "p.policy").write_text(POLICIES["laplace"])
    made = compile_policy(folder / "p.policy").save(folder / "p.plan")
    (made / AUDIT).write_text(audit(load_plan(made), "2026-11-21", 40, seed=1).render())
    guarded(lambda: cli.app(["certificate", str(made)]))
    signing_keys.new_key(folder / "officer")
    sign(made, folder / "officer", str, Signer("Ada Bell", "2026-11-21", "officer", "Town"))
    return made


def inner(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where lists and objects stand."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, dict | list):
            yield (*path, key)
            yield from inner(item, (*path, key))


def mutated(content: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Places with what is put there."""
    for path, old in leaves(content):
        yield from ((path, value) for value in extremes(old))
    for path in inner(content):
        yield from ((path, value) for value in LISTS)


def checked(directory: Path) -> list[Claim]:
    """What `verify` says of audit and signatures, and what pages take from them."""
    plan = load_plan(directory)
    claims = [*_audit(directory, plan, quick=True), *signature_claims(directory)]
    read_beside(directory, (directory / "certificate.json").read_text())
    return claims


def wrong(directory: Path, name: str, content: bytes) -> str | None:
    """What is wrong about how one content of a file is taken; None when it is refused."""
    path, original = directory / name, (directory / name).read_bytes()
    path.write_bytes(content)
    try:
        with at_most(SECONDS):
            claims = checked(directory)
        return None if content == original or any(claim.holds is False for claim in claims) else "believed"
    except KernelError:
        return None
    except Exception as error:
        return repr(error)[:200]
    finally:
        path.write_bytes(original)


def sealed(content: Any) -> bytes:
    """An audit with a right digest, where its fields are those of one."""
    try:
        return AuditRecord.model_validate_json(json.dumps(content)).sealed().render().encode()
    except ValueError:
        return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode(errors="surrogatepass")


def test_extremes_of_an_audit_are_refused(directory: Path, some: Some) -> None:
    """Each leaf of audit.json at its extremes, resealed: refused; what is not is of another audit that may be."""
    content = json.loads((directory / AUDIT).read_text())
    assert [claim for claim in checked(directory) if claim.holds is False] == []
    found = []
    for path, value in some(mutated(content), 30):
        if path == ("digest",):
            continue
        said = wrong(directory, AUDIT, sealed(replaced(content, path, value)))
        if said == "believed" and path[-1] in ("seed", "hits", "false_alarms"):  # counting again tells, not `--quick`
            continue
        if said is not None:
            found.append((path, str(value)[:20], said))
    assert not found, "\n".join(map(str, found))


def test_extremes_of_signatures_are_refused(directory: Path, some: Some) -> None:
    """Each leaf of the envelope and of the statement in it at its extremes: refused."""
    content = json.loads((directory / ENVELOPE).read_text())
    statement = json.loads(base64.b64decode(content[0]["payload"]))
    found = []
    tried = [replaced(content, path, value) for path, value in mutated(content)]
    for path, value in mutated(statement):
        text = json.dumps(replaced(statement, path, value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        payload = base64.b64encode(text.encode(errors="surrogatepass")).decode()
        tried.append(replaced(content, (0, "payload"), payload))
    tried += [content * 200, [*content, *content]]
    assert len(tried) > 80
    for other in some(tried, 30):
        text = json.dumps(other, indent=1, sort_keys=True) + "\n"
        if (said := wrong(directory, ENVELOPE, text.encode())) is not None:
            found.append((text[:300], said))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("name", [AUDIT, ENVELOPE])
def test_what_is_no_json_is_refused(name: str, directory: Path) -> None:
    """Bytes of any kind in the place of a record are refused."""
    assert [wrong(directory, name, content) for content in BYTES] == [None] * len(BYTES)


@pytest.mark.parametrize("name", [AUDIT, ENVELOPE])
def test_the_command_ends_in_one_message(name: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`verify` of extremes that are read differently exits 1, and what it prints moves no cursor."""
    path, original = directory / name, (directory / name).read_bytes()
    changed = original.decode().replace("2026-11-21", "\\u001b[2J\\u202e"), "[]\n", "\x00", "9" * 10**6
    try:
        for content in changed:
            path.write_text(content)
            if path.read_bytes() == original:
                continue
            code = guarded(lambda: cli.app(["verify", str(directory), "--quick"]))
            shown = capsys.readouterr()
            assert code == 1
            assert shown.err.count("error[") == 1
            assert not set("\x1b\u202e\x00") & set(shown.out + shown.err)
    finally:
        path.write_bytes(original)
