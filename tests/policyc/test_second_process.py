"""What a second process does beside other work is what is done without it, and nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.second_process import Beside

ROOT = Path(__file__).parents[2]
POLICIES = sorted((ROOT / "policies").rglob("*.policy"))
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is no second process")
CORES = "os.sched_getaffinity = lambda _: set(range({}))\n"  # so many, however many there are
ALLOWED = "import os, signal, sys, time\nfrom policyc.second_process import allow_second_process, beside\n"


def said(program: str, *, allowed: bool = True) -> str:
    """What a program prints that may have second processes, or may not."""
    first = f"{ALLOWED}{CORES.format(2)}{'allow_second_process()' if allowed else ''}\n"
    done = subprocess.run(
        [sys.executable, "-c", first + program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@on_linux
def test_work_is_done_by_another_process_and_handed_over() -> None:
    program = """
with beside(lambda: (os.getpid(), list(range(100_000)))) as begun:
    assert begun.elsewhere
    other, numbers = begun.found()
print(other != os.getpid(), numbers == list(range(100_000)))
"""
    assert said(program) == "True True\n"


@pytest.mark.parametrize(
    "before",
    [
        CORES.format(1),
        "sys.platform = 'darwin'",
        "def none(): raise BlockingIOError\nos.fork = none",
        "def none(): raise OSError(24, 'too many open files')\nos.pipe = none",
    ],
    ids=["one core", "another system", "no more processes", "no more files"],
)
def test_without_another_process_the_work_is_done_here(before: str) -> None:
    program = f"""
{before}
with beside(os.getpid) as begun:
    assert not begun.elsewhere
    print(begun.found() == os.getpid())
"""
    assert said(program) == "True\n"


def test_from_python_there_is_none() -> None:
    """Threads of whoever calls may hold what a fork waits for."""
    program = "with beside(os.getpid) as begun: print(begun.elsewhere, begun.found() == os.getpid())"
    assert said(program, allowed=False) == "False True\n"


@on_linux
@pytest.mark.parametrize(
    "end",
    ["os.kill(os.getpid(), signal.SIGKILL)", "raise KeyboardInterrupt", "raise MemoryError", "os._exit(3)"],
)
def test_what_ends_without_a_result_is_done_here(end: str) -> None:
    program = f"""
here = os.getpid()
def work():
    if os.getpid() != here:
        {end}
    return 7
with beside(work) as begun:
    print(begun.found())
"""
    assert said(program) == "7\n"


@on_linux
def test_what_it_raises_is_raised_here() -> None:
    program = """
def work(): raise ValueError("here")
try:
    with beside(work) as begun: begun.found()
except ValueError as error: print(error)
"""
    assert said(program) == "here\n"


@pytest.mark.parametrize("content", [b"", b"\x05", (9).to_bytes(8, "little") + b"short", (1).to_bytes(8, "little")])
def test_half_a_result_is_none(content: bytes) -> None:
    assert Beside(lambda: 7, lambda: content).found() == 7


@on_linux
def test_what_nobody_asks_for_is_given_up() -> None:
    program = """
with beside(lambda: time.sleep(600)):
    pass
try: os.wait()
except ChildProcessError: print("nobody is left")
"""
    assert said(program) == "nobody is left\n"


@on_linux
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_process_that_asked(end: signal.Signals, tmp_path: Path) -> None:
    """And so does what it asked for itself: nobody waits for either."""
    program = f"""{ALLOWED}{CORES.format(2)}
from pathlib import Path
allow_second_process()
def inner():
    Path("inner").write_text(str(os.getpid())); time.sleep(600)
def outer():
    Path("outer").write_text(str(os.getpid()))
    with beside(inner) as begun: begun.found()
with beside(outer) as begun: begun.found()
"""
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    ends = [_written(tmp_path / name) for name in ("outer", "inner")]
    process.send_signal(end)
    process.wait(60)
    _until(lambda: not any(_alive(int(one)) for one in ends))


@on_linux
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended_leaves_nobody_behind(end: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C goes to all of them at a terminal, and one alone says so."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import os\n{CORES.format(2)}fork = os.fork\n"
        "def told():\n"
        "    child = fork()\n"
        f"    if child: open(r'{tmp_path / 'children'}', 'a').write(f'{{child}}\\n')\n"
        "    return child\n"
        "os.fork = told\n"
    )
    policy = ROOT / "policies" / "fleet.policy"
    program = f"""
import signal, sys
from policyc.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored where these tests run in the background
sys.argv = ["policyc", "compile", r"{policy}", "-o", r"{tmp_path / "x.plan"}"]
main()
"""
    command = [sys.executable, "-c", program]
    paths = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, "PYTHONPATH": paths}
    )
    children = _written(tmp_path / "children").split()
    if end == signal.SIGINT:
        os.killpg(process.pid, end)
    else:
        process.send_signal(end)
    _, errors = process.communicate(timeout=60)
    told = "interrupted; what was drawn or written before is kept, run the same command again\n"
    assert errors == (told if end == signal.SIGINT else "")
    _until(lambda: not any(_alive(int(one)) for one in children))


@on_linux
@pytest.mark.sampled(2, laws=len(POLICIES))
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.stem)
def test_a_plan_is_the_same_with_one_core(policy: Path, tmp_path: Path) -> None:
    """To the byte: nothing that is remembered in one process alone changes a digit."""
    plans = []
    for cores in (1, 2):
        program = f"""
import os, sys
{CORES.format(cores)}
from policyc.cli import main
sys.argv = ["policyc", "compile", r"{policy}", "-o", "plan{cores}.plan"]
main()
"""
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        plans.append((tmp_path / f"plan{cores}.plan" / "plan.json").read_bytes())
    assert plans[0] == plans[1]


def _written(path: Path) -> str:
    """What a file says once it is there, whole."""
    found: list[str] = []

    def there() -> bool:
        found[:] = [path.read_text()] if path.exists() else []
        return bool(found and found[0])

    _until(there)
    return found[0]


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # ended, and nobody asked yet
