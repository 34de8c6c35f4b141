"""A server that is running, as tests know it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "s3cr3t-of-the-tests"


@dataclass(frozen=True)
class Server:
    """A running server of Postgres, whose role `reader` may read and make temporary tables."""

    folder: Path
    port: int
    prefix: tuple[str, ...]
    programs: Path

    def url(self, table: str, *, password: str = PASSWORD, role: str = "tests", database: str = "postgres") -> str:
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}?table={table}"

    def start(self) -> None:
        """Without waiting for what it writes to be on disk: it is gone with the tests."""
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"
        self.run(
            "pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options, "start"
        )

    def stop(self, how: str) -> None:
        """`fast`: it tells whoever is connected; `immediate`: it does not."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", how, "stop")

    def run(self, program: str, *arguments: str) -> None:
        """One of its programs."""
        command = [*self.prefix, str(self.programs / program), *arguments]
        subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def connect(self):
        import psycopg

        address = f"postgresql://tests:{PASSWORD}@127.0.0.1:{self.port}/postgres"
        return psycopg.connect(address, autocommit=True)
