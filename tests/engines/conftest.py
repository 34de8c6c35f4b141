"""A Postgres server and a Spark session of the tests' own; where there is none, tests that need it say so."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "runtime")]  # `servers`, and `plans`

from servers import PASSWORD, Server  # noqa: E402


def _programs() -> Path | None:
    """The folder with `initdb` and `pg_ctl`, which distributions keep out of the way."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests."""
    with contextmanager(_server)() as started:
        yield started


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that a test may stop."""
    with contextmanager(_server)() as started:
        yield started


def _server() -> Iterator[Server]:
    """A server in a temporary folder; servers refuse to run as root, so root asks another user."""
    pytest.importorskip("psycopg", reason="Postgres needs the extra `postgres`")
    programs = _programs()
    if programs is None:
        pytest.skip("no Postgres server is installed here (`postgres`, `initdb`)")
    prefix: tuple[str, ...] = ()
    folder = Path(tempfile.mkdtemp(prefix="policyc-postgres-"))
    if os.geteuid() == 0:
        prefix = ("runuser", "-u", "nobody", "--")
        shutil.chown(folder, "nobody")
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    made = Server(folder, port, prefix, programs)
    options = ["-U", "tests", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8"]
    made.run("initdb", "-D", str(folder / "data"), *options)
    made.start()
    try:
        yield made
    finally:
        with suppress(subprocess.CalledProcessError):  # a test stopped it
            made.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def spark() -> None:
    """Spark on two cores of this machine, quickly: few partitions, no pages to look at."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("Spark needs the extra `spark`")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none here")
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=4 "
        "--conf spark.sql.adaptive.enabled=true --conf spark.driver.bindAddress=127.0.0.1 "
        f"--conf spark.driver.host=127.0.0.1 --conf spark.sql.warehouse.dir={tempfile.gettempdir()}/warehouse "
        "pyspark-shell"
    )
