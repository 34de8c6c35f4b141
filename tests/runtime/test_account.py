"""The account of a data set: sums by another route, racing commits, kills, copies and altered bytes."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from policyc import PolicyError, compile_policy
from policyc.planning.joint_promise import joint_promise
from policyc_check.plan.plan import Plan
from policyc_check.users.claims import stream_profile
from policyc_runtime.account import Account
from policyc_runtime.account_bound import Bound, repeated, said
from policyc_runtime.account_claims import account_claims
from policyc_runtime.errors import AccountError

BOUNDED = "\nparticipation at_most(3 steps, enforced = keep_first)"
USERS = "target user_level(epsilon = {epsilon}, delta = {delta}, neighbors = add_remove)" + BOUNDED
POLICY = """policy trips "trips"

stream trips {{
  user     rider
  time     at
  step     1d
  horizon  10 steps
  start    "2026-01-01"
  dataset  city
}}

release rides = count(trips)

{promise}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("policies")


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder that no disk slows down, where there is one: races need none."""
    memory = Path("/dev/shm")
    folder = Path(mkdtemp(dir=memory)) if memory.is_dir() else tmp_path
    yield folder
    shutil.rmtree(folder)


def compiled(folder: Path, promise: str, **changes: str) -> Plan:
    text = POLICY.format(promise=promise)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    file = folder / "trips.policy"
    file.write_text(text)
    return compile_policy(file).plan


def users(epsilon: str = "1.0", delta: str = "1e-6") -> str:
    return USERS.format(epsilon=epsilon, delta=delta)


def begun(tmp_path: Path, promise: str, dataset: str = "city") -> Path:
    file = tmp_path / "city.account"
    Account.create(file, joint_promise(dataset, promise))
    return file


def test_losses_without_delta_add_up(folder: Path, tmp_path: Path) -> None:
    """Two plans of 0.4 and 0.6 fit into 1, exactly; a third of any size does not."""
    file = begun(tmp_path, "user_level(epsilon = 1.0, delta = 0, neighbors = add_remove)")
    plans = [compiled(folder, users(epsilon, "0")) for epsilon in ("0.4", "0.6", "0.001")]
    with Account.open(file) as account:
        for plan in plans[:2]:
            account.request(plan)
        scales = [Fraction(plan.releases[0].mechanism.model_dump()["scale"]) for plan in plans[:2]]
        told = float(sum(3 / scale for scale in scales))  # three steps of one user, each moved by one
        assert account.standing().requested == pytest.approx(told, rel=1e-12)
        with pytest.raises(AccountError, match="not so much left"):
            account.request(plans[2])
        assert [entry.what for entry in account.entries] == ["requested", "requested"]


def test_budgets_of_steps_add_up(folder: Path, tmp_path: Path) -> None:
    file = begun(tmp_path, "event_level(epsilon = 1.0)")
    plans = [compiled(folder, f"target event_level(epsilon = {epsilon})") for epsilon in ("0.7", "0.3", "0.01")]
    with Account.open(file) as account:
        for plan in plans[:2]:
            account.request(plan)
        assert account.standing().left == pytest.approx(0.0, abs=1e-12)
        with pytest.raises(AccountError, match="not so much left"):
            account.request(plans[2])


def test_sums_of_decimals_are_said_as_decimals(folder: Path, tmp_path: Path) -> None:
    """0.1 and 0.2 are 0.3, and 0.3 of 0.4 leave 0.1; what is no decimal of few digits is rounded against us."""
    with Account.open(begun(tmp_path, "event_level(epsilon = 0.4)")) as account:
        for name, epsilon in (("one", "0.1"), ("two", "0.2")):
            account.spend(compiled(folder, f"target event_level(epsilon = {epsilon})"), name, begun=False)
        assert account.standing() == (0.0, 0.3, Decimal("0.4"), 0.1)
        assert account.bound.spent(account.charges()) == 0.3
    (whole,) = [claim.detail for claim in account_claims(tmp_path / "city.account") if "together" in claim.name]
    assert whole == "recomputed 0.3 spent, of 0.4"
    for value in (Fraction(1, 3), Fraction(2, 3), Fraction(3, 10), Fraction(0), Fraction(1, 7)):
        assert value <= Fraction(repr(said(value))) < value + Fraction(1, 10**15)


def test_budgets_have_no_delta() -> None:
    """An account of budgets that names a delta or neighbors would say something else than it holds."""
    for more in ("delta = 1e-6", "neighbors = add_remove"):
        with pytest.raises(PolicyError) as refused:
            joint_promise("city", f"event_level(epsilon = 1.0, {more})")
        assert [finding.code for finding in refused.value.diagnostics] == ["E0896"]


def gaussian_curve(variance: float, changes: int, epsilon: float, reach: int = 400) -> float:
    """The delta of so many numbers, each moved by one under discrete Gaussian noise, by adding up every result."""
    noise = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    noise /= noise.sum()
    total = noise
    for _ in range(changes - 1):
        total = np.convolve(total, noise)
    results = np.arange(len(total)) - changes * reach
    loss = (2 * results + changes) / (2 * variance)
    return float((total * np.maximum(0.0, -np.expm1(epsilon - loss))).sum())


def test_two_gaussian_plans_lose_what_their_noise_says(folder: Path) -> None:
    """Equal noise twice is six numbers moved by one; the account's delta is that, from above, and not far above."""
    plan = compiled(folder, users(), **{"release rides": "mechanism gaussian()\nrelease rides"})
    variance = float(plan.releases[0].mechanism.model_dump()["stddev"]) ** 2
    twice = repeated(stream_profile(plan, plan.targets[0]), 2)
    for epsilon in (0.3, 1.0, 1.6):
        true = gaussian_curve(variance, 6, epsilon)
        assert true <= twice.delta(epsilon) <= 1.01 * true + 1e-12


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "binomial", "common_noise"])
@pytest.mark.parametrize("times", [2, 5])
def test_repeated_noise_is_noise_composed(folder: Path, noise: str, times: int) -> None:
    plan = compiled(folder, users(), **{"release rides": f"mechanism {noise}()\nrelease rides"})
    one = stream_profile(plan, plan.targets[0])
    composed = one
    for _ in range(times - 1):
        composed = composed.compose(one)
    for epsilon in (0.5, 2.0, 4.0):
        assert repeated(one, times).delta(epsilon) == pytest.approx(composed.delta(epsilon), rel=2e-3, abs=1e-14)
        assert repeated(one, times).delta(epsilon) >= one.delta(epsilon)


def test_what_is_spent_is_what_just_fits(folder: Path, tmp_path: Path) -> None:
    """An account of the printed epsilon takes both plans, and one a little smaller does not."""
    plans = [compiled(folder, users(epsilon)) for epsilon in ("0.5", "1.0")]
    for times in product((1, 2), repeat=2):
        charges = list(zip(plans, times, strict=True))
        told = joint_promise("city", users("9").split("target ")[1].split("\n")[0]).spent(charges)
        assert told is not None
        for factor, fits in ((1.0, True), (1 - 2e-3, False)):
            promise = f"user_level(epsilon = {Decimal(told * factor):.12f}, delta = 1e-6, neighbors = add_remove)"
            assert joint_promise("city", promise).keeps(charges) is fits


def test_rho_adds_up(folder: Path, tmp_path: Path) -> None:
    promise = (
        "target user_level(rho = {rho}, neighbors = add_remove)\nparticipation at_most(3 steps, enforced = keep_first)"
    )
    plans = [compiled(folder, promise.format(rho=rho)) for rho in ("0.01", "0.02")]
    with Account.open(begun(tmp_path, "user_level(rho = 0.03, neighbors = add_remove)")) as account:
        for plan in plans:
            account.request(plan)
        standing = account.standing()
        assert standing.requested == pytest.approx(0.03, rel=1e-3)
        assert standing.requested <= 0.03


@pytest.mark.parametrize(
    ("bound", "promise", "changes", "reason"),
    [
        ("event_level(epsilon = 9)", users(), {}, "about all events of a user"),
        (
            "user_level(epsilon = 9, delta = 1e-6, neighbors = replace)",
            "target event_level(epsilon = 1)",
            {},
            "by budg",
        ),
        ("event_level(epsilon = 9)", "target event_level(epsilon = 1, delta = 1e-6)", {}, "without budgets"),
        (
            "user_level(epsilon = 9, delta = 1e-6, neighbors = replace)",
            "target event_level(epsilon = 1, delta = 1e-6)",
            {},
            "without budgets",
        ),
        ("event_level(epsilon = 9)", "target event_level(epsilon = 1)", {"dataset  city": ""}, "names no data set"),
        ("event_level(epsilon = 9)", "target event_level(epsilon = 1)", {"  city": "  town"}, "data set `town`"),
        (
            "user_level(epsilon = 9, delta = 0, neighbors = add_remove)",
            users(),
            {"release rides": "mechanism gaussian()\nrelease rides"},
            "no limit is known",
        ),
        (
            "user_level(epsilon = 9, delta = 1e-6, neighbors = add_remove, per = 1d)",
            users(),
            {},
            "not about the same periods",
        ),
    ],
)
def test_what_does_not_add_up_is_refused(
    folder: Path, tmp_path: Path, bound: str, promise: str, changes: dict[str, str], reason: str
) -> None:
    with Account.open(begun(tmp_path, bound)) as account:
        found = account.reason_against(compiled(folder, promise, **changes))
        assert found is not None
        assert reason in found


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"user     rider": "user     phone"}, "same"),
        ({"2026-01-01": "2026-01-02T06:00"}, "other moments"),
        ({"2026-01-01": "2026-01-04"}, None),
        ({'start    "2026-01-01"': 'start    "2026-01-01"\n  clock "UTC"'}, "another clock"),
    ],
)
def test_periods_are_the_same_ones(folder: Path, tmp_path: Path, changes: dict[str, str], reason: str | None) -> None:
    promise = (
        "target user_level(epsilon = 1, delta = 1e-6, neighbors = add_remove, per = 1d)\n"
        "participation at_most(1 step, per = 1d, enforced = keep_first)"
    )
    bound = "user_level(epsilon = 9, delta = 1e-6, neighbors = add_remove, per = 1d)"
    with Account.open(begun(tmp_path, bound)) as account:
        account.request(compiled(folder, promise))
        found = account.reason_against(compiled(folder, promise, **changes))
        assert (found is None) == (reason is None)
        assert reason is None or reason in (found or "")


def test_windows_have_the_same_steps(folder: Path, tmp_path: Path) -> None:
    promise = "target w_event(epsilon = 0.5, window = 4 steps)"
    with Account.open(begun(tmp_path, "w_event(epsilon = 1.0, window = 4 steps)")) as account:
        account.request(compiled(folder, promise))
        assert "its steps are not" in (account.reason_against(compiled(folder, promise, **{"1d": "2d"})) or "")
        account.request(compiled(folder, promise, **{"horizon  10": "horizon  20"}))
        assert account.standing().left == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("bound", ["event_level(epsilon = 9)", "w_event(epsilon = 9, window = 1 steps)"])
@pytest.mark.parametrize(
    ("changes", "hours"),
    [
        ({}, (24, 0)),
        ({"1d": "1h"}, (1, 0)),
        ({"1d": "2d"}, (48, 0)),
        ({"2026-01-01": "2026-01-01T12:00:00"}, (24, 12)),
    ],
)
def test_single_steps_are_the_same_ones(
    folder: Path, tmp_path: Path, bound: str, changes: dict[str, str], hours: tuple[int, int]
) -> None:
    """A plan is taken where no step of either touches two of the other, as an enumeration of all hours has it."""
    promise = f"target {bound.replace('9', '1')}"
    with Account.open(begun(tmp_path, bound)) as account:
        account.request(compiled(folder, promise))
        found = account.reason_against(compiled(folder, promise, **changes))
    steps = [(hour // 24, (hour - hours[1]) // hours[0]) for hour in range(24 * 8)]
    touched = max(len({step[1 - side] for step in steps if step[side] == at}) for side in (0, 1) for at in (2, 3))
    assert (found is None) == (touched == 1)
    assert found is None or "its steps are not those" in found


@pytest.mark.parametrize(
    ("target", "together"),
    [
        ("event_level(epsilon = 1)", False),
        ("w_event(epsilon = 1, window = 2 steps)", False),
        ("user_level(epsilon = 1, delta = 1e-6, neighbors = add_remove, per = 1d)", False),
        ("user_level(epsilon = 1, delta = 1e-6, neighbors = add_remove)", True),
    ],
)
def test_steps_are_told_by_one_column(folder: Path, tmp_path: Path, target: str, together: bool) -> None:
    """Trips of one day by when they began end on two days; all of a user is all of it by any column."""
    trips = [(hour, hour + long) for hour in range(24 * 4) for long in range(3)]
    touched = max(len({end // 24 for begin, end in trips if begin // 24 == day}) for day in range(4))
    assert touched == 2
    bound = "participation at_most(1 step, per = 1d, enforced = keep_first)" if "per" in target else ""
    bound = "participation at_most(9 steps, enforced = keep_first)" if together else bound
    promise = f"target {target}\n{bound}"
    with Account.open(begun(tmp_path, target.replace("1,", "9,").replace("= 1)", "= 9)"))) as account:
        account.request(compiled(folder, promise))
        assert account.reason_against(compiled(folder, promise)) is None
        found = account.reason_against(compiled(folder, promise, **{"time     at": "time     left_at"}))
    assert (found is None) == together
    assert found is None or "its steps are told by column `left_at`" in found


def test_a_plan_without_a_start_is_run_once(folder: Path, tmp_path: Path) -> None:
    """On another ledger its steps may begin at another moment, and one touch two of the first."""
    plan = compiled(folder, "target event_level(epsilon = 0.4)", **{'  start    "2026-01-01"\n': ""})
    with Account.open(begun(tmp_path, "event_level(epsilon = 1.0)")) as account:
        account.request(plan)
        account.spend(plan, "first", begun=False)
        assert all(claim.holds for claim in account_claims(account.path))
        with pytest.raises(AccountError) as refused:
            account.spend(plan, "second", begun=False)
    assert refused.value.code == "E0893"


def test_a_run_spends_what_was_requested_and_each_ledger_anew(folder: Path, tmp_path: Path) -> None:
    plan = compiled(folder, "target event_level(epsilon = 0.4)")
    with Account.open(begun(tmp_path, "event_level(epsilon = 1.0)")) as account:
        account.request(plan)
        account.request(plan)
        for _ in range(2):
            account.spend(plan, "first", begun=False)
        assert (account.requested, len(account.spent)) == ([], 1)
        account.spend(plan, "second", begun=False)
        with pytest.raises(AccountError, match="not so much left"):
            account.spend(plan, "third", begun=False)
        with pytest.raises(AccountError, match="no such request") as refused:
            account.withdraw(plan.digest)
        assert refused.value.because == "what was drawn cannot be taken back"
        assert account.standing().spent == pytest.approx(0.8)


def test_an_older_copy_is_refused_by_the_next_run(folder: Path, tmp_path: Path) -> None:
    plan = compiled(folder, "target event_level(epsilon = 0.4)")
    file = begun(tmp_path, "event_level(epsilon = 1.0)")
    shutil.copy(file, tmp_path / "older")
    with Account.open(file) as account:
        account.spend(plan, "first", begun=False)
    shutil.copy(tmp_path / "older", file)
    with Account.open(file) as account, pytest.raises(AccountError, match="does not know") as refused:
        account.spend(plan, "first", begun=True)
    assert refused.value.code == "E0891"


def test_every_altered_byte_of_an_entry_is_found(folder: Path, tmp_path: Path) -> None:
    file = begun(tmp_path, "event_level(epsilon = 1.0)")
    plan = compiled(folder, "target event_level(epsilon = 0.4)")
    with Account.open(file) as account:
        account.request(plan)
        account.spend(plan, "first", begun=False)
    whole = file.read_bytes()
    places = [whole.rindex(b"first") + i for i in range(5)] + [whole.index(plan.digest.encode()) + i for i in (0, 63)]
    places += [whole.index(b'"epsilon":"1.0"') + 12, whole.index(b"0.4"), whole.index(b"requested")]
    for place in places:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert any(claim.holds is False for claim in account_claims(file))
        with pytest.raises(AccountError), Account.open(file) as account:
            account.spend(plan, "second", begun=False)


@pytest.mark.parametrize(
    "change",
    ["UPDATE meta SET value = x'ff' WHERE name = 'account'", "UPDATE entry SET ledger = x'ff'",
     "UPDATE plan SET text = x'ff'", "UPDATE entry SET plan = CAST(x'ff' AS TEXT)", "UPDATE entry SET moment = 7"],
)  # fmt: skip
def test_values_that_no_account_has_are_refused(folder: Path, tmp_path: Path, change: str) -> None:
    """As bytes in place of text, put in by somebody who takes the rules away and puts them back."""
    file = begun(tmp_path, "event_level(epsilon = 1.0)")
    plan = compiled(folder, "target event_level(epsilon = 0.4)")
    with Account.open(file) as account:
        account.request(plan)
    with sqlite3.connect(file) as connection:
        rules = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in rules:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(change)
        for _, rule in rules:
            connection.execute(rule)
    for to_write in (False, True):
        with pytest.raises(AccountError) as refused:
            Account.open(file, to_write=to_write)
        assert refused.value.code in {"E0890", "E0891"}
        assert "restore the newest copy" in str(refused.value.help)


@pytest.mark.parametrize("content", [b"", b"no", b"SQLite format 3\0" + bytes(84), os.urandom(4096)])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(AccountError) as refused:
        Account.open(file)
    assert refused.value.code == "E0890"
    assert file.read_bytes() == content


def test_an_account_is_never_begun_over_a_file(tmp_path: Path) -> None:
    file = begun(tmp_path, "event_level(epsilon = 1.0)")
    whole = file.read_bytes()
    with pytest.raises(AccountError, match="cannot be used"):
        begun(tmp_path, "event_level(epsilon = 2.0)")
    assert file.read_bytes() == whole


def test_a_plan_that_was_weakened_in_the_account_is_named(folder: Path, tmp_path: Path) -> None:
    """Somebody rewrites the file with fitting hashes: the plan's own claims do not hold."""
    plan = compiled(folder, "target event_level(epsilon = 0.4)")
    record = plan.model_dump(mode="json")
    scale = record["releases"][0]["schedule"]["segments"][0]["scales"][0]
    record["releases"][0]["schedule"]["segments"][0]["scales"] = [str(Decimal(scale) / 2)]
    forged = type(plan).model_validate(record).sealed()
    file = begun(tmp_path, "event_level(epsilon = 1.0)")
    with Account.open(file) as account:
        account.request(forged)
    assert [claim.code for claim in account_claims(file) if claim.holds is False] == ["E0891"]


RACING = """
import sys
from pathlib import Path
from policyc_runtime.account import Account
from policyc_runtime.account_reader import account_plan
from policyc_runtime.errors import AccountError

file, text, first, count = Path(sys.argv[1]), Path(sys.argv[2]).read_text(), int(sys.argv[3]), int(sys.argv[4])
plan, entered = account_plan(text), 0
with Account.open(file) as account:
    for number in range(first, first + count):
        try:
            account.spend(plan, str(number), begun=False)
            entered += 1
        except AccountError as error:
            assert error.code == "E0894", error.code
print(entered)
"""


def racing(file: Path, plan: Plan, first: int, count: int) -> subprocess.Popen[str]:
    """A process that enters so many runs of a plan, and prints how many it could."""
    text = file.with_suffix(".json")
    text.write_text(plan.to_json())
    command = [sys.executable, "-c", RACING, str(file), str(text), str(first), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("processes", "commits", "most"),
    [(2, 120, 80), pytest.param(8, 10_000, 9_000, marks=pytest.mark.law)],
    ids=["few", "ten thousand"],
)
def test_racing_commits_never_overspend(folder: Path, in_memory: Path, processes: int, commits: int, most: int) -> None:
    plan = compiled(folder, f"target event_level(epsilon = {Decimal(1) / most:.6f})")
    file = begun(in_memory, "event_level(epsilon = 1.0)")
    each, spent = commits // processes, float(plan.releases[0].schedule.segments[0].epsilons[0])  # type: ignore[union-attr]
    running = [racing(file, plan, number * each, each) for number in range(processes)]
    entered = sum(int(process.communicate(timeout=900)[0]) for process in running)
    assert entered == math.floor(1 / spent + 1e-9)
    with Account.open(file, to_write=False) as account:
        assert len(account.spent) == len({entry.ledger for entry in account.spent}) == entered
        assert account.bound.keeps(account.charges())
        assert account.standing().spent == pytest.approx(entered * spent)


@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.law)])
def test_commits_that_are_killed_leave_a_whole_account(folder: Path, tmp_path: Path, kills: int) -> None:
    plan = compiled(folder, "target event_level(epsilon = 0.0001)")
    file = begun(tmp_path, "event_level(epsilon = 1.0)")
    before = 0
    for number in range(kills):
        process = racing(file, plan, 1000 * number, 1000)
        until = time.monotonic() + 120
        while len(_entries(file)) <= before + 2 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(0.003 * number)
        process.kill()
        process.communicate()
        with Account.open(file) as account:
            assert len(account.entries) > before
            before = len(account.entries)
    assert all(claim.holds for claim in account_claims(file))


def _entries(file: Path) -> list[object]:
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=30)
    try:
        return connection.execute("SELECT number FROM entry").fetchall()
    finally:
        connection.close()


def test_a_bound_says_what_it_is() -> None:
    def told(promise: str) -> str:
        return joint_promise("city", promise).described()

    assert told("event_level(epsilon = 1)") == "one user in one step: 1 nats"
    assert told("w_event(epsilon = 1, window = 12 steps)") == "one user in any 12 steps in a row: 1 nats"
    assert "in one period of 1 week: rho 0.1" in told("user_level(rho = 0.1, neighbors = replace, per = 1w)")
    assert isinstance(joint_promise("city", "event_level(epsilon = 1)"), Bound)
